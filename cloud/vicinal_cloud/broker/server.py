"""A broker, from start to drain.

    server = Server(load("b1.toml"), random.Random())
    await server.start()                    listens on server.addresses
    await server.drain()                    bye to clients, everything handed on, bye to neighbours

`run` does it for a process: SIGTERM and SIGINT drain, SIGHUP reads the scopes anew.
"""

import asyncio
import gc
import logging
import random
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from vicinal.errors import LocalProtocolError
from vicinal.listening_cpython import cannot_listen
from vicinal.siena.broker import Broker
from vicinal.siena.connection import DRAINING, PING_AFTER

from . import http, limits
from .address import Address
from .administering import Administering
from .config import Config, ConfigError, Listen, load
from .holding import Holding
from .link import Link
from .neighbours import keep_linked
from .node import Node, clock
from .status import status
from .storage import Storage, next_incarnation

__all__ = ["CannotListen", "Server", "run"]

_log = logging.getLogger("vicinal.broker")


class CannotListen(LocalProtocolError):
    pass


class Server:
    def __init__(self, config: Config, chance: random.Random, ping_after: int = PING_AFTER) -> None:
        self.config = config
        self.addresses: list[Address] = []
        self.status_address: Address | None = None
        self._chance = chance
        now = clock()
        directory = None if config.log is None else config.log.directory
        engine = Broker(config.name, next_incarnation(directory, now()), config.graph)
        neighbours = {one.name: one.address is not None for one in config.neighbours}
        self.node = Node(engine, neighbours, now, None, ping_after, config.identities)
        self.administering = Administering(self.node, config, directory)
        self._servers: list[asyncio.Server] = []
        self._fleet: Any = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        config, node = self.config, self.node
        if config.log is not None:
            node.storage = Storage(config.log.directory, node.engine, node.now, config.log.options, node.pump)
        node.holding = Holding(node)
        node.pump()  # what was published here and is not yet on the disk of durable subscriptions
        for one in config.listen:
            self.addresses.append(await self._listen(one))
        if config.status is not None:
            server = await _open(config.status, http.serve(self.status, config.status.host, config.status.port))
            self.status_address = self._bound(server, config.status)
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(node.tick()))
        self._tasks.append(loop.create_task(self._watch()))
        for neighbour in config.neighbours:
            if neighbour.address is not None:
                self._tasks.append(loop.create_task(keep_linked(node, neighbour, self._chance)))
        if config.fleet is not None:
            from ..fleet.service import serve_inside

            self._fleet = await serve_inside(node, config.fleet)

    async def _watch(self) -> None:
        """For ever: the file of the deployment."""
        while True:
            await asyncio.sleep(limits.WATCH_SECONDS)
            self.administering.look()

    async def _listen(self, one: Listen) -> Address:
        node, address = self.node, one.address
        make: Callable[[], Link]
        if address.web:
            from .websocket import WebSocketLink

            def make() -> Link:
                return WebSocketLink(node, node.accept())
        else:

            def make() -> Link:
                return Link(node, node.accept())

        context = one.tls.for_listener() if address.secure else None
        loop = asyncio.get_running_loop()
        opening = loop.create_server(make, address.host, address.port, ssl=context, backlog=1024)
        return self._bound(await _open(address, opening), address)

    def _bound(self, server: asyncio.Server, address: Address) -> Address:
        self._servers.append(server)
        return address._replace(port=server.sockets[0].getsockname()[1])

    def status(self) -> dict[str, Any]:
        found = status(self.node)
        found["deployment"] = {
            "source": self.administering.source,
            "problems": self.administering.problems,
            "statements": len(self.node.engine.administration.statements()),
        }
        return found

    def reload(self, config: Config) -> list[str]:
        """Other scopes, while running. Clients in scopes that are no longer here are cut: a right that is withdrawn
        ends what was begun under it. Gives their names."""
        return self.administering.reload(config)

    async def drain(self) -> None:
        node = self.node
        if self._fleet is not None:
            await self._fleet.stop()
        node.draining = True
        for server in self._servers:
            server.close()
        for link in [session.link for session in node.sessions.values()]:
            link.cut(DRAINING, f"broker {node.engine.name!r} is going down")
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.DRAIN_SECONDS):
                while node.counters.storing or self._owes():
                    await asyncio.sleep(0.02)
        for task in self._tasks:
            task.cancel()
        for link in list(node.links):
            link.cut(DRAINING, f"broker {node.engine.name!r} is going down")
        await asyncio.sleep(0)
        if node.holding is not None:
            node.holding.close()
        if node.replays is not None:
            node.replays.close()
        if node.storage is not None:
            await node.storage.close()

    def _owes(self) -> bool:
        """Whether others within reach have not yet taken all there is for them."""
        engine = self.node.engine
        return any(
            stream.packets and engine.records.topology.towards(engine.name, name) is not None
            for name, stream in engine._out.items()
            if name != engine.name
        )


async def _open(address: Address, opening: Any) -> asyncio.Server:
    try:
        server: asyncio.Server = await opening
        return server
    except OSError as error:
        raise CannotListen(cannot_listen(address, error)) from error


async def run(path: Path, config: Config, ready: Callable[[Server], None]) -> None:
    """Until SIGTERM or SIGINT."""
    _allow_many_files()
    server = Server(config, random.Random())
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, _reload, server, path)
    await server.start()
    ready(server)
    gc.collect()
    gc.freeze()  # what is there by now stays: to look through it at every clean-up would hold up all clients
    await stop.wait()
    _log.info("broker %s drains", config.name)
    await server.drain()


def _allow_many_files() -> None:
    """A connection is a file, and many systems give a process 1,024 unless it asks for all that it may have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _reload(server: Server, path: Path) -> None:
    try:
        outside = server.reload(load(path))
    except ConfigError as error:
        _log.error("scopes stay as they were: %s", error)
    else:
        _log.info("scopes read anew from %s; %d clients cut", path, len(outside))
