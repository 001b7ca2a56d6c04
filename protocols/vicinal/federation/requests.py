"""The gateway's side that asks: for each request it stands for, every service it is meant for is asked until there is
an answer, and whoever asked is told (seed 001, 5.3.4 and 5.3.5; the answers are ours).

Among the gateways that hear a client's request, each stands for those services that lie behind it, as the tree has it:
no service is asked by two. Asked are the gateways beside the services, by a control event of our own for each: they
answer that one, and so the answer comes back here.
"""

from ..control import Announcement, Subscription, Unannouncement, Unsubscription
from ..filter import Filter
from .standing import KEEP, MAX_LEAVING, TIME_OUT, Goal, Standing, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..distlist import DistList
    from ..event import Event
    from .gateway import Gateway

__all__ = ["Requests"]

# Of clients: each is kept on disk and asked for again and again.
MAX_STANDING = 4096


class Requests:
    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._topology = gateway.topology
        self.standing: dict[tuple[int, str, str], Standing] = {}
        self.changes = 0
        """counts what a restart must know"""
        self._sent: dict[int, tuple[Standing, str]] = {}  # our control events, by number
        self._seen_changes = -1

    # What is asked

    def ask(self, message: "Any", origin: "tuple[str, int] | None", now: int, until: "int | None" = None) -> None:
        """A request or its undoing. `origin` is the identity of a client's."""
        undo = isinstance(message, (Unsubscription, Unannouncement))
        kind: Any = Subscription if isinstance(message, (Subscription, Unsubscription)) else Announcement
        what = message.filter if kind is Subscription else message.event
        known = self.standing.get(key_of(kind, message.source, what))
        if known is None:
            objection = "" if undo or kind is Announcement else self._gateway.objection(message.source, what)
            if objection:
                self._gateway.news.append(("request", kind.__name__, what.text, message.source, "refused", objection))
                return self._answer_all(message, origin, f"refused: {objection}")
            if len(self.standing) >= MAX_STANDING:
                return self._answer_all(message, origin, f"refused: {MAX_STANDING} requests stand at this gateway")
            known = Standing(kind, message.source, what, origin)
            self.standing[known.key] = known
        elif kind is Announcement and not undo and known.what != what:
            self._say_otherwise(known, what, now)
        if origin is not None:
            known.origin = origin
        known.until = until
        before = len(known.lists), known.lists[-1:]
        known.say(not undo, message.to)
        if undo:
            self._undo(known, message, now)
        if before != (len(known.lists), known.lists[-1:]):
            self.changes += 1
        for goal in known.goals.values():
            goal.asked = False  # who asks is answered, also when nothing has changed
        self._look(known, now)
        for service, goal in list(known.goals.items()):
            if service in message.to and not goal.asked and goal.state not in ("asking", "leaving"):
                self._tell(known, service, goal)
        if not undo and not self._names_any(known, message.to) and self._speaks_for(known):
            reason = f"unreachable: no gateway is connected to another service that {message.to.text!r} names"
            self._answer_all(message, origin, reason)
        self.pursue(now)

    def _names_any(self, one: Standing, to: "DistList") -> bool:
        """Whether somebody answers for a service that the list names: one that is there, or is called by its name."""
        return any([service in to for service in self._topology.services() + one.literal() if service != one.source])

    def _say_otherwise(self, one: Standing, event: "Event", now: int) -> None:
        """Who was refused announces the type as it should be: it is the same announcement, and to be asked anew."""
        one.what = event
        self.changes += 1
        for goal in one.goals.values():
            if goal.state == "refused":
                goal.ask_again(now, goal.gateway)

    def _answer_all(self, message: "Any", origin: "tuple[str, int] | None", reason: str) -> None:
        if origin is not None:
            self._gateway.answer(message.source, origin, message.to.text, reason)

    def _undo(self, one: Standing, message: "Any", now: int) -> None:
        """Also where we know of no such request: perhaps another stood for it, which is no more."""
        found = False
        for service in message.to.select(self._topology.services()):
            if service != one.source and self._is_ours(one, service):
                found = True
                goal = one.goals.setdefault(service, Goal(now))
                goal.ask_again(now, goal.gateway)
                goal.state = "leaving"
        if not found and not one.lists and self._speaks_for(one):
            self._answer_all(message, one.origin, "refused: there is no such request")

    def _look(self, one: Standing, now: int) -> None:
        """Which services are meant now, and who serves them."""
        topology = self._topology
        for service in topology.services():
            if not one.wants(service) or not self._is_ours(one, service):
                continue
            beside = topology.beside(service)
            served = None if beside is None else (beside, topology.incarnation(beside))
            goal = one.goals.get(service)
            if goal is None:
                goal = one.goals[service] = Goal(now)
                goal.gateway = served
            elif goal.state == "leaving":
                goal.ask_again(now, served)
            elif served != goal.gateway or goal.state == "unreachable":
                if goal.gateway is None or served is not None:
                    goal.ask_again(now, served)
        for service in one.literal():
            if service not in one.goals and topology.way(service) is None and self._speaks_for(one):
                one.goals[service] = goal = Goal(now)
                goal.state, goal.due = "unreachable", None
                goal.reason = f"unreachable: no gateway is connected to {service!r}"
                self._tell(one, service, goal)
        for service, goal in list(one.goals.items()):
            if goal.state == "unreachable" and topology.way(service) is not None and not self._is_ours(one, service):
                self._end(one, service, goal)  # it has appeared, and another gateway stands for it
            elif goal.state != "leaving" and not one.wants(service):
                goal.ask_again(now, goal.gateway)
                goal.state = "leaving"
            elif goal.state == "leaving" and goal.due is None and topology.way(service) is not None:
                goal.due = now

    def _is_ours(self, one: Standing, service: str) -> bool:
        """Of a client's request: does the service lie behind us, as seen from where the client is?"""
        if one.origin is None:
            return True
        way = self._topology.way(service)
        return way is not None and way != one.source and self._topology.on_tree(one.source)

    def _speaks_for(self, one: Standing) -> bool:
        return one.origin is None or self._topology.parent(one.source) == self._gateway.name

    # Asking

    def pursue(self, now: int) -> None:
        """Asks whatever is due."""
        if self._topology.changes != self._seen_changes:
            self._seen_changes = self._topology.changes
            for one in self.standing.values():
                self._look(one, now)
        for one in list(self.standing.values()):
            if one.until is not None and now >= one.until:
                one.until = None
                one.lists = []
                self.changes += 1
                self._look(one, now)
            for service, goal in list(one.goals.items()):
                if goal.due is not None and now >= goal.due:
                    self._pursue(one, service, goal, now)
            if not one.lists and not one.goals:
                self.standing.pop(one.key, None)

    def _pursue(self, one: Standing, service: str, goal: Goal, now: int) -> None:
        if goal.state == "leaving" and (goal.tries >= MAX_LEAVING or now - goal.since >= KEEP):
            self._end(one, service, goal)  # what was asked is forgotten there by now
            return
        if goal.state == "asking" and now - goal.since >= TIME_OUT:
            goal.state, goal.reason = "timed out", f"timed out: no answer from {service!r} in {TIME_OUT // 1000} s"
            self._tell(one, service, goal)
        way = self._topology.way(service)
        if way is None:
            if goal.state not in ("leaving", "unreachable"):
                goal.state, goal.reason = "unreachable", f"unreachable: there is no way to {service!r} now"
                self._tell(one, service, goal)
            goal.due = None  # until there is one
            return
        goal.tried(now)
        message = one.message(goal.state != "leaving", service)
        if way == service:
            self._gateway.apply(message, service, (one, service), now)
        else:
            number = self._gateway.send(message, way)
            goal.numbers.append(number)
            self._sent[number] = (one, service)
            for old in goal.numbers[:-8]:
                self._sent.pop(old, None)
            goal.numbers = goal.numbers[-8:]

    def _end(self, one: Standing, service: str, goal: Goal) -> None:
        for number in goal.numbers:
            self._sent.pop(number, None)
        del one.goals[service]

    # Answers

    def answered(self, number: int, reason: str, now: int) -> bool:
        """To a control event of ours. Whether it is known."""
        found = self._sent.get(number)
        if found is None:
            return False
        self.settled(found[0], found[1], reason, now)
        return True

    def settled(self, one: Standing, service: str, reason: str, now: int) -> None:
        goal = one.goals.get(service)
        if goal is None:
            return
        if goal.state == "leaving":
            if one.origin is not None:
                self._gateway.answer(one.source, one.origin, service, reason)
            self._end(one, service, goal)
            if not one.lists and not one.goals:
                self.standing.pop(one.key, None)
        elif goal.settle(reason, now) or not goal.asked:
            self._tell(one, service, goal)

    def _tell(self, one: Standing, service: str, goal: Goal) -> None:
        goal.asked = True
        self._gateway.told(one, service, goal)
        if one.origin is not None:
            self._gateway.answer(one.source, one.origin, service, goal.reason)

    # Time and restarts

    def next_timeout(self) -> "int | None":
        times = [goal.due for one in self.standing.values() for goal in one.goals.values() if goal.due is not None]
        times += [one.until for one in self.standing.values() if one.until is not None]
        return min(times) if times else None

    def set_back(self, by: int) -> None:
        """The clock was, by so many milliseconds. `until` is a time of clocks, and stays."""
        for one in self.standing.values():
            for goal in one.goals.values():
                goal.since -= by
                if goal.due is not None:
                    goal.due -= by

    def events(self) -> "list[Event]":
        """Those of clients, for a restart to remember: control events stamped as the clients did."""
        found = []
        for one in self.standing.values():
            if one.origin is not None:
                for event in one.events():
                    attrs = {} if one.until is None else {"Expires": one.until}
                    found.append(event.replace(producer=one.origin[0], seq=one.origin[1], attrs=attrs))
        return found

    def report(self) -> "list[dict[str, Any]]":
        return [
            {
                "request": one.kind.__name__,
                "source": one.source,
                "what": one.what.text if isinstance(one.what, Filter) else one.what.subject,
                "to": [("" if wanted else "not ") + to.text for wanted, to in one.lists],
                "opaque": one.origin is not None,
                "services": {
                    service: {"state": goal.state, "reason": goal.reason} for service, goal in sorted(one.goals.items())
                },
            }
            for one in self.standing.values()
        ]
