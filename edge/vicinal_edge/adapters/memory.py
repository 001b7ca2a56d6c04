"""An event service within one process: for trying a gateway out, for tests of plug-ins and for benches.

All adapters that name the same `space` are on it. It has no network under it, and is called "memory" for that.
"""

import asyncio

from vicinal import wire
from vicinal.errors import LimitError, RemoteProtocolError
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.filter import Filter
from vicinal.filter.index import Index
from vicinal.size_cpython import check_size
from vicinal.tables_cpython import Table

from ..adapter import Adapter, Port, Refused, Result, Unavailable

__all__ = ["MemoryAdapter", "Space", "spaces"]


class Space:
    """Who is on it, with the filters that each has."""

    def __init__(self) -> None:
        self.members: list[MemoryAdapter] = []

    def publish(self, event: Event, sender: object = None) -> None:
        for member in self.members:
            if member is not sender:
                member.hear(event)


spaces: dict[str, Space] = {}


class MemoryAdapter(Adapter):
    capabilities = Capabilities(filter="content", tunnels=True)

    def __init__(self, service: str, settings: Table) -> None:
        super().__init__(service, settings)
        self.space = spaces.setdefault(settings.take("space", str, service), Space())
        self.index = Index()
        self._port: Port | None = None
        self._tunnels = False

    async def connect(self, port: Port) -> None:
        self._port = port
        self.space.members.append(self)

    async def disconnect(self) -> None:
        if self in self.space.members:
            self.space.members.remove(self)
        self.index, self._port, self._tunnels = Index(), None, False

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        if self._port is None:
            raise Unavailable(f"{self.service} is not connected")
        check_size(event)  # what is too large for the wire is refused here as elsewhere
        self.space.publish(event, self)
        return None

    async def publish_many(self, events: list[Event], results: list[Result]) -> None:
        if self._port is None:
            raise Unavailable(f"{self.service} is not connected")
        space = self.space
        for event in events:
            try:
                check_size(event)
            except LimitError as error:
                results.append(error)
                continue
            space.publish(event, self)
            results.append(None)

    async def subscribe(self, condition: Filter) -> None:
        self.index.add(condition.text, condition)

    async def unsubscribe(self, condition: Filter) -> None:
        self.index.remove(condition.text)

    async def tunnel(self, on: bool) -> None:
        self._tunnels = on

    async def inject(self, data: bytes) -> "asyncio.Future[None] | None":
        try:
            self.space.publish(wire.decode(data), self)
        except RemoteProtocolError as error:
            raise Refused(f"what came through the tunnel is no event: {error}") from error
        return None

    def hear(self, event: Event) -> None:
        assert self._port is not None
        if self._tunnels:
            self._port.packet(wire.encode(event))
        if self.index.match(event):
            self._port.received(event)
