"""Flow: counts of what vehicles say, exactly, and nothing of who they were."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.tables_cpython import Table
from vicinal_edge.adapter import Refused, Unavailable
from vicinal_edge.adapters.flow import FRESH_MS, Counts, FlowAdapter

LAT, LON = 53.34, -6.26
NORTH = "North Street"
EAST = "East Street"
ROADS = {
    NORTH: [((LAT, LON), (LAT + 0.01, LON))],
    EAST: [((LAT, LON), (LAT, LON + 0.01)), ((LAT, LON + 0.01), (LAT + 0.005, LON + 0.02))],
}
PLACES = {NORTH: (LAT + 0.005, LON + 0.0001), EAST: (LAT - 0.0001, LON + 0.005), None: (LAT + 0.005, LON + 0.005)}
T = 1_780_000_000_000


def location(vehicle: str, road: str | None, at: int = T) -> Event:
    lat, lon = PLACES[road]
    params = {"lat": round(lat * 1e7), "lon": round(lon * 1e7), "heading": 0.0, "braking": False}
    return Event("Location", params, {"Time": at}, vehicle, at)


def speed(vehicle: str, rate: float, at: int = T) -> Event:
    return Event("Speed", {"license_no": "00D1234", "rate": rate}, {"Time": at}, vehicle, at + 1)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from([NORTH, EAST, None]), st.floats(0, 200)), max_size=40
    )
)  # fmt: skip
def test_counts(said: list[tuple[str, str | None, float]]) -> None:
    counts = Counts(ROADS, 25)
    for number, (vehicle, road, rate) in enumerate(said):
        counts.add(location(vehicle, road, T + number * 100), T)
        counts.add(speed(vehicle, rate, T + number * 100), T)
    found = counts.take(T, T + 60_000)
    assert [event["road"] for event in found] == [NORTH, EAST]
    for event in found:
        own = [(vehicle, rate) for vehicle, road, rate in said if road == event["road"]]
        assert event["vehicles"] == len({vehicle for vehicle, _ in own})
        assert event["reports"] == len(own)
        mean = sum(rate for _, rate in own) / len(own) if own else 0.0
        assert event["mean_kmh"] == pytest.approx(mean, abs=0.051)
        assert (event["since"], event["seconds"]) == (T, 60)
        assert "00D1234" not in repr(event)
        assert list(event.params) == ["road", "since", "seconds", "vehicles", "reports", "mean_kmh"]
    assert sum(counts.counters.values()) == 2 * len(said)
    assert all(event["vehicles"] == event["reports"] == 0 for event in counts.take(T + 60_000, T + 120_000))


def test_metres_are_metres_to_the_east_as_to_the_north() -> None:
    counts = Counts({"r": [((60.0, 10.0), (60.01, 10.0))]}, 25)  # a degree of longitude is half as long there
    for vehicle, lon in (("near", 10.0 + 24 / 55_660), ("far", 10.0 + 27 / 55_660)):
        counts.add(Event("Location", {"lat": 600_050_000, "lon": round(lon * 1e7)}, {"Time": T}, vehicle, 1), T)
    assert counts.counters["used"] == 1
    assert counts.take(T, T + 1000)[0]["vehicles"] == 1


def test_a_speed_without_a_place_is_of_no_road() -> None:
    counts = Counts(ROADS, 25)
    counts.add(speed("a", 50.0), T)
    counts.add(location("a", NORTH, T), T)
    counts.add(speed("a", 50.0, T + FRESH_MS + 1), T)
    counts.add(speed("b", 50.0), T)
    assert counts.counters == {"used": 1, "of no road": 0, "no place": 3}
    for bad in (Event("Other", {}), Event("Speed", {"rate": "fast"}), Event("Location", {"lat": 1.0, "lon": 2})):
        with pytest.raises(Refused):
            counts.add(bad, T)


class Port:
    gateway = service = "m1"
    folder = Path()

    def __init__(self) -> None:
        self.time = T
        self.got: list[Event] = []

    def now(self) -> int:
        return self.time

    def received(self, event: Event, taken: Any = None) -> bool:
        self.got.append(event)
        return True


def made(**values: Any) -> FlowAdapter:
    roads = [{"name": name, "lines": lines} for name, lines in ROADS.items()]
    return FlowAdapter("flow", Table(Path("g.toml"), "service", {"road": roads, **values}))


def test_it_speaks_at_whole_minutes() -> None:
    async def work() -> list[Event]:
        port, adapter = Port(), made()
        with pytest.raises(Unavailable):
            await adapter.publish(location("a", NORTH))
        await adapter.connect(port)  # type: ignore[arg-type]
        await adapter.publish(location("a", NORTH))
        await adapter.publish(speed("a", 40.0))
        await asyncio.sleep(0)
        port.time = T // 60_000 * 60_000 + 60_000
        while not port.got:
            await asyncio.sleep(0.01)
        await adapter.disconnect()
        return port.got

    original = asyncio.sleep

    async def soon(seconds: float) -> None:
        await original(min(seconds, 0.01))

    asyncio.sleep = soon  # type: ignore[assignment]
    try:
        found = asyncio.run(work())
    finally:
        asyncio.sleep = original
    assert [(event["road"], event["vehicles"], event["mean_kmh"]) for event in found] == [
        (NORTH, 1, 40.0),
        (EAST, 0, 0.0),
    ]
    assert found[0].attrs["Time"] % 60_000 == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"road": []}, "needs a [[service.road]]"),
        ({"road": [{"name": "r", "lines": []}]}, "lines are not lines"),
        ({"road": [{"name": "r", "lines": [[[1, 2]]]}]}, "lines are not lines"),
        ({"road": [{"name": "r", "lines": [[[1, 2], [100, 2]]]}]}, "lines are not lines"),
        ({"road": [{"name": "r", "lines": [[1, 2], [3, 4]]}]}, "lines are not lines"),
        ({"road": [{"name": "r"}]}, "lines is missing"),
        ({"every_s": 0}, "every_s"),
    ],
)
def test_configurations_that_are_none(values: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        made(**values)
    assert message in str(caught.value)
