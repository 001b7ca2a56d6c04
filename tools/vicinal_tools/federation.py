"""Asking the gateways behind a broker: which services can be reached, by which way, and what they can do.

An Echo is published on the overlay as any client of it could; the gateways that are connected to it answer, and so does
each on the way when it is asked to (spec/federation.md, FED-24).
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from vicinal.control import SUBJECT, Answer, Echo, from_event
from vicinal.errors import RemoteProtocolError

from .overlay import Reach

__all__ = ["Echoed", "echo", "where_it_ended"]


class Echoed(NamedTuple):
    """An answer to an echo. `passed` on: a gateway on the way, and `through` which service it went."""

    service: str
    gateway: str
    hop: int
    ms: float
    reason: str
    passed: bool
    through: str
    detail: dict[str, Any]


async def echo(reach: Reach, to: str, trace: bool, wait: float) -> AsyncIterator[Echoed]:
    """The answers that come within `wait` seconds."""
    loop = asyncio.get_running_loop()
    async with await reach.connect(reconnect=False) as client:
        name = client.name.replace("'", "''")
        answers = await client.subscribe(f"subject = '{SUBJECT}' AND RequestProducer = '{name}'")
        advertisement = await client.advertise(f"subject = '{SUBJECT}'")
        await asyncio.sleep(0.1)  # brokers further away learn of us
        start = loop.time()
        await client.publish(Echo(to, "", trace).to_event(), advertisement)
        end = start + wait
        while (left := end - loop.time()) > 0:
            try:
                async with asyncio.timeout(left):
                    delivery = await anext(answers)
            except TimeoutError:
                return
            try:
                message = from_event(delivery.event)
            except RemoteProtocolError:
                continue  # another's, and broken
            if isinstance(message, Answer):
                yield _echoed(message, (loop.time() - start) * 1000)


def _echoed(message: Answer, ms: float) -> Echoed:
    detail: dict[str, Any] = {}
    if message.detail and not message.passed:
        try:
            detail = json.loads(message.detail)
        except ValueError:
            detail = {"text": message.detail}
    through = message.detail if message.passed else ""
    return Echoed(message.source, message.gateway, message.hop, ms, message.reason, message.passed, through, detail)


def where_it_ended(hops: list[Echoed], service: str) -> str:
    """For people: after which hop nothing was heard any more."""
    if not hops:
        return (
            f"no gateway has answered: is one connected to this broker, and does it let control events pass? "
            f"({service!r} was asked for)"
        )
    last = max(hops, key=lambda one: one.hop)
    return f"gateway {last.gateway!r} (hop {last.hop}) passed it on through {last.through!r}, and nobody answered there"
