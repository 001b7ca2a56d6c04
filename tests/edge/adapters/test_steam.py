"""STEAM's adapter on the virtual radio: groups by subject and place, one radio that says one thing at a time."""

import asyncio
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from vicinal import wire
from vicinal.control import SUBJECT as CONTROL
from vicinal.control import Subscription
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.proximity import Proximity
from vicinal.tables_cpython import ConfigError
from vicinal_edge.adapter import Adapter, Refused, Unavailable
from vicinal_edge.adapters._steam_areas import Announced, AnnounceSettings
from vicinal_edge.adapters.steam import SteamAdapter
from vicinal_edge.contract import PATIENCE, AdapterContract, RecordingPort, settings

HERE = (533498000, -62603000)
FAR = (533498000 + 90_000, -62603000)  # a kilometre to the north, past any advertisement
QUICK = 20
"""ms between advertisements: the least that Bluetooth allows, so that tests do not wait for the air"""


@pytest.fixture(autouse=True, scope="module")
def _own_radios() -> Iterator[None]:
    """Not pytest's tmp_path: a Unix socket's path may have 107 characters."""
    with TemporaryDirectory(prefix="ble") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("VICINAL_BLE_DIR", folder)
        yield
        for _ in range(100):
            if not list(Path(folder).rglob("*.sock")):
                break
            time.sleep(0.1)
        assert [path.name for path in Path(folder).rglob("*.sock")] == [], "a radio outlived its clients"


@pytest.fixture
def air() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def adapter(air: str, name: str = "road", **values: Any) -> SteamAdapter:
    return SteamAdapter(name, settings({"virtual": air, "interval_ms": QUICK, **values}))


@asynccontextmanager
async def connected(
    made: SteamAdapter, folder: Path, place: tuple[int, int] | None = HERE
) -> AsyncIterator[tuple[SteamAdapter, RecordingPort]]:
    (folder / made.service).mkdir(exist_ok=True)
    port = RecordingPort(made.service, folder / made.service, place)
    await made.connect(port)
    try:
        yield made, port
    finally:
        await made.disconnect()


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not done():
            await asyncio.sleep(0.005)


def count(made: SteamAdapter, what: str) -> int:
    return int(made.status().get(what, 0))


async def joined(post: SteamAdapter, *others: SteamAdapter) -> None:
    """Who is there has heard of it: what is published now is missed by nobody."""
    await post.announce(speed())
    await until(lambda: all(count(other, "groups") for other in others))


def speed(rate: int = 57, **attrs: Any) -> Event:
    return Event("Speed", [("rate", rate)], attrs)


class Contract(AdapterContract):
    loses = True
    order_count = 10
    extended: bool

    @asynccontextmanager
    async def service(self, folder: Path) -> AsyncIterator[Callable[[str], Adapter]]:
        air = f"t{uuid.uuid4().hex[:12]}"
        # Who comes later is not told the last event: the contract is about who is there.
        announce = [{"subject": "Speed", "keep": False}]
        yield lambda name: adapter(air, name, extended=self.extended, control=True, announce=announce)

    async def settle(self) -> None:
        """Until who has subscribed has heard a beacon, if there is one to be heard."""
        end = time.monotonic() + 1.0
        while time.monotonic() < end and any(
            isinstance(one, SteamAdapter) and one._handlers and not count(one, "groups") for one in self._ports
        ):
            await asyncio.sleep(0.01)


class TestExtended(Contract):
    extended = True


class TestLegacy(Contract):
    extended = False


# Places


