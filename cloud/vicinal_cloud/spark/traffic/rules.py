"""Limits for Spark, in the form of the office of traffic control: what GET /api/limits answers.

    {"rules": [{"area": "old-town", "value": 20, "since": 0, "hours": "Mo-Fr 07:30-16:30", "source": "council",
                "until": null}, ...],          only area and value must be given; times are ms
     "shown": [{"monitor": "m1", "value": 20, "since": 1780000000000}, ...]}          or the list of rules alone

A limit that is lowered counts for fines from when a sign shows it (posted.py). Without `shown`, as where there is no
office, nothing is known of signs, and a limit counts from when it is set.

From a file, or from an office that runs (http://HOST:PORT). It may be read again at any time: nothing in it is ever
overwritten (limits.py), so what was set meanwhile is added to what is known.
"""

import json
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from vicinal.errors import VicinalError

from ...traffic.limits import Hours, Limits, Rule
from ...traffic.network import Network
from ...traffic.posted import Shown

__all__ = ["Known", "read_limits"]

_PATH = "/api/limits"
_PATIENCE_S = 10.0
MAX_BYTES = 16 << 20


class Known(NamedTuple):
    """What holds, and what signs say of it."""

    limits: Limits
    shown: tuple[Shown, ...] | None = None


def read_limits(network: Network, source: str | Path | None = None) -> Known:
    """The network's own, and those of `source`."""
    limits = Limits(network.timezone)
    for area in network.areas.values():
        limits.add(Rule(area.name, area.limit, 0, source="network"))
    rules, signs = ([], None) if source is None else _said_by(str(source))
    for at, one in enumerate(rules):
        with _named(f"{source}: rule {at}"):
            rule = _rule(one)
            if rule.area not in network.areas:
                raise VicinalError(f"area {rule.area!r} is not known, want one of {', '.join(network.areas)}")
            limits.add(rule)
    if signs is None:
        return Known(limits)
    shown = []
    for at, one in enumerate(signs):
        with _named(f"{source}: shown {at}"):
            shown.append(Shown(**_checked(one, Shown._fields, ("monitor", "value", "since"))))
    return Known(limits, tuple(shown))


@contextmanager
def _named(place: str) -> Iterator[None]:
    try:
        yield
    except VicinalError as error:
        raise VicinalError(f"{place}: {error}") from error


def _checked(one: Any, names: Iterable[str], needed: tuple[str, ...]) -> dict[str, Any]:
    """What is said by these names; what else is said is for others."""
    if not isinstance(one, dict):
        raise VicinalError(f"want an object with {', '.join(needed)}")
    found = {name: one[name] for name in names if one.get(name) is not None}
    for name in needed:
        if name not in found:
            raise VicinalError(f"it has no {name!r}")
    for name, value in found.items():
        kind = int if name in ("value", "since", "until") else str
        if type(value) is not kind:
            raise VicinalError(f"{name} is {value!r}, want {kind.__name__}")
    return found


def _rule(one: Any) -> Rule:
    found = _checked(one, Rule._fields, ("area", "value"))
    if "hours" in found:
        found["hours"] = Hours.parse(found["hours"])
    return Rule(**{"since": 0, "source": "set", **found})


def _said_by(source: str) -> tuple[list[Any], list[Any] | None]:
    """Rules, and what signs show."""
    try:
        found = json.loads(_text(source))
    except (OSError, ValueError) as error:
        raise VicinalError(f"{source}: {error}") from error
    rules, shown = (found.get("rules"), found.get("shown")) if isinstance(found, dict) else (found, None)
    if not isinstance(rules, list) or not isinstance(shown, list | None):
        raise VicinalError(f"{source}: want rules as of {_PATH}: an object with a list of them, or the list")
    return rules, shown


def _text(source: str) -> str:
    if not source.startswith(("http://", "https://")):
        return Path(source).read_text(encoding="utf-8")
    address = source if source.endswith(_PATH) else source.rstrip("/") + _PATH
    with urllib.request.urlopen(address, timeout=_PATIENCE_S) as answer:
        found: bytes = answer.read(MAX_BYTES + 1)
    if len(found) > MAX_BYTES:
        raise OSError(f"its answer has more than {MAX_BYTES} bytes")
    return found.decode()
