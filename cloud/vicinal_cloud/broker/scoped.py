"""What waits for a client, looked through again when rights have changed (OVER-41).

A delivery in a scope keeps with its bytes in which scopes its event was published, and when it came here; all else is
in the bytes. What may no longer be had leaves the queue, and is counted.
"""

from typing import TYPE_CHECKING

from vicinal.event import Event
from vicinal.scope.graph import Tags
from vicinal.siena.connection import NOT_ADMITTED, RENEW, TOO_SLOW, Frames
from vicinal.siena.holding import said_by
from vicinal.siena.messages import MAX_BYTES_CLIENT, encode, framed
from vicinal.siena.messages_read import decode

if TYPE_CHECKING:
    from .link import Link
    from .node import Node
    from .session import Session

__all__ = ["NO_MEMBER", "Scoped", "Sifting", "scoped"]

NO_MEMBER = "no longer a member"
# Milliseconds in which what was with the socket before a right ended has to leave it; with the last words of a
# connection that is cut it is below 5 s.
_LEAVES_WITHIN = 2500
_PLAIN = (Tags(), 0)


class Scoped(bytes):
    """The frame of a delivery."""

    came: tuple[Tags, int]


def scoped(frame: bytes, came: tuple[Tags, int]) -> Scoped:
    found = Scoped(frame)
    found.came = came
    return found


class Sifting:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._leaving: dict[Link, tuple[int, int]] = {}  # bytes that must have left, by when

    def sift(self) -> None:
        """Rights have changed: who is nobody any more is cut, and what others may no longer have does not go out."""
        node, rights = self._node, self._node.engine.rights
        rights.now = node.now()
        for session in list(node.sessions.values()):
            why = rights.ended(session.name)
            if why:
                lapsed = rights.memberships.lapsed(rights.identity(session.name), rights.now)
                session.link.cut(RENEW if lapsed else NOT_ADMITTED, why)
            elif session.link.connection.waiting_count:
                gone = session.link.connection.sift(lambda data, session=session: self._kept(session, data))  # type: ignore[misc]
                if gone:
                    node.counters.dropped[NO_MEMBER] += gone
                    self.lost(session)

    def lost(self, session: "Session") -> None:
        """Some of its rights. What is with the socket cannot be taken back: who does not read it soon is cut."""
        link = session.link
        if link.batches:
            self._leaving[link] = (link.bytes_out, self._node.now() + _LEAVES_WITHIN)

    def look(self, now: int) -> None:
        for link, (mark, due) in list(self._leaving.items()):
            if link not in self._node.links or link.bytes_left >= mark:
                del self._leaving[link]
            elif now >= due:
                del self._leaving[link]
                link.cut(TOO_SLOW, "you may no longer have what waits for you to read it")

    def _kept(self, session: "Session", data: bytes) -> bytes | None:
        frames = Frames(MAX_BYTES_CLIENT)
        frames.receive_data(data)
        content = frames.next_frame()
        assert content is not None
        _, numbers, event, offset, trail = decode(content)
        came = data.came if isinstance(data, Scoped) else _PLAIN
        left = tuple([number for number in numbers if self._may(session, number, event, came)])
        if left == numbers:
            return data
        return scoped(framed(encode(("deliver", left, event, offset, trail))), came) if left else None

    def _may(self, session: "Session", number: int, event: Event, came: tuple[Tags, int]) -> bool:
        engine = self._node.engine
        mine = engine.subscribed(session.name, number)
        if mine is None:
            return number not in session.lost  # else it was unsubscribed: what waited for it comes
        tags, time = came
        if not tags.scopes and not mine.scopes:
            return True
        return not engine.rights.hiding(session.name, mine, tags, said_by(event), time)
