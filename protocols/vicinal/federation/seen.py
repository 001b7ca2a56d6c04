"""Which events were here before, by their identity: a window for each producer, exact within it.

What is further behind the newest of its producer than the window is taken as seen: it comes too late to tell.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Seen"]

WINDOW = 1024
# Two generations of producers: who has said nothing for so long that as many others came is forgotten.
MAX_PRODUCERS = 20000


class Seen:
    def __init__(self, window: int = WINDOW, most: int = MAX_PRODUCERS) -> None:
        self._window = window
        self._most = most // 2
        self._recent: dict[str, list[Any]] = {}  # producer -> [highest, bits of those below it]
        self._older: dict[str, list[Any]] = {}
        self._mask = (1 << window) - 1

    def is_new(self, producer: str, seq: int) -> bool:
        """And from now on it is not."""
        known = self._recent.get(producer)
        if known is None:
            known = self._recall(producer)
            if known is None:
                self._recent[producer] = [seq, 1]
                return True
        ahead = seq - known[0]
        if ahead > 0:
            known[0] = seq
            known[1] = ((known[1] << ahead) | 1) & self._mask if ahead < self._window else 1
            return True
        if -ahead >= self._window:
            return False
        bit = 1 << -ahead
        if known[1] & bit:
            return False
        known[1] |= bit
        return True

    def know(self, producer: str, seq: int) -> None:
        """All up to this one were here, in an earlier life."""
        self._recent[producer] = [seq, self._mask]

    def _recall(self, producer: str) -> "list[Any] | None":
        if len(self._recent) >= self._most:
            self._older, self._recent = self._recent, {}
        known = self._older.pop(producer, None)
        if known is not None:
            self._recent[producer] = known
        return known
