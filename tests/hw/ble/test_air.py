"""The physics of the virtual radio: laws, a reference model without shortcuts, and that every run is the same run."""

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.errors import LimitError, LocalProtocolError
from vicinal_hw.ble.air import Air, Transmission
from vicinal_hw.ble.physics import Model, aux_duration, legacy_duration, pointer_duration
from vicinal_hw.ble.radio import Radio

SECOND = 1_000_000
DATA = bytes(range(31))


class NoDelay(Random):
    """Chance that always chooses the first: all who start at the same time send at the same time."""

    def randrange(self, *args: Any, **kwargs: Any) -> int:
        return 0


def listener(air: Air, x: float, y: float = 0.0) -> tuple[Radio, list[tuple[bytes, int, int]]]:
    heard: list[tuple[bytes, int, int]] = []
    radio = air.radio("", x, y)
    radio.on_heard = lambda data, rssi, now: heard.append((data, rssi, now))
    radio.scan()
    return radio, heard


def counts(air: Air) -> tuple[int, ...]:
    return air.reached, air.heard, air.asleep, air.busy, air.collided, air.lost


def adds_up(air: Air) -> bool:
    reached, *parts = counts(air)
    return reached == sum(parts)


def test_durations_are_those_of_the_bits() -> None:
    assert legacy_duration(31) == 376
    assert legacy_duration(0) == 128
    assert pointer_duration() == 136
    assert aux_duration(100) == 8 * 120
    assert aux_duration(245) == 2120  # the longest PDU: 265 bytes
    assert aux_duration(254) == 2120 + 300 + 8 * (14 + 9)


@given(st.floats(1.6, 4.0), st.integers(-100, -70), st.integers(-20, 20))
def test_reach_is_where_the_signal_ends(exponent: float, sensitivity: int, power: int) -> None:
    model = Model(exponent, sensitivity)
    reach = model.reach(power)
    if reach < 2:
        return
    assert model.rssi(reach * 0.999, power) > sensitivity > model.rssi(reach * 1.001, power)
    air = Air(3, model, cell=50.0)
    sender = air.radio("sender", 0, 0, power)
    _, near = listener(air, reach * 0.999)
    _, far = listener(air, reach * 1.001)
    sender.advertise(DATA)
    air.advance(SECOND)
    assert near
    assert not far
    assert {rssi for _, rssi, _ in near} == {round(model.rssi(reach * 0.999, power))}


@given(st.integers(0, 1 << 30), st.integers(20_000, 500_000))
def test_events_come_at_the_interval_and_up_to_ten_milliseconds(seed: int, interval: int) -> None:
    air = Air(seed)
    sender = air.radio()
    begun: list[int] = []
    sender.advertise(DATA, interval)
    while air.step(20 * interval):
        if sender.sending is not None and sender.sending.begin not in begun:
            begun.append(sender.sending.begin)
    assert begun[0] <= 10_000
    assert all(interval <= after - before <= interval + 10_000 for before, after in pairwise(begun))
    assert sender.sent == len(begun)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1])
def test_a_scanner_hears_what_falls_into_its_windows(share: float) -> None:
    air = Air(5)
    sender = air.radio()
    receiver, heard = listener(air, 20)
    receiver.scan(int(300_000 * share), 300_000)
    sender.advertise(DATA, 20_000)
    air.advance(300 * SECOND)
    assert adds_up(air)
    assert len(heard) / sender.sent == pytest.approx(share, abs=0.02)


def test_two_at_once_are_heard_by_nobody_unless_one_is_much_stronger() -> None:
    air = Air()
    air._random = NoDelay()
    one, other = air.radio("one", 0), air.radio("other", 100)
    _, between = listener(air, 50)
    _, beside = listener(air, 10)
    one.advertise(b"one")
    other.advertise(b"other")
    air.advance(SECOND)
    assert between == []
    assert {data for data, _, _ in beside} == {b"one"}
    assert air.collided
    assert adds_up(air)


