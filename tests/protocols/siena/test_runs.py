"""Runs against reading, publishing and delivering one by one: the same messages, the same frames for each client."""

import contextlib
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import Grammar, Seeded

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.filter._cuts_cpython import MAX_CUTS, Cuts
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.siena.broker import Broker, Refused
from vicinal.siena.connection import Connection
from vicinal.siena.messages import CLIENT, delivery, encode, framed
from vicinal.siena.runs_cpython import MIN_RUN, Run
from vicinal.stream import FrameReader

SEQ = 1 << 32


def speed(seq: int, **values: Any) -> Event:
    params = {"plate": "B-XY 123", "rate": 47.3, "lat": -521234567, "lane": 2, "on": True, "raw": b"\x00\xff", **values}
    return Event("Speed", list(params.items()), {"Time": 1700000000000 + seq % 7}, "car-7", seq)


def published(*events: Event, advert: int = 1) -> bytes:
    return b"".join([framed(encode(("publish", None, advert, event))) for event in events])


def accepting(with_runs: bool) -> Connection:
    connection = Connection(0)
    connection.receive_data(framed(encode(("hello", 1, CLIENT, "car-7"))), 0)
    assert connection.next_events()
    connection.welcome("b1")
    if not with_runs:
        connection._runs = None
    return connection


def heard(connection: Connection, pieces: list[bytes]) -> tuple[list[Any], int]:
    """The messages one by one, and how many came in runs."""
    found: list[Any] = []
    in_runs = 0
    for piece in pieces:
        connection.receive_data(piece, 0)
        while events := connection.next_events():
            for event in events:
                if event[0] == "run":
                    found.extend(event[1].messages())
                    in_runs += len(event[1])
                else:
                    found.append(event)
    return found, in_runs


def pieces_of(data: bytes, source: random.Random) -> list[bytes]:
    found = []
    while data:
        size = source.choice([1, 50, 1000, 10000, 65536])
        found.append(data[:size])
        data = data[size:]
    return found


def some_event(source: random.Random, seq: int) -> Event:
    kinds: list[Any] = [47.3, 48.5, 1e300, float("inf"), float("nan"), 0.1, 65504.0, 1.1920928955078125e-07]
    ints = [0, 23, 24, 255, 256, 65535, 65536, (1 << 32) - 1, 1 << 32, -1, -24, -25, -(1 << 63)]
    values: dict[str, Any] = {}
    if source.random() < 0.3:
        values["rate"] = source.choice(kinds)
    if source.random() < 0.2:
        values["lane"] = source.choice(ints)
    if source.random() < 0.1:
        values["plate"] = source.choice(["B-XY 124", "BÄXY 12", "\N{GRINNING FACE}", ""])
    return speed(seq, **values)


@given(st.integers(0, (1 << 64) - 1))
def test_a_stream_says_the_same_in_runs_and_one_by_one(seed: int) -> None:
    source = random.Random(seed)
    frames = []
    seq = source.choice([20, 250, 65530, SEQ])
    while len(frames) < 200:
        event = some_event(source, seq)
        for _ in range(source.choice([1, 3, 20, 60])):
            seq += source.choice([1, 1, 1, 5])
            frames.append(published(event.replace(seq=seq)))
    data = bytearray(b"".join(frames))
    if source.random() < 0.7:
        for _ in range(source.choice([1, 2, 5])):
            data[source.randrange(len(data))] = source.randrange(256)
    pieces = pieces_of(bytes(data), source)
    expected, _ = heard(accepting(False), pieces)
    assert heard(accepting(True), pieces)[0] == expected


@pytest.mark.parametrize("step", [0.001234, 0.1, 0.5, 1])
def test_what_comes_fast_comes_in_runs(step: float) -> None:
    """Whether all have one size, or a float has fewer bytes now and then."""
    data = published(*[speed(SEQ + n, rate=20 + n % 300 * step) for n in range(3000)])
    found, in_runs = heard(accepting(True), [data[at : at + 65536] for at in range(0, len(data), 65536)])
    assert len(found) == 3000
    assert in_runs > 2000


