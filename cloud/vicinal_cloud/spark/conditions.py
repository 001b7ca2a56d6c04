"""Conditions over columns: which rows, and before that, which parts of a file need be read at all.

The filter language (vicinal.filter) on blocks (forms.py), and what Spark pushes down as conditions on columns. In a
block every name has one type and no row lacks it, so a comparison is one of arrays. Three-valued logic is kept as two
sets: where a condition may be true, and where it may be false. Where a comparison cannot be made on arrays both are
everything, and what is left is asked row by row: so that the answer is that of Filter.matches, always.

`may_match` does the same with the least and the greatest of each column, which Parquet keeps for every row group. It
says no only where no row matches.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.filter._ast import (
    ATTRIBUTE,
    SUBJECT,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Name,
    Node,
    Not,
    Or,
    Within,
)
from vicinal.filter._match import compile_node
from vicinal.filter._match_cpython import OPERATORS
from vicinal.filter._within import place_literals

from .forms import BOOL, BYTES, FLOAT, INT, TEXT, Block, Form, event_at

__all__ = ["Bound", "columns_of", "decided", "may_match", "may_select", "names_in", "select", "share_of"]

_ARROW_OPERATORS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_EXACT = 1 << 53
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1


class Bound(NamedTuple):
    """A condition on one column that Spark has pushed down, and asks again of what it gets. `op` as in the filter
    language, or "in" with a tuple."""

    column: str
    op: str
    value: Any

    def node(self) -> Node:
        name = Name(ATTRIBUTE, self.column[1:]) if self.column.startswith("$") else Name(0, self.column)
        if self.column == "subject":
            name = Name(SUBJECT, "subject")
        return In(name, self.value) if self.op == "in" else Compare(self.op, name, self.value)


class _Text(NamedTuple):
    """A column of one value: the subject."""

    value: str


# name in a filter -> (type, column); meta columns as `_offset`
Columns = Mapping[tuple[int, str], tuple[str, Any]]
_META = {"_offset": INT, "_received_ms": INT, "_producer": TEXT, "_seq": INT}


def columns_of(form: Form, arrays: Any, meta: Mapping[str, Any]) -> dict[tuple[int, str], tuple[str, Any]]:
    """`arrays` in the order of the form's columns; those that are not there (projected away) are None, and must not be
    asked about. `meta` are those with an underscore: only what is pushed down names them, no event does."""
    found: dict[tuple[int, str], tuple[str, Any]] = {}
    for (name, kind), array in zip(form.columns, arrays):
        found[(ATTRIBUTE, name[1:]) if name.startswith("$") else (0, name)] = (kind, array)
    # A parameter of an event may have such a name, and then is what a filter means; Spark's column is the other.
    for name, array in meta.items():
        found[(3, name)] = (_META[name], array)
    return found


def names_in(node: Node) -> set[str]:
    """The columns that must be read to know: attributes with `$`; not the subject."""
    if isinstance(node, And):
        return set().union(*[names_in(term) for term in node.terms])
    if isinstance(node, Not):
        return names_in(node.term)
    if isinstance(node, Within):
        return {"lat", "lon"}
    if isinstance(node, Constant):
        return set()
    names = [node.name]  # type: ignore[attr-defined]
    if isinstance(node, Compare) and type(node.value) is Name:
        names.append(node.value)
    return {"$" + name.ident if name.kind == ATTRIBUTE else name.ident for name in names if name.kind != SUBJECT}


def select(block: Block, condition: Filter | None, bounds: "tuple[Bound, ...]") -> Block:
    """The rows for which the condition is true and that no bound rules out."""
    meta = {
        "_offset": block.offset,
        "_received_ms": block.received,
        "_producer": block.producer,
        "_seq": block.seq,
    }
    columns = columns_of(block.form, block.columns, meta)
    asked = _Asked(block.form.subject, columns, len(block))
    for bound in bounds:
        true, _ = asked.ask(_meta_node(bound))
        block, asked = _narrowed(block, true, asked)
    if condition is not None and len(block):
        asked.exact = True
        true, _ = asked.ask(condition.node)
        exact = asked.exact
        block, asked = _narrowed(block, true, asked)
        if not exact and len(block):
            test = condition.matches
            mask = np.fromiter((test(event_at(block, row)) for row in range(len(block))), np.bool_, len(block))
            block = block.take(mask)
    return block


def may_select(block: Block, condition: Filter, bounds: "tuple[Bound, ...]") -> bool:
    """Whether `select` might find any, by what is in the block; False only where it finds none."""
    meta = {"_offset": block.offset, "_received_ms": block.received, "_producer": block.producer, "_seq": block.seq}
    asked = _Asked(block.form.subject, columns_of(block.form, block.columns, meta), len(block))
    true = _all([asked.ask(_meta_node(bound))[0] for bound in bounds] + [asked.ask(condition.node)[0]])
    return true if isinstance(true, bool) else bool(true.any())


def share_of(block: Block, node: Node) -> int:
    """How many rows a part of a condition may be true of."""
    asked = _Asked(block.form.subject, columns_of(block.form, block.columns, {}), len(block))
    true, _ = asked.ask(node)
    return (len(block) if true else 0) if isinstance(true, bool) else int(true.sum())


def _narrowed(block: Block, true: Any, asked: "_Asked") -> "tuple[Block, _Asked]":
    if true is True or true is False:
        if true:
            return block, asked
        true = np.zeros(len(block), np.bool_)
    if true.all():
        return block, asked
    block = block.take(true)
    meta = {"_offset": block.offset, "_received_ms": block.received, "_producer": block.producer, "_seq": block.seq}
    return block, _Asked(block.form.subject, columns_of(block.form, block.columns, meta), len(block))


def _meta_node(bound: Bound) -> Node:
    node = bound.node()
    if bound.column in _META:
        node.name = Name(3, bound.column)  # type: ignore[attr-defined]
    return node


def may_match(
    form: Form, ranges: Mapping[str, tuple[Any, Any]], condition: Filter | None, bounds: "tuple[Bound, ...]"
) -> bool:
    """False only where no row of a part matches. `ranges` are least and greatest by column; a name without one may have
    any value."""
    kinds = dict(form.columns)
    columns: dict[tuple[int, str], tuple[str, Any]] = {}
    for name, kind in kinds.items():
        columns[(ATTRIBUTE, name[1:]) if name.startswith("$") else (0, name)] = (kind, ranges.get(name))
    for name, kind in _META.items():
        columns[(3, name)] = (kind, ranges.get(name))
    asked = _Ranges(form.subject, columns, 0)
    nodes = [_meta_node(bound) for bound in bounds] + ([] if condition is None else [condition.node])
    return all(asked.ask(node)[0] for node in nodes)


def decided(form: Form, condition: Filter) -> bool | None:
    """True or False where a condition is that, or not true, of all events of a form; None where it depends."""
    if not may_match(form, {}, condition, ()):
        return False
    surely, _ = _Surely(form.subject, columns_of(form, [None] * len(form.columns), {}), 0).ask(condition.node)
    return True if surely else None


class _Asked:
    """(may be true, may be false) of a condition, each an array or a bool."""

    def __init__(self, subject: str, columns: Columns, count: int) -> None:
        self.subject = Event(subject)
        self.columns = columns
        self.count = count
        self.exact = True

    def ask(self, node: Node) -> tuple[Any, Any]:
        if isinstance(node, Or):
            pairs = [self.ask(term) for term in node.terms]
            return _any([true for true, _ in pairs]), _all([false for _, false in pairs])
        if isinstance(node, And):
            pairs = [self.ask(term) for term in node.terms]
            return _all([true for true, _ in pairs]), _any([false for _, false in pairs])
        if isinstance(node, Not):
            true, false = self.ask(node.term)
            return false, true
        if isinstance(node, Constant):
            return node.value is True, node.value is False
        if isinstance(node, Within):
            self.exact = False
            return _all([self.ask(term)[0] for term in place_literals(node)]), True
        return self._literal(node)

    def _literal(self, node: Any) -> tuple[Any, Any]:
        if node.name.kind == SUBJECT:
            if isinstance(node, Compare) and type(node.value) is Name:
                return self._unknown()
            found = compile_node(node)(self.subject)
            return found is True, found is False
        column = self.columns.get((node.name.kind, node.name.ident))
        if isinstance(node, IsNull):
            return column is None, column is not None
        if column is None:
            return False, False
        if isinstance(node, Compare) and type(node.value) is not Name:
            return self._compare(node.op, column, node.value)
        if isinstance(node, In):
            return self._in(column, node.values)
        return self._unknown()

    def _unknown(self) -> tuple[Any, Any]:
        self.exact = False
        return True, True

    def _in(self, column: tuple[str, Any], values: tuple[Any, ...]) -> tuple[Any, Any]:
        kinds = {_kind(value) for value in values}
        if _kind_of(column[0]) not in kinds:
            return False, False
        pairs = [self._compare("=", column, value) for value in values]
        # With values of several kinds a miss is unknown.
        return _any([true for true, _ in pairs]), _all([false for _, false in pairs]) if len(kinds) == 1 else False

    def _compare(self, op: str, column: tuple[str, Any], value: Any) -> tuple[Any, Any]:
        kind, array = column
        if _kind(value) != _kind_of(kind) or (kind in (BOOL, BYTES) and op not in ("=", "<>")):
            return False, False
        if kind in (TEXT, BYTES):
            import pyarrow.compute as pc  # a tenth of a second, in each of Spark's processes

            scalar = pa.scalar(value, array.type)
            true = np.asarray(pc.call_function(_ARROW_OPERATORS[op], [array, scalar]))
            return true, ~true
        if kind == INT and type(value) is float:
            whole = _whole(op, value)
            if isinstance(whole, bool):
                return whole, not whole
            op, value = whole
        if kind == FLOAT and type(value) is int and abs(value) > _EXACT:
            return self._unknown()
        true = OPERATORS[op](array, value)
        return true, ~true


class _Ranges(_Asked):
    """Of a part of a file: `columns` have least and greatest, or None."""

    def _compare(self, op: str, column: tuple[str, Any], value: Any) -> tuple[Any, Any]:
        kind, ends = column
        if _kind(value) != _kind_of(kind) or (kind in (BOOL, BYTES) and op not in ("=", "<>")):
            return False, False
        if ends is None:
            return True, True
        low, high = ends
        if op == "=":
            return low <= value <= high, not low == value == high
        if op == "<>":
            return not low == value == high, low <= value <= high
        if op in ("<", "<="):
            holds = OPERATORS[op]
            return holds(low, value), not holds(high, value)
        holds = OPERATORS[op]
        return holds(high, value), not holds(low, value)

    def _in(self, column: tuple[str, Any], values: tuple[Any, ...]) -> tuple[Any, Any]:
        if _kind_of(column[0]) not in {_kind(value) for value in values}:
            return False, False
        return any(self._compare("=", column, value)[0] for value in values), True


class _Surely(_Asked):
    """(surely true, surely false) of all events of a form, whatever their values."""

    def ask(self, node: Node) -> tuple[Any, Any]:
        return self._unknown() if isinstance(node, Within) else super().ask(node)

    def _unknown(self) -> tuple[Any, Any]:
        return False, False

    def _compare(self, op: str, column: tuple[str, Any], value: Any) -> tuple[Any, Any]:
        return self._unknown()

    def _in(self, column: tuple[str, Any], values: tuple[Any, ...]) -> tuple[Any, Any]:
        return self._unknown()


def _whole(op: str, value: float) -> "tuple[str, int] | bool":
    """A comparison of integers with a float, as one with an integer; or the answer for all of them."""
    if math.isinf(value) or not _INT_MIN <= value < float(1 << 63):
        if op in ("=", "<>"):
            return op == "<>"
        return (op in ("<", "<=")) == (value > 0)
    floor = math.floor(value)
    if floor == value:
        return op, floor
    if op in ("=", "<>"):
        return op == "<>"
    return ("<=", floor) if op in ("<", "<=") else (">", floor)


def _kind(value: Any) -> str:
    kind = type(value)
    return {int: "n", float: "n", str: "s", bool: "b", bytes: "x"}.get(kind, "?")


def _kind_of(kind: str) -> str:
    return {INT: "n", FLOAT: "n", TEXT: "s", BOOL: "b", BYTES: "x"}[kind]


def _all(found: list[Any]) -> Any:
    whole: Any = True
    for one in found:
        if one is False:
            return False
        whole = one if whole is True else whole if one is True else whole & one
    return whole


def _any(found: list[Any]) -> Any:
    whole: Any = False
    for one in found:
        if one is True:
            return True
        whole = one if whole is False else whole if one is False else whole | one
    return whole
