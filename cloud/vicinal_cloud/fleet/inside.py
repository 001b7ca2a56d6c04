"""A client within the broker's own process: a pair of sockets, and nobody else on either end."""

import asyncio
import random
import socket

from vicinal.siena.connection import Connection

from ..broker.address import Address, Tls
from ..broker.client import Client
from ..broker.link import Link
from ..broker.node import Node

__all__ = ["connect_inside"]


class _Inside(Client):
    def __init__(self, node: Node, name: str) -> None:
        super().__init__(Address("tcp", "inside", 0), name, Tls(), random.Random(name), True)
        self._node = node

    async def _dial(self, connection: Connection) -> Link:
        loop = asyncio.get_running_loop()
        theirs, ours = socket.socketpair()
        await loop.create_connection(lambda: Link(self._node, self._node.accept()), sock=theirs)
        link = Link(self, connection)
        await loop.create_connection(lambda: link, sock=ours)
        return link


async def connect_inside(node: Node, name: str) -> Client:
    client = _Inside(node, name)
    await client._first()
    return client
