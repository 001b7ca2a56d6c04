"""The agent itself, as a state machine: events of its ports go in, requests to the gateway come out.

    agent = Agent(config, journal, seed, version, now)
    agent.offer(event, now, port)        of a bus, a radio, a sensor
    agent.client                         its CoAP client: a shell moves the datagrams (link.py); None without a gateway
    agent.service(now)                   after either, and at the time that it gives

    port ─┬▶ wanted ─▶ rules ─▶ number, time ──▶ journal ──▶ PUT /ps/SUBJECT ──▶ gateway
          │   │ by nobody │ not worth it  │           │ full                │ refused
          │   └── counted └── counted     │           └── counted           └── counted
          └▶ rule of a [[publish]] ───────┴──────▶ a bus, a radio (ways.py)

One event is under way at a time, and the next goes when the gateway has it. A gateway that has no room, or is away, is
asked again, after 1 s and then twice as long each time, 60 s at most. Exactly, in events since the start:

    offered   = returned + unwanted + withheld + waiting at a rule + accepted - own
    accepted  = delivered + refused + stored + dropped              with what was stored at the start
"""

import json

from vicinal import wire
from vicinal._compat import const
from vicinal.coap import events
from vicinal.coap.client import Client, Request
from vicinal.coap.message import GET, PUT
from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event

from .clock import Clock
from .config import rules_of
from .rules import Rules
from .wanted import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vicinal.coap.client import Answer

    from .config import Config
    from .guard import BootGuard
    from .journal import Journal

__all__ = ["Agent"]

# Subjects of the agent's own (spec/agent.md).
RULES = "AgentRules"
HEALTH = "AgentHealth"
_RETRY_FIRST = const(1000)
_RETRY_MOST = const(60000)
# ms until it is looked at again whether there is room for another request.
_LOOK = const(500)
# ms of silence after which the gateway is asked whether it still knows that we observe it.
_REFRESH = const(120000)
# ms without an answer after which it may be another gateway, which knows nothing of us: it is asked again at once.
_AWAY = const(5000)
# Health is news: of an hour without a gateway nobody wants to read the minutes.
_HEALTH_STORED = const(8)


