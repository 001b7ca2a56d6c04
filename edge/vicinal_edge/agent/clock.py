"""What time it is, on a device that forgets it with every power cut: asked of the gateway, and kept by the ticks.

    clock.now_unix(now)             Unix ms, or None while nobody has told; `now` is ms since the start
    clock.wants(now)                whether it should be asked for; then asked(now) and told(unix_ms, now)

The answer was made between asking and hearing, so it is taken for the middle, and is wrong by half the way at most. A
better one replaces it; one with a long way does not replace a good one before that has grown old. Time never goes back:
where the new time is earlier, ours stands still until it is reached.
"""

__all__ = ["Clock", "Ticks"]

# ms between two questions, and after one without an answer.
EVERY = 600000
RETRY = 10000
# A crystal of 50 ppm is off by so much in EVERY.
_DRIFT = 30
# Before this nobody of us lived: 2020-01-01.
EARLIEST = 1577836800000


class Clock:
    def __init__(self) -> None:
        self._offset: int | None = None
        self.error = 0
        """ms that it may be off, as of the last answer"""
        self._last = 0  # never go below
        self._due = 0
        self._asked = 0
        self.steps = 0
        """ms by which it was set, in all"""

    @property
    def is_set(self) -> bool:
        return self._offset is not None

    def now_unix(self, now: int) -> "int | None":
        if self._offset is None:
            return None
        self._last = max(self._last, now + self._offset)
        return self._last

    def wants(self, now: int) -> bool:
        return now >= self._due

    def next_timeout(self) -> int:
        return self._due

    def asked(self, now: int) -> None:
        self._asked = now
        self._due = now + RETRY

    def told(self, unix: int, now: int) -> bool:
        """Whether it was believed."""
        way = now - self._asked
        if unix < EARLIEST or way < 0:
            return False
        error = (way + 1) // 2
        if self._offset is not None and error > 2 * (self.error + _DRIFT):
            return False
        offset = unix + way // 2 - now
        if self._offset is not None:
            self.steps += abs(offset - self._offset)
        self._offset, self.error = offset, error
        self._due = now + EVERY
        return True


class Ticks:
    """A board's ticks wrap around; this counts the rounds. To be asked at least once in half of one (149 hours)."""

    def __init__(self, ticks: int, period: int = 1 << 30) -> None:
        self._last = ticks
        self._period = period
        self._sum = 0

    def now(self, ticks: int) -> int:
        self._sum += (ticks - self._last) % self._period
        self._last = ticks
        return self._sum