def test_capture_is_exactly_as_much_as_the_model_says() -> None:
    for metres, expected in ((19.7, set[bytes]()), (19.8, {b"one"})):  # 8 dB are a factor of 1.978 with n = 2.7
        air = Air()
        air._random = NoDelay()
        one, other = air.radio("one", 10), air.radio("other", -metres)
        _, heard = listener(air, 0)
        one.advertise(b"one")
        other.advertise(b"two")
        air.advance(SECOND)
        assert {data for data, _, _ in heard} == expected


def test_who_sends_does_not_hear() -> None:
    air = Air()
    air._random = NoDelay()
    one, heard = listener(air, 0)
    other, too = listener(air, 5)
    one.advertise(b"one")
    other.advertise(b"other")
    air.advance(SECOND)
    assert heard == too == []
    assert air.busy == air.reached > 0


def test_loss_is_as_often_as_asked_for() -> None:
    air = Air(1, Model(loss=0.1))
    sender = air.radio()
    for at in range(20):
        listener(air, 1.0 + at)
    sender.advertise(DATA, 20_000)
    air.advance(60 * SECOND)
    assert adds_up(air)
    assert air.lost / (air.lost + air.heard) == pytest.approx(0.1, abs=0.01)


def test_an_extended_advertisement_is_heard_whole() -> None:
    air = Air(2)
    sender = air.radio()
    _, heard = listener(air, 100)
    sender.advertise(bytes(254), 100_000)
    air.advance(10 * SECOND)
    assert sender.extended
    assert len(heard) + air.asleep == sender.sent
    assert len(heard) > 0.9 * sender.sent
    assert adds_up(air)


def test_who_follows_a_pointer_misses_what_comes_meanwhile() -> None:
    air = Air()
    air._random = NoDelay()
    long, short = air.radio("long", 0), air.radio("short", 5)
    receiver, heard = listener(air, 10)
    receiver.scan(SECOND, SECOND)
    long.advertise(bytes(200))
    air.advance(3 * pointer_duration() + 2 * 150 + 300)  # the data begin
    short.advertise(b"short")
    air.advance(50_000)
    assert [data for data, _, _ in heard] == [bytes(200)]
    assert air.busy == 1


def test_extended_data_collide_on_a_secondary_channel() -> None:
    air = Air()
    air._random = NoDelay()
    one, other = air.radio("one", 0), air.radio("other", 100)
    _, heard = listener(air, 50)
    one.advertise(bytes(100))
    air.advance(900)
    other.advertise(bytes(100))  # its pointers fall on the other's data, on another channel; its data on the same one
    air.advance(90_000)
    assert heard == []
    assert air.collided == 1
    assert air.busy == 1
    assert adds_up(air)


def test_moving_changes_who_hears() -> None:
    air = Air(1)
    sender = air.radio()
    receiver, heard = listener(air, 1000)
    sender.advertise(DATA)
    air.advance(SECOND)
    assert heard == []
    receiver.move(30, 40)
    air.advance(2 * SECOND)
    assert {rssi for _, rssi, _ in heard} == {round(air.model.rssi(50, 8))}
    before = len(heard)
    sender.move(-5000, 3)
    air.advance(3 * SECOND)
    assert len(heard) == before
    sender.move(31, 40)
    air.remove(receiver)
    air.advance(4 * SECOND)
    assert len(heard) == before


def test_new_data_are_sent_at_once_and_none_ends_it() -> None:
    air = Air(1)
    sender = air.radio()
    receiver, heard = listener(air, 10)
    receiver.scan(10 * SECOND, 10 * SECOND)
    sender.advertise(b"old", 10_000_000)
    air.advance(20_000)
    sender.advertise(b"new", 10_000_000)
    air.advance(40_000)
    assert [data for data, _, _ in heard] == [b"old", b"new"]
    sender.advertise(None)
    air.advance(30 * SECOND)
    assert len(heard) == 2
    assert air.next_event() is None


