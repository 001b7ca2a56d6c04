"""A thousand vehicles in one process, for the demo under load: `python -m vicinal_tools.demo.crowd FOLDER`.

    simulated town ──▶ each second of its time: CAN frames, as they are cut and read ──▶ a STEAM node ──▶ its radio

What a thousand gateways with their buses would be, two cores do not bear: a car is here its mapping, its STEAM node and
its radio, without the processes and queues between them. This process holds the air itself, with its collisions; the
monitors open it as always, and everything from there on is what it is elsewhere: monitors, brokers, office.

Time is scaled: a second of the town is `scale` seconds of the clock, and so are beacons. Where this process does not
get its turn the town and the air stand still meanwhile, and nothing is made up for: else all would speak at once when
it does, and nobody would be heard. So a second takes longer then. How late it is in the town is in town.time, in ms. It
drives from the start, and speaks between SIGUSR1 and SIGUSR2 as the fleet does, with the same ground truth.
"""

import json
import signal
import sys
import time
from collections import deque
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from vicinal.cosmic.mapping import Mapping
from vicinal.cosmic.mapping_toml_cpython import loads as read_mapping
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam._rotation import Outgoing
from vicinal.steam.beacon import UNIT
from vicinal.steam.frames import MAX_ROOM
from vicinal.steam.node import Node
from vicinal_cloud.traffic.network import load as load_network
from vicinal_hw._holder import run, socket_of
from vicinal_hw.ble._host import Host
from vicinal_hw.ble.physics import Model
from vicinal_hw.ble.turns import Turns

from ..traffic.drivers import STEP_MS, Driven
from ..traffic.world import World
from .car import events_of
from .files import INTERVAL_MS, NAMES
from .fleet import SAY_MS

__all__ = ["Crowd", "main"]

REACH_M = 500
MOVE_MS = 500
"""of the town's time between two looks at where a car is"""
VALIDITY_MS = 10_000
STRIDE = 10_000_000
"""ns that pass at most between two turns"""


class Member:
    """One vehicle."""

    def __init__(self, crowd: "Crowd", vehicle: Driven, mapping: Mapping, every: int, now: int) -> None:
        self.vehicle = vehicle
        self.name = f"{vehicle.plate}/can"
        self.frames = 0
        self.seq = 0
        self.node = Node(self.name, vehicle.number + 1, MAX_ROOM, INTERVAL_MS)
        self.radio = crowd.air.radio(self.name)
        self.radio.on_sent = self._sent
        self.turns = Turns(self.node, self._advertise, INTERVAL_MS)
        self.timer: int | None = None
        self._crowd = crowd
        self._mapping = mapping
        self._waiting: deque[Event] = deque()
        self.speaks_at: int | None = None
        self._saying: tuple[Outgoing, Event] | None = None
        self.move(now)
        for subject in ("Location", "Speed"):
            area = Proximity.circle(0, 0, REACH_M, relative=True)
            self.node.announce(subject, area, now, NAMES[subject], every, VALIDITY_MS)

    def _advertise(self, data: bytes | None) -> None:
        self.radio.advertise(data, INTERVAL_MS * 1000)

    def _sent(self) -> None:
        """Once: where this process is late, radios must not fill the air with what they were not told to stop."""
        self.radio.advertise(None)

    def move(self, now: int) -> None:
        place = self.vehicle.place
        self.node.set_position(*place, now)
        self.radio.move(*self._crowd.town.plane.metres(*place))

    def say(self) -> None:
        now = _wall()
        for event in events_of(self.vehicle):
            heard = self._mapping.decode(self._mapping.encode(event))
            assert heard is not None
            self.frames += 1
            self.seq += 1
            made = Event(heard.subject, list(heard.params.items()), {"Time": now, "Trace": ""}, self.name, self.seq)
            self._waiting.append(made)
            line = {"producer": self.name, "seq": self.seq, "place": self.vehicle.place, "subject": made.subject}
            self._crowd.write({**line, "time": now, "params": dict(made.params)})

    def service(self, now: int) -> int | None:
        """One event after the other, as the adapter of a gateway has it."""
        if self.speaks_at is not None and self.speaks_at <= now:
            self.speaks_at = None
            self.say()
        if self._saying is not None and not self._saying[0].fresh:
            event = self._saying[1]
            self._crowd.write({"producer": self.name, "seq": event.seq, "place": self.vehicle.place, "said": _wall()})
            self._saying = None
        if self._saying is None and self._waiting:
            event = self._waiting.popleft()
            if self.node.publish(event, now):
                assert self.node._announcer is not None
                self._saying = (self.node._announcer.rotation.fresh[-1], event)
        return self.turns.service(now)

    def counters(self) -> dict[str, Any]:
        found, begin = self.node.counters, "out dropped: "
        dropped = {name.removeprefix(begin): count for name, count in found.items() if name.startswith(begin)}
        waiting = self.node.stored + len(self._waiting)
        return {
            "read": self.frames,
            "frames": self.frames,
            "waiting for the bus": 0,
            "refused by the bus": 0,
            "heard on the bus": self.frames,
            "accepted": found.get("out accepted", 0) + len(self._waiting),
            "said": found.get("out sent", 0),
            "waiting": waiting,
            "dropped": dropped,
        }


