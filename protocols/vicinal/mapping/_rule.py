"""What becomes of the events of one subject on their way to the other side: one Way for each direction.

A name is that of a parameter, or `$` and that of an attribute. On its way each is

    moved      to its name there, perhaps converted            one name there has one origin
    dropped
    cut up     one text into several, or several joined into one
    refused    it would get the name of another there, or be taken for one: nobody guesses which is meant
    passed     by itself, where nothing is said of it (automatic mapping: seed 001, 5.4.1)

and what is added has the same value in every event.
"""

from .._compat import Ordered
from ..errors import LocalProtocolError
from ..event import Event
from ._convert import Conversion, Unmappable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    Move: TypeAlias = "tuple[str, Conversion | None]"

__all__ = ["Cut", "Rule", "Way"]


class Cut:
    """One text of several parts, `by` between them. `types` are those of the parts where they stand alone."""

    __slots__ = ("by", "names", "types", "whole")

    def __init__(self, whole: str, names: "tuple[str, ...]", by: str, types: "tuple[str, ...]") -> None:
        self.whole = whole
        self.names = names
        self.by = by
        self.types = types

    def join(self, values: "list[Any]") -> str:
        texts = []
        for name, kind, value in zip(self.names, self.types, values):
            text = _apply(Conversion(kind, "str"), name, value)
            if self.by in text:
                raise Unmappable(f"{name!r} is {text!r}, which has {self.by!r} in it: it could not be cut up again")
            texts.append(text)
        return self.by.join(texts)

    def split(self, text: "Any") -> "list[Any]":
        texts = text.split(self.by) if type(text) is str else []
        if len(texts) != len(self.names):
            raise Unmappable(f"{self.whole!r} is {text!r}, want {self.by.join(self.names)}")
        return [_apply(Conversion("str", kind), self.whole, part) for kind, part in zip(self.types, texts)]


class Way:
    """One direction of a rule. Of `splits` the whole is at the source, of `joins` the parts are."""

    __slots__ = ("added", "dropped", "joins", "moves", "origins", "refused", "source", "splits", "target")

    def __init__(
        self,
        source: str,
        target: str,
        moves: "dict[str, Move]",
        dropped: "list[str]",
        added: "dict[str, Any]",
        joins: "list[Cut]",
        splits: "list[Cut]",
    ) -> None:
        self.source = source
        self.target = target
        self.moves = moves
        self.added = added
        self.joins = joins
        self.splits = splits
        self.origins: dict[str, tuple[str, Conversion | None]] = {}
        for name, move in moves.items():
            self.origins[move[0]] = (name, move[1])
        taken = list(self.origins) + list(added) + [cut.whole for cut in joins]
        for cut in splits:
            taken += list(cut.names)
        consumed = list(moves) + [cut.whole for cut in splits]
        for cut in joins:
            consumed += list(cut.names)
        self.dropped = set([name for name in dropped if name not in consumed])
        self.refused = set([name for name in taken if name not in consumed and name not in self.dropped])

    def apply(self, event: Event) -> Event:
        params: dict[str, Any] = Ordered()
        attrs: dict[str, Any] = Ordered()
        cut: dict[str, Any] = {}
        for name, value in event.params.items():
            if name.startswith("$"):
                params[name] = value  # of such a parameter no rule can speak
            else:
                self._one(name, value, params, attrs, cut)
        for name, value in event.attrs.items():
            self._one("$" + name, value, params, attrs, cut)
        if cut:
            self._cut(cut, params, attrs)
        for name, value in self.added.items():
            _put(name, value, params, attrs)
        try:
            return Event(self.target, params, attrs, event.producer, event.seq)
        except LocalProtocolError as error:
            raise Unmappable(f"{self.source!r} is no event as {self.target!r}: {error}")

    def _one(
        self, name: str, value: "Any", params: "dict[str, Any]", attrs: "dict[str, Any]", cut: "dict[str, Any]"
    ) -> None:
        move = self.moves.get(name)
        if move is not None:
            target, conversion = move
            _put(target, value if conversion is None else _apply(conversion, name, value), params, attrs)
        elif name in self.dropped:
            return
        elif name in self.refused:
            raise Unmappable(
                f"{name!r} of {self.source!r} cannot pass: of {self.target!r} another has that name. Rename or drop it"
            )
        elif self._is_cut(name):
            cut[name] = value
        else:
            _put(name, value, params, attrs)

    def _is_cut(self, name: str) -> bool:
        for one in self.joins:
            if name in one.names:
                return True
        return any([name == one.whole for one in self.splits])

    def _cut(self, found: "dict[str, Any]", params: "dict[str, Any]", attrs: "dict[str, Any]") -> None:
        for one in self.splits:
            if one.whole in found:
                for name, value in zip(one.names, one.split(found[one.whole])):
                    _put(name, value, params, attrs)
        for one in self.joins:
            there = [name for name in one.names if name in found]
            if there and len(there) < len(one.names):
                missing = [name for name in one.names if name not in found][0]
                raise Unmappable(
                    f"{self.source!r} has {there[0]!r} and no {missing!r}: they are joined to {one.whole!r}"
                )
            if there:
                _put(one.whole, one.join([found[name] for name in one.names]), params, attrs)


def _put(name: str, value: "Any", params: "dict[str, Any]", attrs: "dict[str, Any]") -> None:
    if name.startswith("$"):
        attrs[name[1:]] = value
    else:
        params[name] = value


def _apply(conversion: Conversion, name: str, value: "Any") -> "Any":
    try:
        return conversion.apply(value)
    except Unmappable as error:
        raise Unmappable(f"{name!r} {error}")


class Rule:
    """`here` and `there` are the subjects; of a rule that goes one way only the other Way is None."""

    __slots__ = ("here", "inward", "losses", "outward", "there")

    def __init__(self, here: str, there: str, outward: "Way | None", inward: "Way | None", losses: "list[str]") -> None:
        self.here = here
        self.there = there
        self.outward = outward
        self.inward = inward
        self.losses = losses
        """what an event that goes there and back has no longer, for people"""
