"""Many filters against one event, by counting (Siena Fast Forwarding; DESIGN 3).

Every filter is a disjunction of terms, every term a conjunction of constraints. Filed under each place (a parameter, an
attribute, the subject) are the constraints on it: equalities in a dict, orders as sorted lists, prefixes by length. An
event's values find the constraints they satisfy, each adds one to the count of its term, and a term whose count is
its number of constraints matches. The cost follows the satisfied constraints, not the stored ones.

One constraint does not even count: a term with an equality (`subject = 'Speed'`) is kept in a bucket of that value,
and events with another value never meet the bucket.

    index.add("alice", Filter("subject = 'Speed' AND rate > 30"))
    index.match(event)  ->  ["alice"]
"""

from ..errors import LocalProtocolError
from . import Filter
from ._ast import And
from ._bucket import Bucket, Term, value_key
from ._constraints import constraints_of
from ._match import compile_node
from ._normal import dnf, join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..event import Event
    from ._match import Test

__all__ = ["Index"]

# An IN of so many values is filed as so many equalities; a longer one is counted.
_MAX_EQUALITIES = 16


class Index:
    """Filters under keys of the caller's choice. Matches exactly the filters that match one by one."""

    def __init__(self) -> None:
        self._terms: dict[Any, list[Term]] = {}
        self._rest = Bucket()
        # place -> value -> bucket, the places of one event's parts apart so that none need be put together
        self._by: tuple[Any, Any, Any] = ({}, {}, {})

    def __len__(self) -> int:
        return len(self._terms)

    def __contains__(self, key: object) -> bool:
        return key in self._terms

    def add(self, key: "Any", condition: Filter) -> None:
        if key in self._terms:
            raise LocalProtocolError(f"the index holds a filter under {key!r} already")
        terms, exact = dnf(condition.node)
        found = []
        for literals in terms:
            constraints, residue = constraints_of(literals)
            whole: Test = condition.test
            test: Test | None = whole
            if exact:
                test = compile_node(join(And, residue)) if residue else None
                whole = whole if len(terms) == 1 else compile_node(join(And, literals))
            term = Term(key, constraints, whole, test, len(terms) > 1)
            self._file(term)
            found.append(term)
        self._terms[key] = found

    def remove(self, key: "Any") -> None:
        if key not in self._terms:
            raise LocalProtocolError(f"the index holds no filter under {key!r}")
        for term in self._terms.pop(key):
            for bucket, number, place, value in term.filed:
                bucket.remove(number)
                if place is not None and not len(bucket):
                    buckets = self._by[place[0]][place[1]]
                    del buckets[value]
                    if not buckets:
                        del self._by[place[0]][place[1]]

    def match(self, event: "Event") -> "list[Any]":
        """The keys of the filters that match, each once, in no particular order."""
        found: list[Any] = []
        shared: dict[Any, None] = {}
        if len(self._rest):
            self._rest.match(event, found, shared)
        params, attrs, subjects = self._by
        if subjects:  # the one place of its kind
            bucket = subjects["subject"].get(event.subject)
            if bucket is not None:
                bucket.match(event, found, shared)
        for buckets, values in ((params, event.params), (attrs, event.attrs)):
            if buckets:
                for name, value in values.items():
                    if name in buckets:
                        bucket = buckets[name].get(value_key(value))
                        if bucket is not None:
                            bucket.match(event, found, shared)
        if shared:
            found.extend(shared)
        return found

    def _file(self, term: Term) -> None:
        """In the bucket of its rarest equality, or with the rest."""
        best: Any = None
        least = 0
        for constraint in term.constraints:
            place, op, value = constraint
            if op == "=" or (op == "in" and len(value) <= _MAX_EQUALITIES):
                values = {value_key(each) for each in ((value,) if op == "=" else value)}
                buckets = self._by[place[0]].get(place[1], {})
                size = sum([len(buckets[each]) for each in values if each in buckets])
                if best is None or size < least:
                    best, least = (constraint, values), size
        if best is None:
            term.filed.append((self._rest, self._rest.add(term, term.constraints), None, None))
            return
        (place, _, _), values = best
        rest = [constraint for constraint in term.constraints if constraint is not best[0]]
        for value in values:
            bucket = self._by[place[0]].setdefault(place[1], {}).setdefault(value, Bucket())
            term.filed.append((bucket, bucket.add(term, rest), place, value))
