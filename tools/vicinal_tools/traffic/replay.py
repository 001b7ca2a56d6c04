"""Vehicles that do again what was recorded: tracks, each of a vehicle, or CAN buses, each of a car on some route.

    drive.gpx  drive.csv  drive.nmea  drive.jsonl     where a vehicle was, and when (vicinal_hw.location.recording)
    tracks.csv                                        of many: what `vicinal sim traffic` writes (tracks.py)
    capture.log, .asc, .blf, .trc                     what was on a car's bus: how fast it was, by a signal of a DBC.
                                                      Where nobody recorded, so it drives on roads of the town

All begin together, and each begins again after its end and a pause. Drivers of the past do not see signs.
"""

import csv
import math
from bisect import bisect_right
from pathlib import Path
from random import Random
from typing import NamedTuple

from vicinal.errors import LocalProtocolError
from vicinal_cloud.traffic.network import UNIT, Network, Position, Road
from vicinal_hw.ble.positions import Plane
from vicinal_hw.location.fix import Fix
from vicinal_hw.location.recording import read_recording
from vicinal_hw.location.track import Track

from ..can.logs import open_log
from .districts import make_network
from .drivers import PLATE_MAX, STEP_MS, Driven, plates
from .lanes import Edge, Lanes
from .tracks import COLUMNS

__all__ = ["Capture", "CaptureTraffic", "Recorded", "TrackTraffic", "read_capture", "read_tracks", "town_of"]

PAUSE_MS = 5_000
"""between the end and the next beginning: it must not seem to be in two places"""
GAP_MS = 10_000
"""fixes that are farther apart are a gap: nothing is made up in it"""
BRAKING = -0.6
POINTS_M = 15.0
"""between two points of a road that is made of a track"""
USUAL_KMH = 50
"""of roads that are known from tracks alone"""
UNITS = {"km/h": 1.0, "kph": 1.0, "kmh": 1.0, "mph": 1.609344, "m/s": 3.6}
SILENT_MS = 2_000
"""after which a bus that says nothing of its speed is believed no more"""


class Recorded(NamedTuple):
    plate: str
    """empty where the file does not say"""
    fixes: list[Fix]


class Capture(NamedTuple):
    name: str
    times: list[int]
    """ms from its first frame"""
    speeds: list[float]
    """km/h"""


def read_tracks(files: list[Path]) -> list[Recorded]:
    found: list[Recorded] = []
    for file in files:
        try:
            found += _several(file) if _is_ours(file) else [Recorded("", read_recording(file).fixes)]
        except OSError as error:
            raise LocalProtocolError(f"{file}: {error.strerror}") from error
    taken = [one.plate for one in found if one.plate]
    twice = {plate for plate in taken if taken.count(plate) > 1}
    if twice:
        raise LocalProtocolError(f"license_no {min(twice)!r} is of two tracks")
    return [one._replace(fixes=_with_speeds(one.fixes)) for one in found]


def _is_ours(file: Path) -> bool:
    if file.suffix.lower() != ".csv":
        return False
    with file.open(encoding="utf-8-sig", errors="replace") as opened:
        return "license_no" in opened.readline(4096).split(",")


