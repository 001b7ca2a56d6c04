"""Terms that share an equality, counted; see index.py."""

from .._compat import MICROPYTHON
from . import _postings
from ._match import kind_of

_postings_cpython: "Any" = None
if MICROPYTHON:
    from ._bisect import bisect_left, bisect_right
else:
    from ._intervals_cpython import Intervals, bisect_left, bisect_right  # type: ignore[assignment]

    try:
        from . import _postings_cpython
    except ImportError:  # numpy is not installed: the same, slower
        pass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..event import Event
    from ._constraints import Constraint
    from ._match import Test

# So few terms are faster evaluated one by one than counted, and so many faster counted by numpy.
_FEW = 8
_MANY = 1000


class Term:
    """A conjunction of one filter. `whole` tests all of it, `test` what its constraints do not say; `shared` when the
    filter has other terms too; `filed` says where the index put it."""

    __slots__ = ("constraints", "filed", "key", "shared", "test", "whole")

    def __init__(
        self, key: "Any", constraints: "list[Constraint]", whole: "Test", test: "Test | None", shared: bool
    ) -> None:
        self.key = key
        self.constraints = constraints
        self.whole = whole
        self.test = test
        self.shared = shared
        self.filed: list[Any] = []


class Bucket:
    """Gives each term a number. Up to _FEW terms it evaluates them, past that it counts, and never goes back."""

    __slots__ = ("_always", "_constraints", "_free", "_keys", "_needs", "_places", "_postings", "_special", "_terms")

    def __init__(self) -> None:
        self._terms: list[Term | None] = []
        # A term that its count decides alone is reported by its key, without looking at the term.
        self._keys: list[Any] = []
        self._special: set[int] = set()
        self._constraints: list[list[Constraint]] = []
        self._free: list[int] = []
        self._always: dict[int, Term] = {}
        self._postings: Any = None
        self._needs: Any = None
        self._places: Any = None

    def __len__(self) -> int:
        return len(self._terms) - len(self._free)

    def add(self, term: Term, constraints: "list[Constraint]") -> int:
        """`constraints` are those that having come to this bucket does not already prove."""
        if self._free:
            number = self._free.pop()
            self._terms[number] = term
            self._keys[number] = term.key
            self._constraints[number] = constraints
        else:
            number = len(self._terms)
            self._terms.append(term)
            self._keys.append(term.key)
            self._constraints.append(constraints)
        if term.shared or term.test is not None:
            self._special.add(number)
        if len(self) > _MANY and self._postings is not _postings_cpython and _postings_cpython is not None:
            self._count_all(_postings_cpython)
        elif self._places is not None:
            self._count(number)
        elif len(self) > _FEW:
            self._count_all(_postings)
        return number

    def _count_all(self, postings: "Any") -> None:
        self._postings = postings
        self._needs = postings.Needs()
        self._places = ({}, {}, {})
        for number, term in enumerate(self._terms):
            self._needs.set(number, 0)
            if term is not None:
                self._count(number)

    def remove(self, number: int) -> None:
        if self._places is not None:
            if number in self._always:
                del self._always[number]
            for place, op, value in self._constraints[number]:
                places = self._places[place[0]]
                places[place[1]].remove(op, value, number)
                if places[place[1]].empty():
                    del places[place[1]]
            self._needs.set(number, 0)
        self._special.discard(number)
        self._terms[number] = self._keys[number] = None
        self._free.append(number)

    def _count(self, number: int) -> None:
        constraints = self._constraints[number]
        self._needs.set(number, len(constraints))
        if not constraints:
            self._always[number] = self._terms[number]  # type: ignore[assignment]
        for place, op, value in constraints:
            places = self._places[place[0]]
            if place[1] not in places:
                places[place[1]] = Place(self._postings)
            places[place[1]].add(op, value, number)

    def match(self, event: "Event", found: "list[Any]", shared: "dict[Any, None]") -> None:
        """Adds keys to `found`, those of filters with several terms to `shared`."""
        if self._places is None:
            for term in self._terms:
                if term is not None and term.whole(event) is True:
                    if term.shared:
                        shared[term.key] = None
                    else:
                        found.append(term.key)
            return
        matched: list[int] = list(self._always) if self._always else []
        hits: list[Any] = []
        params, attrs, subjects = self._places
        if subjects:
            subjects["subject"].collect(event.subject, hits)
        for places, values in ((params, event.params), (attrs, event.attrs)):
            if places:
                for name, value in values.items():
                    if name in places:
                        places[name].collect(value, hits)
        if hits:
            matched += self._needs.met_by(hits)
        if self._special:
            matched = self._without_special(matched, event, shared, found)
        keys = self._keys
        found.extend([keys[number] for number in matched])

    def _without_special(
        self, matched: "list[int]", event: "Event", shared: "dict[Any, None]", found: "list[Any]"
    ) -> "list[int]":
        """Settles the terms that their count does not decide alone; those that it does."""
        plain = []
        for number in matched:
            if number not in self._special:
                plain.append(number)
                continue
            term: Any = self._terms[number]
            if term.test is None or term.test(event) is True:
                if term.shared:
                    shared[term.key] = None
                else:
                    found.append(term.key)
        return plain


