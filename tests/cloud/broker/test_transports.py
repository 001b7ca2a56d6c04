"""TLS with certificates made here, mutual TLS, WebSocket: the same broker behind each."""

import asyncio
import socket
from pathlib import Path

import pytest
import trustme
from cloud.broker.brokers import PATIENCE, Brokers, until
from cloud.broker.test_pubsub import known, rates, speed, take

from vicinal.event import Event
from vicinal.siena.messages import encode
from vicinal_cloud.broker.address import Tls
from vicinal_cloud.broker.client import Closed, connect
from vicinal_cloud.broker.dial import CannotConnect


class Authority:
    """Certificates, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(str(self.ca_file))

    def issue(self, name: str) -> Tls:
        found = self.ca.issue_cert("127.0.0.1", "localhost", common_name=name)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        for at, blob in enumerate(found.cert_chain_pems):
            blob.write_to_path(str(certificate), append=at > 0)
        found.private_key_pem.write_to_path(str(key))
        return Tls(certificate, key, self.ca_file)

    def listen(self, address: str, name: str, mutual: bool) -> str:
        self.issue(name)
        lines = [f'address = "{address}"', f'certificate = "{name}.pem"', f'key = "{name}.key"']
        return "\n".join(lines + (['ca = "ca.pem"'] if mutual else []))


@pytest.fixture
def authority(brokers: Brokers) -> Authority:
    return Authority(brokers.folder)


def test_tls(brokers: Brokers, authority: Authority) -> None:
    async def tls() -> None:
        b1 = brokers.start("b1", listen=[authority.listen("tls://127.0.0.1:0", "b1", False)])
        trusting = Tls(ca=authority.ca_file)
        async with await connect(b1.address, "car", trusting) as car, await connect(b1.address, tls=trusting) as office:
            fast = await office.subscribe("TRUE")
            speeds = await car.advertise("TRUE")
            for rate in range(50):
                await car.publish(speed(rate), speeds)
            assert await rates(fast, 50) == list(range(50))
            await car.publish(Event("Picture", {"data": bytes(60000)}), speeds)
            assert (await take(fast, 1))[0].event["data"] == bytes(60000)
        with pytest.raises(CannotConnect, match="TLS: CERTIFICATE_VERIFY_FAILED"):
            await connect(b1.address, "car")

    asyncio.run(tls())


def test_mutual_tls_and_the_name_in_the_certificate(brokers: Brokers, authority: Authority) -> None:
    async def mutual() -> None:
        b1 = brokers.start("b1", listen=[authority.listen("tls://127.0.0.1:0", "b1", True)])
        car_7 = authority.issue("car-7")
        async with await connect(b1.address, "car-7", car_7) as car:
            await car.advertise("TRUE")
        with pytest.raises(Closed, match="you say 'car-8', your certificate says 'car-7'"):
            await connect(b1.address, "car-8", car_7)
        with pytest.raises((CannotConnect, Closed)):
            await connect(b1.address, "car-7", Tls(ca=authority.ca_file))
        elsewhere = brokers.folder / "elsewhere"
        elsewhere.mkdir()
        stranger = Authority(elsewhere)
        with pytest.raises((CannotConnect, Closed)):
            await connect(b1.address, "car-7", stranger.issue("car-7")._replace(ca=authority.ca_file))
        status = b1.status()
        assert status["clients"] == []
        assert status["connections"]["ended"]["not admitted"] == 1

    asyncio.run(mutual())


def test_neighbours_over_mutual_tls(brokers: Brokers, authority: Authority) -> None:
    async def link() -> None:
        b1 = brokers.start("b1", {"b2": None}, listen=[authority.listen("tls://127.0.0.1:0", "b1", True)])
        authority.issue("b2")
        files = 'certificate = "b2.pem"\nkey = "b2.key"\nca = "ca.pem"'
        dialled = f'[[neighbour]]\nname = "b1"\naddress = "{b1.address}"\n{files}'
        b2 = brokers.start("b2", more=dialled)
        await until(lambda: b2.status()["neighbours"][0]["up"] and b1.status()["neighbours"][0]["up"])
        async with await connect(b2.address, "car") as car:
            tls = authority.issue("office")
            async with await connect(b1.address, "office", tls) as office:
                fast = await office.subscribe("TRUE")
                speeds = await car.advertise("TRUE")
                await known(b2, 1)
                await car.publish(speed(1), speeds)
                assert await rates(fast, 1) == [1]

    asyncio.run(link())


def test_websocket(brokers: Brokers, authority: Authority) -> None:
    """A client of ours, and the library's own, which cuts messages where it likes, as a browser would."""
    from websockets.sync.client import connect as web_connect

    from vicinal.scope.graph import Tags
    from vicinal.siena.connection import Connection
    from vicinal.siena.messages import framed

    async def web() -> None:
        listen = ["ws://127.0.0.1:0", authority.listen("wss://127.0.0.1:0", "b1", False), "tcp://127.0.0.1:0"]
        b1 = brokers.start("b1", listen=listen)
        plain, secure, tcp = b1.addresses
        async with (
            await connect(plain, "car") as car,
            await connect(secure, "office", Tls(ca=authority.ca_file)) as office,
        ):
            fast = await office.subscribe("TRUE")
            speeds = await car.advertise("TRUE")
            for rate in range(50):
                await car.publish(speed(rate), speeds)
            assert await rates(fast, 50) == list(range(50))
            assert await car.ping() >= 0

            def browser() -> list[object]:
                heard: list[object] = []
                machine = Connection(0, ("hello", 1, 0, "browser"))
                with web_connect(plain) as socket_:
                    asking = encode(("subscribe", 1, "rate > 100", Tags(), None, None))
                    data = machine.data_to_send() + framed(encode(("credit", 10))) + framed(asking)
                    for at in range(0, len(data), 5):
                        socket_.send(data[at : at + 5])
                    while len(heard) < 3:
                        machine.receive_data(bytes(socket_.recv(timeout=PATIENCE)), 0)  # type: ignore[arg-type]
                        while events := machine.next_events():
                            heard.extend(events)
                return heard

            listening = asyncio.create_task(asyncio.to_thread(browser))
            await until(lambda: b1.status()["overlay"]["subscriptions"] == 2)
            await car.publish(speed(101), speeds)
            welcome, answer, delivery = await listening
            assert welcome[0] == "welcome"  # type: ignore[index]
            assert answer[:3] == ("answer", 1, True)  # type: ignore[index]
            assert delivery[2]["rate"] == 101  # type: ignore[index]

            def wrong(text: bytes) -> bytes:
                host, port = plain.removeprefix("ws://").split(":")
                with socket.create_connection((host, int(port)), timeout=PATIENCE) as one:
                    one.sendall(text)
                    found = b""
                    while data := one.recv(65536):
                        found += data
                    return found

            refused = await asyncio.to_thread(wrong, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert refused.startswith(b"HTTP/1.1 426")
            assert await asyncio.to_thread(wrong, b"\x00\x01\x02\r\n\r\n") is not None
            with web_connect(plain) as one:
                one.send("text")
                assert b"where messages are binary" in b"".join(one)  # type: ignore[arg-type]
                assert (one.close_code, one.close_reason) == (1000, "protocol error")
            await until(lambda: b1.status()["connections"]["ended"].get("protocol error", 0) >= 3)
            # A broker that is spoken to in the wrong way says so, and a client understands.
            with pytest.raises((CannotConnect, Closed)):
                await connect(tcp.replace("tcp", "ws"), "car-8")

    asyncio.run(web())