def _several(file: Path) -> list[Recorded]:
    found: dict[str, list[Fix]] = {}
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as opened:
        rows = csv.DictReader(opened)
        missing = [name for name in COLUMNS[:4] if name not in (rows.fieldnames or ())]
        if missing:
            raise LocalProtocolError(f"{file}:1: the header has no {', '.join(missing)}")
        for row in rows:
            where, plate = f"{file}:{rows.line_num}", str(row["license_no"]).strip()
            if not 1 <= len(plate) <= PLATE_MAX or not plate.isascii() or not plate.replace("-", "").isalnum():
                raise LocalProtocolError(f"{where}: license_no is {plate!r}, want 1 to {PLATE_MAX} letters and digits")
            try:
                time, lat, lon = int(row["time_ms"]), float(row["lat"]), float(row["lon"])
                speed = float(row["speed_kmh"]) if row.get("speed_kmh") else None
                heading = float(row["heading_deg"]) if row.get("heading_deg") else None
                fix = Fix(
                    round(lat * UNIT), round(lon * UNIT), time, None if speed is None else round(speed / 3.6 * 1000),
                    None if heading is None else round(heading * 100) % 36_000,
                )  # fmt: skip
            except (ValueError, TypeError, OverflowError) as error:
                raise LocalProtocolError(f"{where}: {error}") from error
            except LocalProtocolError as error:
                raise LocalProtocolError(f"{where}: {error}") from error
            own = found.setdefault(plate, [])
            if own and time <= (own[-1].time or 0):
                raise LocalProtocolError(f"{where}: time_ms of {plate} is {time}, not after {own[-1].time}")
            own.append(fix)
    if not found:
        raise LocalProtocolError(f"{file} has no track")
    return [Recorded(plate, fixes) for plate, fixes in found.items()]


def _with_speeds(fixes: list[Fix]) -> list[Fix]:
    """Where a receiver did not say how fast, and where to: as the places before and after have it."""
    made: list[Fix] = []
    for number, fix in enumerate(fixes):
        a, b = fixes[max(0, number - 1)], fixes[min(len(fixes) - 1, number + 1)]
        east, north = Plane(a.lat, a.lon).metres(b.lat, b.lon)
        passed = ((b.time or 0) - (a.time or 0)) / 1000
        far = math.hypot(east, north)
        speed, heading = fix.speed, fix.heading
        if speed is None:
            speed = round(far / passed * 1000) if passed else 0
        if heading is None:
            before = made[-1].heading if made else 0
            heading = round(math.degrees(math.atan2(east, north)) * 100) % 36_000 if far > 1 else before
        made.append(Fix(fix.lat, fix.lon, fix.time, speed, heading))
    return made


def town_of(tracks: list[Recorded]) -> Network:
    """Roads where vehicles have been, of which nothing else is known."""
    roads = []
    for number, one in enumerate(tracks):
        points: list[Position] = []
        for fix in one.fixes:
            if not points or math.hypot(*Plane(*points[-1]).metres(fix.lat, fix.lon)) >= POINTS_M:
                points.append((fix.lat, fix.lon))
        if len(points) > 1:
            roads.append(Road(f"track-{number}", f"Track {number + 1}", tuple(points), 1, False, USUAL_KMH))
    if not roads:
        raise LocalProtocolError("no vehicle of the tracks has moved: there is no road to make of them")
    return make_network("tracks", roads)


class _Replayed:
    """One vehicle, as it is now."""

    def __init__(self, number: int, plate: str, place: Position) -> None:
        self.number = number
        self.plate = plate
        self.place = place
        self.heading = 0.0
        self.present = False
        self.speed = self.before = 0.0

    @property
    def kmh(self) -> float:
        return self.speed * 3.6

    @property
    def braking(self) -> bool:
        return (self.speed - self.before) * 1000 / STEP_MS < BRAKING

    def set_speed(self, speed: float) -> None:
        self.before, self.speed = self.speed, speed


class _Replay:
    def __init__(self, cars: list[_Replayed]) -> None:
        self.now = 0
        self.cars = cars

    @property
    def vehicles(self) -> list[Driven]:
        return list(self.cars)

    def tell(self, number: int, area: str, limit: int) -> bool:
        return False

    def close(self) -> None:
        pass


class TrackTraffic(_Replay):
    def __init__(self, tracks: list[Recorded], seed: int = 0) -> None:
        made = plates(Random(seed), len(tracks), {one.plate for one in tracks})
        super().__init__(
            [
                _Replayed(number, one.plate or made[number], (one.fixes[0].lat, one.fixes[0].lon))
                for number, one in enumerate(tracks)
            ]
        )
        # A vehicle that stands still says so less often, and is there all the same.
        self._tracks = [Track(one.fixes, 0, max_age=GAP_MS) for one in tracks]
        self.step()
        self.now = 0

    def step(self) -> None:
        self.now += STEP_MS
        for car, track in zip(self.cars, self._tracks):
            into = self.now % (track.ends() + PAUSE_MS)
            fix = track.fix(into) if into <= track.ends() else None
            car.present = fix is not None
            if fix is not None:
                car.place = (fix.lat, fix.lon)
                car.set_speed((fix.speed or 0) / 1000)
                car.heading = (fix.heading or 0) / 100


