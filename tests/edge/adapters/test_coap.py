"""The CoAP adapter: the contract, one serving and the other its client, both ways; libcoap's client; bad input."""

import asyncio
import random
import shutil
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import cbor2
import pytest
from aiocoap import Context, Message
from aiocoap.numbers import codes
from aiocoap.optiontypes import BlockOption
from hypothesis import given
from hypothesis import strategies as st

from vicinal import json_form, wire
from vicinal.errors import LimitError, VicinalError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_edge.adapter import Adapter, Refused, Unavailable
from vicinal_edge.adapters import _coap_endpoint, _coap_site
from vicinal_edge.adapters._coap_formats import event_of, payload_of
from vicinal_edge.adapters.coap import CoapAdapter
from vicinal_edge.contract import AdapterContract, RecordingPort, settings

SPEED = Filter("subject = 'Speed'")
CLIENT = shutil.which("coap-client-notls")
needs_libcoap = pytest.mark.skipif(CLIENT is None, reason="Debian's libcoap3-bin is not installed")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def adapter(name: str = "field", **values: Any) -> CoapAdapter:
    return CoapAdapter(name, settings(values))


def speed(seq: int, rate: float = 57.0) -> Event:
    return Event("Speed", [("rate", rate)], (), "car-7", seq)


@asynccontextmanager
async def serving(folder: Path, **values: Any) -> AsyncIterator[tuple[CoapAdapter, RecordingPort]]:
    one, port = adapter(**{"bind": "127.0.0.1:0", **values}), RecordingPort("field", folder)
    await one.connect(port)
    try:
        yield one, port
    finally:
        await one.disconnect()


@asynccontextmanager
async def client() -> AsyncIterator[Context]:
    found = await Context.create_client_context(transports=["udp6"])
    try:
        yield found
    finally:
        await found.shutdown()


class Contract(AdapterContract):
    server = 0

    @asynccontextmanager
    async def service(self, folder: Path) -> AsyncIterator[Callable[[str], Adapter]]:
        where = f"127.0.0.1:{free_port()}"
        made: list[Adapter] = []

        def make(name: str) -> Adapter:
            values = {"bind": where} if len(made) == self.server else {"peers": [f"coap://{where}/ps/"]}
            made.append(CoapAdapter(name, settings(values)))
            return made[-1]

        yield make


class TestTheSenderServes(Contract):
    server = 0


class TestTheReceiverServes(Contract):
    server = 1


# Between adapters


