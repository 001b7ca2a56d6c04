"""One event service of a gateway: its adapter, kept alive, and what goes in and out of it.

    connecting ──▶ up ──▶ waiting (back-off) ──▶ connecting ...
                             └──▶ quarantined, for a while, when it fails again and again or says that it cannot

An adapter is a plug-in: whatever it raises, wherever it hangs, is caught here, counted and said, and a fresh one takes
its place. Requests and events are given to it one at a time; requests first, so that a type is announced before its
first event.
"""

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicinal.control import SUBJECT
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.federation.notes import TUNNEL
from vicinal.filter import Filter
from vicinal.mapping.mapping import OUTWARD

from .._store_queue import Queue, QueueOptions
from ..adapter import Adapter, Refused, Result, Unavailable
from .config import ServiceConfig
from .incoming import Incoming
from .plugins import Misbehaved, guarded

if TYPE_CHECKING:
    from .node import Node

__all__ = ["Service"]

_log = logging.getLogger("vicinal.gateway")

# Seconds. What takes longer hangs.
CONNECT = 30.0
REQUEST = 30.0
PUBLISH = 30.0
ACKNOWLEDGE = 120.0
DISCONNECT = 10.0
# Back-off, doubled from the first to the last, with chance; from the start when a life was longer than that, and than
# the wait before it: so an uplink that fails every minute is not left alone for half of it.
FIRST_WAIT, LAST_WAIT, GOOD_LIFE = 0.2, 30.0, 2.0
# So many faults of the adapter itself within so long, and it is left alone for as long.
MAX_FAULTS, FAULTS_WITHIN, QUARANTINE = 5, 300.0, 300.0
# Events given to the adapter before requests are looked at again.
BATCH = 64
# Control events that wait in memory.
MAX_TALK = 2000


