"""An overlay of broker processes that can be killed, paused and started again, and remembers when that was."""

import asyncio
import json
import signal
import time
import urllib.request
from pathlib import Path
from typing import Any

from cloud.broker.brokers import free_port
from cloud.broker.kills.checker import Down
from cloud.broker.kills.nursery import Nursery

__all__ = ["SHAPES", "Overlay"]

SHAPES: dict[str, tuple[tuple[str, str], ...]] = {
    "alone": (),
    "pair": (("b1", "b2"),),
    "line": (("b1", "b2"), ("b2", "b3")),
    "ring": (("b1", "b2"), ("b2", "b3"), ("b3", "b1")),
    "star": (("b1", "b2"), ("b1", "b3"), ("b1", "b4")),
    "square": (("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b1")),
}

_SCOPES = """
[[scope]]
name = "uk"
dimension = "geography"
[[scope]]
name = "london"
dimension = "geography"
supers = ["uk"]
output = "TRUE"
"""


class Overlay:
    """Every broker has a log, and dials all its neighbours. With `scoped` all belong to london and uk."""

    def __init__(self, folder: Path, nursery: Nursery, shape: str, scoped: bool, mutant: str | None) -> None:
        self.folder = folder
        self.scoped = scoped
        self.downs: list[Down] = []
        self._nursery = nursery
        self._mutant = mutant
        edges = SHAPES[shape]
        self.names = sorted({name for edge in edges for name in edge}) or ["b1"]
        self.addresses = {name: f"tcp://127.0.0.1:{free_port()}" for name in self.names}
        self._statuses: dict[str, str] = {}
        self._pids: dict[str, int] = {}
        self._killed: dict[str, float] = {}
        for name in self.names:
            self._write(name, [a if b == name else b for a, b in edges if name in (a, b)])

    def _write(self, name: str, neighbours: list[str]) -> None:
        lines = ["[broker]", f'name = "{name}"', f"join = {json.dumps(['london', 'uk'] if self.scoped else [])}"]
        lines += ["[[listen]]", f'address = "{self.addresses[name]}"']
        for other in neighbours:
            lines += ["[[neighbour]]", f'name = "{other}"', f'address = "{self.addresses[other]}"']
        lines += ["[status]", 'address = "http://127.0.0.1:0"', "[log]", f'directory = "{name}.log"']
        (self.folder / f"{name}.toml").write_text("\n".join(lines) + (_SCOPES if self.scoped else ""))

    async def start(self, name: str) -> None:
        self._pids[name], said = await self._nursery.start(self.folder / f"{name}.toml", self._mutant)
        self._statuses[name] = said["status"]
        if name in self._killed:
            self.downs.append(Down(name, self._killed.pop(name), time.monotonic()))

    async def kill(self, *names: str) -> None:
        """SIGKILL to all of them."""
        for name in names:
            self._killed[name] = time.monotonic()
            code = await self._nursery.signal(self._pids.pop(name), signal.SIGKILL)
            assert code == -signal.SIGKILL, f"broker {name} had ended by itself with {code}: {self.errors(name)}"

    async def pause(self, name: str, seconds: float) -> None:
        at = time.monotonic()
        await self._nursery.signal(self._pids[name], signal.SIGSTOP)
        await asyncio.sleep(seconds)
        await self._nursery.signal(self._pids[name], signal.SIGCONT)
        self.downs.append(Down(name, at, time.monotonic(), "pause"))

    async def status(self, name: str) -> dict[str, Any]:
        def get() -> dict[str, Any]:
            with urllib.request.urlopen(f"{self._statuses[name]}/status", timeout=10) as answer:
                found: dict[str, Any] = json.load(answer)
                return found

        return await asyncio.to_thread(get)

    def errors(self, name: str) -> str:
        """What it said on stderr, without what is to be expected."""
        file = self.folder / f"{name}.err"
        lines = file.read_text().splitlines() if file.exists() else []
        return "\n".join([line for line in lines if "; trying again" not in line])[-4000:]
