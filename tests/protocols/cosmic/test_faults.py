"""A node that falls silent comes back with all it had; one that babbles is not heard."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.faults import ACTIVE, BUS_OFF, PASSIVE, POLL, RECOVERY_BITS, WARNING, Budgets, Recovery, state_of
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import pack
from vicinal.cosmic.node import Node
from vicinal.errors import LimitError

spec = pytest.mark.spec


@spec("COSMIC-32")
def test_what_the_counters_mean() -> None:
    assert [state_of(tec, 0) for tec in (0, 95, 96, 127, 128, 255, 256)] == [
        ACTIVE, ACTIVE, WARNING, WARNING, PASSIVE, PASSIVE, BUS_OFF,
    ]  # fmt: skip
    assert [state_of(0, rec) for rec in (95, 96, 128, 300)] == [ACTIVE, WARNING, PASSIVE, PASSIVE]


class Controller:
    """As slow as a real one: bus-off when told, back so many microseconds after it was asked."""

    def __init__(self, takes: int) -> None:
        self.state = ACTIVE
        self.takes = takes
        self.back_at: int | None = None

    def at(self, now: int) -> str:
        if self.back_at is not None and now >= self.back_at:
            self.state, self.back_at = ACTIVE, None
        return self.state

    def recover(self, now: int) -> None:
        self.back_at = now + self.takes


@spec("COSMIC-32", "COSMIC-33", "COSMIC-34")
@pytest.mark.parametrize("frames_between", [0, 128])
def test_bus_off_is_seen_within_10_ms_and_over_within_50(frames_between: int) -> None:
    """Polled only, on an idle bus and on a full one, at 500 kbit/s."""
    node = Node(5, 500000)
    soft, slow = SrtChannel(node, 200, 2000, codec=Raw), NrtChannel(node, 201, codec=Raw)
    failed: list[Any] = []
    for channel in (soft, slow):
        channel.announce(0, lambda reason, event, now: failed.append((reason, event)))
    controller = Controller(max(RECOVERY_BITS, frames_between * 160) * 2)
    changes: list[tuple[str, int]] = []
    recovery = Recovery(node, lambda state, now: changes.append((state, now)))
    off_at = 1234
    now = 0
    while now < 100000:
        now = recovery.next_timeout()
        if now >= off_at and controller.state == ACTIVE and not changes:
            controller.state = BUS_OFF
            for number in range(10):
                soft.publish(bytes([number]), now)
                slow.publish(bytes([number]), now)
        if recovery.report(controller.at(now), now):
            controller.recover(now)
        if node.silent:
            assert node.frame_to_send(now) is None
    (seen, seen_at), (back, back_at) = changes
    assert (seen, back) == (BUS_OFF, ACTIVE)
    assert seen_at - off_at <= 10000
    assert back_at - off_at <= 50000
    assert node.stored == 20
    assert node.counters["bus-off"] == node.counters["recoveries asked"] == 1
    assert {reason for reason, _ in failed} <= {"late"}
    sent = []
    while (frame := node.frame_to_send(now)) is not None:
        node.frame_sent(frame, now)
        sent.append(frame.data)
    assert sent == [bytes([number]) for number in range(10)] * 2


@spec("COSMIC-33")
def test_from_the_sixth_time_on_it_waits() -> None:
    node = Node(5, 500000)
    recovery = Recovery(node)
    now, pauses = 0, []
    for _ in range(15):
        off = now
        asked = recovery.report(BUS_OFF, now)
        while not asked:
            now = recovery.next_timeout()
            asked = recovery.report(BUS_OFF, now)
        pauses.append(now - off)
        now += 3000
        assert not recovery.report(ACTIVE, now)
        now += 10000
    assert pauses == [0] * 5 + [100000 << times for times in range(7)] + [10000000] * 3
    now += 60000000
    assert recovery.report(BUS_OFF, now)


@spec("COSMIC-33")
def test_a_request_that_was_lost_is_made_again() -> None:
    recovery = Recovery(Node(5, 500000))
    assert recovery.report(BUS_OFF, 0)
    asked = [now for now in range(POLL, 300000, POLL) if recovery.report(BUS_OFF, now)]
    assert asked[0] == 85000  # twice what a full bus takes, at the next look
    assert recovery.next_timeout() <= 300000 + POLL


class Bucket:
    """A token bucket as in the books, in fractions of a token; cut off until it is full."""

    def __init__(self, rate: int, burst: int) -> None:
        self.gap, self.burst = 1000000 // rate, burst
        self.level = burst * self.gap
        self.at = 0
        self.cut = False

    def allows(self, now: int) -> bool:
        self.level = min(self.level + now - self.at, self.burst * self.gap)
        self.at = now
        if self.level == self.burst * self.gap:
            self.cut = False
        if self.cut or self.level < self.gap:
            self.cut = True
            self.level = 0
            return False
        self.level -= self.gap
        return True


@spec("COSMIC-35")
@given(st.integers(1, 5000), st.integers(1, 20), st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 2))))
def test_budgets_against_the_bucket_of_the_books(rate: int, burst: int, steps: "list[tuple[int, int]]") -> None:
    budgets = Budgets(rate, burst)
    buckets = [Bucket(rate, burst) for _ in range(3)]
    now = 0
    for wait, tx_node in steps:
        now += wait
        assert budgets.allows(tx_node, 200, now) == buckets[tx_node].allows(now)


@spec("COSMIC-35")
def test_a_babbler_is_cut_off_and_the_others_are_heard() -> None:
    node = Node(5, 500000)
    got: list[int] = []
    NrtChannel(node, 200, codec=Raw).subscribe(lambda event, tx_node, now: got.append(tx_node), 0)
    told: list[tuple[int, int, int]] = []
    node.budgets = Budgets(100, 10, lambda tx_node, etag, now: told.append((tx_node, etag, now)))
    node.budgets.set(201, 1, 1)
    for now in range(0, 1000000, 250):
        node.receive_frame(Frame(pack(251, 6, 200), b"babble"), now)
        if now % 20000 == 0:
            node.receive_frame(Frame(pack(251, 7, 200), b"fine"), now)
    assert got.count(7) == 50
    assert got.count(6) == 10
    assert told == [(6, 200, 2500)]
    assert node.counters["in dropped: over budget"] == 4000 - 10 == node.budgets.refused
    node.receive_frame(Frame(pack(251, 6, 200), b"sorry"), 999750 + 100000)
    assert got.count(6) == 11


@spec("COSMIC-35")
def test_many_strangers_share_one_budget() -> None:
    budgets = Budgets(100, 2, max_watched=4)
    assert [budgets.allows(node, 200, 0) for node in range(8)] == [True] * 6 + [False] * 2
    assert len(budgets._full_at) == 5
    assert budgets.allows(9, 200, 10000000)  # all have been quiet: room again
    assert len(budgets._full_at) == 1


def test_a_budget_that_cannot_be_is_refused() -> None:
    for rate, burst in ((0, 1), (1000001, 1), (1, 0)):
        with pytest.raises(LimitError, match="frames"):
            Budgets(rate, burst)
