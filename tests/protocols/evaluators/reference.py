"""A filter evaluated the slow and obvious way (DESIGN 3), to be compared with the matcher.

    value     a missing name is unknown; what is no string, number, boolean or bytes compares with nothing
    numbers   as fractions, so that nothing is rounded; infinities beside them
    LIKE      as a regular expression
    within    by the geodesic on WGS 84; too close to the edge to tell is an answer of its own
    logic     Kleene's: AND is the minimum of False < unknown < True, OR the maximum

Nothing of the matcher is used but the tree that the parser made.
"""

import re
from fractions import Fraction
from typing import Any

from geographiclib.geodesic import Geodesic

from vicinal.event import Event
from vicinal.filter import _ast as ast

# Ours may be half a metre off (spec: distance), so that nearer to the edge both answers are right.
EDGE_METRES = 0.6

_RANK = {False: 0, None: 1, True: 2}
_TRUTH = {0: False, 1: None, 2: True}


class TooClose(Exception):
    """A place on the edge of a circle."""


def evaluate(node: ast.Node, event: Event) -> bool | None:
    if isinstance(node, ast.Or):
        return _TRUTH[max(_RANK[evaluate(term, event)] for term in node.terms)]
    if isinstance(node, ast.And):
        return _TRUTH[min(_RANK[evaluate(term, event)] for term in node.terms)]
    if isinstance(node, ast.Not):
        return _TRUTH[2 - _RANK[evaluate(node.term, event)]]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Within):
        return _within(node, event)
    if isinstance(node, ast.IsNull):
        return value_of(node.name, event) is None
    if isinstance(node, ast.Like):
        text = value_of(node.name, event)
        return like(node.pattern, node.escape, text) if isinstance(text, str) else None
    if isinstance(node, ast.In):
        ranks = [_RANK[compare("=", value_of(node.name, event), value)] for value in node.values]
        return _TRUTH[max(ranks)]
    assert isinstance(node, ast.Compare)
    right = value_of(node.value, event) if isinstance(node.value, ast.Name) else node.value
    return compare(node.op, value_of(node.name, event), right)


def value_of(name: ast.Name, event: Event) -> Any:
    if name.kind == ast.SUBJECT:
        return event.subject
    return (event.attrs if name.kind == ast.ATTRIBUTE else event.params).get(name.ident)


def compare(op: str, left: Any, right: Any) -> bool | None:
    a, b = _key(left), _key(right)
    if a is None or b is None or a[0] != b[0]:
        return None
    if op == "=":
        return bool(a == b)
    if op == "<>":
        return bool(a != b)
    if a[0] in ("boolean", "bytes"):
        return None
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])


def _key(value: Any) -> tuple[Any, ...] | None:
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int):
        return ("number", 0, Fraction(value))
    if isinstance(value, float):
        if value != value:
            return None
        if value in (float("inf"), float("-inf")):
            return ("number", 1 if value > 0 else -1, Fraction(0))
        return ("number", 0, Fraction(value))
    if isinstance(value, str):
        return ("string", [ord(char) for char in value])
    if isinstance(value, bytes):
        return ("bytes", value)
    return None


def like(pattern: str, escape: str | None, text: str) -> bool:
    regex = ""
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            regex += re.escape(next(chars))
        elif char == "%":
            regex += ".*"
        elif char == "_":
            regex += "."
        else:
            regex += re.escape(char)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _within(node: ast.Within, event: Event) -> bool | None:
    lat, lon = event.params.get("lat"), event.params.get("lon")
    # Positions are integers in events (DESIGN 2).
    if type(lat) is not int or type(lon) is not int:
        return None
    if abs(lat) > 900000000 or abs(lon) > 1800000000:
        raise TooClose("no place on the Earth")
    metres = Geodesic.WGS84.Inverse(node.lat / 1e7, node.lon / 1e7, lat / 1e7, lon / 1e7, Geodesic.DISTANCE)["s12"]
    if abs(metres - node.metres) < EDGE_METRES:
        raise TooClose(f"{metres} of {node.metres} m")
    return bool(metres < node.metres)
