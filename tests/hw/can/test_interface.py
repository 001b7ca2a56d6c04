"""What the virtual bus does beyond python-can's contract: stepped time, physics across processes, and its own death."""

import os
import signal
import socket
import subprocess
import sys
from typing import Any

import can
import pytest
from hw.can.contract import PATIENCE, ProcessPeer, extended

from vicinal.cosmic.bits import frame_bits
from vicinal.cosmic.frame import Frame
from vicinal_hw.can._host import UNFETCHED_MAX
from vicinal_hw.can._records import socket_of
from vicinal_hw.can.interface import VicinalBus
from vicinal_hw.can.server import ALREADY

MILLISECOND = 1_000_000


def opened(channel: str, **options: Any) -> VicinalBus:
    return VicinalBus(channel=channel, **{"bitrate": 500_000, "time": "stepped", **options})


def drained(bus: VicinalBus) -> list[can.Message]:
    found = []
    while received := bus.recv(0):
        found.append(received)
    return found


def test_stepped_time_stands_still_until_it_is_asked(channel: str) -> None:
    with opened(channel) as one, opened(channel, receive_own_messages=True) as two:
        two.send(extended(5, b"12345678"))
        bits = frame_bits(Frame(5, b"12345678"))
        assert one.recv(0.02) is None
        one.advance((bits - 3) * 2000 - 1)
        assert one.recv(0) is None
        assert one.advance(1) == (bits - 3) * 2000
        [received] = drained(one)
        [own] = drained(two)
        assert received.timestamp == own.timestamp == (bits - 3) * 2000 / 1e9
        assert (received.is_rx, own.is_rx) == (True, False)


def test_stepped_runs_are_the_same_run(channel: str) -> None:
    def run() -> list[tuple[float, int]]:
        with opened(channel) as one, opened(channel) as two, opened(channel) as three:
            one.disturb(0.3, seed=4, all_frames=True)
            for number in range(8):
                one.send(extended(0x100 + number))
                two.send(extended(0x200 - number))
            three.advance(20 * MILLISECOND)
            return [(each.timestamp, each.arbitration_id) for each in drained(three)]

    first = run()
    assert len(first) == 16
    # The lowest head goes first, whatever stands behind it in its sender's queue.
    assert [number for _, number in first] == [*range(0x100, 0x108), *range(0x200, 0x1F8, -1)]


def test_a_full_queue_is_an_error_or_a_wait(channel: str) -> None:
    with opened(channel, tx_queue=2) as one, opened(channel) as two:
        for number in range(2):
            one.send(extended(number))
        with pytest.raises(can.CanOperationError, match="full"):
            one.send(extended(2), timeout=None)  # stepped: there never would be room
        assert one.queued() == 2
        two.advance(MILLISECOND)
        assert one.queued() == 0
        one.send(extended(2))


def test_in_real_time_a_sender_waits_for_room(channel: str) -> None:
    with opened(channel, time="real", tx_queue=1) as one, opened(channel, time=None, bitrate=None) as two:
        for number in range(500):  # a queue of one: each waits for the one before
            one.send(extended(number), timeout=None if number % 2 else 1e9)
        assert [getattr(two.recv(PATIENCE), "arbitration_id", None) for _ in range(500)] == list(range(500))
    with opened(channel, time="real", tx_queue=1) as alone:
        alone.send(extended(1))
        with pytest.raises(can.CanOperationError, match="full"):
            alone.send(extended(2), timeout=0.02)  # nobody acknowledges the first


def test_alone_nothing_is_sent_and_the_state_says_why(channel: str) -> None:
    with opened(channel) as alone:
        alone.send(extended(1))
        alone.advance(100 * MILLISECOND)
        assert alone.state is can.BusState.PASSIVE
        assert alone.counters() == (128, 0)
        codes = [(each.arbitration_id, each.data[1]) for each in drained(alone) if each.is_error_frame]
        assert codes == [(0x204, 0x08), (0x204, 0x20)]
        with opened(channel) as other:
            alone.advance(MILLISECOND)
            assert [each.arbitration_id for each in drained(other)] == [1]


@pytest.mark.parametrize("restart", [False, True])
def test_bus_off_and_back(channel: str, restart: bool) -> None:
    with opened(channel, restart=restart, bus_errors=True) as one, opened(channel) as two:
        one.disturb(1.0)
        for number in range(3):
            one.send(extended(number, bytes(8)))
        one.advance(20 * MILLISECOND)
        if not restart:
            assert one.state is can.BusState.ERROR
            assert one.queued() == 0
            with pytest.raises(can.CanOperationError, match="bus-off"):
                one.send(extended(3))
            one.recover()
            one.advance(2_815_999)
            assert one.state is can.BusState.ERROR
            one.advance(1)
        assert one.state is can.BusState.ACTIVE
        errors = [each for each in drained(one) if each.is_error_frame]
        assert len([each for each in errors if each.arbitration_id & 0x80]) == 32
        states = [each.arbitration_id & 0x144 for each in errors if not each.arbitration_id & 0x80]
        assert states == [0x4, 0x4, 0x40, 0x104]
        one.disturb(0)
        one.send(extended(9))
        one.advance(MILLISECOND)
        assert [each.arbitration_id for each in drained(two) if not each.is_error_frame] == [9]


