"""A node with its status page and its position."""

import asyncio

from vicinal.errors import LocalProtocolError
from vicinal.listening_cpython import cannot_listen
from vicinal.pages_cpython import MAX_HEAD, answer
from vicinal_hw.location.fix import Location

from .config import Config, Place
from .node import Node
from .status import pages

__all__ = ["CannotListen", "Server"]

_ASKING = 5.0
_WHERE = 0.2


class CannotListen(LocalProtocolError):
    pass


class Server:
    def __init__(self, node: Node) -> None:
        self.node = node
        self.status_address: str | None = None
        self._http: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def start(cls, config: Config) -> "Server":
        made = cls(await Node.open(config))
        try:
            if config.status is not None:
                await made._listen(*config.status)
        except BaseException:
            await made.node.store.close()
            raise
        made.node.start()
        if config.place.gpsd or config.place.track:
            made._tasks.append(asyncio.get_running_loop().create_task(_follow(made.node, config.place)))
        return made

    async def _listen(self, host: str, port: int) -> None:
        shown = pages(self.node)

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with asyncio.timeout(_ASKING):
                    writer.write(answer(await reader.readuntil(b"\r\n\r\n"), shown))
                    await writer.drain()
            except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
                pass  # whoever asked has gone, or never meant to ask
            finally:
                writer.close()

        try:
            self._http = await asyncio.start_server(handle, host, port, limit=MAX_HEAD)
        except OSError as error:
            raise CannotListen(cannot_listen(f"http://{host}:{port}", error)) from error
        self.status_address = f"http://{host}:{self._http.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._http is not None:
            self._http.close()
        await self.node.stop()


async def _follow(node: Node, place: Place) -> None:
    """Where the gateway is, as long as somebody knows."""

    async def watch(location: Location) -> None:
        while True:
            fix = location.fix(node.now())
            node.place = None if fix is None else (fix.lat, fix.lon)
            await asyncio.sleep(_WHERE)

    if place.track is not None:
        from vicinal_hw.location.recording import read_recording
        from vicinal_hw.location.track import Track

        await watch(Track(read_recording(place.track).fixes, start=node.now()))
        return
    from vicinal_hw.location.gpsd import Gpsd

    host, _, port = place.gpsd.rpartition(":")
    async with Gpsd(host or "127.0.0.1", int(port), clock=node.now, required=False) as location:
        await watch(location)
