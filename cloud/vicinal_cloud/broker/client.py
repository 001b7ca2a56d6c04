"""A client of the overlay, for asyncio programs.

    async with await connect("tcp://127.0.0.1:7447", "car-7") as client:
        speeds = await client.advertise("subject = 'Speed'")
        await client.publish(Event("Speed", {"rate": 57.2}), speeds)      returns when the broker has accepted it
        fast = await client.subscribe("rate > 30")
        async for delivery in fast:
            print(delivery.event)

A lost connection is made again, with what was advertised and subscribed, and what was not yet answered is published
again: a broker knows by (producer, seq) what it has. A subscriber gets an event once, in the order of its producer.
"""

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Tags
from vicinal.scope.session_cpython import in_context
from vicinal.siena.connection import BYE_NAMES, LOST, NORMAL, NOT_ADMITTED, TAKEN_OVER, WRONG_VERSION, Connection
from vicinal.siena.messages import CLIENT, VERSION

from ._handles import Advertisement, Delivery, Handle, Subscription
from ._publishes import Publishes, Refused
from ._runs import FIRST_REQUEST, Failed, Run, Told, settling
from .address import Address, Tls, parse
from .clock import clock
from .dial import CannotConnect, backoff, dial
from .link import Link
from .tokens import BadToken, name_in

__all__ = ["Advertisement", "Client", "Closed", "Delivery", "Handle", "Refused", "Subscription", "connect"]

# Deliveries under way to us; granted again by halves.
CREDIT = 1024
_TICK = 0.25
# The broker said that it will not have us: to ask again changes nothing.
_FINAL = (NOT_ADMITTED, TAKEN_OVER, WRONG_VERSION)


class Closed(VicinalError):
    """The connection has ended for good; the message says why."""


async def connect(
    address: str | Address,
    name: str | None = None,
    tls: Tls | None = None,
    chance: random.Random | None = None,
    reconnect: bool = True,
    token: str | Callable[[], str] | None = None,
) -> "Client":
    """Raises CannotConnect, or Closed when the broker does not admit us. Without a name it is one that nobody has. A
    `token` says who we are; one that is called is called for each connection, as they expire."""
    where = address if isinstance(address, Address) else parse(address)
    if name is None and token is not None:
        name = name_in(token if isinstance(token, str) else token())
    chosen = name or f"client-{secrets.token_hex(6)}"
    client = Client(where, chosen, tls or Tls(), chance or random.Random(), reconnect, token)
    await client._first()
    return client


