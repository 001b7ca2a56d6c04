"""STEAM over BLE (seed 001, 6.3.2): events between those who are near each other, with no infrastructure.

    [[service]]
    type = "steam"
    adapter = "hci0"                  # BlueZ's; or virtual = "town", the virtual radio of that name
    label = "m1"                      # how the record of a virtual radio calls this one; unless said, not at all
    extended = true                   # advertisements of up to 254 bytes; else of 28
    interval_ms = 100                 # between two of them
    control = true                    # control events pass; unless said, where advertisements are extended

and [[service.announce]] for subjects that want another area than all that the radio reaches (_steam_areas.py).

Where the gateway is, the port says, and is asked five times a second. Subscriptions are by subject, as groups are: a
filter that names no subject is refused. Its contents are looked at here, exactly.

    publish ─▶ announced? ─▶ its turn? ─▶ said in three rounds of all its pieces ─▶ acknowledged
                   no: announced  no: it waits, as long as it is worth something; then it is refused

Up to four events are said in turns, so that an urgent one is out at once, but of one producer one at a time: who has
missed a piece of the first hears it in a later round, and the next must not come before. Nobody answers an
advertisement: acknowledged means said, and not heard.

A subscription of another gateway, 101 bytes, is heard after 1 s and said three times after 3.1 s where 28 bytes go out
every 100 ms; in extended advertisements after 0.1 s and 0.4 s.
"""

import asyncio
import contextlib
import secrets
from typing import Any

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.filter import Filter
from vicinal.proximity import Proximity
from vicinal.steam._rotation import Outgoing
from vicinal.steam.frames import LEGACY_ROOM, MAX_ROOM, MIN_ROOM
from vicinal.steam.node import Node
from vicinal.tables_cpython import Table
from vicinal_hw.ble.shell import Radio, RadioError, Shell

from ..adapter import Adapter, Port, Refused, Unavailable
from ._numbers import Numbers
from ._steam_areas import Announced, AnnounceSettings, read_announcements
from ._subjects import named_subjects

__all__ = ["SteamAdapter"]

POSITION_S = 0.2
"""between two questions where the gateway is; at 130 km/h that is 7 m"""
IN_THE_AIR = 4
"""events that are said in turns; a node pushes none of so few out before its three rounds"""
MAX_CHUNKS = 15
"""of an event (STEAM-12)"""
OVERHEAD = 14
"""bytes of a piece beside its chunk, structure and all; the body has 3 of its own"""


