"""The calendar against one that is laid out microsecond by microsecond."""

import contextlib
from math import gcd, lcm

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from vicinal.cosmic import calendar as module
from vicinal.cosmic.bits import ERROR_BITS, duration, worst_bits
from vicinal.cosmic.calendar import Calendar, Refused
from vicinal.cosmic.slot import Slot, window_of
from vicinal.errors import LimitError, LocalProtocolError

spec = pytest.mark.spec

requests = st.lists(
    st.tuples(
        st.sampled_from([1000, 1500, 2000, 2500, 3000, 4000, 5000, 6000, 10000]),  # period
        st.integers(0, 8),  # bytes
        st.integers(0, 2),  # omissions
    ),
    max_size=9,
)


def laid_out(slots: list[Slot], cycle: int) -> list[int]:
    """How many slots hold each microsecond of a cycle."""
    found = [0] * cycle
    for slot in slots:
        for start in range(slot.phase, slot.phase + cycle, slot.period):
            for time in range(start, start + slot.length):
                found[time % cycle] += 1
    return found


def free_phases(taken: list[int], period: int, length: int) -> list[int]:
    """Folded onto one period; then from the end, how many free microseconds follow each phase."""
    folded = [any(taken[at::period]) for at in range(period)]
    found, run = [], 0
    for at in range(2 * period - 1, -1, -1):
        run = 0 if folded[at % period] else run + 1
        if at < period and run >= length and length <= period:
            found.append(at)
    return found[::-1]


def admit(calendar: Calendar, wanted: "list[tuple[int, int, int]]") -> None:
    for number, (period, size, omissions) in enumerate(wanted):
        with contextlib.suppress(Refused):
            calendar.reserve(str(number), period, size, omissions)


@spec("COSMIC-8", "COSMIC-12", "COSMIC-13", "COSMIC-14")
@given(requests)
def test_slots_never_meet_and_the_first_phase_is_taken(wanted: "list[tuple[int, int, int]]") -> None:
    calendar = Calendar(1000000, precision=10)
    for number, (period, size, omissions) in enumerate(wanted):
        before = list(calendar.slots)
        cycle = lcm(1, period, *(slot.period for slot in before))
        taken = laid_out(before, cycle)
        slot = Slot("?", 0, period, size, omissions, 1000000, 10)
        free = free_phases(taken, period, slot.length)
        try:
            got = calendar.reserve(str(number), period, size, omissions)
        except Refused:
            assert free == []
            assert calendar.slots == before
        else:
            assert got.phase == free[0]
            assert calendar.cycle == cycle
            assert max(laid_out(calendar.slots, cycle)) == 1


