"""A log onto a bus, with the distances in time that it had: who decides when (`Pace`), and who waits.

    in the log     0 ────── 10 ms ── 12 ms ──────────── 30 ms
    --speed 2      0 ── 5 ms─ 6 ms ──── 15 ms

A frame that is late is sent at once, and the next ones are not held back for it: the end comes when it came in the log.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .logs import Log, Row

if TYPE_CHECKING:
    import can

__all__ = ["Pace", "Report", "message_of", "replay"]

# Less than a timer of the system can do: such a frame is sent at once, a little early.
_LEAST_SLEEP = 0.0005


class Pace:
    """When each frame is due, in seconds since the first was sent."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        """0 is as fast as possible"""
        self._first: float | None = None
        self._latest = 0.0

    def due(self, stamp: float) -> float:
        """Of a frame with this time in the log. Where the log goes back in time nothing waits for it."""
        if not self.speed:
            return 0.0
        if self._first is None:
            self._first = stamp
        self._latest = max(self._latest, (stamp - self._first) / self.speed)
        return self._latest


class Report:
    def __init__(self) -> None:
        self.sent = 0
        self.errors = 0
        """error frames of the log: no node can send one"""
        self.seconds = 0.0
        self.latest = 0.0
        """seconds that a frame was sent too late, at most"""
        self.rounds = 0

    def text(self) -> str:
        rate = self.sent / self.seconds if self.seconds else 0.0
        found = f"{self.sent:,} frames sent in {self.seconds:.3f} s ({rate:,.0f}/s)"
        if self.latest:
            found += f", at most {self.latest * 1000:.1f} ms late"
        if self.errors:
            found += f", {self.errors:,} error frames left out"
        return found if self.rounds < 2 else f"{found}, {self.rounds} rounds"


def replay(
    log: Log,
    pace: Pace,
    report: Report,
    send: "Callable[[can.Message], None]",
    channel: str | None = None,
    clock: Callable[[], float] = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
    progress: Callable[[int], None] = lambda position: None,
) -> None:
    start = clock()
    before = report.seconds
    for rows in log.batches():
        for row in _of_channel(rows, channel):
            message = message_of(row)
            if message.is_error_frame:
                report.errors += 1
                continue
            wait = pace.due(message.timestamp) - (clock() - start)
            if wait > _LEAST_SLEEP:
                # What was due before is out; the bar may be drawn.
                progress(log.position)
                sleep(wait)
            elif pace.speed and -wait > report.latest:
                report.latest = -wait
            send(message)
            report.sent += 1
            report.seconds = before + clock() - start
        progress(log.position)
    report.rounds += 1


def _of_channel(rows: list[Row], channel: str | None) -> Iterator[Row]:
    return iter(rows) if channel is None else (row for row in rows if row[1] == channel)


def message_of(row: Row) -> "can.Message":
    import can

    stamp, channel, number, flags, data = row
    wide = len(number) > 3
    identifier = int(number, 16)
    error = wide and identifier > 0x1FFFFFFF
    remote = data.startswith("R")
    content = b"" if remote else bytes.fromhex(data)
    return can.Message(
        timestamp=float(stamp),
        arbitration_id=identifier & 0x1FFFFFFF,
        is_extended_id=wide,
        is_error_frame=error,
        is_remote_frame=remote,
        dlc=int(data[1:] or "0", 16) if remote else len(content),
        data=None if remote else content,
        is_fd=bool(flags),
        bitrate_switch=bool(flags) and bool(int(flags[1], 16) & 1),
        error_state_indicator=bool(flags) and bool(int(flags[1], 16) & 2),
        channel=channel,
    )
