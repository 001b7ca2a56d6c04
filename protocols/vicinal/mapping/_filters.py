"""A filter for the other side: what is true of an event after its way must be asked of the event before it.

NOT is pushed to the leaves first, so that below only truth counts: where a leaf is replaced by one that is true more
often, the whole is true more often, never less. For each rule the filter is asked of that rule's events, whose
subject is known; what no rule speaks of passes by itself, and so does the filter.
"""

from .. import limits
from ..errors import LocalProtocolError
from ..event import Event
from ..filter import Filter
from ..filter._ast import (
    ATTRIBUTE,
    PARAM,
    SUBJECT,
    And,
    Compare,
    Constant,
    In,
    IsNull,
    Like,
    Name,
    Node,
    Not,
    Or,
    Within,
)
from ..filter._match import compile_node
from ..filter._normal import FALSE, TRUE, join, nnf
from ..filter._parser import FLIP
from ..filter._simplify import simplify, size
from ..filter._text import name_text, text_of
from ..filter.translate import Translation
from ._preimage import present, through
from ._rule import Way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Mapped", "assemble", "pull"]

_SUBJECT = Name(SUBJECT, "subject")
# What simplifying costs grows with the square of it.
_MAX_TIDY = 24
# Where a name's value comes from.
_CONSTANT, _ABSENT, _MOVED, _CUT = 0, 1, 2, 3


class Mapped(Translation):
    """The `filter` for the other side. `refusal` says why nothing there can ever match, "" if something can."""

    __slots__ = ("filter", "refusal")

    def __init__(self, filter: Filter, reasons: "list[str]", refusal: str) -> None:
        super().__init__(filter.text, reasons)
        self.filter = filter
        self.refusal = refusal


def pull(node: Node, way: Way, reasons: "list[str]", notes: "list[str]") -> Node:
    """Of a filter in normal form, the condition on events before `way`. `notes` tell what does not pass."""
    return _Pull(way, reasons, notes).node(node)


class _Pull:
    def __init__(self, way: Way, reasons: "list[str]", notes: "list[str]") -> None:
        self.way = way
        self.reasons = reasons
        self.notes = notes

    def wider(self, name: Name, why: str) -> None:
        reason = f"{name_text(name)} of {self.way.target!r} {why}"
        if reason not in self.reasons:
            self.reasons.append(reason)

    def node(self, node: "Any") -> Node:
        kind = type(node)
        if kind is And or kind is Or:
            return join(kind, [self.node(term) for term in node.terms])
        if kind is Constant:
            return node  # type: ignore[no-any-return]
        return self.literal(node)

    def literal(self, literal: "Any") -> Node:
        inner: Any = literal.term if type(literal) is Not else literal
        if type(inner) is Within:
            return self.within(literal, inner)
        if type(inner) is Compare and type(inner.value) is Name:
            return self.relation(inner)
        kind, found, conversion = self.origin(inner.name)
        if kind == _CONSTANT:
            return _of_constant(literal, inner.name, found)
        if kind == _ABSENT:
            return TRUE if inner is literal and type(inner) is IsNull else self.never(inner.name)
        if kind == _MOVED and conversion is None:
            return _renamed(literal, found)
        if kind == _MOVED:
            node, exact = through(conversion, literal, found)
            if not exact:
                self.wider(
                    inner.name,
                    f"is {conversion.target} and was {conversion.source}: the condition is no longer the same",
                )
            return node
        if type(inner) is IsNull:
            return IsNull(found[0]) if inner is literal else present(found[0])
        self.wider(inner.name, "is joined or cut up: only that it is there can be asked")
        return join(And, [present(name) for name in found])

    def never(self, name: Name) -> Node:
        note = f"{name_text(name)} of {self.way.target!r} does not pass"
        if note not in self.notes:
            self.notes.append(note)
        return FALSE

    def relation(self, node: Compare) -> Node:
        left, right = self.origin(node.name), self.origin(node.value)
        for side, name in ((left, node.name), (right, node.value)):
            if side[0] == _ABSENT:
                return self.never(name)
        if right[0] == _CONSTANT:
            return self.with_constant(node.op, node.name, right[1])
        if left[0] == _CONSTANT:
            return self.with_constant(FLIP[node.op], node.value, left[1])
        if left[0] == right[0] == _MOVED and left[2] is None and right[2] is None:
            return Compare(node.op, left[1], right[1])
        self.wider(node.name, f"is compared with {name_text(node.value)}, and one of the two is converted")
        found: list[Name] = []
        for side in (left, right):
            found += side[1] if side[0] == _CUT else [side[1]]
        return join(And, [present(name) for name in found])

    def with_constant(self, op: str, name: Name, value: "Any") -> Node:
        if type(value) not in (str, int, float, bool, bytes):
            return FALSE  # an area compares with nothing
        return self.literal(Compare(op, name, value))

    def within(self, literal: Node, inner: Within) -> Node:
        from ..filter._within import LAT, LON, place_literals

        kept = True
        for name in (LAT, LON):
            kind, found, conversion = self.origin(name)
            kept = kept and kind == _MOVED and found == name and conversion is None
        if kept:
            return literal
        self.wider(LAT, "is another there: within is asked as a box, or not at all")
        return join(And, [self.literal(part) for part in place_literals(inner, inner is not literal)])

    def origin(self, name: Name) -> "tuple[int, Any, Any]":
        """A constant's value; nothing; a Name, and the conversion of its value; or the Names that it is joined of, or
        cut out of."""
        way = self.way
        if name.kind == SUBJECT:
            return _CONSTANT, way.target, None
        key = "$" + name.ident if name.kind == ATTRIBUTE else name.ident
        if name.kind == PARAM and key.startswith("$"):
            return _MOVED, name, None  # a parameter that rules cannot name
        if key in way.added:
            return _CONSTANT, way.added[key], None
        if key in way.origins:
            source, conversion = way.origins[key]
            return _MOVED, _name(source), conversion
        for cut in way.joins:
            if key == cut.whole:
                return _CUT, [_name(part) for part in cut.names], None
        for cut in way.splits:
            if key in cut.names:
                return _CUT, [_name(cut.whole)], None
        if key in way.moves or key in way.dropped or key in way.refused or way._is_cut(key):
            return _ABSENT, None, None
        return _MOVED, name, None


