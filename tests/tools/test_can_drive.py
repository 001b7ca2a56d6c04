"""The captures of a real car, replayed through the virtual bus to a subscriber: it hears what the car said.

In stepped time both drives, frame by frame at their own times; in real time one of them, by `vicinal can replay`,
through a bus that is a process of its own.
"""

import json
import statistics
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import can
import pytest
from can_helpers import AT_50, FORD, FROM_30_TO_80, call, captures

from vicinal.cosmic.frame import Frame
from vicinal.cosmic.mapping import Mapping
from vicinal.filter import Filter
from vicinal_hw.can import dbc
from vicinal_hw.can.bus import Bus
from vicinal_tools.can.logs import open_log
from vicinal_tools.can.replay import message_of

SUBJECT, SPEED = "EngVehicleSpThrottle2", "Veh_V_ActlEng"
SUBSCRIPTION = Filter(f"subject = '{SUBJECT}' AND {SPEED} > 0")

pytestmark = captures


@pytest.fixture(scope="module")
def ford() -> Mapping:
    return dbc.load(FORD)


def said(log: Path) -> list[float]:
    """By the log itself, decoded without a bus."""
    result = call("decode", str(log), "--dbc", str(FORD), "--message", SUBJECT)
    return [json.loads(line)["params"][SPEED] for line in result.stdout.splitlines()]


def heard(log: Path, mapping: Mapping) -> list[float]:
    """By a controller with the subscription's acceptance masks, on a bus of 500 kbit/s in stepped time."""
    found: list[float] = []

    def receive(frame: Frame, _: int) -> None:
        event = mapping.decode(frame)
        assert event is not None
        assert event.subject == SUBJECT, "the controller's filters let another message through"
        if SUBSCRIPTION.matches(event):
            found.append(event.params[SPEED])  # type: ignore[arg-type]

    bus = Bus(500_000)
    car, subscriber = bus.controller("car"), bus.controller("subscriber")
    car.accept([])
    masks = SUBSCRIPTION.to_can(mapping.identifiers()).masks
    subscriber.accept([(mask["can_id"], mask["can_mask"], mask["extended"]) for mask in masks])
    subscriber.on_receive = receive
    waiting: list[Frame] = []

    def sent(*_: object) -> None:
        if waiting:
            car.load(waiting.pop(0))

    car.on_sent = sent
    first = None
    for rows in open_log(str(log)).batches():
        for row in rows:
            message = message_of(row)
            first = message.timestamp if first is None else first
            bus.advance(max(bus.now, int((message.timestamp - first) * 1e9)))
            waiting.append(Frame(message.arbitration_id, bytes(message.data), message.is_extended_id))
            if car.mailbox is None:
                sent()
    bus.advance(bus.now + 1_000_000_000)
    assert not waiting
    return found


def test_at_50_km_per_hour(ford: Mapping) -> None:
    speeds = heard(AT_50, ford)
    assert speeds == said(AT_50)
    assert statistics.mean(speeds) == pytest.approx(47.0, abs=0.2)


def test_from_30_to_80_km_per_hour(ford: Mapping) -> None:
    speeds = heard(FROM_30_TO_80, ford)
    assert speeds == said(FROM_30_TO_80)
    assert (speeds[0], speeds[-1]) == (pytest.approx(27.8, abs=0.05), pytest.approx(75.7, abs=0.05))


@pytest.fixture
def own_buses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Not pytest's tmp_path: a Unix socket's path may have 107 characters."""
    with TemporaryDirectory(prefix="can") as folder:
        monkeypatch.setenv("VICINAL_CAN_DIR", folder)
        yield


def collect(bus: can.BusABC, count: int, found: list[can.Message]) -> Callable[[], None]:
    def run() -> None:
        while len(found) < count and (message := bus.recv(60)) is not None:
            found.append(message)

    thread = threading.Thread(target=run)
    thread.start()
    return thread.join


@pytest.mark.usefixtures("own_buses")
def test_replayed_by_the_command_through_a_process(ford: Mapping) -> None:
    want = said(AT_50)
    masks = SUBSCRIPTION.to_can(ford.identifiers()).masks
    messages: list[can.Message] = []
    with can.Bus(interface="vicinal", channel="drive", bitrate=1_000_000, can_filters=masks) as bus:
        join = collect(bus, len(want), messages)
        result = call("replay", str(AT_50), "drive", "-i", "vicinal", "--speed", "0", "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["sent"] == 10669
        join()
    events = [ford.decode(Frame(one.arbitration_id, bytes(one.data), one.is_extended_id)) for one in messages]
    speeds = [event.params[SPEED] for event in events if event is not None and SUBSCRIPTION.matches(event)]
    assert speeds == want
