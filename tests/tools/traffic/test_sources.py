"""Where vehicles come from: SUMO, recorded tracks, logs of CAN buses; and what a town of roads alone becomes."""

import csv
import importlib.util
import io
import json
import math
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from vicinal.errors import LocalProtocolError
from vicinal.scope.file_cpython import read
from vicinal_cloud.traffic.network import Network, load
from vicinal_tools.demo.deployment import OFFICE, deployment_of, road_scope
from vicinal_tools.main import cli
from vicinal_tools.traffic import replay, sumo
from vicinal_tools.traffic.districts import make_network
from vicinal_tools.traffic.drivers import factors, plates
from vicinal_tools.traffic.sources import choose, open_source
from vicinal_tools.traffic.towns import make_town
from vicinal_tools.traffic.tracks import shipped, write
from vicinal_tools.traffic.world import World

CAPTURES = Path(__file__).parents[4] / "shared" / "data" / "can"
SIGNAL = "EngVehicleSpThrottle2.Veh_V_ActlEng"
needs_captures = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason="CAPTURES SKIPPED: no shared/data/can beside the checkout"
)
needs_sumo = pytest.mark.skipif(
    importlib.util.find_spec("traci") is None, reason="SUMO TESTS SKIPPED: pip install 'vicinal[sumo]' (300 MB)"
)


# A town of roads alone


@pytest.mark.parametrize("seed", range(4))
def test_a_town_of_roads_alone_has_limits_that_are_fair_and_monitors_that_hear(seed: int) -> None:
    roads = make_town(seed).roads
    town = make_network("Elsewhere", roads)
    for road in town.roads:
        for point in road.points:
            for area in town.areas_near(point, 15):
                assert area.limit >= road.speed  # who does what the road allows is not fined
            assert town.area_of(point) is not None
    m1, m2, m3 = town.monitors.values()
    assert 60 < town.distance(m1.place, m2.place) < 300
    assert min(town.distance(m3.place, one.place) for one in (m1, m2)) > 500
    assert all(town.area_of(one.place) == town.areas[one.area] for one in (m1, m2, m3))
    assert town.geojson() == load_again(town).geojson()


def load_again(town: Network) -> Network:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "town.geojson")
        file.write_text(json.dumps(town.geojson()))
        return load(file)


@pytest.mark.parametrize(
    "town",
    [shipped(), make_network("Nowhere, Far!", make_town(2).roads), make_network("police", make_town(3).roads)],
)
def test_every_town_has_its_deployment(town: Network) -> None:
    graph, problems = read(Path("deployment.toml"), deployment_of(town).encode())
    assert graph is not None, problems
    assert set(graph.components) == {*town.monitors, OFFICE, "planner", "citizen"}
    for name, monitor in town.monitors.items():
        road = road_scope(town, name)
        assert set(graph.components[name].scopes) == {road, "police", "field"}
        assert monitor.area in graph.scopes[road].supers


def test_the_roads_of_the_shipped_town() -> None:
    assert [road_scope(shipped(), name) for name in ("m1", "m2", "m3")] == ["alder-lane", "alder-street", "garden-road"]


def test_plates_and_drivers() -> None:
    assert len(set(plates(Random(1), 500))) == 500
    assert plates(Random(1), 1)[0] != plates(Random(1), 1, {plates(Random(1), 1)[0]})[0]
    assert sum(one > 1 for one in factors(Random(1), 10, 0.3)) == 3


# Tracks


def tracks_file(folder: Path, seconds: int = 20) -> Path:
    out = io.StringIO()
    write(World(shipped(), 5, 3), seconds, out)
    file = folder / "tracks.csv"
    file.write_text(out.getvalue())
    return file


