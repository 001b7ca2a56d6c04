"""A gateway, as a state machine: what happens goes in, what to do comes out (seed 001, 5.3 and 5.9.3).

    attach, service_up, service_down      the adapters
    receive(event, service, now)          an event of a direct service, a control event or another; gives [(service,
                                          event), ...]: what is to be published, and where
    ask(message, now)                     a transparent request
    actions()                             (number, verb, service, what): to be done by the adapter, then `applied`.
                                          Verbs: announce unannounce subscribe unsubscribe tunnel untunnel
    applied(number, reason, now)          "" or why not
    deliveries()                          [(service, event), ...] that come of time and of answers
    next_timeout(), handle_timeout(now)

With a control event that it hears on service S a gateway does, for each service D that the distribution list names:

    the way to D leads back to S      nothing: it is another gateway's
    D is direct                       apply it there, and answer
    else                              publish it on the direct service that leads to D, with one hop less

Events go the same ways: spreading.py. Time is integer milliseconds.
"""

import json

from ..control import (
    SUBJECT,
    Announcement,
    Answer,
    Echo,
    Publication,
    Record,
    Subscription,
    Unannouncement,
    Unsubscription,
    from_event,
)
from ..errors import LocalProtocolError, RemoteProtocolError
from ..event import Event
from ..filter import Filter
from .notes import Direct
from .plans import MAX_HOPS
from .requests import Requests
from .seen import Seen
from .spreading import Spreading
from .topology import Known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .capabilities import Capabilities
    from .standing import Goal, Standing

__all__ = ["MAX_HOPS", "Gateway"]

# Milliseconds: how often a gateway says that it is there, how soon after it has said something else, and after how
# much silence it is taken for dead.
HELLO = 10000
PACE = 1000
DEAD = 35000
# A service that is away for so long is taken off the tree: perhaps there is another way.
AWAY = 30000
# Services that are away and still have a way.
MAX_LAST_WAYS = 10000


