"""Rows of a log to lines of JSON. A frame is dropped by its identifier's text before anything else is looked at."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from vicinal.cosmic.mapping import Mapping, Message
from vicinal.errors import RemoteProtocolError
from vicinal.filter import Filter

from .json_lines import Writer, writer
from .logs import Row
from .mappings import wanted_by

__all__ = ["Decoder"]

_Handler: TypeAlias = Callable[[str, bytes], str]
# Of the hundred identifiers of a car.
_FEW = 8


class Decoder:
    """frames = lines + others + unmatched + remotes + refused, exactly."""

    def __init__(self, mapping: Mapping, subjects: Iterable[str] = (), condition: Filter | None = None) -> None:
        self.frames = 0
        self.lines = 0
        self.others = 0
        """with identifiers that were not asked for, or that the mapping does not know"""
        self.unmatched = 0
        self.remotes = 0
        self.refused = 0
        self.reason = ""
        """of the first that was refused"""
        self._mapping = mapping
        self._condition = condition
        chosen = mapping.messages if condition is None else wanted_by(mapping, condition)
        subjects = set(subjects)
        self._wanted = {message.key for message in chosen if not subjects or message.subject in subjects}
        self._handlers: dict[str, _Handler | None] = {}

    @property
    def wanted(self) -> set[str] | None:
        """The identifiers, for `Log.batches`, where they are so few that looking at the others does not pay."""
        if len(self._wanted) > _FEW:
            return None
        return {f"{key & 0x1FFFFFFF:08X}" if key > 0x7FF else f"{key:03X}" for key in self._wanted}

    def skip(self, frames: int) -> None:
        """Frames of other identifiers that were not even given to `feed`."""
        self.frames += frames
        self.others += frames

    def feed(self, rows: list[Row]) -> list[str]:
        out: list[str] = []
        handlers, unhex = self._handlers, bytes.fromhex
        others = unmatched = 0
        for time, _, number, _, data in rows:
            try:
                handler = handlers[number]
            except KeyError:
                handler = handlers[number] = self._handler(number)
            if handler is None:
                others += 1
                continue
            try:
                line = handler(time, unhex(data))
            except ValueError:  # R, as remote frames have no data
                self.remotes += 1
            except RemoteProtocolError as error:
                self.refused += 1
                self.reason = self.reason or str(error)
            else:
                if line:
                    out.append(line)
                else:
                    unmatched += 1
        self.frames += len(rows)
        self.lines += len(out)
        self.others += others
        self.unmatched += unmatched
        return out

    def _handler(self, number: str) -> _Handler | None:
        """Three digits are a standard identifier, eight an extended one; an error frame has bit 29 set."""
        message = self._mapping.message(int(number, 16), len(number) > 3)
        if message is None or message.key not in self._wanted:
            return None
        write = writer(message)
        return write if self._condition is None else _filtered(message, write, self._condition)

    def summary(self) -> str:
        parts = [f"{self.frames:,} frames", f"{self.lines:,} decoded", f"{self.others:,} with other identifiers"]
        for count, what in ((self.unmatched, "not matched"), (self.remotes, "remote"), (self.refused, "refused")):
            if count:
                parts.append(f"{count:,} {what}")
        return ", ".join(parts)


def _filtered(message: Message, write: Writer, condition: Filter) -> _Handler:
    matches = condition.matches
    timed = "$" in str(condition)

    def handle(time: str, data: bytes) -> str:
        attrs = {"Time": int(float(time) * 1000)} if timed else ()
        return write(time, data) if matches(message.decode(data, attrs)) else ""

    return handle