def test_what_is_not_fetched_is_dropped_counted_and_told(channel: str) -> None:
    with opened(channel, bitrate=1_000_000, tx_queue=10_000) as one, opened(channel, bitrate=None) as lazy:
        sent = 0
        for _ in range(4):
            for _ in range(10_000):
                one.send(extended(0))
            sent += 10_000
            one.advance(1_000 * MILLISECOND)
        fetched = [lazy.recv(PATIENCE) for _ in range(UNFETCHED_MAX // 2)]
        assert all(fetched)
        one.send(extended(1))
        one.advance(MILLISECOND)
        rest = []
        while not rest or rest[-1].arbitration_id != 1:
            received = lazy.recv(PATIENCE)  # the server pours as there is room
            assert received is not None
            rest.append(received)
        [overflow] = [each for each in rest if each.is_error_frame]
        lost = int.from_bytes(overflow.data[4:], "big")
        assert overflow.data[1] == 1
        assert lost > 0
        frames = len(fetched) + len([each for each in rest if not each.is_error_frame])
        assert frames + lost == sent + 1


def test_what_was_queued_is_sent_after_its_sender_left(channel: str) -> None:
    with opened(channel) as stays:
        leaves = opened(channel)
        for number in range(5):
            leaves.send(extended(number))
        leaves.shutdown()
        for _ in range(100):  # until the server has seen it go
            stays.advance(MILLISECOND)
        assert [each.arbitration_id for each in drained(stays)] == list(range(5))


def test_a_killed_client_leaves_the_bus_to_the_others(channel: str) -> None:
    config = {"interface": "vicinal", "channel": channel, "bitrate": 500_000}
    starter = ProcessPeer(config)  # it started the bus
    with can.Bus(**config) as one, can.Bus(**config) as two:
        starter.process.kill()
        starter.process.communicate()
        one.send(extended(7))
        assert getattr(two.recv(PATIENCE), "arbitration_id", None) == 7


def test_a_killed_bus_is_a_clear_error_and_can_be_opened_again(channel: str) -> None:
    one, two = opened(channel), opened(channel)
    os.kill(one.server_pid, signal.SIGKILL)
    for bus in (one, two):
        with pytest.raises(can.CanOperationError, match=f"process {one.server_pid}, which held it, ended"):
            bus.recv(PATIENCE)
        with pytest.raises(can.CanOperationError, match="Open it again"):
            bus.send(extended(1))
    with opened(channel) as new, opened(channel) as other:
        assert new.server_pid != one.server_pid
        new.send(extended(1))
        new.advance(MILLISECOND)
        assert len(drained(other)) == 1
    one.shutdown()
    two.shutdown()


def test_a_bus_that_failed_left_its_reason(channel: str) -> None:
    with opened(channel) as bus:
        log = socket_of(channel).with_suffix(".log")
        assert log.stat().st_size == 0
        os.kill(bus.server_pid, signal.SIGKILL)
        log.write_text("why")
        with pytest.raises(can.CanOperationError, match=f"last words are in {log}"):
            bus.recv(PATIENCE)
    opened(channel).shutdown()


def test_who_disagrees_is_refused_with_both_values(channel: str) -> None:
    with opened(channel):
        with pytest.raises(can.CanInitializationError, match="500000 bit/s, not at 250000"):
            opened(channel, bitrate=250_000)
        with pytest.raises(can.CanInitializationError, match="stepped time"):
            opened(channel, time="real")
        done = subprocess.run(
            [sys.executable, "-m", "vicinal_hw.can.server", channel], capture_output=True, text=True, check=False
        )
        assert (done.returncode, "another process holds it" in done.stderr) == (ALREADY, True)
        assert {"interface": "vicinal", "channel": channel} in can.detect_available_configs(["vicinal"])
    with pytest.raises(can.CanInitializationError, match="2000000"):
        opened(channel, bitrate=2_000_000)
    for options in ({"time": "slow"}, {"fd": True}):
        with pytest.raises(ValueError):
            opened(channel, **options)
    with pytest.raises(ValueError, match="channel"):
        opened("../up")


def test_what_the_bus_does_not_take(channel: str) -> None:
    with opened(channel, time="real") as bus, opened(channel, time="real", listen_only=True) as listener:
        with pytest.raises(can.CanOperationError, match="classic"):
            bus.send(can.Message(is_fd=True))
        with pytest.raises(can.CanOperationError, match="classic"):
            bus.send(can.Message(is_error_frame=True))
        with pytest.raises(can.CanOperationError, match="real time"):
            bus.advance(1)
        with pytest.raises(can.CanOperationError, match="listens"):
            listener.send(extended(1))
        with pytest.raises(ValueError, match="257"):
            bus.set_filters([{"can_id": number, "can_mask": 0x7FF, "extended": False} for number in range(257)])
        with pytest.raises(NotImplementedError):
            bus.state = can.BusState.PASSIVE
        with pytest.raises(ValueError, match="probability"):
            bus.disturb(2)


@pytest.mark.parametrize("hello", [b"\n", b"[]\n", b'{"protocol": 9}\n', b"x" * 2000, b'{"protocol": 1}\n', b""])
def test_a_stranger_does_not_disturb_the_bus(channel: str, hello: bytes) -> None:
    with opened(channel) as one, opened(channel) as two:
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.connect(str(socket_of(channel)))
            stranger.settimeout(PATIENCE)
            stranger.sendall(hello)
            if hello:
                assert b"refused" in stranger.recv(1000)
        one.send(extended(1))
        one.advance(MILLISECOND)
        assert len(drained(two)) == 1
