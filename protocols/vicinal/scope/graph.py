"""The scope graph: one directed acyclic graph for each dimension (seed 003, 3.4; seed 004, 3).

    dimension   geography, membership, network ...      none shares a scope with another
    scope       a name; the scopes it is directly a member of (its superscopes)
    interface   output: which events of the scope its superscopes may see
                input:  which events of its superscopes the scope may see     none given: none
    edge        a scope in one of its superscopes: interfaces of its own there, and a mapping
    component   a producer or consumer that is declared with the scopes: always a leaf

Bottom and top of the papers are not in the graph: they are the `rest` of a tag set (Tags) or of a component, and stand
for every dimension that it does not name. A client that is not declared is where its filters' tags say.

Mappings, policies and sessions are of one dimension (`advanced`; seed 004, 3.3): in a second one it would depend on
which of the two an event crosses first what the other makes of it.
"""

from .._compat import utf8_len
from ..errors import LimitError, LocalProtocolError
from ..limits import MAX_PRODUCER_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from typing import Any

    from ..event import Event
    from ..filter import Filter
    from ..filter.index import Index
    from .component import Component
    from .interface import Edge
    from .membership import Rule
    from .policy import Delivery
    from .publishing import Publishing

__all__ = ["MAX_LEVELS", "Scope", "ScopeGraph", "Tags"]

# Scopes within scopes: an event goes down by recursion, and nobody draws a graph that is deeper.
MAX_LEVELS = 32
# Pairs of scopes of which the ways between them are remembered, some 2 KB each.
_MAX_WAYS = 10000
# Interfaces that differ: so many are asked sooner than looked up.
_ONE_BY_ONE = 64
# What a scope lets go is published under its name, an "@", a "#" and 16 digits (siena/holding.py).
_MAX_HOLDING_NAME = MAX_PRODUCER_BYTES - 18
_NONE: "list[str]" = []


class Scope:
    """`edges` are the superscopes where it has other interfaces than `output` and `input`, or a mapping. What follows
    is of an advanced scope: see policy.py, publishing.py and session.py; membership.py is of any."""

    def __init__(
        self,
        name: str,
        dimension: str,
        supers: "Iterable[str]" = (),
        output: "Filter | None" = None,
        input: "Filter | None" = None,
        edges: "Iterable[Edge]" = (),
        delivery: "Delivery | None" = None,
        traverse: str = "broadcast",
        publishing: "Iterable[Publishing]" = (),
        session: bool = False,
        membership: "Rule | None" = None,
        holder: str = "",
    ) -> None:
        self.name = name
        self.dimension = dimension
        self.supers = tuple(sorted(supers))
        self.output = output
        self.input = input
        self.edges = list(edges)
        self.delivery = delivery
        self.traverse = traverse
        self.publishing = list(publishing)
        self.session = session
        self.membership = membership
        self.holder = holder
        """the broker that keeps what its publishing policies hold back; "": the first of those that are in it"""

    def advanced(self) -> str:
        """What makes it an advanced scope, for people; "" if nothing does."""
        if self.session:
            return "a session"
        if self.delivery is not None or self.traverse != "broadcast" or self.publishing:
            return "policies"
        return "a mapping" if any([edge.mapping is not None for edge in self.edges]) else ""

    def __repr__(self) -> str:
        return f"Scope({self.name!r}, {self.dimension!r}, {self.supers!r})"


