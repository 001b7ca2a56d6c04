"""Limits for Spark, in the form of the office of traffic control: what GET /api/limits answers.

    {"rules": [{"area": "old-town", "value": 20, "since": 0, "hours": "Mo-Fr 07:30-16:30", "source": "council",
                "until": null}, ...]}          or the list alone; only area and value must be given; times are ms

From a file, or from an office that runs (http://HOST:PORT). It may be read again at any time: nothing in it is ever
overwritten (limits.py), so what was set meanwhile is added to what is known.
"""

import json
import urllib.request
from pathlib import Path
from typing import Any

from vicinal.errors import VicinalError

from ...traffic.limits import Hours, Limits, Rule
from ...traffic.network import Network

__all__ = ["read_limits"]

_PATH = "/api/limits"
_PATIENCE_S = 10.0
MAX_BYTES = 16 << 20


def read_limits(network: Network, source: str | Path | None = None) -> Limits:
    """The network's own, and those of `source`."""
    limits = Limits(network.timezone)
    for area in network.areas.values():
        limits.add(Rule(area.name, area.limit, 0, source="network"))
    for at, one in enumerate([] if source is None else _rules(str(source))):
        try:
            rule = _rule(one)
            if rule.area not in network.areas:
                raise VicinalError(f"area {rule.area!r} is not known, want one of {', '.join(network.areas)}")
            limits.add(rule)
        except (KeyError, TypeError, AttributeError, VicinalError) as error:
            raise VicinalError(f"{source}: rule {at}: {_said(error)}") from error
    return limits


def _rule(one: dict[str, Any]) -> Rule:
    """What else is said of a rule is for others."""
    known = {name: one[name] for name in Rule._fields if one.get(name) is not None}
    for name, kind in (("area", str), ("value", int), ("since", int), ("until", int), ("source", str), ("hours", str)):
        if name in known and type(known[name]) is not kind:
            raise VicinalError(f"{name} is {known[name]!r}, want {kind.__name__}")
    if "hours" in known:
        known["hours"] = Hours.parse(known["hours"])
    return Rule(**{"area": one["area"], "value": one["value"], "since": 0, "source": "set", **known})


def _said(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]!r}"
    return str(error) if isinstance(error, VicinalError) else "want an object with area and value"


def _rules(source: str) -> list[Any]:
    try:
        found = json.loads(_text(source))
    except (OSError, ValueError) as error:
        raise VicinalError(f"{source}: {error}") from error
    if isinstance(found, dict):
        found = found.get("rules")
    if not isinstance(found, list):
        raise VicinalError(f"{source}: want rules as of {_PATH}: an object with a list of them, or the list")
    return found


def _text(source: str) -> str:
    if not source.startswith(("http://", "https://")):
        return Path(source).read_text(encoding="utf-8")
    address = source if source.endswith(_PATH) else source.rstrip("/") + _PATH
    with urllib.request.urlopen(address, timeout=_PATIENCE_S) as answer:
        found: bytes = answer.read(MAX_BYTES + 1)
    if len(found) > MAX_BYTES:
        raise OSError(f"its answer has more than {MAX_BYTES} bytes")
    return found.decode()