class Agent:
    def __init__(
        self,
        config: "Config",
        journal: "Journal",
        seed: bytes,
        version: str,
        now: int,
        guard: "BootGuard | None" = None,
        block: int = 512,
    ) -> None:
        self.config = config
        self.name = config.name
        self.version = version
        self.journal = journal
        self.guard = guard
        self.clock = Clock()
        self.rules = Rules(list(config.rules), config.only)
        self.wanted = Wanted()
        self.client: Any = None if config.host is None else Client(seed, block, 2048)
        self.ways: Any = None
        if config.publishes:
            from .ways import Ways

            self.ways = Ways(config.publishes)
        self.started = now
        self.counters: dict[str, int] = {}
        self.why = ""
        """what the gateway said when it did not take an event"""
        self.free: Any = None  # a function that says how much memory is left
        self.extra: Any = None  # and one that says more of the agent's health
        self._stored_before = journal.stored
        self._dropped_before = journal.dropped
        self._sending: int | None = None  # the number in the journal of what is under way
        self._retry_at = now
        self._retry = _RETRY_FIRST
        self._rules = ""
        self._observed: Request | None = None
        self._observe_at = now
        self._asked: int | None = None  # when the gateway was, and has not answered since
        self._health_at: int | None = now

    # What the ports and the shell call

    def offer(self, event: Event, now: int, port: str = "") -> None:
        """An event that happened here, or was heard here, by that port."""
        self._count("offered")
        to: list[Any] = []
        if self.ways is not None:
            if self.ways.is_known(event, self.name):
                self._count("returned")
                return
            to = self.ways.offer(event, port, now)
        up = False
        if self.client is not None:
            if self.wanted.by_somebody(event, self.clock, now):
                up = self.rules.offer(event, now) is not None
            else:
                self._count("unwanted")
        if up or to:
            self._accept(event, up, to, now)

    def service(self, now: int) -> int:
        """Everything there is to do now; gives when it must be called again at the latest."""
        for event, up, to in self._waited(now):
            self._accept(event, up, to, now)
        if self._health_at is not None and now >= self._health_at:
            if self.journal.stored < _HEALTH_STORED or self.client is None:
                self._health_at = now + self.config.health if self.config.health else None
                self._say_health(self.health(now), now)
            else:
                self._health_at = now + _RETRY_FIRST
        self.journal.handle_timeout(now)
        if self.client is not None:
            self._send(now)
            if self._observed is None and now >= self._observe_at and self.client.waiting < 2:
                self._observe(now)
            if self.wanted.wants(now) and self.client.waiting < 2:
                self.wanted.observe(self.client, self.rules.begin, now)
            if self.clock.wants(now) and self.client.waiting < 2:
                self.clock.asked(now)
                self.client.request(Request(GET, ["time"], self._told_time), now)
        return self._next(now)

    def _say_health(self, event: Event, now: int) -> None:
        """Wanted or not, and whatever the rules are."""
        to = [] if self.ways is None else self.ways.offer(event, "", now)
        if self.client is not None:
            self._count("own")
        if self.client is not None or to:
            self._accept(event, self.client is not None, to, now)

    def _waited(self, now: int) -> "list[tuple[Event, bool, list[Any]]]":
        """What had to wait by a rule and goes now; one event on several ways is one event."""
        due = self.rules.next_timeout()
        found: list[Any] = (
            [] if due is None or due > now else [(one, True, []) for one in self.rules.handle_timeout(now)]
        )
        if self.ways is None:
            return found
        for event, way in self.ways.handle_timeout(now):
            for each in found:
                if each[0] is event:
                    each[2].append(way)
                    break
            else:
                found.append((event, False, [way]))
        return found

    def _next(self, now: int) -> int:
        times = [self.rules.next_timeout(), self.journal.next_timeout(), self._health_at]
        if self.ways is not None:
            times.append(self.ways.next_timeout())
        if self.client is not None:
            times.append(self.client.next_timeout())
            if self.client.waiting > 1:
                times.append(now + _LOOK)  # the rest has its turn after an answer: not to ask without end
            else:
                times += [self.clock.next_timeout(), self.wanted.next_timeout()]
                if self._observed is None:
                    times.append(self._observe_at)
                if self._sending is None and self.journal.stored:
                    times.append(self._retry_at)
        due = now + _RETRY_MOST
        for each in times:
            if each is not None and each < due:
                due = each
        return max(now, due)

    def health(self, now: int) -> Event:
        """What is said at the start and every `health_s`."""
        guard, counters = self.guard, self.counters
        params: list[tuple[str, Any]] = [
            ("agent", self.name),
            ("version", self.version),
            ("mode", "safe" if guard is not None and guard.safe else "normal"),
            ("uptime_s", (now - self.started) // 1000),
            ("offered", counters.get("offered", 0)),
            ("delivered", counters.get("delivered", 0)),
            ("refused", counters.get("refused", 0)),
            ("stored", self.journal.stored),
            ("dropped", self.dropped),
            ("faults", self.journal.faults + self.journal.damaged),
        ]
        if guard is not None:
            params.append(("boots", guard.boots))
            if guard.why:
                params.append(("why", guard.why))
        if self.free is not None:
            params.append(("free", self.free()))
        if self.extra is not None:
            params.extend(self.extra())
        return Event(HEALTH, params)

    def say_health(self, now: int) -> None:
        """Now, and not only when it is time: something has happened."""
        self._health_at = now

    @property
    def stored_before(self) -> int:
        """Events that were in the journal at the start."""
        return self._stored_before

    @property
    def dropped(self) -> int:
        """Since the start: of the journal, and what got no number or was too long for it."""
        return (
            self.journal.dropped
            - self._dropped_before
            + self.counters.get("no number", 0)
            + self.counters.get("too long", 0)
        )

    def _count(self, what: str) -> None:
        self.counters[what] = self.counters.get(what, 0) + 1

    # Up

    def _accept(self, event: Event, up: bool, to: "list[Any]", now: int) -> None:
        """`up`: to the gateway; `to`: the other ways."""
        seq, stamped = self._stamp(event, up, now)
        for way in to:
            self.ways.give(way, stamped, now)
        if not up:
            return None
        self._count("accepted")
        if stamped is None:
            return self._count("no number")
        data = wire.encode(stamped)
        if len(data) > self.journal.max_event:
            return self._count("too long")
        self.journal.append(seq, data, now)
        return self._send(now)

    def _stamp(self, event: Event, up: bool, now: int) -> "tuple[int, Event | None]":
        """With identity and time, and its number in the journal; None: there are no more numbers."""
        seq, attrs, unix = 0, event.attrs, self.clock.now_unix(now)
        if up or event.producer is None:
            try:
                seq = self.journal.take_seq()
            except LocalProtocolError:
                return 0, None
        if unix is not None and "Time" not in attrs:
            attrs = dict(attrs)
            attrs["Time"] = unix
        stamped = event
        if event.producer is None:
            stamped = event.replace(attrs=attrs, producer=self.name, seq=seq)
        elif attrs is not event.attrs:
            stamped = event.replace(attrs=attrs)
        if self.ways is not None and stamped is not event:
            self.ways.swap(self.rules.rules, event, stamped)
        return seq, stamped

    def _send(self, now: int) -> None:
        if self._sending is not None or now < self._retry_at or self.client.waiting > 1:
            return
        found = self.journal.first()
        if found is None:
            return
        self._sending = found[0]
        if self._asked is None:
            self._asked = now
        path = events.path_of(subject_of(found[1]))
        self.client.request(Request(PUT, path, self._sent, found[1], events.CBOR), now)

    def _sent(self, answer: "Answer", now: int) -> None:
        seq, self._sending = self._sending, None
        code = answer.code
        if seq is None:
            return
        if code and self._asked is not None:
            if now - self._asked > _AWAY:
                for request in (self._observed, self.wanted.request):
                    if request is not None and request.due is not None:
                        request.due = now
            self._asked = None
        if answer.ok:
            # What gave way meanwhile is counted as dropped, and came all the same.
            self._count("delivered" if self.journal.done(seq) else "delivered late")
        elif code >> 5 == 4 and code not in (0x88, 0x9D):
            # It will never take this one (4.08 and 4.29 mean: not now); others may go.
            self.why = answer.reason
            if self.journal.done(seq):
                self._count("refused")
        else:
            self.why = answer.reason
            wait = self._retry if answer.max_age is None else answer.max_age * 1000
            self._retry_at = now + min(wait, _RETRY_MOST)
            self._retry = min(2 * self._retry, _RETRY_MOST)
            return
        self._retry = _RETRY_FIRST
        self._retry_at = now
        self._send(now)

    # Down

    def _observe(self, now: int) -> None:
        condition = f"agent = '{self.name}'"
        self._observed = events.observe(self.client, RULES, condition, self._ruled, now, self._unobserved, _REFRESH)

    def _unobserved(self, answer: "Answer", now: int) -> None:
        self._observed = None
        self._observe_at = now + _RETRY_MOST

    def _ruled(self, event: Event, now: int) -> None:
        """Rules that were pushed down: they replace those of the configuration, as long as the gateway knows them."""
        if event.get("agent") != self.name or event.subject != RULES:
            return
        text = event.get("rules")
        if text == self._rules:
            return  # told again, as when it is observed anew
        try:
            if type(text) is not str:
                raise LocalProtocolError("parameter 'rules' is no text")
            if len(text) < 2 or text[0] != "[" or text[-1] != "]":
                raise LocalProtocolError("parameter 'rules' is no array")  # MicroPython reads "[" as an empty one
            rules = rules_of(json.loads(text), "rules")
        except (VicinalError, ValueError) as error:
            self._count("rules refused")
            self.why = f"rules: {error}"
            return
        self._count("rules set")
        self._rules = text
        self.rules.set(rules)

    def _told_time(self, answer: "Answer", now: int) -> None:
        if answer.ok and answer.payload.isdigit() and len(answer.payload) < 16:
            self.clock.told(int(answer.payload), now)


def subject_of(data: bytes) -> str:
    """Of an event's wire form (spec/wire.md): the text after the head of its array."""
    info = data[1] & 31
    start = 2 if info < 24 else 3
    length = info if info < 24 else data[2]
    return str(data[start : start + length], "utf-8")
