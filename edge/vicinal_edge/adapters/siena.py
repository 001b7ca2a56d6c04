"""Our broker overlay as an event service of a gateway: a client of one broker of it.

    [[service]]
    type = "siena"
    name = "wide"
    address = "tls://broker.example:7447"        or several: the next is tried when one does not answer
    ca = "ca.pem"                                certificate, key: who we are, where the broker asks for it
    token = "pi-17.token"                        a file with a signed token, read at each connection
    client = "pi-17"                             our name there; else GATEWAY.SERVICE
    scopes = { geography = "dublin" }            where we publish and listen; only = true: in no other dimension
    durable = true                               what comes while we are away is kept by the broker

A broker lets a client publish under its own name only, and knows by (producer, seq) what it has. So the identity of an
event goes as the attributes OriginProducer and OriginSeq, and in the overlay it has one of ours (a lane, see _lane.py):

    CLIENT              events that are not kept: numbers of our own that never come twice (_numbers.py)
    CLIENT~TOKEN        events of the gateway's store: the attribute StoreSeq is the number, and does not travel
    CLIENT~TOKEN~again  what the broker could not take when it was its turn, and has taken later ones instead

An event with a StoreSeq is in the broker once, however often it is published: after a crash it gets the same name and
number. For that the gateway publishes with rising StoreSeq (after `connect` from the first on that it has no
acknowledgement of) and never gives a number to two events. TOKEN is made once, in the adapter's folder: a gateway with
a new disk has a new name there, and may count from 1 again.

A lost connection is told to the gateway, which connects again; what was not acknowledged fails with Unavailable.
Overlapping durable subscriptions are different logs of the broker: between them the order of a producer may be lost.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from vicinal import limits, wire
from vicinal.errors import LimitError, LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.filter import Filter
from vicinal.tables_cpython import Table
from vicinal_cloud.broker.address import Tls, parse
from vicinal_cloud.broker.client import Client, Handle, Subscription, connect
from vicinal_cloud.broker.tokens import read_token

from ..adapter import Adapter, Answered, Port, Refused, Result, Unavailable
from ._lane import Lane, OutOfOrder, asked, settle
from ._numbers import Numbers, kept_text, replace
from ._recent import Recent
from ._siena_runs import Run, when_done

__all__ = ["SienaAdapter"]

# For the identity and the scopes, which go with an event.
RESERVE = 1024
# Identities that are remembered, of what came and of what went: an event that comes round a loop comes soon.
MEMORY = 16384
# What the names of our lanes add.
SUFFIX = len("~01234567~again")
# Seconds between two writings of how far durable subscriptions have come.
OFFSETS_EVERY = 1.0
_OURS = ("OriginProducer", "OriginSeq", "StoreSeq")
_log = logging.getLogger("vicinal.gateway")


class SienaAdapter(Adapter):
    capabilities = Capabilities(max_bytes=limits.MAX_EVENT_BYTES - RESERVE, filter="content")

    def __init__(self, service: str, settings: Table) -> None:
        super().__init__(service, settings)
        several = isinstance(settings.values.get("address"), list)
        texts = settings.names("address") if several else (settings.take("address", str, required=True),)
        try:
            self.addresses = [parse(text) for text in texts]
        except LocalProtocolError as error:
            raise settings.error("address", str(error)) from error
        if not texts:
            raise settings.error("address", "is empty, want at least one")
        files = {key: settings.path(key) for key in ("certificate", "key", "ca", "token")}
        for key, file in files.items():
            if file is not None and not file.is_file():
                raise settings.error(key, f"is {str(file)!r}, which is no file")
        token = files.pop("token")
        self._token = None if token is None else partial(read_token, token)
        self._tls = Tls(**files)
        self._client_name: str | None = settings.take("client", str)
        if self._client_name is not None:
            _check_name(self._client_name, partial(settings.fail, "client"))
        self._scopes: dict[str, str] = settings.take("scopes", dict, {})
        for dimension, scope in self._scopes.items():
            if type(scope) is not str:
                raise settings.error("scopes", f"has {dimension} = {scope!r}, want the name of a scope")
        self._rest = not settings.take("only", bool, False)
        self._durable: bool = settings.take("durable", bool, False)
        self.own = self.returned = self.repeated = self.out_of_order = 0
        self._heard, self._said = Recent(MEMORY), Recent(MEMORY)
        self._forget()

    def _forget(self) -> None:
        self._port: Port | None = None
        self._lost = ""
        self._name = self._stored = ""
        self._lanes: dict[str, Lane] = {}
        self._opening = asyncio.Lock()
        self._again = asyncio.Lock()
        self._numbers: Numbers | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._held: dict[str, Subscription] = {}
        self._first: Subscription | None = None
        self._offsets: dict[str, int] = {}
        self._offsets_file = Path()

    # Connecting

    async def connect(self, port: Port) -> None:
        self._forget()
        self._name = self._client_name or f"{port.gateway}.{port.service}"
        _check_name(self._name, _refuse)
        self._stored = kept_text(port.folder / "stored.name", secrets.token_hex(4))
        self._offsets_file = port.folder / "durable.json"
        self._offsets = _read_offsets(self._offsets_file)
        self._port = port
        try:
            await self._lane("")
        except BaseException:
            await self.disconnect()
            raise
        if self._durable:
            self._start(self._write_offsets())

    async def disconnect(self) -> None:
        tasks, lanes, connected = list(self._tasks), list(self._lanes.values()), self._port is not None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for lane in lanes:
            await lane.client.close()
        if connected and self._offsets:
            replace(self._offsets_file, json.dumps(self._offsets))
        self._forget()

    async def _lane(self, suffix: str) -> Lane:
        found = self._lanes.get(suffix)
        if found is None:
            async with self._opening:
                found = self._lanes.get(suffix) or await self._open(suffix)
        return found

    async def _open(self, suffix: str) -> Lane:
        port = self._there()
        client = await self._dial(self._name + suffix)
        client.on_ended = self._ended
        found = self._lanes[suffix] = Lane(client, self._scopes, self._rest)
        if not suffix:
            # The clock is for those who have lost the file, and whose broker has forgotten them.
            self._numbers = Numbers(port.folder / "live.numbers", max(client.last + 1, port.now() * 1000))
        self._start(self._watch(client))
        return found

    async def _dial(self, name: str) -> Client:
        reasons = []
        for address in self.addresses:
            try:
                return await connect(address, name, self._tls, reconnect=False, token=self._token)
            except (VicinalError, OSError) as error:
                reasons.append(str(error))
        raise Unavailable(f"{self.service}: {'; '.join(reasons)}")

    def _ended(self, handle: Handle, reason: str) -> None:
        """We may no longer. What is advertised is asked for again with the next event; what is subscribed to the
        gateway asks for again when it connects anew, and is told why not."""
        if isinstance(handle, Subscription):
            self._lose(reason)

    async def _watch(self, client: Client) -> None:
        error = await client.gone()
        self._lose(str(error))

    def _lose(self, reason: str) -> None:
        if self._port is not None and not self._lost:
            self._lost = reason
            self._port.lost(reason)

    def _there(self) -> Port:
        if self._port is None or self._lost:
            raise Unavailable(f"{self.service} is not connected{': ' if self._lost else ''}{self._lost}")
        return self._port

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Publishing

    async def announce(self, event: Event) -> None:
        self._there()
        await (await self._lane("")).advertise(event.subject)

    async def unannounce(self, event: Event) -> None:
        self._there()
        for lane in list(self._lanes.values()):
            await lane.unadvertise(event.subject)

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        self._there()
        if self._came_from_there(event):
            return None
        attrs, stored = self._attributes(event)
        if stored is None:
            lane = await self._lane("")
            await lane.advertise(event.subject)  # before it has a number: what waits there must not pass others
            assert self._numbers is not None
            return await lane.publish(self._named(event, attrs, lane, self._numbers.next()))
        lane = await self._lane(f"~{self._stored}")
        return await lane.publish(
            self._named(event, attrs, lane, stored), partial(self._not_accepted, event, attrs, stored)
        )

    async def publish_many(self, events: list[Event], results: list[Result]) -> None:
        """In runs of one lane and one subject, with rising numbers. One that cannot be in a run goes alone."""
        self._there()
        kept, run = f"~{self._stored}", Run()
        for event in events:
            if self._came_from_there(event):
                run.wait_for(None)
                continue
            try:
                attrs, stored = self._attributes(event)
                suffix = "" if stored is None else kept
                lane = self._lanes.get(suffix) or await self._lane(suffix)
                if lane.advertised(event.subject) is None:
                    await lane.advertise(event.subject)
                assert self._numbers is not None
                seq = self._numbers.next() if stored is None else stored
                named = self._named(event, attrs, lane, seq)
            except LocalProtocolError as error:
                run.wait_for(error)
                continue
            if lane is not run.lane or event.subject != run.subject:
                await self._publish_run(run, results)
                run = Run(lane, event.subject)
            if seq > run.highest:
                run.add(event, named, stored is not None)
            else:
                await self._publish_run(run, results)
                results.append(await self._publish_alone(event, attrs, lane, seq))
                run = Run()
        await self._publish_run(run, results)

    def publish_at_once(self, events: list[Event], answered: Answered) -> bool:
        """Events of the store, of one subject that is known there."""
        subject = events[0].subject
        lane = self._lanes.get(f"~{self._stored}")
        if lane is None or self._port is None or self._lost:
            return False
        run = Run(lane, subject)
        try:
            for event in events:
                attrs, stored = self._attributes(event)
                identity = event.identity
                if stored is None or stored <= run.highest or event.subject != subject:
                    return False
                if identity is not None and identity in self._heard:
                    return False
                run.add(event, self._named(event, attrs, lane, stored), True)
        except LocalProtocolError:
            return False
        if not lane.publish_at_once(run.events, partial(self._run_not_accepted, run), answered):
            return False
        for event in events:
            if event.identity is not None:
                self._said.add(event.identity)
        return True

    async def _publish_alone(self, event: Event, attrs: dict[str, Any], lane: Lane, seq: int) -> Result:
        try:
            return await lane.publish(
                self._named(event, attrs, lane, seq), partial(self._not_accepted, event, attrs, seq)
            )
        except LocalProtocolError as error:
            return error

    async def _publish_run(self, run: Run, results: list[Result]) -> None:
        future: asyncio.Future[Any] | None = None
        if run.events and run.lane is not None:
            self._there()
            future = await run.lane.publish_many(run.events, partial(self._run_not_accepted, run))
        results.extend([future if result is run else result for result in run.results])  # type: ignore[misc]

    def _run_not_accepted(
        self, run: Run, errors: dict[int, Exception], finish: Callable[[dict[int, BaseException]], None]
    ) -> None:
        """As _not_accepted for each."""
        left: dict[int, BaseException] = {}
        again: dict[int, asyncio.Future[None]] = {}
        for place, error in errors.items():
            left[place] = error
            if run.stored:
                done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                event = run.events[place]
                if self._not_accepted(run.given[place], dict(event.attrs), event.seq or 0, error, done):
                    again[place] = done
        if again:
            self._start(when_done(left, again, finish))
        else:
            finish(left)

    def _came_from_there(self, event: Event) -> bool:
        """Else it is said there now."""
        identity = event.identity
        if identity is not None:
            if identity in self._heard:
                self.returned += 1
                return True
            self._said.add(identity)
        return False

    def _attributes(self, event: Event) -> tuple[dict[str, Any], int | None]:
        """As they are in the overlay, and the number in the store."""
        attrs = dict(event.attrs)
        stored = attrs.pop("StoreSeq", None)
        if stored is not None and type(stored) is not int:
            raise Refused(f"StoreSeq is {stored!r}, want an int")
        if event.producer is not None:
            attrs["OriginProducer"], attrs["OriginSeq"] = event.producer, event.seq
        if len(attrs) > limits.MAX_ATTRS:
            raise LimitError(f"number of attributes of event {event.subject!r}", len(attrs), limits.MAX_ATTRS)
        return attrs, stored

    def _named(self, event: Event, attrs: dict[str, Any], lane: Lane, seq: int) -> Event:
        if not 0 <= seq <= limits.INT_MAX:
            raise LimitError("StoreSeq", seq, "0 .. 2^63-1")
        named = event.remade(attrs, lane.name, seq)
        try:
            data = named._wire = wire.encode(named)
        except LocalProtocolError:
            self._check_size(event)
            raise
        if len(data) > self.capabilities.max_bytes:  # what it has got here is not its own
            self._check_size(event)
        return named

    def _check_size(self, event: Event) -> None:
        attrs = {name: value for name, value in event.attrs.items() if name != "StoreSeq"}
        size, most = len(wire.encode(event.remade(attrs, event.producer, event.seq))), self.capabilities.max_bytes
        if size > most:
            raise LimitError(f"bytes of event {event.subject!r}", size, most)

    def _not_accepted(
        self, event: Event, attrs: dict[str, Any], stored: int, error: BaseException, done: "asyncio.Future[None]"
    ) -> bool:
        """Of an event of the store. What the broker cannot take now comes again, with all that is behind it; where it
        has taken some of that already, by a lane of its own."""
        if isinstance(error, OutOfOrder):
            self._start(self._publish_again(event, attrs, stored, done))
            return True
        if isinstance(error, Unavailable):
            self._lose(str(error))
        return False

    async def _publish_again(
        self, event: Event, attrs: dict[str, Any], stored: int, done: "asyncio.Future[None]"
    ) -> None:
        self.out_of_order += 1
        error: BaseException | None = None
        try:
            async with self._again:  # one behind the other, as they were told
                lane = await self._lane(f"~{self._stored}~again")
                again = await lane.publish(self._named(event, attrs, lane, stored))
            await again
        except VicinalError as raised:
            error = raised
        except asyncio.CancelledError:
            error = Unavailable(f"{self.service} was disconnected")
        settle(done, error)

    # Subscribing

    async def subscribe(self, condition: Filter) -> None:
        self._there()
        if condition.text in self._held:
            return
        client = (await self._lane("")).client
        if self._durable:
            held = await self._subscribe_durably(client, condition)
            self._start(self._read(held, condition.text))
        else:
            held = await asked(client.subscribe(condition, self._scopes, self._rest, among=self._first))
            if self._first is None:
                self._first = held
                self._start(self._read(held, None))
        self._held[condition.text] = held

    async def _subscribe_durably(self, client: Client, condition: Filter) -> Subscription:
        name = sha256(condition.text.encode()).hexdigest()[:16]
        offset = self._offsets.get(condition.text)
        ask = partial(client.subscribe, condition, self._scopes, self._rest, name)
        try:
            found: Subscription = await asked(ask(offset))
        except Refused:
            if offset is None:
                raise
            found = await asked(ask(None))  # the broker has lost it, or dropped the oldest: from the first there is
        return found

    async def unsubscribe(self, condition: Filter) -> None:
        held = self._held.pop(condition.text, None)
        self._offsets.pop(condition.text, None)
        if held is not None and not self._lost:
            await asked((await self._lane("")).client.cancel(held))

    async def _read(self, deliveries: Subscription, durable: str | None) -> None:
        """Taken only when there is room: the broker sends no more than was taken, and keeps or drops the rest."""
        port = self._there()
        try:
            while True:
                await port.room()
                delivery = await anext(deliveries)
                taken = None
                if durable is not None and delivery.offset is not None:
                    taken = partial(self._advance, durable, delivery.offset + 1)
                self._receive(port, delivery.event, taken)
        except VicinalError:
            return  # it is told by who watches the connection

    def _advance(self, durable: str, offset: int) -> None:
        if durable in self._held:
            self._offsets[durable] = offset

    def _receive(self, port: Port, event: Event, taken: Callable[[], None] | None = None) -> None:
        producer = event.producer or ""
        if producer == self._name or producer.startswith(f"{self._name}~"):
            self.own += 1
            return
        first, seq = event.attrs.get("OriginProducer"), event.attrs.get("OriginSeq")
        if first is not None or seq is not None:
            try:
                attrs = {name: value for name, value in event.attrs.items() if name not in _OURS}
                event = event.replace(attrs=attrs, producer=first, seq=seq)
            except VicinalError:
                port.malformed("an event whose OriginProducer and OriginSeq are no identity")
                return
        identity = event.identity
        assert identity is not None  # or the broker has not had it
        if identity in self._said:
            self.returned += 1
        elif identity in self._heard:
            self.repeated += 1
        else:
            self._heard.add(identity)
            port.received(event, taken)

    async def _write_offsets(self) -> None:
        written: dict[str, int] = {}
        while True:
            await asyncio.sleep(OFFSETS_EVERY)
            if self._offsets != written:
                now = dict(self._offsets)
                try:
                    replace(self._offsets_file, json.dumps(now))
                    written = now
                except OSError as error:  # a disk that is full: after a crash some come again, and are known
                    _log.warning("%s: how far it has come cannot be kept: %s", self.service, error)

    def status(self) -> dict[str, int | str]:
        there = self._port is not None and not self._lost
        found: dict[str, int | str] = {
            "state": "connected" if there else f"away: {self._lost or 'not connected'}",
            "broker": self._lanes[""].client.broker if "" in self._lanes else "",
            "client": self._name,
            "connections": len(self._lanes),
            "own": self.own,
            "returned": self.returned,
            "repeated": self.repeated,
            "out_of_order": self.out_of_order,
        }
        return found


def _check_name(name: str, fail: Any) -> None:
    most = limits.MAX_PRODUCER_BYTES - SUFFIX
    if not 0 < len(name.encode()) <= most or "/" in name or "~" in name:
        fail(f"is {name!r}, want 1 to {most} bytes without / and ~")


def _refuse(message: str) -> None:
    raise Refused(f"the name of this client {message}: say `client` in the configuration")


def _read_offsets(file: Path) -> dict[str, int]:
    """Those of an earlier run. Without them all that is kept comes, and what came before is known by its identity."""
    try:
        found = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {str(key): value for key, value in found.items() if type(value) is int} if isinstance(found, dict) else {}
