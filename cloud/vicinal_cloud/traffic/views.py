"""What the office knows, as JSON says it: positions in degrees, times in ms, cases flat."""

from collections.abc import Iterable
from typing import Any

from .cases import AFTER, Case
from .export import flat
from .limits import Rule
from .network import UNIT
from .office import Office
from .paths import Path
from .plain import plain
from .signs import filter_of
from .watch import Sample
from .whereabouts import Sighting

__all__ = ["area", "areas", "case", "event", "evidence", "monitors", "overlay", "path", "rule", "sighting"]


def monitors(office: Office, now: int) -> list[dict[str, Any]]:
    return [_monitor(office, name, now) for name in office.signs.signs]


def _monitor(office: Office, name: str, now: int) -> dict[str, Any]:
    monitor, sign = office.config.network.monitors[name], office.signs.signs[name]
    return {
        "name": name,
        "lat": monitor.place[0] / UNIT,
        "lon": monitor.place[1] / UNIT,
        "area": monitor.area,
        "reach_m": office.config.reach_m,
        "limit": office.control.limit_of(name, now),
        "wanted": sign.wanted,
        "shown": sign.shown,
        "done": sign.done,
        "asked_at": sign.asked_at,
        "shown_at": sign.shown_at,
        "done_at": sign.done_at,
        "problem": sign.problem,
        "heard": dict(office.heard.get(name, {})),
    }


def areas(office: Office, at: int) -> list[dict[str, Any]]:
    return [area(office, name, at) for name in office.config.network.areas]


def area(office: Office, name: str, at: int) -> dict[str, Any]:
    """What holds there."""
    limit = office.control.limits.in_force(name, at)
    value, source = (None, "") if limit is None else (limit.value, limit.source)
    change, title = office.control.limits.next_change(name, at), office.config.network.areas[name].title
    return {"name": name, "title": title, "limit": value, "source": source, "next_change": change}


def rule(one: Rule) -> dict[str, Any]:
    return {**one._asdict(), "hours": None if one.hours is None else str(one.hours)}


def sighting(one: Sighting) -> dict[str, Any]:
    return _placed(one)


def evidence(one: Any) -> dict[str, Any]:
    return _placed(one)


def _placed(one: Any) -> dict[str, Any]:
    made: dict[str, Any] = one._asdict()
    lat, lon = made.pop("place")
    return {**made, "lat": lat / UNIT, "lon": lon / UNIT}


def case(one: Case) -> dict[str, Any]:
    """`next` is what it may become."""
    return {**flat(one), "steps": [step._asdict() for step in one.steps], "next": AFTER[one.state]}


def event(one: Path) -> dict[str, Any]:
    """In a list: without its hops."""
    made = one._asdict()
    hops = made.pop("hops")
    found: dict[str, Any] = plain({**made, "time": hops[0].time, "received": hops[-1].time})
    return found


def path(office: Office, one: Path) -> dict[str, Any]:
    """`filter` is what let it leave the roadside; None where the limit was another one in the meantime."""
    rate = one.params.get("rate")
    limit = office.control.limit_of(one.monitor, one.hops[0].time) if one.monitor in office.signs.signs else None
    least = None if limit is None else office.config.settings.tariff.least(limit)
    passed = one.subject == "Speed" and isinstance(rate, float) and least is not None and rate >= least
    passed_by = filter_of(least) if passed and least is not None else None
    found: dict[str, Any] = plain(
        {**one._asdict(), "hops": [hop._asdict() for hop in one.hops], "filter": passed_by}
    )  # fmt: skip
    return found


def overlay(samples: Iterable[Sample]) -> list[dict[str, Any]]:
    return [one._asdict() for one in samples]
