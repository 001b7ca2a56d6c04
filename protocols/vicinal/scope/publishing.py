"""When a scope publishes into its superscopes: publishing policies (seed 004, 3.5).

    at once                         what no policy speaks of
    delay                           so many milliseconds later
    rate, per, burst                so many in so much time; what is too much waits
    until, and perhaps closed_by    from an event in the scope that meets `until` on, to one that meets `closed_by`

A scope has a list of policies; the first whose `of` an event meets is the one for it. Those of one policy leave in the
order they came. `Publishing` is what a person wrote, `Outlet` the state of one scope.
"""

from ..errors import LimitError, LocalProtocolError
from ..federation.flow import TokenBucket
from ..filter import Filter
from .policy import hashed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..event import Event

__all__ = ["FULL", "HELD", "MAX_DELAY", "MAX_HELD", "NOW", "Outlet", "Publishing", "heard", "policy_for"]

# At a thousand a second and with a delay of a minute; what waits is in memory too, where it waits on disk.
MAX_HELD = 65536
# A week: what is to be told later than that belongs into an archive.
MAX_DELAY = 604800000

NOW, HELD, FULL = "now", "held", "full"


class Publishing:
    """One of `delay`, `rate` and `until`."""

    __slots__ = ("burst", "closed_by", "delay", "most", "of", "per", "rate", "until")

    def __init__(
        self,
        of: "Filter | None" = None,
        delay: int = 0,
        rate: int = 0,
        per: int = 1000,
        burst: int = 0,
        until: "Filter | None" = None,
        closed_by: "Filter | None" = None,
        most: int = MAX_HELD,
    ) -> None:
        if (delay != 0) + (rate != 0) + (until is not None) != 1:
            raise LocalProtocolError("a publishing policy has one of delay, rate and until")
        if closed_by is not None and until is None:
            raise LocalProtocolError("closed_by is of a publishing policy with until")
        if not 0 <= delay <= MAX_DELAY:
            raise LimitError("delay of a publishing policy", delay, f"1 .. {MAX_DELAY} milliseconds")
        if not 1 <= most <= MAX_HELD:
            raise LimitError("most of a publishing policy", most, f"1 .. {MAX_HELD}")
        if rate:
            TokenBucket(rate, burst, per)  # for what it says of them
        self.of = of
        self.delay = delay
        self.rate = rate
        self.per = per
        self.burst = burst
        self.until = until
        self.closed_by = closed_by
        self.most = most

    def __str__(self) -> str:
        if self.delay:
            return f"{self.delay} ms later"
        if self.rate:
            return f"at most {self.rate} in {self.per} ms"
        return f"not until {self.until}"

    def same(self, other: "Publishing") -> bool:
        return all([getattr(self, name) == getattr(other, name) for name in self.__slots__])

    def key(self) -> str:
        """Short, and the same for what is the same: what it lets go is numbered under it."""
        parts = [str(getattr(self, name)) for name in sorted(self.__slots__)]
        return f"{hashed(chr(10).join(parts).encode()):016x}"


class _Queue:
    def __init__(self, policy: Publishing) -> None:
        self.policy = policy
        self.waiting: list[tuple[int, Any]] = []  # when it came, and it
        self.open = False
        self.bucket = TokenBucket(policy.rate, policy.burst, policy.per) if policy.rate else None

    def passes(self, now: int) -> bool:
        """Whether the next may leave; if a rate allows it, its share of it is gone."""
        policy = self.policy
        if policy.delay:
            return bool(self.waiting) and now >= self.waiting[0][0] + policy.delay
        return self.open if self.bucket is None else self.bucket.allow(1, now)

    def due(self, now: int) -> "list[Any]":
        count = 0
        while count < len(self.waiting) and self._passes_at(count, now):
            count += 1
        found = [item for _, item in self.waiting[:count]]
        self.waiting = self.waiting[count:]
        return found

    def _passes_at(self, at: int, now: int) -> bool:
        if self.policy.delay:
            return now >= self.waiting[at][0] + self.policy.delay
        return self.passes(now)

    def next_time(self, now: int) -> "int | None":
        if not self.waiting:
            return None
        if self.policy.delay:
            return self.waiting[0][0] + self.policy.delay
        if self.bucket is not None:
            return self.bucket.next_time(now)
        return now if self.open else None


class Outlet:
    def __init__(self, policies: "Iterable[Publishing]") -> None:
        self._queues = [_Queue(policy) for policy in policies]

    def saw(self, event: "Event") -> None:
        """An event is in the scope: conditions begin and cease to hold."""
        for queue in self._queues:
            policy = queue.policy
            if policy.closed_by is not None and policy.closed_by.matches(event):
                queue.open = False
            elif policy.until is not None and policy.until.matches(event):
                queue.open = True

    def policy_of(self, event: "Event") -> "Publishing | None":
        queue = self._of(event)
        return None if queue is None else queue.policy

    def offer(self, event: "Event", item: "Any", now: int) -> str:
        """NOW, or HELD: then `item` comes out of `due`; or FULL: then it is refused."""
        queue = self._of(event)
        if queue is None:
            return NOW
        if not queue.waiting and not queue.policy.delay and queue.passes(now):
            return NOW
        if len(queue.waiting) >= queue.policy.most:
            return FULL
        queue.waiting.append((now, item))
        return HELD

    def due(self, now: int) -> "list[Any]":
        found: list[Any] = []
        for queue in self._queues:
            found += queue.due(now)
        return found

    def next_timeout(self, now: int) -> "int | None":
        times = [queue.next_time(now) for queue in self._queues]
        known = [time for time in times if time is not None]
        return min(known) if known else None

    def waiting(self) -> "list[tuple[int, Any]]":
        """Since when, and what: to be kept where it survives a restart."""
        return [one for queue in self._queues for one in queue.waiting]

    def restore(self, event: "Event", item: "Any", since: int) -> bool:
        """What waited before a restart, or under other policies, waits as if it came then. False: no policy holds it
        any more."""
        queue = self._of(event)
        if queue is None:
            return False
        at = len(queue.waiting)
        while at > 0 and queue.waiting[at - 1][0] > since:
            at -= 1
        queue.waiting.insert(at, (since, item))
        return True

    def opened(self) -> "list[bool]":
        """For each policy whether its condition holds, to be kept with what waits."""
        return [queue.open for queue in self._queues]

    def reopen(self, opened: "list[bool]") -> None:
        for queue, is_open in zip(self._queues, opened):
            queue.open = is_open

    def inherit(self, old: "Outlet") -> None:
        """What conditions and rates have come to goes on where a policy is still the same."""
        for queue in self._queues:
            for other in old._queues:
                if queue.policy.same(other.policy):
                    queue.open, queue.bucket = other.open, other.bucket

    def _of(self, event: "Event") -> "_Queue | None":
        policy = policy_for([queue.policy for queue in self._queues], event)
        for queue in self._queues:
            if queue.policy is policy:
                return queue
        return None


def policy_for(policies: "list[Publishing]", event: "Event") -> "Publishing | None":
    """The first that speaks of it."""
    for policy in policies:
        if policy.of is None or policy.of.matches(event):
            return policy
    return None


def heard(policies: "list[Publishing]") -> "Filter":
    """All that the policies of a scope need to hear of."""
    texts = []
    for policy in policies:
        if policy.of is None:
            return Filter("TRUE")
        texts += [one.text for one in (policy.of, policy.until, policy.closed_by) if one is not None]
    try:
        return Filter(" OR ".join([f"({text})" for text in texts]))
    except LocalProtocolError:  # past the limits of a filter
        return Filter("TRUE")
