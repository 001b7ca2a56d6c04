"""The fleet over the overlay: each hello is answered, and who is there is told of changes.

service = FleetService(Fleet(directory), client)
await service.start()
await service.stop()                         the client is its maker's
"""

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path

from vicinal.errors import RemoteProtocolError, VicinalError
from vicinal.federation.provisioning import CONFIG, HELLO, GatewayConfig, GatewayHello

from ..broker.client import Advertisement, Client, Closed, Refused, Subscription
from ..broker.node import Node
from .directory import Fleet

__all__ = ["FleetService", "serve_inside"]

_log = logging.getLogger("vicinal.fleet")
# Seconds between looks at the folder.
LOOK = 1.0


class FleetService:
    def __init__(self, fleet: Fleet, client: Client, look: float = LOOK) -> None:
        self.fleet = fleet
        self.client = client
        self.answered = 0
        self.malformed = 0
        self._look = look
        # The disk is in another thread: a broker does not wait for it, and the folder is for one at a time.
        self._turn = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        advertisement = await self.client.advertise(f"subject = '{CONFIG}'")
        hellos = await self.client.subscribe(f"subject = '{HELLO}'")
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._answer(hellos, advertisement)),
            loop.create_task(self._watch(advertisement)),
        ]

    async def wait(self) -> None:
        """Until it ends by itself, which is when the broker will not have it any more."""
        await asyncio.gather(*self._tasks)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        async with self._turn:
            await asyncio.to_thread(self.fleet.close)

    async def _answer(self, hellos: Subscription, advertisement: Advertisement) -> None:
        async for delivery in hellos:
            try:
                hello = GatewayHello.from_event(delivery.event)
            except RemoteProtocolError as error:
                self.malformed += 1
                _log.warning("a hello that is none: %s", error)
                continue
            try:
                async with self._turn:
                    config = await asyncio.to_thread(self.fleet.answer, hello, _now())
            except (OSError, VicinalError) as error:
                # No answer: the gateway asks again. A name that is not on disk is given to nobody.
                _log.error("cannot answer gateway %s: %s", hello.uid, error)
                continue
            if hello.failed:
                _log.warning("version %d failed at %s: %s", hello.failed, config.name, hello.health)
            await self._tell(config, advertisement)
            self.answered += 1

    async def _watch(self, advertisement: Advertisement) -> None:
        while True:
            try:
                async with self._turn:
                    configs = await asyncio.to_thread(self.fleet.changed, _now())
                    await asyncio.to_thread(self.fleet.save_status)
            except (OSError, VicinalError) as error:
                _log.error("cannot read the fleet's folder: %s", error)
                configs = []
            for config in configs:
                await self._tell(config, advertisement)
            await asyncio.sleep(self._look)

    async def _tell(self, config: GatewayConfig, advertisement: Advertisement) -> None:
        try:
            await self.client.publish(config.to_event(), advertisement)
        except Closed:
            raise
        except Refused as error:
            _log.error("the broker refused the configuration of %s: %s", config.name, error)
        else:
            if config.text is not None:
                _log.info("version %d went to %s", config.version, config.name)


def _now() -> int:
    return int(time.time() * 1000)


async def serve_inside(node: Node, directory: Path) -> FleetService:
    """Of a broker. It ends with `stop`, or with the broker."""
    from .inside import connect_inside

    fleet = await asyncio.to_thread(Fleet, directory)
    try:
        client = await connect_inside(node, f"fleet@{node.engine.name}")
        service = _Inside(fleet, client)
        await service.start()
    except BaseException:
        fleet.close()
        raise
    return service


class _Inside(FleetService):
    async def stop(self) -> None:
        await super().stop()
        with suppress(Closed):
            await self.client.close()