def test_what_the_simulator_wrote_is_driven_again(tmp_path: Path) -> None:
    file = tracks_file(tmp_path)
    source = choose(99, replay=(str(file),))
    assert (source.vehicles, source.network.name) == (3, shipped().name)
    traffic = open_source(source.table, source.network, 1, source.vehicles, 0.0)
    rows = list(csv.DictReader(file.open()))
    for second in range(1, 20):
        for _ in range(10):
            traffic.step()
        for car in traffic.vehicles:
            (row,) = [
                one for one in rows if one["license_no"] == car.plate and int(one["time_ms"]) == (second + 1) * 1000
            ]
            assert car.present
            assert car.place == (round(float(row["lat"]) * 1e7), round(float(row["lon"]) * 1e7))
            assert car.kmh == pytest.approx(float(row["speed_kmh"]), abs=0.02)
            assert car.heading == pytest.approx(float(row["heading_deg"]), abs=0.1)
    assert not traffic.tell(0, "old-town", 20)  # who drove then does not see the signs of today
    traffic.step()
    assert not any(car.present for car in traffic.vehicles)  # it is over; after a pause it begins again
    for _ in range(51):
        traffic.step()
    assert all(car.present for car in traffic.vehicles)
    first = (round(float(rows[0]["lat"]) * 1e7), round(float(rows[0]["lon"]) * 1e7))
    assert shipped().distance(traffic.vehicles[0].place, first) < 10


GPX = """<?xml version="1.0"?><gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>
{}
</trkseg></trk></gpx>"""


def gpx(folder: Path, lat: float, lon: float, gap: int = 0) -> Path:
    """36 km/h to the north, with a gap of so many seconds in the middle."""
    points = []
    for second in range(60):
        at = second + (gap if second >= 30 else 0)
        place = lat + second * 10 / 111_195
        points.append(
            f'<trkpt lat="{place:.7f}" lon="{lon}"><time>2026-03-23T12:{at // 60:02}:{at % 60:02}Z</time></trkpt>'
        )
    file = folder / "drive.gpx"
    file.write_text(GPX.format("\n".join(points)))
    return file


def test_a_track_of_a_receiver_that_did_not_say_how_fast(tmp_path: Path) -> None:
    file = gpx(tmp_path, 48.1, 11.5, gap=20)
    source = choose(1, replay=(str(file),))
    assert source.network.name == "tracks"  # nobody knows the town: its roads are where somebody has been
    assert source.network.monitors
    traffic = open_source(source.table, source.network, 1, 1, 0.0)
    (car,) = traffic.vehicles
    for _ in range(100):
        traffic.step()
    assert car.kmh == pytest.approx(36, abs=0.5)
    assert min(car.heading, 360 - car.heading) < 1
    assert not car.braking
    for _ in range(300):
        traffic.step()
    assert not car.present  # in the gap
    assert len(car.plate) == 7


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "time_ms,license_no,lat\n", "has no lon"),
        ("x.csv", "time_ms,license_no,lat,lon\n1,TOOLONG1,53.2,-7.5\n", "x.csv:2: license_no is 'TOOLONG1'"),
        ("x.csv", "time_ms,license_no,lat,lon\n1,00D1234,north,-7.5\n", "x.csv:2: could not convert"),
        ("x.csv", "time_ms,license_no,lat,lon\n1,00D1234,nan,-7.5\n", "x.csv:2"),
        ("x.csv", "time_ms,license_no,lat,lon\n1,00D1234,153.2,-7.5\n", "x.csv:2"),
        ("x.csv", "time_ms,license_no,lat,lon\n2,A,53.2,-7.5\n2,A,53.2,-7.5\n", "not after 2"),
        ("x.csv", "time_ms,license_no,lat,lon\n", "has no track"),
        ("x.csv", "time,lat\n", "header has no lon"),
        ("x.gpx", "<gpx>", "x.gpx"),
        ("x.gpx", "<gpx></gpx>", "has no fix"),
        ("x.log", "(1.0) can0 123#00\n", "needs --dbc FILE --signal"),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, name: str, text: str, message: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    done = CliRunner().invoke(cli, ["demo", "--for", "1", "--no-browser", "--replay", str(file)])
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output


