"""Events as JMS messages, filters as selectors, frames of STOMP: on a real ActiveMQ where it has a say."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import cbor2
import hypothesis
import pytest
from edge.jms_bench import Bench, run, sent
from edge.servers import ActiveMq
from hypothesis import given
from hypothesis import strategies as st
from strategies import COLUMNS, Grammar, Seeded, arbitrary_events, make_event, values

from vicinal.errors import LocalProtocolError, RemoteProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.proximity import Proximity
from vicinal.tables_cpython import ConfigError
from vicinal_edge.adapter import Refused
from vicinal_edge.adapters._jms_events import JmsEvents, Malformed, jms_priority, our_priority, selector
from vicinal_edge.adapters._json_events import plain_text, plain_value, word_value
from vicinal_edge.adapters._stomp import Frame, Parser, encode
from vicinal_edge.adapters.jms import JmsAdapter
from vicinal_edge.contract import settings

ALL = Filter("TRUE")
END = "the end"
# Beside the usual names, those that STOMP or ActiveMQ keep for themselves.
NAMES = {**COLUMNS, "type": "s", "priority": "i", "body": "s", "timestamp": "i", "AMQ_X": "i", "JMSX": "s", "id": "i"}
pytestmark = pytest.mark.xdist_group("activemq")


async def rounds(bench: Bench, grammar: Grammar, most: int, publish: Any) -> tuple[int, int, int]:
    """What a filter matches comes. How many events matched, came without need, and were published."""
    everything, all_port = await bench.connected("all")
    two, port = await bench.connected("two")
    for adapter in (everything, two):
        await adapter.subscribe(ALL if adapter is everything else Filter(f"subject = '{END}'"))
    matched = needless = published = 0
    for _ in range(most):
        condition = Filter(grammar.condition())
        await two.subscribe(condition)
        for one in (port, all_port):
            one.events.clear()
        await publish(grammar.source)
        for one in (port, all_port):
            await one.until(lambda one=one: any(event.subject == END for event in one.events), "the end")  # type: ignore[misc]
        there = [event for event in all_port.events if event.subject != END]
        found = [event for event in port.events if event.subject != END]
        for event in there:
            wanted = condition.matches(event)
            assert found.count(event) == there.count(event) or not wanted, (
                f"lost: {condition} {selector(condition)} {event}"
            )
            matched += wanted
            needless += event in found and not wanted
        published += len(there)
        await two.unsubscribe(condition)
    assert port.wrong == all_port.wrong == []
    return matched, needless, published


@pytest.mark.parametrize(
    ("names", "typed"),
    [(NAMES, True), (NAMES, False), ({"i": "i", "j": "d", "d": "d", "s": "s"}, True)],
    ids=["typed", "any", "numbers"],
)
def test_a_selector_is_never_narrower(activemq: ActiveMq, tmp_path: Path, names: dict[str, str], typed: bool) -> None:
    async def check(bench: Bench) -> None:
        one, _ = await bench.connected("one")
        numbers = iter(range(1 << 30))

        async def publish(source: Seeded) -> None:
            made = [make_event(source, names, typed).replace(producer="g", seq=next(numbers)) for _ in range(15)]
            await sent(one, *made, Event(END))

        matched, needless, published = await rounds(bench, Grammar(Seeded(11), names, typed), 60, publish)
        assert published == 900
        assert matched > 150
        # It selects, too: of what does not match most does not come.
        assert needless < (published - matched) * (0.5 if typed else 0.75)

    run(activemq, tmp_path, check)


def test_a_selector_is_never_narrower_for_others(activemq: ActiveMq, tmp_path: Path) -> None:
    texts = [
        "57",
        "57.0",
        "-0.0",
        "0",
        "1e3",
        "5e-324",
        "true",
        "false",
        "abc",
        "",
        " 5",
        "007",
        "NaN",
        "a%b",
        "it's",
        "x",
    ]

    async def check(bench: Bench) -> None:
        other = bench.other()

        async def publish(source: Seeded) -> None:
            plain = [*(name for name in COLUMNS if name.isalpha()), "body"]
            for _ in range(15):
                properties = {name: source.one(texts) for name in plain if not source.chance(3)}
                given = {"type": "t", "priority": source.one("0456789"), "subject": source.one(("a", "Speed", "q"))}
                where = source.one(("a", "ab", "Speed", "x/y"))
                other.connection.send(
                    other.prefix + where, source.one(("", "a", "57")), headers={**properties, **given}
                )
            other.say(END)

        matched, _, published = await rounds(bench, Grammar(Seeded(12), NAMES), 40, publish)
        assert published == 600
        assert matched > 50

    run(activemq, tmp_path, check)


known = st.fixed_dictionaries(
    {},
    optional={
        "Priority": st.integers(-32767, 32767),
        "Time": st.integers(0, 1 << 40),
        "Deadline": st.integers(0, (1 << 63) - 1),
        "Expires": st.integers(1 << 50, (1 << 63) - 1),
        "Source": st.text(max_size=4),
        "Proximity": st.just(Proximity.circle(533400000, -62500000, 500)),
    },
)
odd_names = st.sampled_from(
    [
        "type",
        "priority",
        "receipt",
        "destination",
        "content-length",
        "transformation",
        "AMQ_SCHEDULED_DELAY",
        "JMSXGroupID",
    ]
)


@st.composite
def whole_events(draw: Any) -> Event:
    event = draw(arbitrary_events)
    params = {**event.params, **draw(st.dictionaries(odd_names, values, max_size=2))}
    params["long"] = draw(st.sampled_from(["x", "x" * 9000, "ü" * 9000, "\n" * 5000, "a\0b"]))
    attrs = {**draw(known), **draw(st.dictionaries(st.sampled_from(["x", "odd name", "\0"]), values, max_size=2))}
    subject = draw(
        st.sampled_from(["Speed", "a.b", ".", "a..b", "*", ">", "a,b", "a?b=c", " ", "ü:%41", event.subject])
    )
    producer = draw(st.none() | st.sampled_from(["car-7", "ü", "a\x01"]))
    return Event(subject, params, attrs, producer, None if producer is None else draw(st.integers(0, (1 << 63) - 1)))


@hypothesis.settings(max_examples=40, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@given(batch=st.lists(whole_events(), min_size=1, max_size=20))
def test_every_event_survives(activemq: ActiveMq, tmp_path_factory: pytest.TempPathFactory, batch: list[Event]) -> None:
    """By its subject and by all, and a selector about what no property holds lets it pass."""

    async def check(bench: Bench) -> None:
        one, _ = await bench.connected("one")
        two, port = await bench.connected("two")
        three, by_name = await bench.connected("three")
        await two.subscribe(Filter(f"long LIKE '%' OR subject = '{END}'"))
        subjects = dict.fromkeys([*(event.subject for event in batch), END])
        for subject in subjects:
            await three.subscribe(Filter("subject = '" + subject.replace("'", "''") + "'"))
        await sent(one, *batch, Event(END))
        for one_port in (port, by_name):
            await one_port.until(
                lambda one_port=one_port: one_port.events and one_port.events[-1].subject == END,  # type: ignore[misc]
                "the end",
            )
            assert one_port.events[:-1] == batch
            assert one_port.wrong == []

    run(activemq, tmp_path_factory.mktemp("events"), check)


def test_what_is_injected_and_no_message_is_refused(activemq: ActiveMq, tmp_path: Path) -> None:
    """And the connection stands it."""

    async def check(bench: Bench) -> None:
        one, port = await bench.connected("one")
        two, two_port = await bench.connected("two")
        await two.subscribe(ALL)
        packets: list[Any] = [
            5, [], ["x"], ["x", {}, b""], ["", {}, b"", True], [5, {}, b"", True], ["x", [], b"", True],
            ["x", {"a": 5}, b"", True], ["x", {"a": "b\0"}, b"", True], ["x", {"a" * 10_000: "b"}, b"", True],
            ["x", {"destination": "y"}, b"", True], ["a,b", {}, b"", True], [">", {}, b"", True],
            ["x", {}, b"a\0b", True],
            ["x", {}, "x", True], ["x", {"receipt": "5"}, b"", True],
        ]  # fmt: skip
        for data in [b"", b"\xff" * 9, *(cbor2.dumps(packet) for packet in packets)]:
            with pytest.raises(Refused):
                await one.inject(data)
        await sent(one, Event("x", {"n": 1}))
        await two_port.until(lambda: two_port.events, "the event")
        assert two_port.events == [Event("x", {"n": 1})]
        assert port.lost_because == []

    run(activemq, tmp_path, check)


def test_priorities() -> None:
    assert [jms_priority(one) for one in (-32767, -1, 0, 1, 32767)] == [0, 3, 4, 5, 9]
    for one in range(10):
        assert jms_priority(our_priority(one)) == one
    found = [jms_priority(one) for one in range(-32767, 32768)]
    assert found == sorted(found)


@given(values)
def test_plain_texts(value: Any) -> None:
    if type(value) in (bytes, Event) or (type(value) is float and value - value != 0):
        return
    found = plain_value(plain_text(value))
    assert Event("x", {"v": found}) == Event("x", {"v": value})


def test_words() -> None:
    found = [
        word_value(text) for text in ("5", "-5", "5.0", "5e1", "05", "+5", "5.", "٣", "NaN", "1e999", "True", "9" * 19)
    ]
    assert found == [5, -5, 5.0, 50.0, "05", "+5", "5.", "٣", "NaN", "1e999", "True", "9" * 19]


# STOMP

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
header_names = texts.filter(lambda name: name != "content-length")
headers_of = st.dictionaries(header_names, texts.filter(lambda text: "\0" not in text), max_size=4)
bodies = st.binary(max_size=20)
commands = st.sampled_from(["MESSAGE", "RECEIPT", "ERROR"])
frames = st.builds(Frame, commands, headers_of, bodies, st.just(False)) | st.builds(
    Frame, commands, headers_of, bodies.map(lambda body: body.replace(b"\0", b""))
)


def same(found: list[Frame], wanted: list[Frame]) -> bool:
    def shown(frame: Frame) -> tuple[Any, ...]:
        headers = {name: text for name, text in frame.headers.items() if name != "content-length"}
        return frame.command, headers, frame.body, frame.text

    return [shown(one) for one in found] == [shown(one) for one in wanted]


@given(said=st.lists(frames, max_size=4), beats=st.sampled_from([b"", b"\n", b"\r\n\n"]), data=st.data())
def test_frames_survive_however_they_come(said: list[Frame], beats: bytes, data: Any) -> None:
    stream = b"".join(beats + encode(frame) for frame in said)
    assert same(Parser().feed(stream), said)
    parser, found = Parser(), []
    for at in range(len(stream)):
        found += parser.feed(stream[at : at + 1])
    assert same(found, said)


@given(
    st.binary(max_size=60)
    | st.lists(frames, min_size=1, max_size=2).map(lambda some: b"".join(map(encode, some))[:-3] + b"x")
)
def test_whatever_comes_is_stomp_or_their_fault(data: bytes) -> None:
    for stream in (data, b"MESSAGE\n" + data, b"MESSAGE\ncontent-length:5\n\n" + data):
        with suppress(RemoteProtocolError):
            Parser().feed(stream)


@pytest.mark.parametrize(
    "wrong",
    [b"MESSAGE\na\\t:b\n\n\0", b"MESSAGE\na\n\n\0", b"MESSAGE\ncontent-length:-1\n\n\0",
     b"MESSAGE\ncontent-length:1\n\nabc\0",
     b"CONNECT\n\n\0", b"MESSAGE\na:\xff\n\n\0", b"MESSAGE\ncontent-length:99999999999\n\n\0", b"x" * 1_100_000],
    ids=range(8),
)  # fmt: skip
def test_what_is_no_stomp(wrong: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        Parser().feed(wrong)


def test_line_ends_of_windows() -> None:
    (frame,) = Parser().feed(b"MESSAGE\r\na:b\r\na:c\r\n\r\nbody\0")
    assert (frame.headers, frame.body) == ({"a": "b"}, b"body")


@given(
    headers=st.dictionaries(
        st.sampled_from(["VicinalFrom", "destination", "priority", "expires", "timestamp", "x", "", "JMSType"]) | texts,
        st.sampled_from(["", "/topic/v.Speed", "/topic/v.", "/topic/v.%FF", "9", "99", "-1", "9" * 30, "٣"]) | texts,
    ),
    body=bodies | st.sampled_from([b'{"subject": "Speed"}', b'{"subject": 5}', b"[]", b'{"subject": "x", "a": 1}']),
    text=st.booleans(),
)  # fmt: skip
def test_whatever_comes_is_an_event_or_malformed(headers: dict[str, str], body: bytes, text: bool) -> None:
    events = JmsEvents("/topic/v.", "me", True)
    for more in ({}, {"destination": "/topic/v.Speed"}, {"VicinalFrom": "x"}):
        with suppress(Malformed):
            assert events.event(Frame("MESSAGE", {**headers, **more}, body, text)).subject


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"address": "mqtt://h"}, "want stomp://host:port"),
        ({"address": "stomp://h:99999"}, "address is"),
        ({"address": "stomp://u:p@h"}, "want stomp://host:port"),
        ({"address": 5}, "want a string"),
        ({"adress": "stomp://h"}, "'adress', is it meant"),
        ({"destination": "vicinal"}, "a dot after each"),
        ({"destination": "a,b."}, "a dot after each"),
        ({"destination": ">."}, "a dot after each"),
        ({"style": "both"}, "want one of topic, queue"),
        ({"style": "queue", "durable": "x"}, "a queue keeps"),
        ({"durable": ""}, "is empty"),
        ({"heartbeat": 0}, "at least 1"),
        ({"ca": "ca.pem"}, r"stomp\+ssl://"),
        ({"password_file": "none"}, "password_file is none"),
    ],
)
def test_settings(wrong: dict[str, Any], said: str) -> None:
    base = {} if "adress" in wrong else {"address": "stomp://h"}
    with pytest.raises(ConfigError, match=said):
        JmsAdapter("m", settings({**base, **wrong}))


def test_a_selector_too_long_for_a_header_is_left_out() -> None:
    long = Filter(" OR ".join(f"s = '{chr(0x1F600) * 60}{n}'" for n in range(50)))
    assert selector(long) == ""
    assert selector(long, "it's") == "VicinalFrom IS NULL OR VicinalFrom <> 'it''s'"


def test_too_large_is_a_local_error() -> None:
    with pytest.raises(LocalProtocolError):
        JmsEvents("/topic/v.", "me", True).frame(Event("x", {"v": "y" * 70_000}))


def test_the_port_of_a_scheme() -> None:
    assert JmsAdapter("m", settings({"address": "stomp://h"})).tcp_port == 61613
    assert JmsAdapter("m", settings({"address": "stomp+ssl://h"})).tcp_port == 61614
