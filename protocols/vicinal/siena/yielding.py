"""When a broker takes no more: who waits for it, and for how long.

    full     MAX_QUEUE packets wait in the stream to a broker: a publish that is for it raises Busy. The shell keeps it,
             and all that follows of its producer; other producers go on.
    room     the broker has acknowledged some; or it is out of reach, or has taken nothing for STALLED: then what waits
             in the stream goes, and is counted.

With a log the shell so publishes in another order than that of the offsets. Between `position` and the end of the log
there is a gap: some of it is published, some is not. A reader that catches up has not before the gap is closed: what is
behind it went to its live clients only.
"""

from .streams import MAX_QUEUE
from .telling import Telling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..scope.graph import ScopeGraph

__all__ = ["Yielding"]

# Milliseconds. So long producers wait for a broker within reach that takes nothing of a full stream: by then all of it
# was sent again some times.
STALLED = 30000


class Yielding(Telling):
    def __init__(
        self, name: str, incarnation: int, graph: "ScopeGraph", trace: bool, pruning: "tuple[str, ...]"
    ) -> None:
        super().__init__(name, incarnation, graph, trace, pruning)
        self.has_gap = False
        """the shell's: something waits behind a Busy that is in the log"""
        self._full: dict[str, tuple[tuple[int, int], int]] = {}  # what was first in a full stream, and since when

    def make_room(self, broker: str, now: int) -> bool:
        """Whether an event can be put into the stream to a broker, perhaps because what was in it is given up. When the
        stream is full again and still nothing was taken, that is at once."""
        stream = self._out.get(broker)
        if stream is None or len(stream.packets) < MAX_QUEUE:
            return True
        if self.records.topology.towards(self.name, broker) is None:
            self._give_up(broker)
            return True
        first = (stream.epoch, stream.packets[0][0])
        known, since = self._full.get(broker, (None, now))
        if known != first:
            self._full[broker] = (first, now)
            return False
        if now - since < STALLED:
            return False
        self._count("given up: took nothing")
        self._give_up(broker)
        self._full[broker] = ((stream.epoch, 1), since)
        return True

    def caught_up(self, reader: str, now: int) -> None:
        if self.has_gap:
            self._behind[reader] = self.position
            self._actions.append(("replay", reader, self.position))
        else:
            super().caught_up(reader, now)