def test_what_does_not_go_together(tmp_path: Path) -> None:
    file = tracks_file(tmp_path, 2)
    for arguments, message in (
        (["--replay", str(tmp_path / "none.gpx")], "No such file"),
        (["--replay", str(file), "--replay", str(file)], "is of two tracks"),
        (["--replay", str(file), "--replay", "x.blf"], "either tracks or logs"),
        (["--replay", str(file), "--sumo", "x.net.xml"], "either --sumo or --replay"),
        (["--dbc", "x.dbc"], "--replay LOG"),
        (["--network", str(tmp_path / "none.geojson")], "No such file"),
        (["--replay", str(gpx(tmp_path, 48.1, 11.5)), "--network", town_file(tmp_path)], "which is not in"),
    ):
        done = CliRunner().invoke(cli, ["demo", "--for", "1", *arguments])
        assert (done.exit_code, message in done.output) == (2, True), done.output


def town_file(folder: Path) -> str:
    file = folder / "town.geojson"
    file.write_text(json.dumps(make_town(2).geojson()))
    return str(file)


# Logs of CAN buses


@needs_captures
def test_a_real_bus_says_how_fast_its_car_was() -> None:
    dbc = CAPTURES / "ford_lincoln_base_pt.opendbc.dbc"
    steady = replay.read_capture(CAPTURES / "acc_on_going_at_50km_per_hour.candump", dbc, SIGNAL)
    assert 45 < min(steady.speeds) <= max(steady.speeds) < 50  # its dash says 50
    rising = replay.read_capture(CAPTURES / "acc_on_speed_changing_from_30km_to_80km_per_hour.candump", dbc, SIGNAL)
    assert min(rising.speeds) < 30
    assert max(rising.speeds) > 70
    traffic = replay.CaptureTraffic(shipped(), [steady, rising], 3)
    town, driven = shipped(), [0.0, 0.0]
    for _ in range(60):
        before = [car.place for car in traffic.vehicles]
        traffic.step()
        for number, car in enumerate(traffic.vehicles):
            driven[number] += town.distance(before[number], car.place)
            assert car.present
            assert town.distance(before[number], car.place) < car.kmh / 36 + 8  # corners are cut
    assert driven[0] == pytest.approx(47 / 3.6 * 6, rel=0.15)
    assert driven[1] == pytest.approx(sum(rising.speeds[:600]) / 600 / 3.6 * 6, rel=0.2)
    for signal, message in (
        ("Veh_V_ActlEng", "want MESSAGE.SIGNAL"),
        ("None.Veh_V_ActlEng", "no message 'None'"),
        ("EngVehicleSpThrottle2.Nothing", "has no signal 'Nothing', but"),
        ("EngVehicleSpThrottle2.VehVActlEng_No_Cnt", "has the unit"),
    ):
        with pytest.raises(LocalProtocolError, match=message):
            replay.read_capture(CAPTURES / "acc_on_going_at_50km_per_hour.candump", dbc, signal)
    with pytest.raises(LocalProtocolError, match="no frame of EngVehicleSpThrottle2"):
        replay.read_capture(dbc, dbc, SIGNAL)


# SUMO


