"""The traffic control application, running: a client of the overlay around the core (control.py).

    overlay ──▶ durable subscription ──▶ TrafficControl ──▶ Store, several at once, with how far it has read
       ▲                                      │
       └── control events ◀── Signs ◀── limits in force: when one is set, and at its times of day

What is saved says up to which delivery: after a crash the broker gives the rest again, and nothing is counted twice.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from vicinal.control import SUBJECT, Answer, from_event
from vicinal.errors import RemoteProtocolError, VicinalError

from ..broker.client import Advertisement, Client, Delivery, Subscription, connect
from ..broker.dial import CannotConnect
from ..broker.tokens import read_token
from .cases import Case
from .config import Config
from .control import TrafficControl
from .limits import Hours, Rule
from .paths import Path, Paths, hops_of
from .recent import KEPT, Recent
from .reports import SUBJECTS, monitor_of
from .signs import DISPLAY, Sign, Signs
from .store import Held, Store
from .watch import Watch

__all__ = ["Office", "monitor_of"]

_log = logging.getLogger("vicinal.traffic")

SAVE = 0.25
"""seconds between two transactions: after a crash the broker says so much again"""
RETAIN = 600.0
FIRST_RETRY, LAST_RETRY = 0.2, 5.0
WANTED = f"subject IN ({', '.join(repr(one) for one in SUBJECTS)})"


class Office:
    def __init__(self, config: Config, store: Store) -> None:
        self.config = config
        self.store = store
        self.control = TrafficControl(config.network, config.settings)
        self.paths = Paths()
        services = {name: config.services.format(monitor=name) for name in config.network.monitors}
        self.signs = Signs(config.name, config.source, services)
        self.heard: dict[str, dict[str, int]] = {name: {} for name in services}
        """of each monitor, by subject"""
        self.recent = Recent(store.last_cases(KEPT))
        self.watch = Watch(config.watch, lambda: (self.now(), self.control.counters["received"], self.paths.links))
        self.connected = False
        self._offset: int | None = None
        self._client: Client | None = None
        self._asking: Advertisement | None = None
        self._showing: Advertisement | None = None
        areas = list(config.network.areas)
        self._zones = {name: areas.index(one.area) for name, one in config.network.monitors.items()}
        self._tasks: list[asyncio.Task[Any]] = []
        self._turn = asyncio.Event()
        store.restore(self.control)
        for name, shown, standing in store.signs():
            self.signs.recall(name, shown, standing)

    # Living

    async def start(self) -> None:
        """Returns when the overlay is there and it is known what is wanted of it."""
        client = self._client = await self._connect()
        self._asking = await client.advertise(f"subject = '{SUBJECT}'", self.config.scopes)
        self._showing = await client.advertise(f"subject = '{DISPLAY}'", self.config.scopes)
        answers = await client.subscribe(
            f"subject = '{SUBJECT}' AND Type = {Answer.type} AND RequestProducer = '{self.config.name}'"
        )
        events = await client.subscribe(
            WANTED, self.config.scopes, durable=self.config.name, offset=self.store.offset()
        )
        live = await client.subscribe(WANTED, self.config.scopes)
        self.connected = True
        loop = asyncio.get_running_loop()
        parts = (
            self._listen(events), self._look_on(live), self._hear_answers(answers), self._work(), self._retain(),
            self.watch.run(),
        )  # fmt: skip
        self._tasks = [loop.create_task(part) for part in parts]

    async def _connect(self) -> Client:
        wait, file = FIRST_RETRY, self.config.token
        token = None if file is None else partial(read_token, file)
        while True:
            try:
                return await connect(self.config.broker, self.config.name, token=token)
            except (CannotConnect, ConnectionError) as error:
                _log.warning("%s; again in %.1f s", error, wait)
                await asyncio.sleep(wait)
                wait = min(2 * wait, LAST_RETRY)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        self._save()

    async def failed(self) -> None:
        """Returns, or raises why, when a part of it has ended: it should not."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()

    def now(self) -> int:
        assert self._client is not None
        return self._client.now()

    # Events

    async def _listen(self, events: Subscription) -> None:
        async for delivery in events:
            self.receive(delivery)

    async def _look_on(self, live: Subscription) -> None:
        """What comes from a log has no trail: which brokers an event went through is heard here, while it does."""
        async for delivery in live:
            self.paths.trail(delivery.event.identity, delivery.trail)

    def receive(self, delivery: Delivery) -> str:
        event, monitor = delivery.event, monitor_of(delivery.event.producer)
        verdict = self.control.receive(event, monitor, delivery.time)
        if delivery.offset is not None:
            self._offset = delivery.offset + 1
        by_subject = self.heard.setdefault(monitor, {})
        by_subject[event.subject] = by_subject.get(event.subject, 0) + 1
        vehicle, seq = event.attrs.get("OriginProducer", event.producer), event.attrs.get("OriginSeq", event.seq)
        params = {name: value for name, value in event.params.items() if name != "license_no" or verdict == "over"}
        hops = hops_of(event, delivery.time)
        path = Path(self.paths.last + 1, str(vehicle), seq or 0, event.subject, monitor, params, verdict, hops)
        self.paths.add(event.identity, path)
        return verdict

    # Limits

    def set_limit(self, area: str, value: int, who: str, hours: Hours | None = None) -> Rule:
        rule = self.control.set_limit(area, value, self.now(), who, hours)
        self._turn.set()
        return rule

    async def _hear_answers(self, answers: Subscription) -> None:
        async for delivery in answers:
            try:
                answer = from_event(delivery.event)
            except RemoteProtocolError:
                continue
            if isinstance(answer, Answer):
                sign = self.signs.answered(answer, self.now())
                if sign is not None:
                    self._say(sign)
                    self.store.set_sign(sign.monitor, sign.shown, sign.standing)
                    self._turn.set()

    def _say(self, sign: Sign) -> None:
        if sign.problem:
            _log.warning("monitor %s does not take its limit: %s", sign.monitor, sign.problem)
        elif sign.done:
            _log.info("monitor %s shows %s", sign.monitor, sign.shown)

    async def _work(self) -> None:
        """What time brings: limits of the hour, fines, and what is to be kept."""
        while True:
            now = self.now()
            for monitor in self.signs.signs:
                self.signs.want(monitor, self.control.limit_of(monitor, now), now)
            for event in self.signs.requests(now):
                assert self._client is not None
                assert self._asking is not None
                sign = next(one for one in self.signs.signs.values() if one.service == event["DistList"])
                self.store.set_sign(sign.monitor, sign.shown, sign.standing)
                await self._client.submit(event, self._asking)
            for event in self.signs.displays(self._zones, now):
                assert self._client is not None
                assert self._showing is not None
                await self._client.submit(event, self._showing)
            self.control.handle_timeout(now)
            self._save()
            self._turn.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVE):
                    await self._turn.wait()

    def _save(self) -> None:
        changes = self.control.changes()
        if changes:
            self.store.save(changes, self._offset)
            for number, _ in changes.merged:
                self.recent.remove(number)
            for case in changes.cases:
                self.recent.put(case)

    async def _retain(self) -> None:
        while True:
            self.store.retain(self.now(), self.config.retention)
            await asyncio.sleep(RETAIN)

    # Cases

    def move(self, number: int, state: str, who: str, note: str) -> Case:
        """An open case may be made void; every other step is of one that is not open."""
        case = self.control.void(number, self.now(), who, note) if state == "void" else None
        self._save()
        if case is None:
            case = self.store.move(number, state, self.now(), who, note)
            self.recent.put(case)
        return case

    def driver(self, plate: str, vehicles: Iterable[str] = ()) -> dict[str, Any]:
        self._save()
        return self.store.driver(plate, vehicles)

    def erase(self, plate: str, vehicles: Iterable[str] = ()) -> Held:
        """`vehicles` are its pseudonyms, which who has the keys can compute: keys are not kept here."""
        self._save()
        names = set(vehicles) | self.store.vehicles_of(plate)
        found = self.store.erase(plate, names)
        self.recent.forget(plate, found.held)
        self.control.whereabouts.erase(names)
        self.paths.erase(names)
        return found

    def accounts(self) -> dict[str, Any]:
        """What came, and what became of it: the sums hold at every instant."""
        return {
            "control": self.control.accounts(),
            "heard": self.heard,
            "offset": self._offset,
            "latency_ms": self.paths.latency(),
        }


async def run(config: Config, serve: Any, stop: asyncio.Event) -> None:
    """`serve(office)` is an async context manager: the pages, while it runs."""
    store = Store(config.database)
    office = Office(config, store)
    starting = asyncio.ensure_future(office.start())
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return
        starting.result()
        async with serve(office):
            ended = asyncio.ensure_future(office.failed())
            await asyncio.wait([ended, stopping], return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                ended.result()
                raise VicinalError("a part of the office has ended")
            ended.cancel()
    finally:
        starting.cancel()
        stopping.cancel()
        await office.stop()
        store.close()