class ScopeGraph:
    """Never changed once made: a change of scopes is another graph."""

    def __init__(self, scopes: "Iterable[Scope]" = (), components: "Iterable[Component]" = ()) -> None:
        self.scopes: dict[str, Scope] = {}
        self.components: dict[str, Component] = {}
        self.subs: dict[str, list[str]] = {}
        self.members: dict[str, list[str]] = {}
        """of a scope the components directly in it, in the order of their names"""
        self.advanced: str | None = None
        """the dimension whose scopes have mappings, policies or sessions"""
        self.weighs = False
        """some scope chooses by load"""
        self.choosy: set[str] = set()
        """scopes whose members are chosen among, by their own policies or those of a scope they are in"""
        self.dimensions: list[str] = []
        self._edges: dict[tuple[str, str], Edge] = {}
        self._inside: dict[tuple[str, str], list[str]] = {}
        self._connected: dict[str, set[str]] = {}
        self._steps: dict[tuple[str, bool], list[tuple[str, bool, Filter]]] = {}
        self._ways: dict[tuple[str, str], dict[tuple[str, bool], list[tuple[str, bool, Filter]]]] = {}
        self._interfaces: list[Filter] | None = None
        self._plain: dict[tuple[str, str], bool] = {}
        self._passing: Index | None = None
        self._asked: Event | None = None
        self._answers: dict[str, bool] = {}
        self._between: dict[tuple[str, str | None], list[Filter]] = {}
        for scope in scopes:
            if scope.name in self.scopes:
                raise LocalProtocolError(f"scope {scope.name!r} is given twice")
            self.scopes[scope.name] = scope
        for component in components:
            if component.name in self.components or component.name in self.scopes:
                raise LocalProtocolError(f"component {component.name!r} is given twice, or is a scope too")
            self.components[component.name] = component
        for scope in self.scopes.values():
            for name in scope.supers:
                if name in self.components:
                    raise LocalProtocolError(f"scope {scope.name!r} is in {name!r}, a component: those have no members")
                if name not in self.scopes:
                    raise LocalProtocolError(f"scope {scope.name!r} is in {name!r}, which is no scope")
                if self.scopes[name].dimension != scope.dimension:
                    raise LocalProtocolError(f"scope {scope.name!r} is in {name!r}, which is of another dimension")
                self.subs.setdefault(name, []).append(scope.name)
            self._place_edges(scope)
        for names in self.subs.values():
            names.sort()
        for name in self.scopes:
            if name in self.above(name):
                raise LocalProtocolError(f"scope {name!r} is in itself")
        self.dimensions = sorted(set([scope.dimension for scope in self.scopes.values()]))
        self._check_levels()
        self._find_advanced()
        self._place_components()

    def _place_edges(self, scope: Scope) -> None:
        # Not above: a broker on a device loads this at the end of a chain as long as MicroPython can bear.
        from .interface import Edge

        for name in scope.supers:
            self._edges[(scope.name, name)] = Edge(name, scope.output, scope.input)
        given: list[str] = []
        for edge in scope.edges:
            if edge.above not in scope.supers:
                raise LocalProtocolError(f"scope {scope.name!r} has an edge to {edge.above!r}, which it is not in")
            if edge.above in given:
                raise LocalProtocolError(f"scope {scope.name!r} has two edges to {edge.above!r}")
            given.append(edge.above)
            self._edges[(scope.name, edge.above)] = edge.over(scope.output, scope.input)

    def _check_levels(self) -> None:
        """Level by level from the top; there is no circle any more."""
        level, front = 0, [name for name, scope in self.scopes.items() if not scope.supers]
        while front:
            level += 1
            if level > MAX_LEVELS:
                raise LimitError(f"the number of levels down to scope {min(front)!r}", level, MAX_LEVELS)
            front = list(set([below for name in front for below in self.subs.get(name, ())]))

    def _find_advanced(self) -> None:
        by = ""
        for name in sorted(self.scopes):
            scope = self.scopes[name]
            if scope.publishing and utf8_len(name) > _MAX_HOLDING_NAME:
                raise LimitError(
                    f"length of scope {name!r}, which has publishing policies",
                    utf8_len(name),
                    f"{_MAX_HOLDING_NAME} bytes",
                )
            what = scope.advanced()
            if what and self.advanced not in (None, scope.dimension):
                raise LocalProtocolError(
                    f"scope {name!r} of dimension {scope.dimension!r} has {what}, and so has {by!r} of "
                    f"{self.advanced!r}: mappings, policies and sessions are of one dimension"
                )
            if what:
                self.advanced, by = scope.dimension, name
            if scope.delivery is not None and scope.delivery.kind == "least-loaded":
                self.weighs = True
            if scope.traverse != "broadcast" or (scope.delivery is not None and scope.delivery.kind != "all"):
                front = [name]
                while front:
                    at = front.pop()
                    if at not in self.choosy:
                        self.choosy.add(at)
                        front.extend(self.subs.get(at, ()))

    def _place_components(self) -> None:
        for name in sorted(self.components):
            component = self.components[name]
            for scope in component.scopes:
                if scope not in self.scopes:
                    raise LocalProtocolError(f"component {name!r} is in {scope!r}, which is no scope")
                self.members.setdefault(scope, []).append(name)
                self._inside.setdefault((name, self.scopes[scope].dimension), []).append(scope)

    def edge(self, name: str, above: str) -> "Edge":
        """A scope as it is in one of its superscopes."""
        return self._edges[(name, above)]

    def scopes_of(self, component: "Component", dimension: str) -> "list[str]":
        """Those of one dimension that a component is directly in."""
        return self._inside.get((component.name, dimension), _NONE)

    def __contains__(self, name: object) -> bool:
        return name in self.scopes

    def above(self, name: str) -> "set[str]":
        """Every scope that a scope is in, directly or not."""
        found: set[str] = set()
        front = list(self.scopes[name].supers)
        while front:
            at = front.pop()
            if at not in found:
                found.add(at)
                front.extend(self.scopes[at].supers)
        return found

    def connected(self, start: str, goal: str) -> bool:
        """Whether there is a visibility path at all, for an event that passes every interface. Of a scope that is not
        known here, while brokers do not agree on the scopes yet, there is none."""
        if start not in self.scopes or goal not in self.scopes:
            return False
        if start not in self._connected:
            seen = set()
            front = [(start, True)]
            while front:
                at = front.pop()
                if at not in seen:
                    seen.add(at)
                    front.extend([(name, up) for name, up, _ in self.steps(at[0], at[1])])
            self._connected[start] = {name for name, _ in seen}
        return goal in self._connected[start]

    def steps(self, name: str, up: bool) -> "list[tuple[str, bool, Filter]]":
        """Where an event in a scope may go next: (scope, still going up, the interface it must pass). What has no
        interface is closed: visibility is granted, not assumed.

        Up to the superscopes through the scope's output, down to the subscopes through their inputs; once down, never
        up again (seed 003, 3.4: the upward and the downward part of a visibility path). From a scope that is not known
        here nowhere: an event may be older than the scopes, or newer."""
        key = (name, up)
        if key in self._steps:
            return self._steps[key]
        if name not in self.scopes:
            return []  # nor remembered: strangers name them
        found: list[tuple[str, bool, Filter]] = []
        for above in self.scopes[name].supers if up else ():
            output = self._edges[(name, above)].output
            if output is not None:
                found.append((above, True, output))
        for below in self.subs.get(name, ()):
            inward = self._edges[(below, name)].input
            if inward is not None:
                found.append((below, False, inward))
        self._steps[key] = found
        return found

    def ways(self, start: str, goal: str) -> "dict[tuple[str, bool], list[tuple[str, bool, Filter]]]":
        """The steps that lie on some way between two scopes, upwards at first or downwards only: of a thousand scopes a
        handful."""
        known = self._ways.get((start, goal))
        if known is not None:
            return known
        if len(self._ways) >= _MAX_WAYS:
            self._ways = {}
        forward: dict[tuple[str, bool], list[tuple[str, bool, Filter]]] = {}
        downwards = self.above(goal) | {goal} if goal in self.scopes else set()
        front = [(start, True), (start, False)]
        while front:
            at = front.pop()
            if at not in forward:
                forward[at] = [step for step in self.steps(at[0], at[1]) if step[1] or step[0] in downwards]
                front.extend([(name, up) for name, up, _ in forward[at]])
        leading = set([at for at in forward if at[0] == goal])
        grown = True
        while grown:
            more = [at for at in forward if at not in leading and any([one[:2] in leading for one in forward[at]])]
            leading.update(more)
            grown = bool(more)
        found = {at: [one for one in forward[at] if one[:2] in leading] for at in leading}
        if start in self.scopes and goal in self.scopes:
            self._ways[(start, goal)] = found
        return found

    def passes(self, interface: "Filter", event: "Event") -> bool:
        """Asked of one event at a time, for many goals: thousands of scopes have a handful of interfaces between
        them."""
        if event is not self._asked:
            self._asked, self._answers = event, {}
        known = self._answers.get(interface.text)
        if known is None:
            known = self._answers[interface.text] = interface.matches(event)
        return known

    def is_plain(self, start: str, goal: str) -> bool:
        """Whether interfaces alone decide on all ways between two scopes: none has a mapping, or enters a session."""
        known = self._plain.get((start, goal))
        if known is None:
            if len(self._plain) >= _MAX_WAYS:
                self._plain = {}
            known = self._plain[(start, goal)] = all(
                [
                    not self.scopes[name].session and self._between_two(at[0], name).mapping is None
                    for at, steps in self.ways(start, goal).items()
                    for name, _, _ in steps
                ]
            )
        return known

    def _between_two(self, name: str, other: str) -> "Edge":
        return self._edges.get((name, other)) or self._edges[(other, name)]

    def passing(self, event: "Event") -> "Hashable":
        """Which interfaces an event passes, of all scopes: the same for events that pass the same."""
        if self._interfaces is None:
            texts: dict[str, Filter] = {}
            for edge in self._edges.values():
                for interface in (edge.output, edge.input):
                    if interface is not None:
                        texts[interface.text] = interface
            self._interfaces = list(texts.values())
            if len(self._interfaces) > _ONE_BY_ONE:
                from ..filter.index import Index

                self._passing = Index()
                for text, interface in texts.items():
                    self._passing.add(text, interface)
        if self._passing is None:
            return tuple([interface.matches(event) for interface in self._interfaces])
        return frozenset(self._passing.match(event))

    def interfaces_between(self, start: str, goal: "str | None") -> "list[Filter]":
        """Each once, of all ways from a scope to another, or to anywhere."""
        known = self._between.get((start, goal))
        if known is not None:
            return known
        steps: list[tuple[str, bool, Filter]] = []
        if goal is not None:
            for some in self.ways(start, goal).values():
                steps += some
        else:
            seen = set()
            front = [(start, True)]
            while front:
                at = front.pop()
                if at not in seen:
                    seen.add(at)
                    steps += self.steps(at[0], at[1])
                    front.extend([(name, up) for name, up, _ in self.steps(at[0], at[1])])
        found = list({interface.text: interface for _, _, interface in steps}.values())
        if start in self.scopes and (goal is None or goal in self.scopes):
            if len(self._between) >= _MAX_WAYS:
                self._between = {}
            self._between[(start, goal)] = found
        return found


