"""JMS, with ActiveMQ over its STOMP: events are messages, filters are selectors (_jms_events.py).

    [[service]]
    name = "es1"
    type = "jms"
    address = "stomp://10.0.0.7"         stomp+ssl:// with ca, certificate and key: files
    user, password                       or password_file
    style = "topic"                      or "queue"
    destination = "vicinal."             before the subject: /topic/vicinal.Speed
    durable = "name"                     topics: the broker keeps what comes while we are away
    client_id, persistent = true, heartbeat = 10 (seconds)

Each subscription is one of STOMP for each subject that its filter names, with a selector. ActiveMQ sends a message once
for each of them: copies have the same message id, and the first counts. What is received is acknowledged when the
gateway has it; of each subscription PREFETCH messages are on their way at most, the broker keeps the others.
"""

import asyncio
import hashlib
import json
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import cbor2

from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.filter import Filter
from vicinal.tables_cpython import Table

from ..adapter import Adapter, Port, Refused, Unavailable
from ._credentials import password, tls
from ._jms_events import JmsEvents, Malformed, selector
from ._stomp import Frame
from ._stomp_client import Connection

__all__ = ["JmsAdapter"]

PREFETCH = 1000
ACK_EVERY = 100
MOST_IDS = 20_000
"""messages that are remembered, so that a copy is known as such"""
GRACE = 10.0
"""seconds after `connect` within which the gateway has made its subscriptions again"""
PORTS = {"stomp": 61613, "stomp+ssl": 61614}
TUNNEL = "tunnel"
# Of a message, what belongs to the way it came.
_OF_THE_WAY = {
    "ack", "content-length", "destination", "message-id", "original-destination", "receipt", "redelivered",
    "subscription", "transaction", "transformation", "transformation-error",
}  # fmt: skip


class Waiting:
    """For its acknowledgement."""

    __slots__ = ("frame", "taken")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.taken = False