class Logged(Air):
    def __init__(self, seed: int, model: Model) -> None:
        super().__init__(seed, model, cell=37.0)
        self.log: list[Transmission] = []

    def _begin(self, radio: Radio) -> None:
        super()._begin(radio)
        if radio.sending is not None and (not self.log or self.log[-1] is not radio.sending):
            self.log.append(radio.sending)


def expected(radios: list[Radio], log: list[Transmission], model: Model) -> dict[tuple[int, int], bool]:
    """Who hears what, legacy only: every pair of radios, every PDU against every other, no shortcut."""

    def pdus(sent: Transmission) -> list[tuple[int, int]]:
        length = 8 * (1 + 4 + 2 + 6 + len(sent.data) + 3)
        return [(sent.begin + k * (length + 150), sent.begin + k * (length + 150) + length) for k in range(3)]

    def strength(a: Radio, b: Radio) -> float:
        return model.rssi(((a.x - b.x) ** 2 + (a.y - b.y) ** 2) ** 0.5, a.power)

    def hears(receiver: Radio, sent: Transmission) -> bool:
        own = [(pdus(each)[0][0], pdus(each)[2][1]) for each in log if each.radio is receiver]
        for k, (begin, end) in enumerate(pdus(sent)):
            slot = (begin + receiver.phase) // receiver.scan_interval
            opens = slot * receiver.scan_interval - receiver.phase
            if slot % 3 != k or not opens <= begin <= end <= opens + receiver.window:
                continue
            if any(begin < until and end > since for since, until in own):
                continue
            if any(
                other is not sent
                and pdus(other)[k][0] < end
                and pdus(other)[k][1] > begin
                and strength(sent.radio, receiver) - strength(other.radio, receiver) < model.capture
                for other in log
            ):
                continue
            return True
        return False

    return {
        (at, number): hears(receiver, sent)
        for at, sent in enumerate(log)
        for number, receiver in enumerate(radios)
        if receiver is not sent.radio and strength(sent.radio, receiver) >= model.sensitivity
    }


PLACES = st.lists(st.tuples(st.integers(-400, 400), st.integers(-400, 400)), min_size=2, max_size=12)


@settings(max_examples=60)
@given(PLACES, st.integers(0, 1 << 30), st.integers(3_000, 40_000), st.sampled_from([0.3, 1.0]))
def test_the_same_as_a_model_without_shortcuts(
    places: list[tuple[int, int]], seed: int, interval: int, share: float
) -> None:
    model = Model()
    air = Logged(seed, model)
    for number, (x, y) in enumerate(places):
        radio = air.radio(str(number), x + 0.5, y + 0.25, power=(8, 0, 20)[number % 3])
        radio.scan(max(2_500, int(interval * share)), interval)
        radio.advertise(bytes([number] * (number * 3 % 32)), 20_000)
    heard: set[tuple[int, int]] = set()

    def remember(number: int) -> None:
        def on_heard(data: bytes, rssi: int, now: int) -> None:
            sent = next(at for at in range(len(air.log) - 1, -1, -1) if air.log[at].ends == now)
            heard.add((sent, number))

        air.radios[number].on_heard = on_heard

    for number in range(len(places)):
        remember(number)
    air.advance(100_000)
    for radio in air.radios:
        radio.advertise(None)
    air.advance(110_000)
    ends = [sent.ends for sent in air.log]
    if len(set(ends)) < len(ends):
        return  # two ended in the same microsecond: the callback does not say which it was
    wanted = expected(air.radios, air.log, model)
    assert heard == {key for key, value in wanted.items() if value}
    assert air.reached == len(wanted)
    assert adds_up(air)


