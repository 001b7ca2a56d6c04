"""Adapters that do what plug-ins do: raise, hang, talk nonsense, go away in the middle of a call."""

import asyncio
from typing import Any, ClassVar

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.tables_cpython import Table
from vicinal_edge.adapter import Port, Refused, Unavailable
from vicinal_edge.adapters.memory import MemoryAdapter


class FaultyAdapter(MemoryAdapter):
    """A memory service whose `faults` say what goes wrong: {"publish": ["raise", "hang", ...]}, one a call, then none.
    Shared by all lives of the service."""

    plans: ClassVar[dict[str, dict[str, list[str]]]] = {}
    made: ClassVar[dict[str, int]] = {}

    def __init__(self, service: str, settings: Table) -> None:
        super().__init__(service, settings)
        self.made[service] = self.made.get(service, 0) + 1
        if "construct" in self.plans.get(service, {}) and self._next("construct"):
            raise RuntimeError("not today")

    def _next(self, verb: str) -> str:
        left = self.plans.get(self.service, {}).get(verb, [])
        return left.pop(0) if left else ""

    async def _fault(self, verb: str) -> None:
        fault = self._next(verb)
        if fault == "raise":
            raise RuntimeError(f"{verb} went wrong")
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "refuse":
            raise Refused(f"{verb} is not for me")
        if fault == "away":
            raise Unavailable(f"away in {verb}")
        if fault == "lost":
            assert self._port is not None
            self._port.lost("the line is cut")
        if fault == "exit":
            raise SystemExit(3)
        if fault == "cancel":
            raise asyncio.CancelledError

    async def connect(self, port: Port) -> None:
        await self._fault("connect")
        await super().connect(port)

    async def disconnect(self) -> None:
        await super().disconnect()
        await self._fault("disconnect")

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        if event.subject != "FES_ControlEvent":
            await self._fault("publish")
            if answer := self._next("acknowledge"):
                done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                if answer != "never":
                    done.set_exception(RuntimeError("the acknowledgement was a lie"))
                return done
        return await super().publish(event)

    async def subscribe(self, condition: Filter) -> None:
        if "FES_" not in condition.text:
            await self._fault("subscribe")
        await super().subscribe(condition)

    async def announce(self, event: Event) -> None:
        await self._fault("announce")

    def status(self) -> dict[str, Any]:
        if self._next("status"):
            raise RuntimeError("no status")
        return {"faulty": 1}
