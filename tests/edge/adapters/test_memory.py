"""The contract of adapters on the service within one process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from vicinal_edge.adapter import Adapter
from vicinal_edge.adapters.memory import MemoryAdapter, spaces
from vicinal_edge.contract import AdapterContract, settings


class TestMemory(AdapterContract):
    @asynccontextmanager
    async def service(self, folder: Path) -> AsyncIterator[Callable[[str], Adapter]]:
        yield lambda name: MemoryAdapter(name, settings({"space": str(folder)}))
        del spaces[str(folder)]