WRONG = [
    (speed(SEQ, rate=0.1), b"\xfb\x3f\xb9\x99\x99\x99\x99\x99\x9a", b"\xfb\x7f\xf8\x00\x00\x00\x00\x00\x01"),
    (speed(SEQ, rate=0.1), b"\xfb\x3f\xb9\x99\x99\x99\x99\x99\x9a", b"\xfb\x3f\xf8\x00\x00\x00\x00\x00\x00"),
    (speed(SEQ, lane=300), b"\x19\x01\x2c", b"\x19\x00\x2c"),
    (speed(SEQ, lane=70000), b"\x1a\x00\x01\x11\x70", b"\x1a\x00\x00\x11\x70"),
    (speed(SEQ, lane=1 << 40), b"\x1b\x00\x00\x01\x00\x00\x00\x00\x00", b"\x1b\x80\x00\x00\x00\x00\x00\x00\x00"),
    (speed(SEQ, lane=100), b"\x18\x64", b"\x18\x04"),
    (speed(SEQ, lane=2), b"lane\x02", b"lane\x1f"),
    (speed(SEQ, lane=-2), b"lane\x21", b"lane\x3f"),
    (speed(SEQ, on=True), b"on\xf5", b"on\xf7"),
    (speed(SEQ, plate="B-XY 123"), b"B-XY 123", b"B-XY \xff23"),
]


@pytest.mark.parametrize(("event", "right", "wrong"), WRONG)
def test_a_run_ends_before_what_the_reader_refuses(event: Event, right: bytes, wrong: bytes) -> None:
    connection = accepting(True)
    heard(connection, [published(*[event.replace(seq=SEQ + n) for n in range(20)])])
    bad = published(event.replace(seq=SEQ + 60))
    assert right in bad
    more = published(*[event.replace(seq=SEQ + 20 + n) for n in range(40)])
    found, in_runs = heard(connection, [more + bad.replace(right, wrong) + more])
    assert in_runs == 40
    assert [message[0] for message in found] == ["publish"] * 40 + ["closed"]


def filters_of(source: random.Random) -> str:
    if source.random() < 0.3:
        return Grammar(Seeded(source.randrange(1 << 62)), depth=2).condition()
    low = source.randrange(400, 560) / 10
    return source.choice(
        [
            f"subject = 'Speed' AND rate >= {low} AND rate < {low + source.choice([0.5, 3, 40])}",
            f"rate > {low}",
            f"NOT rate > {low} OR lane IN (1, 3, 5)",
            f"rate <> {low} AND lane < {source.randrange(8)}",
            f"$Time >= {1700000000000 + source.randrange(8)}",
            "subject = 'Speed'",
            "lane IS NULL",
            "plate LIKE 'B-%'",
            "rate = lane",
            "subject = 'Other'",
            "plate = 'B-XY 123'",
            "plate <> 'B-XY 123' AND rate > 45",
            "on",
            "NOT on",
            "raw IS NOT NULL",
        ]
    )


def one_by_one(broker: Broker, events: list[Event], wanted: dict[str, list[bytes]]) -> None:
    for event in events:
        with contextlib.suppress(Refused):
            broker.publish("car-7", broker.check_publish("car-7", 1, event), event, 0)
    for event, trail, takers in broker.deliveries():
        for client, numbers in takers:
            wanted.setdefault(client, []).append(delivery(numbers, event, trail))


@given(st.integers(0, (1 << 64) - 1))
def test_a_run_is_delivered_as_its_events_are(seed: int) -> None:
    """Also between subscriptions that come and go, and what is published one by one."""
    source = random.Random(seed)
    both = [Broker("b1", 1, ScopeGraph()), Broker("b1", 1, ScopeGraph())]
    advertised = source.choice(["subject = 'Speed'", "TRUE", "rate < 57", "plate = 'B-XY 123'", "on = TRUE"])
    rest = source.random() < 0.8
    for broker in both:
        broker.advertise("car-7", Filter(advertised), Tags(rest=rest))
    expected: dict[str, list[bytes]] = {}
    found: dict[str, list[bytes]] = {}
    asked: list[tuple[str, int]] = []
    seq = SEQ
    for _ in range(source.choice([2, 4])):
        for _ in range(source.choice([1, 3, 10])):
            client = source.choice(["a", "b", "c", "d", "car-7"])
            text = filters_of(source)
            for broker in both:
                number = broker.subscribe(client, Filter(text), Tags(), 0)
            asked.append((client, number))
        if source.random() < 0.3 and asked:
            client, number = asked.pop(source.randrange(len(asked)))
            for broker in both:
                broker.unsubscribe(client, number, 0)
        events = []
        one_size, varied = source.random() < 0.5, source.random() < 0.5
        for _ in range(60):
            rate = source.randrange(400, 560) / 10
            rate += source.choice([0.0, 1e-9]) + (1e-9 if one_size and (rate * 2).is_integer() else 0)
            seq += 1
            plate = f"B-XY 12{source.randrange(3, 5)}" if varied else "B-XY 123"
            on = not varied or source.random() < 0.5
            events.append(speed(seq, rate=rate, lane=source.randrange(8), plate=plate, on=on))
        one_by_one(both[0], events, expected)
        for message in heard_in_runs(events):
            if isinstance(message, Run):
                frames = both[1].publish_run("car-7", message)
                if frames is not None:
                    for client, data, count, _ in frames:
                        reader = FrameReader()
                        reader.receive_data(data)
                        contents = reader.next_frames(1 << 16)
                        while more := reader.next_frames(1 << 16):
                            contents += more
                        assert len(contents) == count
                        found.setdefault(client, []).extend([framed(content) for content in contents])
                    continue
                one_by_one(both[1], [event for *_, event in message.messages()], found)
            else:
                one_by_one(both[1], [message], found)
    assert found == expected
    assert both[0].counts == both[1].counts


