"""What every python-can bus that we use must do, the real and the virtual ones: subclassed for each (test_contract.py).

A peer is the other end: a bus in this process, or one in a process of its own. Nothing is said about how long things
take, only that they come to pass.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import can
import pytest
from hw.can.peer import fields, message

PATIENCE = 5.0  # seconds, for a machine that does other things too
PEER = Path(__file__).with_name("peer.py")


class Peer(Protocol):
    def send(self, msg: can.Message) -> None: ...
    def recv(self, timeout: float) -> can.Message | None: ...


class ProcessPeer:
    """A bus in another process."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PEER), json.dumps(config)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._read() == {"ready": True}

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()

    def send(self, msg: can.Message) -> None:
        self._ask({"do": "send", **fields(msg)})

    def recv(self, timeout: float) -> can.Message | None:
        answer = self._ask({"do": "recv", "timeout": timeout})
        return message(answer) if answer else None

    def close(self) -> None:
        self.process.communicate(timeout=PATIENCE)


def extended(number: int, data: bytes = b"") -> can.Message:
    return can.Message(arbitration_id=number, data=data)


def standard(number: int, data: bytes = b"") -> can.Message:
    return can.Message(arbitration_id=number, data=data, is_extended_id=False)


SAMPLES = [
    extended(0),
    extended(0x1FFFFFFF, bytes(range(8))),
    extended(0x7FF, b"\xff"),
    standard(0x7FF, b"abc"),
    standard(0, bytes(8)),
    can.Message(arbitration_id=0x123, is_extended_id=False, is_remote_frame=True, dlc=0),
    can.Message(arbitration_id=0x12345, is_remote_frame=True, dlc=8),
]

Open = Callable[..., can.BusABC]


