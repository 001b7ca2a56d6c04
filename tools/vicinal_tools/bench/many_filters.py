"""Index: many filters against one event.

Two workloads. *Selective*: filters of 1 to 4 constraints on ten parameters, each filter true of 1 % of the events
whatever its length, so that long ones have loose constraints: the worst case of counting. *Fleet*: what people
subscribe to, a subject, a zone and a limit; the zones grow with the filters, so that the matches stay the same.
"""

import random
from collections.abc import Callable, Iterator

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.filter.index import Index

from . import Row, cpu_time

SIZES = (1_000, 10_000, 100_000)
GOAL = 100
_EVENTS = 50


def selective(rng: random.Random) -> str:
    count = rng.randint(1, 4)
    share = 0.01 ** (1 / count)
    parts = []
    for name in rng.sample(range(10), count):
        shape = rng.randrange(4)
        low = rng.random() * (1 - share)
        if shape < 2:
            parts.append(f"a{name} BETWEEN {low:.6f} AND {low + share:.6f}")
        elif shape == 2:
            parts.append(f"a{name} > {1 - share:.6f}")
        else:
            parts.append(f"a{name} < {share:.6f}")
    return " AND ".join(parts)


def selective_event(rng: random.Random) -> Event:
    return Event("s", [(f"a{name}", rng.random()) for name in range(10)])


def fleet(rng: random.Random, zones: int) -> str:
    return f"subject = 'Speed' AND zone = 'z{rng.randrange(zones)}' AND rate > {rng.randrange(100)}"


def fleet_event(rng: random.Random, zones: int) -> Event:
    return Event("Speed", [("zone", f"z{rng.randrange(zones)}"), ("rate", rng.random() * 100)])


def rows(sizes: tuple[int, ...] = SIZES) -> Iterator[Row]:
    for size in sizes:
        rng = random.Random(size)
        index, filters = _filled(size, lambda rng=rng: selective(rng))  # type: ignore[misc]
        events = [selective_event(rng) for _ in range(_EVENTS)]
        found = sum(len(index.match(event)) for event in events) / _EVENTS
        counting, each = _both(index, filters, events)
        goal = size >= 100_000
        yield Row(
            f"Index of {size:,} filters, {found:,.0f} match",
            f"{counting * 1e6:,.0f} us an event",
            f"one by one {each * 1e6:,.0f} us",
            f"{each / counting:.0f} x faster",
            f"{GOAL} x" if goal else "",
            each / counting >= GOAL if goal else None,
        )
    yield _growth(min(sizes), max(sizes))


def _growth(small: int, large: int) -> Row:
    """The same matches out of more filters."""
    times = []
    for size in (small, large):
        rng = random.Random(size)
        zones = size // 50
        index, _ = _filled(size, lambda rng=rng, zones=zones: fleet(rng, zones))  # type: ignore[misc]
        events = [fleet_event(rng, zones) for _ in range(_EVENTS)]
        times.append(cpu_time(lambda index=index, events=events: _match_all(index, events))[0] / _EVENTS)  # type: ignore[misc]
    grown = times[1] / times[0]
    return Row(
        f"Index: the same matches out of {large // small} x the filters",
        f"{times[1] * 1e6:.1f} us an event",
        f"out of {small:,}: {times[0] * 1e6:.1f} us",
        f"{grown:.1f} x the cost",
        "not with filters stored: 3 x at most",
        grown <= 3,
    )


def _filled(size: int, text: Callable[[], str]) -> tuple[Index, list[Filter]]:
    index = Index()
    filters = [Filter(text()) for _ in range(size)]
    for number, condition in enumerate(filters):
        index.add(number, condition)
    return index, filters


def _match_all(index: Index, events: list[Event]) -> None:
    for event in events:
        index.match(event)


def _both(index: Index, filters: list[Filter], events: list[Event]) -> list[float]:
    some = events[:5]

    def one_by_one() -> None:
        for event in some:
            [number for number, condition in enumerate(filters) if condition.matches(event)]

    counting, each = cpu_time(lambda: _match_all(index, events), one_by_one)
    return [counting / len(events), each / len(some)]
