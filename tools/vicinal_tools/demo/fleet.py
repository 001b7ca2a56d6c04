"""The vehicles of the demo, in one process: `python -m vicinal_tools.demo.fleet FOLDER`.

    traffic ──▶ each second, by each car's agent on its own CAN bus:  12346 Location, 12345 Speed
       ▲                                                    │
       │                             its own gateway ◀──────┘ ──▶ STEAM on the virtual radio, where the car is
       └── the driver ◀── 12347 Sign ◀──────┘ ◀──────────────────  signs of the monitors in reach

A car (car.py) has an agent, a bus, a gateway and a radio of its own; the event loop is shared, to spare two cores the
rest. What each gateway accepts for the air is written down, when it has been said, and where the car was, and each sign
that its driver has seen: the ground truth (truth.jsonl).

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

from vicinal.event import Event
from vicinal_cloud.traffic.network import load as load_network

from ..traffic.drivers import STEP_MS
from ..traffic.sources import open_source
from .car import Car

__all__ = ["SAY_MS", "Fleet", "main"]

SAY_MS = 1_000
PATIENCE = 180.0


class Fleet:
    def __init__(self, folder: Path) -> None:
        plan = json.loads((folder / "fleet.json").read_text())
        self.folder = folder
        self.network = load_network(folder / plan["network"])
        self.traffic = open_source(plan["source"], self.network, plan["seed"], plan["vehicles"], plan["speeders"])
        vehicles = self.traffic.vehicles
        self.cars = [
            Car(one, folder, plan["air"], one.number * SAY_MS // len(vehicles) // STEP_MS * STEP_MS) for one in vehicles
        ]
        self._zones = list(self.network.areas)
        self._seen: dict[tuple[str, int], int] = {}
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
            return  # signs that go to the bus: who has seen them says so
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
        start, traffic = loop.time() - self.traffic.now / 1000, self.traffic
        while True:
            await asyncio.sleep(max(0.0, start + (traffic.now + STEP_MS) / 1000 - loop.time()))
            traffic.step()
            for car in self.cars:
                car.follow()
                while car.signs:
                    self._see(car, *car.signs.popleft())
                if self.speaking and car.vehicle.present and traffic.now % SAY_MS == car.phase:
                    car.say()
            if traffic.now % SAY_MS == 0:
                self._truth.flush()

    def _see(self, car: Car, zone: int, limit: int) -> None:
        """A sign is said again and again: what it shows is news once."""
        if zone >= len(self._zones) or self._seen.get((car.name, zone)) == limit:
            return
        self._seen[car.name, zone] = limit
        assert car.server is not None
        area = self._zones[zone]
        obeys = self.traffic.tell(car.vehicle.number, area, limit)
        line = {"sign": area, "limit": limit, "time": car.server.node.now(), "place": car.vehicle.place, "obeys": obeys}
        self._truth.write(json.dumps({"car": car.name, **line}) + "\n")

    async def stop(self) -> None:
        await asyncio.gather(*[car.silent() for car in self.cars])
        counters = {car.name: car.counters() for car in self.cars}
        (self.folder / "fleet-counters.json").write_text(json.dumps(counters))
        self._truth.close()
        await asyncio.gather(*[car.stop() for car in self.cars])
        self.traffic.close()


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
        try:
            await fleet.stop()
        except AssertionError:  # of a car that never started
            fleet.traffic.close()


def main(arguments: list[str]) -> None:
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("can").setLevel(logging.ERROR)
    asyncio.run(_run(Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
