"""The physics of the virtual bus against a model that goes bit by bit, and its laws."""

from collections.abc import Iterable

import pytest
from hw.can.bit_model import arbitrate, wire_bits
from hypothesis import given
from hypothesis import strategies as st

from vicinal.cosmic.bits import ERROR_BITS, frame_bits, worst_bits
from vicinal.cosmic.frame import Frame
from vicinal.errors import LimitError, LocalProtocolError
from vicinal_hw.can.bus import LAST_BIT, Bus
from vicinal_hw.can.controller import Controller, State, arbitration
from vicinal_hw.can.omissions import Omissions

octets = st.one_of(st.binary(max_size=8), st.lists(st.sampled_from([0, 0xFF, 0x1F, 0xF0]), max_size=8).map(bytes))
extended = st.builds(Frame, st.one_of(st.sampled_from([0, 0x1FFFFFFF, 0x1FFC0000]), st.integers(0, 0x1FFFFFFF)), octets)
standard = st.builds(Frame, st.integers(0, 0x7FF), octets, st.just(False))
remote = st.builds(Frame, st.integers(0, 0x7FF), st.just(b""), st.booleans(), st.just(True))
frames = st.one_of(extended, standard, remote)
# Few identifiers, with the same base in both kinds, so that close contests are common.
close = st.builds(
    lambda base, low, wide, asks: Frame(base << 18 | low if wide else base, b"", wide, asks),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    st.booleans(),
)


class Recorder:
    """Hears everything and writes it down."""

    def __init__(self, bus: Bus) -> None:
        self.controller = bus.controller("recorder")
        self.log: list[tuple[int, Frame]] = []
        self.controller.on_receive = lambda frame, now: self.log.append((now, frame))

    @property
    def frames(self) -> list[Frame]:
        return [frame for _, frame in self.log]


def feed(controller: Controller, queue: Iterable[Frame]) -> list[tuple[int, Frame]]:
    """Keeps the mailbox full; gives the list of what was sent."""
    left = iter(queue)
    sent: list[tuple[int, Frame]] = []

    def more() -> None:
        following = next(left, None)
        if following is not None:
            controller.load(following)

    def on_sent(frame: Frame, now: int) -> None:
        sent.append((now, frame))
        more()

    controller.on_sent = on_sent
    more()
    return sent


# Lengths and order, bit by bit


@given(frames)
def test_a_frame_is_as_long_as_its_bits(frame: Frame) -> None:
    assert frame_bits(frame) == len(wire_bits(frame))
    assert frame_bits(frame) <= worst_bits(len(frame.data), frame.extended)


@pytest.mark.parametrize("data", [bytes(8), b"\xff" * 8, b"\x1f" * 8, b"\xf8\x7c\x3e\x1f\x0f\x87\xc3\xe1"])
@pytest.mark.parametrize("number", [0, 0x7FF << 18, 0x1FFFFFFF, 0x0F83C1E0])
def test_frames_with_much_stuffing(number: int, data: bytes) -> None:
    assert frame_bits(Frame(number, data)) == len(wire_bits(Frame(number, data)))


@given(st.lists(st.one_of(close, frames), min_size=2, max_size=6))
def test_arbitration_is_what_the_bits_decide(contest: list[Frame]) -> None:
    keys = [arbitration(frame) for frame in contest]
    assert arbitrate(contest) == {place for place, key in enumerate(keys) if key == min(keys)}


