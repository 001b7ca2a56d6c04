"""One contract, four buses: python-can's own two, and the virtual bus in one process and in several."""

import socket
from collections.abc import Iterator
from typing import Any

import can
import pytest
from hw.can.contract import BusContract, Peer, ProcessPeer, extended


class TestVirtualOfPythonCan(BusContract):
    def config(self, channel: str) -> dict[str, Any]:
        return {"interface": "virtual", "channel": channel}


class TestVicinal(BusContract):
    def config(self, channel: str) -> dict[str, Any]:
        return {"interface": "vicinal", "channel": channel, "bitrate": 1_000_000}


class TestVicinalInSeveralProcesses(TestVicinal):
    @pytest.fixture
    def peer(self, channel: str) -> Iterator[Peer]:  # type: ignore[override]
        peer = ProcessPeer(self.config(channel))
        yield peer
        peer.close()


def multicast_works() -> str:
    """Why not; '' if it does."""
    pytest.importorskip("msgpack", reason="udp_multicast needs msgpack")
    try:
        with (
            can.Bus(interface="udp_multicast", channel="239.74.163.2", port=_free_port()) as one,
            can.Bus(interface="udp_multicast", channel="239.74.163.2", port=one._multicast.port) as other,
        ):
            one.send(extended(1))
            return "" if other.recv(2) else "a multicast to this host does not arrive"
    except (can.CanError, OSError) as error:
        return str(error)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def multicast() -> None:
    if why := multicast_works():
        pytest.skip(f"udp_multicast: {why}")


@pytest.mark.usefixtures("multicast")
class TestUdpMulticast(BusContract):
    own_messages = False
    closed_errors = (can.CanError, OSError, ValueError)  # it says what its socket says

    @pytest.fixture(autouse=True)
    def port(self) -> None:
        self._port = _free_port()

    def config(self, channel: str) -> dict[str, Any]:
        return {"interface": "udp_multicast", "channel": "239.74.163.2", "port": self._port}


class TestUdpMulticastInSeveralProcesses(TestUdpMulticast):
    @pytest.fixture
    def peer(self, channel: str, port: None) -> Iterator[Peer]:  # type: ignore[override]
        peer = ProcessPeer(self.config(channel))
        yield peer
        peer.close()


def test_the_contract_can_fail(channel: str) -> None:
    """A bus that makes every frame an extended one does not keep it."""
    buses: list[can.BusABC] = []

    def opened(**options: Any) -> can.BusABC:
        buses.append(can.Bus(interface="virtual", channel=channel, **options))
        return buses[-1]

    class Widening:
        def __init__(self) -> None:
            self.bus = opened()

        def send(self, msg: can.Message) -> None:
            self.bus.send(msg)

        def recv(self, timeout: float) -> can.Message | None:
            received = self.bus.recv(timeout)
            if received:
                received.is_extended_id = True
            return received

    with pytest.raises(AssertionError):
        TestVirtualOfPythonCan().test_frames_arrive_as_they_were_sent(opened, Widening())
    for bus in buses:
        bus.shutdown()
