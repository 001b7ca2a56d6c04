"""Vehicles of Eclipse SUMO, in steps of 100 ms: real networks, and their own demand where there is some.

    town.net.xml       a network: `vehicles` of ours drive from one place of it to another, for ever
    town.sumocfg       a scenario: the first `vehicles` that its demand puts onto the road; who arrives makes room

SUMO is a process of its own, spoken to over TraCI (pip install 'vicinal[sumo]': eclipse-sumo and traci, 300 MB). The
network must know where on Earth it is: its <location> has a projection. Limits of areas and places of monitors come
from the speeds of its roads (districts.py).
"""

import contextlib
import io
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

from vicinal.errors import LocalProtocolError
from vicinal_cloud.traffic.network import SPEEDS, UNIT, Network, Position, Road

from .districts import make_network
from .drivers import STEP_MS, Driven, factors, plates

__all__ = ["SumoError", "SumoTraffic", "town_of"]

BRAKING = -0.6
"""m/s^2 from which on the brake lights are on"""
TRIES = 100
"""for a way between two places, before a network is said to have none"""
ANY_SPEED = 70.0
"""m/s: no limit of ours"""
WAIT_S, AGAIN_S = 60.0, 0.1


class SumoError(LocalProtocolError):
    """SUMO is not there, or the file is none of its; the message says what to do."""


def _traci() -> Any:
    try:
        import traci
    except ImportError as error:
        raise SumoError(f"{error}: SUMO is not installed: pip install 'vicinal[sumo]' (300 MB)") from error
    return traci


def _program() -> str:
    """Beside this Python, or anywhere else."""
    found = shutil.which("sumo", path=str(Path(sys.executable).parent)) or shutil.which("sumo")
    if found is None:
        raise SumoError("there is no program 'sumo': pip install 'vicinal[sumo]' (300 MB)")
    return found


def _network_of(file: Path) -> Path:
    """Of a scenario the network that it names."""
    if file.name.endswith((".net.xml", ".net.xml.gz")):
        return file
    if file.suffix != ".sumocfg":
        raise SumoError(f"{file}: want a network, FILE.net.xml, or a scenario, FILE.sumocfg")
    for one in _elements(file, "net-file"):
        return file.parent / str(one.get("value"))
    raise SumoError(f"{file}: names no <net-file>")


def _elements(file: Path, *tags: str) -> "list[ElementTree.Element]":
    import gzip

    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as opened:
            found = []
            for _, one in ElementTree.iterparse(opened):
                if one.tag in tags:
                    found.append(one)
            return found
    except OSError as error:
        raise SumoError(f"{file}: {error.strerror or error}") from error
    except ElementTree.ParseError as error:
        raise SumoError(f"{file}: not XML: {error}") from error