class BusContract:
    """Subclasses say how to open, and what their bus cannot do."""

    own_messages = True
    closed_errors: tuple[type[Exception], ...] = (can.CanError,)

    def config(self, channel: str) -> dict[str, Any]:
        raise NotImplementedError

    @pytest.fixture
    def opened(self, channel: str) -> Iterator[Open]:
        """Opens buses and closes them at the end."""
        buses: list[can.BusABC] = []

        def open_bus(**options: Any) -> can.BusABC:
            buses.append(can.Bus(**{**self.config(channel), **options}))
            return buses[-1]

        yield open_bus
        for bus in buses:
            bus.shutdown()

    @pytest.fixture
    def peer(self, opened: Open) -> Peer:
        """The other end; where it is another process, subclasses say so."""
        return opened()

    def test_frames_arrive_as_they_were_sent(self, opened: Open, peer: Peer) -> None:
        bus = opened()
        for sample in SAMPLES:
            bus.send(sample)
        for sample in SAMPLES:
            received = peer.recv(PATIENCE)
            assert received is not None
            assert fields(received) == fields(sample)

    def test_and_the_other_way(self, opened: Open, peer: Peer) -> None:
        bus = opened()
        for sample in SAMPLES:
            peer.send(sample)
        for sample in SAMPLES:
            received = bus.recv(PATIENCE)
            assert received is not None
            assert fields(received) == fields(sample)
            assert received.is_rx
            assert not received.is_error_frame

    def test_one_senders_frames_stay_in_order(self, opened: Open, peer: Peer) -> None:
        bus = opened()
        for number in range(200, 0, -1):
            bus.send(extended(number, bytes([number])))
        assert [getattr(peer.recv(PATIENCE), "arbitration_id", None) for _ in range(200)] == list(range(200, 0, -1))

    def test_everybody_hears_it(self, opened: Open, peer: Peer) -> None:
        first, second = opened(), opened()
        peer.send(extended(5, b"all"))
        for bus in (first, second):
            received = bus.recv(PATIENCE)
            assert received is not None
            assert received.data == b"all"

    def test_nothing_there_is_none(self, opened: Open, peer: Peer) -> None:
        bus = opened()
        assert bus.recv(0) is None
        assert bus.recv(0.01) is None

    def test_own_frames_come_back_only_when_asked(self, opened: Open, peer: Peer) -> None:
        if not self.own_messages:
            with pytest.raises(NotImplementedError):
                opened(receive_own_messages=True)
            return
        deaf, own = opened(), opened(receive_own_messages=True)
        deaf.send(extended(1))
        own.send(extended(2))
        assert [getattr(peer.recv(PATIENCE), "arbitration_id", None) for _ in range(2)] == [1, 2]
        assert getattr(deaf.recv(PATIENCE), "arbitration_id", None) == 2
        assert deaf.recv(0) is None
        assert sorted(getattr(own.recv(PATIENCE), "arbitration_id", 0) for _ in range(2)) == [1, 2]

    def test_filters_hold_back_the_rest(self, opened: Open, peer: Peer) -> None:
        bus = opened(can_filters=[{"can_id": 0x100, "can_mask": 0x7F0, "extended": False}])
        wanted = [standard(0x100), standard(0x10F, b"x")]
        for sent in (standard(0x110), wanted[0], extended(0x100), wanted[1], extended(0x10F)):
            peer.send(sent)
        peer.send(standard(0x105, b"end"))
        received = [bus.recv(PATIENCE) for _ in range(3)]
        assert [fields(each) for each in received if each] == [
            fields(each) for each in [*wanted, standard(0x105, b"end")]
        ]
        bus.set_filters(None)
        peer.send(extended(0x110))
        assert getattr(bus.recv(PATIENCE), "arbitration_id", None) == 0x110
        bus.set_filters([{"can_id": 0x5, "can_mask": 0x7}])
        for number in (4, 5, 0xD):
            peer.send(extended(number))
            peer.send(standard(number))
        ids = [getattr(bus.recv(PATIENCE), "arbitration_id", None) for _ in range(4)]
        assert ids == [5, 5, 0xD, 0xD]

    def test_a_notifier_with_threads(self, opened: Open, peer: Peer) -> None:
        reader = can.BufferedReader()
        with can.Notifier(opened(), [reader], timeout=0.1):
            for number in range(20):
                peer.send(extended(number))
            ids = [getattr(reader.get_message(PATIENCE), "arbitration_id", None) for _ in range(20)]
        assert ids == list(range(20))

    def test_a_notifier_in_an_event_loop(self, opened: Open, peer: Peer) -> None:
        async def receive(bus: can.BusABC) -> list[int]:
            reader = can.AsyncBufferedReader()
            with can.Notifier(bus, [reader], timeout=0.1, loop=asyncio.get_running_loop()):
                for number in range(20):
                    await asyncio.to_thread(peer.send, extended(number))
                return [(await asyncio.wait_for(reader.get_message(), PATIENCE)).arbitration_id for _ in range(20)]

        assert asyncio.run(receive(opened())) == list(range(20))

    def test_a_logger_and_what_it_wrote(self, opened: Open, peer: Peer, tmp_path: Path) -> None:
        file = tmp_path / "bus.log"
        bus = opened()
        samples = SAMPLES[:-1]  # candump's format has no length of a remote frame
        with can.Logger(str(file)) as logger:
            for sample in samples:
                peer.send(sample)
                received = bus.recv(PATIENCE)
                assert received is not None
                logger(received)
        with can.LogReader(str(file)) as read:
            assert [fields(each) for each in read] == [fields(sample) for sample in samples]

    def test_a_periodic_frame_comes_again_and_again(self, opened: Open, peer: Peer) -> None:
        bus = opened()
        task = bus.send_periodic(extended(9, b"tick"), 0.005)
        ids = [getattr(peer.recv(PATIENCE), "arbitration_id", None) for _ in range(5)]
        task.stop()
        assert ids == [9] * 5

    def test_time_goes_forward(self, opened: Open, peer: Peer) -> None:
        bus = opened()
        for number in range(10):
            peer.send(extended(number))
        times = [received.timestamp for received in [bus.recv(PATIENCE) for _ in range(10)] if received]
        assert len(times) == 10
        assert times == sorted(times)

    def test_a_closed_bus_says_so(self, opened: Open, peer: Peer) -> None:
        bus = opened()
        bus.shutdown()
        bus.shutdown()
        with pytest.raises(self.closed_errors):
            bus.recv(0)
        with pytest.raises(self.closed_errors):
            bus.send(extended(1))
