"""One event on its way up and down the scopes of the advanced dimension (seed 004, 3.1 to 3.6).

It goes up from where it is published, through outputs, mappings and sessions, as far as it gets; and from each of these
scopes down, the innermost first, through inputs and mappings, to whom traverse and delivery policies choose. **A scope
takes an event once**, in one form, and so does who is in several: up before down; of ways up the shortest; of ways down
that of the innermost scope; in a scope before those below it; then by names. Without mappings that is the visibility of
seed 004, 3.1 and 3.2, whatever the order.

Who the members of a scope are, and what delays an event on its way up, is for who spreads it: the scope manager has
declared components, a broker its own clients and what other brokers have told it.
"""

from . import session
from .notes import Note
from .policy import ALL, BROADCAST, Chooser, tiers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..event import Event
    from .graph import ScopeGraph
    from .journey import Journey

__all__ = ["Spread"]


class Spread:
    """`note` is called with a Note for everything that happens to an event, for those who want to know why."""

    def __init__(self, graph: "ScopeGraph", note: "Callable[[Note], None] | None" = None) -> None:
        self.graph = graph
        self.note = note
        self.counts: dict[str, int] = {}
        self._choosers: dict[str, Chooser] = {}
        self._build()

    def _build(self) -> None:
        """Of another graph: choices go on where a scope has the same policy as before."""
        before, self._choosers = self._choosers, {}
        for name, scope in self.graph.scopes.items():
            if scope.delivery is not None and scope.delivery.kind != ALL:
                known = before.get(name)
                same = known is not None and known.delivery == scope.delivery
                self._choosers[name] = known if known is not None and same else Chooser(scope.delivery)

    # Of who spreads it

    def _members(self, journey: "Journey", scope: str, form: "Event", now: int) -> "list[str]":
        """Those directly in a scope that would take it, in the order of their names."""
        raise NotImplementedError

    def _deliver(
        self, journey: "Journey", name: str, scope: "str | None", form: "Event", chain: "tuple[tuple[str, str], ...]"
    ) -> None:
        """`chain` says who chose it: scopes with a delivery policy, and the member of each."""
        raise NotImplementedError

    def _goes_up(
        self, journey: "Journey", scope: str, form: "Event", above: "list[tuple[str, Event]]", now: int
    ) -> bool:
        """Whether it leaves a scope upwards at once, into those `above` that have not taken it yet."""
        raise NotImplementedError

    def _saw(self, journey: "Journey", scope: str, form: "Event") -> None:
        """It is in a scope."""

    def _choose(self, journey: "Journey", scope: str, offered: "list[str]", form: "Event") -> "list[str]":
        return self._choosers[scope].choose(offered, form)

    # Up

    def _enters(self, below: str, scope: str, event: "Event") -> bool:
        if session.enters(self.graph, event, scope):
            return True
        self._note("stopped", below, scope, f"it belongs to session {session.tag_of(self.graph, event)!r}", event)
        return False

    def _rise(self, journey: "Journey", front: "list[tuple[str, Event]]", now: int) -> None:
        graph = self.graph
        order = []
        while front:
            following: list[tuple[str, Event]] = []
            for scope, form in front:
                if scope in journey.taken:
                    continue
                journey.taken.add(scope)
                form = session.tagged(graph, form, scope)
                order.append((scope, form))
                self._note("in", scope, scope, "", form)
                self._saw(journey, scope, form)
                above = self._above(journey, scope, form)
                if self._goes_up(journey, scope, form, above, now):
                    following += self._crossed(journey, scope, above)
            front = following
        for scope, form in order:
            self._hand(journey, scope, form, (), now)

    def _above(self, journey: "Journey", scope: str, form: "Event") -> "list[tuple[str, Event]]":
        found = []
        for above in self.graph.scopes[scope].supers:
            if above in journey.taken:
                continue
            got, why = self.graph.edge(scope, above).up(form)
            if got is None:
                self._note("stopped", scope, above, why, form)
            elif self._enters(scope, above, got):
                found.append((above, got))
        return found

    def _crossed(self, journey: "Journey", scope: str, above: "list[tuple[str, Event]]") -> "list[tuple[str, Event]]":
        for name, form in above:
            journey.came.setdefault(name, scope)
            if self.note is not None:
                self._note("up", scope, name, f"the output {self.graph.edge(scope, name).output}", form)
        return above

    # Down

    def _hand(
        self, journey: "Journey", scope: str, form: "Event", chain: "tuple[tuple[str, str], ...]", now: int
    ) -> None:
        here = self.graph.scopes[scope]
        names = self._members(journey, scope, form, now)
        chooser = self._choosers.get(scope)
        below = self._below(journey, scope, form)
        if chooser is None and here.traverse == BROADCAST:
            chosen = names + sorted(below)
        else:
            subs = [name for name in sorted(below) if self._anybody(journey, name, below[name], now, _Asked())]
            offered = tiers(here.traverse, names, subs)
            for name in names + subs:
                if name not in offered:
                    self._note("skipped", scope, name, f"{here.traverse}: others of {scope!r} come first", form)
            chosen = offered if chooser is None else self._choose(journey, scope, offered, form)
            for name in offered:
                if name not in chosen and chooser is not None:
                    self._note("skipped", scope, name, f"{chooser.delivery.kind} chose {chosen[0]!r}", form)
        for name in [one for one in chosen if one not in below] + [one for one in chosen if one in below]:
            following = chain if chooser is None else chain + ((scope, name),)
            if name not in below:
                self._deliver(journey, name, scope, form, following)
            elif name not in journey.taken:
                journey.taken.add(name)
                journey.came.setdefault(name, scope)
                got = session.tagged(self.graph, below[name], name)
                self._note("down", scope, name, f"the input {self.graph.edge(name, scope).input}", got)
                self._saw(journey, name, got)
                self._hand(journey, name, got, following, now)

    def _below(self, journey: "Journey", scope: str, form: "Event") -> "dict[str, Event]":
        found: dict[str, Event] = {}
        for name in self.graph.subs.get(scope, ()):
            if name not in journey.taken:
                got, why = self.graph.edge(name, scope).down(form)
                if got is None:
                    self._note("stopped", scope, name, why, form)
                else:
                    found[name] = got
        return found

    def _anybody(self, journey: "Journey", scope: str, form: "Event", now: int, asked: "_Asked") -> bool:
        """Whether somebody in a subscope would take it: no policy takes from all."""
        known = asked.answer(scope, form)
        if known is not None:
            return known
        note, self.note = self.note, None  # a question is nothing that happens to an event
        inside = session.tagged(self.graph, form, scope)
        found = bool(self._members(journey, scope, inside, now))
        if not found:
            below = self._below(journey, scope, inside)
            for name in sorted(below):
                found = found or self._anybody(journey, name, below[name], now, asked)
        self.note = note
        asked.answers.append((scope, form, found))
        return found

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _note(self, kind: str, at: str, to: str, why: str, event: "Event") -> None:
        if self.note is not None:
            self.note(Note(kind, at, to, why, event))


class _Asked:
    """Answers of one question down a graph where ways meet again. A form is told apart as an object: it comes to two
    scopes as one where nothing maps it."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, Event, bool]] = []

    def answer(self, scope: str, form: "Event") -> "bool | None":
        for name, other, found in self.answers:
            if name == scope and other is form:
                return found
        return None