class Tags:
    """The scopes of an advertisement or a subscription, at most one for each dimension (seed 003, 3.5); of a component
    that an administrator put into several of one dimension, all of them: `alternatives` has at most one.

    `rest` is for the dimensions not named: bottom in an advertisement (heard in any scope of theirs), top in a
    subscription (hears whatever the scope). Without it, what another names in such a dimension is not visible.

    `admitted` are of what is published the scopes of the rest that have a rule, and whose rule has its producer. `who`
    is the client of a subscription where a policy chooses among clients, and "" where it makes no difference."""

    __slots__ = ("admitted", "rest", "scopes", "who")

    def __init__(
        self,
        scopes: "Mapping[str, str] | Iterable[tuple[str, str]]" = (),
        rest: bool = True,
        admitted: "Iterable[str]" = (),
        who: str = "",
    ) -> None:
        pairs: Any = scopes.items() if hasattr(scopes, "items") else scopes
        self.scopes: tuple[tuple[str, str], ...] = tuple(sorted(set([tuple(pair) for pair in pairs])))
        self.rest = rest
        self.admitted = tuple(sorted(admitted))
        self.who = who

    def alternatives(self) -> "list[Tags]":
        found: list[list[tuple[str, str]]] = [[]]
        for dimension in sorted(set([name for name, _ in self.scopes])):
            inside = [pair for pair in self.scopes if pair[0] == dimension]
            found = [one + [pair] for one in found for pair in inside]
        return [self] if len(found) == 1 else [Tags(one, self.rest, self.admitted, self.who) for one in found]

    def get(self, dimension: str) -> "str | None":
        for name, scope in self.scopes:
            if name == dimension:
                return scope
        return None

    def item(self) -> "list[Any]":
        """As values of the wire."""
        flat: list[Any] = [list(self.admitted) if self.admitted else self.rest]
        for pair in self.scopes:
            flat.extend(pair)
        return flat

    @classmethod
    def of(cls, names: "Iterable[str]", graph: ScopeGraph, rest: bool = True) -> "Tags":
        """From names of scopes; each must be known, and no two of one dimension."""
        found: dict[str, str] = {}
        for name in names:
            if name not in graph:
                raise LocalProtocolError(f"{name!r} is no scope")
            dimension = graph.scopes[name].dimension
            if dimension in found:
                raise LocalProtocolError(f"{found[dimension]!r} and {name!r} are both of dimension {dimension!r}")
            found[dimension] = name
        return cls(found, rest)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tags)
            and self.scopes == other.scopes
            and self.rest == other.rest
            and self.admitted == other.admitted
            and self.who == other.who
        )

    def __hash__(self) -> int:
        return hash((self.scopes, self.rest, self.admitted, self.who))

    def __repr__(self) -> str:
        past = f", admitted={self.admitted!r}" if self.admitted else ""
        return f"Tags({list(self.scopes)!r}, rest={self.rest}{past})"
