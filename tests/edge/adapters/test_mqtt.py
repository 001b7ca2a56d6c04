"""The contract of adapters on a real mosquitto, and what is MQTT's own: others' clients, lost connections, sessions."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from edge.mqtt_bench import Bench, fresh, run, sent
from edge.servers import Mosquitto, free_port

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_edge.adapter import Adapter, Refused, Unavailable
from vicinal_edge.adapters import mqtt as mqtt_module
from vicinal_edge.adapters.mqtt import MqttAdapter
from vicinal_edge.contract import PATIENCE, AdapterContract, RecordingPort, settings

ALL = Filter("TRUE")


class TestMqtt(AdapterContract):
    payload = "json"

    @pytest.fixture(autouse=True)
    def _server(self, mosquitto: Mosquitto) -> None:
        self.server = mosquitto

    @asynccontextmanager
    async def service(self, folder: Path) -> AsyncIterator[Callable[[str], Adapter]]:
        number = next(fresh)
        given = {"address": self.server.address, "prefix": f"v{number}/", "payload": self.payload}
        yield lambda name: MqttAdapter(name, settings({**given, "client_id": f"{name}-{number}"}))


class TestMqttCbor(TestMqtt):
    payload = "cbor"


class TestOthersClients:
    """mosquitto_pub and mosquitto_sub, which know nothing of us."""

    @pytest.mark.parametrize(
        ("payload", "params"),
        [
            ('{"rate": 57.5, "n": 3, "on": true, "who": "x"}', {"rate": 57.5, "n": 3, "on": True, "who": "x"}),
            ('{"ENERGY": {"Power": 5, "none": null}, "l": [1, {"x": 2}]}', {"ENERGY.Power": 5, "l.0": 1, "l.1.x": 2}),
            ("21.5", {"value": 21.5}),
            ("-7", {"value": -7}),
            ("true", {"value": True}),
            ("ON", {"value": "ON"}),
            ('"21.5"', {"value": "21.5"}),
            ("007", {"value": "007"}),
            ("[4, 5]", {"value.0": 4, "value.1": 5}),
            ("99999999999999999999", {"value": "99999999999999999999"}),
        ],
    )
    @pytest.mark.parametrize("version", ["5", "311"])
    def test_what_they_send(
        self, mosquitto: Mosquitto, tmp_path: Path, payload: str, params: dict[str, Any], version: str
    ) -> None:
        async def check(bench: Bench) -> None:
            adapter, port = await bench.connected("one")
            await adapter.subscribe(Filter("subject = 'Speed'"))
            await bench.say(bench.prefix + "Speed", payload, "-V", version)
            await port.until(lambda: port.events or port.wrong, "the message")
            assert port.events == [Event("Speed", params)]

        run(mosquitto, tmp_path, check)

    def test_their_properties(self, mosquitto: Mosquitto, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            adapter, port = await bench.connected("one")
            await adapter.subscribe(Filter("subject = 'Speed'"))
            given = ["Priority 7", "Source es9", "trace abc", "n 12", "producer car-7", "seq 12", "list [1]"]
            said = [word for one in given for word in ("-D", "publish", "user-property", *one.split(" "))]
            before = port.now()
            await bench.say(bench.prefix + "Speed", "1", *said, "-D", "publish", "message-expiry-interval", "60")
            await port.until(lambda: port.events, "the message")
            event = port.events[0]
            assert event.identity == ("car-7", 12)
            expires = event.attrs.pop("Expires")
            assert before + 59_000 <= expires <= port.now() + 60_000
            assert event.attrs == {"Priority": 7, "Source": "es9", "trace": "abc", "n": 12, "list": "[1]"}

        run(mosquitto, tmp_path, check)

    def test_what_they_see(self, mosquitto: Mosquitto, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            adapter, port = await bench.connected("one")
            form = "%t|%p|%C|%P|%E"
            other = await bench.client("mosquitto_sub", "-t", bench.prefix + "#", "-F", form, "-C", "1", "-q", "1")
            event = Event("Speed", {"who": "☃", "rate": 57.0}, {"Priority": 3, "other": "x"}, "car-7", 12)
            event = event.replace(attrs={**event.attrs, "Expires": port.now() + 60_000})
            assert other.stdout is not None
            line = asyncio.create_task(other.stdout.readline())
            while not line.done():  # until it has subscribed
                await sent(adapter, event)
                await asyncio.sleep(0.05)
            topic, payload, kind, properties, expiry = (await line).decode().rstrip("\n").split("|")
            assert (topic, payload, kind) == (
                bench.prefix + "Speed", '{"who": "☃", "rate": 57.0}', "application/json",
            )  # fmt: skip
            found = dict(one.split(":", 1) for one in properties.split(" "))
            expires = str(event.attrs["Expires"])
            assert found == {"producer": "car-7", "seq": "12", "Priority": "3", "other": '"x"', "Expires": expires}
            assert 50 < int(expiry) <= 60
            await other.wait()

        run(mosquitto, tmp_path, check)

    @pytest.mark.parametrize(
        ("payload", "said"),
        [
            ('{"rate": ', ()),
            ("{'rate': 5}", ()),
            ('{"rate": 1, "rate": 2}', ()),
            ('{"rate": NaN}', ()),
            ('{"": 1}', ()),
            ('{"big": 99999999999999999999}', ()),
            ('{"b": {"$bytes": "!"}}', ()),
            ("[" * 3000, ()),
            ("x", ("content-type", "application/json")),
            ("x", ("content-type", "application/vicinal+cbor")),
            ("1", ("user-property", "Priority", "high")),
            ("1", ("user-property", "Priority", "40000")),
            ("1", ("user-property", "Proximity", "nowhere")),
        ],
    )
    def test_what_is_no_event_is_said(
        self, mosquitto: Mosquitto, tmp_path: Path, payload: str, said: tuple[str, ...]
    ) -> None:
        async def check(bench: Bench) -> None:
            adapter, port = await bench.connected("one")
            await adapter.subscribe(Filter("subject = 'Speed'"))
            await bench.say(bench.prefix + "Speed", payload, *(("-D", "publish", *said) if said else ()))
            await bench.say(bench.prefix + "Speed", "1")
            await port.until(lambda: port.events, "what is in order")
            assert len(port.wrong) == 1
            assert port.events == [Event("Speed", {"value": 1})]

        run(mosquitto, tmp_path, check)

    def test_retained_messages_are_no_news(self, mosquitto: Mosquitto, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            await bench.say(bench.prefix + "Speed", "1", "-r")
            adapter, port = await bench.connected("one")
            keen, its_port = await bench.connected("two", retained=True)
            for one in (adapter, keen):
                await one.subscribe(Filter("subject = 'Speed'"))
            await bench.say(bench.prefix + "Speed", "2")
            await port.until(lambda: port.events, "the message")
            await its_port.until(lambda: len(its_port.events) == 2, "both messages")
            assert [event["value"] for event in port.events] == [2]
            assert [event["value"] for event in its_port.events] == [1, 2]

        run(mosquitto, tmp_path, check)


class TestConnection:
    def test_nobody_there(self, tmp_path: Path) -> None:
        address = f"mqtt://127.0.0.1:{free_port()}"
        adapter = MqttAdapter("m", settings({"address": address}))
        with pytest.raises(Unavailable, match=f"nothing listens at {address}"):
            asyncio.run(adapter.connect(RecordingPort("m", tmp_path)))

    def test_a_server_that_says_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def work() -> None:
            server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
            address = f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(Unavailable, match="is it an MQTT broker"):
                await MqttAdapter("m", settings({"address": address})).connect(RecordingPort("m", tmp_path))
            server.close()

        monkeypatch.setattr("vicinal_edge.adapters._mqtt_client.ANSWER_SECONDS", 0.2)
        asyncio.run(work())

    @pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x20\x02\x00\x01", b"\xff" * 50, b""])
    def test_a_server_that_speaks_something_else(self, tmp_path: Path, answer: bytes) -> None:
        async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(answer)
            writer.close()

        async def work() -> None:
            server = await asyncio.start_server(say, "127.0.0.1", 0)
            address = f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            adapter = MqttAdapter("m", settings({"address": address}))
            with pytest.raises((Unavailable, Refused), match=address):
                await adapter.connect(RecordingPort("m", tmp_path))
            server.close()

        asyncio.run(work())

    def test_passwords(self, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            for wrong in ({"username": "pi", "password": "wrong"}, {}):
                adapter, port = bench.make("one", **wrong)
                with pytest.raises(Refused, match="look at username, password"):
                    await adapter.connect(port)
            (tmp_path / "secret").write_text("berry\n")
            await bench.connected("two", username="pi", password_file=str(tmp_path / "secret"))

        with Mosquitto(tmp_path / "server", users={"pi": "berry"}) as server:
            run(server, tmp_path, check)

    def test_tls(self, tmp_path: Path) -> None:
        authority, other = trustme.CA(), trustme.CA()
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        other.cert_pem.write_to_path(str(tmp_path / "other.pem"))
        issued = authority.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
        issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))

        async def check(bench: Bench) -> None:
            one, _ = await bench.connected("one", ca=str(tmp_path / "ca.pem"))
            two, port = await bench.connected("two", ca=str(tmp_path / "ca.pem"))
            await two.subscribe(ALL)
            events = [Event("Speed", {"n": n, "pad": "x" * 20_000}, (), "car-7", n) for n in range(50)]
            await sent(one, *events)
            await port.until(lambda: len(port.events) == 50, "all events")
            assert port.events == events
            stranger, its_port = bench.make("three", ca=str(tmp_path / "other.pem"))
            with pytest.raises(Refused, match="TLS fails"):
                await stranger.connect(its_port)

        with Mosquitto(tmp_path / "server", tls=(tmp_path / "cert.pem", tmp_path / "key.pem")) as server:
            run(server, tmp_path, check)

    def test_killed_and_started_again(self, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            server = bench.server
            one, one_port = await bench.connected("one")
            two, two_port = await bench.connected("two")
            await two.subscribe(ALL)
            server.pause()
            waiting = await one.publish(Event("Speed", {"n": 1}))
            server.kill()
            assert waiting is not None
            with pytest.raises(Unavailable):
                await asyncio.wait_for(waiting, PATIENCE)
            for port in (one_port, two_port):
                await port.until(lambda port=port: port.lost_because, "the loss")  # type: ignore[misc]
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

        with Mosquitto(tmp_path / "server") as server:
            run(server, tmp_path, check)

    def test_a_server_that_stands_still_is_lost(self, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            adapter, port = bench.make("one")
            adapter.keepalive = 1
            await adapter.connect(port)
            bench.server.pause()
            await port.until(lambda: port.lost_because, "the loss")
            bench.server.resume()

        with Mosquitto(tmp_path / "server") as server:
            run(server, tmp_path, check)

    def test_another_with_our_client_id_takes_over(self, mosquitto: Mosquitto, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            _, port = await bench.connected("one")
            await bench.connected("two", client_id=f"one-{bench.number}")
            await port.until(lambda: port.lost_because, "the loss")

        run(mosquitto, tmp_path, check)

    def test_what_the_broker_refuses(self, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            one, _ = await bench.connected("one", username="pi", password="berry")
            two, port = await bench.connected("two", username="pi", password="berry")
            assert one.capabilities.max_bytes == 5000
            await two.subscribe(ALL)
            for event, reason in (
                (Event("Speed", {"x": "y" * 5000}), "takes 5000"),
                (Event("Secret"), "refuses the event: Not authorized"),
            ):
                with pytest.raises(Refused, match=reason):
                    await sent(one, event)
            await sent(one, Event("Speed", {"n": 1}))
            await port.until(lambda: port.events, "the event")
            assert port.events == [Event("Speed", {"n": 1})]
            assert port.lost_because == []

        rules = tmp_path / "acl"
        rules.write_text("user pi\ntopic read #\ntopic write +/Speed\n")
        rules.chmod(0o600)
        lines = ("max_packet_size 5000", f"acl_file {rules}")
        with Mosquitto(tmp_path / "server", users={"pi": "berry"}, lines=lines) as server:
            run(server, tmp_path, check)


class TestSession:
    def test_what_comes_while_we_are_away_is_there_when_we_subscribe_again(
        self, mosquitto: Mosquitto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mqtt_module, "GRACE", 1.0)
        speed, place = Filter("subject = 'Speed'"), Filter("subject = 'Place'")

        async def check(bench: Bench) -> None:
            two, port = await bench.connected("two")
            one, _ = await bench.connected("one")
            await two.subscribe(speed)
            await two.subscribe(place)
            assert two._link is not None
            two._link.close()  # as a cable that is cut
            await sent(one, *[Event("Speed", {"n": n}) for n in range(50)], Event("Place"))
            again, port = await bench.connected("two")  # another process: it has the file alone
            await asyncio.sleep(0.1)
            assert port.events == []
            await again.subscribe(speed)
            await port.until(lambda: len(port.events) == 50, "what came meanwhile")
            assert [event["n"] for event in port.events] == list(range(50))
            assert again.status()["waiting"] == 1
            # Nobody has asked for places again: after a while they are given up.
            await port.until(lambda: again.status()["subscriptions"] == 1, "the end of the grace")
            assert again.status()["unwanted"] == 1
            await sent(one, Event("Place"), Event("Speed", {"n": 50}))
            await port.until(lambda: len(port.events) == 51, "the next")
            assert again.status()["unwanted"] == 1
            assert port.events[-1] == Event("Speed", {"n": 50})

        run(mosquitto, tmp_path, check)

    def test_without_a_session_nothing_is_kept(self, mosquitto: Mosquitto, tmp_path: Path) -> None:
        async def check(bench: Bench) -> None:
            two, port = await bench.connected("two", session=0)
            one, _ = await bench.connected("one")
            await two.subscribe(ALL)
            await two.disconnect()
            await sent(one, Event("Speed", {"n": 1}))
            await two.connect(port)
            await two.subscribe(ALL)
            await sent(one, Event("Speed", {"n": 2}))
            await port.until(lambda: port.events, "the event")
            assert port.events == [Event("Speed", {"n": 2})]

        run(mosquitto, tmp_path, check)

    @pytest.mark.parametrize("written", ["", "{", "[]", '{"address": 1}', '{"filters": [1]}'])
    def test_a_spoilt_file_is_no_obstacle(self, mosquitto: Mosquitto, tmp_path: Path, written: str) -> None:
        async def check(bench: Bench) -> None:
            adapter, port = bench.make("one")
            (port.folder / "mqtt-session.json").write_text(written)
            await adapter.connect(port)
            await adapter.subscribe(ALL)

        run(mosquitto, tmp_path, check)

    def test_who_has_no_room_gets_it_later(self, mosquitto: Mosquitto, tmp_path: Path) -> None:
        """And meanwhile acknowledgements still come."""

        async def check(bench: Bench) -> None:
            one, _ = await bench.connected("one")
            two, port = bench.make("two")
            gate = asyncio.Event()
            port.room = gate.wait  # type: ignore[assignment]
            await two.connect(port)
            await two.subscribe(ALL)
            await sent(one, *[Event("Speed", {"n": n}) for n in range(2000)])
            await sent(two, Event("Speed", {"n": -1}))
            assert port.events == []
            gate.set()
            await port.until(lambda: len(port.events) == 2000, "all events")
            assert [event["n"] for event in port.events] == list(range(2000))

        run(mosquitto, tmp_path, check)
