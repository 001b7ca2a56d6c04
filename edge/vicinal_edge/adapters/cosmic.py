"""COSMIC on CAN (seed 001, 5.8.2 and 6.3.1): the frames of a car, and event channels, on one bus.

    [[service]]
    type = "cosmic"
    interface = "socketcan"           # any of python-can's; [service.options] are its own
    channel = "can0"
    bitrate = 500000
    mapping = "speed.toml"            # or a DBC file: which frame is which event
    tx_node = 5                       # its number on the bus; without one it asks the broker of names for it
    broker = true                     # it is that broker itself
    bind = true                       # subjects without a message or a channel get a channel, non real time

Two kinds of traffic. *Mapped frames* are the car's own, with identifiers and bits that somebody else has chosen: no
identity, no attributes. *Event channels* carry events whole, in fragments, with both; control events need one
(_cosmic_channels.py says what a channel can be).

    frame ─▶ acceptance filter of the controller ─▶ wanted? ─▶ decoded ─▶ port        nothing else is looked at
    event ─▶ room in the node's queue? ─▶ queue: the most urgent first ─▶ one frame in the kernel ─▶ sent, acknowledged
                  └─ waits, as long as the event is worth something; then it is refused

A published event is acknowledged when it was on the bus.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import can

from vicinal.cosmic.binding import Binding
from vicinal.cosmic.binding_broker import BindingBroker
from vicinal.cosmic.channels import Channel, SrtChannel
from vicinal.cosmic.clock import BusClock
from vicinal.cosmic.faults import BUS_OFF
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.hrt import HrtChannel
from vicinal.cosmic.identifier import MAX_ETAG, MAX_TX_NODE
from vicinal.errors import RemoteProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.tables_cpython import Table
from vicinal_hw.can.shell import Shell, open_bus

from ..adapter import Adapter, Port, Refused, Unavailable
from ._cosmic_channels import FIRST_ETAG, ChannelSettings, deadline_of
from ._cosmic_filters import acceptance, set_filters
from ._cosmic_frames import EXTENDED_FLAG, Reader, key_of, packet_of, reader_of, unlike, unpack_packet
from ._cosmic_names import Names, Time
from ._cosmic_node import GatewayNode
from ._cosmic_settings import CosmicSettings
from ._subjects import named_subjects, possible_subjects

__all__ = ["CosmicAdapter"]

UNBOUND = MAX_TX_NODE
"""the number that the binding protocol keeps for itself, until there is another"""


class CosmicAdapter(Adapter):
    def __init__(self, service: str, settings: Table) -> None:
        super().__init__(service, settings)
        self.settings = CosmicSettings(service, settings)
        self.capabilities = self.settings.capabilities
        self._all_readers = {key: reader_of(message) for key, message in self.settings.plain.items()}
        self._reset()

    def _reset(self) -> None:
        self._port: Port | None = None
        self._bus: can.BusABC | None = None
        self._shell: Shell | None = None
        self._node: GatewayNode | None = None
        self._names: Names | None = None
        self._open: dict[str, Channel] = {}
        self._subscriptions: dict[str, tuple[Filter, set[str]]] = {}
        self._readers: dict[int, Reader] = {}
        self._etags: frozenset[int] = frozenset()
        self._sends: set[int] = set()  # identifiers of plain frames, whose confirmations must pass the filters
        self._tunnels = False
        self._injects = False
        self._bound: dict[str, asyncio.Future[int]] = {}
        self._numbered: asyncio.Future[int] | None = None
        self._room = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._frames = {"frames: delivered": 0, "frames: malformed": 0, "frames: no room": 0, "frames: not wanted": 0}

    # Coming and going

    async def connect(self, port: Port) -> None:
        await self.disconnect()
        try:
            await self._connect(port)
        except BaseException:
            await self.disconnect()
            raise

    async def _connect(self, port: Port) -> None:
        bus, confirms = await self._opened()
        self._bus, self._port = bus, port
        clock = None if self.settings.time_etag is None else BusClock(self.settings.time_accuracy)
        bitrate = getattr(bus, "bitrate", None) or self.settings.bitrate
        node = self._node = GatewayNode(
            UNBOUND if self.settings.tx_node is None else self.settings.tx_node, bitrate, clock, self.settings.queue
        )
        shell = self._shell = Shell(bus, node, confirms)
        shell.tap, node.on_plain = self._tap, self._on_plain
        shell.recovery.on_change = self._on_state
        if clock is not None and self.settings.time_etag is not None:
            Time(node, clock, self.settings.time_etag, self.settings.time_rank, shell.now())
        loop = asyncio.get_running_loop()
        if self.settings.has_names:
            self._start_names(port, node, shell, loop)
        await shell.__aenter__()
        shell.failed.add_done_callback(self._on_failed)
        self._set_filters()
        shell.update()
        if self._numbered is not None:
            node.tx_node = await self._named(
                self._numbered, f"nobody on {self.settings.title} gives numbers to nodes: set tx_node, or broker = true"
            )
            self._set_filters()

    async def _opened(self) -> tuple[can.BusABC, bool]:
        try:
            return await asyncio.to_thread(open_bus, **self.settings.bus)
        except can.CanInterfaceNotImplementedError as error:
            raise Refused(f"{self.settings.title}: {error}") from error
        except (can.CanInitializationError, OSError) as error:
            raise Unavailable(f"{self.settings.title}: {error}{self.settings.advice}") from error
        except (can.CanError, ValueError, TypeError, ImportError) as error:
            raise Refused(f"{self.settings.title}: {error}") from error

    def _start_names(self, port: Port, node: GatewayNode, shell: Shell, loop: asyncio.AbstractEventLoop) -> None:
        now, file = shell.now(), port.folder / "names"
        broker = None
        if self.settings.broker:
            port.folder.mkdir(parents=True, exist_ok=True)
            broker = BindingBroker(
                self.settings.rank, now, file.read_bytes() if file.exists() else b"", persistent=True
            )
        uid = self.settings.uid or hashlib.sha256(f"{port.gateway}/{port.service}".encode()).digest()[:8]
        binding = Binding(uid, now, self.settings.tx_node)
        if self.settings.tx_node is None:
            self._numbered = loop.create_future()

        def look() -> int:
            shell.update()
            return shell.now()

        self._names = Names(node, binding, broker, file, self._on_name, look)

    async def disconnect(self) -> None:
        shell, bus, node, names = self._shell, self._bus, self._node, self._names
        waiting = [*self._bound.values(), *([self._numbered] if self._numbered else [])]
        if self._timer is not None:
            self._timer.cancel()
        self._room.set()
        self._reset()
        for future in waiting:
            future.cancel()
        if shell is not None and hasattr(shell, "failed"):
            await shell.__aexit__(None, None, None)
        if names is not None:
            await names.close()
        if node is not None:
            node.abandon("")
        if bus is not None:
            await asyncio.to_thread(bus.shutdown)

    def _on_failed(self, failed: "asyncio.Future[None]") -> None:
        if failed.cancelled() or self._port is None:
            return
        error = failed.exception()
        if self._node is not None:
            self._node.abandon("lost")
        self._port.lost(f"{self.settings.title}: {error}")

    def _on_state(self, state: str, now: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if state == BUS_OFF:
            self._timer = asyncio.get_running_loop().call_later(self.settings.bus_off_s, self._still_off)

    def _still_off(self) -> None:
        if self._port is not None:
            self._port.lost(
                f"{self.settings.title} is bus-off for {self.settings.bus_off_s:g} s: too many errors. Look at the bit "
                f"rate, the wires and the termination{self.settings.advice}"
            )

    # Out

    async def announce(self, event: Event) -> None:
        self._connected()
        message = self.settings.message(event.subject)
        if message is not None:
            if why := unlike(message, event):
                raise Refused(why)
            self._send_id(message.key)
            return
        settings = self.settings.channel(event.subject)
        if settings.codec is not None and (why := unlike(settings.codec, event)):
            raise Refused(why)
        self._announced(await self._channel(settings))

    def _announced(self, channel: Channel) -> Channel:
        node, shell = self._connected()
        if not channel.announced:
            channel.announce(shell.now(), node.on_failed)
        return channel

    async def unannounce(self, event: Event) -> None:
        channel = self._open.get(event.subject)
        if channel is not None and channel.announced:
            channel.unannounce(self._connected()[1].now())

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        node, shell = self._connected()
        message = self.settings.message(event.subject)
        if message is not None:
            frame = Frame(message.id, message.encode(event), message.extended)
            self._send_id(message.key)
            expires = self._instant(event, "Expires", shell.now() + self.settings.validity)
            return await self._queued(
                event.subject, expires, lambda done: node.send_plain(frame, shell.now(), expires, done)
            )
        settings = self.settings.channel(event.subject)
        channel = self._announced(await self._channel(settings))
        now = shell.now()
        if isinstance(channel, HrtChannel):
            channel.publish(event, now)  # for its next slot; there is always room
            shell.update()
            return None
        expires = self._instant(event, "Expires", now + settings.validity_ms * 1000)

        def send() -> bool:
            now = shell.now()
            if isinstance(channel, SrtChannel):
                due = self._instant(event, "Deadline", now + deadline_of(event, settings.deadline_ms))
                return channel.publish(event, now, due, expires)
            return bool(channel.publish(event, now, expires))  # type: ignore[attr-defined]

        return await self._queued(event.subject, expires, lambda done: node.publish(send, done))

    def _instant(self, event: Event, attribute: str, otherwise: int) -> int:
        """Microseconds of the shell, of an attribute in Unix milliseconds."""
        assert self._port is not None
        given = event.attrs.get(attribute)
        return otherwise if given is None else self._connected()[1].now() + (given - self._port.now()) * 1000

    async def _queued(
        self, what: str, expires: int, put: Callable[[Callable[[str], None]], bool | None]
    ) -> "asyncio.Future[None]":
        node, shell = self._connected()
        while node.full or expires <= shell.now():
            left = (expires - shell.now()) / 1e6
            if left <= 0:
                raise Refused(f"{what}: it expired before there was room for it on {self.settings.title}")
            self._room.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._room.wait(), left)
            node, shell = self._connected()
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        title = self.settings.title
        if put(lambda reason: self._done(sent, what, title, reason)) is False:
            raise Refused(f"{what}: the queue for {title} is full")
        shell.update()
        return sent

    def _done(self, sent: "asyncio.Future[None]", what: str, title: str, reason: str) -> None:
        self._room.set()
        if sent.done():
            return
        if self._node is None or reason == "lost":
            sent.set_exception(Unavailable(f"{title}: the connection ended before {what} was sent"))
        elif reason:
            sent.set_exception(Refused(f"{what}: not sent on {title}: {reason}"))
        else:
            sent.set_result(None)
            return
        sent.exception()  # who does not wait for it is not complained about

    # In

    async def subscribe(self, condition: Filter) -> None:
        _, shell = self._connected()
        subjects = possible_subjects(condition, self.settings.subjects)
        if self.settings.bind:
            named = named_subjects(condition)
            if named is None:
                raise Refused(f"{condition.text!r} names no subject: on {self.service} they are bound one by one")
            subjects |= set(named)
        if not subjects:
            raise Refused(f"no subject of {self.service} can meet {condition.text!r}; it has {self.settings.known}")
        for subject in subjects:
            if self.settings.message(subject) is None:
                channel = await self._channel(self.settings.channel(subject))
                if channel.on_event is None:
                    channel.subscribe(self._on_event, shell.now(), self._on_lost)
        self._subscriptions[condition.text] = (condition, subjects)
        self._choose()
        shell.update()

    async def unsubscribe(self, condition: Filter) -> None:
        _, shell = self._connected()
        if self._subscriptions.pop(condition.text, None) is None:
            return
        wanted = self._wanted()
        for subject, channel in self._open.items():
            if channel.on_event is not None and subject not in wanted:
                channel.unsubscribe(shell.now())
        self._choose()
        shell.update()

    def _wanted(self) -> set[str]:
        return {subject for _, subjects in self._subscriptions.values() for subject in subjects}

    def _choose(self) -> None:
        """What is looked at, after what is wanted has changed."""
        wanted = self._wanted()
        self._readers = {
            key: self._all_readers[key] for key, one in self.settings.plain.items() if one.subject in wanted
        }
        self._set_filters()

    def _set_filters(self) -> None:
        node, bus = self._node, self._bus
        if node is None or bus is None:
            return
        etags = [channel.etag for channel in self._open.values() if channel.on_event is not None]
        if self.settings.time_etag is not None:
            etags.append(self.settings.time_etag)
        self._etags = frozenset(etags)
        conditions = [condition for condition, _ in self._subscriptions.values()]
        binding = self._names is not None
        own = node.tx_node if binding or self.settings.channels or self.settings.time_etag is not None else None
        found = acceptance(conditions, self.settings.identifiers, self._sends, etags, own, binding)
        set_filters(bus, None if self._tunnels or self._injects else found)

    def _send_id(self, key: int) -> None:
        if key not in self._sends:
            self._sends.add(key)
            self._set_filters()

    def _tap(self, message: can.Message) -> bool:
        """Every frame of the bus comes by here: most must cost nothing, and those that are wanted little."""
        number = message.arbitration_id
        reader = self._readers.get(number | EXTENDED_FLAG if message.is_extended_id else number)
        if not message.is_rx or message.is_error_frame or self._tunnels:
            return False
        if reader is not None:
            if message.is_remote_frame or message.is_fd:
                return False
            self._read(reader, bytes(message.data))
            return True
        if message.is_extended_id and (number & MAX_ETAG < FIRST_ETAG or number & MAX_ETAG in self._etags):
            return False
        self._frames["frames: not wanted"] += 1
        return True

    def _read(self, reader: Reader, data: bytes) -> None:
        port, frames = self._port, self._frames
        assert port is not None
        try:
            event = reader(data)
        except RemoteProtocolError:
            frames["frames: malformed"] += 1
            port.malformed("a frame that is not as its message in the mapping")
            return
        frames["frames: delivered" if port.received(event) else "frames: no room"] += 1

    def _on_plain(self, frame: Frame) -> bool:
        """What the tap has left over: frames of other programs on this host, and all while a tunnel is on."""
        if self._tunnels and self._port is not None:
            self._port.packet(packet_of(frame))
        reader = None if frame.remote else self._readers.get(key_of(frame))
        if reader is None:
            return False
        self._read(reader, frame.data)
        return True

    def _on_event(self, event: Any, tx_node: int, now: int) -> None:
        if self._port is not None:
            self._port.received(event)

    def _on_lost(self, reason: str, event: Any, now: int) -> None:
        if self._port is not None and reason.startswith("undecodable"):
            self._port.malformed("an event of a channel that cannot be read")

    # Names

    async def _channel(self, settings: ChannelSettings) -> Channel:
        node, _ = self._connected()
        found = self._open.get(settings.subject)
        if found is None:
            etag = settings.etag if settings.etag is not None else await self._etag(settings.subject)
            found = self._open[settings.subject] = settings.channel(node, etag, node.bitrate)
        return found

    async def _etag(self, subject: str) -> int:
        names, (_, shell) = self._names, self._connected()
        if names is None:
            raise Refused(f"subject {subject!r} has no etag: give it one, or bind = true")
        found = names.binding.etag(subject)
        if found is None:
            waiting = self._bound.setdefault(subject, asyncio.get_running_loop().create_future())
            names.want(subject, shell.now())
            shell.update()
            found = await self._named(
                asyncio.shield(waiting),
                f"nobody on {self.settings.title} gives {subject!r} an etag: give it one, or broker = true",
            )
        return found

    async def _named(self, future: Awaitable[int], why: str) -> int:
        try:
            return await asyncio.wait_for(future, self.settings.binding_s)
        except TimeoutError:
            raise Unavailable(why) from None

    def _on_name(self, kind: str, subject: str, number: int) -> None:
        if kind == "node":
            if self._numbered is not None and not self._numbered.done():
                self._numbered.set_result(number)
        elif kind in ("bound", "refused"):
            waiting = self._bound.pop(subject, None)
            if waiting is not None and not waiting.done():
                if kind == "bound":
                    waiting.set_result(number)
                else:
                    waiting.set_exception(Refused(f"there is no etag left on {self.settings.title} for {subject!r}"))
        elif kind == "conflict" and self._port is not None:
            self._port.malformed("another node uses an etag differently")

    # Tunnels

    async def tunnel(self, on: bool) -> None:
        self._connected()
        self._tunnels = on
        self._set_filters()

    async def inject(self, data: bytes) -> "asyncio.Future[None] | None":
        node, shell = self._connected()
        try:
            frame = unpack_packet(data)
        except RemoteProtocolError as error:
            raise Refused(f"what came through the tunnel is no frame: {error}") from error
        if not self._injects:
            self._injects = True  # of any identifier, and each must come back as a confirmation
            self._set_filters()
        expires = shell.now() + self.settings.validity
        return await self._queued(
            f"frame {frame.id:#x}", expires, lambda done: node.send_plain(frame, shell.now(), expires, done)
        )

    # Inside

    def _connected(self) -> tuple[GatewayNode, Shell]:
        if self._node is None or self._shell is None or not hasattr(self._shell, "failed") or self._shell.failed.done():
            raise Unavailable(f"{self.service} is not connected to {self.settings.title}")
        return self._node, self._shell

    def status(self) -> dict[str, int | str]:
        if self._node is None or self._shell is None:
            return {}
        found: dict[str, int | str] = {"state": self._shell.recovery.state, "tx_node": self._node.tx_node}
        return {**found, "stored": self._node.stored, **self._frames, **self._node.counters, **self._shell.counters}