class _Run:
    """A SUMO process, and the words it is spoken to with."""

    def __init__(self, *options: str) -> None:
        traci = _traci()
        port = traci.getFreeSocketPort()
        command = [_program(), *options, "--remote-port", str(port), "--no-step-log", "true", "--no-warnings", "true"]
        self.process = subprocess.Popen(
            [*command, "--step-length", str(STEP_MS / 1000)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            # It says on stdout that it waits, where others of this process have something to say.
            with contextlib.redirect_stdout(io.StringIO()):
                tries = round(WAIT_S / AGAIN_S)
                self.words: Any = traci.connect(port, tries, proc=self.process, waitBetweenRetries=AGAIN_S)
            self.words.getVersion()  # it listens before it has read its files
        except (traci.exceptions.FatalTraCIError, traci.exceptions.TraCIException, OSError) as error:
            raise SumoError(f"SUMO did not start: {self._last_words() or error}") from error
        self.error: Any = traci.exceptions.TraCIException

    def _last_words(self) -> str:
        if self.process.poll() is None:
            self.process.kill()
        _, said = self.process.communicate()
        return " ".join(line.strip() for line in said.splitlines() if line.strip())

    def place(self, x: float, y: float) -> Position:
        lon, lat = self.words.simulation.convertGeo(x, y)
        return round(lat * UNIT), round(lon * UNIT)

    def close(self) -> None:
        with contextlib.suppress(OSError, self.error):
            self.words.close(wait=False)
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()


def town_of(file: Path) -> Network:
    """The town that a network of SUMO is: roads for cars, with areas, limits and monitors."""
    net = _network_of(file)
    edges: list[tuple[ElementTree.Element, list[ElementTree.Element]]] = []
    projection = None
    for one in _elements(net, "location", "edge"):
        if one.tag == "location":
            projection = one.get("projParameter")
        elif one.get("function") in (None, "normal"):
            lanes = [lane for lane in one.findall("lane") if _for_cars(lane)]
            if lanes:
                edges.append((one, lanes))
    if projection is None:
        raise SumoError(f"{net}: not a network of SUMO: it has no <location>")
    if projection in ("!", "-", "."):
        raise SumoError(
            f"{net}: it is nowhere on Earth (projParameter={projection!r}): make it with netconvert from OpenStreetMap "
            "(--osm-files FILE), or with --proj PROJECTION"
        )
    if not edges:
        raise SumoError(f"{net}: it has no road for cars")
    run = _Run("-n", str(net))
    try:
        roads = []
        for edge, lanes in edges:
            shape = edge.get("shape") or lanes[0].get("shape") or ""
            points = [run.place(*map(float, point.split(",")[:2])) for point in shape.split()]
            kept = [point for number, point in enumerate(points) if number == 0 or point != points[number - 1]]
            if len(kept) < 2:
                continue
            kmh = round(max(float(lane.get("speed", 13.9)) for lane in lanes) * 3.6)
            ident = str(edge.get("id"))
            speed = min(max(kmh, SPEEDS[0]), SPEEDS[-1])
            roads.append(Road(ident, edge.get("name") or ident, tuple(kept), min(len(lanes), 8), True, speed))
    finally:
        run.close()
    return make_network(net.name.partition(".")[0], roads)


def _for_cars(lane: ElementTree.Element) -> bool:
    allow, disallow = lane.get("allow"), lane.get("disallow", "")
    if allow is not None:
        return "passenger" in allow.split() or allow == "all"
    return "passenger" not in disallow.split() and disallow != "all"


class SumoVehicle:
    def __init__(self, number: int, plate: str, place: Position, factor: float) -> None:
        self.number = number
        self.plate = plate
        self.place = place
        self.factor = factor
        self.heading = 0.0
        self.present = False
        self.ident = ""
        """SUMO's name of what it is now"""
        self.speed = self.acceleration = 0.0
        self.told: dict[str, int] = {}

    @property
    def kmh(self) -> float:
        return self.speed * 3.6

    @property
    def braking(self) -> bool:
        return self.acceleration < BRAKING


class SumoTraffic:
    def __init__(self, file: Path, network: Network, seed: int, vehicles: int, speeders: float) -> None:
        self.network = network
        self.now = 0
        self.chance = Random(seed)
        names, wishes = plates(self.chance, vehicles), factors(self.chance, vehicles, speeders)
        middle = ((network.south + network.north) // 2, (network.west + network.east) // 2)
        self.cars = [SumoVehicle(number, names[number], middle, wishes[number]) for number in range(vehicles)]
        self._own = file.suffix != ".sumocfg"
        self._run = _Run("-n" if self._own else "-c", str(file), "--seed", str(seed % (1 << 31)))
        self._by_ident: dict[str, SumoVehicle] = {}
        self._edges = [road.ident for road in network.roads]
        self._trips = 0
        words = self._run.words
        import traci.constants as names_of

        self._wanted = (
            names_of.VAR_POSITION, names_of.VAR_SPEED, names_of.VAR_ANGLE, names_of.VAR_ACCELERATION,
            names_of.VAR_ROUTE_INDEX,
        )  # fmt: skip
        try:
            if self._own:
                for car in self.cars:
                    self._set_out(car)
            words.simulation.subscribe([names_of.VAR_DEPARTED_VEHICLES_IDS, names_of.VAR_ARRIVED_VEHICLES_IDS])
        except BaseException:
            self.close()
            raise

    @property
    def vehicles(self) -> list[Driven]:
        return list(self.cars)

    def close(self) -> None:
        self._run.close()

    def tell(self, number: int, area: str, limit: int) -> bool:
        car = self.cars[number]
        car.told[area] = limit
        return car.factor <= 1

    def _set_out(self, car: SumoVehicle) -> None:
        """From somewhere to somewhere, with a name of its own."""
        words = self._run.words
        for _ in range(TRIES):
            begin, end = self.chance.choice(self._edges), self.chance.choice(self._edges)
            try:
                found = words.simulation.findRoute(begin, end).edges
            except self._run.error:
                continue
            if len(found) > 1:
                self._trips += 1
                ident = f"vicinal-{self._trips}"
                words.route.add(ident, list(found))
                words.vehicle.add(ident, ident, departLane="best", departPos="random_free")
                words.vehicle.setSpeedFactor(ident, car.factor)
                car.ident = ident
                self._by_ident[ident] = car
                return
        raise SumoError(f"no way was found between any of {TRIES} pairs of roads in {self.network.name}")

    def step(self) -> None:
        words = self._run.words
        words.simulationStep()
        self.now += STEP_MS
        for ident in words.simulation.getArrivedIDList():
            car = self._by_ident.pop(ident, None)
            if car is not None:
                car.present, car.ident, car.speed = False, "", 0.0
                if self._own:
                    self._set_out(car)
        for ident in words.simulation.getDepartedIDList():
            car = self._by_ident.get(ident)
            if car is None and not self._own:
                # One that has arrived is left alone for a while: it must not seem to be in two places.
                car = next((one for one in self.cars if not one.ident), None)
                if car is not None:
                    car.ident = ident
                    self._by_ident[ident] = car
                    words.vehicle.setSpeedFactor(ident, car.factor)
            if car is not None:
                words.vehicle.subscribe(ident, self._wanted)
        for ident, values in words.vehicle.getAllSubscriptionResults().items():
            car = self._by_ident.get(ident)
            if car is not None:
                self._take(car, values)
        if self.now % 1000 == 0:
            self._keep_to_signs()

    def _take(self, car: SumoVehicle, values: dict[int, Any]) -> None:
        position, speed, angle, acceleration, index = (values[one] for one in self._wanted)
        car.place = self._run.place(*position)
        car.speed, car.heading, car.acceleration = max(0.0, speed), angle % 360, acceleration
        car.present = True
        words = self._run.words
        if self._own and index >= 0 and index + 1 >= len(words.vehicle.getRoute(car.ident)):
            for _ in range(TRIES):
                try:
                    words.vehicle.changeTarget(car.ident, self.chance.choice(self._edges))
                    return
                except self._run.error:
                    continue

    def _keep_to_signs(self) -> None:
        for car in self.cars:
            if car.present and car.told and car.factor <= 1:
                area = self.network.area_of(car.place)
                limit = None if area is None else car.told.get(area.name)
                fastest = ANY_SPEED if limit is None else limit / 3.6 * car.factor
                self._run.words.vehicle.setMaxSpeed(car.ident, fastest)
