"""Spark SQL conditions, for DataFrame.filter and for push-down.

The subject is the column `subject`, a parameter the column of its name, an attribute `$Priority` the column
`$Priority`. Columns have types. Give them as `schema` (name -> Spark type, attributes as "$Priority") and comparisons
of unlike types are FALSE, as they never match; without it each column is taken to be of the type the filter compares
it with. NaN, which here compares with nothing, is in Spark the largest number: it is asked about where the schema
names a float.

Names are case-sensitive here: set spark.sql.caseSensitive to true. Without it Spark takes `Rate` and `rate` for one.
"""

from .._ast import ATTRIBUTE, PARAM, SUBJECT, Compare, In, IsNull, Like, Name, Node, Not, Within
from .._like import segments
from .._match import kind_of
from . import Translation
from ._dialect import EXACT_DOUBLE, Dialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_INTEGERS = ("tinyint", "smallint", "int", "integer", "bigint", "long", "byte", "short")
_FLOATS = ("float", "double", "real")
_KINDS = {"string": "s", "boolean": "b", "binary": "x"}
_MISSING = "missing"


def to_spark(node: Node, schema: "Mapping[str, str] | None" = None) -> Translation:
    return _Spark(schema).translate(node)


class _Spark(Dialect):
    title = "Spark SQL"

    def __init__(self, schema: "Mapping[str, str] | None") -> None:
        super().__init__()
        self.schema = schema

    def name(self, name: Name) -> "str | None":
        if name.kind == PARAM and name.ident.lower() == "subject":
            return None
        return "`" + _column(name).replace("`", "``") + "`"

    def literal(self, literal: "Any") -> "str | None":
        inner: Any = literal.term if type(literal) is Not else literal
        if type(inner) is Within:
            return super().literal(literal)
        columns = [self._column(inner.name)]
        if type(inner) is Compare and type(inner.value) is Name:
            columns.append(self._column(inner.value))
        if _MISSING in columns:
            return self.true if type(literal) is IsNull else self.false
        kinds = [_kind(column) for column in columns]
        if type(inner) is IsNull or None in kinds:
            return super().literal(literal)
        if len(kinds) == 2:
            ordered = kinds[0] in ("n", "s") or inner.op in ("=", "<>")
            return super().literal(literal) if kinds[0] == kinds[1] and ordered else self.false
        return self._typed(literal, inner, kinds[0])

    def _column(self, name: Name) -> "str | None":
        """The type of a name's column; None if it is not known."""
        if name.kind == SUBJECT:
            return "string"
        if self.schema is None:
            return None
        return self.schema.get(_column(name), _MISSING).lower()

    def _typed(self, literal: "Any", inner: "Any", kind: "str | None") -> "str | None":
        if type(inner) is Like:
            return super().literal(literal) if kind == "s" else self.false
        if type(inner) is Compare:
            return super().literal(literal) if kind_of(inner.value) == kind else self.false
        same = tuple([value for value in inner.values if kind_of(value) == kind])
        if not same or (inner is not literal and len(same) < len(inner.values)):
            return self.false
        part = In(inner.name, same)
        return super().literal(part if inner is literal else Not(part))

    def compare(self, node: Compare, name: str) -> "str | None":
        column = self._column(node.name)
        if column in _INTEGERS and type(node.value) is int and abs(node.value) >= EXACT_DOUBLE:
            return (
                f"{name} {self.operators[node.op]} {node.value}"
                if node.value > -(1 << 63)
                else self._lowest(node, name)
            )
        text = super().compare(node, name)
        if column in _FLOATS and text is not None and node.op in ("<>", ">", ">="):
            return f"({text} AND NOT isnan({name}))"
        return text

    def _lowest(self, node: Compare, name: str) -> str:
        # -2^63 cannot be written as a literal: its digits alone are past the largest BIGINT.
        return f"{name} {self.operators[node.op]} (-9223372036854775807 - 1)"

    def orders(self, value: str) -> bool:
        return True  # by bytes of UTF-8, which is by code point

    def value(self, value: "Any") -> "str | None":
        kind = type(value)
        if kind is str:
            return quoted(value)
        if kind is bytes:
            return "X'" + "".join([f"{byte:02X}" for byte in value]) + "'"
        if kind is bool:
            return "TRUE" if value else "FALSE"
        # A decimal point alone would make it a DECIMAL.
        return repr(value) + ("D" if kind is float else "")

    def like(self, node: Like, name: str, negated: bool) -> "str | None":
        parts = ["".join([_like_char(char) for char in part]) for part in segments(node.pattern, node.escape)]
        return f"{name}{' NOT' if negated else ''} LIKE {quoted('%'.join(parts))}"


def _kind(column: "str | None") -> "str | None":
    if column is not None and (column in _INTEGERS + _FLOATS or column.startswith("decimal")):
        return "n"
    return _KINDS.get(column) if column is not None else None


def _column(name: Name) -> str:
    return "$" + name.ident if name.kind == ATTRIBUTE else name.ident


def _like_char(char: "str | None") -> str:
    if char is None:
        return "_"
    return "\\" + char if char in "\\%_" else char


def quoted(text: str) -> str:
    """A string literal. ${ would be taken for a variable."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{") + "'"
