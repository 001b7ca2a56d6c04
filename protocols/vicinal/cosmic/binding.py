"""A node's names on the bus: its number, and the etags of its subjects. The node's side of both binding protocols as
one; the broker's is in binding_broker.py.

    receive(frame, now)          every frame with an etag below 100, also when its TxNode is our own: such frames say
                                 other things there (binding_frames.py)
    want(subject), drop(subject)
    frames_to_send(now)          to be asked after every call; they are non real time
    next_event()                 ("node", "", tx_node) once, then those of etags.py
    next_timeout(), handle_timeout(now)

A host that is a broker too gives the frames of each to the other: a controller does not hear itself.
"""

from .etags import Etags
from .frame import Frame
from .identifier import MAX_ETAG
from .node_ids import NodeId

__all__ = ["Binding", "is_binding"]


def is_binding(frame: Frame) -> bool:
    return frame.extended and not frame.remote and frame.id & MAX_ETAG < 100


class Binding:
    def __init__(self, uid: bytes, now: int, tx_node: "int | None" = None) -> None:
        """`uid` is 8 bytes, unique to this node: its MAC address, say. `tx_node`, where numbers are given by hand."""
        self.node = NodeId(uid, now, tx_node)
        self.etags = Etags()
        self._told = False

    @property
    def tx_node(self) -> "int | None":
        return self.node.tx_node

    def want(self, subject: str) -> None:
        self.etags.want(subject)

    def drop(self, subject: str) -> None:
        self.etags.drop(subject)

    def etag(self, subject: str) -> "int | None":
        return self.etags.etag(subject)

    def receive(self, frame: Frame, now: int) -> None:
        if is_binding(frame):
            self.node.receive(frame, now)
            self.etags.receive(frame, now, self.node.tx_node)

    def next_event(self) -> "tuple[str, str, int] | None":
        if self.node.tx_node is not None and not self._told:
            self._told = True
            return "node", "", self.node.tx_node
        return self.etags.next_event()

    def frames_to_send(self, now: int) -> "list[Frame]":
        found = self.node.frames_to_send()
        if self.node.tx_node is not None:
            found += self.etags.frames_to_send(self.node.tx_node, now)
        return found

    def next_timeout(self) -> "int | None":
        times = [time for time in (self.node.next_timeout(), self.etags.next_timeout()) if time is not None]
        return min(times) if times else None

    def handle_timeout(self, now: int) -> None:
        self.node.handle_timeout(now)
        self.etags.handle_timeout(now)
