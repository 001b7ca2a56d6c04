"""The scope manager: moves events through the scopes of declared components (seed 004, 4).

    publish(component, event, now)   who gets it, in what form
    next_timeout(now), handle_timeout(now)      what publishing policies held back
    done(delivery)                   of least-loaded

An event goes up from the scopes of its producer, through outputs, mappings, sessions and publishing policies, as far as
it gets; and from each of these scopes down, the innermost first, through inputs and mappings, to whom traverse and
delivery policies choose. **A scope takes an event once**, in one form, and so does a component: up before down; of ways
up the shortest; of ways down that of the innermost scope; then by names. Without mappings that is the visibility of
seed 004, 3.1 and 3.2, whatever the order.

The dimensions that are not the advanced one judge the event as it was published (seed 003, 3.5). A component that is in
no scope of the advanced dimension, and minds that not, gets it as it was published, too.
"""

from ..errors import LocalProtocolError
from . import session
from .journey import Delivered, Journey
from .judge import Judge
from .membership import PUBLISH, SUBSCRIBE, Memberships
from .notes import Note
from .policy import ALL, BROADCAST, Chooser, tiers
from .publishing import FULL, NOW, Outlet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..event import Event
    from .component import Component
    from .graph import ScopeGraph

__all__ = ["ScopeManager"]


