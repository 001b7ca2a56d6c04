"""Events as MQTT messages and back: on a real mosquitto where it has a say, by themselves where it has none."""

import asyncio
from pathlib import Path
from typing import Any

import cbor2
import hypothesis
import pytest
from edge.mqtt_bench import Bench, run, sent
from edge.servers import Mosquitto
from hypothesis import given
from hypothesis import strategies as st
from strategies import Grammar, Seeded, arbitrary_events, make_event, values

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.proximity import Proximity
from vicinal.tables_cpython import ConfigError
from vicinal_edge.adapter import Refused
from vicinal_edge.adapters._mqtt_events import Malformed, Message, MqttEvents, matches
from vicinal_edge.adapters.mqtt import MqttAdapter
from vicinal_edge.contract import RecordingPort, settings

ALL = Filter("TRUE")
SENSOR = {"topic": "sensors/{room}/temp", "subject": "Temperature", "value": "degrees"}


class TestTopicsOfOthers:
    def test_both_ways(self, mosquitto: Mosquitto, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            tables = [
                {**SENSOR, "topic": bench.prefix + SENSOR["topic"]},
                {"topic": f"x{bench.prefix}{{who}}/state", "subject": "State"},
            ]
            one, one_port = await bench.connected("one", topic=tables)
            two, _ = await bench.connected("two", topic=tables)
            await one.subscribe(Filter("subject = 'Temperature' AND degrees > 20"))
            await one.subscribe(Filter("subject = 'State'"))
            await bench.say(f"{bench.prefix}sensors/kitchen/temp", "21.5")
            await bench.say(f"x{bench.prefix}lamp/state", '{"on": true, "who": "liar"}')
            events = [
                Event("Temperature", {"room": "attic", "degrees": 30}, {"Priority": 2}, "g", 1),
                Event("Temperature", {"room": "attic", "degrees": "30"}, (), "g", 2),
                Event("Temperature", {"room": "attic", "degrees": b"\x30"}, (), "g", 3),
                Event("State", {"who": "door", "on": False, "n": 1.0}, (), "g", 4),
            ]
            await one_port.until(lambda: len(one_port.events) == 2, "both messages")
            await sent(two, *events)
            await one_port.until(lambda: len(one_port.events) == 6, "all events")
            assert one_port.events == [
                Event("Temperature", {"room": "kitchen", "degrees": 21.5}),
                Event("State", {"who": "lamp", "on": True}),
                *events,
            ]
            assert one_port.wrong == []

        run(mosquitto, tmp_path, check)

    def test_plain_numbers_for_others(self) -> None:
        made = MqttAdapter("m", settings({"address": "mqtt://h", "topic": [SENSOR]})).events
        message = made.message(Event("Temperature", {"room": "attic", "degrees": 30.5}), 0)
        assert (message.topic, message.payload) == ("sensors/attic/temp", b"30.5")

    @pytest.mark.parametrize(
        "params",
        [{"degrees": 1}, {"room": "a/b", "degrees": 1}, {"room": "+", "degrees": 1}, {"room": "a"},
         {"room": 5, "degrees": 1}, {"room": "a", "degrees": 1, "more": 2}, {"room": "a", "degrees": Event("x")},
         {"room": "a\x01", "degrees": 1}],
    )  # fmt: skip
    def test_what_does_not_fit_is_refused_when_announced(self, params: dict[str, Any]) -> None:
        adapter = MqttAdapter("m", settings({"address": "mqtt://h", "topic": [SENSOR]}))
        adapter._port = RecordingPort("m", Path())
        with pytest.raises(Refused, match=r"room|degrees"):
            asyncio.run(adapter.announce(Event("Temperature", params)))

    def test_the_second_map_takes_what_the_first_cannot(self) -> None:
        second = {"topic": "all/temp", "subject": "Temperature"}
        made = MqttAdapter("m", settings({"address": "mqtt://h", "topic": [SENSOR, second]})).events
        message = made.message(Event("Temperature", {"degrees": 30.5}), 0)
        assert (message.topic, message.payload) == ("all/temp", b'{"degrees": 30.5}')

    def test_subscriptions_name_them(self) -> None:
        made = MqttAdapter("m", settings({"address": "mqtt://h", "topic": [SENSOR]})).events
        assert made.filters(Filter("subject = 'Temperature'")) == ["vicinal/Temperature", "sensors/+/temp"]
        assert made.filters(Filter("degrees > 3")) == ["vicinal/#", "sensors/+/temp"]
        assert made.filters(Filter("subject = 'Speed'")) == ["vicinal/Speed"]


class TestSubscriptions:
    def test_one_copy_however_many_filters_match(self, mosquitto: Mosquitto, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            one, _ = await bench.connected("one")
            two, port = await bench.connected("two")
            kinds = [Filter("subject = 'a/b'"), Filter("subject LIKE 'a/%'"), ALL, Filter("subject = 'a/b' AND n > 0")]
            for number, condition in enumerate(kinds * 2):
                await two.subscribe(condition)
                await sent(one, Event("a/b", {"n": number}))
            for number, condition in enumerate(reversed(kinds * 2)):
                await sent(one, Event("a/b", {"n": 100 + number}))
                await two.unsubscribe(condition)
            await sent(one, Event("a/b", {"n": 200}))
            await two.subscribe(Filter("subject = 'end'"))
            await sent(one, Event("end"))
            await port.until(lambda: port.events and port.events[-1].subject == "end", "the end")
            assert [event["n"] for event in port.events[:-1]] == [*range(8), *range(100, 108)]

        run(mosquitto, tmp_path, check)

    def test_never_narrower(self, mosquitto: Mosquitto, tmp_path: Path) -> None:
        """What a filter matches comes, whatever became of the filter as topics."""

        async def check(bench: Bench) -> None:
            one, _ = await bench.connected("one")
            two, port = await bench.connected("two")
            end = Filter("subject = 'the end'")
            await two.subscribe(end)
            source = Seeded(7)
            grammar = Grammar(source)
            published = 0
            for round in range(60):
                condition = Filter(grammar.condition())
                events = [make_event(source).replace(producer="g", seq=n) for n in range(12)]
                await two.subscribe(condition)
                port.events.clear()
                allowed = [event for event in events if "\n" not in event.subject]
                for event in events:
                    if event not in allowed:
                        with pytest.raises(Refused, match=r"U\+000A"):
                            await one.publish(event)
                published += len(allowed)
                await sent(one, *allowed, Event("the end", {"n": round}))
                await port.until(lambda: any(event.subject == "the end" for event in port.events), "the end")
                found = [event for event in port.events if event.subject != "the end"]
                for event in allowed:
                    if condition.matches(event):
                        assert found.count(event) == 1, f"{condition} has lost {event}"
                await two.unsubscribe(condition)
            assert published > 500
            assert port.wrong == []

        run(mosquitto, tmp_path, check)


attribute_names = st.sampled_from(["x", "producer", "seq", "odd name", "a\x00b", "\ufffe", "Straße"])
texts = st.text(max_size=4)
known = st.fixed_dictionaries(
    {},
    optional={
        "Priority": st.integers(-32767, 32767),
        "Time": st.integers(0, 1 << 40),
        "Deadline": st.integers(0, (1 << 63) - 1),
        "Expires": st.integers(1 << 50, (1 << 63) - 1),
        "Source": texts,
        "Session": texts,
        "Proximity": st.just(Proximity.circle(533400000, -62500000, 500)),
    },
)


@st.composite
def whole_events(draw: Any) -> Event:
    event = draw(arbitrary_events)
    attrs = {**draw(known), **draw(st.dictionaries(attribute_names, values, max_size=2))}
    subject = draw(st.sampled_from(["Speed", "x/y", "$SYS", "ü", " ", "a b", event.subject]))
    producer = draw(st.none() | st.sampled_from(["car-7", "ü", "a\x01"]))
    return Event(
        subject, event.params, attrs, producer, None if producer is None else draw(st.integers(0, (1 << 63) - 1))
    )


@hypothesis.settings(max_examples=40, deadline=None)
@given(batch=st.lists(whole_events(), min_size=1, max_size=25), payload=st.sampled_from(["json", "cbor"]))
def test_every_event_survives(
    mosquitto: Mosquitto, tmp_path_factory: pytest.TempPathFactory, batch: list[Event], payload: str
) -> None:
    async def check(bench: Bench) -> None:
        one, _ = await bench.connected("one", payload=payload, session=0)
        two, port = await bench.connected("two", payload=payload, session=0)
        await two.subscribe(ALL)
        carried = []
        for event in batch:
            try:
                await sent(one, event)
                carried.append(event)
            except Refused:
                assert set(event.subject) & set("+#") or not event.subject.isprintable()
        await sent(one, Event("the end"))
        await port.until(lambda: port.events and port.events[-1].subject == "the end", "the end")
        assert port.events[:-1] == carried
        assert port.wrong == []

    run(mosquitto, tmp_path_factory.mktemp("events"), check)


@given(
    topic=st.sampled_from(["vicinal/Speed", "vicinal/", "other", "sensors/a/temp", "vicinal/" + "x" * 300]),
    payload=st.binary(max_size=20) | st.text(max_size=20).map(str.encode) | values.map(repr).map(str.encode),
    user=st.lists(
        st.tuples(st.sampled_from(["Priority", "Proximity", "Source", "seq", "producer", "x", ""]) | texts, texts),
        max_size=4,
    ),
    content_type=st.sampled_from(
        [None, "", "application/json", "application/vicinal+cbor", "application/octet-stream"]
    ),
    expiry=st.none() | st.integers(0, (1 << 32) - 1),
)
def test_whatever_comes_is_an_event_or_malformed(
    topic: str, payload: bytes, user: list[tuple[str, str]], content_type: str | None, expiry: int | None
) -> None:
    events = MqttAdapter("m", settings({"address": "mqtt://h", "topic": [SENSOR]})).events
    try:
        event = events.event(Message(topic, payload, user, content_type, expiry), 1)
    except Malformed:
        return
    assert event.subject in ("Speed", "Temperature")


def test_what_is_injected_and_no_message_is_refused(mosquitto: Mosquitto, tmp_path: Path) -> None:
    """And the connection stands it."""

    async def check(bench: Bench) -> None:
        one, port = await bench.connected("one")
        two, two_port = await bench.connected("two")
        await two.subscribe(ALL)
        topic = bench.prefix + "x"
        packets: list[Any] = [
            5, [], [topic],
            [topic, b"", 1], ["elsewhere", b"", 1, {}], ["", b"", 1, {}], [5, b"", 1, {}], [topic, 5.0, 1, {}],
            [topic, b"", "1x", {}], [topic, b"", -1, {}], [topic + "/+", b"", 1, {}], [topic + "/\x01", b"", 1, {}],
            [topic, b"", 1, []], [topic, b"", 1, {"TopicAlias": 5}], [topic, b"", 1, {"ContentType": 5}],
            [topic, b"", 1, {"UserProperty": [["a"]]}], [topic, b"", 1, {"UserProperty": [["a\x00", "b"]]}],
            [topic, b"", 1, {"UserProperty": [["a", 5]]}], [topic, b"", 1, {"MessageExpiryInterval": -1}],
            [topic, b"", 1, {"ResponseTopic": "\ufffe"}],
        ]  # fmt: skip
        for data in [b"", b"\xff" * 9, *(cbor2.dumps(packet) for packet in packets)]:
            with pytest.raises(Refused):
                await one.inject(data)
        await sent(one, Event("x", {"n": 1}))
        await two_port.until(lambda: two_port.events, "the event")
        assert two_port.events == [Event("x", {"n": 1})]
        assert port.lost_because == []

    run(mosquitto, tmp_path, check)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"address": "http://h"}, "want mqtt://host:port"),
        ({"address": "mqtt://h:99999"}, "address is"),
        ({"address": "mqtt://u:p@h"}, "want mqtt://host:port"),
        ({"address": 5}, "want a string"),
        ({"adress": "mqtt://h"}, "'adress', is it meant"),
        ({"qos": 2}, "at most 1"),
        ({"prefix": "a"}, "slash at the end"),
        ({"prefix": "a/+/"}, r"no \+"),
        ({"prefix": "$a/"}, "belong to the MQTT broker"),
        ({"payload": "xml"}, "want one of json, cbor"),
        ({"keepalive": 1}, "at least 5"),
        ({"ca": "ca.pem"}, "mqtts://"),
        ({"address": "mqtts://h", "ca": "none.pem"}, "ca is none.pem"),
        ({"address": "mqtts://h", "key": "k"}, "go together"),
        ({"password_file": "none"}, "password_file is none"),
        ({"password_file": "none", "password": "x"}, "both given"),
        ({"tunnel": ["$SYS/#"]}, "belong to the MQTT broker"),
        ({"topic": [{"subject": "x"}]}, r"\[service.topic\] topic is missing"),
        ({"topic": [{"topic": "a/b{c}", "subject": "x"}]}, "a whole level"),
        ({"topic": [{"topic": "a/+", "subject": "x"}]}, "wildcard"),
        ({"topic": [{"topic": "{a}/{a}", "subject": "x"}]}, "named twice"),
        ({"topic": [{"topic": "a", "subject": ""}]}, "non-empty"),
        ({"topic": [{"topic": "a", "subject": "x", "vlaue": "y"}]}, "'value' meant"),
    ],
)
def test_settings(wrong: dict[str, Any], said: str) -> None:
    base = {} if "adress" in wrong else {"address": "mqtt://h"}
    with pytest.raises(ConfigError, match=said):
        MqttAdapter("m", settings({**base, **wrong}))


def test_the_port_of_a_scheme() -> None:
    assert MqttAdapter("m", settings({"address": "mqtt://h"})).tcp_port == 1883
    assert MqttAdapter("m", settings({"address": "mqtts://h"})).tcp_port == 8883
    assert MqttAdapter("m", settings({"address": "mqtt://[::1]:5"})).host == "::1"


def test_an_empty_prefix_leaves_the_brokers_own_topics_alone() -> None:
    events = MqttEvents("", [], False)
    assert events.filters(Filter("subject = '$share/g/x'")) == []
    with pytest.raises(Refused, match="belong to the MQTT broker"):
        events.message(Event("$SYS/x"), 0)
    assert events.filters(ALL) == ["#"]
    assert not matches("#", "$SYS/x")


def test_too_large_is_a_local_error() -> None:
    with pytest.raises(LocalProtocolError):
        MqttEvents("", [], False).message(Event("x", {"v": "y" * 70_000}), 0)
