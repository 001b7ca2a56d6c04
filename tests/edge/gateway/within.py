"""A gateway within the test's process, between services in memory."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from vicinal.event import Event
from vicinal_edge.adapters.memory import Space, spaces
from vicinal_edge.gateway.config import loads
from vicinal_edge.gateway.node import Node
from vicinal_edge.gateway.status import status

PATIENCE = 60.0


class Ear:
    """On a service in memory, and hears all of it."""

    def __init__(self, space: str) -> None:
        self.space = spaces.setdefault(space, Space())
        self.heard: list[Event] = []
        self.space.members.append(self)  # type: ignore[arg-type]

    def hear(self, event: Event) -> None:
        self.heard.append(event)

    def of(self, subject: str) -> list[Event]:
        return [event for event in self.heard if event.subject == subject]

    def publish(self, event: Event) -> None:
        self.space.publish(event, self)


@asynccontextmanager
async def gateway(folder: Path, text: str, name: str = "g1") -> AsyncIterator[Node]:
    """`text` is all but [gateway]."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = f'[gateway]\nname = "{name}"\nhello_s = 1\n{text}'
    node = await Node.open(loads(whole.encode(), folder / "gateway.toml"))
    node.start()
    try:
        yield node
    finally:
        await node.stop()


async def until(condition: Callable[[], Any], what: str = "") -> Any:
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"never came true: {what or condition}"
        await asyncio.sleep(0.01)
    return found


def balanced(node: Node) -> bool:
    """accepted = delivered + stored + dropped(reason), of every service and of all together."""
    found = status(node)
    sums = [found, *(one["out"] for one in found["services"]), *(one["talk"] for one in found["services"])]
    return all(one["accepted"] == one["delivered"] + one["stored"] + sum(one["dropped"].values()) for one in sums)


def applied(node: Node) -> bool:
    found = node.engine.requests.report()
    return bool(found) and all(
        one["services"] and all(goal["state"] == "applied" for goal in one["services"].values()) for one in found
    )
