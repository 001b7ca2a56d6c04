"""The gateway's engine and its services, in one event loop.

    adapter ──▶ Service.received ──▶ mapping, types ──▶ engine ──▶ queue of each target ──▶ Service ──▶ adapter
                                                          │
                                                     actions ──▶ Service.do ──▶ adapter ──▶ applied

Everything here happens in turns of the loop; what waits for the disk is in the queues (store.py).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vicinal import json_form
from vicinal.control import SUBJECT, Answer, Publication
from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.federation.drop_policy import DEFAULT_CLASSES
from vicinal.federation.gateway import Gateway
from vicinal.filter import Filter

from ..adapters._numbers import replace, replace_number
from ..store import QueueOptions, Store, StoredQueue, StoreOptions
from .config import EXAMPLES, Config, ServiceConfig
from .service import Service

__all__ = ["Node", "wall_clock"]

_log = logging.getLogger("vicinal.gateway")

# Seconds between two lines of one kind in the log.
SELDOM = 60.0
# Of numbers that are reserved on disk, and how many of them may be left before more are.
BLOCK, MARGIN = 1_000_000, 500_000
# Seconds in which requests of clients are gathered before they are written, and answered.
REMEMBER = 0.02
# Milliseconds that a clock may be off, and after which it is believed that it was set; a clock before 2023 was not.
A_LITTLE, BELIEVED, NEVER_SET = 2000, 60_000, 1_672_531_200_000
# Characters of the attribute Trace to which another gateway is added: some twenty gateways.
MAX_TRACE = 1000
# From this priority on an event does not wait for the rate of a drain.
URGENT = 1000


def wall_clock(
    wall: Callable[[], int] = time.time_ns, steady: Callable[[], int] = time.monotonic_ns
) -> Callable[[], int]:
    """Unix milliseconds that go on by the steady clock, so that what is good for an hour lasts one, whatever becomes of
    the clock of this machine meanwhile. Where that is a little off, it is followed, never backwards; where it jumps, it
    is followed when it has stayed with that for a minute: events carry times of others, so a clock that is set right
    must be, and one that is wrong for a moment must not make everything that is stored expire. One that was never set
    is followed at once."""
    start = steady() // 1_000_000
    offset = wall() // 1_000_000 - start
    latest = jump = 0
    since = start

    def now() -> int:
        nonlocal offset, latest, jump, since
        passed = steady() // 1_000_000
        ahead = wall() // 1_000_000 - passed - offset
        if -A_LITTLE <= ahead <= A_LITTLE:
            offset += ahead
            jump = 0
        elif passed + offset < NEVER_SET:
            offset += ahead
        elif not jump or abs(ahead - jump) > A_LITTLE:
            jump, since = ahead, passed
        elif passed - since >= BELIEVED:
            offset += ahead
            jump = latest = 0
        latest = max(latest, passed + offset)
        return latest

    return now


def reserve(file: Path, now: int) -> int:
    """BLOCK numbers from this one on, which are never given again. Where the file is lost, as with a new card of the
    same gateway, they are above all that it can have held: a block for each second of the clock. Else others would take
    what it says for old, and its events for those they have."""
    try:
        text = file.read_text().strip()
    except FileNotFoundError:
        text = str(now // 1000 * BLOCK)
    if not text.isdecimal():
        raise LocalProtocolError(f"{file} holds {text[:40]!r}, want a number: numbers must not be used twice")
    replace_number(file, int(text) + BLOCK)
    return int(text)


class Node:
    def __init__(self, config: Config, store: Store, now: Callable[[], int]) -> None:
        """Within a running loop. Use `open`."""
        self.config = config
        self.name = config.name
        self.store = store
        self.now = now
        self.place: tuple[int, int] | None = config.place.fixed
        self.watch: Callable[[str, str, Event], None] | None = None
        """somebody who looks on: told ("accepted", service, event) of every event that is to be published there, and
        ("acknowledged", service, event) when it was, of adapters that take one at a time"""
        self._loop = asyncio.get_running_loop()
        first = reserve(config.state / "numbers", now())
        self._reserved = first + BLOCK
        self.engine = Gateway(self.name, first // BLOCK, first, config.hello)
        self.services: dict[str, Service] = {}
        self._own: dict[str, tuple[str, Filter, Callable[[Event], None]]] = {}
        self._said: dict[Any, tuple[float, int]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._remembered = 0
        self._remembering: asyncio.TimerHandle | None = None
        self._answers: list[tuple[str, Event]] = []

    @classmethod
    async def open(cls, config: Config) -> "Node":
        config.state.mkdir(parents=True, exist_ok=True)
        now = wall_clock()
        made: Node | None = None
        options = StoreOptions(max_bytes=config.store["max_mb"] << 20)
        store = await Store.open(
            config.state / "store.sqlite", options, now, lambda: None if made is None else made.position()
        )
        if store.damaged:
            _log.error("the store was damaged, and what could be read of it is kept: %s", store.damaged)
        try:
            made = cls(config, store, now)
            await made._begin()
        except BaseException:
            await store.close()  # else nobody else could open it, as who goes back to an older configuration
            raise
        return made

    async def _begin(self) -> None:
        for one in self.config.services:
            await self._add(one)
        self.engine.objection = self.objection
        self.engine.handle_timeout(self.now())
        for request in self.config.requests:
            self.engine.ask(request, self.now())
        self._recall(self.config.state / "requests.jsonl")
        for heard in self.store.heard.values():
            self.engine.recall_heard(heard.source, heard.producer, heard.seq)

    async def _add(self, one: ServiceConfig) -> None:
        folder = self.config.state / one.name
        folder.mkdir(parents=True, exist_ok=True)
        able = _with_control(one.make().capabilities, one.control)
        options = QueueOptions(
            durable=one.store,
            max_count=None if one.store else one.flow.out_count,
            classes=self.config.store["classes"] or DEFAULT_CLASSES,
            located=able.located,
            window=one.flow.window,
            rate=one.flow.out_rate or (self.config.store["drain_rate"] if one.store else 0),
            burst=one.flow.out_burst,
            free_from=URGENT,
        )
        queue = await self.store.queue(one.name, options)
        self.services[one.name] = Service(self, one, queue, folder)
        self.engine.attach(one.name, one.type, able, self.now())

    def start(self) -> None:
        for service in self.services.values():
            service.start()
        self.turn()

    async def stop(self) -> None:
        """Says goodbye, so that others need not wait, and lets what was handed out be acknowledged."""
        for name, event in self.engine.goodbye(self.now()):
            if name in self.services and self.services[name].state == "up":
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(1):
                        await self.services[name].adapter.publish(event)
        await asyncio.gather(*(service.stop() for service in self.services.values()))
        for handle in (self._timer, self._remembering):
            if handle is not None:
                handle.cancel()
        self._remember()
        await self.store.close()

    # The engine's turns

    def turn(self) -> None:
        """What the engine wants done, and when it wants to be asked again."""
        for number, verb, name, what in self.engine.actions():
            if verb == "announce":
                self.config.types.learn(what)
            self.services[name].do(number, verb, what)
        self._hand_on(self.engine.deliveries())
        for item in self.engine.news:
            _tell(item)
        self.engine.news.clear()
        if self.engine.requests.changes != self._remembered and self._remembering is None:
            self._remembering = self._loop.call_later(REMEMBER, self._remember)
        if self.engine.seq > self._reserved - MARGIN:
            self._reserve()
        if self._timer is not None:
            self._timer.cancel()
        wait = min(max(0, self.engine.next_timeout() - self.now()), self.config.hello)
        self._timer = self._loop.call_later(wait / 1000, self._expire)

    def _reserve(self) -> None:
        """Half of them are left: a disk that fails now may be in order before they are used up."""
        try:
            self._reserved = reserve(self.config.state / "numbers", self.now()) + BLOCK
        except (OSError, LocalProtocolError) as error:
            if self.engine.seq >= self._reserved:
                raise
            self.say_sometimes(
                "numbers", f"numbers cannot be reserved, {self._reserved - self.engine.seq} left: {error}"
            )

    def _expire(self) -> None:
        self._timer = None
        self.engine.handle_timeout(self.now())
        self.turn()

    def objection(self, source: str, condition: Filter) -> str:
        """Why none of the events that a service asks for could be represented there, as far as their types are known:
        said when it asks, and not when they come."""
        reasons = []
        service = self.services[source]
        for one in self.config.types.types():
            if not condition.overlaps(Filter(f"subject = '{one.subject.replace(chr(39), chr(39) * 2)}'")):
                continue
            event = Event(one.subject, [(name, EXAMPLES.get(kind, "")) for name, kind in one.params.items()])
            try:
                mapping = service.config.mapping
                event = event if mapping is None else mapping.outward(event)
                reason = service.adapter.capabilities.refusal(event)
            except LocalProtocolError as error:
                reason = str(error)
            if not reason:
                return ""
            reasons.append(reason)
        return reasons[0] if reasons and _names_subjects(condition) else ""

    def service_up(self, service: Service) -> None:
        able = _with_control(service.adapter.capabilities, service.config.control)
        self.engine.services[service.service].capabilities = able
        self.engine.service_up(service.service, self.now())
        for name, condition, _ in self._own.values():
            if name == service.service:
                service.do(0, "subscribe", condition)
        self.turn()

    def listen_for(self, subject: str, condition: str, service: str, handler: Callable[[Event], None]) -> None:
        """Events of `subject` at one service are for the gateway itself."""
        self._own[subject] = (service, Filter(condition), handler)
        if self.services[service].state == "up":
            self.services[service].do(0, "subscribe", self._own[subject][1])

    def say(self, service: str, event: Event) -> None:
        """Of the gateway itself; it is not kept, so who says it says it again."""
        if self.services[service].state == "up":
            self.services[service].talk.offer(event)

    def service_down(self, service: Service) -> None:
        self.engine.service_down(service.service, self.now())
        self.turn()

    def applied(self, number: int, reason: str) -> None:
        self.engine.applied(number, reason, self.now())
        self.turn()

    # Events

    def receive(self, event: Event, service: Service, source: str = "") -> "list[asyncio.Future[int]]":
        """An event of a service. Where it says again what is not acknowledged to it, it is the `source`, and it is to
        be acknowledged when these are done."""
        if event.subject == SUBJECT:
            passed = self._hand_on(self.engine.receive(event, service.service, self.now()), source, passed=True)
            self.turn()
            return passed
        own = self._own.get(event.subject)
        if own is not None and own[0] == service.service:
            own[2](event)
            return []
        mapping = service.config.mapping
        if mapping is not None:
            try:
                event = mapping.inward(event)
            except LocalProtocolError as error:
                service.drop("not mapped")
                service.say_sometimes("not mapped", f"{service.service}: {error}")
                return []
        refusal = self.config.types.check(event)
        if refusal:
            service.drop("not of its type")
            service.say_sometimes("type", f"{service.service}: {refusal}")
            return []
        if self.config.trace or "Trace" in event.attrs:
            event = self._traced(event, service.service)
        found = self.engine.pass_event(event, service.service)
        waits: list[asyncio.Future[int]] = []
        if found:
            if self.engine._actions:  # an announcement is made up: it goes first
                self.turn()
            waits = self._hand_on(found, source)
        if self.engine.seq > self._reserved - MARGIN:
            self.turn()
        return waits

    def acknowledged(self, service: str, event: Event, done: "asyncio.Future[Any]") -> None:
        if self.watch is not None and not done.cancelled() and done.exception() is None:
            self.watch("acknowledged", service, event)

    def _traced(self, event: Event, service: str) -> Event:
        """FED-26: where and when it came into a gateway. `Trace` that is no string is for brokers alone."""
        attrs, now = dict(event.attrs), self.now()
        trail = attrs.get("Trace", "" if self.config.trace else None)
        if event.producer is None and not trail and "Time" not in attrs:
            attrs["Time"], attrs["Trace"] = now, ""  # its identity says by whom: a radio has no room for it twice
        elif type(trail) is str and len(trail) <= MAX_TRACE:
            attrs["Trace"] = f"{trail}{', ' if trail else ''}{self.name}/{service} {now}"
            if self.config.trace:
                attrs.setdefault("Time", now)
        return event.replace(attrs=attrs)

    def _hand_on(
        self, deliveries: list[tuple[str, Event]], source: str = "", passed: bool = False
    ) -> "list[asyncio.Future[int]]":
        """Of what another gateway has `passed` on, it is where it was put, and not where it was heard, that it must be
        known when it comes again (FED-19)."""
        waits: list[asyncio.Future[int]] = []
        for name, event in deliveries:
            if self.watch is not None:
                self.watch("accepted", name, event)
            service = self.services[name]
            if event.subject != SUBJECT or event.get("Type") == Publication.type:
                if source and isinstance(service.queue, StoredQueue):
                    waits.append(service.queue.accept(event, name if passed else source))
                else:
                    service.queue.offer(event)
            elif event.get("Type") == Answer.type and self.engine.requests.changes != self._remembered:
                self._answers.append((name, event))  # who is told that it was applied may rely on it after a power cut
            else:
                self._talk(name, event)
        return waits

    def _talk(self, name: str, event: Event) -> None:
        if self.services[name].state == "up":
            self.services[name].talk.offer(event)

    # What survives

    def _recall(self, file: Path) -> None:
        """The requests of clients, from before."""
        if not file.exists():
            return
        try:
            lines = file.read_bytes().split(b"\n")  # a text may hold what else counts as the end of a line
        except OSError as error:
            lines = []
            _log.error("%s cannot be read, so that clients have to ask again: %s", file, error)
        for number, line in enumerate(lines, 1):
            try:
                if line:
                    self.engine.recall(json_form.loads(line), self.now())
            except (UnicodeDecodeError, VicinalError) as error:
                _log.error("%s: line %d cannot be read, so that a client has to ask again: %s", file, number, error)
        self._remembered = self.engine.requests.changes

    def _remember(self) -> None:
        self._remembering = None
        if self.engine.requests.changes == self._remembered:
            return
        changes = self.engine.requests.changes
        lines = [json_form.dumps(event) + "\n" for event in self.engine.requests.events()]
        try:
            replace(self.config.state / "requests.jsonl", "".join(lines))
            self._remembered = changes  # else it is tried again with the next turn
        except OSError as error:
            self.say_sometimes("remember", f"requests of clients cannot be kept: {error}")
        answers, self._answers = self._answers, []
        for name, event in answers:
            self._talk(name, event)

    def position(self) -> tuple[int, int] | None:
        return self.place

    def say_sometimes(self, key: Any, text: str) -> None:
        now = self._loop.time()
        last, silent = self._said.get(key, (-SELDOM, 0))
        if now - last < SELDOM:
            self._said[key] = (last, silent + 1)
            return
        self._said[key] = (now, 0)
        _log.warning("%s%s", text, f" (and {silent} more like it)" if silent else "")


def _tell(item: tuple[Any, ...]) -> None:
    """What the engine has to say to people: what came of a request, and which gateways it hears of."""
    if item[0] != "request":
        _log.info("%s", " ".join(str(word) for word in item))
        return
    _, kind, what, service, state, reason = item
    level = logging.WARNING if state in ("refused", "unreachable", "timed out") else logging.INFO
    _log.log(level, "%s %s at %s: %s", kind, what, service, reason or state)


def _names_subjects(condition: Filter) -> bool:
    """A filter that says nothing of the subject asks for types that nobody knows of yet, too."""
    return not condition.overlaps(Filter("subject = 'FES_no subject of anybody'"))


def _with_control(able: Capabilities, control: bool | None) -> Capabilities:
    if control is None or control == able.control:
        return able
    if control:
        return able  # what it cannot do it cannot be told to
    values = able.table()
    values["control"] = False
    return Capabilities(**values)