def _name(key: str) -> Name:
    return Name(ATTRIBUTE, key[1:]) if key.startswith("$") else Name(PARAM, key)


def _of_constant(literal: "Any", name: Name, value: "Any") -> Node:
    if name.kind == SUBJECT:
        event = Event(value)
    elif name.kind == ATTRIBUTE:
        event = Event("constant", (), {name.ident: value})
    else:
        event = Event("constant", {name.ident: value})
    return TRUE if compile_node(literal)(event) is True else FALSE


def _renamed(literal: "Any", name: Name) -> Node:
    kind = type(literal)
    if kind is Not:
        return Not(_renamed(literal.term, name))
    if kind is Compare:
        return Compare(literal.op, name, literal.value)
    if kind is In:
        return In(name, literal.values)
    return IsNull(name) if kind is IsNull else Like(name, literal.pattern, literal.escape)


def assemble(
    condition: Filter, ways: "list[Way]", closed: "list[str]", automatic: bool, blocked: "dict[str, str]"
) -> Mapped:
    """`closed` are the subjects there that do not pass by themselves; `blocked` says of subjects here why none of them
    ever comes."""
    base = nnf(condition.node)
    reasons: list[str] = []
    notes: list[str] = []
    groups: list[tuple[Node, list[str]]] = []
    # Those that the filter speaks of: of the others nothing needs to be said.
    changed = [subject for subject in closed if pull(base, _unchanged(subject), [], []) != FALSE]
    for way in ways:
        found = pull(base, way, reasons, notes)
        if way.source == way.target and automatic and found == pull(base, _unchanged(way.target), [], []):
            # What passes by itself says it already.
            changed = [subject for subject in changed if subject != way.source]
            continue
        if found == FALSE:
            continue
        for other, subjects in groups:
            if other == found:
                subjects.append(way.source)
                break
        else:
            groups.append((found, [way.source]))
    few = len(changed) <= limits.MAX_DNF_TERMS
    rest = _tidy(join(And, [base, _others(changed, automatic)])) if few or not automatic else base
    made = None
    if sum([size(node) + len(subjects) for node, subjects in groups]) <= limits.MAX_FILTER_NODES:
        made = _filter(join(Or, [_tidy(join(And, [_one_of(subjects), node])) for node, subjects in groups] + [rest]))
    if made is None or not few:
        reasons.append(f"it would be past the limits of a filter ({limits.MAX_FILTER_NODES} conditions)")
    if made is None:
        subjects = [subject for _, some in groups for subject in some]
        made = _filter(join(Or, ([_one_of(subjects)] if subjects else []) + [rest])) or Filter("TRUE")
    refusal = ""
    if made.node == FALSE:
        reasons = []
        if _tidy(base) == FALSE:
            notes = ["no event meets the condition"]
        for subject, why in sorted(blocked.items()):
            if pull(base, _unchanged(subject), [], []) != FALSE:
                notes.append(why)
        refusal = "; ".join(notes) or "no subject that passes meets the condition"
    return Mapped(made, reasons, refusal)


def _tidy(node: Node) -> Node:
    """Shorter where that is cheap: a subscription may not wait for seconds."""
    return simplify(node) if size(node) <= _MAX_TIDY else node


def _unchanged(subject: str) -> Way:
    return Way(subject, subject, {}, [], {}, [], [])


def _others(subjects: "list[str]", automatic: bool) -> Node:
    """What passes without a rule. The federation's own always does."""
    if not automatic:
        return Like(_SUBJECT, "FES!_%", "!")
    return Not(_one_of(subjects, True)) if subjects else TRUE


def _one_of(subjects: "list[str]", always_in: bool = False) -> Node:
    if len(subjects) == 1 and not always_in:
        return Compare("=", _SUBJECT, subjects[0])
    return In(_SUBJECT, tuple(subjects))


def _filter(node: Node) -> "Filter | None":
    """None if nobody could read it again."""
    try:
        made = Filter(text_of(node))
    except LocalProtocolError:
        return None
    # Not what the text reads as: a device's decimals may be off by a bit.
    made.node = node
    made.test = compile_node(node)
    return made
