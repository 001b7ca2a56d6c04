"""The contract of adapters on a real ActiveMQ, and what is JMS's own: others' clients, queues, what is durable."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate
from edge.jms_bench import Bench, connect, fresh, run, sent
from edge.servers import ActiveMq, Mosquitto, free_port

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_edge.adapter import Adapter, Refused, Unavailable
from vicinal_edge.adapters import _stomp_client
from vicinal_edge.adapters import jms as jms_module
from vicinal_edge.adapters.jms import JmsAdapter
from vicinal_edge.contract import PATIENCE, AdapterContract, RecordingPort, settings

ALL = Filter("TRUE")
pytestmark = pytest.mark.xdist_group("activemq")


class TestJms(AdapterContract):
    @pytest.fixture(autouse=True)
    def _server(self, activemq: ActiveMq) -> None:
        self.server = activemq

    @asynccontextmanager
    async def service(self, folder: Path) -> AsyncIterator[Callable[[str], Adapter]]:
        given = {"address": self.server.address, "destination": f"v{next(fresh)}."}
        yield lambda name: JmsAdapter(name, settings(given))


class TestOthersClients:
    def test_what_they_send(self, activemq: ActiveMq, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            adapter, port = await bench.connected("one")
            await adapter.subscribe(Filter("subject = 'Speed' AND rate > 30 AND $Priority IS NOT NULL"))
            other = bench.other()
            before = port.now()
            other.say("Speed", rate=20, n=1)
            other.say("Speed", "grüße", rate="57.5", n=2, on="true", who="007", subject="mine", priority=9, type="t")
            other.say("Speed", rate=31, n=3, priority=9, expires=before + 60_000)
            await port.until(lambda: len(port.events) == 2, "the messages")
            first, second = port.events
            time = first.attrs.pop("Time")
            assert before - 1000 <= time <= port.now() + 1000
            assert first == Event(
                "Speed",
                {"n": 2, "on": True, "rate": 57.5, "subject": "mine", "who": "007", "body": "grüße"},
                {"Priority": 32767},
            )
            assert second.params == {"n": 3, "rate": 31}
            assert second.attrs["Expires"] == before + 60_000

        run(activemq, tmp_path, check)

    def test_their_bytes_and_destinations(self, activemq: ActiveMq, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            adapter, port = await bench.connected("one")
            await adapter.subscribe(Filter("subject = 'Straße.a%b'"))
            other = bench.other()
            other.connection.send(other.prefix + "Straße.a%25b", b"\x00\xff", headers={"content-length": 2})
            await port.until(lambda: port.events or port.wrong, "the message")
            assert port.events[0].subject == "Straße.a%b"
            assert port.events[0].params == {"body": b"\x00\xff"}

        run(activemq, tmp_path, check)

    def test_what_they_see(self, activemq: ActiveMq, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            adapter, port = await bench.connected("one")
            other = bench.other()
            other.subscribe(">", "rate > 30.0 AND ok = TRUE AND JMSPriority > 4 AND subject = 'Speed'")
            event = Event("Speed", {"rate": 57.0, "ok": True, "who": "a:b\n☃\\"}, {"Priority": 3}, "car-7", 12)
            event = event.replace(attrs={**event.attrs, "Expires": port.now() + 60_000, "Time": port.now()})
            await sent(adapter, event.replace(params={**event.params, "rate": 30.0}), event)
            await port.until(lambda: other.frames, "the message")
            (frame,) = other.frames
            body = json.loads(frame.body)
            assert body["params"] == {"rate": 57.0, "ok": True, "who": "a:b\n☃\\"}
            assert (body["producer"], body["seq"]) == ("car-7", 12)
            assert frame.headers["who"] == "a:b\n☃\\"
            assert (frame.headers["rate"], frame.headers["ok"], frame.headers["$Priority"]) == ("57.0", "true", "3")
            assert (frame.headers["priority"], frame.headers["persistent"]) == ("5", "true")
            assert frame.headers["expires"] == str(event.attrs["Expires"])
            assert frame.headers["timestamp"] == str(event.attrs["Time"])

        run(activemq, tmp_path, check)

    @pytest.mark.parametrize(
        ("body", "properties"),
        [
            ("", {"VicinalFrom": "x"}),
            ("{}", {"VicinalFrom": "x"}),
            ('{"subject": ', {"VicinalFrom": "x"}),
            ("[" * 3000, {"VicinalFrom": "x"}),
            ('{"subject": "Speed", "seq": -1}', {"VicinalFrom": "x"}),
            ("", {f"p{n}": n for n in range(257)}),
            ("", {"x" * 256: 1}),
        ],
    )
    def test_what_is_no_event_is_said(
        self, activemq: ActiveMq, tmp_path: Path, body: str, properties: dict[str, Any]
    ) -> None:
        async def check(bench: Bench) -> None:
            adapter, port = await bench.connected("one")
            await adapter.subscribe(Filter("subject = 'Speed'"))
            other = bench.other()
            other.say("Speed", body, subject="Speed", **properties)
            other.say("Speed", n=1)
            await port.until(lambda: port.events, "what is in order")
            assert len(port.wrong) == 1
            assert port.events[0].params == {"n": 1}

        run(activemq, tmp_path, check)


class TestConnection:
    def test_nobody_there(self, tmp_path: Path) -> None:
        address = f"stomp://127.0.0.1:{free_port()}"
        adapter = JmsAdapter("m", settings({"address": address}))
        with pytest.raises(Unavailable, match=f"nothing listens at {address}"):
            asyncio.run(adapter.connect(RecordingPort("m", tmp_path)))

    @pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff\n\n", b"\0", b"", b"RECEIPT\n\n\0"])
    def test_a_server_that_speaks_something_else(self, tmp_path: Path, answer: bytes) -> None:
        async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(answer)
            writer.close()

        async def work() -> None:
            server = await asyncio.start_server(say, "127.0.0.1", 0)
            address = f"stomp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises((Unavailable, Refused), match=address):
                await JmsAdapter("m", settings({"address": address})).connect(RecordingPort("m", tmp_path))
            server.close()

        asyncio.run(work())

    def test_a_server_that_says_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def work() -> None:
            server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
            address = f"stomp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(Unavailable, match="is it a STOMP server"):
                await JmsAdapter("m", settings({"address": address})).connect(RecordingPort("m", tmp_path))
            server.close()

        monkeypatch.setattr(_stomp_client, "ANSWER_SECONDS", 0.2)
        asyncio.run(work())

    def test_passwords_over_tls(self, tmp_path: Path) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        issued = authority.issue_cert("127.0.0.1")
        certificate = load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
        key: Any = load_pem_private_key(issued.private_key_pem.bytes(), None)
        packed = pkcs12.serialize_key_and_certificates(b"x", key, certificate, None, BestAvailableEncryption(b"secret"))
        (tmp_path / "store").write_bytes(packed)
        trusted = {"ca": str(tmp_path / "ca.pem"), "user": "pi"}

        async def check(bench: Bench) -> None:
            for wrong in ({**trusted, "password": "wrong"}, {"ca": trusted["ca"]}):
                adapter, port = bench.make("one", **wrong)
                with pytest.raises(Refused, match="look at user and password"):
                    await adapter.connect(port)
            stranger, port = bench.make("two", user="pi", password="berry")
            with pytest.raises(Refused, match="TLS fails"):
                await stranger.connect(port)
            one, _ = await bench.connected("three", **trusted, password="berry")
            two, port = await bench.connected("four", **trusted, password="berry")
            await two.subscribe(ALL)
            await sent(one, *[Event("Speed", {"n": n}) for n in range(50)])
            await port.until(lambda: len(port.events) == 50, "all events")

        with ActiveMq(tmp_path / "server", users={"pi": "berry"}, tls=tmp_path / "store") as server:
            run(server, tmp_path, check)

    def test_killed_and_started_again(self, tmp_path: Path) -> None:
        """One server for what a server can suffer: it takes seconds to start."""

        async def check(bench: Bench) -> None:
            server = bench.server
            one, one_port = await bench.connected("one", heartbeat=1)
            two, two_port = await bench.connected("two")
            await two.subscribe(ALL)
            await asyncio.sleep(4)  # beats go both ways meanwhile, and nobody is lost
            assert one_port.lost_because == []
            server.pause()
            waiting = await one.publish(Event("Speed", {"n": 1}))
            await one_port.until(lambda: one_port.lost_because, "the loss by silence")
            assert "nothing was heard" in one_port.lost_because[0]
            assert waiting is not None
            with pytest.raises(Unavailable):
                await asyncio.wait_for(waiting, PATIENCE)
            server.kill()
            await two_port.until(lambda: two_port.lost_because, "the loss")
            for asked in (one.publish(Event("Speed")), one.subscribe(ALL), one.inject(b"")):
                with pytest.raises(Unavailable):
                    await asked
            await one.disconnect()
            with pytest.raises(Unavailable, match="nothing listens"):
                await one.connect(one_port)
            server.start()
            for adapter, port in ((one, one_port), (two, two_port)):
                await adapter.connect(port)
            await two.subscribe(ALL)
            await sent(one, Event("Speed", {"n": 2}))
            await two_port.until(lambda: two_port.events, "the event")
            assert two_port.events == [Event("Speed", {"n": 2})]
            assert [len(port.lost_because) for port in (one_port, two_port)] == [1, 1]

        with ActiveMq(tmp_path / "server") as server:
            run(server, tmp_path, check)

    def test_who_has_no_room_gets_it_later(self, activemq: ActiveMq, tmp_path: Path) -> None:
        """And meanwhile receipts still come. More than are on their way at a time."""

        async def check(bench: Bench) -> None:
            one, _ = await bench.connected("one")
            two, port = bench.make("two")
            gate = asyncio.Event()
            port.room = gate.wait  # type: ignore[assignment]
            await two.connect(port)
            await two.subscribe(ALL)
            await sent(one, *[Event("Speed", {"n": n}) for n in range(2500)])
            await sent(two, Event("Speed", {"n": -1}))
            assert port.events == []
            assert int(two.status()["waiting"]) <= jms_module.PREFETCH
            gate.set()
            await port.until(lambda: len(port.events) == 2500, "all events")
            assert [event["n"] for event in port.events] == list(range(2500))

        run(activemq, tmp_path, check)

    def test_nothing_is_left(self, activemq: ActiveMq, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            before = asyncio.all_tasks()
            adapter, _ = await bench.connected("one")
            await adapter.subscribe(ALL)
            await adapter.disconnect()
            assert asyncio.all_tasks() == before

        run(activemq, tmp_path, check)


class TestSubscriptions:
    def test_one_copy_however_many_filters_match(self, activemq: ActiveMq, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            one, _ = await bench.connected("one")
            two, port = await bench.connected("two")
            kinds = [Filter("subject = 'a.b'"), Filter("subject LIKE 'a%'"), ALL, Filter("subject = 'a.b' AND n >= 0")]
            for number, condition in enumerate(kinds * 2):
                await two.subscribe(condition)
                await sent(one, Event("a.b", {"n": number}))
            for number, condition in enumerate(reversed(kinds * 2)):
                await sent(one, Event("a.b", {"n": 100 + number}))
                await two.unsubscribe(condition)
            await sent(one, Event("a.b", {"n": 200}))
            await two.subscribe(Filter("subject = 'end'"))
            await sent(one, Event("end"))
            await port.until(lambda: port.events and port.events[-1].subject == "end", "the end")
            assert [event["n"] for event in port.events[:-1]] == [*range(8), *range(100, 108)]

        run(activemq, tmp_path, check)

    def test_queues_share_and_do_not_give_us_our_own(self, activemq: ActiveMq, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            one, one_port = await bench.connected("one", style="queue")
            two, two_port = await bench.connected("two", style="queue")
            three, three_port = await bench.connected("three", style="queue")
            await sent(one, *[Event("Job", {"n": n}) for n in range(300)])
            await one.subscribe(ALL)
            for adapter in (two, three):
                await adapter.subscribe(Filter("subject = 'Job' AND n < 200"))
            await two_port.until(lambda: len(two_port.events) + len(three_port.events) == 200, "the jobs")
            done = [event["n"] for event in two_port.events + three_port.events]
            assert sorted(done) == list(range(200))
            assert one_port.events == []
            with pytest.raises(Refused, match="does not tunnel"):
                await one.tunnel(True)

        run(activemq, tmp_path, check)

    def test_durable(self, activemq: ActiveMq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What comes while we are away is kept; what nobody asks for again is given up."""
        monkeypatch.setattr(jms_module, "GRACE", 1.0)
        speed, place = Filter("subject = 'Speed' AND n > 3"), Filter("subject = 'Place'")

        async def check(bench: Bench) -> None:
            one, _ = await bench.connected("one")
            two, port = await bench.connected("two", durable="d")
            await two.subscribe(speed)
            await two.subscribe(place)
            await sent(two, Event("Speed", {"n": 77}))
            await two.disconnect()
            await sent(one, *[Event("Speed", {"n": n}) for n in range(20)], Event("Place"))
            again, port = await bench.connected("two", durable="d")  # another process: it has the file alone
            await sent(again, Event("Speed", {"n": 78}))
            await again.subscribe(speed)
            await port.until(lambda: len(port.events) >= 16, "what came meanwhile")
            await port.until(lambda: len(again._durables) == 1, "the end of the grace")
            assert [event["n"] for event in port.events] == list(range(4, 20))
            await again.unsubscribe(speed)
            await again.disconnect()
            await sent(one, Event("Speed", {"n": 50}), Event("Place"))
            last, port = await bench.connected("two", durable="d")
            for condition in (speed, place):
                await last.subscribe(condition)
            await sent(one, Event("Speed", {"n": 51}))
            await port.until(lambda: port.events, "the event")
            assert port.events == [Event("Speed", {"n": 51})]

        run(activemq, tmp_path, check)

    def test_a_durable_name_that_is_in_use_comes_free(self, activemq: ActiveMq, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            two, _ = await bench.connected("two", durable="d")
            rival, port = bench.make("two", durable="d")
            with pytest.raises(Unavailable, match="already connected"):
                await rival.connect(port)
            await two.disconnect()
            await connect(rival, port)

        run(activemq, tmp_path, check)


def test_mosquitto_is_no_jms(tmp_path: Path) -> None:
    """The broker of another protocol, as it happens to people."""
    with Mosquitto(tmp_path / "server") as server:
        adapter = JmsAdapter("m", settings({"address": f"stomp://127.0.0.1:{server.port}"}))
        with pytest.raises(Unavailable, match=r"closed the connection at once|does not speak STOMP"):
            asyncio.run(adapter.connect(RecordingPort("m", tmp_path)))
