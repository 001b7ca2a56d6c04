"""Events of a small fleet, and logs of them."""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from vicinal.event import Event
from vicinal_cloud.log import Log, LogOptions, entry_of

START = 1_700_000_000_000


def positions(count: int, cars: int = 50, seed: int = 1, start: int = START) -> list[Event]:
    """As `vicinal sim` sends them: every car in its own part of the town, one event every 100 ms / cars."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        car = number % cars
        found.append(
            Event(
                "Position",
                {
                    "lat": 521_000_000 + car * 20_000 + chance.randrange(5000),
                    "lon": 44_000_000 + car * 10_000 + chance.randrange(5000),
                    "rate": round(chance.uniform(0, 40), 1),
                    "heading": chance.randrange(360),
                },
                {"Time": start + number * 10},
                f"car-{car}",
                number // cars,
            )
        )
    return found


def write(folder: Path, events: Iterable[Event], segment_bytes: int = 1 << 20, batch: int = 500) -> Path:
    """A log with them, in their order; closed."""
    log = Log(folder, LogOptions(segment_bytes=segment_bytes))
    append(log, list(events), batch)
    log.close()
    return folder


def append(log: Log, events: Sequence[Event], batch: int = 500) -> None:
    for at in range(0, len(events), batch):
        some = events[at : at + batch]
        log.append_batch([entry_of(event) for event in some], START + at)