def read_capture(file: Path, dbc: Path, signal: str) -> Capture:
    """`signal` is MESSAGE.SIGNAL of the DBC file; its unit says what it is."""
    from vicinal_hw.can.dbc import load

    message_name, _, name = signal.partition(".")
    if not message_name or not name:
        raise LocalProtocolError(f"signal {signal!r}: want MESSAGE.SIGNAL, as in EngVehicleSpThrottle2.Veh_V_ActlEng")
    messages = {one.subject: one for one in load(dbc, only=[message_name]).messages}
    message = messages.get(message_name)
    if message is None:
        raise LocalProtocolError(f"{dbc}: there is no message {message_name!r}")
    fields = {field.name: field for field in message.fields}
    if name not in fields:
        raise LocalProtocolError(f"{dbc}: {message_name} has no signal {name!r}, but {', '.join(sorted(fields))}")
    unit = fields[name].unit
    if unit not in UNITS:
        raise LocalProtocolError(f"{dbc}: {signal} has the unit {unit!r}, want one of {', '.join(UNITS)}")
    wanted = f"{message.id:08X}" if message.extended else f"{message.id:03X}"
    times: list[int] = []
    speeds: list[float] = []
    log = open_log(str(file))
    try:
        for rows in log.batches({wanted}):
            for at, _, number, _, data in rows:
                if number.upper() == wanted and not data.startswith("R"):
                    time = round(float(at) * 1000)
                    value = message.decode(bytes.fromhex(data)).get(name)
                    if isinstance(value, int | float) and (not times or time > times[-1]):
                        times.append(time)
                        speeds.append(max(0.0, float(value) * UNITS[unit]))
    finally:
        log.close()
    if not times:
        why = f"; {log.broken:,} lines are none of a log" if log.broken else f"; {log.cut}" if log.cut else ""
        raise LocalProtocolError(f"{file}: no frame of {message_name} ({wanted}) in it{why}")
    return Capture(file.name, [time - times[0] for time in times], speeds)


class CaptureTraffic(_Replay):
    """Each as fast as its bus said, along roads of the town. Nobody else is in its way: it happened elsewhere."""

    def __init__(self, network: Network, captures: list[Capture], seed: int = 0) -> None:
        self.network = network
        self._chance = Random(seed)
        self._lanes = Lanes(network)
        self._captures = captures
        self._edges = [self._chance.choice(self._lanes.edges) for _ in captures]
        self._metres = [0.0 for _ in captures]
        names = plates(self._chance, len(captures))
        super().__init__(
            [
                _Replayed(number, plate, edge.road.points[0])
                for number, (plate, edge) in enumerate(zip(names, self._edges))
            ]
        )
        self._locate()

    def step(self) -> None:
        self.now += STEP_MS
        for number, (car, one) in enumerate(zip(self.cars, self._captures)):
            into = self.now % (one.times[-1] + PAUSE_MS)
            place = bisect_right(one.times, into) - 1
            car.present = place >= 0 and into - one.times[place] <= SILENT_MS and into <= one.times[-1] + STEP_MS
            car.set_speed(one.speeds[place] / 3.6 if car.present else 0.0)
            self._metres[number] += car.speed * STEP_MS / 1000
            while self._metres[number] >= self._edges[number].length:
                self._metres[number] -= self._edges[number].length
                self._edges[number] = self._next(self._edges[number])
        self._locate()

    def _next(self, edge: Edge) -> Edge:
        return self._chance.choice(self._lanes.ways(edge))

    def _locate(self) -> None:
        for car, edge, metres in zip(self.cars, self._edges, self._metres):
            x, y, car.heading = edge.place(metres, 0)
            car.place = self.network.plane.degrees(x, y)