@given(requests)
def test_entries_and_gaps_are_the_whole_cycle(wanted: "list[tuple[int, int, int]]") -> None:
    calendar = Calendar(1000000, precision=10)
    admit(calendar, wanted)
    entries = list(calendar.entries())
    assert entries == sorted(entries, key=lambda entry: entry[0])
    assert len(entries) == sum(calendar.cycle // slot.period for slot in calendar.slots)
    taken = laid_out(calendar.slots, calendar.cycle)
    for start, length in calendar.free():
        assert not any(taken[start : start + length])
    assert calendar.reserved() == sum(taken)
    assert sum(length for _, length in calendar.free()) == calendar.cycle - calendar.reserved()


@spec("COSMIC-15")
@given(requests)
def test_what_is_released_can_be_reserved_again(wanted: "list[tuple[int, int, int]]") -> None:
    calendar = Calendar(1000000, precision=10)
    admit(calendar, wanted)
    assume(calendar.slots)
    gone = calendar.slots[0]
    calendar.release(gone.channel)
    assert calendar.cycle == lcm(1, *(slot.period for slot in calendar.slots))
    again = calendar.reserve(gone.channel, gone.period, gone.size, gone.omissions)
    assert again.phase <= gone.phase
    with pytest.raises(LocalProtocolError, match="'nobody' has no slot"):
        calendar.release("nobody")


@spec("COSMIC-9", "COSMIC-10", "COSMIC-11", "COSMIC-16")
def test_the_length_of_a_slot() -> None:
    assert window_of(8, 0, 1000000) == 160 + 31 + 160
    assert window_of(8, 2, 1000000) == 3 * (160 + 31 + 160) + 2 * 31
    assert window_of(0, 0, 500000, jitter=7) == 2 * (160 + 31 + 80) + 7
    assert window_of(20, 1, 1000000) == 5 * (160 + 31 + 160) + 31  # 20 and 4 bytes of checksum in 4 fragments of 7
    slot = Slot("Brake", 300, 5000, 8, 1, 125000, 20)
    assert slot.window == duration(2 * (worst_bits(8) + ERROR_BITS + worst_bits(8)) + ERROR_BITS, 125000)
    assert slot.length == slot.window + 20
    assert slot.latency == 5000 + slot.length
    assert [slot.next_ready(time) for time in (-1, 0, 300, 301, 5299, 5300)] == [300, 300, 300, 5300, 5300, 5300]
    with pytest.raises(LimitError, match="57, the limit is 56"):
        window_of(57, 0, 1000000)
    with pytest.raises(LimitError, match="omission degree is 16"):
        window_of(8, 16, 1000000)


@spec("COSMIC-14")
def test_every_refusal_names_the_channel_and_the_reason() -> None:
    calendar = Calendar(1000000, precision=10)
    calendar.reserve("Brake", 1000, 8, 0)

    def why(channel: str, period: int, size: int = 8, omissions: int = 0, latest: "int | None" = None) -> str:
        cycle, slots = calendar.cycle, list(calendar.slots)
        with pytest.raises(Refused) as caught:
            calendar.reserve(channel, period, size, omissions, latest=latest)
        assert caught.value.channel == channel
        assert f"channel {channel!r} does not fit: " in str(caught.value)
        assert (calendar.cycle, calendar.slots) == (cycle, slots)
        return caught.value.reason

    assert why("Brake", 1000) == "it has a slot already"
    assert why("A", 0) == "its period is 0, want 1 microsecond or more"
    assert why("B", 1000, 8, 3) == "its slot is 1507 us long (3 omissions, 8 bytes), its period 1000"
    assert why("C", 9999999) == "with its period of 9999999 the cycle is 9999999000 us, the limit is 10000000"
    assert "meet: their periods 1300 and 1000 have 100 us in common" in why("D", 1300)
    assert "'Brake', 361 us" in why("D", 1300)
    calendar.reserve("Steer", 1000, 8, 0)
    assert why("E", 2000) == (
        "no phase from 0 to 1999 is free for 361 us every 2000; 2 channels hold 72.2 % of the bus"
    )
    assert "from 0 to 10 is free" in why("F", 2000, 0, 0, latest=10)


@spec("COSMIC-13")
def test_the_cycle_is_bounded_in_time_and_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SLOTS", 11)
    calendar = Calendar(1000000, precision=10)
    calendar.reserve("a", 1000, omissions=0)
    calendar.reserve("b", 10000, omissions=0)
    with pytest.raises(Refused, match="'c' does not fit: with it a cycle has 12 slots, the limit is 11"):
        calendar.reserve("c", 10000, omissions=0)


def test_a_phase_may_be_asked_for() -> None:
    calendar = Calendar(1000000, precision=10)
    assert calendar.reserve("a", 5000, earliest=1234, latest=1234).phase == 1234
    assert calendar.reserve("b", 5000, earliest=1000).phase == 1234 + calendar.slots[0].length


@spec("COSMIC-12")
def test_a_slot_may_reach_into_the_next_cycle() -> None:
    calendar = Calendar(1000000, precision=10)
    length = calendar.reserve("a", 5000, earliest=4900).length
    assert calendar.free() == [(length - 100, 5000 - length)]
    assert calendar.reserve("b", 5000).phase == length - 100


def test_a_bus_that_cannot_be_is_refused() -> None:
    for arguments in ((0, 1, 1), (1, -1, 1), (1, 1, -1)):
        with pytest.raises(LimitError):
            Calendar(*arguments)


def test_a_calendar_of_64_channels_comes_close_to_full() -> None:
    """Harmonic periods, the longest first: first fit wastes little."""
    calendar = Calendar(500000, precision=20)
    length = Slot("?", 0, 100000, 8, 1, 500000, 20).length
    for number in range(64):
        calendar.reserve(str(number), 100000, tx_node=number)
    assert calendar.reserved() == 64 * length
    assert calendar.reserved() / calendar.cycle > 0.9
    assert gcd(*(slot.period for slot in calendar.slots)) == 100000
