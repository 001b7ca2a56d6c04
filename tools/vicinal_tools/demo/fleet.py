"""The vehicles of the demo, in one process: `python -m vicinal_tools.demo.fleet FOLDER`.

    simulated town ──▶ each second, each on its own CAN bus:  12346 Location, 12345 Speed
                                                                   │
                                          its own gateway ◀────────┘ ──▶ STEAM on the virtual radio, where the car is

A car's bus, gateway, radio and state are its own; the event loop is shared, to spare two cores the rest. What each
gateway accepts for the air is written down, when it has been said, and where the car was: the ground truth
(truth.jsonl).

It drives from the start and says nothing until SIGUSR1; SIGUSR2 makes it silent again, SIGTERM ends it.
"""

import asyncio
import contextlib
import json
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import can

from vicinal.cosmic.mapping_toml_cpython import loads as read_mapping
from vicinal.event import Event
from vicinal_cloud.traffic.network import load as load_network
from vicinal_edge.gateway.config import loads
from vicinal_edge.gateway.server import Server
from vicinal_edge.gateway.status import status

from ..traffic.world import STEP_MS, Vehicle, World
from .files import vehicle as vehicle_config

__all__ = ["Car", "Fleet", "main"]

SAY_MS = 1_000
HEADING = 5.625
"""degrees: six bits of the frame"""
SUBJECTS = ("Location", "Speed")
PATIENCE = 60.0


class Car:
    def __init__(self, vehicle: Vehicle, folder: Path, air: str, phase: int) -> None:
        self.vehicle = vehicle
        self.name = f"car-{vehicle.number:03}"
        self.channel = self.name
        self.phase = phase
        """ms into the second at which it speaks"""
        self.frames = 0
        self.refused = 0
        home = folder / self.name
        home.mkdir(parents=True, exist_ok=True)
        self._config = loads(vehicle_config(air, self.name, self.channel).encode(), home / "gateway.toml")
        self._mapping = read_mapping((folder / "speed.toml").read_text(), "speed.toml")
        self._bus: can.BusABC | None = None
        self._saying: asyncio.Future[None] | None = None
        self.server: Server | None = None

    async def start(self) -> None:
        self._bus = await asyncio.to_thread(can.Bus, interface="vicinal", channel=self.channel, can_filters=[])
        self.server = await Server.start(self._config)
        self.follow()

    async def silent(self) -> None:
        if self._saying is not None:
            await self._saying

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop()
        if self._bus is not None:
            self._bus.shutdown()

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
        if self._saying is not None and not self._saying.done():
            self.refused += len(SUBJECTS)  # it has not even said the last ones
            return
        one = self.vehicle
        events = (
            Event(
                "Location",
                [
                    ("lat", round(one.place[0], -1)),
                    ("lon", round(one.place[1], -1)),
                    ("heading", one.heading // HEADING * HEADING),
                    ("braking", one.braking),
                ],
            ),
            Event("Speed", [("license_no", one.plate), ("rate", float(round(one.kmh)))]),
        )
        self._saying = asyncio.get_running_loop().run_in_executor(None, self._send, events)

    def _send(self, events: tuple[Event, ...]) -> None:
        for event in events:
            frame = self._mapping.encode(event)
            assert self._bus is not None
            try:
                self._bus.send(can.Message(arbitration_id=frame.id, is_extended_id=True, data=frame.data), timeout=0)
                self.frames += 1
            except can.CanError:
                self.refused += 1  # counted: a bus that is full is not waited for

    def counters(self) -> dict[str, Any]:
        assert self.server is not None
        services = {one["name"]: one for one in status(self.server.node)["services"]}
        out = services["air"]["out"]
        return {
            "frames": self.frames,
            "refused by the bus": self.refused,
            "heard on the bus": services["can"]["in"]["received"],
            "accepted": out["accepted"],
            "said": out["delivered"],
            "waiting": out["stored"],
            "dropped": out["dropped"],
        }


class Fleet:
    def __init__(self, folder: Path) -> None:
        plan = json.loads((folder / "fleet.json").read_text())
        self.folder = folder
        self.world = World(load_network(folder / plan["network"]), plan["seed"], plan["vehicles"], plan["speeders"])
        count = len(self.world.vehicles)
        self.cars = [
            Car(one, folder, plan["air"], one.number * SAY_MS // count // STEP_MS * STEP_MS)
            for one in self.world.vehicles
        ]
        self.speaking = False
        self._truth = (folder / "truth.jsonl").open("w")

    async def start(self) -> None:
        await asyncio.gather(*[car.start() for car in self.cars])
        async with asyncio.timeout(PATIENCE):
            while not all(car.up for car in self.cars):
                await asyncio.sleep(0.05)
        for car in self.cars:
            assert car.server is not None
            car.server.node.watch = partial(self._happened, car)

    def _happened(self, car: Car, what: str, service: str, event: Event) -> None:
        if service != "air":
            return
        line: dict[str, Any] = {"producer": event.producer, "seq": event.seq, "place": car.vehicle.place}
        if what == "accepted":
            line |= {"subject": event.subject, "time": event.attrs["Time"], "params": dict(event.params)}
        else:
            assert car.server is not None
            line["said"] = car.server.node.now()
        self._truth.write(json.dumps(line) + "\n")

    async def drive(self) -> None:
        """In real time; who is late catches up."""
        loop = asyncio.get_running_loop()
        start = loop.time() - self.world.now / 1000
        while True:
            await asyncio.sleep(max(0.0, start + (self.world.now + STEP_MS) / 1000 - loop.time()))
            self.world.step()
            for car in self.cars:
                car.follow()
                if self.speaking and self.world.now % SAY_MS == car.phase:
                    car.say()
            if self.world.now % SAY_MS == 0:
                self._truth.flush()

    async def stop(self) -> None:
        await asyncio.gather(*[car.silent() for car in self.cars])
        counters = {car.name: car.counters() for car in self.cars}
        (self.folder / "fleet-counters.json").write_text(json.dumps(counters))
        self._truth.close()
        await asyncio.gather(*[car.stop() for car in self.cars])


async def _run(folder: Path) -> None:
    fleet = Fleet(folder)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, setattr, fleet, "speaking", True)
    loop.add_signal_handler(signal.SIGUSR2, setattr, fleet, "speaking", False)
    starting = loop.create_task(fleet.start())
    stopping = loop.create_task(stop.wait())
    driving: asyncio.Task[None] | None = None
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            return
        starting.result()
        print(json.dumps({"vehicles": len(fleet.cars)}), flush=True)
        driving = loop.create_task(fleet.drive())
        await asyncio.wait([driving, stopping], return_when=asyncio.FIRST_COMPLETED)
        if driving.done():
            driving.result()
    finally:
        for task in (starting, stopping, driving):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await task
        with contextlib.suppress(AssertionError):  # of a car that never started
            await fleet.stop()


def main(arguments: list[str]) -> None:
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("can").setLevel(logging.ERROR)
    asyncio.run(_run(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
