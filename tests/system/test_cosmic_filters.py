"""A subscription as acceptance masks: what it does not want is dropped by the controller, before any code sees it.

'subject = Speed AND rate > 30'  --mapping-->  00003039:1FFFFFFF  --controller-->  decode  -->  rate > 30
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import can
import pytest

from vicinal.cosmic.frame import Frame
from vicinal.cosmic.mapping import Mapping
from vicinal.cosmic.mapping_toml_cpython import loads
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_hw.can.bus import Bus

MAPPING = """
[[message]]
id = 12345
subject = "Speed"
fields = [
    { name = "license_no", bytes = "0..6", type = "string" },
    { name = "rate", bytes = 7, type = "double" },
]

[[message]]
id = 0x201
subject = "Engine"
fields = [{ name = "rpm", bytes = "0..1", type = "uint", endian = "big" }]

[[message]]
id = 0x39
extended = true
subject = "Door"
fields = [{ name = "open", bytes = 0, type = "uint" }]
"""
FAST = Filter("subject = 'Speed' AND rate > 30")
RATES = (10.0, 31.0, 200.0)


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with TemporaryDirectory(prefix="can") as folder:
        monkeypatch.setenv("VICINAL_CAN_DIR", folder)
        yield "car"
        assert Path(folder).exists()


def traffic(mapping: Mapping) -> list[Frame]:
    """Those wanted, others, and some that differ from those wanted in one bit or in kind only."""
    frames = [mapping.encode(Event("Speed", [("license_no", "00D1234"), ("rate", rate)])) for rate in RATES]
    frames += [mapping.encode(Event("Engine", [("rpm", 3000)])), mapping.encode(Event("Door", [("open", 1)]))]
    frames += [Frame(12345 ^ 1 << bit, bytes(8)) for bit in range(29)]
    frames.append(Frame(12345 & 0x7FF, bytes(8), extended=False))
    return frames


def wanted(mapping: Mapping, frames: list[Frame]) -> list[object]:
    events = [mapping.decode(frame) for frame in frames]
    assert None not in events  # the masks let nothing through that the mapping does not know
    return [event["rate"] for event in events if event is not None and FAST.matches(event)]


@pytest.mark.parametrize(("condition", "passing"), [(FAST, 3), (Filter("rpm > 1 OR subject = 'Door'"), 5)])
def test_masks_drop_in_the_controller(condition: Filter, passing: int) -> None:
    mapping = loads(MAPPING)
    translation = condition.to_can(mapping.identifiers())
    bus = Bus(500_000)
    sender, listener, everything = bus.controller(), bus.controller(), bus.controller()
    listener.accept([(mask["can_id"], mask["can_mask"], mask["extended"]) for mask in translation.masks])
    heard: list[Frame] = []
    listener.on_receive = lambda frame, now: heard.append(frame)
    frames = traffic(mapping)
    for frame in frames:
        sender.load(frame)
        bus.advance(bus.now + 1_000_000)
    assert everything.received == len(frames)
    assert listener.received == len(heard) == passing
    matching = [frame for frame in frames if (event := mapping.decode(frame)) is not None and condition.matches(event)]
    assert [frame for frame in heard if frame in matching] == matching  # never narrower
    if condition is FAST:
        assert wanted(mapping, heard) == [31.0, 200.0]


def test_few_filters_are_wider_and_never_narrower() -> None:
    mapping = loads(MAPPING)
    either = Filter("subject IN ('Speed', 'Door')").to_can(mapping.identifiers(), 1)
    assert either.reasons
    bus = Bus(500_000)
    sender, listener = bus.controller(), bus.controller()
    listener.accept([(mask["can_id"], mask["can_mask"], mask["extended"]) for mask in either.masks])
    frames = traffic(mapping)
    for frame in frames:
        sender.load(frame)
        bus.advance(bus.now + 1_000_000)
    assert 4 < listener.received < len(frames)


def test_masks_of_a_python_can_bus_drop_in_its_controller(channel: str) -> None:
    """The other process holds the controller; python-can's own filtering in the client is not in use."""
    mapping = loads(MAPPING)
    masks = FAST.to_can(mapping.identifiers()).masks
    with (
        can.Bus(interface="vicinal", channel=channel, time="stepped", bitrate=500_000, tx_queue=64) as sender,
        can.Bus(interface="vicinal", channel=channel, can_filters=masks) as listener,
    ):
        frames = traffic(mapping)
        for frame in frames:
            sender.send(can.Message(arbitration_id=frame.id, data=frame.data, is_extended_id=frame.extended), timeout=0)
        sender.advance(len(frames) * 1_000_000)
        came = []
        while True:
            message, filtered = listener._recv_internal(0.5)
            if message is None:
                break
            assert filtered
            came.append(Frame(message.arbitration_id, bytes(message.data), message.is_extended_id))
    assert len(came) == len(RATES)
    assert wanted(mapping, came) == [31.0, 200.0]
