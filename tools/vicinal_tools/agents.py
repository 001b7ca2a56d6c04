"""What is known of agents, from what they say of themselves (AgentHealth, spec/agent.md).

agents = Agents()
agents.take(event, time)        whether it was news
agents.all()                    one Seen an agent, by name

async for event, time in past(client):      from the broker's log; raises NoLog where it keeps none
"""

import json
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table

from vicinal.errors import VicinalError
from vicinal.event import Event

if TYPE_CHECKING:
    from vicinal_cloud.broker.client import Client

__all__ = ["HEALTH", "Agents", "NoLog", "Seen", "ago", "past", "table_of"]

HEALTH = "subject = 'AgentHealth'"
# Records of a log that are asked for at once: a megabyte at most comes back.
_AT_ONCE = 16384
_COUNTED = ("offered", "delivered", "refused", "stored", "dropped", "faults")
# How updates end that somebody should look at (spec/agent.md).
_BAD = ("refused", "went back", "interrupted")


class NoLog(Exception):
    """The broker has none, or does not tell."""


class Seen(NamedTuple):
    agent: str
    version: str
    mode: str
    time: int
    """when it was heard, Unix ms"""
    uptime_s: int
    boots: int
    why: str
    """how the last boot ended, if it said so"""
    free: int | None
    counted: dict[str, int]
    update: str
    """the version that was tried last"""
    update_result: str
    update_why: str
    update_order: str
    """who has told it, and with which event: producer and number"""

    @property
    def is_well(self) -> bool:
        return self.mode == "normal" and self.update_result not in _BAD

    def table(self) -> dict[str, Any]:
        found = self._asdict() | self.counted | {"is_well": self.is_well}
        del found["counted"]
        return found


class Agents:
    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        self._numbers: dict[str, int] = {}
        self.strange = 0
        """what was called AgentHealth, and was none"""

    def take(self, event: Event, at: int) -> Seen | None:
        """None: it says nothing new."""
        name = event.get("agent")
        if event.subject != "AgentHealth" or not isinstance(name, str) or not name:
            self.strange += 1
            return None
        # An agent's numbers rise for ever: what comes late over another way is older, whenever it comes.
        number = event.seq if event.producer == name and event.seq is not None else at
        if number <= self._numbers.get(name, -1):
            return None
        self._numbers[name] = number
        free = event.get("free")
        found = self._seen[name] = Seen(
            name,
            _text(event.get("version")),
            _text(event.get("mode")) or "?",
            at,
            _count(event.get("uptime_s")),
            _count(event.get("boots")),
            _text(event.get("why")),
            free if type(free) is int else None,
            {key: _count(event.get(key)) for key in _COUNTED},
            _text(event.get("update")),
            _text(event.get("update_result")),
            _text(event.get("update_why")),
            _text(event.get("update_order")),
        )
        return found

    def all(self) -> list[Seen]:
        return [self._seen[name] for name in sorted(self._seen)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if type(value) is int else 0


async def past(client: "Client", records: int) -> AsyncIterator[tuple[Event, int]]:
    """Of the last `records` of the broker's log."""
    from vicinal_cloud.broker.client import Refused
    from vicinal_cloud.broker.reading import TOPIC, unpack_records
    from vicinal_cloud.log.scoped import event_of

    try:
        ends = json.loads(await client.administer("tell", TOPIC))
    except Refused as error:
        raise NoLog(str(error)) from error
    at = max(ends["first"], ends["next"] - records)
    while at < ends["next"]:
        asked = {"from": at, "to": min(at + _AT_ONCE, ends["next"]), "filter": HEALTH}
        told = json.loads(await client.administer("tell", f"{TOPIC} {json.dumps(asked)}"))
        for record in unpack_records(told["records"]):
            try:
                yield event_of(record), record.time
            except VicinalError:
                continue  # of a later version, or damaged: the broker's own log says so
        if told["at"] <= at:
            return
        at = told["at"]


def ago(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"


def table_of(seen: list[Seen], now: float | None = None) -> Table:
    now = time.time() if now is None else now
    table = Table("agent", "version", "mode", "boots", "seen", "delivered", "stored", "dropped", "last update")
    for column in table.columns[5:8]:
        column.justify = "right"
    for one in seen:
        mode = one.mode if not one.why else f"{one.mode}: {one.why}"
        update = f"{one.update} {one.update_result}".strip()
        if one.update_why:
            update += f": {one.update_why}"
        numbers = [f"{one.counted[key]:,}" for key in ("delivered", "stored", "dropped")]
        heard = ago(now - one.time / 1000)
        style = None if one.is_well else "red"
        table.add_row(one.agent, one.version, mode, str(one.boots), heard, *numbers, update, style=style)
    return table