def grid_net(
    folder: Path, projection: str | None = "+proj=utm +zone=29 +ellps=WGS84 +datum=WGS84 +units=m +no_defs"
) -> Path:
    file = folder / "grid.net.xml"
    program = Path(sys.executable).with_name("netgenerate")
    subprocess.run(
        [str(program), "--grid", "--grid.number=4", "--grid.length=180", "--default.speed=13.9", "-o", str(file)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    if projection is not None:
        text = file.read_text()
        assert 'projParameter="!"' in text
        text = text.replace('projParameter="!"', f'projParameter="{projection}"')
        file.write_text(text.replace('netOffset="0.00,0.00"', 'netOffset="-600000.00,-5890000.00"'))
    return file


def without_sumo(*, traci: bool) -> str:
    hide = "sys.modules['traci'] = None" if traci else "os.environ['PATH'] = ''; sys.executable = '/nowhere/python'"
    code = f"import os, sys; from pathlib import Path; from vicinal_tools.traffic import sumo; {hide}\n"
    code += "try: sumo._traci(); sumo._program()\nexcept sumo.SumoError as error: print(error)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_without_sumo_it_says_what_to_do() -> None:
    assert "pip install 'vicinal[sumo]'" in without_sumo(traci=True)
    assert "pip install 'vicinal[sumo]'" in without_sumo(traci=False)


def test_networks_that_are_none(tmp_path: Path) -> None:
    for name, text, message in (
        ("x.xml", "", "want a network, FILE.net.xml, or a scenario"),
        ("x.net.xml", "<net", "not XML"),
        ("x.net.xml", "<net/>", "not a network of SUMO"),
        ("x.net.xml", '<net><location projParameter="!"/></net>', "nowhere on Earth"),
        ("x.net.xml", '<net><location projParameter="+proj=utm"/></net>', "no road for cars"),
        ("x.sumocfg", "<configuration/>", "names no <net-file>"),
    ):
        file = tmp_path / name
        file.write_text(text)
        done = CliRunner().invoke(cli, ["demo", "--for", "1", "--sumo", str(file)])
        assert (done.exit_code, message in done.output) == (2, True), done.output


@needs_sumo
def test_vehicles_of_sumo(tmp_path: Path) -> None:
    file = grid_net(tmp_path)
    source = choose(8, sumo=str(file))
    town = source.network
    assert len(town.roads) == 48
    assert {road.speed for road in town.roads} == {50} == {area.limit for area in town.areas.values()}
    # 180 m are 180 m, and they are where the projection says.
    x, y = town.plane.metres(*town.roads[0].points[-1])
    begin = town.plane.metres(*town.roads[0].points[0])
    assert 140 < math.hypot(x - begin[0], y - begin[1]) < 185
    assert 53.1 < town.south / 1e7 < 53.2
    traffic = open_source(source.table, town, 7, 8, 0.5)
    try:
        fastest = dict.fromkeys(range(8), 0.0)
        for _ in range(400):
            before = {car.number: (car.present, car.place) for car in traffic.vehicles}
            traffic.step()
            for car in traffic.vehicles:
                fastest[car.number] = max(fastest[car.number], car.kmh)
                if car.present:
                    assert town.contains(car.place)
                    if before[car.number][0]:
                        assert town.distance(before[car.number][1], car.place) < car.kmh / 36 + 3
        assert all(car.present for car in traffic.vehicles)
        speeders = {car.number for car in traffic.cars if car.factor > 1}  # type: ignore[attr-defined]
        assert len(speeders) == 4
        assert max(fastest[number] for number in speeders) > 55
        assert max(fastest[number] for number in range(8) if number not in speeders) < 51
        # A sign: who keeps to signs does so, and the others do not.
        for area in town.areas:
            told = {number: traffic.tell(number, area, 20) for number in range(8)}
        assert {number for number, obeys in told.items() if not obeys} == speeders
        for _ in range(100):
            traffic.step()
        late = dict.fromkeys(range(8), 0.0)
        for _ in range(200):
            traffic.step()
            for car in traffic.vehicles:
                late[car.number] = max(late[car.number], car.kmh)
        assert max(late[number] for number in range(8) if number not in speeders) <= 20
        assert max(late[number] for number in speeders) > 30
    finally:
        traffic.close()


@needs_sumo
def test_a_scenario_of_sumo_brings_its_own_vehicles(tmp_path: Path) -> None:
    net = grid_net(tmp_path)
    (tmp_path / "cars.rou.xml").write_text(
        '<routes><flow id="f" from="A0A1" to="D2D3" begin="0" end="100" period="4"/></routes>'
    )
    scenario = tmp_path / "town.sumocfg"
    files = f'<net-file value="{net.name}"/><route-files value="cars.rou.xml"/>'
    scenario.write_text(f"<configuration><input>{files}</input></configuration>")
    source = choose(3, sumo=str(scenario))
    traffic = open_source(source.table, source.network, 1, 3, 0.0)
    try:
        present = []
        for _ in range(300):
            traffic.step()
            present.append(sum(car.present for car in traffic.vehicles))
        assert present[0] <= 1
        assert max(present) == 3
    finally:
        traffic.close()
    bad = tmp_path / "bad.sumocfg"
    bad.write_text('<configuration><input><net-file value="none.net.xml"/></input></configuration>')
    with pytest.raises(sumo.SumoError, match="SUMO did not start"):
        sumo.SumoTraffic(bad, source.network, 1, 1, 0.0)