def heard_in_runs(events: list[Event]) -> list[Any]:
    connection = accepting(True)
    found: list[Any] = []
    for piece in (published(*events[:MIN_RUN]), published(*events[MIN_RUN:])):
        connection.receive_data(piece, 0)
        while messages := connection.next_events():
            found.extend([message[1] if message[0] == "run" else message[3] for message in messages])
    return found


def test_events_that_went_before_go_nowhere_in_a_run_either() -> None:
    broker = Broker("b1", 1, ScopeGraph())
    broker.advertise("car-7", Filter("TRUE"), Tags())
    broker.subscribe("a", Filter("TRUE"), Tags(), 0)
    events = [speed(SEQ + n) for n in range(40)]
    runs = [one for one in heard_in_runs(events) if isinstance(one, Run)]
    assert runs
    first = broker.publish_run("car-7", runs[0])
    assert first is not None
    assert sum([count for _, _, count, _ in first]) == len(runs[0])
    assert broker.publish_run("car-7", runs[0]) is None
    assert broker.publish_run("car-8", runs[0]) is None


@given(st.integers(0, (1 << 64) - 1))
def test_no_filter_tells_values_of_one_class_apart(seed: int) -> None:
    source = random.Random(seed)
    texts = [filters_of(source) for _ in range(5)]
    cuts = Cuts()
    for text in texts:
        cuts.add(Filter(text))
    values = [source.randrange(390, 570) / 10 + source.choice([0, 1e-9, -1e-9]) for _ in range(60)]
    place = (0, "rate")
    if place not in cuts:
        return
    classes = cuts.classes(place, np.array(values))
    if classes is None:
        return
    answers: dict[int, Any] = {}
    for value, kind in zip(values, classes[0].tolist()):
        assert 0 <= kind < classes[1]
        found = [Filter(text).matches(speed(1, rate=value)) for text in texts]
        assert answers.setdefault(kind, found) == found
    for text in texts:
        cuts.remove(Filter(text))
    assert place not in cuts
    assert not cuts._sorted


@pytest.mark.parametrize("text", ["plate = 'B-XY 123'", "on = TRUE", "plate LIKE 'B-%3'", "rate = lane"])
@pytest.mark.parametrize("advertised", [False, True])
def test_what_is_no_number_is_looked_at_one_by_one(text: str, advertised: bool) -> None:
    broker = Broker("b1", 1, ScopeGraph())
    broker.advertise("car-7", Filter(text if advertised else "TRUE"), Tags())
    broker.subscribe("a", Filter("TRUE" if advertised else text), Tags(), 0)
    events = [speed(SEQ + n, plate=f"B-XY 12{n % 2}", on=n % 2 == 0) for n in range(40)]
    assert [broker.publish_run("car-7", one) for one in heard_in_runs(events) if isinstance(one, Run)] == [None]


def test_too_many_cuts_are_no_cuts() -> None:
    cuts = Cuts()
    for number in range(MAX_CUTS + 1):
        cuts.add(Filter(f"rate > {number}"))
    assert cuts.classes((0, "rate"), np.array([1.0])) is None
    cuts.remove(Filter("rate > 7"))
    assert cuts.classes((0, "rate"), np.array([1.0])) is not None