class Place:
    """The constraints on one name: those that a value satisfies are found by looking up and slicing."""

    __slots__ = ("_equal", "_exists", "_intervals", "_orders", "_postings", "_prefixes")

    def __init__(self, postings: "Any") -> None:
        self._postings = postings
        self._equal: dict[Any, Any] = {}
        self._exists: Any = postings.Numbers()
        # kind of value -> op -> sorted values, and the numbers of their terms in the same order
        self._orders: dict[str, dict[str, tuple[list[Any], Any]]] = {"n": {}, "s": {}}
        self._prefixes: dict[int, dict[str, Any]] = {}
        self._intervals: Any = None

    def _lists(self, op: str, value: "Any") -> "list[Any]":
        """The unsorted lists that a constraint stands in."""
        if op == "exists":
            return [self._exists]
        if op == "prefix":
            return [self._made(self._prefixes.setdefault(len(value), {}), value)]
        keys = {value_key(each) for each in ((value,) if op == "=" else value)}
        return [self._made(self._equal, key) for key in keys]

    def _made(self, table: "dict[Any, Any]", key: "Any") -> "Any":
        if key not in table:
            table[key] = self._postings.Numbers()
        return table[key]

    def add(self, op: str, value: "Any", number: int) -> None:
        if op in ("<", "<=", ">", ">="):
            orders = self._orders[kind_of(value)]  # type: ignore[index]
            if op not in orders:
                orders[op] = ([], self._postings.Numbers())
            keys, numbers = orders[op]
            at = bisect_right(keys, value)
            keys.insert(at, value)
            numbers.insert(at, number)
            return
        if op == "between":
            if self._intervals is None:
                self._intervals = Intervals(self._postings)
            self._intervals.add(value[0], value[1], number)
            return
        for numbers in self._lists(op, value):
            numbers.insert(len(numbers), number)

    def remove(self, op: str, value: "Any", number: int) -> None:
        if op in ("<", "<=", ">", ">="):
            keys, numbers = self._orders[kind_of(value)][op]  # type: ignore[index]
            keys.pop(numbers.remove(number, bisect_left(keys, value), bisect_right(keys, value)))
            return
        if op == "between":
            self._intervals.remove(value[0], value[1], number)
            return
        for numbers in self._lists(op, value):
            numbers.remove(number)
        # What is empty goes: the cost follows the filters stored, not all that ever were.
        if op == "prefix":
            _drop_empty(self._prefixes[len(value)])
            _drop_empty(self._prefixes)
        elif op != "exists":
            _drop_empty(self._equal)

    def empty(self) -> bool:
        ordered = any([any([keys for keys, _ in ops.values()]) for ops in self._orders.values()])
        return not (self._equal or self._prefixes or self._intervals or ordered or len(self._exists))

    def collect(self, value: "Any", hits: "list[Any]") -> None:
        """Appends the numbers of the satisfied constraints, in slices."""
        if len(self._exists):
            hits.append(self._exists.slice(0, len(self._exists)))
        kind = kind_of(value)
        if kind is None:
            return
        if self._equal:
            numbers = self._equal.get(value_key(value))
            if numbers is not None:
                hits.append(numbers.slice(0, len(numbers)))
        if kind in ("n", "s"):
            for op, (keys, numbers) in self._orders[kind].items():
                at = bisect_right(keys, value) if op in ("<", ">=") else bisect_left(keys, value)
                hits.append(numbers.slice(0, at) if op[0] == ">" else numbers.slice(at, len(keys)))
        if kind == "n" and self._intervals is not None:
            self._intervals.collect(value, hits)
        if kind == "s" and self._prefixes:
            for size, texts in self._prefixes.items():
                numbers = texts.get(value[:size])
                if numbers is not None:
                    hits.append(numbers.slice(0, len(numbers)))


def _drop_empty(table: "dict[Any, Any]") -> None:
    for key in [key for key, numbers in table.items() if not len(numbers)]:
        del table[key]


def value_key(value: "Any") -> "Any":
    """Equal exactly for values that compare as equal: TRUE is not 1, and 1.0 is."""
    kind = type(value)
    if kind is bool or kind is bytes:
        return (kind is bool, value)
    if MICROPYTHON and kind is float and value - value == 0 and value == int(value):
        return int(value)
    return value