def test_who_drives_out_of_the_area_hears_no_more_and_who_comes_back_does(air: str, tmp_path: Path) -> None:
    async def work() -> None:
        announce = [{"subject": "Speed", "radius_m": 50, "every_ms": 200}]
        post = adapter(air, "post", announce=announce)
        car = adapter(air, "car")
        async with connected(post, tmp_path), connected(car, tmp_path) as (_, port):
            await car.subscribe(Filter("subject = 'Speed'"))
            await joined(post, car)
            await post.publish(speed(1))
            await until(lambda: port.events)
            port.place = (HERE[0] + 9_000, HERE[1])  # 100 m: within reach of the radio, outside the area
            await until(lambda: not count(car, "groups"))
            await post.publish(speed(2))
            await until(lambda: not count(post, "stored"))
            assert [event["rate"] for event in port.events] == [1]
            assert count(car, "in dropped: outside") > 0
            port.place = HERE
            await post.publish(speed(3))
            await until(lambda: port.events[-1]["rate"] == 3)
            port.place = FAR
            await until(lambda: not count(car, "heard of"))  # the beacons have stopped coming
            port.place = None
            await post.publish(speed(4))
            await until(lambda: not count(post, "stored"))
            assert port.events[-1]["rate"] == 3

    asyncio.run(work())


def test_an_event_with_a_place_of_its_own_is_heard_there_only(air: str, tmp_path: Path) -> None:
    async def work() -> None:
        post, near, off = adapter(air, "post"), adapter(air, "near"), adapter(air, "off")
        away = (HERE[0] + 9_000, HERE[1])
        async with (
            connected(post, tmp_path),
            connected(near, tmp_path) as (_, inside),
            connected(off, tmp_path, away) as (_, outside),
        ):
            for one in (near, off):
                await one.subscribe(Filter("subject = 'Speed'"))
            await joined(post, near, off)
            await post.publish(speed(1, Proximity=Proximity.circle(*HERE, 40)))
            await until(lambda: inside.events)
            await until(lambda: not count(post, "stored"))
            # A relative one is known from the announcement alone, and who has not heard that would be in it.
            around = Proximity.circle(0, 0, 60, relative=True)
            await post.announce(speed(Proximity=around))
            await until(lambda: not count(off, "groups"))
            await post.publish(speed(2, Proximity=around))
            await until(lambda: len(inside.events) == 2)
            await until(lambda: not count(post, "stored"))
            await joined(post, near, off)
            await post.publish(speed(3))
            await until(lambda: outside.events and len(inside.events) == 3)
            assert [event["rate"] for event in outside.events] == [3]
            assert sorted(event["rate"] for event in inside.events) == [1, 2, 3]
            assert inside.events[0].attrs["Proximity"] == Proximity.circle(*HERE, 40)

    asyncio.run(work())


def test_the_announced_area_gives_way_to_the_events_own() -> None:
    base = Proximity.circle(0, 0, 500, relative=True)
    found = Announced(AnnounceSettings("Speed"), base)
    inside, outside = Proximity.circle(*HERE, 100), Proximity.circle(*FAR, 100)
    moving, huge = Proximity.circle(0, 0, 9, relative=True), Proximity.circle(*HERE, 100_000)
    assert [found.area_for(own, HERE) for own in (None, inside, huge)] == [base, base, base]
    assert [found.area_for(own, HERE) for own in (outside, moving)] == [outside, moving]
    assert found.area_for(inside, None) == inside


def test_without_a_place_what_moves_with_the_gateway_waits_and_is_refused(air: str, tmp_path: Path) -> None:
    async def work() -> None:
        announce = [
            {"subject": "Speed", "validity_ms": 1_000},
            {"subject": "Sign", "area": "0, 0, 53.3498, -6.2603, 300"},
        ]
        made = adapter(air, announce=announce)
        async with connected(made, tmp_path, None) as (_, port):
            with pytest.raises(Refused, match="nobody knows where this gateway is"):
                await made.publish(speed())
            await made.publish(Event("Sign", [("text", "50")]))  # stays where it is
            later = asyncio.create_task(made.publish(speed().stamp("car-7", 1)))
            await asyncio.sleep(0.05)
            port.place = HERE
            await later
            await until(lambda: count(made, "out sent") == 2)
            assert count(made, "out accepted") == 2

    asyncio.run(work())


# Subjects and contents