def test_order_of_overlapping_filters_and_large_events(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as (one, _):
            two, said = adapter(peers=[one.address + "/ps"]), RecordingPort("field", tmp_path)
            await two.connect(said)
            for text in ("rate > 30", "subject = 'Speed' AND rate < 40", "subject LIKE 'S%'", "rate = 35"):
                await two.subscribe(Filter(text))
            chance = random.Random(4)
            sent = []
            for n in range(60):
                rate, size = float(chance.randint(20, 50)), chance.choice([0, 10, 1100, 5000])
                sent.append(Event("Speed", [("rate", rate), ("more", "x" * size)], (), "car-7", n))
                await one.publish(sent[-1])
            await said.until(lambda: len(said.events) >= 60, "all")
            assert said.events == sent
            await two.disconnect()

    asyncio.run(work())


def test_it_does_not_hear_itself_though_its_events_have_no_names(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as (one, heard):
            two, said = adapter(peers=[one.address + "/ps"]), RecordingPort("field", tmp_path)
            await two.connect(said)
            for each in (one, two):
                await each.subscribe(Filter("TRUE"))
            await two.publish(Event("A", {"value": 1}))
            await one.publish(Event("A", {"value": 2}))
            await said.until(lambda: said.events, "the other's")
            assert said.events == [Event("A", {"value": 2})]
            assert heard.events == [Event("A", {"value": 1})]
            assert await two.publish(said.events[0].replace(producer="p", seq=1)) is None
            await two.unsubscribe(Filter("TRUE"))
            await until(lambda: one.status()["observers"] == 0)  # it was told, and need not find out
            await two.disconnect()

    asyncio.run(work())


def test_a_long_filter_is_exact(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as (one, _):
            two, said = adapter(peers=[one.address + "/ps"]), RecordingPort("field", tmp_path)
            await two.connect(said)
            places = ", ".join([f"'Straße {n}'" for n in range(100)])
            await two.subscribe(Filter(f"subject = 'Stop' AND place IN ({places})"))
            for n in (98, 99, 100, 101):
                await one.publish(Event("Stop", {"place": f"Straße {n}"}, (), "car-7", n))
            await one.publish(Event("Stop", {"place": "Straße 1"}, (), "car-7", 102))
            await said.until(lambda: len(said.events) == 3, "three")
            assert [event.seq for event in said.events] == [98, 99, 102]
            assert one.status()["notified"] == 3  # filtered where they are, not where they go
            await two.disconnect()

    asyncio.run(work())


def test_a_server_that_comes_back_is_observed_again(tmp_path: Path) -> None:
    async def work() -> None:
        where = f"127.0.0.1:{free_port()}"
        two, said = adapter(peers=[f"coap://{where}/ps"], refresh=0.2), RecordingPort("field", tmp_path)
        await two.connect(said)
        with pytest.raises(Unavailable, match="coap://127"):
            await two.subscribe(SPEED)
        with pytest.raises(Unavailable):
            await two.publish(speed(1))
        async with serving(tmp_path, bind=where) as (one, heard):
            await one.subscribe(SPEED)
            await two.subscribe(SPEED)
            await two.publish(speed(1))
            assert heard.events == [speed(1)]
            await one.publish(speed(2))
            await said.until(lambda: said.events, "the event")
            # It forgets whom it has to tell, and nobody says so.
            assert one._site is not None
            for observer in list(one._site._observers):
                observer.pipe._event_callbacks.clear()
                observer.ended.set()
            for n in range(3, 400):
                await one.publish(speed(n))
                await asyncio.sleep(0.02)
                if len(said.events) > 1:
                    break
            assert len(said.events) > 1
        await said.until(lambda: said.lost_because, "that it is gone")
        with pytest.raises(Unavailable, match="not connected"):
            await two.publish(speed(500))
        await two.disconnect()
        assert two.status()["state"] == "away: not connected"

    asyncio.run(work())


def test_nothing_is_lost_when_it_is_observed_anew(tmp_path: Path) -> None:
    """As it is again and again: what was on its way, or waited for its turn, is still heard, once and in order."""

    async def work() -> None:
        async with serving(tmp_path) as (one, _):
            two, said = adapter(peers=[one.address + "/ps"]), RecordingPort("field", tmp_path)
            await two.connect(said)
            await two.subscribe(SPEED)
            (watch,) = two._watches[SPEED.text]
            (stream,) = watch._streams
            for n in range(300):
                await one.publish(speed(n + 1))
                if n % 3 == 0:
                    await stream.open()
            await said.until(lambda: len(said.events) >= 300, "all")
            assert [event.seq for event in said.events] == list(range(1, 301))
            assert one.status()["observers"] == 1
            await two.disconnect()

    asyncio.run(work())


class Foreign:
    """A CoAP server of another making: topics that are observed one by one, text and maps, no filters."""

    def __init__(self) -> None:
        self.pipes: list[Any] = []
        self.put: list[tuple[Any, ...]] = []

    async def render_to_pipe(self, pipe: Any) -> None:
        request = pipe.request
        path = request.opt.uri_path
        if request.code == codes.PUT:
            self.put.append((path, request.opt.content_format, request.payload))
            code = codes.CHANGED if path[-1] != "No" else codes.FORBIDDEN
            pipe.add_response(Message(code=code, payload=b"not you" if path[-1] == "No" else b""), is_last=True)
        elif path == ("t",):
            links = Message(code=codes.CONTENT, payload=b"</t/Temp%20in>;ct=0,</t/Door>;rt=x,</other>")
            pipe.add_response(links, is_last=True)
        elif path[-1] == "Secret":
            pipe.add_response(Message(code=codes.FORBIDDEN, payload=b"not you"), is_last=True)
        else:
            self.pipes.append(pipe)
            first = Message(code=codes.CONTENT, payload=b"17")
            first.opt.observe = 0
            pipe.add_response(first)
            await asyncio.Event().wait()

    def say(self, at: int, number: int, payload: bytes, form: int | None) -> None:
        message = Message(code=codes.CONTENT, payload=payload)
        message.opt.observe, message.opt.content_format = number, form
        self.pipes[at].add_response(message)


def test_servers_of_others_have_topics(tmp_path: Path) -> None:
    async def work() -> None:
        foreign = Foreign()
        server = await _coap_endpoint.Endpoint.open(("127.0.0.1", 0), foreign)
        two, said = adapter(peers=[f"coap://127.0.0.1:{server.port}/t"]), RecordingPort("field", tmp_path)
        await two.connect(said)
        await two.subscribe(Filter("value > 10"))  # all that it lists
        await two.subscribe(Filter("subject IN ('a/b') AND value > 10"))
        paths = [pipe.request.opt.uri_path for pipe in foreign.pipes]
        assert paths == [("t", "Temp in"), ("t", "Door"), ("t", "a", "b")]
        foreign.say(0, 1, b"21.5", 0)
        foreign.say(1, 1, cbor2.dumps({"open": True, "by": "x"}), 60)
        foreign.say(2, 1, b"\xff", 60)
        foreign.say(0, 2, b"22", None)
        await said.until(lambda: len(said.events) == 3, "three")
        assert said.events == [
            Event("Temp in", {"value": 21.5}),
            Event("Door", {"open": True, "by": "x"}),
            Event("Temp in", {"value": 22}),
        ]
        assert said.wrong == ["content that is no event"]
        with pytest.raises(Refused, match=r"'Secret' cannot be observed: 4.03 .*not you"):
            await two.subscribe(Filter("subject = 'Secret'"))
        await two.publish(Event("a/b", {"value": 1}))
        assert foreign.put == [(("t", "a", "b"), 60, wire.encode(Event("a/b", {"value": 1})))]
        with pytest.raises(Refused, match="not you"):
            await two.publish(Event("No"))
        await two.disconnect()
        await server.close()

    asyncio.run(work())


# Others' clients


async def coap(*words: str, wait: float = 30.0) -> str:
    """What libcoap's client prints. It ends with 0 even when it is refused: the text has to be read."""
    assert CLIENT is not None
    process = await asyncio.create_subprocess_exec(
        CLIENT, "-B", "10", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), wait)
    return out.decode(errors="replace")


@needs_libcoap
@pytest.mark.parametrize("echo", ["never", "always"])
def test_libcoap(tmp_path: Path, echo: str) -> None:
    async def work() -> None:
        async with serving(tmp_path, echo=echo) as (one, said):
            await one.subscribe(Filter("TRUE"))
            where = one.address
            assert await coap("-m", "put", "-e", "21.5", where + "/ps/Temp") == ""
            await coap("-m", "post", "-t", "50", "-e", '{"rate": 57, "plate": "00D1"}', where + "/ps/Speed")
            file = tmp_path / "event.cbor"
            large = Event("Picture", [("data", random.Random(1).randbytes(10_000))], {"Priority": 3}, "cam", 1)
            file.write_bytes(wire.encode(large))
            await coap("-m", "put", "-t", "60", "-f", str(file), where + "/ps/Picture")
            expected = [Event("Temp", {"value": 21.5}), Event("Speed", {"rate": 57, "plate": "00D1"}), large]
            assert said.events == expected
            assert "21.5" in await coap("-A", "0", where + "/ps/Temp")
            assert json_form.loads((await coap("-A", "50", where + "/ps/Speed")).strip()) == expected[1]
            assert '</ps/Speed>;rt="core.ps.data"' in await coap(where + "/.well-known/core")
            links = await coap(where + "/.well-known/core?rt=core.ps.c*")
            assert links.strip() == '</ps>;rt="core.ps.coll";ct="40 60 50";obs'
            out = tmp_path / "out.cbor"
            await coap("-o", str(out), where + "/ps/Picture")
            assert out.read_bytes() == file.read_bytes()
            await coap("-b", "256", "-o", str(out), where + "/ps/Picture")
            assert out.read_bytes() == file.read_bytes()
            assert "4.04" in await coap("-v", "5", where + "/ps/Nothing")
            assert "4.15" in await coap("-v", "5", "-m", "put", "-t", "41", "-e", "<a/>", where + "/ps/Temp")
            assert said.wrong == ["an unknown content format"]

    asyncio.run(work())


@needs_libcoap
@pytest.mark.parametrize("echo", ["never", "always"])
def test_libcoap_observes(tmp_path: Path, echo: str) -> None:
    async def work() -> None:
        async with serving(tmp_path, echo=echo) as (one, _):
            assert CLIENT is not None
            await one.publish(Event("Temp", {"value": 20}))
            words = ["-s", "30", "-w", "-A", "0"]
            all_of_it, some, large = [
                await asyncio.create_subprocess_exec(
                    CLIENT, *more, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
                )
                for more in (
                    [*words, one.address + "/ps/Temp"],
                    [*words, one.address + "/ps/Temp?filter=value%20%3E%2030"],
                    ["-s", "30", "-w", "-A", "50", one.address + "/ps?filter=size%20%3D%2010000"],
                )
            ]
            await until(lambda: one.status()["observers"] == 3)
            big = Event("Picture", [("size", 10_000), ("data", "x" * 10_000)])
            for value in (31, 29, 35):
                await one.publish(Event("Temp", {"value": value}))
            await one.publish(big)
            await one.publish(Event("Temp", {"value": 99}))
            await one.publish(big)
            assert await lines(all_of_it, 5) == ["20", "31", "29", "35", "99"]
            assert await lines(some, 3) == ["31", "35", "99"]
            assert [json_form.loads(line) for line in await lines(large, 2)] == [big, big]
            for process in (all_of_it, some, large):
                process.kill()
                await process.wait()

    asyncio.run(work())


async def lines(process: Any, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
        found += [line] if line else []
    return found


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


# Bad input


async def ask(context: Context, code: Any, uri: str, payload: bytes = b"", **options: Any) -> Any:
    message = Message(code=code, uri=uri, payload=payload)
    for name, value in options.items():
        setattr(message.opt, name, value)
    return await context.request(message, handle_blockwise=False).response


@pytest.mark.parametrize(
    ("form", "payload", "message"),
    [
        (60, b"", "byte 0"),
        (60, b"\xff", ""),
        (60, wire.encode(speed(1)) + b"\0", ""),
        (60, wire.encode(Event("Other")), "the event's subject is 'Other', the path says 'Speed'"),
        (60, b"\xa1", "ends in the middle"),
        (60, b"\xa1\x61a\x82\x01\x02", "is flat and has no tags"),
        (60, b"\xa1\x61a\xc1\x01", "is flat and has no tags"),
        (60, b"\xa1\x01\x01", "parameter name is 1"),
        (60, b"\xa2\x61a\x01\x61a\x02", "'a' is given twice"),
        (60, b"\xbf\x61a\x01\xff", "lengths are definite"),
        (60, b"\xa1\x61a\xf6", "a number, text, bytes, true or false"),
        (60, b"\xa1\x61a\x5a\xff\xff\xff\xff", "4294967295 bytes are announced, 0 are there"),
        (60, b"\xa1\x61a\x01\x01", "1 bytes follow"),
        (60, b"\xa1\x61a\x1b\xff\xff\xff\xff\xff\xff\xff\xff", "the limit is"),
        (50, b"{", "not JSON"),
        (50, b"[" * 100_000, "not JSON"),
        (50, b"[1]", "an event is a JSON object"),
        (50, b'{"a": null}', "'a' is null"),
        (50, b'{"a": 1, "a": 2}', "'a' is given twice"),
        (50, b'{"subject": "Other", "params": {}}', "the path says 'Speed'"),
        (50, b'{"params": {}, "more": 1}', "'more' is not a key of an event"),
        (0, b"\xff", "byte 0 is not UTF-8"),
    ],
)
def test_what_is_no_event(form: int, payload: bytes, message: str) -> None:
    with pytest.raises(VicinalError) as found:
        event_of("Speed", form, payload)
    assert message in str(found.value)


@given(st.sampled_from([None, 0, 42, 50, 60]), st.binary(max_size=60))
def test_arbitrary_bytes_are_events_or_kind_errors(form: int | None, payload: bytes) -> None:
    try:
        event = event_of("Speed", form, payload)
    except VicinalError:
        return
    for accept in (50, 60):
        assert event_of("Speed", *payload_of(event, accept)) == event


VALUES = st.one_of(
    st.text(max_size=30),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.booleans(),
    st.binary(max_size=9),
)


@given(st.dictionaries(st.text(min_size=1, max_size=9), VALUES, max_size=30), st.booleans())
def test_maps_of_others_are_parameters(params: dict[str, Any], canonical: bool) -> None:
    found = event_of("Speed", 60, cbor2.dumps(params, canonical=canonical))
    assert Event("Speed", sorted(found.params.items())) == Event("Speed", sorted(params.items()))


def test_text_is_a_value() -> None:
    found = {
        text: event_of("T", 0, text.encode())["value"] for text in ("1", "-2.5", "true", "1e3", "NaN", "x 1", "", "[1]")
    }
    assert found == {
        "1": 1,
        "-2.5": -2.5,
        "true": True,
        "1e3": 1000.0,
        "NaN": "NaN",
        "x 1": "x 1",
        "": "",
        "[1]": "[1]",
    }
    assert event_of("T", 42, b"\xff") == Event("T", {"value": b"\xff"})
    assert payload_of(Event("T", {"value": True}), 0) == (0, b"true")
    assert payload_of(Event("T", {"value": b"x"}), 42) == (42, b"x")


def test_bad_requests_get_an_answer_that_says_why(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path, max_bytes=5000, observers=2) as (one, said), client() as context:
            await one.subscribe(Filter("TRUE"))
            where = one.address + "/ps/Speed"
            for code, options, want, text in [
                (codes.PUT, {"content_format": 60}, "4.00", ""),
                (codes.PUT, {"content_format": 41}, "4.15", "41 is not read here, 60, 50, 0, 42 are"),
                (codes.DELETE, {}, "4.05", "DELETE is not for here"),
                (codes.GET, {}, "4.04", "there was no event of 'Speed' yet"),
                (codes.GET, {"accept": 41, "observe": 0}, "4.06", "41 is not to be had"),
                (codes.GET, {"uri_query": ("filter=rate >",)}, "4.00", "filter: "),
                (codes.GET, {"uri_query": ("fliter=rate > 3",)}, "4.02", "the query 'fliter=rate > 3' is not known"),
                (codes.PUT, {"if_none_match": True}, "4.02", "no conditional requests"),
                (codes.GET, {"block2": BlockOption.BlockwiseTuple(3, False, 6)}, "4.08", "begin again"),
                (codes.PUT, {"block1": BlockOption.BlockwiseTuple(2, True, 6)}, "4.08", "a block at byte 2048, want 0"),
                (codes.PUT, {"block1": BlockOption.BlockwiseTuple(9, True, 6)}, "4.13", "the limit is 5000"),
                (codes.PUT, {"block1": BlockOption.BlockwiseTuple(0, True, 6), "size1": 6000}, "4.13", "6000 bytes"),
            ]:
                answer = await ask(context, code, where, **options)
                assert answer.code.dotted == want
                assert text in answer.payload.decode()
                assert len(answer.payload) <= 100
            assert said.wrong == ["content that is no event", "an unknown content format"]
            assert (await ask(context, codes.GET, one.address + "/else")).code == codes.NOT_FOUND
            with pytest.raises(LimitError):
                await one.publish(Event("Speed", {"x": "x" * 5000}))
            # Whatever comes on the wire.
            chance = random.Random(1)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
                host, _, port = one.address.removeprefix("coap://").partition(":")
                for _ in range(2000):
                    start = bytes([0x40 | chance.randrange(64), chance.choice([1, 2, 3, 0, 69, 200])])
                    raw.sendto(start + chance.randbytes(chance.randrange(2, 30)), (host, int(port)))
                    if chance.random() < 0.1:
                        await asyncio.sleep(0)
            assert (await ask(context, codes.PUT, where, b"1")).code == codes.CREATED
            assert (await ask(context, codes.PUT, where, b"2")).code == codes.CHANGED
            await said.until(lambda: said.events[-2:] == [Event("Speed", {"value": n}) for n in (1, 2)], "both")

    asyncio.run(work())


def test_no_room_is_said(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path) as (one, said), client() as context:
            said.received = lambda event: False  # type: ignore[method-assign]
            await one.subscribe(SPEED)
            answer = await ask(context, codes.PUT, one.address + "/ps/Speed", b"1")
            assert (answer.code.dotted, answer.payload) == ("5.03", b"the gateway has no room")
            two = adapter(peers=[one.address + "/ps"])
            await two.connect(RecordingPort("field", tmp_path))
            with pytest.raises(Unavailable, match="no room"):
                await two.publish(speed(1))
            await two.disconnect()

    asyncio.run(work())


def test_observers_are_limited_and_the_gone_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_coap_endpoint.Reliable, "ACK_TIMEOUT", 0.02)
    monkeypatch.setattr(_coap_endpoint.Reliable, "MAX_RETRANSMIT", 2)
    monkeypatch.setattr(_coap_site, "QUEUE", 10)

    async def work() -> None:
        async with serving(tmp_path, observers=2) as (one, _), client() as context:
            for subject, want in (("A", "2.05"), ("B", "2.05"), ("A", "2.05"), ("C", "4.29")):
                answer = await ask(context, codes.GET, f"{one.address}/ps/{subject}", observe=0)
                assert answer.code.dotted == want
            assert await_equal(one, 2)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as dead:  # asks, and is never heard of again
                host, _, port = one.address.removeprefix("coap://").partition(":")
                get = struct.pack(">BBH", 0x41, 1, 7) + b"t" + b"\x60" + b"\x52ps" + b"\x01A"
                dead.sendto(get, (host, int(port)))
                await until(lambda: one.status()["observers"] == 3)
                for n in range(50):
                    await one.publish(Event("A", {"value": n}))
                    await asyncio.sleep(0)  # who sends them has its turn, and sends one
                await until(lambda: one.status()["observers"] == 2)
            assert int(one.status()["dropped"]) >= 39

    def await_equal(one: CoapAdapter, count: int) -> bool:
        return one.status()["observers"] == count

    asyncio.run(work())


@pytest.mark.spec("AGENT-14")
def test_what_is_wanted_of_those_who_publish(tmp_path: Path) -> None:
    """By the gateway and by those who observe; it changes with them, and nobody else says it."""

    async def work() -> None:
        async with serving(tmp_path) as (one, _), client() as context, client() as other:
            uri = one.address + "/ps/AgentWanted"
            heard: list[Any] = []
            request = context.request(Message(code=codes.GET, uri=uri, observe=0, accept=60))
            request.observation.register_callback(
                lambda message: heard.append(wire.decode(message.payload)["filter"]), _suppress_deprecation=True
            )
            assert (await request.response).payload == b""  # nobody has wanted anything yet: so everything may come

            async def wants(text: str) -> None:
                await until(lambda: heard[-1:] == [text])
                assert one.status()["wanted"] == text
                found = await ask(other, codes.GET, uri, accept=60)
                assert wire.decode(found.payload)["filter"] == text

            await one.subscribe(Filter("subject = 'Speed' AND rate > 30"))
            await wants("subject = 'Speed' AND rate > 30")
            door = context.request(Message(code=codes.GET, uri=one.address + "/ps/Door?filter=open=TRUE", observe=0))
            await door.response
            await wants("(subject = 'Speed' AND rate > 30) OR (subject = 'Door' AND (open=TRUE))")
            # What agents observe is not wanted of them.
            await ask(context, codes.GET, one.address + "/ps/AgentRules?filter=agent='x'", observe=0)
            await one.subscribe(Filter("subject = 'Speed'"))
            await wants("(subject = 'Speed') OR (subject = 'Door' AND (open=TRUE))")
            await one.unsubscribe(Filter("subject = 'Speed'"))
            await wants("(subject = 'Speed' AND rate > 30) OR (subject = 'Door' AND (open=TRUE))")
            await ask(context, codes.GET, one.address + "/ps/Door?filter=open=TRUE", observe=1)
            await wants("subject = 'Speed' AND rate > 30")
            await one.unsubscribe(Filter("subject = 'Speed' AND rate > 30"))
            await wants("FALSE")
            event = Event("AgentWanted", {"filter": "TRUE"}, (), "rogue", 1)
            refused = await ask(context, codes.PUT, uri, wire.encode(event), content_format=60)
            assert refused.code == codes.FORBIDDEN
            with pytest.raises(Refused, match="AgentWanted is what field says itself"):
                await one.publish(event)
            await wants("FALSE")
            topics = await ask(context, codes.GET, one.address + "/ps")
            assert b"Agent" not in topics.payload

    asyncio.run(work())


@pytest.mark.spec("AGENT-31")
def test_what_nobody_wants_is_not_read_as_the_last(tmp_path: Path) -> None:
    """Of one who keeps it then; of others, and while somebody wants it, the last is the last."""

    async def work() -> None:
        async with serving(tmp_path) as (one, _), client() as agent, client() as plain:

            async def reads(subject: str) -> tuple[Any, bytes]:
                found = await ask(plain, codes.GET, f"{one.address}/ps/{subject}", accept=60)
                return found.code, found.payload

            async def put(context: Any, event: Event) -> None:
                uri = f"{one.address}/ps/{event.subject}"
                found = await ask(context, codes.PUT, uri, wire.encode(event), content_format=60)
                assert found.code.is_successful()

            wanted = agent.request(Message(code=codes.GET, uri=one.address + "/ps/AgentWanted", observe=0, accept=60))
            await wanted.response
            await put(agent, speed(1))
            assert (await reads("Speed"))[0] == codes.CONTENT  # nobody has wanted anything yet: all of it comes
            await one.subscribe(SPEED)
            await until(lambda: one.status()["wanted"] == SPEED.text)
            for event in (speed(2), Event("Door", {"open": True}), Event("AgentHealth", {"agent": "car-7"})):
                await put(agent, event)
            assert (await reads("Speed"))[1] == wire.encode(speed(2))
            assert await reads("Door") == (
                codes.NOT_FOUND,
                b"nobody asks for 'Door', and who publishes it keeps it: observe it",
            )
            assert (await reads("AgentHealth"))[0] == codes.CONTENT
            await put(plain, Event("Door", {"open": False}))
            assert (await reads("Door"))[0] == codes.CONTENT
            await one.unsubscribe(SPEED)
            await until(lambda: one.status()["wanted"] == "FALSE")
            assert (await reads("Speed"))[0] == codes.NOT_FOUND
            # Who observes it now is not told the old one first.
            seen = plain.request(Message(code=codes.GET, uri=one.address + "/ps/Speed", observe=0, accept=60))
            assert (await seen.response).payload == b""
            await until(lambda: one.status()["wanted"] == "subject = 'Speed'")
            await put(agent, speed(3))
            assert (await reads("Speed"))[1] == wire.encode(speed(3))

    asyncio.run(work())


def test_who_has_not_shown_its_address_gets_little(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path, echo="always") as (one, _), client() as context:
            await one.publish(Event("Speed", {"text": "x" * 500}))
            small = one.address + "/ps/Small"
            await one.publish(Event("Small", {"value": 1}))
            assert (await ask(context, codes.GET, small)).code == codes.CONTENT
            for uri, options in (
                (one.address + "/ps/Speed", {}),
                (small, {"observe": 0}),
                (one.address + "/ps/Speed", {"echo": b"12345678"}),
            ):
                answer = await ask(context, codes.GET, uri, **options)
                assert answer.code == codes.UNAUTHORIZED
                assert len(answer.payload) + len(answer.opt.echo) <= 100
            answer = await ask(context, codes.GET, one.address + "/ps/Speed", echo=answer.opt.echo)
            assert answer.code == codes.CONTENT
            assert (await ask(context, codes.GET, one.address + "/ps/Speed")).code == codes.CONTENT  # it is known now
            async with client() as other:
                assert (await ask(other, codes.GET, one.address + "/ps/Speed")).code == codes.UNAUTHORIZED
            two, said = adapter(peers=[one.address + "/ps"]), RecordingPort("field", tmp_path)
            await two.connect(said)
            await two.subscribe(SPEED)
            await one.publish(speed(1))
            await said.until(lambda: said.events, "the event")
            await two.disconnect()

    asyncio.run(work())


def test_messages_are_remembered_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_coap_endpoint, "MAX_REMEMBERED", 50)

    async def work() -> None:
        async with serving(tmp_path) as (one, said):
            await one.subscribe(Filter("TRUE"))
            assert one._endpoint is not None
            manager = one._endpoint.manager
            host, _, port = one.address.removeprefix("coap://").partition(":")
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
                for mid in range(200):
                    put = struct.pack(">BBH", 0x41, 3, mid) + b"t" + b"\xb2ps" + b"\x01A" + b"\xff" + b"%d" % mid
                    for _ in range(2):  # as if the answer was lost
                        raw.sendto(put, (host, int(port)))
                    await said.until(lambda: len(said.events) > mid, "it")  # noqa: B023
            assert [event["value"] for event in said.events] == list(range(200))
            assert len(manager._recent_messages) <= 50

    asyncio.run(work())


def test_topics_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_coap_site, "MAX_TOPICS", 3)

    async def work() -> None:
        async with serving(tmp_path) as (one, _), client() as context:
            for subject in "ABACD":
                await one.publish(Event(subject, {"value": 1}))
            answer = await ask(context, codes.GET, one.address + "/ps")
            assert answer.payload.decode().count("core.ps.data") == 3
            assert "/ps/B" not in answer.payload.decode()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "bind is missing, and there are no peers"),
        ({"bind": "localhost:1"}, "want ADDRESS:PORT"),
        ({"bind": "127.0.0.1:99999"}, "want ADDRESS:PORT"),
        ({"peers": ["http://x"]}, "'http://x': want coap://HOST:PORT/PATH"),
        ({"bind": "[::]:0", "max_bytes": 100_000}, "max_bytes is 100000, want at least 256 and at most 65536"),
        ({"bind": "[::]:0", "echo": "maybe"}, "echo is 'maybe', want one of remote, always, never"),
        ({"bind": "[::]:0", "refresh": 0}, "refresh is 0.0, want more than 0 seconds"),
    ],
)
def test_settings(values: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=r"gateway.toml: \[service\] ") as found:
        adapter(**values)
    assert message in str(found.value)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving(tmp_path, bind="[::1]:0") as (one, _):
            again = adapter(bind=one.address.removeprefix("coap://"))
            with pytest.raises(Unavailable, match="cannot listen on ::1 port"):
                await again.connect(RecordingPort("field", tmp_path))
            await again.disconnect()

    asyncio.run(work())
