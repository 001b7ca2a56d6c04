"""A small network and what its vehicles say, for tests of traffic control."""

import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from vicinal.event import Event
from vicinal_cloud.broker.client import Delivery
from vicinal_cloud.traffic import Area, Monitor, Network, Road, Rules, Settings, TrafficControl
from vicinal_cloud.traffic.api import make_app
from vicinal_cloud.traffic.config import Config
from vicinal_cloud.traffic.office import Office
from vicinal_cloud.traffic.store import Retention, Store

LAT, LON = 533_400_000, -62_600_000
NOW = 1_780_000_000_000  # 2026-05-28 20:26:40 UTC, a Thursday
HUNDRED_M = 8_990
"""of latitude, in 1e-7 degrees"""


def square(lat: int, lon: int, size: int, wide: int | None = None) -> tuple[tuple[int, int], ...]:
    wide = wide or size
    return ((lat - size, lon - wide), (lat - size, lon + wide), (lat + size, lon + wide), (lat + size, lon - wide))


def network(timezone: str = "UTC") -> Network:
    """A town with 50, and a square of about 600 m in its middle with 30."""
    roads = [Road("r1", "High Street", ((LAT - 100_000, LON), (LAT + 100_000, LON)), 1, False, 50)]
    areas = [
        Area("town", "Town", square(LAT, LON, 150_000), 50, 0),
        Area("centre", "Centre", square(LAT, LON, 27_000, 45_000), 30, 1),
    ]
    monitors = [Monitor("m1", (LAT, LON), "centre"), Monitor("m2", (LAT + HUNDRED_M, LON), "centre")]
    monitors.append(Monitor("m3", (LAT + 60_000, LON), "town"))
    return Network("Test", roads, areas, monitors, (), timezone)


def control(**options: Any) -> TrafficControl:
    """In reach of m1 and of m2 there is the centre alone."""
    rules = Rules(late_ms=options.pop("late_ms", 30_000))
    return TrafficControl(network(), Settings(rules=rules, **{"reach_m": 150, **options}))


def speed(rate: Any, at: int, plate: Any = "00D1234", vehicle: str = "car-1/can", seq: int | None = None) -> Event:
    attrs = {"OriginProducer": vehicle, "OriginSeq": at if seq is None else seq, "Time": at}
    return Event("Speed", [("license_no", plate), ("rate", rate)], attrs, producer="m1.office", seq=at)


def location(lat: int, lon: int, at: int, vehicle: str = "car-1/can", seq: int | None = None, **more: Any) -> Event:
    attrs = {"OriginProducer": vehicle, "OriginSeq": at + 1 if seq is None else seq, "Time": at}
    return Event("Location", {"lat": lat, "lon": lon, **more}, attrs, producer="m1.office", seq=at)


def balanced(made: TrafficControl) -> bool:
    found = made.counters
    sums = sum(found[name] for name in ("over", "within", "witnessed", "sightings"))
    return found["received"] == sums + sum(made.quarantined.values())


class Database(str):
    """Its URL, and a server that can be ended and started."""

    __slots__ = ("_start", "process")

    def __new__(cls, url: str, start: "Callable[[], subprocess.Popen[bytes]]") -> "Database":
        made = super().__new__(cls, url)
        made._start = start
        made.process = start()
        return made

    def start(self) -> None:
        self.process = self._start()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)  # fast: whoever is connected is cut off
        self.process.wait(60)


@contextmanager
def postgresql() -> Iterator[Database]:
    """A server of its own on a free port; the URL of its database. It refuses to be root's, so it is postgres' then."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = shutil.which("initdb") or (str(folders[-1] / "initdb") if folders else None)
    if found is None:
        pytest.skip("POSTGRESQL TESTS SKIPPED: no PostgreSQL (apt-get install postgresql)")
    programs = Path(found).resolve().parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).owner() == "root"
        user: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if root else {}
        if root:
            shutil.chown(folder, "postgres")
        data = Path(folder, "data")
        made = [programs / "initdb", "-D", data, "-U", "traffic", "-A", "trust", "--no-sync"]
        subprocess.run(made, check=True, capture_output=True, cwd=folder, **user)

        def start() -> "subprocess.Popen[bytes]":
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", "", "-F"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **user,
            )  # fmt: skip
            end = time.monotonic() + 60
            while subprocess.run(
                [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port)], capture_output=True
            ).returncode:
                assert time.monotonic() < end
                assert server.poll() is None
                time.sleep(0.05)
            return server

        database = Database(f"postgresql+psycopg://traffic@127.0.0.1:{port}/postgres", start)
        try:
            yield database
        finally:
            database.stop()


class Hands:
    """In place of a client of the overlay: its clock, which a test sets."""

    def __init__(self, now: int) -> None:
        self.time = now

    def now(self) -> int:
        return self.time


class Bureau:
    """An office that is connected to nothing: what comes is put into its hands, and what time it is."""

    def __init__(self, url: str = "sqlite://", store: Store | None = None, **settings: Any) -> None:
        rules = Rules(late_ms=settings.pop("late_ms", 30_000))
        made = Settings(rules=rules, **settings)
        config = Config(
            "tc", network(), "tcp://127.0.0.1:1", None, "siena", "air-{monitor}", 216, url, {}, None, made,
            Retention(), {},
        )  # fmt: skip
        self.store = store or Store(url)
        self.hands: Any = Hands(NOW)
        self.office = Office(config, self.store)
        self.office._client = self.hands
        self.office.progress.connected(0)
        self.pages = TestClient(make_app(self.office), raise_server_exceptions=False)
        self._offset = self.store.offset() or 0

    def hear(self, event: Event, at: int | None = None, stored: int | None = None, monitor: str = "m1") -> str:
        """As from the durable subscription; `stored` is when its broker had it."""
        if at is not None:
            self.hands.time = at
        self._offset += 1
        trail = () if stored is None else (("b1", (), stored),)
        event = event.replace(producer=f"{monitor}.office")
        return self.office.take(Delivery(event, self._offset - 1, trail, self.hands.time))

    def pass_time(self, now: int) -> None:
        """What the office does now and then."""
        self.hands.time = now
        self.office._pass_time(now)

    def post(self, path: str, **body: Any) -> tuple[int, Any]:
        answer = self.pages.post(path, content=json.dumps(body), headers={"Content-Type": "application/json"})
        return answer.status_code, answer.json()

    def close(self) -> None:
        self.store.close()
