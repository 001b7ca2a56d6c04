"""A car of the demo: the agent that runs on boards, its CAN bus, and a gateway with a radio.

    simulation ──▶ sensors ──▶ agent ──12346 Location, 12345 Speed──▶ bus ──▶ gateway ──▶ STEAM
    driver ◀── signs ◀──────── agent ◀──────────────── 12347 Sign ── bus ◀── gateway ◀── STEAM

The agent is `vicinal_edge.agent`, its loop and all: of this program are the sensors, which read what the simulation has
told them, and what it does with a sign. It has its turn when there is something to say, and not fifty times a second as
on a Pi: there are twenty of them.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import vicinal
from vicinal.event import Event
from vicinal_edge.agent.loop import Loop
from vicinal_edge.agent.run_cpython import Bus, Pi
from vicinal_edge.agent.run_cpython import load as load_agent
from vicinal_edge.gateway.config import loads
from vicinal_edge.gateway.server import Server
from vicinal_edge.gateway.status import status

from ..traffic.drivers import Driven
from .files import agent as agent_config
from .files import vehicle as vehicle_config

__all__ = ["Car", "events_of"]

HEADING = 5.625
"""degrees: six bits of the frame"""
BUS = "can 1"
SIGN = "Sign"


def events_of(one: Driven) -> tuple[Event, Event]:
    """What a vehicle says each second, as exact as its frames are."""
    where = [
        ("lat", round(one.place[0], -1)),
        ("lon", round(one.place[1], -1)),
        ("heading", one.heading // HEADING * HEADING),
        ("braking", one.braking),
    ]
    return Event("Location", where), Event("Speed", [("license_no", one.plate), ("rate", float(round(one.kmh)))])


class Reading:
    """A sensor that the simulation feeds."""

    def __init__(self) -> None:
        self.next: dict[str, Any] | None = None

    def read(self) -> dict[str, Any] | None:
        found, self.next = self.next, None
        return found


class Parts(Pi):
    """What the agent of a car has."""

    def __init__(self, folder: Path, seen: Callable[[Event], None]) -> None:
        super().__init__(folder)
        self.readings: dict[str, Reading] = {}
        self._seen = seen

    def controller(self, port: Any, **more: Any) -> Bus:
        """It lets in what the driver is to see: what the agent says itself it need not hear from others."""
        message = port.mapping.of_subject(SIGN)
        wanted = {"can_id": message.id, "can_mask": 0x1FFFFFFF, "extended": message.extended}
        return super().controller(port, can_filters=[wanted])

    def driver(self, port: Any) -> Reading:
        return self.readings.setdefault(port.subject, Reading())

    def open(self, ports: Any, loop: Loop, now: int) -> Any:
        part = super().open(ports, loop, now)
        if ports[0].kind == "can":
            offer = part.offer

            def show(event: Event, at: int) -> None:
                self._seen(event)
                offer(event, at)

            part.offer = show
        return part


class Car:
    def __init__(self, vehicle: Driven, folder: Path, air: str, phase: int) -> None:
        self.vehicle = vehicle
        # Seed 001, 5.8.2: the licence number makes identifiers unique. So who has the keys knows a plate's pseudonyms.
        self.name = vehicle.plate
        self.signs: deque[tuple[int, int]] = deque()
        """area and limit, of what its driver has yet to look at"""
        self.phase = phase
        """ms into the second at which it speaks"""
        self.skipped = 0
        """what was not even read, as the agent was still at the last"""
        self.home = folder / self.name
        self.home.mkdir(parents=True, exist_ok=True)
        channel = f"car-{vehicle.number:03}"
        (self.home / "agent.toml").write_text(agent_config(channel))
        self._config = loads(vehicle_config(air, self.name, channel).encode(), self.home / "gateway.toml")
        self._parts = Parts(self.home, self._see)
        self._started = time.monotonic_ns()
        self._saying: asyncio.Future[None] | None = None
        self.agent: Loop | None = None
        self.server: Server | None = None

    async def start(self) -> None:
        await asyncio.to_thread(self._start_agent)
        self.server = await Server.start(self._config)
        self.follow()

    def _start_agent(self) -> None:
        config = load_agent(self.home / "agent.toml")
        self.agent = Loop(config, self._parts, None, vicinal.__version__, os.urandom(8), 0, str(self.home))
        self.agent.turn(0)
        for name, _, part, _, why in self.agent.parts:
            if part is None:
                raise OSError(f"the agent of {self.name} has no {name}: {why}")

    async def silent(self) -> None:
        if self._saying is not None:
            await self._saying

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop()
        if self.agent is not None:
            self.agent.close()

    @property
    def up(self) -> bool:
        assert self.server is not None
        node = self.server.node
        goals = [goal for one in node.engine.requests.report() for goal in one["services"].values()]
        return all(one.state == "up" for one in node.services.values()) and all(
            goal["state"] == "applied" for goal in goals
        )

    def follow(self) -> None:
        """The gateway is where the car is."""
        assert self.server is not None
        self.server.node.place = self.vehicle.place

    def say(self) -> None:
        """Not here, but where nobody else waits meanwhile: a bus takes its time, and its process too."""
        events = events_of(self.vehicle)
        if self._saying is not None and not self._saying.done():
            self.skipped += len(events)
            return
        self._saying = asyncio.get_running_loop().run_in_executor(None, self.read, events)

    def read(self, events: tuple[Event, ...]) -> None:
        """The sensors have these, and the agent its turn."""
        assert self.agent is not None
        for event in events:
            self._parts.readings[event.subject].next = event.params
        self.agent.turn((time.monotonic_ns() - self._started) // 1_000_000)

    def _see(self, sign: Event) -> None:
        zone, limit = sign["zone"], sign["limit"]
        if isinstance(zone, int) and isinstance(limit, int):
            self.signs.append((zone, limit))

    @property
    def book(self) -> dict[str, Any]:
        """Of the agent's way to the bus."""
        assert self.agent is not None
        found: dict[str, Any] = self.agent.agent.ways.report()[BUS]
        return found

    def counters(self) -> dict[str, Any]:
        assert self.server is not None
        services = {one["name"]: one for one in status(self.server.node)["services"]}
        out, book = services["air"]["out"], self.book
        return {
            "read": book["offered"] + self.skipped,
            "frames": book["delivered"],
            "waiting for the bus": book["stored"],
            "refused by the bus": sum(book["dropped"].values()) + self.skipped,
            "heard on the bus": services["can"]["in"]["received"],
            "accepted": out["accepted"],
            "said": out["delivered"],
            "waiting": out["stored"],
            "dropped": out["dropped"],
        }
