"""What connects a gateway to one event service (seed 001, 5.4 and 5.10). A plug-in is a subclass of Adapter, found by
the entry point `vicinal.adapters` under the name that stands as `type` in a [[service]] of the configuration.

    connect ──▶ announce, subscribe, publish ... in any order, one at a time ──▶ disconnect
       │             │
       │             └── Refused      the service cannot, and will not: the reason goes to who asked
       │                              (any other LocalProtocolError means the same)
       └──────────────── Unavailable  it cannot now: the gateway connects again with back-off, and asks again

What the service says goes to the port: `port.received(event)`. An adapter

- gives every event of the service that meets a subscription, at least: the gateway filters once more, exactly;
- never gives back what it has published itself;
- keeps the order of each producer, and (producer, seq) where the service has room for them; an event without them is
  stamped by the gateway;
- carries control events (subject FES_ControlEvent) like others, where `capabilities.control` says so: the gateway
  subscribes to them;
- forgets its subscriptions and announcements in `disconnect`: after `connect` the gateway makes them again.

It may raise anything and hang anywhere: the gateway waits for so long, says what happened, and starts it anew.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.filter import Filter
from vicinal.tables_cpython import Table

__all__ = ["Adapter", "Answered", "Port", "Refused", "Result", "Unavailable"]

Result: TypeAlias = "asyncio.Future[None] | asyncio.Future[dict[int, BaseException] | None] | LocalProtocolError | None"

Answered: TypeAlias = Callable[[dict[int, BaseException]], None]
"""is called once, with the errors of some by their place; of the others the service has acknowledged all"""


class Refused(LocalProtocolError):
    """The service cannot grant it: the message says why. To ask again changes nothing."""


class Unavailable(VicinalError):
    """The service is not there now. Nothing is lost by it: what was to be published is kept."""


class Port(Protocol):
    """The gateway, as an adapter sees it."""

    gateway: str
    """its name"""
    service: str
    """the event service's name in the federation: [[service]] name"""
    folder: Path
    """where the adapter may keep what must survive a restart"""

    def received(self, event: Event, taken: Callable[[], None] | None = None) -> bool:
        """An event of the service, from somebody else. False: there was no room, it is dropped and counted. Who can
        hold its service back waits for `room` first. Who acknowledges to its service does so in `taken`: it is called
        when the event is on disk, where it is kept, or is dropped and counted; one event after the other, as they came.
        If the gateway dies before, the service says it again, and what was kept already is known by its identity."""

    async def room(self) -> None:
        """Returns when there is room for more."""

    def packet(self, data: bytes) -> None:
        """As `received`, of what a tunnel carries: the service's own bytes."""

    def malformed(self, reason: str) -> None:
        """Something came that is no event: counted, and logged now and then. `reason` is one of few."""

    def lost(self, reason: str) -> None:
        """The connection is gone: the gateway will disconnect and connect again."""

    def now(self) -> int:
        """Unix milliseconds, never backwards."""

    def position(self) -> tuple[int, int] | None:
        """Latitude and longitude of the gateway in 1e-7 degrees."""


class Adapter:
    """The base of all adapters. `settings` is the [[service]] table: take from it what is yours, with kind errors."""

    capabilities = Capabilities()

    def __init__(self, service: str, settings: Table) -> None:
        self.service = service

    async def connect(self, port: Port) -> None:
        """Raises Unavailable, or Refused where it will never work."""

    async def disconnect(self) -> None:
        """Whatever the state, and after it nothing is left: no task, no socket."""

    async def announce(self, event: Event) -> None:
        """Events of this type may follow: the event stands for them. Services that know no announcements do nothing."""

    async def unannounce(self, event: Event) -> None:
        pass

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        """None when the service has it; a future when it has been handed over and an acknowledgement will come. Who is
        called may wait: nothing else is published there meanwhile."""
        raise Refused(f"{self.service} takes no events")

    async def publish_many(self, events: "list[Event]", results: "list[Result]") -> None:
        """For services that are faster so; to have only `publish` is enough. Adds to `results`, for each event in its
        order, what `publish` would have given, or the LocalProtocolError that it would have raised; when it raises
        another, what is there counts. A future may stand for several in a row: its result is then None, or the errors
        of some by their place among them, from 0. All of it together may take as long as one publish.

        It is called only where it belongs to the same class as `publish`, or to one derived from it."""
        for event in events:
            try:
                results.append(await self.publish(event))
            except LocalProtocolError as error:
                results.append(error)

    def publish_at_once(self, events: "list[Event]", answered: Answered) -> bool:
        """For services that are faster still where an event comes alone: publish_many of what need not wait for
        anything, and raises nothing; `answered` may be called before it returns. False: nothing was done, and they are
        given to publish_many. It is called only where publish_many belongs to the same class."""
        return False

    async def subscribe(self, condition: Filter) -> None:
        """From now on events that meet it are received; a wider choice is in order."""
        raise Refused(f"{self.service} gives no events")

    async def unsubscribe(self, condition: Filter) -> None:
        """Of one that was subscribed before."""

    async def poll(self) -> None:
        """Every `capabilities.poll` milliseconds, where that is not 0."""

    async def tunnel(self, on: bool) -> None:
        """Gives what the service carries to `port.packet`, where `capabilities.tunnels`."""
        raise Refused(f"{self.service} does not tunnel")

    async def inject(self, data: bytes) -> "asyncio.Future[None] | None":
        """Puts what another adapter of this type gave to `port.packet` on this service, unchanged."""
        raise Refused(f"{self.service} does not tunnel")

    def status(self) -> dict[str, int | str]:
        """Counters and states of its own, for the status page."""
        return {}
