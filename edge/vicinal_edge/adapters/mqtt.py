"""MQTT 5, with mosquitto or another broker: events are messages, subjects are topics (_mqtt_events.py).

    [[service]]
    name = "es1"
    type = "mqtt"
    address = "mqtt://10.0.0.7"          mqtts:// with ca, certificate and key: files
    username, password                   or password_file
    prefix = "vicinal/"                  of topics
    payload = "json"                     or "cbor"
    qos = 1                              or 0
    session = 3600                       seconds that the broker keeps what comes while we are away; 0 for not at all
    client_id, keepalive = 30, retained = false
    tunnel = ["vicinal/#"]               topics that a tunnel carries
    [[service.topic]]                    topics of others: see TopicMap

Nothing is lost by a short loss of the connection: the broker keeps the session under our client id. After `connect` it
sends at once what has come meanwhile, while the gateway has not yet subscribed again: such messages wait,
unacknowledged, until a subscription wants them, GRACE seconds at most; then what nobody has asked for again is
unsubscribed. The topic filters of the session are written to a file, so that this is true of a restart as well.

A broker may send a message once for each of our topic filters that match it. Each has a number of its own
(subscription identifier), and the copy with the lowest number counts.
"""

import asyncio
import json
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import cbor2
from paho.mqtt.client import MQTTMessage

from vicinal import limits
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.filter import Filter
from vicinal.tables_cpython import Table

from ..adapter import Adapter, Port, Refused, Unavailable
from ._credentials import password, tls
from ._mqtt_client import Link, carried
from ._mqtt_events import Malformed, Message, MqttEvents, TopicMap, clean, matches, topic_filter_refusal

__all__ = ["MqttAdapter"]

GRACE = 10.0
"""seconds after `connect` within which the gateway has made its subscriptions again"""
MOST_WAITING = 10_000
"""messages that wait for room; of QoS 0 a broker sends as many as it likes"""
PORTS = {"mqtt": 1883, "mqtts": 8883}


