"""A real bus: CAN, where nobody acknowledges and nothing is said again. What the gateway says that it has stored is in
the broker's log, once and in order, whatever is killed after that; and no number that it gives an event comes twice."""

import asyncio
import os
import struct
from collections.abc import Callable
from pathlib import Path

import can
import pytest
from edge.gateway.outages.rig import Load, Rig, applied, out
from edge.store.sink import Identity

from vicinal.event import Event
from vicinal_edge.adapters._numbers import Numbers

KILLS = 100 if os.environ.get("VICINAL_SOAK") else 6
SEED = int(os.environ.get("VICINAL_SEED", "1"))
MAPPING = """
[[message]]
id = 12345
subject = "Speed"
fields = [
    { name = "car", bytes = "0..1", type = "int", endian = "big" },
    { name = "number", bytes = "2..5", type = "int", endian = "big" },
]
"""


class CanLoad(Load):
    """Nodes on the bus."""

    def __init__(self, channel: str, folder: Path) -> None:
        super().__init__("mqtt://127.0.0.1:1", folder)
        self._channel = channel

    async def open(self) -> None:
        self.bus = can.Bus(interface="vicinal", channel=self._channel)

    async def close(self) -> None:
        self.bus.shutdown()

    async def say(self, producer: str | None = None) -> None:
        producer = producer or min(self.names, key=lambda name: self.attempted[name])
        seq = self.attempted[producer] = self.attempted[producer] + 1
        data = struct.pack(">HI", self.names.index(producer), seq)
        self.bus.send(can.Message(arbitration_id=12345, is_extended_id=True, data=data))
        await asyncio.sleep(0)


class CanRig(Rig):
    def bus_settings(self) -> str:
        self.identities: dict[tuple[str, int], Identity] = {}
        self.missed: set[Identity] = set()
        self._before = 0
        (self.folder / "speed.toml").write_text(MAPPING)
        return f'type = "cosmic"\ninterface = "vicinal"\nchannel = "{self.channel}"\nmapping = "speed.toml"'

    def make_load(self) -> Load:
        return CanLoad(self.channel, self.folder)

    @property
    def channel(self) -> str:
        return f"outage-{os.getpid()}-{self.folder.name}"

    def identity(self, event: Event) -> Identity:
        given = super().identity(event)
        found = f"car-{event['car']}", int(event["number"])
        known = self.identities.setdefault(given, found)
        assert known == found, f"the gateway has called {known} and {found} {given}"
        return found

    async def stored(self) -> None:
        """What was said in this life is stored, or delivered: from now on it is the gateway's to lose."""
        said = sum(self.load.attempted.values()) - self._before
        await self.until(
            lambda status: status["services"][0]["in"]["received"] >= said and not out(status)["not_yet_on_disk"],
            "all is stored",
        )
        self.load.accepted |= {(name, seq) for name, last in self.load.attempted.items() for seq in range(1, last + 1)}
        self.load.accepted -= self.missed

    async def kill_and_start(self) -> None:
        """What it had not yet stored is missed, perhaps; what is said while it is away as well."""
        attempted = {(name, seq) for name, last in self.load.attempted.items() for seq in range(1, last + 1)}
        await self.kill()
        self.missed |= attempted - self.load.accepted
        self._before = sum(self.load.attempted.values())
        await self.start()
        await self.until(applied, "it listens to the bus")


def test_cuts(tmp_path: Path) -> None:
    async def run() -> None:
        async with CanRig(tmp_path, seed=SEED) as rig:
            for _ in range(3):
                await rig.load.run(300, rate=400)
                rig.link.cut()
                await rig.load.run(300, rate=400)
                rig.link.heal()
            await rig.stored()
            await rig.check()

    asyncio.run(run())


@pytest.mark.slow
def test_kills(tmp_path: Path) -> None:
    async def run() -> None:
        async with CanRig(tmp_path, seed=SEED) as rig:
            for number in range(KILLS):
                if number % 3 == 1:
                    rig.link.cut()
                await rig.load.run(rig.chance.randrange(10, 200), rate=500)
                await rig.stored()
                await rig.load.run(rig.chance.randrange(0, 100), rate=1000)  # under way when it dies
                await rig.kill_and_start()
                rig.link.heal()
            await rig.load.run(100, rate=500)
            await rig.stored()
            await rig.check()

    asyncio.run(run())


def test_a_mutant_is_caught(tmp_path: Path) -> None:
    async def run() -> None:
        async with CanRig(tmp_path, mutant="numbers of events are not reserved") as rig:
            await rig.load.run(20, rate=500)
            await rig.stored()
            await rig.kill_and_start()
            await rig.load.run(20, rate=500)
            await rig.stored()
            await rig.check()

    with pytest.raises(AssertionError, match="the gateway has called"):
        asyncio.run(run())


@pytest.mark.parametrize("restart", [lambda file: None, Path.unlink], ids=["crash", "file lost"])
def test_numbers_never_come_twice(tmp_path: Path, restart: Callable[[Path], None]) -> None:
    """Of a lost file the clock is what is left."""
    file, clock, given = tmp_path / "numbers", 1_800_000_000_000_000, set[int]()
    for _ in range(5):
        numbers = Numbers(file, clock)
        some = [numbers.next() for _ in range(5000)]
        assert not given & set(some)
        assert some == sorted(set(some))
        given |= set(some)
        clock += 60_000_000
        restart(file)
