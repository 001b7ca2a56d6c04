"""One event that comes alone, the short way and the long one: the same is read, and the same clients get it."""

import contextlib
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocols.siena.test_runs import SEQ, WRONG, accepting, filters_of, heard, published, some_event, speed

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.siena import single_matching_cpython as matching
from vicinal.siena.broker import Broker, Refused
from vicinal.siena.connection import Connection
from vicinal.siena.messages import AFTER_EVENT, before_event, delivery, encode, framed
from vicinal.siena.records import Record
from vicinal.siena.singles_cpython import _LEARN_EVERY, _MAX_SHAPES
from vicinal.wire import encode as encode_event


def alone(connection: Connection, data: bytes, is_wanted: bool = True) -> tuple[Any, list[Any]]:
    """What the short way finds, and what the long way says if it finds nothing, or nothing that is wanted."""
    found = connection.read_single(data)
    if found is None or not is_wanted:
        return None, heard(connection, [data])[0]
    connection.took_single(len(data), 0)
    return found, []


def taught(event: Event) -> Connection:
    connection = accepting(True)
    for number in range(_LEARN_EVERY):
        assert alone(connection, published(event.replace(seq=SEQ + number)))[0] is None
    return connection


@given(st.integers(0, (1 << 64) - 1))
def test_what_is_read_is_what_the_strict_reader_reads(seed: int) -> None:
    source = random.Random(seed)
    short, long = accepting(True), accepting(False)
    seq = source.choice([20, 250, 65530, SEQ])
    event = some_event(source, seq)
    for _ in range(60):
        if source.random() < 0.1:
            event = some_event(source, seq)
        seq += source.choice([1, 1, 5])
        data = bytearray(published(event.replace(seq=seq), advert=source.choice([1, 1, 1, 2])))
        if source.random() < 0.05:
            data[source.randrange(len(data))] = source.randrange(256)
        if source.random() < 0.05:  # in two reads, or two in one
            data = data[: source.randrange(1, len(data))] if source.random() < 0.5 else data * 2
        found, said = alone(short, bytes(data), source.random() < 0.8)
        expected = heard(long, [bytes(data)])[0]
        if found is None:
            assert said == expected
        else:
            single, values = found
            [(kind, request, advert, strictly)] = expected
            assert (kind, request, advert) == ("publish", None, single.advert)
            assert bytes(data)[single.event_at :] == encode_event(strictly)
            named = [(strictly.params if place[0] == 0 else strictly.attrs)[place[1]] for place in single.places[1:]]
            assert values == (strictly.seq, *named)
            assert [type(value) for value in values[1:]] == [type(value) for value in named]
        if expected and expected[-1][0] == "closed":
            assert short.closed
            break


def test_what_comes_again_is_read_the_short_way() -> None:
    connection = taught(speed(SEQ))
    for n in range(100):
        found, _ = alone(connection, published(speed(SEQ + 100 + n, rate=20.1 + n / 7, plate=f"B-XY 1{n:02}")))
        assert found is not None
        assert found[1][0] == SEQ + 100 + n


@pytest.mark.parametrize(("event", "right", "wrong"), WRONG)
def test_what_the_reader_refuses_is_left_to_it(event: Event, right: bytes, wrong: bytes) -> None:
    connection = taught(event)
    assert alone(connection, published(event.replace(seq=SEQ + 20)))[0] is not None
    bad = published(event.replace(seq=SEQ + 21))
    assert right in bad
    found, said = alone(connection, bad.replace(right, wrong))
    assert found is None
    assert [message[0] for message in said] == ["closed"]


def test_what_else_may_come_goes_the_long_way() -> None:
    event = speed(SEQ)
    more = published(event.replace(seq=SEQ + 20))
    asking = framed(encode(("publish", 7, 1, event.replace(seq=SEQ + 20))))
    traced = [published(Event("Speed", [("rate", 47.3)], {name: 5}, "car-7", SEQ)) for name in ("Priority", "Trace")]
    for data in (asking, more + more, more[:-1], more + b"\x40", framed(encode(("ping", 1)))):
        assert taught(event).read_single(data) is None
    for data in traced:
        connection = accepting(True)
        for _ in range(3 * _LEARN_EVERY):
            assert alone(connection, data)[0] is None
    # After the first bytes of a frame nothing is alone.
    connection = taught(event)
    connection.receive_data(more[:10], 0)
    assert connection.next_events() == []
    assert connection.read_single(more) is None
    # Nor after the end.
    connection = taught(event)
    connection.bye(0, "")
    assert connection.read_single(more) is None
    dialler = Connection(0, ("hello", 1, 0, "car-7"))
    assert dialler.read_single(more) is None