@given(st.lists(st.lists(frames, max_size=5), min_size=1, max_size=8), st.sampled_from([125_000, 500_000, 1_000_000]))
def test_a_full_bus_sends_the_lowest_first_and_nothing_else(queues: list[list[Frame]], bitrate: int) -> None:
    """Work conservation, no loss, no duplicate, never an inversion: the log is that of a plain sort at each end."""
    senders = [[Frame(f.id, f.data, f.extended, f.remote) for f in queue] for queue in queues]
    expected: list[tuple[int, Frame]] = []
    left = [list(queue) for queue in senders]
    bits = 0
    while any(left):
        heads = [index for index, queue in enumerate(left) if queue]
        winners = arbitrate([left[index][0] for index in heads])
        chosen = [heads[place] for place in winners]
        if len({left[index][0] for index in chosen}) > 1:
            return  # same identifier, other data: a bit error, tested below
        frame = left[chosen[0]][0]
        for index in chosen:
            left[index].pop(0)
        expected.append(((bits + len(wire_bits(frame)) - 3) * 1_000_000_000 // bitrate, frame))
        bits += len(wire_bits(frame))
    bus = Bus(bitrate)
    recorder = Recorder(bus)
    sent = [feed(bus.controller(), queue) for queue in senders]
    bus.advance(1_000_000_000)
    assert recorder.log == expected
    assert [[frame for _, frame in each] for each in sent] == senders
    assert bus.busy == bits * bus.bit
    assert bus.frames == len(expected)
    assert bus.idle


@given(st.lists(st.tuples(st.integers(0, 400_000), frames), min_size=1, max_size=12), st.integers(0, 2**32))
def test_steps_do_not_matter(arrivals: list[tuple[int, Frame]], seed: int) -> None:
    """However time is cut into steps, the same happens; and what is destroyed is sent again."""

    def run(cuts: list[int]) -> list[tuple[int, Frame]]:
        bus = Bus(500_000, Omissions(seed, 0.3, degree=2, anywhere=True))
        recorder = Recorder(bus)
        controllers = [bus.controller() for _ in arrivals]
        events = sorted([(time, place) for place, (time, _) in enumerate(arrivals)] + [(cut, -1) for cut in cuts])
        for time, place in events:
            bus.advance(time)
            if place >= 0:
                controllers[place].load(arrivals[place][1])
        bus.advance(1_000_000_000)
        return recorder.log

    once = run([])
    assert run(list(range(0, 2_000_000, 7_777))) == once
    keys = {(arbitration(frame), frame.data) for _, frame in arrivals}
    if len({key for key, _ in keys}) == len(arrivals):
        assert sorted(map(repr, [frame for _, frame in once])) == sorted(repr(frame) for _, frame in arrivals)


def test_what_is_loaded_at_the_moment_of_a_contest_takes_part() -> None:
    bus = Bus(500_000)
    recorder = Recorder(bus)
    late, early = bus.controller(), bus.controller()
    early.load(Frame(0x200))
    bus.advance(0)
    late.load(Frame(0x100))
    bus.advance(10_000_000)
    assert [frame.id for frame in recorder.frames] == [0x100, 0x200]
    late.load(Frame(0x300))
    bus.advance(bus.now + 1)
    early.load(Frame(0x200))  # a nanosecond too late: the wire is taken
    bus.advance(20_000_000)
    assert [frame.id for frame in recorder.frames[2:]] == [0x300, 0x200]


# The mailbox


def test_a_frame_can_be_taken_back_until_it_is_on_the_wire() -> None:
    bus = Bus(500_000)
    recorder = Recorder(bus)
    sender = bus.controller()
    sender.load(Frame(1))
    assert sender.abort()
    assert sender.mailbox is None
    assert not sender.abort()
    sender.load(Frame(2))
    bus.advance(bus.now + 1)
    assert sender.on_wire
    assert not sender.abort()
    with pytest.raises(LocalProtocolError, match="abort"):
        sender.load(Frame(3))
    bus.advance(1_000_000)
    assert recorder.frames == [Frame(2)]


def test_a_frame_taken_back_on_the_wire_is_not_repeated() -> None:
    bus = Bus(500_000, lambda frame, attempts, start: LAST_BIT)
    Recorder(bus)
    sender = bus.controller()
    back: list[Frame] = []
    sender.on_abort = lambda frame, now: back.append(frame)
    sender.load(Frame(2))
    bus.advance(1)
    sender.abort()
    bus.advance(10_000_000)
    assert back == [Frame(2)]
    assert (bus.errors, sender.lost, sender.mailbox) == (1, 1, None)


def test_a_one_shot_is_tried_once() -> None:
    bus = Bus(500_000, lambda frame, attempts, start: LAST_BIT if attempts == 0 else 0)
    recorder = Recorder(bus)
    sender = bus.controller()
    sender.load(Frame(2), one_shot=True)
    bus.advance(10_000_000)
    assert (bus.errors, bus.frames, sender.lost) == (1, 0, 1)
    sender.load(Frame(2))
    bus.advance(20_000_000)
    assert recorder.frames == [Frame(2)]


def test_filters_choose_by_identifier_and_kind() -> None:
    bus = Bus(500_000)
    sender, picky, deaf = bus.controller(), bus.controller(), bus.controller()
    heard: list[Frame] = []
    picky.on_receive = lambda frame, now: heard.append(frame)
    picky.accept([(0x100, 0x7F0, False), (0x5, 0x1FFFFFFF, True)])
    deaf.accept([])
    feed(sender, [Frame(0x10F, b"", False), Frame(0x110, b"", False), Frame(0x5), Frame(0x5, b"", False), Frame(0x4)])
    bus.advance(10_000_000)
    assert heard == [Frame(0x10F, b"", False), Frame(0x5)]
    assert (picky.received, deaf.received, sender.sent) == (2, 0, 5)
    with pytest.raises(LocalProtocolError, match="0x800"):
        picky.accept([(0x800, 0x7FF, False)])


# Errors


def test_an_omission_costs_at_most_what_a_calendar_plans() -> None:
    frame = Frame(5, bytes(8))
    bus = Bus(1_000_000, Omissions(1, 1.0, degree=2))
    recorder = Recorder(bus)
    sender = bus.controller()
    sender.load(frame)
    bus.advance(10_000_000)
    [(end, _)] = recorder.log
    assert bus.errors == 2
    assert end < (2 * (frame_bits(frame) + ERROR_BITS) + frame_bits(frame)) * bus.bit
    assert (sender.tec, recorder.controller.rec) == (15, 1)
    bus.omit = None
    feed(sender, [Frame(6)] * 20)
    bus.advance(50_000_000)
    assert (sender.tec, recorder.controller.rec) == (0, 0)


def test_counters_go_by_the_standard() -> None:
    bus = Bus(500_000, lambda frame, attempts, start: LAST_BIT)
    receiver, sender = bus.controller(), bus.controller()
    states: list[tuple[State, int]] = []
    sender.on_state = lambda state, now: states.append((state, sender.tec))
    sender.load(Frame(1, bytes(8)))
    bus.advance(1_000_000_000)
    assert states == [(State.WARNING, 96), (State.PASSIVE, 128), (State.BUS_OFF, 256)]
    assert (bus.errors, receiver.rec, receiver.state) == (32, 32, State.ACTIVE)
    assert sender.mailbox is None
    with pytest.raises(LocalProtocolError, match="bus-off"):
        sender.load(Frame(1))


@pytest.mark.parametrize(("bitrate", "milliseconds"), [(1_000_000, 1.408), (500_000, 2.816), (125_000, 11.264)])
def test_bus_off_ends_128_times_11_bits_after_it_was_asked(bitrate: int, milliseconds: float) -> None:
    bus, sender, off = bus_off(bitrate)
    free = off + 23 * bus.bit
    back: list[int] = []
    sender.on_state = lambda state, now: back.append(now)
    bus.advance(free + 50_000_000)
    assert back == []  # not by itself
    with pytest.raises(LocalProtocolError, match="BUS_OFF"):
        bus.controllers[0].recover()
    asked = bus.now
    sender.recover()
    assert bus.next_event() == asked + 1408 * bus.bit
    bus.advance(asked + 1408 * bus.bit - 1)
    assert back == []
    bus.advance(asked + 1408 * bus.bit)
    assert back == [asked + int(milliseconds * 1_000_000)]
    assert (sender.state, sender.tec, sender.rec) == (State.ACTIVE, 0, 0)


def bus_off(bitrate: int) -> tuple[Bus, Controller, int]:
    destroyed = Frame(0x7FF, b"\0" * 8)
    bus = Bus(bitrate, lambda frame, attempts, start: LAST_BIT if frame == destroyed else 0)
    bus.controller()
    sender = bus.controller()
    off: list[int] = []
    sender.on_state = lambda state, now: off.append(now) if state is State.BUS_OFF else None
    sender.load(destroyed)
    while not off:
        bus.advance(bus.now + 1000)
    return bus, sender, off[0]


def test_on_a_full_bus_every_frame_counts_one_of_the_128() -> None:
    bus, sender, _ = bus_off(500_000)
    other = bus.controller()
    sent = feed(other, [Frame(1, bytes(8))] * 200)
    sender.recover()
    back: list[int] = []
    sender.on_state = lambda state, now: back.append(len(sent))
    bus.advance(bus.now + 100_000_000)
    # One run is in the error frame that sent it off the bus.
    assert back[0] in (127, 128)


def test_idle_bits_before_a_frame_count_too() -> None:
    bus, sender, off = bus_off(500_000)
    other = bus.controller()
    bus.advance(off + 50_000_000)
    asked = bus.now
    sender.recover()
    back: list[int] = []
    sender.on_state = lambda state, now: back.append(now)
    bus.advance(asked + 700 * bus.bit)
    other.load(Frame(1))
    bus.advance(asked + 10_000_000)
    # 63 whole runs in 700 idle bits, one at the frame's end, 64 after it.
    assert back == [asked + (700 + frame_bits(Frame(1)) + 64 * 11) * bus.bit]


def test_who_is_alone_gets_no_acknowledgement_and_never_goes_off() -> None:
    bus = Bus(500_000)
    alone = bus.controller()
    bus.controller(listen_only=True)
    alone.load(Frame(1))
    bus.advance(100_000_000)
    assert (alone.state, alone.tec, alone.sent) == (State.PASSIVE, 128, 0)
    assert bus.errors > 100
    second = bus.controller()
    bus.advance(200_000_000)
    assert (alone.sent, second.received) == (1, 1)


def test_a_passive_sender_waits_after_its_own_frames() -> None:
    bus = Bus(500_000, lambda frame, attempts, start: LAST_BIT if attempts < 16 and frame.id == 1 else 0)
    recorder = Recorder(bus)
    passive, other = bus.controller("passive"), bus.controller("other")
    passive.load(Frame(1))
    while passive.state is not State.PASSIVE:
        bus.advance(bus.now + 1000)
    other.load(Frame(2))  # worse, but the passive one has to hold back
    bus.advance(bus.now + 3_000_000)
    assert [frame.id for frame in recorder.frames] == [2, 1]


def test_the_same_frame_from_two_is_one_frame() -> None:
    bus = Bus(500_000)
    recorder = Recorder(bus)
    one, two = bus.controller(), bus.controller()
    one.load(Frame(7, b"same"))
    two.load(Frame(7, b"same"))
    bus.advance(1_000_000)
    assert recorder.frames == [Frame(7, b"same")]
    assert (one.sent, two.sent, one.received, two.received) == (1, 1, 0, 0)


def test_the_same_identifier_with_other_data_is_a_quarrel_until_both_are_passive() -> None:
    bus = Bus(500_000)
    recorder = Recorder(bus)
    low, high = bus.controller(), bus.controller()
    low.load(Frame(7, b"\x00"))
    high.load(Frame(7, b"\x01"))
    bus.advance(100_000_000)
    assert bus.errors == 16
    assert recorder.frames == [Frame(7, b"\x00"), Frame(7, b"\x01")]
    assert low.tec == 127
    assert high.tec == 135


def test_who_leaves_in_the_middle_of_a_frame_is_an_error_for_the_others() -> None:
    bus = Bus(500_000)
    recorder = Recorder(bus)
    errors: list[int] = []
    recorder.controller.on_error = lambda frame, now: errors.append(now)
    leaving, staying = bus.controller(), bus.controller()
    leaving.load(Frame(1, bytes(8)))
    staying.load(Frame(2))
    bus.advance(20_000)
    leaving.detach()
    bus.advance(1_000_000)
    assert errors == [20_000]
    assert recorder.frames == [Frame(2)]
    assert recorder.log[0][0] == 20_000 + (23 + frame_bits(Frame(2)) - 3) * bus.bit


def test_limits() -> None:
    with pytest.raises(LimitError, match="1000001"):
        Bus(1_000_001)
    bus = Bus(500_000)
    bus.advance(5)
    with pytest.raises(LocalProtocolError, match="before"):
        bus.advance(4)
    listener = bus.controller(listen_only=True)
    with pytest.raises(LocalProtocolError, match="only listens"):
        listener.load(Frame(1))
    for _ in range(1023):
        bus.controller()
    with pytest.raises(LimitError, match="1024"):
        bus.controller()
