"""The scope manager: moves events through the scopes of declared components (seed 004, 4).

    publish(component, event, now)   who gets it, in what form
    next_timeout(now), handle_timeout(now)      what publishing policies held back
    done(delivery)                   of least-loaded

How an event moves is in spread.py; here are the components, who of them may, and the publishing policies that hold it
back on its way up. A component takes an event once.

The dimensions that are not the advanced one judge the event as it was published (seed 003, 3.5). A component that is in
no scope of the advanced dimension, and minds that not, gets it as it was published, too.
"""

from ..errors import LocalProtocolError
from .journey import Delivered, Journey
from .judge import Judge
from .membership import PUBLISH, SUBSCRIBE, Memberships
from .publishing import FULL, NOW, Outlet
from .spread import Spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..event import Event
    from .component import Component
    from .graph import ScopeGraph
    from .notes import Note

__all__ = ["ScopeManager"]


class ScopeManager(Spread):
    def __init__(
        self,
        graph: "ScopeGraph",
        memberships: "Memberships | None" = None,
        note: "Callable[[Note], None] | None" = None,
    ) -> None:
        """`counts`: published = moved + refused; held = released + waiting + expired + closed; and delivered, full"""
        self._outlets: dict[str, Outlet] = {}
        super().__init__(graph, note)
        self.memberships = Memberships(graph) if memberships is None else memberships
        self.judge = Judge(graph, self.memberships)
        self._deliveries: list[Delivered] = []

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
        outlets = self._outlets
        self.graph = graph
        self.memberships.reload(graph)
        self.judge = Judge(graph, self.memberships)
        self._build()
        for scope, outlet in outlets.items():
            if scope in self._outlets:
                self._outlets[scope].inherit(outlet)
        self.counts["held"] = self.counts.get("held", 0) - len(held)  # each is counted again
        return self.restore(held, now)

    def _build(self) -> None:
        super()._build()
        scopes = self.graph.scopes
        self._outlets = {name: Outlet(scope.publishing) for name, scope in scopes.items() if scope.publishing}

    # Up

    def _starts(self, component: "Component", event: "Event", now: int) -> "list[str] | None":
        for scope in component.scopes:
            why = self.judge.refusal(component, scope, PUBLISH, now)
            if why:
                self._note("refused", component.name, scope, why, event)
        starts = self.judge.starts(component, now)
        return None if starts is None else [name for name in starts if self._enters(component.name, name, event)]

    def _goes_up(self, journey: Journey, scope: str, form: "Event", above: "list[tuple[str, Event]]", now: int) -> bool:
        outlet = self._outlets.get(scope)
        if outlet is None or not above:
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
        self._rise(journey, self._crossed(journey, scope, above), now)

    # Down

    def _members(self, journey: Journey, scope: str, form: "Event", now: int) -> "list[str]":
        return [name for name in self.graph.members.get(scope, ()) if self._takes(journey, name, scope, form, now)]

    def _saw(self, journey: Journey, scope: str, form: "Event") -> None:
        if scope in self._outlets:
            self._outlets[scope].saw(form)

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