class Crowd(Host):
    def __init__(self, folder: Path) -> None:
        plan = json.loads((folder / "fleet.json").read_text())
        self._passed, self._last, self._epoch = 0, time.monotonic_ns(), _wall()
        super().__init__(plan["seed"], Model(), lambda: self._passed, folder / "air.jsonl")
        self.folder = folder
        self.scale = float(plan["scale"])
        self.town = load_network(folder / plan["network"])
        self.plane = self.town.plane
        self.world = World(self.town, plan["seed"], plan["vehicles"], plan["speeders"])
        self.speaking = False
        self._truth = (folder / "truth.jsonl").open("w")
        self._timers: list[tuple[int, int]] = []
        mapping = read_mapping((folder / "speed.toml").read_text(), "speed.toml")
        every = round(1000 * self.scale) // UNIT * UNIT
        now = self._now()
        self.members = [Member(self, one, mapping, every, now) for one in self.world.vehicles]
        # Real ones were not switched on in the same moment.
        for number, member in enumerate(self.members):
            self._wake(member, now + number * every // len(self.members))
        self._started = self._passed

    def _now(self) -> int:
        """ms of the nodes' clock: that of the air."""
        return self._epoch + self._passed // 1_000_000

    def write(self, line: dict[str, Any]) -> None:
        self._truth.write(json.dumps(line) + "\n")

    def _wake(self, member: Member, at: int | None) -> None:
        if at is not None and (member.timer is None or at < member.timer):
            member.timer = at
            heappush(self._timers, (at, member.vehicle.number))

    def _next_step(self) -> float:
        """Seconds until the town goes on."""
        return (self.world.now + STEP_MS) / 1000 * self.scale - (self._passed - self._started) / 1e9

    def turn(self, patience: float | None) -> None:
        wait = self._next_step()
        if self._timers:
            wait = min(wait, (self._timers[0][0] - self._now()) / 1000)
        wait = min(max(0.0, wait), STRIDE / 1e9)
        self._pass()
        super().turn(wait if patience is None else min(wait, patience))
        self._pass()
        now = self._now()
        while self._timers and self._timers[0][0] <= now:
            at, number = heappop(self._timers)
            member = self.members[number]
            if member.timer == at:
                member.timer = None
                self._wake(member, member.service(now))
        if self._next_step() <= 0:
            self._step(now)

    def _pass(self) -> None:
        before, self._last = self._last, time.monotonic_ns()
        self._passed += min(self._last - before, STRIDE)

    def _step(self, now: int) -> None:
        world, count = self.world, len(self.members)
        world.step()
        for member in self.members:
            phase = member.vehicle.number * SAY_MS // count // STEP_MS * STEP_MS
            if (world.now + phase) % MOVE_MS == 0:
                member.move(now)
            if self.speaking and world.now % SAY_MS == phase:
                # Not all who speak in this tenth of a second do so in the same millisecond.
                member.speaks_at = now + round(member.vehicle.number * 37 % 100 * self.scale)
                self._wake(member, member.speaks_at)
        if world.now % SAY_MS == 0:
            (self.folder / "town.time").write_text(str(world.now))

    def finish(self) -> None:
        counters = {one.name: one.counters() for one in self.members}
        (self.folder / "fleet-counters.json").write_text(json.dumps(counters))
        self._truth.close()


def _wall() -> int:
    return time.time_ns() // 1_000_000


def main(arguments: list[str]) -> None:
    crowd = Crowd(Path(arguments[0]))

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGUSR1, lambda *_: setattr(crowd, "speaking", True))
    signal.signal(signal.SIGUSR2, lambda *_: setattr(crowd, "speaking", False))
    path = socket_of("ble", json.loads((crowd.folder / "fleet.json").read_text())["air"])
    print(json.dumps({"vehicles": len(crowd.members)}), flush=True)
    code = run("the air", path, crowd, stay=True, detach=False)
    crowd.finish()
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
