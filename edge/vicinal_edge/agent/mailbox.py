"""The one mailbox of a CAN controller, shared by a COSMIC node and plain frames of a mapping.

    node  ──load()──▶ its frame ──┐
                                  ├──▶ the lower identifier ──▶ controller
    put() ──────────▶ by identifier ┘        ▲ taken out again for one that the bus would let through first

The node's shell sees a controller: load, sent and abort are about its frame alone. What of the plain ones is not out
when its time is over is dropped. Exactly: put = sent + len(plain) + dropped(reason), but for what put() refused.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vicinal.cosmic.frame import Frame

__all__ = ["Mailbox"]

# As Linux has in front of a controller; a bus that is free takes them within 2 ms.
_MAX_PLAIN = 10


def _rank(frame: "Frame") -> int:
    """As the bits are on the wire: a standard frame goes before an extended one that begins with the same 11 bits."""
    if frame.extended:
        return frame.id >> 18 << 19 | 1 << 18 | frame.id & 0x3FFFF
    return frame.id << 19


class Mailbox:
    def __init__(self, controller: "Any") -> None:
        self.controller = controller
        self.plain: list[tuple[int, Frame, int]] = []  # rank, frame, when it is worthless; the next first
        self.counters: dict[str, int] = {}
        self.off = False  # bus-off: nothing moves
        self._node: Frame | None = None
        self._node_sent = False
        self._inside: Frame | None = None  # what the controller has

    def put(self, frame: "Frame", now: int, expires: int) -> bool:
        """Whether there was room."""
        if len(self.plain) >= _MAX_PLAIN:
            self.move(now)
            if len(self.plain) >= _MAX_PLAIN:
                return False
        rank, at = _rank(frame), len(self.plain)
        while at and self.plain[at - 1][0] > rank:
            at -= 1
        self.plain.insert(at, (rank, frame, expires))
        self.move(now)
        return True

    def move(self, now: int) -> None:
        """What is out is settled, and the next goes in."""
        while not self.off:
            inside = self._inside
            if inside is not None and self.controller.sent():
                self._settle(inside)
                inside = self._inside = None
            for entry in list(self.plain) if self.plain and now else ():
                if entry[2] <= now and (entry[1] is not inside or self.controller.abort()):
                    if entry[1] is inside:
                        inside = self._inside = None
                    self.plain.remove(entry)
                    self._count("out dropped: expired")
            first = self._first()
            if first is None or first is inside:
                return
            if inside is not None and not (_rank(first) < _rank(inside) and self.controller.abort()):
                return
            self.controller.load(first)
            self._inside = first

    def _first(self) -> "Frame | None":
        plain = self.plain[0] if self.plain else None
        if self._node is None or (plain is not None and plain[0] < _rank(self._node)):
            return None if plain is None else plain[1]
        return self._node

    def _settle(self, frame: "Frame") -> None:
        if frame is self._node:
            self._node, self._node_sent = None, True
        for entry in list(self.plain):
            if entry[1] is frame:
                self.plain.remove(entry)
                self._count("out sent")

    def _count(self, what: str) -> None:
        self.counters[what] = self.counters.get(what, 0) + 1

    # What the shell of the node sees. It has no time to give: plain frames expire with the next turn.

    def load(self, frame: "Frame") -> None:
        self._node, self._node_sent = frame, False
        self.move(0)

    def sent(self) -> bool:
        self.move(0)
        found, self._node_sent = self._node_sent, False
        return found

    def abort(self) -> bool:
        if self._node is None or (self._inside is self._node and not self.controller.abort()):
            return False
        if self._inside is self._node:
            self._inside = None
        self._node = None
        return True

    def state(self) -> str:
        found = str(self.controller.state())
        self.off = found == "bus-off"
        if self.off:  # what is in the controller is not sent any more; whoever it is of still has it
            self._inside = self._node = None
        return found

    def recover(self) -> None:
        self.controller.recover()
