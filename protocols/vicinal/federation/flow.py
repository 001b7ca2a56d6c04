"""A token bucket: so many events a second, and so many at once (DESIGN 5: a real-time bus is never flooded from above).

    bucket = TokenBucket(rate=100, burst=20)
    bucket.allow(1, now)          may one go? If so, its token is gone
    bucket.next_time(now)         when the next may: sleep until then

All integers: a token is `per` parts, and every millisecond adds `rate` parts. A clock that jumps ahead fills the
bucket, which is a burst and no more; one that jumps back adds nothing, and counting goes on from where it is then.
"""

from ..errors import LimitError

__all__ = ["TokenBucket"]


class TokenBucket:
    __slots__ = ("_full", "_last", "_level", "burst", "per", "rate")

    def __init__(self, rate: int, burst: int = 0, per: int = 1000) -> None:
        """`rate` tokens in `per` milliseconds, and at most `burst` at once: by default those of 100 ms, at least one.
        It begins full."""
        if type(rate) is not int or rate < 1:
            raise LimitError("rate of a token bucket", rate, "1 or more")
        if type(burst) is not int or burst < 0:
            raise LimitError("burst of a token bucket", burst, "0 or more")
        if type(per) is not int or per < 1:
            raise LimitError("period of a token bucket", per, "1 or more milliseconds")
        self.rate = rate
        self.per = per
        self.burst = burst or max(1, rate * 100 // per)
        self._full = self.burst * per
        self._level = self._full
        self._last: int | None = None

    def allow(self, n: int, now: int) -> bool:
        """Takes `n` tokens if they are there. More than the bucket holds are lent when it is full: what is larger than
        a burst waits for longer, and is not shut out."""
        self._fill(now)
        want = n * self.per
        if self._level < want and self._level < self._full:
            return False
        self._level -= want
        return True

    def give_back(self, n: int) -> None:
        """Of what was allowed and not used."""
        self._level = min(self._full, self._level + n * self.per)

    def next_time(self, now: int, n: int = 1) -> int:
        """`now`, or when `n` would be allowed if the clock goes on from here."""
        self._fill(now)
        missing = min(n * self.per, self._full) - self._level
        return now if missing <= 0 else now + (missing + self.rate - 1) // self.rate

    def _fill(self, now: int) -> None:
        if self._last is not None and now > self._last:
            self._level = min(self._full, self._level + (now - self._last) * self.rate)
        self._last = now