def test_who_sends_alone_is_heard() -> None:
    connection = taught(speed(SEQ))
    data = published(speed(SEQ + 20))
    assert connection.read_single(data) is not None
    assert connection.next_timeout() == 15_000
    connection.took_single(len(data), 50_000)
    assert connection.next_timeout() == 65_000


def test_few_shapes_are_remembered() -> None:
    connection = accepting(True)
    for n in range(10 * _MAX_SHAPES):
        for _ in range(_LEARN_EVERY):
            alone(connection, published(speed(SEQ, plate="x" * n)))
    assert 0 < len(connection._singles.by_size) <= _MAX_SHAPES


@given(st.lists(st.integers(0, 1 << 40), max_size=30), st.sampled_from([1, 23, 24, 200, 255, 256, 65000]))
def test_what_stands_around_an_event(numbers: list[int], size: int) -> None:
    event = Event("S", [("x", bytes(size))], {}, "c", 1)
    data = encode_event(event)
    expected = framed(encode(("deliver", tuple(numbers), event, None, ())))
    assert before_event(tuple(numbers), len(data)) + data + AFTER_EVENT == expected
    assert delivery(tuple(numbers), event) == expected


class Publisher:
    """At a broker of its own, the short way where that goes, or always the long one."""

    def __init__(self, is_short: bool) -> None:
        self.broker = Broker("b1", 1, ScopeGraph())
        self.connection = accepting(is_short)
        self.given: dict[str, list[bytes]] = {}
        self.short = 0
        self.refused = 0

    def publish(self, data: bytes) -> None:
        found = self.connection.read_single(data)
        if found is not None:
            single, values = found
            audience = self.broker.publish_single("car-7", single, values, data)
            if audience is not None:
                self.connection.took_single(len(data), 0)
                self.short += 1
                event = data[single.event_at :]
                for client, numbers in audience.takers:
                    frame = before_event(numbers, len(event)) + event + AFTER_EVENT
                    self.given.setdefault(client, []).append(frame)
                assert audience.clients == tuple([client for client, _ in audience.takers])
                return
        for _, _, advert, event in heard(self.connection, [data])[0]:
            try:
                self.broker.publish("car-7", self.broker.check_publish("car-7", advert, event), event, 0)
            except Refused:
                self.refused += 1
        for event, trail, takers in self.broker.deliveries():
            for client, numbers in takers:
                self.given.setdefault(client, []).append(delivery(numbers, event, trail))


def told_by_a_neighbour(broker: Broker, number: int, *content: Any) -> None:
    broker.receive("b2", ("packets", 1, "b2", 7, (), content, [("b1", 1, 1, number, ())], ()), 0)