class Client:
    def __init__(
        self,
        address: Address,
        name: str,
        tls: Tls,
        chance: random.Random,
        reconnect: bool,
        token: str | Callable[[], str] | None = None,
    ) -> None:
        """Use `connect`."""
        self.address = address
        self.name = name
        self.broker = ""
        self.connections = 0
        self.duplicates = 0
        self.last = -1
        """the highest seq of ours that the broker knew when we connected"""
        self.now = clock()
        self.on_ended: Callable[[Handle, str], None] | None = None
        """called with an advertisement or a subscription that we may no longer have, and why"""
        self.on_connection: Callable[[bool, str], None] | None = None
        """called when the connection is lost (False, why), and when there is one again (True, the broker's name)"""
        self._tls = tls
        self._token = token
        self._told: dict[int, list[str]] = {}
        self._chance = chance
        self._reconnect = reconnect
        self._link: Link | None = None
        self._ready = False
        self._handles: list[Handle] = []
        self._subscriptions: dict[int, Subscription] = {}
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._publishes = Publishes()
        self._requests = FIRST_REQUEST
        # Never below an earlier run's, also where no broker remembers it: microseconds.
        self._seq = self.now() * 1000
        self._owed = 0
        self._welcome: asyncio.Future[int] | None = None
        self._lost = asyncio.Event()
        self._closed: Closed | None = None
        self._gone = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._flushing = False

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # What one asks for

    async def advertise(
        self, filter: str | Filter, scopes: Mapping[str, str] | None = None, rest: bool = True
    ) -> Advertisement:
        """`scopes` are dimension and scope; `rest`: heard also in every scope of the dimensions that are not named."""
        handle = Advertisement(str(filter), Tags(scopes or {}, rest))
        await self._establish(handle)
        return handle

    async def subscribe(
        self,
        filter: str | Filter,
        scopes: Mapping[str, str] | None = None,
        rest: bool = True,
        durable: str | None = None,
        offset: int | None = None,
        among: Subscription | None = None,
    ) -> Subscription:
        """With `durable`, a name, the broker keeps what comes while we are away; `offset` says from where to go on.
        `among` another: each gives the deliveries of both, in the order in which they came, and what both want once."""
        handle = Subscription(str(filter), Tags(scopes or {}, rest), self._consumed, durable, offset, among)
        await self._establish(handle)
        return handle

    async def cancel(self, handle: Handle) -> None:
        """No more of it."""
        if handle not in self._handles:
            return
        self._handles.remove(handle)
        if handle.number is not None and self._ready:
            await self._request(handle.goodbye(), handle.number)

    async def publish(self, event: Event, advertisement: Advertisement) -> int:
        """Returns when the broker has accepted it (with a log: when it is on disk); to how many brokers it goes.
        An event without an identity gets one. Raises Refused."""
        return await (await self.submit(event, advertisement))

    async def submit(self, event: Event, advertisement: Advertisement) -> "asyncio.Future[int]":
        """publish, without waiting for the answer. Waits while too many are without one. In a task that reacts to an
        event of a session (vicinal.scope.session) it belongs to that session."""
        event = in_context(event)
        await self._may_publish(advertisement)
        if event.producer is None:
            self._seq += 1
            event = event.stamp(self.name, self._seq)
        else:
            self._seq = max(self._seq, event.seq or 0)
        self._requests += 1
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._publishes.unanswered[self._requests] = (event, advertisement, done)
        if self._ready and advertisement.number is not None:
            request = self._requests
            try:
                self._say(("publish", request, advertisement.number, event))
            except LocalProtocolError:  # too large: it was not said, and there will be no answer
                del self._publishes.unanswered[request]
                raise
        return done

    async def _may_publish(self, advertisement: Advertisement) -> None:
        """Waits while too many are without an answer."""
        await self._publishes.room()
        if self._closed is not None:
            raise self._closed
        if advertisement.error is not None:
            raise advertisement.error

    async def submit_many(
        self, events: list[Event], advertisement: Advertisement
    ) -> "asyncio.Future[dict[int, BaseException]]":
        """submit, of events that have their identities, in the order of their numbers. The future is done when all are
        answered; its result is what was refused, by its place among them."""
        await self._may_publish(advertisement)
        done: asyncio.Future[dict[int, BaseException]] = asyncio.get_running_loop().create_future()
        self._publish_run(events, advertisement, *settling(done))
        self._flush_soon()
        return done

    def submit_at_once(self, events: list[Event], advertisement: Advertisement, told: Told) -> bool:
        """submit_many, where nothing need be waited for: it is written, and `told` is called when all are answered.
        False: nothing was done."""
        link = self._link
        if (
            not self._ready
            or link is None
            or link.connection.closed
            or self._closed is not None
            or advertisement.number is None
            or self._publishes.is_full
        ):
            return False
        self._publish_run(events, advertisement, told)
        link.flush()
        return True

    def _publish_run(
        self, events: list[Event], advertisement: Advertisement, told: Told, failed: Failed | None = None
    ) -> None:
        run = Run(self._requests + 1, len(events), told, failed)
        self._publishes.add_run(run, events, advertisement)
        self._requests += len(events)
        self._seq = max(self._seq, *[event.seq or 0 for event in events])
        link, number = self._link, advertisement.number
        if self._ready and number is not None and link is not None and not link.connection.closed:
            link.connection.put(self._publishes.frames(run, events, number))

    async def administer(self, *what: Any) -> str:
        """What an administrator says (vicinal.siena.administration), or ("tell", "members"): then what was told, JSON.
        Raises Refused."""
        self._requests += 1
        request = self._requests
        self._told[request] = []
        try:
            await self._answer_to(("administer", request, what))
            return "".join(self._told[request])
        finally:
            del self._told[request]

    async def ping(self) -> float:
        """Milliseconds to the broker and back."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        await self._request("ping")
        return (loop.time() - start) * 1000

    async def gone(self) -> Closed:
        """Waits until it has ended for good. Why."""
        await self._gone.wait()
        assert self._closed is not None
        return self._closed

    async def close(self) -> None:
        link = self._link
        self._give_up(Closed("the client was closed"))
        if link is not None and not link.connection.closed:
            link.cut(NORMAL, "goodbye")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Connecting

    async def _first(self) -> None:
        await self._connect()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._keep()), loop.create_task(self._tick())]

    async def _connect(self) -> None:
        self._lost.clear()
        self._welcome = asyncio.get_running_loop().create_future()
        hello: tuple[Any, ...] = ("hello", VERSION, CLIENT, self.name)
        if self._token is not None:
            try:
                hello += (self._token if isinstance(self._token, str) else self._token(),)
            except (OSError, ValueError, BadToken) as error:  # it may be there again the next time
                raise CannotConnect(f"{self.address}: there is no token to show: {error}") from error
        self._link = await self._dial(Connection(self.now(), hello))
        try:
            async with asyncio.timeout(10):
                self.last = await self._welcome
                self._seq = max(self._seq, self.last)
        except TimeoutError as error:
            self._link.cut(LOST, "no welcome")
            raise CannotConnect(f"{self.address} does not answer as a Vicinal broker") from error
        self.connections += 1
        self._owed = 0
        self._say(("credit", CREDIT - sum([one.unread for one in self._handles if isinstance(one, Subscription)])))
        self._subscriptions = {}
        for handle in self._handles:
            handle.number = None  # what comes before the answer is kept for it
        for handle in list(self._handles):
            await self._renew(handle)
        self._ready = True
        self._publishes.again(self._say)
        if self.on_connection is not None and self.connections > 1:
            self.on_connection(True, self.broker)

    async def _dial(self, connection: Connection) -> Link:
        return await dial(self, connection, self.address, self._tls)

    async def _keep(self) -> None:
        while True:
            await self._lost.wait()
            attempt = 0
            while True:
                if self._closed is not None:
                    return
                if not self._reconnect:
                    self._give_up(Closed(f"the connection to {self.address} was lost"))
                    return
                await asyncio.sleep(backoff(attempt, self._chance))
                attempt += 1
                try:
                    await self._connect()
                    break
                except (CannotConnect, ConnectionError):
                    continue
                except Closed as error:
                    self._give_up(error)
                    return

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            link = self._link
            due = None if link is None else link.connection.next_timeout()
            if link is not None and due is not None and self.now() >= due:
                link.connection.handle_timeout(self.now())
                link.deal()
                link.flush()

    async def _renew(self, handle: Handle) -> None:
        try:
            self._established(handle, await self._request(*handle.request()))
        except Refused as error:
            self._handles.remove(handle)
            handle.number = None
            handle.end(error)

    async def _establish(self, handle: Handle) -> None:
        self._handles.append(handle)
        if not self._ready:
            self._ready = self._link is not None and self._link.connection.open and not self._lost.is_set()
        try:
            self._established(handle, await self._request(*handle.request()))
        except Refused:
            self._handles.remove(handle)
            raise
        except ConnectionError:
            # It is asked for again when the connection is there again.
            await handle.established()

    def _established(self, handle: Handle, number: int) -> None:
        handle.number = number
        if isinstance(handle, Subscription):
            self._subscriptions[number] = handle
            for early in handle.early.pop(number, []):
                self._delivered(early)
        handle.there()

    async def _request(self, kind: str, *fields: Any) -> Any:
        self._requests += 1
        return await self._answer_to((kind, self._requests, *fields))

    async def _answer_to(self, message: tuple[Any, ...]) -> Any:
        if self._closed is not None:
            raise self._closed
        self._say(message)  # first: what cannot be said is not waited for
        future = self._answers[message[1]] = asyncio.get_running_loop().create_future()
        return await future

    # What happens

    def opened(self, link: Link) -> None:
        pass

    def received(self, link: Link, messages: list[tuple[Any, ...]]) -> None:
        for message in messages:
            if message[0] == "answer":
                self._answered(message[1], message[2], message[3])
            else:
                self._received(message)

    def _received(self, message: tuple[Any, ...]) -> None:
        kind = message[0]
        if kind == "deliver":
            self._delivered(message)
        elif kind == "pong":
            self._answered(message[1], True, None)
        elif kind == "told":
            if message[1] in self._told:
                self._told[message[1]].append(message[2])
        elif kind == "ended":
            self._ended(message[1], message[2])
        elif kind == "welcome":
            self.broker = message[2]
            if self._welcome is not None and not self._welcome.done():
                self._welcome.set_result(message[3])

    def _answered(self, request: int, accepted: bool, more: Any) -> None:
        error = None if accepted else Refused(more)
        if self._publishes.answered(request, error, more if accepted else 0):
            return
        future = self._answers.pop(request, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(more)
        else:
            future.set_exception(error)

    def _ended(self, number: int, reason: str) -> None:
        """We may no longer."""
        self._subscriptions.pop(number, None)
        for handle in [one for one in self._handles if one.number == number]:
            self._handles.remove(handle)
            handle.number = None
            handle.end(Refused(reason))
            if self.on_ended is not None:
                self.on_ended(handle, reason)

    def _delivered(self, message: tuple[Any, ...]) -> None:
        _, keys, event, offset, trail = message
        takers = [self._subscriptions[key] for key in keys if key in self._subscriptions]
        if not takers:
            # The answer that tells whose it is may be read and not yet be dealt with.
            waiting = [one for one in self._handles if isinstance(one, Subscription) and one.number is None]
            for one in waiting[:1]:
                one.early.setdefault(keys[0], []).append(message)
            if waiting:
                return
        delivery = Delivery(event, offset, trail, self.now())
        fresh = [taker for taker in takers if taker.fresh(delivery)]
        if not fresh:
            self.duplicates += bool(takers)
            self._consumed()
        for place, taker in enumerate(fresh):
            taker.put(delivery, place == 0)

    def _consumed(self) -> None:
        """A delivery was taken: credit for another, by halves."""
        self._owed += 1
        if self._owed >= CREDIT // 2:
            owed, self._owed = self._owed, 0
            self._say(("credit", owed))

    def after_reading(self, link: Link) -> None:
        self._flush_soon()

    def ended(self, link: Link, code: int, reason: str) -> None:
        if link is not self._link and self._link is not None:
            return
        if self._ready and self._closed is None and self.on_connection is not None:
            self.on_connection(False, reason)
        self._ready = False
        why = BYE_NAMES[code] if code < len(BYE_NAMES) else "other"
        if self._welcome is not None and not self._welcome.done():
            final = code in _FINAL or code != LOST
            error = f"{self.address}: {why}: {reason}"
            if code == LOST:
                error += " before there was a welcome; is that a broker's address for events?"
            self._welcome.set_exception(Closed(error) if final else CannotConnect(error))
        for future in self._answers.values():
            if not future.done():
                future.set_exception(ConnectionResetError(reason))
        self._answers.clear()
        if code in _FINAL or not (self._reconnect or code in (LOST, NORMAL)):
            self._give_up(Closed(f"{self.address}: {why}: {reason}"))
        self._lost.set()

    def _give_up(self, error: Closed) -> None:
        if self._closed is not None:
            return
        self._closed = error
        self._gone.set()
        self._ready = False
        for handle in self._handles:
            handle.end(error)
        self._publishes.give_up(error)

    def _say(self, message: tuple[Any, ...]) -> None:
        link = self._link
        if link is not None and link.connection.open and not link.connection.closed:
            link.connection.send(message)
            self._flush_soon()
        elif message[0] not in ("credit", "publish"):
            raise ConnectionResetError("the connection is lost")

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        if self._link is not None:
            self._link.flush()
