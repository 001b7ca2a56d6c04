"""What `vicinal can monitor` shows: a line for each subject, with its rate and its last values. Time is an argument."""

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from vicinal.cosmic.mapping import Mapping, Message
from vicinal.errors import RemoteProtocolError
from vicinal.filter import Filter

__all__ = ["Board"]

# Subjects that are kept: a bus has some hundred identifiers, a babbling one without a mapping may have all.
MAX_SUBJECTS = 2048


class _Line:
    __slots__ = ("count", "key", "params", "rate", "seen", "units")

    def __init__(self, key: str, units: dict[str, str]) -> None:
        self.key = key
        self.units = units
        self.count = 0
        self.seen = 0
        """of `count`, when the rate was taken"""
        self.rate = 0.0
        self.params: dict[str, Any] = {}


class Board:
    """Frames in, a table out. Without a mapping each identifier is a subject, with its data as bytes."""

    def __init__(self, mapping: Mapping | None, condition: Filter | None = None) -> None:
        self.mapping = mapping
        self.condition = condition
        self.frames = 0
        self.shown = 0
        self.others = 0
        self.refused = 0
        self.reason = ""
        self._lines: dict[str, _Line] = {}
        self._started: float | None = None
        self._refreshed = 0.0

    def add(self, identifier: int, extended: bool, data: bytes, time_ms: int) -> tuple[str, dict[str, Any]] | None:
        """Subject and parameters of a frame that is shown."""
        self.frames += 1
        key = f"{identifier:08X}" if extended else f"{identifier:03X}"
        if self.mapping is None:
            return self._show(key, key, {"data": data})
        message = self.mapping.message(identifier, extended)
        if message is None:
            self.others += 1
            return None
        try:
            params = self._params(message, data, time_ms)
        except RemoteProtocolError as error:
            self.refused += 1
            self.reason = str(error)
            return None
        return None if params is None else self._show(message.subject, key, params)

    def _params(self, message: Message, data: bytes, time_ms: int) -> dict[str, Any] | None:
        if self.condition is None:
            return message.params(data)
        event = message.decode(data, {"Time": time_ms})
        return event.params if self.condition.matches(event) else None

    def _show(self, subject: str, key: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        line = self._lines.get(subject)
        if line is None:
            if len(self._lines) == MAX_SUBJECTS:
                self.others += 1
                return None
            units = {} if self.mapping is None else self.mapping.units(subject)
            line = self._lines[subject] = _Line(key, units)
        line.count += 1
        line.params.update(params)
        self.shown += 1
        return subject, params

    def table(self, now: float, height: int = MAX_SUBJECTS, overall: bool = False) -> Group:
        """Rates are since the last call, or since the first one."""
        if self._started is None:
            self._started = self._refreshed = now
        seconds = now - (self._started if overall else self._refreshed)
        for line in self._lines.values():
            if seconds > 0:
                line.rate = (line.count if overall else line.count - line.seen) / seconds
            line.seen = line.count
        self._refreshed = now
        table = Table("subject", "id", expand=True, pad_edge=False, box=None, header_style="bold")
        table.add_column("frames", justify="right")
        table.add_column("per s", justify="right")
        table.add_column("last values", ratio=1, no_wrap=True, overflow="ellipsis")
        subjects = sorted(self._lines)
        for subject in subjects[:height]:
            line = self._lines[subject]
            table.add_row(Text(subject), line.key, f"{line.count:,}", f"{line.rate:,.1f}", _values(line))
        return Group(table, Text(self._caption(len(subjects) - height), style="dim"))

    def _caption(self, hidden: int) -> str:
        parts = [f"{self.frames:,} frames, {self.shown:,} shown"]
        if self.others:
            parts.append(f"{self.others:,} with other identifiers")
        if hidden > 0:
            parts.append(f"{hidden} more subjects")
        if self.refused:
            parts.append(f"{self.refused:,} refused ({self.reason})")
        return ", ".join(parts)


def _values(line: _Line) -> Text:
    found = Text()
    for name, value in line.params.items():
        shown = value.hex(" ").upper() if isinstance(value, bytes) else _number(value)
        unit = line.units.get(name, "")
        found.append(f"{name} ", style="dim").append(f"{shown}{' ' if unit else ''}{unit}  ")
    return found


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
