"""A calendar from a file: which channels get a slot, which do not and why, as a table and as a picture.

    [bus]
    bitrate = 500_000
    precision = 20            # microseconds that two clocks may be apart
    jitter = 50               # microseconds that a sender may be late at its ready time

    [[channel]]
    name = "Brake"
    period = 5_000            # microseconds, as all times
    size = 4                  # bytes of an event; up to 8 it is one frame
    omissions = 2             # attempts that may fail
    node = 3                  # who sends
    earliest = 0              # the phase, if it matters
    latest = 2_000

Channels are admitted in the order of the file, each at the first phase that is free.
"""

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from rich import box
from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from vicinal._table import Table
from vicinal.cosmic.calendar import MAX_CYCLE, Calendar, Refused
from vicinal.cosmic.identifier import MAX_TX_NODE
from vicinal.cosmic.slot import MAX_OMISSIONS, MAX_SLOT_BYTES, Slot
from vicinal.errors import LocalProtocolError

__all__ = ["Channel", "Plan", "as_json", "load_plan", "picture", "table"]

_MAX_BITRATE = 1_000_000
_LABEL = 16


class Channel(NamedTuple):
    name: str
    period: int
    size: int
    omissions: int
    node: int | None
    earliest: int
    latest: int | None


class Plan(NamedTuple):
    calendar: Calendar
    refused: list[tuple[str, str]]
    """channel and reason"""
    better: list[str] | None
    """an order in which all of them fit, where this one does not and that one was found"""


def load_plan(path: str) -> Plan:
    try:
        with Path(path).open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise LocalProtocolError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LocalProtocolError(f"{path}: not TOML: {error}") from error
    for key in tables:
        if key not in ("bus", "channel"):
            raise LocalProtocolError(f"{path}: [{key}] is not known: want [bus] and [[channel]]")
    bus = Table(f"{path}: [bus]", tables.get("bus", {}))
    bitrate = bus.integer("bitrate", 1, _MAX_BITRATE, required=True)
    precision, jitter = bus.integer("precision", 0, MAX_CYCLE, 100), bus.integer("jitter", 0, MAX_CYCLE, 0)
    bus.done()
    rows = tables.get("channel")
    if not isinstance(rows, list) or not rows:
        raise LocalProtocolError(f"{path}: want at least one [[channel]], with two brackets: there may be several")
    channels = [_channel(Table(f"{path}: [[channel]] {at}", row)) for at, row in enumerate(rows, 1)]
    calendar, refused = _admit(Calendar(bitrate, precision, jitter), channels)
    better = None
    if refused:
        # Short periods and long slots are the hardest to place: before the others they often find room.
        order = sorted(channels, key=lambda one: (one.period, -one.size * (1 + one.omissions)))
        if not _admit(Calendar(bitrate, precision, jitter), order)[1]:
            better = [one.name for one in order]
    return Plan(calendar, refused, better)


def _channel(table: Table) -> Channel:
    found = Channel(
        table.name("name", 255),
        table.integer("period", 1, MAX_CYCLE, required=True),
        table.integer("size", 0, MAX_SLOT_BYTES, 8),
        table.integer("omissions", 0, MAX_OMISSIONS, 1),
        table.integer("node", 0, MAX_TX_NODE),
        table.integer("earliest", 0, MAX_CYCLE, 0),
        table.integer("latest", 0, MAX_CYCLE),
    )
    table.done()
    return found


def _admit(calendar: Calendar, channels: list[Channel]) -> tuple[Calendar, list[tuple[str, str]]]:
    refused = []
    for one in channels:
        try:
            calendar.reserve(one.name, one.period, one.size, one.omissions, one.node, one.earliest, one.latest)
        except Refused as error:
            refused.append((one.name, error.reason))
    return calendar, refused


def as_json(plan: Plan) -> dict[str, Any]:
    calendar = plan.calendar
    return {
        "bitrate": calendar.bitrate,
        "precision": calendar.precision,
        "jitter": calendar.jitter,
        "cycle": calendar.cycle,
        "reserved": calendar.reserved(),
        "channels": [
            {
                "name": slot.channel,
                "node": slot.tx_node,
                "size": slot.size,
                "omissions": slot.omissions,
                "period": slot.period,
                "phase": slot.phase,
                "length": slot.length,
                "window": slot.window,
                "latency": slot.latency,
            }
            for slot in calendar.slots
        ],
        "slots": [[start, slot.channel] for start, slot in calendar.entries()],
        "refused": [{"name": name, "reason": reason} for name, reason in plan.refused],
        "better_order": plan.better,
    }


def table(plan: Plan) -> Group:
    calendar = plan.calendar
    title = f"{calendar.bitrate:,} bit/s, times in microseconds"
    grid = Grid(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("channel", "node", "bytes", "omit", "period", "at", "slot", "sent in", "latency", "load"):
        grid.add_column(name, justify="left" if name == "channel" else "right", no_wrap=True)
    for slot in calendar.slots:
        grid.add_row(
            Text(slot.channel),
            "" if slot.tx_node is None else str(slot.tx_node),
            str(slot.size),
            str(slot.omissions),
            *[f"{value:,}" for value in (slot.period, slot.phase, slot.length, slot.window, slot.latency)],
            f"{100 * slot.length / slot.period:.1f} %",
        )
    for name, _ in plan.refused:
        grid.add_row(Text(name), *[""] * 8, "refused", style="red")
    reserved = calendar.reserved()
    widest = max((length for _, length in calendar.free()), default=0)
    said = (
        f"cycle {calendar.cycle:,} us with {sum(1 for _ in calendar.entries()):,} slots; "
        f"reserved {100 * reserved / calendar.cycle:.1f} %, the longest stretch that is free is {widest:,} us.\n"
        "at: ready time in the period; sent in: worst case from there; latency: worst case from publishing to delivery."
        "\n"
        "What slots do not need is taken by other frames."
    )
    return Group(grid, Text(said, style="dim"))


def picture(calendar: Calendar, width: int, end: int | None = None) -> list[str]:
    """A row for each channel: a full block where the slot takes half of a column or more, a light one where some."""
    end = calendar.cycle if end is None else min(end, calendar.cycle)
    columns = max(min(width - _LABEL - 1, end), 10)
    rows = []
    for slot in calendar.slots:
        shares = _shares(slot, columns, end)
        marks = ["█" if 2 * share >= 1 else "▒" if share else "·" for share in shares]
        rows.append(f"{slot.channel[:_LABEL]:<{_LABEL}} {''.join(marks)}")
    axis = f"{end:,} us"
    rows.append(f"{'':<{_LABEL}} 0{axis:>{columns - 1}}")
    return rows


def _shares(slot: Slot, columns: int, end: int) -> list[float]:
    """How much of each column the slot takes. The last slot of a cycle may reach into the next."""
    shares = [0.0] * columns
    each = end / columns
    for start in range(slot.phase - slot.period, end, slot.period):
        low, high = float(max(start, 0)), min(start + slot.length, end)
        at = int(low / each)
        while low < high and at < columns:
            edge = min((at + 1) * each, high)
            shares[at] += (edge - low) / each
            low = edge
            at += 1
    return shares