class Service(Incoming):
    """Also the Port of its adapter."""

    def __init__(self, node: "Node", config: ServiceConfig, queue: Queue, folder: Path) -> None:
        super().__init__(config)
        self.service = config.name
        self.gateway = node.name
        self.folder = folder
        self.queue = queue
        talk = QueueOptions(max_count=MAX_TALK, rate=config.flow.out_rate, burst=config.flow.out_burst)
        self.talk = Queue(config.name, talk, node.now, node.position)
        """what gateways say to each other: they say it again, so that it is not kept. It has a rate of its own, the
        same again: a backlog of events must not make a gateway seem dead"""
        self._as_it_is = config.mapping is None and config.pseudonyms is None  # events that go out
        self._set_adapter(config.make())
        self.state = "connecting"
        self.reason = ""
        self.lives = 0
        self.faults: deque[float] = deque()
        self._node = node
        self._chance = random.Random()
        self._lost: asyncio.Future[str] | None = None
        self._commands: deque[tuple[int, str, Any]] = deque()
        self._wake = asyncio.Event()
        self._asked = asyncio.Event()
        self._asked.set()
        self._turn = asyncio.Lock()
        self._held: dict[str, int] = {}  # filters that the adapter has, and how many of ours each is
        self._busy_since: float | None = None
        self._owed: dict[tuple[Queue, int], float] = {}  # since when the adapter has not said what became of them
        self._told = 0.0  # when it last has
        self._task: asyncio.Task[None] | None = None

    # Living

    def start(self) -> None:
        self._task = self._loop.create_task(self._live(), name=f"service {self.service}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._disconnect()
        if self._in_timer is not None:
            self._in_timer.cancel()
        self.state = "stopped"

    async def _live(self) -> None:
        wait = FIRST_WAIT
        while True:
            started = self._loop.time()
            self._lost = self._loop.create_future()
            self.state = "connecting"
            try:
                await self._one_life()
            except (Unavailable, TimeoutError, OSError) as error:
                self.reason = str(error) or "it did not answer in time"
            except Refused as error:
                self._fault(f"refused: {error}", MAX_FAULTS)
            except Exception as error:
                self._fault(f"{type(error).__name__}: {error}", 1)
            await self._end()
            if self._loop.time() - started > max(GOOD_LIFE, wait):
                wait = FIRST_WAIT
            self.state = "quarantined" if len(self.faults) >= MAX_FAULTS else "waiting"
            seconds = QUARANTINE if self.state == "quarantined" else wait * self._chance.uniform(0.5, 1.0)
            reason = self.reason.removeprefix(f"{self.service}: ")
            _log.warning("%s: %s: %s; again in %.1f s", self.service, self.state, reason, seconds)
            await asyncio.sleep(seconds)
            self._new_adapter()
            wait = min(2 * wait, LAST_WAIT)

    def _fault(self, reason: str, weight: int) -> None:
        """Of the adapter, not of its service."""
        self.reason = reason
        self.counters["faults"] += 1
        now = self._loop.time()
        while self.faults and now - self.faults[0] > FAULTS_WITHIN:
            self.faults.popleft()
        self.faults.extend([now] * weight)
        _log.error("%s: its adapter failed: %s", self.service, reason)

    def _new_adapter(self) -> None:
        if self.state == "quarantined":
            self.faults.clear()
        try:
            self._set_adapter(self.config.make())
        except (Exception, SystemExit) as error:  # it was made before: the next life will say what is wrong
            self._fault(f"{type(error).__name__}: {error}", 1)

    def _set_adapter(self, adapter: Adapter) -> None:
        self.adapter = adapter
        names = ("publish_many", "publish", "publish_at_once")
        own = [next(one for one in type(adapter).__mro__ if name in vars(one)) for name in names]
        # Who derives from an adapter and has another `publish` means that one.
        self._takes_many = own[0] is not Adapter and issubclass(own[0], own[1])
        self._takes_at_once = self._takes_many and own[2] is own[0] and self._as_it_is

    async def _one_life(self) -> None:
        async with asyncio.timeout(CONNECT):
            await guarded(self.adapter.connect(self))
        self.lives += 1
        self.state, self.reason = "up", ""
        _log.info("%s: connected", self.service)
        self._node.service_up(self)
        assert self._lost is not None
        parts = [self._pump(self.queue), self._pump(self.talk), self._serve(), self._watch()]
        if self.adapter.capabilities.poll:
            parts.append(self._poll())
        work = [self._loop.create_task(guarded(part)) for part in parts]
        try:
            waited: list[asyncio.Future[Any]] = [*work, self._lost]
            done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                if one is self._lost:
                    raise Unavailable(self._lost.result())
                one.result()
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _end(self) -> None:
        self._node.service_down(self)
        self._commands.clear()
        self._held.clear()
        self._busy_since = None
        self._owed.clear()
        await self._disconnect()
        self.queue.failed()  # what was handed over and not acknowledged goes again
        self.talk.failed()

    async def _disconnect(self) -> None:
        try:
            async with asyncio.timeout(DISCONNECT):
                await guarded(self.adapter.disconnect())
        except Exception as error:
            self._fault(f"disconnect: {type(error).__name__}: {error}", 1)

    async def _watch(self) -> None:
        """An adapter that hangs in publish, or never says what became of an event, is noticed here: a timer for each
        event would cost more than the event."""
        while True:
            await asyncio.sleep(PUBLISH / 10)
            now = self._loop.time()
            if self._busy_since is not None and now - self._busy_since > PUBLISH:
                raise TimeoutError(f"its adapter has hung in publish for {PUBLISH:.0f} s")
            # Of what waits for its turn on a slow service the last may be old; but the others before it are answered.
            if self._owed and now - max(self._told, next(iter(self._owed.values()))) > ACKNOWLEDGE:
                raise TimeoutError(f"its adapter has not said in {ACKNOWLEDGE:.0f} s what became of an event")

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self.adapter.capabilities.poll / 1000)
            async with asyncio.timeout(REQUEST):
                await self.adapter.poll()

    # Requests

    def do(self, number: int, verb: str, what: Any) -> None:
        """An action of the engine."""
        self._commands.append((number, verb, what))
        self._asked.clear()
        self._wake.set()

    async def _serve(self) -> None:
        while True:
            while self._commands:
                number, verb, what = self._commands[0]
                reason = ""
                try:
                    async with self._turn, asyncio.timeout(REQUEST):
                        await self._do(verb, what)
                except LocalProtocolError as error:
                    reason = f"refused: {error}"
                self._commands.popleft()
                self._node.applied(number, reason)
            self._asked.set()
            self._wake.clear()
            await self._wake.wait()

    async def _do(self, verb: str, what: Any) -> None:
        adapter, mapping = self.adapter, self.config.mapping
        if verb in ("subscribe", "unsubscribe"):
            condition = what
            if mapping is not None:
                mapped = mapping.map_filter(what, OUTWARD)
                if mapped.refusal:
                    raise Refused(mapped.refusal)
                condition = mapped.filter
            await self._subscribe(condition, 1 if verb == "subscribe" else -1)
        elif verb in ("announce", "unannounce"):
            event = what if mapping is None else mapping.outward(what)
            if verb == "announce":
                refusal = adapter.capabilities.refusal(event)
                if refusal:
                    raise Refused(refusal)
                await adapter.announce(event)
            else:
                await adapter.unannounce(event)
        else:
            await adapter.tunnel(verb == "tunnel")

    async def _subscribe(self, condition: Filter, by: int) -> None:
        """Two filters may be one and the same where names are others."""
        held = self._held.get(condition.text, 0)
        if held == 0 and by > 0:
            await self.adapter.subscribe(condition)
        elif held == 1 and by < 0:
            await self.adapter.unsubscribe(condition)
        self._held[condition.text] = held + by
        if held + by <= 0:
            del self._held[condition.text]

    # Events out

    async def _pump(self, queue: Queue) -> None:
        most = min(BATCH, self.config.flow.window)
        queue.at_once = partial(self._push, queue) if self._takes_at_once else None
        while True:
            flights = await queue.take(most)
            await self._asked.wait()
            async with self._turn:
                if self._takes_many:
                    await self._send_many(queue, flights)
                    await asyncio.sleep(0)  # what was said goes out while the next are made, and others have a turn
                else:
                    for number, event in flights:
                        await self._send(queue, number, event)

    def _push(self, queue: Queue, flights: list[tuple[int, Event]]) -> bool:
        """The short way of what comes while nothing else is to be done; False: it goes the other."""
        if self._turn.locked() or not self._asked.is_set():
            return False
        numbers, events = [number for number, _ in flights], [event for _, event in flights]
        if any(event.subject == TUNNEL for event in events):
            return False
        self._owed[queue, numbers[0]] = self._loop.time()
        try:
            if self.adapter.publish_at_once(events, partial(self._answered, queue, numbers)):
                return True
            self._owed.pop((queue, numbers[0]), None)
            return False
        except (Exception, SystemExit) as error:  # nobody knows what went: the life is over, and all of it goes again
            if self._lost is not None and not self._lost.done():
                odd = isinstance(error, (SystemExit, StopIteration))
                self._lost.set_exception(Misbehaved(f"publish_at_once raised {error!r}") if odd else error)
            return True

    async def _send(self, queue: Queue, number: int, event: Event) -> None:
        self._busy_since = self._loop.time()
        try:
            acknowledged = await self._publish(event)
        except LocalProtocolError as error:
            self._refused(queue, number, error)
            return
        finally:
            self._busy_since = None
        if acknowledged is None:
            queue.done((number,))
        else:
            self._owed[queue, number] = self._loop.time()
            acknowledged.add_done_callback(partial(self._acknowledged, queue, [number]))
            if self._node.watch is not None:
                acknowledged.add_done_callback(partial(self._node.acknowledged, self.service, event))

    async def _send_many(self, queue: Queue, flights: list[tuple[int, Event]]) -> None:
        """As _send for each, in order; what goes through a tunnel is none of the adapter's events."""
        numbers: list[int] = []
        events: list[Event] = []
        for number, event in flights:
            if event.subject == TUNNEL:
                await self._give(queue, numbers, events)
                numbers, events = [], []
                await self._send(queue, number, event)
                continue
            if not self._as_it_is:
                try:
                    event = self._outward(event)
                except LocalProtocolError as error:
                    self._refused(queue, number, error)
                    continue
            numbers.append(number)
            events.append(event)
        await self._give(queue, numbers, events)

    async def _give(self, queue: Queue, numbers: list[int], events: list[Event]) -> None:
        if not events:
            return
        results: list[Result] = []
        self._busy_since = self._loop.time()
        try:
            await self.adapter.publish_many(events, results)
        finally:
            self._busy_since = None
            self._settle(queue, numbers, results)
        if len(results) != len(events):
            raise RuntimeError(f"publish_many gave {len(results)} results for {len(events)} events")

    def _settle(self, queue: Queue, numbers: list[int], results: list[Result]) -> None:
        done: list[int] = []
        waiting: dict[int, tuple[asyncio.Future[Any], list[int]]] = {}
        for number, result in zip(numbers, results):
            if result is None:
                done.append(number)
            elif isinstance(result, asyncio.Future):
                waiting.setdefault(id(result), (result, []))[1].append(number)
            else:
                self._refused(queue, number, result)
        if done:
            queue.done(done)
        for future, several in waiting.values():
            self._owed[queue, several[0]] = self._loop.time()
            future.add_done_callback(partial(self._acknowledged, queue, several))

    async def _publish(self, event: Event) -> "asyncio.Future[None] | None":
        adapter = self.adapter
        if event.subject == TUNNEL:
            data = event.get("Data")
            if event.get("Kind") != self.config.type or type(data) is not bytes:
                raise Refused(f"what comes through the tunnel is {event.get('Kind')!r}, not {self.config.type!r}")
            return await adapter.inject(data)
        return await adapter.publish(event if self._as_it_is else self._outward(event))

    def _outward(self, event: Event) -> Event:
        if self.config.mapping is not None:
            event = self.config.mapping.outward(event)
        if self.config.pseudonyms is not None and event.subject != SUBJECT:
            event = self.config.pseudonyms.hide(event, self.now())
        return event

    def _acknowledged(self, queue: Queue, numbers: list[int], done: "asyncio.Future[Any]") -> None:
        """Of one, or of several that one future stands for."""
        if done.cancelled():
            return  # the life is over: it goes again
        failure = done.exception()
        errors = {} if failure is None else dict.fromkeys(range(len(numbers)), failure)
        if failure is None and isinstance(done.result(), dict):
            errors = done.result()
        self._answered(queue, numbers, errors)

    def _answered(self, queue: Queue, numbers: list[int], errors: dict[int, BaseException]) -> None:
        self._owed.pop((queue, numbers[0]), None)
        self._told = self._loop.time()
        queue.done(numbers if not errors else [one for place, one in enumerate(numbers) if place not in errors])
        for place in sorted(errors):
            error = errors[place]
            if isinstance(error, LocalProtocolError):
                self._refused(queue, numbers[place], error)
            else:
                self.lost(str(error) or type(error).__name__)

    def _refused(self, queue: Queue, number: int, error: Exception) -> None:
        queue.refused(number, "refused by the service")
        self.say_sometimes("refused", f"{self.service}: an event was refused: {error}")

    # The rest of the Port: see incoming.py

    def _receive(self, event: Event, taken: Callable[[], None] | None) -> None:
        if taken is None:
            self._node.receive(event, self)
        else:
            self._when_kept(self._node.receive(event, self, self.service), taken)

    def packet(self, data: bytes) -> None:
        self.received(Event(TUNNEL, [("Kind", self.config.type), ("Data", data)]))

    def malformed(self, reason: str) -> None:
        self.counters["malformed"] += 1
        self.drop("malformed")
        self.say_sometimes("malformed", f"{self.service}: something came that is no event: {reason}")

    def lost(self, reason: str) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(reason)

    def now(self) -> int:
        return self._node.now()

    def position(self) -> tuple[int, int] | None:
        return self._node.position()

    def say_sometimes(self, kind: str, text: str) -> None:
        """Now and then: a bus that talks nonsense must not fill the log."""
        self._node.say_sometimes((self.service, kind), text)

    def status(self) -> dict[str, Any]:
        own: dict[str, Any] = {}
        with contextlib.suppress(Exception):
            own = self.adapter.status()
        return {
            "name": self.service,
            "type": self.config.type,
            "state": self.state,
            "reason": self.reason,
            "lives": self.lives,
            "store": self.config.store,
            "capabilities": self.adapter.capabilities.table(),
            "in": {**self.counters, "waiting": len(self._in), "dropped": dict(self.dropped)},
            "out": self.queue.counters(),
            "talk": self.talk.counters(),
            "adapter": own,
        }
