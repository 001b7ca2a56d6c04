"""What a filter's text means, as data.

    Constant  TRUE, FALSE, or unknown (None)
    Compare   name op value, name op name               op: = <> < <= > >=
    In        name IN (value, ...)
    Like      name LIKE pattern [ESCAPE escape]
    IsNull    name IS NULL
    Within    within(lat, lon, metres) of the event's place
    Not, And, Or

The parser has already rewritten what has another form: BETWEEN is two comparisons, a bare name is `name = TRUE`, a
literal stands on the right. Nodes are equal when they mean the same text; they are never changed.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARAM = 0
ATTRIBUTE = 1
SUBJECT = 2


class Node:
    fields: "tuple[str, ...]" = ()

    def __init__(self, *values: "Any") -> None:
        for field, value in zip(self.fields, values):
            setattr(self, field, value)

    def key(self) -> "tuple[Any, ...]":
        return tuple([typed(getattr(self, field)) for field in self.fields])

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.key()))

    def __repr__(self) -> str:
        return type(self).__name__ + repr(tuple([getattr(self, field) for field in self.fields]))


class Name(Node):
    fields = ("kind", "ident")
    kind: int
    ident: str


class Constant(Node):
    fields = ("value",)
    value: "bool | None"


class Compare(Node):
    fields = ("op", "name", "value")
    op: str
    name: Name
    value: "Any"


class In(Node):
    fields = ("name", "values")
    name: Name
    values: "tuple[Any, ...]"


class Like(Node):
    fields = ("name", "pattern", "escape")
    name: Name
    pattern: str
    escape: "str | None"


class IsNull(Node):
    fields = ("name",)
    name: Name


class Within(Node):
    fields = ("lat", "lon", "metres")
    lat: int
    lon: int
    metres: int


class Not(Node):
    fields = ("term",)
    term: Node


class And(Node):
    fields = ("terms",)
    terms: "tuple[Node, ...]"


class Or(And):
    pass


def typed(value: "Any") -> "Any":
    """A key under which 1 and 1.0 are the same value and TRUE is another."""
    kind = type(value)
    if kind is bool:
        return (value,)
    if kind is tuple:
        return tuple([typed(part) for part in value])
    if kind is float and value - value == 0 and value == int(value):
        return int(value)
    return value