def test_subscriptions_name_their_subjects(air: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with connected(adapter(air), tmp_path) as (made, _):
            for text, why in (
                ("rate > 30", "names no subject"),
                ("subject LIKE 'Sp%'", "names no subject"),
                ("subject = 'A' AND subject = 'B'", "no event can meet"),
            ):
                with pytest.raises(Refused, match=why):
                    await made.subscribe(Filter(text))
            await made.subscribe(Filter("subject IN ('A', 'B') AND x > 3"))
            assert set(made._handlers["subject IN ('A', 'B') AND x > 3"][0]) == {"A", "B"}

    asyncio.run(work())


def test_an_event_that_meets_two_subscriptions_is_one(air: str, tmp_path: Path) -> None:
    async def work() -> None:
        post, car = adapter(air, "post"), adapter(air, "car")
        async with connected(post, tmp_path), connected(car, tmp_path) as (_, port):
            both = [Filter("subject = 'Speed' AND rate > 30"), Filter("subject = 'Speed' AND rate > 40")]
            for condition in both:
                await car.subscribe(condition)
            await joined(post, car)
            for rate in (20, 35, 50):
                await post.publish(speed(rate))
            await until(lambda: not count(post, "stored"))
            await until(lambda: len(port.events) >= 2)
            assert sorted(event["rate"] for event in port.events) == [35, 50]
            await car.unsubscribe(both[0])
            await post.publish(speed(36))
            await post.publish(speed(51))
            await until(lambda: port.events[-1]["rate"] == 51)
            await until(lambda: not count(post, "stored"))
            assert 36 not in [event["rate"] for event in port.events]

    asyncio.run(work())


def test_with_names_events_are_short_and_others_are_refused(air: str, tmp_path: Path) -> None:
    async def work() -> None:
        announce = [{"subject": "Speed", "names": ["rate"]}]
        post, car = adapter(air, "post", announce=announce), adapter(air, "car", announce=announce)
        async with connected(post, tmp_path), connected(car, tmp_path) as (_, port):
            await car.subscribe(Filter("subject = 'Speed'"))
            await post.announce(speed())
            with pytest.raises(Refused, match="has the names"):
                await post.announce(Event("Speed", [("rate", 1), ("lat", 2)]))
            sent = speed(7, Priority=3).stamp("car-7", 12)
            await post.publish(sent)
            await until(lambda: port.events)
            assert port.events == [sent]

    asyncio.run(work())


def test_numbers_are_not_used_again_after_a_restart(air: str, tmp_path: Path) -> None:
    async def work() -> list[Event]:
        post, car = adapter(air, "post"), adapter(air, "car")
        async with connected(post, tmp_path), connected(car, tmp_path) as (_, port):
            await car.subscribe(Filter("subject = 'Speed'"))
            await joined(post, car)
            for rate in (1, 2):
                await post.publish(speed(rate))
            await until(lambda: len(port.events) == 2)
            return port.events

    found = asyncio.run(work()) + asyncio.run(work())
    assert {event.producer for event in found} == {"contract.post"}
    assert len({event.seq for event in found}) == 4


# The air is shared


def test_no_more_is_in_the_air_than_can_be_said(air: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with connected(adapter(air), tmp_path) as (made, _):
            most = 0
            for number in range(12):
                await made.publish(speed(number).stamp(f"p{number}", 1))
                most = max(most, count(made, "stored"))
            assert most == 4
            await until(lambda: not count(made, "stored"))
            assert count(made, "out sent") == count(made, "out accepted") == 12
            for number in range(4):
                await made.publish(speed(number).stamp(f"p{number}", 2))
            with pytest.raises(Refused, match="expired before it was its turn"):
                await made.publish(speed(9, Expires=int(time.time() * 1000) + 20))

    asyncio.run(work())


def test_the_next_of_a_producer_comes_after_all_rounds_of_the_one_before(air: str, tmp_path: Path) -> None:
    """Also where pieces are lost: an event that is not yet whole is not overtaken by its successor."""

    async def work() -> None:
        post, car = adapter(air, "post"), adapter(air, "car")
        async with connected(post, tmp_path), connected(car, tmp_path) as (_, port):
            post._radio.set_loss(0.3)  # type: ignore[union-attr]
            await car.subscribe(Filter("subject = 'Speed'"))
            await joined(post, car)
            for rate in range(15):
                await post.publish(speed(rate))
                assert count(post, "stored") == 1
            last = await post.publish(speed(99, Priority=9))
            assert last is not None
            await asyncio.wait_for(last, PATIENCE)
            found: list[Any] = [event["rate"] for event in port.events]
            assert len(found) > 5
            assert found == sorted(found)

    asyncio.run(work())


@pytest.mark.parametrize(("extended", "most"), [(False, 207), (True, 3597)])
def test_a_control_event_fits_and_its_size_is_the_limit(air: str, tmp_path: Path, extended: bool, most: int) -> None:
    control = Subscription("es9", "es1", "subject = 'Speed' AND rate > 30").to_event().stamp("gateway-1", 5)

    async def work() -> None:
        post = adapter(air, "post", extended=extended, control=True)
        car = adapter(air, "car", extended=extended, control=True)
        assert post.capabilities.max_bytes == most
        async with connected(post, tmp_path), connected(car, tmp_path) as (_, port):
            await car.subscribe(Filter(f"subject = '{CONTROL}'"))
            await post.publish(control)
            await until(lambda: port.events)
            assert port.events == [control]
            fits = Event("Fits", [("v", "")], {}, "p", 1)
            longer = [fits.replace(params={"v": "x" * size}) for size in range(most)]
            fits = next(one for one in longer if len(wire.encode(one)) == most)
            await post.publish(fits)
            with pytest.raises(LocalProtocolError, match=f"the limit is {most}"):
                await post.publish(fits.replace(params={"v": fits["v"] + "x"}))  # type: ignore[operator]

    asyncio.run(work())


def test_seventeen_subjects_are_one_too_many(air: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with connected(adapter(air), tmp_path) as (made, _):
            for number in range(16):
                await made.announce(Event(f"S{number}"))
            with pytest.raises(Refused, match="cannot announce 'S16': announcements of a node is 17"):
                await made.announce(Event("S16"))
            await made.unannounce(Event("S3"))
            await until(lambda: count(made, "out beacons") > 20)

    asyncio.run(work())


# A radio that goes away


def test_a_radio_that_dies_is_lost_and_comes_back(air: str, tmp_path: Path) -> None:
    async def work() -> None:
        post, car = adapter(air, "post"), adapter(air, "car")
        async with connected(post, tmp_path) as (_, other), connected(car, tmp_path) as (_, port):
            os.kill(car._radio.holder, signal.SIGKILL)  # type: ignore[union-attr]
            await until(lambda: port.lost_because and other.lost_because)
            assert "is gone" in port.lost_because[0]
            with pytest.raises(Unavailable):
                await car.publish(speed())
            for made, its in ((post, other), (car, port)):
                await made.disconnect()
                await made.connect(its)
            await car.subscribe(Filter("subject = 'Speed'"))
            await post.publish(speed())
            await until(lambda: port.events)
            assert (len(port.lost_because), len(other.lost_because)) == (1, 1)

    asyncio.run(work())


def test_without_bluez_it_is_unavailable_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path}/none")

    async def work() -> None:
        made = SteamAdapter("road", settings({}))
        with pytest.raises(Unavailable, match="Is bluetoothd running"):
            await made.connect(RecordingPort("road", tmp_path))
        await made.disconnect()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"interval_ms": 5}, "interval_ms is 5, want at least 20"),
        ({"room": 200}, "room is 200, want at least 27 and at most 31"),
        ({"announce": [{"subject": "A", "radius_m": 0}]}, "radius_m is 0, want at least 1"),
        ({"announce": [{"subject": "A", "area": "3, 0"}]}, "area is '3, 0'"),
        ({"announce": [{"subject": "A", "area": "0, 1, 0, 0, 99999"}]}, "want at most 65535 metres"),
        ({"announce": [{"subject": "A", "every_ms": 150}]}, "every_ms is 150, want a multiple of 100"),
        ({"announce": [{"subject": "A", "evry_ms": 100}]}, "is 'every_ms' meant"),
        ({"announce": [{"subject": "A"}, {"subject": "A"}]}, "has its table already"),
    ],
)
def test_settings_that_are_wrong_are_named(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        adapter("c", **values)
