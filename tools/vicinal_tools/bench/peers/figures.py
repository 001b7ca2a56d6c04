"""The figures of `make bench`, and what the broker has to reach beside its peers.

Each is the median of the rounds. Floods are judged by wanted deliveries a second, paced traffic by CPU for each of
them, of the broker or of broker and clients together.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from .. import Row
from .durable import WINDOW
from .scenarios import SCENARIOS, Outcome, Run, percentile, rounds
from .systems import SYSTEMS, missing

__all__ = ["folder", "rows"]

ROUNDS = 3
DURABLE_RATE = 15_000
DURABLE_P99_MS = 50


class Goal(NamedTuple):
    peer: str
    factor: float
    """of the peer's figure"""


class Figure(NamedTuple):
    """What a scenario is judged by."""

    name: str
    of: Callable[[Run], float]
    text: str
    """the figure with its unit"""
    more: bool
    """whether more is better"""


def _p(percent: int) -> Callable[[Run], float]:
    return lambda one: percentile(one.late, percent) * 1e3


RATE = Figure("", lambda one: one.rate, "{:,.0f}/s", True)
BROKER = Figure("broker CPU", lambda one: one.broker_us, "{:.1f} us", False)
SYSTEM = Figure("system CPU", lambda one: one.system_us, "{:.1f} us", False)
P50 = Figure("p50", _p(50), "{:.3f} ms", False)

JUDGED = (
    ("1to1", RATE, (Goal("mosquitto", 3.0),)),
    ("1to1-mixed", RATE, ()),
    ("fanin", RATE, (Goal("mosquitto", 2.0),)),
    ("fanin-mixed", RATE, ()),
    ("fanout", RATE, (Goal("nats", 1.0),)),
    ("fanout-mixed", RATE, ()),
    ("content", RATE, (Goal("mosquitto", 12.0), Goal("nats", 5.0))),
    ("1to1-paced", BROKER, ()),
    ("fanout-paced", BROKER, (Goal("mosquitto", 1.0),)),
    ("content-paced", SYSTEM, (Goal("mosquitto", 0.3),)),
    ("latency", P50, (Goal("mosquitto", 1.25),)),
)


def folder() -> Path:
    """Where logs may lie: on a disk, because on a tmpfs syncs cost nothing."""
    found = Path("build")
    found.mkdir(exist_ok=True)
    return found


def rows(count: int = ROUNDS) -> Iterator[Row]:
    if lacking := missing():
        command = f"apt-get install -y --no-install-recommends {' '.join(lacking)}"
        yield Row("broker beside its peers", "not measured", f"{' and '.join(lacking)} missing; as root: {command}")
    else:
        for name, figure, goals in JUDGED:
            yield _beside(name, figure, goals, count)
    yield from _durable(count)


def _beside(name: str, figure: Figure, goals: tuple[Goal, ...], count: int) -> Row:
    what = f"broker: {SCENARIOS[name].what}"
    found = rounds(SCENARIOS[name], SYSTEMS, count, folder())
    lost = [why for outcome in found.values() for why in outcome.lost]
    if not all(outcome.runs for outcome in found.values()):
        return Row(what, "not measured", f"lost: {'; '.join(lost)}", met=False)
    values = {system: outcome.median(figure.of) for system, outcome in found.items()}
    ours = values["vicinal"]
    ratios = {peer: ours / values[peer] for peer in SYSTEMS[1:]}
    against = [f"{peer} {_all(found[peer], figure)}" for peer in SYSTEMS[1:]]
    against += [f"{len(lost)} runs lost: {lost[0]}"] if lost else []
    kept = [_kept(ratios[goal.peer], goal.factor, figure.more) for goal in goals]
    return Row(
        what,
        _all(found["vicinal"], figure),
        "; ".join(against),
        f"{figure.name} {', '.join(f'{ratio:.2f} x {peer}' for peer, ratio in ratios.items())}".strip(),
        _goal(figure, goals) + ("; beyond: 1 x nats" if name == "1to1" else ""),
        all(kept) and not found["vicinal"].lost if goals else None,
    )


def _kept(ratio: float, factor: float, more: bool) -> bool:
    return ratio >= factor if more else ratio <= factor


def _goal(figure: Figure, goals: tuple[Goal, ...]) -> str:
    return ", ".join(f"{'' if figure.more else 'at most '}{goal.factor:g} x {goal.peer}" for goal in goals)


def _all(outcome: Outcome, figure: Figure) -> str:
    """What is judged, then the rest: CPU for a wanted delivery of the broker and of the system, memory."""
    broker, system = outcome.median(BROKER.of), outcome.median(SYSTEM.of)
    cpu = f"{broker:.1f} us broker, {system:.1f} us system"
    text = {RATE: f"{RATE.text.format(outcome.median(RATE.of))}, ", P50: _latency(outcome)}.get(figure, "")
    return f"{text}{cpu}, {outcome.median(lambda one: one.memory) / 1e6:.0f} MB"


def _latency(outcome: Outcome) -> str:
    if not outcome.runs[0].late:
        return ""
    return f"p50 {outcome.median(_p(50)):.3f} ms, p99 {outcome.median(_p(99)):.2f} ms, "


def _durable(count: int) -> Iterator[Row]:
    outcome = rounds(SCENARIOS["durable"], ("vicinal",), count, folder())["vicinal"]
    what = f"broker: durable publish, {WINDOW:,} in flight"
    if not outcome.runs:
        yield Row(what, "not measured", f"lost: {'; '.join(outcome.lost)}", met=False)
        return
    rate, p99 = outcome.median(RATE.of), outcome.median(_p(99))
    yield Row(
        what,
        f"{_all(outcome, RATE)}",
        f"{len(outcome.lost)} runs lost: {outcome.lost[0]}" if outcome.lost else "",
        f"{rate / DURABLE_RATE:.1f} x the goal",
        f"{DURABLE_RATE:,}/s",
        rate >= DURABLE_RATE and not outcome.lost,
    )
    yield Row(
        "broker: acknowledgement of a durable publish, p99",
        f"{p99:.1f} ms",
        f"p50 {outcome.median(_p(50)):.1f} ms",
        f"{p99 / DURABLE_P99_MS:.2f} of it",
        f"under {DURABLE_P99_MS} ms",
        p99 < DURABLE_P99_MS,
    )