def trace(seed: int) -> list[tuple[int, bytes, int, int]]:
    air = Air(seed, Model(loss=0.2))
    found: list[tuple[int, bytes, int, int]] = []
    places = Random(9)
    for number in range(40):
        radio = air.radio("", places.uniform(0, 600), places.uniform(0, 600))
        radio.on_heard = lambda data, rssi, now, number=number: found.append((number, data, rssi, now))
        radio.scan()
        radio.advertise(bytes([number]) * (20 if number % 4 else 60), 50_000)
    air.advance(SECOND)
    assert adds_up(air)
    return found


def test_every_run_of_a_seed_is_the_same_run() -> None:
    assert trace(1) == trace(1)
    assert trace(1) != trace(2)


def test_what_cannot_be_is_refused_and_changes_nothing() -> None:
    air = Air()
    radio = air.radio()
    with pytest.raises(LimitError, match="legacy advertisement"):
        radio.advertise(bytes(32), extended=False)
    with pytest.raises(LimitError, match="255 bytes"):
        radio.advertise(bytes(255))
    with pytest.raises(LimitError, match="interval"):
        radio.advertise(DATA, 19_999)
    with pytest.raises(LocalProtocolError, match="window"):
        radio.scan(30_000, 20_000)
    with pytest.raises(LimitError, match="power"):
        air.radio(power=21)
    with pytest.raises(LimitError, match="loss"):
        Air(0, Model(loss=1.5))
    air.advance(10)
    with pytest.raises(LocalProtocolError, match="before"):
        air.advance(9)
    assert radio.data is None
    assert air.next_event() is None
    assert len(air.radios) == 1


def test_one_after_the_other_is_no_collision() -> None:
    """The first microsecond after a PDU is free again, and the last one of it is not."""
    for wait, expected in ((376 - 1, set[bytes]()), (376, {b"a" * 31, b"b" * 31})):
        air = Air()
        air._random = NoDelay()
        one, other = air.radio("one", 0), air.radio("other", 100)
        receiver, heard = listener(air, 50)
        receiver.scan(SECOND, SECOND)
        one.advertise(b"a" * 31)
        air.advance(wait)
        other.advertise(b"b" * 31)
        air.advance(50_000)
        assert {data for data, _, _ in heard} == expected


def test_data_that_were_replaced_are_not_sent_any_more() -> None:
    air = Air(4)
    sender = air.radio()
    for number in range(10):
        sender.advertise(bytes([number]), 100_000)
        air.advance(air.now + 1_000)
    before = sender.sent
    air.advance(air.now + 10 * SECOND)
    assert 90 <= sender.sent - before <= 101


def test_who_drives_from_cell_to_cell_is_in_one_at_a_time() -> None:
    air = Air(3, cell=40.0)
    sender = air.radio()
    receiver, heard = listener(air, 30)
    sender.advertise(DATA, 20_000)
    for number in range(50):
        receiver.move(30.0 + 40 * (number % 3), 0.0)
        air.advance(air.now + 50_000)
    assert len({now for _, _, now in heard}) == len(heard) > 50
    assert air.reached == sender.sent


def test_a_collision_counts_although_one_of_both_is_long_over() -> None:
    air = Air()
    air._random = NoDelay()
    early, long, short, late = (air.radio(name, x) for name, x in (("early", 0), ("long", 0), ("short", 100), ("l", 0)))
    receiver, heard = listener(air, 50)
    receiver.scan(SECOND, SECOND)
    air.advance(8_000)
    early.advertise(b"early")
    air.advance(9_000)
    early.advertise(None)
    air.advance(10_000)
    long.advertise(bytes(254))  # its data are on the air from 1,008 to 3,612 us after this
    air.advance(10_800)
    short.advertise(bytes(40))  # and these from 1,808 to 2,288, on the same channel
    air.advance(13_500)
    late.advertise(b"late")  # makes the air forget what is over
    air.advance(30_000)
    assert bytes(254) not in [data for data, _, _ in heard]
    assert air.collided >= 1