class Gateway(Spreading):
    def __init__(self, name: str, incarnation: int, first_seq: int = 0, hello: int = HELLO) -> None:
        """`incarnation` and `first_seq` are greater than at every earlier start: see `seq`."""
        super().__init__(name, first_seq)
        self.incarnation = incarnation
        self.hello = hello
        self.requests = Requests(self)
        self.objection: Callable[[str, Filter], str] = lambda source, condition: ""
        """the shell's: why what is asked for could not be represented where it is to go; "" if it could"""
        self.news: list[tuple[Any, ...]] = []
        """for people: ("request", ...), ("gateway", ...); taken and cleared by the shell"""
        self._version = 0
        self._looked = 0  # at the clock, for the last time
        self._hello_due = 0
        self._said = -PACE
        self._down_since: dict[str, int] = {}
        self._changes = -1
        self._passed = Seen()  # control events
        self._out: list[tuple[str, Event]] = []

    # The adapters

    def attach(self, service: str, kind: str, capabilities: "Capabilities", now: int) -> None:
        if service in self.services:
            raise LocalProtocolError(f"service {service!r} is attached already")
        if not service or any([char in service for char in ",*?"]):
            raise LocalProtocolError(f"service name {service!r}: want one without comma, * and ?")
        self.services[service] = Direct(service, kind, capabilities)
        self._forget_plans()
        self._down_since[service] = now
        self._say(now)

    def detach(self, service: str, now: int) -> None:
        del self.services[service]
        self._forget_plans()
        self._down_since.pop(service, None)
        self._say(now)

    def service_up(self, service: str, now: int) -> None:
        one = self.services[service]
        self._down_since.pop(service, None)
        one.connected()
        if one.capabilities.control:
            self._act("subscribe", service, Filter(f"subject = '{SUBJECT}'"), None, "")
        self._collect(one)
        self._say(now)

    def service_down(self, service: str, now: int) -> None:
        one = self.services[service]
        if one.up:
            one.disconnected()
            self._down_since[service] = now
            self._nothing_more(service, now)

    # Events

    def receive(self, event: Event, service: str, now: int) -> "list[tuple[str, Event]]":
        if event.subject != SUBJECT:
            return self.pass_event(event, service)
        self._count("received")
        self._count("control")
        self._control(event, service, now)
        return self.deliveries()

    # Control events

    def _control(self, event: Event, service: str, now: int) -> None:
        try:
            message = from_event(event)
        except RemoteProtocolError as error:
            self._count("control dropped: malformed")
            self._refuse_malformed(event, service, error)
            return
        if isinstance(message, Record):
            self._record(message, event, service, now)
            return
        hops: Any = event.attrs.get("Hops")
        if not message.source and hops is None:
            message.source = service
            event = event.replace(params=message.to_event().params)
        if event.producer is None:
            self.seq += 1
            event = event.stamp(f"{self.name}/{service}"[:64], self.seq)
        if hops is not None and (type(hops) is not int or hops <= 0):
            self._count("control dropped: hop limit")
            return
        identity: Any = event.identity
        if isinstance(message, Answer) and self._answered(message, now):
            return
        if not self.topology.on_tree(service):
            self._count("control dropped: off the tree")
            return
        if hops is not None and not self._passed.is_new(identity[0], identity[1]):
            self._count("control dropped: duplicate")
            return
        if hops is None and isinstance(message, (Subscription, Unsubscription, Announcement, Unannouncement)):
            if message.source != service:
                self._count("control dropped: not its source")
                self._reply(service, identity, service, f"refused: {message.source!r} is not where this was published")
                return
            self.requests.ask(message, identity, now, event.attrs.get("Expires"))
            return
        self._pass_on(message, event, service, MAX_HOPS if hops is None else hops - 1, now)

    def _refuse_malformed(self, event: Event, service: str, error: RemoteProtocolError) -> None:
        """Who asks in a wrong way is told, if it can be: by one gateway, and not when gateways talk."""
        if "Hops" in event.attrs or event.identity is None or event.get("Type") == Answer.type:
            return
        if self.topology.parent(service) == self.name and self.services[service].capabilities.control:
            self._reply(service, event.identity, service, f"refused: {error.reason}")

    def _pass_on(self, message: "Any", event: Event, service: str, hops: int, now: int) -> None:
        """To each service that is meant and lies behind us."""
        further: list[str] = []
        direct: list[str] = []
        back = 0
        for target in message.to.select(self.topology.services()):
            way = self.topology.way(target)
            if way == service or target == message.source:
                back += 1
            elif way == target:
                direct.append(target)
            elif way is not None and way not in further:
                further.append(way)
        if isinstance(message, Echo):
            self._echo(message, event, service, MAX_HOPS - hops, direct, further)
        for target in direct:
            if not isinstance(message, Echo):
                self._apply_passed(message, event, target, now)
        if isinstance(message, Publication) and not direct and not further and not back:
            self._stale(message, event, service, hops)
        for way in further:
            self._out.append((way, event.replace(attrs=_with_hops(event, hops))))

    def _stale(self, message: "Any", event: Event, service: str, hops: int) -> None:
        """A publication whose goals are away just now waits where it would go."""
        names = [name.strip(" \t\r\n") for name in message.to.text.split(",")]
        ways = {self._way(name) for name in names} - {service, None}
        if not ways:
            self._count("dropped: unreachable")
        for way in sorted([way for way in ways if way is not None]):
            if way in names:
                self._put(message.event, way, self._out)
            else:
                self._out.append((way, event.replace(attrs=_with_hops(event, hops))))

    def _apply_passed(self, message: "Any", event: Event, target: str, now: int) -> None:
        if isinstance(message, Publication):
            if message.event.identity is None:
                self._count("dropped: no identity")
                return
            self._put(message.event, target, self._out)
        elif isinstance(message, Answer):
            self._out.append((target, event.replace(attrs={})))
        else:
            self.apply(message, target, (event.identity, message.source), now)

    def _echo(
        self, message: Echo, event: Event, service: str, hop: int, direct: "list[str]", further: "list[str]"
    ) -> None:
        identity: Any = event.identity
        for target in direct:
            one = self.services[target]
            detail = json.dumps({"type": one.kind, "up": one.up, "capabilities": one.capabilities.table()})
            reason = "" if one.up else f"unavailable: {target!r} is not connected to {self.name!r} now"
            answer = Answer(message.source, target, identity, reason, self.name, hop + 1, False, detail)
            self._route(answer)
        if message.trace and (direct or further):
            through = ",".join(further) or "-"
            self._route(Answer(message.source, service, identity, "", self.name, hop + 1, True, through))
        if "Hops" not in event.attrs and self.topology.parent(service) == self.name:
            known = self.topology.services()
            for name in message.to.text.split(","):
                name = name.strip(" \t\r\n")
                if name and "*" not in name and "?" not in name and name not in known:
                    reason = f"unreachable: no gateway is connected to {name!r}"
                    self._route(Answer(message.source, name, identity, reason, self.name, hop + 1))

    def _answered(self, message: Answer, now: int) -> bool:
        """Of a request of ours."""
        producer, seq = message.request
        return producer == self.name and self.requests.answered(seq, message.reason, now)

    # Answers

    def _tell(self, asker: "Any", service: str, reason: str, now: int) -> None:
        who, more = asker[0], asker[1]
        if isinstance(who, tuple):
            self._route(Answer(more, service, who, reason, self.name))
        else:
            self.requests.settled(who, more, reason, now)

    def answer(self, source: str, request: "tuple[str, int]", service: str, reason: str) -> None:
        """To a client of a service of ours."""
        one = self.services.get(source)
        if one is not None and one.capabilities.control:
            self._reply(source, request, service, reason)

    def _reply(self, source: str, request: "tuple[str, int]", service: str, reason: str) -> None:
        event = Answer(source, service, request, reason, self.name).to_event()
        self.seq += 1
        self._out.append((source, event.stamp(self.name, self.seq)))

    def _route(self, message: Answer) -> None:
        """To the one service that it is for."""
        target = message.to.text
        way = self._way(target)
        if way is None:
            self._count("control dropped: unreachable")
        elif way == target:
            event = message.to_event()
            self.seq += 1
            self._out.append((target, event.stamp(self.name, self.seq)))
        else:
            self._out.append((way, self._stamped(message.to_event(), MAX_HOPS)))

    def send(self, message: "Any", way: str) -> int:
        """A control event of our own; its number, for the answer."""
        self._out.append((way, self._stamped(message.to_event(), MAX_HOPS)))
        return self.seq

    def told(self, one: "Standing", service: str, goal: "Goal") -> None:
        what = one.what.text if isinstance(one.what, Filter) else one.what.subject
        self.news.append(("request", one.kind.__name__, what, service, goal.state, goal.reason))

    def ask(self, message: "Any", now: int) -> None:
        """A transparent request: of the configuration, of a person at this gateway."""
        if message.source not in self.services:
            raise LocalProtocolError(
                f"source is {message.source!r}, want a service of this gateway: {', '.join(sorted(self.services))}"
            )
        self.requests.ask(message, None, now)

    def recall(self, event: Event, now: int) -> None:
        """A request of a client from before a restart: one of `requests.events()`."""
        message: Any = from_event(event)
        if message.source in self.services and event.identity is not None:
            self.requests.ask(message, event.identity, now, event.attrs.get("Expires"))

    # Records

    def _say(self, now: int) -> None:
        """Something has changed: soon, and not more often than that."""
        self._hello_due = min(self._hello_due, max(now, self._said + PACE))

    def _record(self, message: Record, event: Event, service: str, now: int) -> None:
        if message.source == self.name:
            if message.incarnation > self.incarnation:
                self._count("control dropped: another gateway of our name")
            return
        known = self.topology.records.get(message.source)
        record = Known(message.source, message.incarnation, message.version, message.transit, message.leaves)
        if not self.topology.put(record, now):
            return
        if known is None or known.incarnation != record.incarnation:
            self.news.append(("gateway", message.source, "heard"))
            self._say(now)  # so that it knows us too
        hops: Any = event.attrs.get("Hops", MAX_HOPS)
        if type(hops) is int and hops > 0:
            attrs = _with_hops(event, hops - 1)
            for name, one in self.services.items():
                if name != service and one.up and one.capabilities.control:
                    self._out.append((name, event.replace(attrs=attrs)))
        self._changed(now)

    def _hello(self, now: int, last: bool = False) -> None:
        self._version += 1
        self._said = now
        self._hello_due = now + self.hello
        here = [
            name
            for name, one in sorted(self.services.items())
            if not last and (one.up or now - self._down_since.get(name, now) < AWAY)
        ]
        transit = tuple([name for name in here if self.services[name].capabilities.control])
        leaves = tuple([name for name in here if not self.services[name].capabilities.control])
        self.topology.put(Known(self.name, self.incarnation, self._version, transit, leaves), now)
        event = self._stamped(Record(self.name, self.incarnation, self._version, transit, leaves).to_event(), MAX_HOPS)
        for name, one in self.services.items():
            if one.up and one.capabilities.control:
                self._out.append((name, event))
        self._changed(now)

    def goodbye(self, now: int) -> "list[tuple[str, Event]]":
        """The last that is said: others need not wait for silence."""
        self._hello(now, last=True)
        return self.deliveries()

    def _changed(self, now: int) -> None:
        """Other ways, perhaps: what we serve may be another's, and what could not be reached may be now."""
        if self.topology.changes == self._changes:
            return
        self._changes = self.topology.changes
        for service in self.topology.services():
            way = self.topology.way(service)
            if way is not None:
                self._last_ways[service] = way
        if len(self._last_ways) > MAX_LAST_WAYS:  # strangers may name services, too
            self._last_ways = {one: way for one, way in self._last_ways.items() if self.topology.way(one) is not None}
        self._forget_plans()
        for one in self.services.values():
            one.drop_where(lambda source, until, one=one: self._not_ours(one.name, source))
            self._collect(one)
        self.requests.pursue(now)

    def _not_ours(self, service: str, source: str) -> bool:
        """Whether another gateway now serves `source` at a direct service."""
        if source == service:
            return True
        way = self.topology.way(source)
        if way is None:
            return False  # away, not moved
        return not self.topology.on_tree(service) or way == service

    # Time

    def next_timeout(self) -> int:
        times = [self._hello_due]
        heard = self.topology.first_heard()
        if heard is not None:
            times.append(heard + self._dead + 1)
        due = self.requests.next_timeout()
        if due is not None:
            times.append(due)
        return min(times)

    @property
    def _dead(self) -> int:
        return self.hello * DEAD // HELLO

    def handle_timeout(self, now: int) -> None:
        """At the latest every `hello`: so a clock that was set back is noticed."""
        if now < self._looked:
            self._set_back(self._looked - now)
        self._looked = now
        for name in self.topology.expire(now - self._dead):
            self.news.append(("gateway", name, "silent"))
        if now >= self._hello_due:
            self._hello(now)
            self._drop_old(now)
        self._changed(now)
        self.requests.pursue(now)

    def _set_back(self, by: int) -> None:
        """The clock was. What was due in a while still is, and who was heard just now was not heard in the future."""
        self._hello_due -= by
        self._said -= by
        for service in self._down_since:
            self._down_since[service] -= by
        self.topology.set_back(by)
        self.requests.set_back(by)
        for one in self.services.values():
            one.set_back(by)

    def _drop_old(self, now: int) -> None:
        """Notes that nobody has asked for again, though who asked could have."""

        def is_over(source: str, until: "int | None") -> bool:
            return until is not None and now >= until and self.topology.way(source) is not None

        for one in self.services.values():
            for source, text in one.drop_where(is_over):
                self.news.append(("note", one.name, source, text, "not asked for again"))
            self._collect(one)

    # What to do

    def deliveries(self) -> "list[tuple[str, Event]]":
        found, self._out = self._out, []
        return found


def _with_hops(event: Event, hops: int) -> "dict[str, Any]":
    attrs = dict(event.attrs)
    attrs["Hops"] = hops
    return attrs