class MqttAdapter(Adapter):
    capabilities = Capabilities(filter="subject", tunnels=True)

    def __init__(self, service: str, settings: Table) -> None:
        super().__init__(service, settings)
        self.address: str = settings.take("address", str, required=True)
        parts = urlsplit(self.address)
        try:
            self.host, self.tcp_port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
        except ValueError as error:
            settings.fail("address", f"is {self.address!r}: {error}")
        if not self.host or not self.tcp_port or parts.path not in ("", "/") or parts.query or "@" in parts.netloc:
            settings.fail("address", f"is {self.address!r}, want mqtt://host:port or mqtts://host:port")
        self.tls = tls(settings, "mqtts", parts.scheme)
        self.username: str | None = settings.take("username", str)
        self.password = password(settings)
        self.prefix: str = settings.take("prefix", str, "vicinal/")
        if self.prefix and (not self.prefix.endswith("/") or "+" in self.prefix or "#" in self.prefix):
            settings.fail("prefix", f"is {self.prefix!r}, want whole levels with a slash at the end, no + and no #")
        if topic_filter_refusal(self.prefix):
            settings.fail("prefix", f"is {self.prefix!r}: {topic_filter_refusal(self.prefix)}")
        self.client_id: str | None = settings.take("client_id", str)
        self.qos: int = settings.number("qos", 1, 0, 1)
        self.keepalive: int = settings.number("keepalive", 30, 5, 65535)
        self.session: int = settings.number("session", 3600, 0, 0xFFFFFFFF)
        self.retained: bool = settings.take("retained", bool, False)
        whole = settings.choice("payload", ("json", "cbor"), "json") == "cbor"
        self.events = MqttEvents(self.prefix, [TopicMap(one) for one in settings.tables("topic")], whole)
        everything = [self.prefix + "#", *(one.filter for one in self.events.maps)]
        self.tunnelled = list(settings.names("tunnel")) or everything
        for one in self.tunnelled:
            if topic_filter_refusal(one) or not one:
                settings.fail("tunnel", f"has {one!r}: {topic_filter_refusal(one) or 'it is empty'}")
        self._port: Port | None = None
        self._link: Link | None = None
        self._reset()

    def _reset(self) -> None:
        self._counts: dict[str, int] = {}
        self._held: dict[str, int] = {}
        """topic filters that the broker has of us, and their numbers"""
        self._tunnels = False
        self._inbox: deque[tuple[MQTTMessage, bool, bool]] = deque()
        self._parked: list[MQTTMessage] = []
        self._routes: dict[str, tuple[int, bool, bool]] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._settled = True
        self._received = self._published = self._unwanted = 0
        self._written = ""

    async def connect(self, port: Port) -> None:
        await self.disconnect()
        self._reset()
        client_id = self.client_id or f"vicinal-{port.gateway}-{self.service}"
        record = port.folder / "mqtt-session.json"
        self._held = _read_session(record, self.address, client_id) if self.session else {}
        self._port = port
        link = Link(self.host, self.tcp_port, self.address, self._heard, self._lost)
        await link.open(client_id, self.username, self.password, self.tls, self.keepalive, not self._held, self.session)
        self._link, self._record, self._identity = link, record, (self.address, client_id)
        found = {"address": self.address, "client_id": client_id, "filters": self._held}
        self._written = json.dumps(found) if self._held else ""
        if not link.session_present:
            self._held = {}
        self._settled = not self._held
        self._routes = {}
        if link.largest < limits.MAX_EVENT_BYTES:
            self.capabilities = Capabilities(max_bytes=link.largest, filter="subject", tunnels=True)
        self._tasks = [asyncio.create_task(self._deliver(port, link))]
        if not self._settled:
            self._tasks.append(asyncio.create_task(self._settle(link)))

    async def disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._inbox.clear()
        self._parked.clear()

    def _there(self) -> Link:
        if self._link is None:
            raise Unavailable(f"{self.service} is not connected to {self.address}")
        return self._link

    def _lost(self, reason: str) -> None:
        if self._link is not None and self._port is not None:
            self._port.lost(f"{self.address}: {reason}")

    # Events out

    async def announce(self, event: Event) -> None:
        """MQTT knows no announcements; what could never be published is refused now."""
        assert self._port is not None
        self.events.message(event, self._port.now())

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        link = self._there()
        assert self._port is not None
        future = await link.publish(self.events.message(event, self._port.now()), self.qos)
        self._published += 1
        return future

    # Subscriptions

    async def subscribe(self, condition: Filter) -> None:
        await self._add(self.events.filters(condition))

    async def unsubscribe(self, condition: Filter) -> None:
        await self._remove(self.events.filters(condition))

    async def _add(self, filters: list[str]) -> None:
        link = self._there()
        for at, one in enumerate(filters):
            # Counted first: what is published may come in one read with the broker's answer.
            self._counts[one] = self._counts.get(one, 0) + 1
            self._routes = {}
            if self._counts[one] > 1:
                continue
            self._held.setdefault(one, max(self._held.values(), default=0) + 1)
            self._remember()  # before the broker knows: a filter too many is unsubscribed, one too few is never
            try:
                await link.subscribe(one, self.qos, self._held[one], self.retained)
            except BaseException:
                self._routes = {}
                for taken in filters[: at + 1]:
                    self._counts[taken] -= 1
                raise
        self._unpark()

    async def _remove(self, filters: list[str]) -> None:
        link = self._there()
        for one in filters:
            left = self._counts.get(one, 0) - 1
            if left > 0:
                self._counts[one] = left
            elif self._counts.pop(one, None) is not None:
                self._routes = {}
                await self._forget(link, one)

    async def _forget(self, link: Link, topic_filter: str) -> None:
        # Its number stays until the broker has answered: copies under it may still be on their way.
        await link.unsubscribe(topic_filter)
        self._held.pop(topic_filter, None)
        self._routes = {}
        self._remember()

    def _remember(self) -> None:
        if self.session:
            address, client_id = self._identity
            found = {"address": address, "client_id": client_id, "filters": self._held}
            if json.dumps(found) == self._written:  # a disk that is full takes nothing, and need not
                return
            new = self._record.with_suffix(".new")
            new.write_text(json.dumps(found), encoding="utf-8")
            new.replace(self._record)
            self._written = json.dumps(found)

    async def _settle(self, link: Link) -> None:
        """What the session holds from before and nobody has asked for again is given up."""
        await asyncio.sleep(GRACE)
        self._settled = True
        for message in self._parked:
            self._unwanted += 1
            link.ack(message)
        self._parked.clear()
        for one in [one for one in self._held if not self._counts.get(one)]:
            await self._forget(link, one)

    # Events in

    def _heard(self, message: MQTTMessage) -> None:
        # Who is told before `connect` has ended is told by the session.
        assert self._port is not None
        try:
            topic = message.topic
        except UnicodeDecodeError:
            self._port.malformed("a topic that is no subject")
            self._ack(message)
            return
        if self._parked and any(self._route(topic)[1:]):
            self._unpark()  # what came before it goes before it
        self._sort(message)

    def _sort(self, message: MQTTMessage) -> None:
        first, wanted, tunnelled = self._route(message.topic)
        numbers = getattr(message.properties, "SubscriptionIdentifier", None)
        if numbers and first and first not in numbers:
            self._ack(message)
        elif wanted or tunnelled:
            self._inbox.append((message, wanted, tunnelled))
            self._wake.set()
            if len(self._inbox) > MOST_WAITING:
                self._hand_over(*self._inbox.popleft())  # without room: dropped, and counted by who has none
        elif self._link is None or not self._settled:
            self._parked.append(message)
        else:
            self._unwanted += 1
            self._ack(message)

    def _ack(self, message: MQTTMessage) -> None:
        if self._link is not None:
            self._link.ack(message)

    def _route(self, topic: str) -> tuple[int, bool, bool]:
        """The lowest number of a filter that matches; whether a subscription and a tunnel want it."""
        found = self._routes.get(topic)
        if found is None:
            holding = [one for one in self._held if matches(one, topic)]
            tunnelled = self._tunnels and any(matches(one, topic) for one in self.tunnelled)
            wanted = any(self._counts.get(one, 0) > (self._tunnels and one in self.tunnelled) for one in holding)
            found = (min((self._held[one] for one in holding), default=0), wanted, tunnelled)
            if len(self._routes) >= 10_000:
                self._routes = {}
            self._routes[topic] = found
        return found

    def _unpark(self) -> None:
        parked, self._parked = self._parked, []
        for message in parked:
            self._sort(message)

    async def _deliver(self, port: Port, link: Link) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._inbox:
                await port.room()
                if self._inbox:
                    self._hand_over(*self._inbox.popleft())

    def _hand_over(self, message: MQTTMessage, wanted: bool, tunnelled: bool) -> None:
        port = self._port
        assert port is not None
        if tunnelled:
            port.packet(_packed(message))
        if wanted:
            properties: Any = message.properties
            try:
                event = self.events.event(
                    Message(
                        message.topic,
                        bytes(message.payload),
                        getattr(properties, "UserProperty", None),
                        getattr(properties, "ContentType", None),
                        getattr(properties, "MessageExpiryInterval", None),
                    ),
                    port.now(),
                )
            except Malformed as error:
                port.malformed(str(error))
            else:
                self._received += 1
                link = self._link
                if message.qos and link is not None:
                    port.received(event, partial(link.ack, message))
                    return
                port.received(event)
        self._ack(message)

    # Tunnels

    async def tunnel(self, on: bool) -> None:
        if on != self._tunnels:
            self._tunnels = on
            self._routes = {}
            await (self._add if on else self._remove)(self.tunnelled)

    async def inject(self, data: bytes) -> "asyncio.Future[None] | None":
        link = self._there()
        link.check()
        try:
            topic, payload, qos, properties = cbor2.loads(data)
            user = [text for pair in properties.get("UserProperty", ()) for text in pair]
            texts = [topic, *user, properties.get("ContentType", ""), properties.get("ResponseTopic", "")]
            if "+" in topic or "#" in topic or not all(clean(text) for text in texts):
                raise Refused(f"what came through the tunnel for {topic!r} would not pass here")
            if not any(matches(one, topic) for one in self.tunnelled):
                raise Refused(f"topic {topic!r} is not among those that are tunnelled: {', '.join(self.tunnelled)}")
            return await link.publish(Message(str(topic), bytes(payload)), min(int(qos), 1), properties)
        except (Refused, Unavailable):
            raise
        except Exception as error:  # as many kinds as ways to be wrong
            raise Refused(f"what came through the tunnel is no message of MQTT: {error}") from error

    def status(self) -> dict[str, int | str]:
        link = self._link
        return {
            "address": self.address,
            "subscriptions": len(self._held),
            "received": self._received,
            "published": self._published,
            "unacknowledged": 0 if link is None else link.under_way,
            "waiting": len(self._inbox) + len(self._parked),
            "unwanted": self._unwanted,
        }


def _packed(message: MQTTMessage) -> bytes:
    return cbor2.dumps([message.topic, bytes(message.payload), message.qos, carried(message)])


def _read_session(file: Path, address: str, client_id: str) -> dict[str, int]:
    """The topic filters that the broker still has of us. Without a file to tell there is no session worth having."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if (found["address"], found["client_id"]) != (address, client_id):
            return {}
        return {str(name): int(number) for name, number in found["filters"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