class ScopeManager:
    """`note` is called with a Note for everything that happens to an event, for those who want to know why."""

    def __init__(
        self,
        graph: "ScopeGraph",
        memberships: "Memberships | None" = None,
        note: "Callable[[Note], None] | None" = None,
    ) -> None:
        self.graph = graph
        self.memberships = Memberships(graph) if memberships is None else memberships
        self.judge = Judge(graph, self.memberships)
        self.note = note
        self.counts: dict[str, int] = {}
        """published = moved + refused; held = released + waiting + expired + closed; and delivered, full"""
        self._choosers: dict[str, Chooser] = {}
        self._outlets: dict[str, Outlet] = {}
        self._deliveries: list[Delivered] = []
        self._build()

    def publish(self, name: str, event: "Event", now: int) -> "list[Delivered]":
        """Raises LocalProtocolError for a component that is not there or says what it did not advertise. One that may
        not publish in any of its scopes is refused: counted, and heard by nobody."""
        component = self._component(name)
        if not component.may_say(event):
            raise LocalProtocolError(f"{name!r} says {event.subject!r}, which is not in what it publishes")
        self._count("published")
        starts = self._starts(component, event, now)
        if starts is None:
            self._count("refused")
            return []
        self._count("moved")
        journey = Journey(name, event, starts)
        self._rise(journey, [(scope, event) for scope in starts], now)
        self._deliver_outside(journey, now)
        self._release(now)
        return self._take()

    def next_timeout(self, now: int) -> "int | None":
        times = [outlet.next_timeout(now) for outlet in self._outlets.values()]
        known = [time for time in times if time is not None]
        return min(known) if known else None

    def handle_timeout(self, now: int) -> "list[Delivered]":
        self._release(now)
        return self._take()

    def done(self, delivery: Delivered) -> None:
        """Its component has dealt with it."""
        for scope, member in delivery.chain:
            if scope in self._choosers:
                self._choosers[scope].done(member)

    def waiting(self) -> "list[tuple[str, int, Journey, Event]]":
        """What is held back: scope, since when, the journey, the event there; for those who keep it past a restart."""
        found = []
        for scope in sorted(self._outlets):
            for since, item in self._outlets[scope].waiting():
                found.append((scope, since, item[0], item[1]))
        return found

    def restore(self, held: "Iterable[tuple[str, int, Journey, Event]]", now: int) -> "list[Delivered]":
        """What `waiting` gave, before a restart or of another graph: it waits on, as if it had come here then. What no
        policy holds any more is released at once."""
        for scope, since, journey, form in held:
            outlet = self._outlets.get(scope)
            self._count("held")
            if outlet is None or not outlet.restore(form, (journey, form), since):
                self._leave(scope, journey, form, now)
        self._release(now)
        return self._take()

    def opened(self) -> "dict[str, list[bool]]":
        """The conditions that hold, of each scope that has some; `reopen` takes them after a restart."""
        return {scope: outlet.opened() for scope, outlet in self._outlets.items()}

    def reopen(self, opened: "dict[str, list[bool]]") -> None:
        for scope, holds in opened.items():
            if scope in self._outlets:
                self._outlets[scope].reopen(holds)

    def reload(self, graph: "ScopeGraph", now: int) -> "list[Delivered]":
        """Other scopes from now on. Choices, rates and conditions go on where a scope has the same policy as before."""
        held = self.waiting()
        outlets, choosers = self._outlets, self._choosers
        self.graph = graph
        self.memberships.reload(graph)
        self.judge = Judge(graph, self.memberships)
        self._outlets, self._choosers = {}, {}
        self._build()
        for scope, chooser in choosers.items():
            if scope in self._choosers and self._choosers[scope].delivery == chooser.delivery:
                self._choosers[scope] = chooser
        for scope, outlet in outlets.items():
            if scope in self._outlets:
                self._outlets[scope].inherit(outlet)
        self.counts["held"] = self.counts.get("held", 0) - len(held)  # each is counted again
        return self.restore(held, now)

    def _build(self) -> None:
        for name, scope in self.graph.scopes.items():
            if scope.delivery is not None and scope.delivery.kind != ALL:
                self._choosers[name] = Chooser(scope.delivery)
            if scope.publishing:
                self._outlets[name] = Outlet(scope.publishing)

    # Up

    def _starts(self, component: "Component", event: "Event", now: int) -> "list[str] | None":
        for scope in component.scopes:
            why = self.judge.refusal(component, scope, PUBLISH, now)
            if why:
                self._note("refused", component.name, scope, why, event)
        starts = self.judge.starts(component, now)
        return None if starts is None else [name for name in starts if self._enters(component.name, name, event)]

    def _enters(self, below: str, scope: str, event: "Event") -> bool:
        if session.enters(self.graph, event, scope):
            return True
        self._note("stopped", below, scope, f"it belongs to session {session.tag_of(self.graph, event)!r}", event)
        return False

    def _rise(self, journey: Journey, front: "list[tuple[str, Event]]", now: int) -> None:
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
                outlet = self._outlets.get(scope)
                if outlet is not None:
                    outlet.saw(form)
                above = self._above(journey, scope, form)
                if above and self._goes_now(journey, scope, form, now):
                    following += self._crossed(scope, above)
            front = following
        for scope, form in order:
            self._hand(journey, scope, form, (), now)

    def _above(self, journey: Journey, scope: str, form: "Event") -> "list[tuple[str, Event]]":
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

    def _crossed(self, scope: str, above: "list[tuple[str, Event]]") -> "list[tuple[str, Event]]":
        if self.note is not None:
            for name, form in above:
                self._note("up", scope, name, f"the output {self.graph.edge(scope, name).output}", form)
        return above

    def _goes_now(self, journey: Journey, scope: str, form: "Event", now: int) -> bool:
        outlet = self._outlets.get(scope)
        if outlet is None:
            return True
        verdict = outlet.offer(form, (journey, form), now)
        if verdict == NOW:
            return True
        self._count(verdict)
        self._note("dropped" if verdict == FULL else "held", scope, scope, str(outlet.policy_of(form)), form)
        return False

    def _release(self, now: int) -> None:
        """What is released may open another outlet, or fill it; it goes on until nothing more is due."""
        going = True
        while going:
            going = False
            for scope in sorted(self._outlets):
                for journey, form in self._outlets[scope].due(now):
                    going = True
                    self._leave(scope, journey, form, now)

    def _leave(self, scope: str, journey: Journey, form: "Event", now: int) -> None:
        """Everything is asked again: rights, interfaces and scopes may have changed while it waited."""
        expires = form.attrs.get("Expires")
        if expires is not None and expires <= now:
            self._count("expired")
            self._note("dropped", scope, scope, f"it was worthless after {expires}", form)
            return
        journey.visible = {}
        why = self.judge.ended(journey.component, journey.starts, now)
        above = self._above(journey, scope, form) if not why and scope in self.graph else []
        if not above:
            self._count("closed")
            self._note("dropped", scope, scope, why or "no superscope takes it any more", form)
            return
        self._count("released")
        self._rise(journey, self._crossed(scope, above), now)

    # Down

    def _hand(
        self, journey: Journey, scope: str, form: "Event", chain: "tuple[tuple[str, str], ...]", now: int
    ) -> None:
        here = self.graph.scopes[scope]
        names = [name for name in self.graph.members.get(scope, ()) if self._takes(journey, name, scope, form, now)]
        chooser = self._choosers.get(scope)
        below = self._below(journey, scope, form)
        if chooser is None and here.traverse == BROADCAST:
            chosen = sorted(names + list(below))
        else:
            subs = [name for name in sorted(below) if self._anybody(journey, name, below[name], now, _Asked())]
            offered = tiers(here.traverse, names, subs)
            for name in names + subs:
                if name not in offered:
                    self._note("skipped", scope, name, f"{here.traverse}: others of {scope!r} come first", form)
            chosen = offered if chooser is None else chooser.choose(offered, form)
            for name in offered:
                if name not in chosen and chooser is not None:
                    self._note("skipped", scope, name, f"{chooser.delivery.kind} chose {chosen[0]!r}", form)
        for name in chosen:
            following = chain if chooser is None else chain + ((scope, name),)
            if name not in below:
                self._deliver(journey, name, scope, form, following)
            elif name not in journey.taken:
                journey.taken.add(name)
                got = session.tagged(self.graph, below[name], name)
                self._note("down", scope, name, f"the input {self.graph.edge(name, scope).input}", got)
                if name in self._outlets:
                    self._outlets[name].saw(got)
                self._hand(journey, name, got, following, now)

    def _below(self, journey: Journey, scope: str, form: "Event") -> "dict[str, Event]":
        found: dict[str, Event] = {}
        for name in self.graph.subs.get(scope, ()):
            if name not in journey.taken:
                got, why = self.graph.edge(name, scope).down(form)
                if got is None:
                    self._note("stopped", scope, name, why, form)
                else:
                    found[name] = got
        return found

    def _anybody(self, journey: Journey, scope: str, form: "Event", now: int, asked: "_Asked") -> bool:
        """Whether somebody in a subscope would take it: no policy takes from all."""
        known = asked.answer(scope, form)
        if known is not None:
            return known
        note, self.note = self.note, None  # a question is nothing that happens to an event
        inside = session.tagged(self.graph, form, scope)
        found = False
        for name in self.graph.members.get(scope, ()):
            found = found or self._takes(journey, name, scope, inside, now)
        if not found:
            below = self._below(journey, scope, inside)
            for name in sorted(below):
                found = found or self._anybody(journey, name, below[name], now, asked)
        self.note = note
        asked.answers.append((scope, form, found))
        return found

    def _takes(self, journey: Journey, name: str, scope: "str | None", form: "Event", now: int) -> bool:
        if name == journey.component or name in journey.received:
            return False
        component = self.graph.components[name]
        if not component.takes(form):
            why = f"it subscribes to {component.subscribes}"
        else:
            why = "" if scope is None else self.judge.refusal(component, scope, SUBSCRIBE, now)
            if not why:
                if name not in journey.visible:
                    producer = self.graph.components[journey.component]
                    journey.visible[name] = self.judge.hiding(producer, component, journey.event, now)
                why = journey.visible[name]
        if why:
            self._note("stopped", scope or "", name, why, form)
        return not why

    def _deliver_outside(self, journey: Journey, now: int) -> None:
        """To those who are in no scope of the advanced dimension."""
        producer = self.graph.components[journey.component]
        for name in sorted(self.graph.components):
            component = self.graph.components[name]
            if self.graph.advanced is not None and self.graph.scopes_of(component, self.graph.advanced):
                continue
            why = self.judge.hears_outside(component, journey.starts, producer, now)
            if why:
                self._note("stopped", "", name, why, journey.event)
            elif self._takes(journey, name, None, journey.event, now):
                self._deliver(journey, name, None, journey.event, ())

    def _deliver(
        self,
        journey: Journey,
        name: str,
        scope: "str | None",
        form: "Event",
        chain: "tuple[tuple[str, str], ...]",
    ) -> None:
        if name in journey.received:
            return
        journey.received.add(name)
        self._count("delivered")
        self._note("delivered", scope or "", name, "", form)
        self._deliveries.append(Delivered(name, form, scope, chain))

    def _take(self) -> "list[Delivered]":
        found, self._deliveries = self._deliveries, []
        return found

    def _component(self, name: str) -> "Component":
        if name not in self.graph.components:
            raise LocalProtocolError(f"there is no component {name!r}")
        return self.graph.components[name]

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
