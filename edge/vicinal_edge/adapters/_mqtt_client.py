"""A connection to an MQTT 5 broker within asyncio: paho's client, without its threads.

paho decides about bytes; its socket is watched by the event loop, and everything after `open` happens there. Only the
handshakes of TCP and TLS, which wait, are in a thread. A link is opened once: who has lost it makes another.

    publish    waits for one of the places that the broker has given (receive maximum), then gives a future: PUBACK
    message    is acknowledged by `ack`, when it is in good hands; so many are under way unacknowledged at most
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from ..adapter import Refused, Unavailable
from ._mqtt_events import Message

__all__ = ["Link", "carried"]

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
"""that a broker may take to answer CONNECT, SUBSCRIBE and UNSUBSCRIBE"""
RECEIVE_MAXIMUM = 1000
"""messages that may wait for `ack`: the broker keeps the others"""
MOST_UNDER_WAY = 1000
UNLIMITED = 268435455
"""bytes of a packet: there is no larger one"""
CARRIED = (
    "PayloadFormatIndicator",
    "MessageExpiryInterval",
    "ContentType",
    "ResponseTopic",
    "CorrelationData",
    "UserProperty",
)
# The broker is busy, is going away, or has had enough for now (MQTT 5.0, 2.4): to ask again may help.
_PASSING = {0x80, 0x81, 0x82, 0x83, 0x88, 0x89, 0x8B, 0x8D, 0x8E, 0x93, 0x96, 0x97, 0x98, 0x9F}
_CREDENTIALS = {0x86, 0x87, 0x8C}


class Link:
    def __init__(
        self,
        host: str,
        port: int,
        shown: str,
        on_message: Callable[[MQTTMessage], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self.host = host
        self.port = port
        self.shown = shown
        """the address, for people"""
        self.session_present = False
        self.largest = UNLIMITED
        """bytes of a packet that the broker takes"""
        self.qos = 1
        """the highest that the broker grants"""
        self._on_message = on_message
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._client: Client | None = None
        self._connected: asyncio.Future[None] = self._loop.create_future()
        self._acks: dict[int, asyncio.Future[None]] = {}
        self._answers: dict[int, asyncio.Future[None]] = {}
        self._places = asyncio.Semaphore(MOST_UNDER_WAY)
        self._timer: asyncio.TimerHandle | None = None
        self._ended = ""

    @property
    def under_way(self) -> int:
        return len(self._acks)

    # Beginning and end

    async def open(
        self,
        client_id: str,
        username: str | None,
        password: str | None,
        tls: ssl.SSLContext | None,
        keepalive: int,
        clean: bool,
        session: int,
    ) -> None:
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id,
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.connect_timeout = CONNECT_SECONDS
        client.max_inflight_messages = 0  # `publish` keeps count; paho would look through all that wait at each ack
        if username is not None:
            client.username_pw_set(username, password)
        if tls is not None:
            client.tls_set_context(tls)
        asked = {"ReceiveMaximum": RECEIVE_MAXIMUM, "SessionExpiryInterval": session}
        properties = _properties(PacketTypes.CONNECT, asked)
        connecting = self._loop.run_in_executor(
            None, lambda: client.connect(self.host, self.port, keepalive, clean_start=clean, properties=properties)
        )
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(lambda done: _close_socket(client) if done.exception() is None else None)
            raise
        except ssl.SSLError as error:
            raise Refused(f"{self.shown}: TLS fails: {error.reason or error}") from error
        except ConnectionRefusedError as error:
            raise Unavailable(f"nothing listens at {self.shown}") from error
        except OSError as error:
            raise Unavailable(f"{self.shown} cannot be reached: {error}") from error
        self._attach(client)
        try:
            await asyncio.wait_for(asyncio.shield(self._connected), ANSWER_SECONDS)
        except TimeoutError:
            self.close()
            raise Unavailable(f"{self.shown} does not answer: is it an MQTT broker?") from None
        except BaseException:
            self.close()
            raise

    def _attach(self, client: Client) -> None:
        self._client = client
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_paho_message
        client.on_publish = self._on_publish
        client.on_subscribe = self._on_subscribe
        client.on_unsubscribe = self._on_unsubscribe
        client.on_socket_register_write = lambda _, __, sock: self._loop.add_writer(sock, self._write)
        client.on_socket_unregister_write = self._unwatch_writing
        client.on_socket_close = lambda _, __, sock: self._unwatch(sock)
        sock = client.socket()
        if sock is None:
            raise Unavailable(f"{self.shown} has closed the connection")
        self._loop.add_reader(sock, self._read)
        if client.want_write():
            self._loop.add_writer(sock, self._write)
        self._tick()

    def _unwatch_writing(self, _: Client, __: Any, sock: Any) -> None:
        self._loop.remove_writer(sock)

    def _unwatch(self, sock: Any) -> None:
        self._loop.remove_reader(sock)
        self._loop.remove_writer(sock)

    def close(self) -> None:
        """Whatever the state. The broker is told if it listens."""
        client, self._client = self._client, None
        if client is not None:
            self._ended = self._ended or "it was closed here"
            with suppress(Exception):
                client.disconnect()
                client.loop_write()
            sock = client.socket()
            if sock is not None:
                self._unwatch(sock)
            _close_socket(client)
        self._end(self._ended or "it was closed here")

    def _end(self, reason: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting = [*self._acks.values(), *self._answers.values(), self._connected]
        self._acks, self._answers = {}, {}
        for future in waiting:
            if not future.done():
                future.set_exception(Unavailable(f"{self.shown}: {reason}"))
                future.exception()  # nobody may be waiting for it

    def _lost(self, reason: str) -> None:
        if self._ended:
            return
        self._ended = reason
        was_open = self._connected.done()
        self.close()
        if was_open:
            self._on_lost(reason)

    # The event loop

    def _read(self) -> None:
        client = self._client
        try:
            while client is not None and client is self._client:
                client.loop_read()
                sock: Any = client.socket()
                # TLS may hold more than the socket shows.
                if sock is None or not isinstance(sock, ssl.SSLSocket) or not sock.pending():
                    return
        except Exception as error:  # whatever paho makes of bytes that are no MQTT
            self._lost(f"what came is no MQTT: {error!r}")

    def _write(self) -> None:
        try:
            if self._client is not None:
                self._client.loop_write()
        except Exception as error:
            self._lost(f"it cannot be written to: {error!r}")

    def _tick(self) -> None:
        if self._client is None:
            return
        self._timer = self._loop.call_later(0.5, self._tick)
        try:
            self._client.loop_misc()
        except Exception as error:
            self._lost(f"keepalive failed: {error!r}")

    # What paho says

    def _on_connect(self, _: Client, __: Any, flags: Any, code: ReasonCode, properties: Properties | None) -> None:
        if self._connected.done():
            return
        if code.is_failure:
            self._connected.set_exception(_failure(f"{self.shown} refuses the connection", code))
            return
        self.session_present = flags.session_present
        self.largest = getattr(properties, "MaximumPacketSize", self.largest)
        self.qos = getattr(properties, "MaximumQoS", 1)
        self._places = asyncio.Semaphore(min(MOST_UNDER_WAY, getattr(properties, "ReceiveMaximum", 65535)))
        self._connected.set_result(None)

    def _on_disconnect(self, _: Client, __: Any, flags: Any, code: ReasonCode, ___: Properties | None) -> None:
        if not self._connected.done():
            self._connected.set_exception(
                Unavailable(f"{self.shown} has closed the connection at once: does it speak MQTT 5?")
            )
        if flags.is_disconnect_packet_from_server:
            self._lost(f"the broker says: {code}")
        else:
            self._lost("the connection is lost" + ("" if code.value in (0, 0x80) else f": {code}"))

    def _on_paho_message(self, _: Client, __: Any, message: MQTTMessage) -> None:
        self._on_message(message)

    def _on_publish(self, _: Client, __: Any, mid: int, code: ReasonCode, ___: Properties) -> None:
        future = self._acks.pop(mid, None)
        if future is None:
            return
        self._places.release()
        if future.done():
            return
        if code.is_failure:
            future.set_exception(_failure(f"{self.shown} refuses the event", code))
        else:
            future.set_result(None)

    def _on_subscribe(self, _: Client, __: Any, mid: int, codes: list[ReasonCode], ___: Properties | None) -> None:
        self._answer(mid, codes, "the subscription")

    def _on_unsubscribe(self, _: Client, __: Any, mid: int, codes: list[ReasonCode], ___: Properties | None) -> None:
        self._answer(mid, codes, "to unsubscribe")

    def _answer(self, mid: int, codes: list[ReasonCode], what: str) -> None:
        future = self._answers.pop(mid, None)
        if future is None or future.done():
            return
        failed = [code for code in codes if code.is_failure]
        if failed:
            future.set_exception(_failure(f"{self.shown} refuses {what}", failed[0]))
        else:
            future.set_result(None)

    # What is asked of it

    def check(self) -> None:
        """Raises Unavailable where it is no longer there."""
        self._there()

    def _there(self) -> Client:
        if self._client is None:
            raise Unavailable(f"{self.shown}: {self._ended or 'not connected'}")
        return self._client

    async def publish(
        self, message: Message, qos: int, carried: dict[str, Any] | None = None
    ) -> "asyncio.Future[None] | None":
        """None at QoS 0, where nobody will ever know. `carried` are all properties, as the function below gave them."""
        properties = _properties(PacketTypes.PUBLISH, message.properties() if carried is None else carried)
        if self.largest < UNLIMITED:
            size = 5 + 2 + len(message.topic.encode()) + 2 + len(properties.pack()) + len(message.payload)
            if size > self.largest:
                raise Refused(f"the message to {message.topic!r} has {size} bytes, {self.shown} takes {self.largest}")
        qos = min(qos, self.qos)
        if qos == 0:
            self._there().publish(message.topic, message.payload, 0, properties=properties)
            return None
        self._there()
        await self._places.acquire()
        try:
            info = self._there().publish(message.topic, message.payload, qos, properties=properties)
        except BaseException:
            self._places.release()
            raise
        future = self._acks[info.mid] = self._loop.create_future()
        return future

    async def subscribe(self, topic_filter: str, qos: int, identifier: int, retained: bool) -> None:
        properties = _properties(PacketTypes.SUBSCRIBE, {"SubscriptionIdentifier": identifier})
        options = SubscribeOptions(
            qos=qos,
            noLocal=True,
            retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB if retained else SubscribeOptions.RETAIN_DO_NOT_SEND,
        )
        _, mid = self._there().subscribe([(topic_filter, options)], properties=properties)
        await self._answered(mid)

    async def unsubscribe(self, topic_filter: str) -> None:
        _, mid = self._there().unsubscribe(topic_filter)
        await self._answered(mid)

    async def _answered(self, mid: int | None) -> None:
        if mid is None:
            raise Unavailable(f"{self.shown}: not connected")
        future = self._answers[mid] = self._loop.create_future()
        try:
            await asyncio.wait_for(future, ANSWER_SECONDS)
        except TimeoutError:
            self._answers.pop(mid, None)
            raise Unavailable(f"{self.shown} does not answer") from None

    def ack(self, message: MQTTMessage) -> None:
        if message.qos and self._client is not None:
            self._client.ack(message.mid, message.qos)


def carried(message: MQTTMessage) -> dict[str, Any]:
    """The properties that belong to a message, and not to the way it came."""
    return {name: getattr(message.properties, name) for name in CARRIED if hasattr(message.properties, name)}


def _properties(packet: int, values: dict[str, Any]) -> Any:
    """Raises ValueError for what a message has not. (paho's class is not typed.)"""
    made: Any = Properties
    properties = made(packet)
    for name, value in values.items():
        if packet == PacketTypes.PUBLISH and name not in CARRIED:
            raise ValueError(f"{name!r} is no property of a message")
        setattr(properties, name, [tuple(pair) for pair in value] if name == "UserProperty" else value)
    return properties


def _failure(what: str, code: ReasonCode) -> Refused | Unavailable:
    hint = ": look at username, password and what they may do" if code.value in _CREDENTIALS else ""
    text = f"{what}: {code}{hint}"
    return Unavailable(text) if code.value in _PASSING else Refused(text)


def _close_socket(client: Client) -> None:
    sock = client.socket()
    if sock is not None:
        with suppress(OSError):
            sock.close()
