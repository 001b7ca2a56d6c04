"""The traffic control application, running: a client of the overlay around the core (control.py).

    overlay ──▶ durable subscription ──▶ TrafficControl ──▶ Store, several at once, with how far it has read
       ▲                                      │
       └── control events ◀── Signs ◀── limits in force: when one is set, and at its times of day

What is saved says up to which delivery: after a crash the broker gives the rest again, and nothing is counted twice.
What could not be saved is kept until it can be: while the database is away the office says that it is behind, asks for
it again and again, and takes nothing more from the broker, which has room for it. Nobody can change anything then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from vicinal.control import SUBJECT, Answer, from_event
from vicinal.errors import RemoteProtocolError, VicinalError

from ..broker.client import Advertisement, Client, Delivery, Refused, Subscription, connect
from ..broker.dial import CannotConnect
from ..broker.tokens import read_token
from .cases import Case
from .config import Config
from .control import TrafficControl, no_changes
from .following import Following
from .limits import Hours, Rule
from .paths import Path, Paths, hops_of
from .progress import Progress
from .recent import KEPT, Recent
from .reports import SUBJECTS, monitor_of
from .signs import DISPLAY, Sign, Signs
from .store import Held, Store, StoreAway
from .texts import NAME_MAX, cleaned
from .watch import Watch
from .whereabouts import NEAR_MS

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
        self.signs = Signs(config.name, config.source, services, config.settings.tariff)
        self.heard: dict[str, dict[str, int]] = {name: {} for name in services}
        """of each monitor, by subject"""
        self.recent = Recent(store.last_cases(KEPT))
        self.watch = Watch(
            config.watch, lambda: (self.now(), self.control.counters["received"], self.paths.links), self._look_at_signs
        )
        self.connected = False
        self.behind: str | None = None
        """why what was heard cannot be saved just now"""
        self.progress = Progress()
        self._unsaved = no_changes()
        self._unsaved_signs: set[str] = set()
        self._owed = False
        """whether somebody was told that what they changed is kept later"""
        self._saved_offset: int | None = store.offset()
        self._may_listen = asyncio.Event()
        self._may_listen.set()
        self.following = Following(store.offset(), store.mark())
        self._client: Client | None = None
        self._asking: Advertisement | None = None
        self._showing: Advertisement | None = None
        areas = list(config.network.areas)
        self._zones = {name: areas.index(one.area) for name, one in config.network.monitors.items()}
        self._tasks: list[asyncio.Task[Any]] = []
        self._turn = asyncio.Event()
        store.restore(self.control)
        last = store.span()[1] or 0
        for one in store.sightings(last - config.settings.rules.late_ms - NEAR_MS, last + 1):
            self.control.whereabouts.recall(one)
        for name, shown, standing in store.signs():
            self.signs.recall(name, shown, standing)

    # Living

    async def start(self) -> None:
        """Returns when the overlay is there and it is known what is wanted of it."""
        await self._reconnect()
        events = await self.following.begin(self._subscribe, self._reconnect)
        client = self._client
        assert client is not None
        answers = await client.subscribe(
            f"subject = '{SUBJECT}' AND Type = {Answer.type} AND RequestProducer = '{self.config.name}'"
        )
        live = await client.subscribe(WANTED, self.config.scopes)
        self.connected = True
        self.progress.connected(self.now())
        client.on_connection = self._on_connection
        loop = asyncio.get_running_loop()
        parts = (
            self._listen(events), self._look_on(live), self._hear_answers(answers), self._work(), self._retain(),
            self.watch.run(),
        )  # fmt: skip
        self._tasks = [loop.create_task(part) for part in parts]

    async def _reconnect(self) -> None:
        if self._client is not None:
            await self._client.close()
        client = self._client = await self._connect()
        self._asking = await client.advertise(f"subject = '{SUBJECT}'", self.config.scopes)
        self._showing = await client.advertise(f"subject = '{DISPLAY}'", self.config.scopes)

    async def _subscribe(self, offset: int | None) -> Subscription:
        assert self._client is not None
        return await self._client.subscribe(WANTED, self.config.scopes, durable=self.config.name, offset=offset)

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

    def _on_connection(self, is_there: bool, _: str) -> None:
        if is_there:
            self.progress.connected(self.now())
        else:
            self.progress.lost()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        try:
            self._save()
        except StoreAway as error:
            if self._owed:
                raise
            _log.warning("%s: at the next start the broker says it again, and monitors are asked again", error)

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
        while True:
            try:
                async for delivery in events:
                    await self._may_listen.wait()
                    self.take(delivery)
            except Refused as error:  # the broker came back without what we had heard of it
                events = await self.following.anew(self._subscribe, str(error))

    async def _look_on(self, live: Subscription) -> None:
        """What comes from a log has no trail: which brokers an event went through is heard here, while it does."""
        async for delivery in live:
            self.paths.trail(delivery.event.identity, delivery.trail)

    def take(self, delivery: Delivery) -> str:
        """As the next of the log."""
        self.progress.heard(_stored(delivery), self.now())
        return self.receive(delivery)

    def receive(self, delivery: Delivery) -> str:
        """It is judged by when the broker had it: how long it waited there is not the vehicle's. "again": it may have
        been heard in another log."""
        stored = _stored(delivery)
        if not self.following.heard(delivery, stored):
            return "again"
        event, monitor = delivery.event, monitor_of(delivery.event.producer)
        verdict = self.control.receive(event, monitor, stored)
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
        self._check()
        rule = self.control.set_limit(area, value, self.now(), who, hours)
        self._turn.set()
        self._keep()
        return rule

    def end_limit(self, area: str, since: int, who: str) -> list[Rule]:
        found = self.control.end_limit(area, since, self.now())
        _log.info("%s has ended the limit of %s that was set at %s", who, area, since)
        self._turn.set()
        return found

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
                    self._unsaved_signs.add(sign.monitor)
                    self._turn.set()

    def _look_at_signs(self, asked_at: int, nodes: dict[str, dict[str, Any]]) -> None:
        for name, sign in self.signs.signs.items():
            if name in nodes and self.signs.seen(name, nodes[name].get("asked", {}).get(sign.service, ()), asked_at):
                self._say(sign)
                self._turn.set()

    def _say(self, sign: Sign) -> None:
        if sign.problem:
            _log.warning("monitor %s does not take its limit: %s", sign.monitor, sign.problem)
        elif sign.done:
            _log.info("monitor %s shows %s", sign.monitor, sign.shown)

    async def _work(self) -> None:
        """What time brings, now and then; less often while there is no database."""
        again = FIRST_RETRY
        while True:
            self._turn.clear()
            try:
                await self._do_what_is_due(self.now())
                wait, again = SAVE, FIRST_RETRY
            except StoreAway:
                wait, again = again, min(2 * again, LAST_RETRY)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._turn.wait()

    async def _do_what_is_due(self, now: int) -> None:
        """Limits of the hour, fines, and what is to be kept. What monitors are asked for is saved before they are."""
        assert self._client is not None
        assert self._asking is not None
        assert self._showing is not None
        for monitor, sign in self.signs.signs.items():
            self.signs.want(monitor, self.control.limit_of(monitor, now), now)
            if sign.shown is not None:
                self.control.sign_shows(monitor, sign.shown, now)
        requests = self.signs.requests(now)
        asked = {event["DistList"] for event in requests}
        self._unsaved_signs |= {name for name, one in self.signs.signs.items() if one.service in asked}
        self._pass_time(now)
        for event in requests:
            await self._client.submit(event, self._asking)
        for event in self.signs.displays(self._zones, now):
            await self._client.submit(event, self._showing)

    def _pass_time(self, now: int) -> None:
        """What was heard while it is behind may not be all: nothing is final then."""
        if self.behind is None:
            self.control.handle_timeout(now, self.progress.until(now))
        self._save()

    def _save(self) -> None:
        """All that has changed, with how far it was heard. What raises StoreAway is kept for the next time."""
        changes = self._unsaved = self._unsaved.then(self.control.changes())
        offset, mark = self.following.offset, self.following.mark
        if not changes and not self._unsaved_signs and offset == self._saved_offset and self.behind is None:
            return
        signs = [(name, sign.shown, sign.standing) for name in self._unsaved_signs for sign in [self.signs.signs[name]]]
        try:
            self.store.save(changes, offset, signs, mark)
        except StoreAway as error:
            if self.behind is None:
                _log.warning("%s: what is heard is saved when it is there again", error)
            self.behind = str(error)
            self._may_listen.clear()
            raise
        if self.behind is not None:
            _log.info("the database is there again: all is saved")
            self.progress.connected(self.now())
        self.behind, self._unsaved, self._saved_offset = None, no_changes(), offset
        self._unsaved_signs.clear()
        self._owed = False
        self._may_listen.set()
        for number in [*[old for old, _ in changes.merged], *changes.rewritten]:
            self.recent.remove(number)
        for monitor, vehicle, seq, verdict in changes.verdicts:
            self.paths.judge(monitor, vehicle, seq, verdict)
        for case in changes.cases:
            self.recent.put(case)

    def _check(self) -> None:
        """Before anything is changed: whether it could be kept."""
        self._save()
        self.store.check()

    def _keep(self) -> None:
        """What somebody has changed."""
        try:
            self._save()
        except StoreAway as error:
            self._owed = True
            raise StoreAway(f"{error}; it counts, and is kept when the database is there again") from error

    async def _retain(self) -> None:
        while True:
            try:
                self.retain()
                await asyncio.sleep(RETAIN)
            except StoreAway:
                await asyncio.sleep(LAST_RETRY)

    # Cases

    def move(self, number: int, state: str, who: str, note: str) -> Case:
        """A case to which reports may still be added is the core's; the others the store has."""
        self._check()
        if self.control.holds(number):
            case = self.control.move(number, state, self.now(), who, note)
            self._keep()
        else:
            case = self.store.move(number, state, self.now(), who, note)
            self.recent.put(case)
        return case

    def driver(self, plate: str, vehicles: Iterable[str] = ()) -> dict[str, Any]:
        self._save()
        return self.store.driver(plate, _as_kept(vehicles))

    def erase(self, plate: str, vehicles: Iterable[str] = ()) -> Held:
        """`vehicles` are its pseudonyms, which who has the keys can compute: keys are not kept here."""
        self._save()
        names = _as_kept(vehicles) | self.store.vehicles_of(plate)
        found = self.store.erase(plate, names, self.control.held(plate))
        self.recent.forget(plate, found.held)
        self.control.forget_vehicles(plate, names)
        self.paths.erase(names)
        return found

    def retain(self) -> None:
        """What is too old is removed, from the database and from memory."""
        now, retention = self.now(), self.config.retention
        removed = self.store.retain(now, retention)
        for number in removed.cases:
            self.recent.remove(number)
        self.paths.erase(removed.vehicles)
        self.paths.forget(now - retention.sightings)

    def accounts(self) -> dict[str, Any]:
        """What came, and what became of it: the sums hold at every instant."""
        return {
            "control": self.control.accounts(),
            "heard": self.heard,
            "offset": self.following.offset,
            "again": self.following.again,
            "behind": self.behind,
            "latency_ms": self.paths.latency(),
        }


def _stored(delivery: Delivery) -> int:
    return delivery.time if delivery.stored is None else delivery.stored


def _as_kept(vehicles: Iterable[str]) -> set[str]:
    """What cannot be a vehicle's name is in quarantine as far as it could be kept."""
    return {cleaned(one, NAME_MAX) for one in vehicles}


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
