"""What cannot be true, from a frame on a car's bus to the office's quarantine: it has a reason there, and no fine."""

import asyncio
import time
from typing import Any

import pytest
from cloud.broker.brokers import PATIENCE
from system.town import Town

from vicinal.event import Event
from vicinal_tools.demo.car import Car
from vicinal_tools.demo.city import City, get
from vicinal_tools.demo.files import LATE_MS, Plan

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traffic")]


class Rogue:
    """A vehicle that stands beside m1, with a bus of its own."""

    number, plate, heading, present, kmh, braking = 666, "66R6666", 0.0, True, 0.0, False

    def __init__(self, place: tuple[int, int]) -> None:
        self.place = place


def location(lat: int, lon: int) -> Event:
    return Event("Location", [("lat", lat), ("lon", lon), ("heading", 0.0), ("braking", False)])


def speed(rate: float) -> Event:
    return Event("Speed", [("license_no", Rogue.plate), ("rate", rate)])


async def misbehave(plan: Plan, city: City) -> dict[str, Any]:
    lat, lon = (round(one, -1) for one in plan.network.monitors["m1"].place)
    car = Car(Rogue((lat, lon)), plan.folder, plan.air, 0)
    await car.start()
    assert car.server is not None
    node = car.server.node
    usual = node.now

    async def wait(condition: Any, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, what
            await asyncio.sleep(0.1)

    async def quarantined() -> dict[str, int]:
        found: dict[str, int] = (await asyncio.to_thread(city.accounts))["control"]["quarantined"]
        return found

    async def say(event: Event, reason: str) -> None:
        """Until it is in quarantine for it; said again where the air has lost it."""
        end = time.monotonic() + PATIENCE
        while not (await quarantined()).get(reason):
            assert time.monotonic() < end, (reason, await asyncio.to_thread(city.accounts))
            await asyncio.to_thread(car.read, (event,))
            # It has its time when the gateway has it: not before must the clock be set to another one.
            await wait(
                lambda: car.counters()["heard on the bus"] == car.book["delivered"], "the gateway to hear its bus"
            )
            await asyncio.sleep(1.0)

    try:
        await wait(lambda: car.up, "the rogue's gateway")
        await say(speed(255.0), "impossible speed")
        await say(location(lon, lat), "latitude and longitude swapped")
        await say(location(lat + 10_000_000, lon), "position outside the network")
        node.now = lambda: usual() + 60_000
        await say(speed(99.0), "time in the future")
        node.now = lambda: usual() - LATE_MS - 1_000
        await say(speed(99.0), "late")
        node.now = usual
        # One that is true, and is said again and again to those who come: m1 does, and has forgotten that it heard it.
        heard = (await asyncio.to_thread(city.accounts))["control"]["received"]
        await asyncio.to_thread(car.read, (location(lat, lon),))
        while (await asyncio.to_thread(city.accounts))["control"]["received"] == heard:
            await asyncio.sleep(0.2)
        end = time.monotonic() + PATIENCE
        while not (await quarantined()).get("duplicate"):
            assert time.monotonic() < end
            # Here, and not in the thread that waits: a part is told to end when the thread that started it does.
            city.parts["m1"].kill()
            city.parts["m1"].start()
            await asyncio.to_thread(listens_again, city, "m1")
            await asyncio.sleep(3.0)
    finally:
        await car.stop()
    return await quarantined()


def listens_again(city: City, name: str) -> None:
    city.parts[name].wait_until_ready(time.monotonic() + PATIENCE)
    city.wait(lambda: city.is_set(name), f"{name} to listen again", time.monotonic() + PATIENCE)


def test_what_cannot_be_true_is_in_quarantine_with_its_reason_and_nobody_is_fined(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all other cars have ended, and all is accounted for."""
    city = town.city
    for name, value in city.env.items():
        monkeypatch.setenv(name, value)
    before = city.accounts()["control"]
    assert sum(before["quarantined"].values()) == 0
    cases = [one["number"] for one in get(f"{city.address}/api/cases")["cases"]]
    found = asyncio.run(misbehave(town.plan, city))
    assert set(found) == {
        "impossible speed", "latitude and longitude swapped", "position outside the network", "time in the future",
        "late", "duplicate",
    }  # fmt: skip
    assert [one["number"] for one in get(f"{city.address}/api/cases")["cases"]] == cases
    control = city.accounts()["control"]
    judged = sum(control[name] for name in ("over", "within", "witnessed", "sightings"))
    assert control["received"] == judged + sum(control["quarantined"].values())
    assert control["over"] == before["over"]
    rows = get(f"{city.address}/api/quarantine")["quarantine"]
    assert {row["reason"] for row in rows} == set(found)
    assert Rogue.plate not in str(rows)


def test_all_end_as_they_should(town: Town) -> None:
    """After what was said to them, the last of all."""
    codes = town.city.stop()
    # None fails, and none has to be killed.
    assert {name: code for name, code in codes.items() if code} == {}