@given(st.integers(0, (1 << 64) - 1))
def test_the_same_clients_get_it(seed: int) -> None:
    """While subscriptions and advertisements come and go, here and at another broker."""
    source = random.Random(seed)
    both = [Publisher(True), Publisher(False)]
    asked: list[tuple[str, int]] = []
    seq = SEQ
    neighbour = 0
    if source.random() < 0.3:
        for one in both:
            one.broker.link_up("b2", 0)
            one.broker.receive("b2", ("record", Record("b2", 7, 1, ("b1",), frozenset(), ())), 0)
    for _ in range(source.choice([10, 40])):
        chance = source.random()
        if chance < 0.2:
            client, text = source.choice(["a", "b", "c", "d", "car-7"]), filters_of(source)
            for one in both:
                number = one.broker.subscribe(client, Filter(text), Tags(), 0)
            asked.append((client, number))
        elif chance < 0.3 and asked:
            client, number = asked.pop(source.randrange(len(asked)))
            for one in both:
                one.broker.unsubscribe(client, number, 0)
        elif chance < 0.45:
            text = source.choice(["subject = 'Speed'", "TRUE", "rate < 50", "plate = 'B-XY 123'", "on = TRUE"])
            rest = source.random() < 0.8
            for one in both:
                with contextlib.suppress(Refused):
                    one.broker.unadvertise("car-7", 1)
                one.broker.advertise("car-7", Filter(text), Tags(rest=rest), 1)
        elif chance < 0.5 and both[0].broker._links:
            neighbour += 1
            text = filters_of(source)
            for one in both:
                told_by_a_neighbour(one.broker, neighbour, "add", neighbour, Filter(text), Tags())
        elif chance < 0.53:
            for one in both:
                one.broker.drop_client("a", 0)
            asked = [one for one in asked if one[0] != "a"]
        else:
            varied = source.random() < 0.5
            for _ in range(source.choice([1, 20])):
                seq += source.choice([1, 1, 1, 1, 0, -3, 7])
                rate = source.randrange(400, 560) / 10 + source.choice([0.0, 1e-9])
                plate, on = (
                    (f"B-XY 12{source.randrange(3, 5)}", source.random() < 0.5) if varied else ("B-XY 123", True)
                )
                data = published(speed(seq, rate=rate, lane=source.randrange(8), plate=plate, on=on))
                for one in both:
                    one.publish(data)
    assert both[0].given == both[1].given
    assert both[0].broker.counts == both[1].broker.counts
    assert both[0].refused == both[1].refused
    actions = [[(kind, name, encode(what)) for kind, name, what in one.broker.actions()] for one in both]
    assert actions[0] == actions[1]
    known = [one.broker._producers.get("car-7") for one in both]
    if known[0] is not None and known[1] is not None:
        assert known[0].published == known[1].published
        assert known[0].given == known[1].given


def crowd() -> Publisher:
    """With a hundred who want a step each, and one who wants all."""
    one = Publisher(True)
    one.broker.advertise("car-7", Filter("TRUE"), Tags())
    for n in range(100):
        one.broker.subscribe(f"s{n}", Filter(f"rate >= {n} AND rate < {n + 1}"), Tags(), 0)
    one.broker.subscribe("all", Filter("TRUE"), Tags(), 0)
    return one


def test_what_is_known_needs_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    one = crowd()
    for n in range(300):
        one.publish(published(speed(SEQ + n, rate=n % 100 + 0.3)))
    assert one.short > 250
    assert len(one.given["all"]) == 300
    monkeypatch.setattr(matching, "decode", None)
    for n in range(300, 400):
        one.publish(published(speed(SEQ + n, rate=n % 100 + 0.4)))
    assert len(one.given["all"]) == 400
    assert len(one.given["s7"]) == 4


@pytest.mark.parametrize(("name", "most"), [("_MAX_ANSWERS", 10), ("_MAX_TAKERS", 20)])
def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    monkeypatch.setattr(matching, name, most)
    one = crowd()
    for n in range(300):
        one.publish(published(speed(SEQ + n, rate=n * 37 % 100 + 0.3)))
        matcher = one.broker._singles
        assert sum(len(known) for known in matcher._audiences) == matcher._takers
        assert sum(len(single.answers) for single in matcher._used) == matcher._answers
        assert (matcher._answers if name == "_MAX_ANSWERS" else matcher._takers) <= most
    assert len(one.given["all"]) == 300
    assert one.short > 250


def test_text_that_filters_look_at_has_no_classes() -> None:
    for text in ("plate = 'B-XY 123'", "on", "plate LIKE 'B-%3'", "rate = lane", "raw = lane"):
        one = crowd()
        one.broker.subscribe("odd", Filter(text), Tags(), 0)
        for n in range(20):
            one.publish(published(speed(SEQ + n, plate=f"B-XY 12{n % 5}")))
        assert one.short == 0, text
        assert len(one.given["all"]) == 20


def test_what_is_for_other_brokers_goes_the_long_way() -> None:
    one = crowd()
    one.broker.link_up("b2", 0)
    one.broker.receive("b2", ("record", Record("b2", 7, 1, ("b1",), frozenset(), ())), 0)
    told_by_a_neighbour(one.broker, 1, "add", 1, Filter("rate > 50"), Tags())
    for n in range(100):
        one.publish(published(speed(SEQ + n, rate=n + 0.3)))
    assert one.broker.counts["published"] == 100
    assert one.short == 50 - _LEARN_EVERY
    told = [what for kind, _, what in one.broker.actions() if kind == "send" and what[0] == "packets"]
    assert [what[5][1].seq for what in told if what[5][0] == "event"] == [SEQ + n for n in range(50, 100)]
