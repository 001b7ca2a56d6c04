"""What `vicinal ble scan` shows: announcements and events as heard, whoever they are for. Time is an argument."""

from typing import Any, NamedTuple

from rich.console import Group
from rich.table import Table
from rich.text import Text

from vicinal import wire
from vicinal.errors import RemoteProtocolError, VicinalError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.steam._bodies import decode, seed_of
from vicinal.steam.beacon import Beacon
from vicinal.steam.frames import Piece, check_of, payloads
from vicinal.steam.groups import subject_hash
from vicinal.steam.reading import read
from vicinal.steam.reassembly import Reassembly

from .structures import area_text

__all__ = ["Board", "Found"]

MAX_SENDERS = 1024
"""senders and subjects that are kept; of more, the one that was silent for longest goes"""
REMEMBERED = 64
"""events of one that are remembered, so that a repetition is not shown again"""
PATIENCE = 10_000
"""ms for the pieces of an event"""
GONE = 4
"""beacon intervals without one after which an announcement is shown as gone"""


class Found(NamedTuple):
    sender: str
    rssi: int
    event: Event | None
    beacon: Beacon | None


class _Line:
    def __init__(self) -> None:
        self.subject = ""
        self.beacon: Beacon | None = None
        self.beacons = self.events = 0
        self.rssi = 0
        self.at = 0
        self.beacon_at = 0
        self.last: Event | None = None
        self.note = ""
        self.done: list[int] = []


class Board:
    """`names` are those of typed events, by subject."""

    def __init__(self, names: dict[str, tuple[str, ...]], condition: Filter | None = None) -> None:
        self.condition = condition
        self.heard = self.strangers = self.refused = self.events = 0
        self.reason = ""
        self._names = {subject_hash(subject): (subject, found) for subject, found in names.items()}
        self._lines: dict[bytes, _Line] = {}
        self._reassembly = Reassembly(lambda reason, count: None)

    def hear(self, advertisement: bytes, rssi: int, now: int) -> list[Found]:
        """What is news in it."""
        self.heard += 1
        frames = payloads(advertisement)
        self.strangers += not frames
        found = []
        for payload in frames:
            try:
                news = self._frame(read(payload), rssi, now)
            except VicinalError as error:
                self.refused += 1
                self.reason = str(error)
                continue
            if news is not None:
                found.append(news)
        return found

    def _frame(self, frame: Beacon | Piece, rssi: int, now: int) -> Found | None:
        line = self._line(frame.subject + frame.sender)
        line.rssi, line.at = rssi, now
        sender = frame.sender.hex()
        if isinstance(frame, Beacon):
            line.beacon, line.beacon_at = frame, now
            line.beacons += 1
            return Found(sender, rssi, None, frame)
        if frame.number in line.done:
            return None
        whole = self._reassembly.receive(frame, now, PATIENCE)
        if whole is None:
            return None
        line.done.append(frame.number)
        del line.done[:-REMEMBERED]
        event = self._event(frame, line, *whole)
        if event is None or (self.condition is not None and not self.condition.matches(event)):
            return None
        line.last = event
        line.events += 1
        self.events += 1
        return Found(sender, rssi, event, None)

    def _event(self, frame: Piece, line: _Line, check: bytes, data: bytes) -> Event | None:
        names: tuple[str, ...] | None = None
        if frame.typed:
            if frame.subject not in self._names:
                line.note = f"{len(data)} bytes, values only: give --names"
                return None
            line.subject, names = self._names[frame.subject]
        if check != check_of(seed_of(line.subject, names), data):
            raise RemoteProtocolError("the check of an event is wrong" + (": other names?" if names else ""))
        if names is not None:
            return decode(data, line.subject, names)
        event = wire.decode(data)
        line.subject = event.subject
        return event

    def _line(self, key: bytes) -> _Line:
        line = self._lines.get(key)
        if line is None:
            if len(self._lines) >= MAX_SENDERS:
                del self._lines[min(self._lines, key=lambda other: self._lines[other].at)]
            line = self._lines[key] = _Line()
            if key[:3] in self._names:
                line.subject = self._names[key[:3]][0]
        return line

    def table(self, now: int, height: int = MAX_SENDERS) -> Group:
        table = Table("subject", "sender", expand=True, pad_edge=False, box=None, header_style="bold")
        for column in ("dBm", "beacons", "events"):
            table.add_column(column, justify="right")
        table.add_column("area", ratio=1, no_wrap=True, overflow="ellipsis")
        table.add_column("last event", ratio=1, no_wrap=True, overflow="ellipsis")
        lines = sorted(self._lines.items(), key=lambda item: (item[1].subject, item[0]))
        for key, line in lines[:height]:
            gone = line.beacon is not None and now - line.beacon_at > GONE * line.beacon.every
            table.add_row(
                Text(line.subject or f"#{key[:3].hex()}"),
                key[3:].hex(),
                str(line.rssi),
                f"{line.beacons:,}",
                f"{line.events:,}",
                "" if line.beacon is None else area_text(line.beacon.area, line.beacon.relative),
                Text(line.note) if line.last is None else _values(line.last.params),
                style="dim" if gone else "",
            )
        return Group(table, Text(self._caption(len(lines) - height), style="dim"))

    def _caption(self, hidden: int) -> str:
        parts = [f"{self.heard:,} advertisements heard, {self.strangers:,} of strangers"]
        if hidden > 0:
            parts.append(f"{hidden:,} more senders")
        if self.refused:
            parts.append(f"{self.refused:,} frames refused ({self.reason})")
        return ", ".join(parts)


def _values(params: dict[str, Any]) -> Text:
    found = Text()
    for name, value in params.items():
        shown = (
            value.hex(" ") if isinstance(value, bytes) else f"{value:.6g}" if isinstance(value, float) else str(value)
        )
        found.append(f"{name} ", style="dim").append(f"{shown}  ")
    return found
