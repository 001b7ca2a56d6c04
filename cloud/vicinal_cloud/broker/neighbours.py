"""Links to other brokers: dialled, and dialled again when they are lost, with growing and random pauses."""

import asyncio
import logging
import random

from .config import Neighbour
from .dial import CannotConnect, backoff, dial
from .node import Node

__all__ = ["keep_linked"]

_log = logging.getLogger("vicinal.broker")


async def keep_linked(node: Node, neighbour: Neighbour, chance: random.Random) -> None:
    """For ever, until cancelled."""
    assert neighbour.address is not None
    news = asyncio.Event()

    def changed(name: str, _up: bool) -> None:
        if name == neighbour.name:
            news.set()

    node.changed.append(changed)
    attempt = 0
    while True:
        while neighbour.name in node.linked:
            attempt = 0
            news.clear()
            await news.wait()
        if attempt:
            await asyncio.sleep(backoff(attempt - 1, chance))
            if neighbour.name in node.linked:
                continue  # it has dialled us meanwhile
        attempt += 1
        try:
            news.clear()
            link = await dial(node, node.dial(), neighbour.address, neighbour.tls)
            # Until it is up or has ended: a broker may refuse us, and then we try again later.
            while neighbour.name not in node.linked and not link.connection.closed:
                await asyncio.sleep(0.02)
        except CannotConnect as error:
            if attempt == 1:
                _log.warning("neighbour %s: %s; trying again", neighbour.name, error)