class SteamAdapter(Adapter):
    def __init__(self, service: str, settings: Table) -> None:
        super().__init__(service, settings)
        self._adapter: str = settings.take("adapter", str, "hci0")
        self._virtual: str | None = settings.take("virtual", str)
        self._label: str = settings.take("label", str, "")
        self._extended: bool = settings.take("extended", bool, False)
        self._interval: int = settings.number("interval_ms", 100, 20, 10_240)
        default = MAX_ROOM if self._extended else LEGACY_ROOM
        self._space: int = settings.number("room", default, MIN_ROOM, MAX_ROOM if self._extended else 31)
        control = settings.take("control", bool, self._extended)
        self._known = read_announcements(settings)
        self.capabilities = Capabilities(
            max_bytes=MAX_CHUNKS * (self._space - OVERHEAD) - 3,
            filter="content",
            announces=True,
            control=control,
            located=True,
        )
        self._reset()

    def _reset(self) -> None:
        self._port: Port | None = None
        self._node: Node | None = None
        self._radio: Radio | None = None
        self._shell: Shell | None = None
        self._poll: asyncio.Task[None] | None = None
        self._numbers: Numbers | None = None
        self._announced: dict[str, Announced] = {}
        self._handlers: dict[str, tuple[list[str], _Handler]] = {}
        self._last: Event | None = None
        self._lost = False
        self._saying: list[tuple[Outgoing, asyncio.Future[None]]] = []
        self._look: asyncio.TimerHandle | None = None

    # Coming and going

    async def connect(self, port: Port) -> None:
        await self.disconnect()
        self._port = port
        place = port.position()
        self._numbers = Numbers(port.folder / "steam.numbers")
        node = self._node = Node(
            f"{port.gateway}.{port.service}", secrets.randbelow((1 << 24) - 1) + 1, self._space, self._interval
        )
        radio = self._radio = self._made_radio(place)
        self._shell = Shell(node, radio)
        try:
            await self._shell.__aenter__()
            self._shell.failed.add_done_callback(self._on_failed)
            self._locate()
        except (RadioError, OSError) as error:
            await self.disconnect()
            raise Unavailable(f"{self.service}: {error}") from error
        except BaseException:
            await self.disconnect()
            raise
        self._poll = asyncio.get_running_loop().create_task(self._follow())

    def _made_radio(self, place: tuple[int, int] | None) -> Radio:
        if self._virtual is not None:
            from vicinal_hw.ble.virtual import VirtualRadio

            lat, lon = place or (0, 0)
            return VirtualRadio(self._virtual, lat, lon, interval=self._interval, label=self._label)
        try:
            from vicinal_hw.ble.bluez import BluezRadio
        except ImportError as error:
            raise Refused(
                f"{self.service}: BlueZ needs bleak and dbus-fast: pip install vicinal[gateway] ({error})"
            ) from error
        return BluezRadio(self._adapter, self._interval, self._extended)

    async def disconnect(self) -> None:
        shell, poll, radio = self._shell, self._poll, self._radio
        self._give_up()
        self._reset()
        if poll is not None:
            poll.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await poll
        if shell is not None and hasattr(shell, "failed"):
            await shell.__aexit__(None, None, None)
        elif radio is not None:
            await radio.close()

    def _on_failed(self, failed: "asyncio.Future[None]") -> None:
        if not failed.cancelled() and (error := failed.exception()) is not None:
            self._lose(str(error))

    def _lose(self, reason: str) -> None:
        if self._port is not None and not self._lost:
            self._lost = True
            self._give_up()
            self._port.lost(reason)

    def _give_up(self) -> None:
        """Who waits for something to be said is told that it was not."""
        if self._look is not None:
            self._look.cancel()
            self._look = None
        saying, self._saying = self._saying, []
        for outgoing, said in saying:
            if not said.done():
                name = outgoing.event.subject
                said.set_exception(Unavailable(f"{self.service}: the radio was gone before {name} was said"))
                said.exception()  # who does not wait for it is not complained about

    async def _follow(self) -> None:
        try:
            while True:
                await asyncio.sleep(POSITION_S)
                self._locate()
        except RadioError as error:
            self._lose(str(error))

    def _locate(self) -> None:
        """Also when nothing has changed: who stands still is known to."""
        if self._port is not None and self._shell is not None:
            place = self._port.position()
            self._shell.set_position(*(place or (None, None)))

    # Out

    async def announce(self, event: Event) -> None:
        self._announce(event, event.attrs.get("Proximity"))

    def _announce(self, event: Event, own: Proximity | None) -> None:
        node, shell = self._connected()
        settings = self._settings_of(event.subject)
        self._check_names(event, settings)
        found = Announced(settings, settings.area_at(node.position))
        found.base = found.area = found.area_for(own, None)
        self._tell(found)
        self._announced[event.subject] = found
        shell.update()

    def _check_names(self, event: Event, settings: AnnounceSettings) -> None:
        if settings.names is not None and tuple(event.params) != settings.names:
            raise Refused(
                f"event {event.subject!r} has parameters {list(event.params)}, {self.service} has the names "
                f"{list(settings.names)} for it"
            )

    def _settings_of(self, subject: str) -> AnnounceSettings:
        return self._known.get(subject) or AnnounceSettings(subject)

    def _tell(self, found: Announced) -> None:
        node, shell = self._connected()
        one = found.settings
        try:
            node.announce(one.subject, found.area, shell.now(), one.names, one.every_ms, one.validity_ms, one.keep)
        except LocalProtocolError as error:
            raise Refused(f"{self.service} cannot announce {one.subject!r}: {error}") from error

    async def unannounce(self, event: Event) -> None:
        node, shell = self._connected()
        if self._announced.pop(event.subject, None) is not None:
            node.unannounce(event.subject, shell.now())
            shell.update()

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        self._connected()
        if event.subject not in self._announced:
            self._announce(event, None)
        announced = self._announced[event.subject]
        self._check_names(event, announced.settings)
        if event.identity is None:
            node, numbers = self._connected()[0], self._numbers
            assert numbers is not None
            event = event.stamp(node.name, numbers.next())
        await self._turn(event, announced)
        node, shell = self._connected()
        area = announced.area_for(event.attrs.get("Proximity"), node.position)
        if area != announced.area:
            announced.area, before = area, announced.area
            try:
                self._tell(announced)
            except Refused:
                announced.area = before
                raise
        if not node.publish(event, shell.now()):
            raise Refused(f"{event.subject}: {self.service} had no room for it")
        said: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._saying.append((_latest(node), said))
        shell.update()
        if self._look is None:
            self._look_later()
        return said

    def _look_later(self) -> None:
        self._look = asyncio.get_running_loop().call_later(self._interval / 2000, self._look_now)

    def _look_now(self) -> None:
        self._look = None
        saying, self._saying = self._saying, []
        for outgoing, said in saying:
            if outgoing.fresh:
                self._saying.append((outgoing, said))
            elif not said.done():
                if outgoing.said:
                    said.set_result(None)
                else:
                    said.set_exception(Refused(f"{outgoing.event.subject}: its time was over before it was said"))
                    said.exception()
        if self._saying:
            self._look_later()

    async def _turn(self, event: Event, announced: Announced) -> None:
        """Returns when there is room in the air, and a place that an area can move with."""
        _, shell = self._connected()
        until = min(shell.now() + announced.settings.validity_ms, event.attrs.get("Expires", 1 << 62))
        while True:
            node, shell = self._connected()
            area = announced.area_for(event.attrs.get("Proximity"), node.position)
            lost = area.relative and node.position is None
            if until <= shell.now():
                why = "nobody knows where this gateway is" if lost else "it expired before it was its turn in the air"
                raise Refused(f"{event.subject}: {why}")
            busy = event.producer in [outgoing.event.producer for outgoing, _ in self._saying]
            if not lost and not busy and len(self._saying) < IN_THE_AIR:
                return
            await asyncio.sleep(self._interval / 2000)

    # In

    async def subscribe(self, condition: Filter) -> None:
        node, shell = self._connected()
        subjects = named_subjects(condition)
        if subjects is None:
            raise Refused(f"{condition.text!r} names no subject: groups of {self.service} are groups of a subject")
        if not subjects:
            raise Refused(f"no event can meet {condition.text!r}")
        if condition.text in self._handlers:
            return
        handler = _Handler(self)
        done: list[str] = []
        try:
            for subject in subjects:
                node.subscribe(subject, condition, handler, self._settings_of(subject).names)
                done.append(subject)
        except LocalProtocolError as error:
            for subject in done:
                node.unsubscribe(subject, handler, shell.now())
            raise Refused(f"{self.service} cannot subscribe to {subjects[len(done)]!r}: {error}") from error
        self._handlers[condition.text] = (subjects, handler)
        shell.update()

    async def unsubscribe(self, condition: Filter) -> None:
        node, shell = self._connected()
        subjects, handler = self._handlers.pop(condition.text, ([], None))
        if handler is not None:
            for subject in subjects:
                node.unsubscribe(subject, handler, shell.now())
            shell.update()

    def heard(self, event: Event) -> None:
        """Of each subscription that it meets, one after the other: it is one event all the same."""
        if event is not self._last and self._port is not None:
            self._last = event
            self._port.received(event)

    # Inside

    def _connected(self) -> tuple[Node, Shell]:
        shell = self._shell
        if self._node is None or shell is None or not hasattr(shell, "failed") or shell.failed.done() or self._lost:
            raise Unavailable(f"{self.service} is not connected to a radio")
        return self._node, shell

    def status(self) -> dict[str, int | str]:
        node, radio = self._node, self._radio
        if node is None or radio is None:
            return {}
        found: dict[str, int | str] = {
            "stored": node.stored,
            "groups": len(node.groups()),
            "heard of": len(node.heard()),
        }
        return {**found, **node.counters, **{f"radio {name}": number for name, number in radio.counters.items()}}


def _latest(node: Node) -> Outgoing:
    """What the node was given last: it tells nobody what becomes of an event, but the event's own entry does."""
    assert node._announcer is not None
    return node._announcer.rotation.fresh[-1]


class _Handler:
    """One for each subscription: the node tells them apart."""

    def __init__(self, adapter: SteamAdapter) -> None:
        self._adapter = adapter

    def __call__(self, event: Any, now: int) -> None:
        self._adapter.heard(event)
