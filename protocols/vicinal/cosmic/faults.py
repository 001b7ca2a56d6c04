"""What goes wrong on a bus: a node that falls silent, and one that does not (spec/cosmic.md, faults).

A controller counts errors (ISO 11898-1): TEC when it sends, REC when it receives.

    ACTIVE --96--> WARNING --128--> PASSIVE --TEC 256--> BUS_OFF --asked, 128 x 11 recessive bits--> ACTIVE

It comes back from bus-off only when asked. `Recovery` asks at once, and keeps the node's queue meanwhile; one that goes
off again and again waits longer each time, as it disturbs the others whenever it is back.

None of this stops a node that sends valid frames without end. `Budgets` gives each sender on each channel a number of
frames: whoever passes it is not heard until it has been quiet. It stands where frames are received, so that a
gateway and its brokers are safe; the bus itself gives the babbler only what more urgent frames leave.
"""

from ..errors import LimitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .node import Node

__all__ = ["ACTIVE", "BUS_OFF", "PASSIVE", "POLL", "RECOVERY_BITS", "WARNING", "Budgets", "Recovery", "state_of"]

ACTIVE, WARNING, PASSIVE, BUS_OFF = "active", "warning", "passive", "bus-off"
WARNING_FROM = 96
PASSIVE_FROM = 128
BUS_OFF_FROM = 256
RECOVERY_BITS = 1408

# Microseconds. A controller that does not report by itself is asked so often: bus-off is seen within 10 ms.
POLL = 5000
# Between frames are 11 recessive bits, so that a full bus takes 128 longest frames; then the request was lost.
_FULL_BUS_BITS = 128 * 160
# So many times at once, then with a pause that doubles; a quiet minute makes good.
_AT_ONCE = 5
_FIRST_PAUSE = 100000
_LAST_PAUSE = 10000000
_FORGIVEN_AFTER = 60000000


def state_of(tec: int, rec: int) -> str:
    """What the counters mean."""
    if tec >= BUS_OFF_FROM:
        return BUS_OFF
    most = max(tec, rec)
    if most >= PASSIVE_FROM:
        return PASSIVE
    return WARNING if most >= WARNING_FROM else ACTIVE


class Recovery:
    """Brings a node back. report() and handle_timeout() say when the controller must be asked to recover. A shell
    that is not told of changes reports the controller's state at next_timeout(), which is never more than POLL away."""

    def __init__(self, node: "Node", on_change: "Callable[[str, int], None] | None" = None) -> None:
        self.node = node
        self.state = ACTIVE
        self.on_change = on_change
        self._patience = _FULL_BUS_BITS * 2 * 1000000 // node.bitrate
        self._times = 0  # off, without a quiet minute between
        self._ask_at: int | None = None
        self._back = 0  # when it was last back
        self._poll = 0

    def report(self, state: str, now: int) -> bool:
        """The controller's state, as it is now."""
        self._poll = now + POLL
        before, self.state = self.state, state
        if state == before:
            return self.handle_timeout(now)
        if state == BUS_OFF:
            self._times = 1 if now - self._back >= _FORGIVEN_AFTER else self._times + 1
            pause = 0
            if self._times > _AT_ONCE:
                pause = min(_FIRST_PAUSE << min(self._times - _AT_ONCE - 1, 7), _LAST_PAUSE)
            self._ask_at = now + pause
            self.node.count("bus-off")
            self.node.set_silent(True, now)
        elif before == BUS_OFF:
            self._ask_at = None
            self._back = now
            self.node.set_silent(False, now)
        if self.on_change is not None:
            self.on_change(state, now)
        return self.handle_timeout(now)

    def next_timeout(self) -> int:
        return self._poll if self._ask_at is None else min(self._ask_at, self._poll)

    def handle_timeout(self, now: int) -> bool:
        if self._ask_at is None or now < self._ask_at:
            return False
        self._ask_at = now + self._patience
        self.node.count("recoveries asked")
        return True


# Senders on channels that are watched at once; beyond them, all others share one budget.
MAX_WATCHED = 1024


class Budgets:
    """For each (TxNode, etag) a bucket of `burst` frames, refilled with `rate` frames a second. In integers: kept is
    only the time at which the bucket will be full again, so that one that is full need not be kept at all."""

    def __init__(
        self,
        rate: int,
        burst: int,
        on_babble: "Callable[[int, int, int], None] | None" = None,
        max_watched: int = MAX_WATCHED,
    ) -> None:
        """`on_babble(tx_node, etag, now)` is called when somebody is cut off, not for each frame after."""
        self._default = _checked(rate, burst)
        self._of: dict[int, tuple[int, int]] = {}
        self._full_at: dict[tuple[int, int], int] = {}
        self._cut: set[tuple[int, int]] = set()
        self.on_babble = on_babble
        self.max_watched = max_watched
        self.refused = 0

    def set(self, etag: int, rate: int, burst: int) -> None:
        """Another budget for one channel."""
        self._of[etag] = _checked(rate, burst)

    def allows(self, tx_node: int, etag: int, now: int) -> bool:
        key = (tx_node, etag)
        gap, burst = self._of.get(etag, self._default)
        full_at = self._full_at.get(key)
        if full_at is None and len(self._full_at) >= self.max_watched:
            self._forget(now)
            if len(self._full_at) >= self.max_watched:
                key = (-1, -1)
                gap, burst = self._default
                full_at = self._full_at.get(key)
        if full_at is None or full_at <= now:
            self._cut.discard(key)
            full_at = now
        if key in self._cut or full_at + gap > now + gap * burst:
            self._full_at[key] = (
                now + gap * burst
            )  # who goes on gets nothing; quiet for a whole bucket, and it is heard
            self.refused += 1
            if key not in self._cut:
                self._cut.add(key)
                if self.on_babble is not None:
                    self.on_babble(tx_node, etag, now)
            return False
        self._full_at[key] = full_at + gap
        return True

    def _forget(self, now: int) -> None:
        for key in [key for key, full_at in self._full_at.items() if full_at <= now]:
            del self._full_at[key]
            self._cut.discard(key)


def _checked(rate: int, burst: int) -> "tuple[int, int]":
    """Microseconds for a frame, and frames at once."""
    if not 1 <= rate <= 1000000:
        raise LimitError("frames a second", rate, "1 .. 1000000")
    if burst < 1:
        raise LimitError("frames at once", burst, "1 or more")
    return 1000000 // rate, burst
