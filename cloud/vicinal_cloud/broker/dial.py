"""Calling a broker: one attempt, and how long to wait before the next."""

import asyncio
import os
import random
import socket
import ssl

from vicinal.errors import VicinalError
from vicinal.siena.connection import Connection

from . import limits
from .address import Address, Tls
from .link import Link, Owner

__all__ = ["CannotConnect", "backoff", "dial"]

_TIMEOUT = 10.0


class CannotConnect(VicinalError):
    """Nobody is there, or it is somebody else; the message says which."""


def backoff(attempt: int, chance: random.Random) -> float:
    """Seconds before an attempt; 0 is the first repetition. Random, so that thousands that were cut at once do not come
    back at once."""
    longest: float = min(limits.BACKOFF_FIRST * 2.0 ** min(attempt, 20), limits.BACKOFF_MOST)
    return longest * chance.uniform(0.5, 1.0)


async def dial(owner: Owner, connection: Connection, address: Address, tls: Tls) -> Link:
    """A link on which hello has been said. Raises CannotConnect."""
    link: Link
    if address.web:
        from .websocket import WebSocketLink

        link = WebSocketLink(owner, connection, address)
    else:
        link = Link(owner, connection)
    loop = asyncio.get_running_loop()
    try:
        context = tls.for_dialler() if address.secure else None
        async with asyncio.timeout(_TIMEOUT):
            await loop.create_connection(lambda: link, address.host, address.port, ssl=context)
    except ssl.SSLError as error:
        if error.reason == "WRONG_VERSION_NUMBER":
            raise CannotConnect(f"{address}: what listens there speaks no TLS; perhaps tcp:// or ws://") from error
        raise CannotConnect(f"{address}: TLS: {error.reason or error}") from error
    except TimeoutError as error:
        raise CannotConnect(f"{address}: no answer within {_TIMEOUT:.0f} s") from error
    except socket.gaierror as error:
        raise CannotConnect(f"{address}: no such host: {error.strerror}") from error
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or error
        raise CannotConnect(f"nothing listens on {address}: {reason}") from error
    return link