class JmsAdapter(Adapter):
    capabilities = Capabilities(filter="content", tunnels=True)

    def __init__(self, service: str, settings: Table) -> None:
        super().__init__(service, settings)
        self.address: str = settings.take("address", str, required=True)
        parts = urlsplit(self.address)
        try:
            self.host, self.tcp_port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
        except ValueError as error:
            settings.fail("address", f"is {self.address!r}: {error}")
        if parts.scheme not in PORTS or not self.host or parts.path not in ("", "/") or "@" in parts.netloc:
            settings.fail("address", f"is {self.address!r}, want stomp://host:port or stomp+ssl://host:port")
        self.tls = tls(settings, "stomp+ssl", parts.scheme)
        self.user: str | None = settings.take("user", str)
        self.password = password(settings)
        self.queue = settings.choice("style", ("topic", "queue"), "topic") == "queue"
        name: str = settings.take("destination", str, "vicinal.")
        if not name.endswith(".") or name.startswith(".") or set(name) & set(",*>?%\n\r:\0 ") or ".." in name:
            settings.fail("destination", f"is {name!r}, want names with a dot after each, as 'vicinal.'")
        self.prefix = f"/{'queue' if self.queue else 'topic'}/{name}"
        self.durable: str | None = settings.take("durable", str)
        if self.durable is not None and (self.queue or not self.durable):
            settings.fail("durable", "is for topics: a queue keeps its messages" if self.queue else "is empty")
        self.client_id: str | None = settings.take("client_id", str)
        self.persistent: bool = settings.take("persistent", bool, True)
        self.heartbeat: int = settings.number("heartbeat", 10, 1, 3600)
        # What a tunnel puts here must reach who published it there: only a topic can tell one from the other.
        self.tells_by_origin = self.queue or self.durable is not None
        self.capabilities = Capabilities(filter="content", tunnels=not self.tells_by_origin)
        self._port: Port | None = None
        self._connection: Connection | None = None
        self._reset()

    def _reset(self) -> None:
        self._subscriptions: dict[str, list[list[str]]] = {}
        """text of a filter -> for each time that it was subscribed, its subscriptions of STOMP"""
        self._durables: dict[str, str] = {}
        """those that the broker has of us: name -> destination"""
        self._active: dict[str, str] = {}
        """subscription of STOMP -> the name of the durable one"""
        self._last = 0
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._inbox: deque[tuple[Frame, bool]] = deque()
        self._untaken: deque[Waiting] = deque()
        self._to_ack: dict[str, str] = {}
        self._acks = 0
        self._acking = False
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._tunnels = False
        self._received = self._published = self._copies = 0

    async def connect(self, port: Port) -> None:
        await self.disconnect()
        self._reset()
        self._port = port
        origin = self.client_id or f"vicinal-{port.gateway}-{self.service}"
        self.events = JmsEvents(self.prefix, origin, self.persistent)
        headers = {}
        if self.user is not None:
            headers = {"login": self.user, "passcode": self.password or ""}
        if self.durable is not None:
            headers["client-id"] = origin
            self._record = port.folder / "jms-durable.json"
            self._durables = _read_durables(self._record, self.address, origin)
        connection = Connection(self.address, self._heard, self._lost)
        await connection.open(self.host, self.tcp_port, self.tls, headers, self.heartbeat * 1000)
        self._connection = connection
        self._tasks = [asyncio.create_task(self._deliver(port, connection))]
        if self._durables:
            self._tasks.append(asyncio.create_task(self._settle(connection)))

    async def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if connection is not None:
            self._acknowledge(connection)
            await connection.close()
        self._inbox.clear()

    def _there(self) -> Connection:
        if self._connection is None:
            raise Unavailable(f"{self.service} is not connected to {self.address}")
        return self._connection

    def _lost(self, reason: str) -> None:
        if self._connection is not None and self._port is not None:
            self._port.lost(f"{self.address}: {reason}")

    # Events out

    async def announce(self, event: Event) -> None:
        """JMS knows no announcements; what could never be published is refused now."""
        self._there()
        self.events.frame(event)

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        connection = self._there()
        future = await connection.request(self.events.frame(event))
        self._published += 1
        return future

    # Subscriptions

    async def subscribe(self, condition: Filter) -> None:
        connection = self._there()
        made: list[str] = []
        text = selector(condition, self.events.origin if self.tells_by_origin else None)
        try:
            for destination in self.events.destinations(condition):
                self._last += 1
                made.append(str(self._last))
                await connection.answered(self._subscription(made[-1], destination, text))
        except BaseException:
            for one in made:
                connection.send(Frame("UNSUBSCRIBE", {"id": one}))
            raise
        self._subscriptions.setdefault(condition.text, []).append(made)

    def _subscription(self, number: str, destination: str, text: str) -> Frame:
        headers = {"id": number, "destination": destination, "ack": "client", "activemq.prefetchSize": str(PREFETCH)}
        if text:
            headers["selector"] = text
        if not self.queue:
            headers["activemq.noLocal"] = "true"
        if self.durable is not None:
            # Another selector is another subscription: ActiveMQ would forget what it has kept for the old one.
            name = f"{self.durable}-{hashlib.sha256(f'{destination} {text}'.encode()).hexdigest()[:16]}"
            if name in self._active.values():
                name += f"-{number}"
            headers["activemq.subscriptionName"] = self._active[number] = name
            self._durables[name] = destination
            self._remember()
        return Frame("SUBSCRIBE", headers)

    async def unsubscribe(self, condition: Filter) -> None:
        connection = self._there()
        made = self._subscriptions.get(condition.text, [])
        for one in made.pop() if made else ():
            self._to_ack.pop(one, None)
            await connection.answered(Frame("UNSUBSCRIBE", {"id": one}))
            if one in self._active:
                await self._forget(connection, self._active.pop(one))
        if not made:
            self._subscriptions.pop(condition.text, None)

    async def _forget(self, connection: Connection, name: str) -> None:
        headers = {"id": name, "activemq.subscriptionName": name, "client-id": self.events.origin}
        await connection.answered(Frame("UNSUBSCRIBE", headers))
        self._durables.pop(name, None)
        self._remember()

    def _remember(self) -> None:
        found = {"address": self.address, "client_id": self.events.origin, "durables": self._durables}
        new = self._record.with_suffix(".new")
        new.write_text(json.dumps(found), encoding="utf-8")
        new.replace(self._record)

    async def _settle(self, connection: Connection) -> None:
        """Durable subscriptions that nobody has made again are given up; the broker would keep messages for ever."""
        await asyncio.sleep(GRACE)
        for name in [name for name in self._durables if name not in self._active.values()]:
            await self._forget(connection, name)

    # Events in

    def _heard(self, frame: Frame) -> None:
        number, identity = frame.headers.get("subscription", ""), frame.headers.get("message-id", "")
        new = number == TUNNEL or identity not in self._seen
        if new and number != TUNNEL:
            self._seen[identity] = None
            if len(self._seen) > MOST_IDS:
                self._seen.popitem(last=False)
        # A copy waits in its turn: to acknowledge it acknowledges all before it.
        self._inbox.append((frame, new))
        self._wake.set()

    async def _deliver(self, port: Port, connection: Connection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._inbox:
                await port.room()
                frame, new = self._inbox.popleft()
                waiting = Waiting(frame)
                self._untaken.append(waiting)
                if not new:
                    self._copies += 1
                    self._taken(connection, waiting)
                else:
                    self._hand_over(port, frame, partial(self._taken, connection, waiting))

    def _taken(self, connection: Connection, waiting: Waiting) -> None:
        """To acknowledge one acknowledges all before it: only when these are taken, too."""
        waiting.taken = True
        if connection is not self._connection:
            return
        while self._untaken and self._untaken[0].taken:
            headers = self._untaken.popleft().frame.headers
            if "ack" in headers:
                self._to_ack[headers.get("subscription", "")] = headers["ack"]
                self._acks += 1
        if self._acks >= ACK_EVERY:
            self._acknowledge(connection)
        elif self._acks and not self._acking:
            self._acking = True  # many at once, where many are taken at once
            asyncio.get_running_loop().call_soon(self._acknowledge_later, connection)

    def _acknowledge_later(self, connection: Connection) -> None:
        if connection is self._connection:
            self._acknowledge(connection)

    def _acknowledge(self, connection: Connection) -> None:
        self._acking, self._acks = False, 0
        for ack in self._to_ack.values():
            connection.send(Frame("ACK", {"id": ack}))
        self._to_ack.clear()

    def _hand_over(self, port: Port, frame: Frame, taken: Callable[[], None]) -> None:
        if frame.headers.get("subscription") == TUNNEL:
            port.packet(self._packed(frame))
            taken()
            return
        try:
            event = self.events.event(frame)
        except Malformed as error:
            port.malformed(str(error))
            taken()
            return
        self._received += 1
        port.received(event, taken)

    # Tunnels

    async def tunnel(self, on: bool) -> None:
        connection = self._there()
        if not self.capabilities.tunnels:
            await super().tunnel(on)
        if on != self._tunnels:
            self._tunnels = on
            headers = {"id": TUNNEL, "destination": f"{self.prefix}>", "ack": "client", "activemq.noLocal": "true"}
            frame = Frame("SUBSCRIBE", {**headers, "activemq.prefetchSize": str(PREFETCH)})
            await connection.answered(frame if on else Frame("UNSUBSCRIBE", {"id": TUNNEL}))

    def _packed(self, frame: Frame) -> bytes:
        carried = {name: text for name, text in frame.headers.items() if name not in _OF_THE_WAY}
        name = frame.headers.get("destination", "").removeprefix(self.prefix)
        return cbor2.dumps([name, carried, frame.body, frame.text])

    async def inject(self, data: bytes) -> "asyncio.Future[None] | None":
        connection = self._there()
        connection.check()
        try:
            name, carried, body, text = cbor2.loads(data)
            texts = [name, *carried, *carried.values()]
            # What is no text here raises.
            long = [one for one in texts if "\0" in one or len(one.encode()) > 9000]
            if long or not name or set(name) & set(",*>?") or set(carried) & _OF_THE_WAY or (text and b"\0" in body):
                raise Refused(f"what came through the tunnel for {name[:60]!r} would not pass here")
            frame = Frame("SEND", {**carried, "destination": self.prefix + name}, bytes(body), bool(text))
        except Refused:
            raise
        except Exception as error:  # as many kinds as ways to be wrong
            raise Refused(f"what came through the tunnel is no message of JMS: {error}") from error
        return await connection.request(frame)

    def status(self) -> dict[str, int | str]:
        connection = self._connection
        return {
            "address": self.address,
            "subscriptions": sum(len(one) for made in self._subscriptions.values() for one in made),
            "received": self._received,
            "published": self._published,
            "unacknowledged": 0 if connection is None else connection.under_way,
            "waiting": len(self._inbox),
            "copies": self._copies,
        }


def _read_durables(file: Path, address: str, client_id: str) -> dict[str, str]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if (found["address"], found["client_id"]) != (address, client_id):
            return {}
        return {str(name): str(destination) for name, destination in found["durables"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
