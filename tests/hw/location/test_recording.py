"""Tracks as files: the same drive in every form is the same track, and what is wrong is said with its line."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hw.location.drive import checked, drive, sentences
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import LocalProtocolError
from vicinal_hw.location import recording
from vicinal_hw.location._text import instant, shifted
from vicinal_hw.location.fix import Fix
from vicinal_hw.location.recording import read_recording, write_recording

SECONDS = list(drive(50))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "drive.nmea"
    path.write_text("".join(map(sentences, SECONDS)), newline="")
    return path


def iso(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def degrees(units: int) -> str:
    return f"{Decimal(units) / 10**7:.7f}"


def test_a_log_of_a_receiver(log: Path) -> None:
    fixes, dropped = read_recording(log)
    assert dropped == {}
    assert [fix.time for fix in fixes] == [second.time for second in SECONDS]
    for fix, second in zip(fixes, SECONDS):
        assert fix.heading == second.heading
        assert fix.accuracy == 4000
        assert abs(fix.lat - second.position[0]) <= 0.5


def test_every_form_is_the_same_track(log: Path, tmp_path: Path) -> None:
    fixes = read_recording(log).fixes
    write_recording(tmp_path / "drive.jsonl", fixes)
    assert read_recording(tmp_path / "drive.jsonl").fixes == fixes

    rows = ["accuracy, LON,lat ,time,speed,note,heading"]
    for number, fix in enumerate(fixes):
        assert fix.time is not None
        assert fix.speed is not None
        assert fix.heading is not None
        when = str(fix.time) if number % 2 else iso(fix.time)
        place = f"{degrees(fix.lon)},{degrees(fix.lat)}"
        rows.append(f'4,{place},{when},{Decimal(fix.speed) / 1000},"a, b",{Decimal(fix.heading) / 100}')
        rows.append("")
    (tmp_path / "drive.csv").write_text("\ufeff" + "\r\n".join(rows), encoding="utf-8")
    assert read_recording(tmp_path / "drive.csv").fixes == fixes

    points = "".join(
        f'<trkpt lon="{degrees(fix.lon)}" lat="{degrees(fix.lat)}"><ele>3.5</ele><time>\n{iso(fix.time or 0)} </time>'
        "<extensions><x><time>never</time></x></extensions></trkpt>\n"
        for fix in fixes
    )
    gpx = '<?xml version="1.0"?><g:gpx xmlns:g="urn:g"><metadata><time>2000-01-01T00:00:00Z</time></metadata>'
    (tmp_path / "drive.GPX").write_text(f"{gpx}<trk><trkseg>{points}</trkseg></trk></g:gpx>")
    places = [(fix.time, fix.lat, fix.lon) for fix in fixes]
    assert [(fix.time, fix.lat, fix.lon) for fix in read_recording(tmp_path / "drive.GPX").fixes] == places


def test_what_a_log_leaves_out_is_counted(tmp_path: Path) -> None:
    def at(second: int, status: str = "A") -> str:
        return checked(f"GPRMC,1200{second:02d},{status},5320.0,N,00615.0,W,0,0,010126,,,A")

    gga = checked("GPGGA,115959,5320.0,N,00615.0,W,1,08,1.0,,,,,,")
    lines = [
        gga,
        at(0),
        at(1),
        at(1, "V"),
        at(2, "V"),
        at(3),
        at(1),
        at(4)[:20],
        "\r\n",
        "# a note\n",
        at(5).replace("5320", "5321"),
        checked("GPGSV,1,1,00"),
        at(6).rstrip(),
    ]
    path = tmp_path / "bad.log"
    path.write_text("".join(lines), newline="")
    fixes, dropped = read_recording(path)
    assert [(fix.time or 0) // 1000 % 60 for fix in fixes] == [0, 3, 6]
    assert dropped == {
        "no date": 1,
        "void": 2,
        "time not later": 1,
        "no checksum": 1,
        "bad checksum": 1,
        "noise bytes": len("# a note"),
    }


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.kml", "", "ends in '.kml', want one of .csv .gpx"),
        ("x.csv", "", "has no fix with a time"),
        ("x.csv", "time,lat\n", ":1: the header has no lon: time,lat"),
        ("x.csv", "time,lat,lon\n1,2\n", ":2: 2 cells, the header has 3"),
        ("x.csv", "time,lat,lon\n1,2,x\n", ":2: lon: 'x' is no decimal number"),
        ("x.csv", "time,lat,lon\n1,90.1,0\n", ":2: latitude is 901000000, the limit is"),
        ("x.csv", "time,lat,lon\n1,,0\n", ":2: no lat"),
        ("x.csv", "time,lat,lon\nnoon,1,0\n", ":2: time: 'noon' is no time like"),
        ("x.csv", "time,lat,lon\n5,1,0\n5,1,0\n", ":3: time is 5, not after 5"),
        ("x.csv", "time,lat,lon\n" + "1" * 5000, ":2: longer than 4096 characters"),
        ("x.csv", "time,lat,lon\n1,\udc80,0\n", ":2: lat: '\ufffd' is no decimal number"),
        ("x.jsonl", "{\n", ":1: Expecting"),
        ("x.jsonl", "[" * 4000, ":1: "),
        ("x.jsonl", "7\n", ":1: want time, lat, lon"),
        ("x.jsonl", '{"time": 1, "lat": 0}\n', ":1: want time, lat, lon"),
        ("x.jsonl", '{"time": 1, "lat": 0, "lon": 0, "height": 1}\n', ":1: want time, lat, lon"),
        ("x.jsonl", '{"time": 1, "lat": 5.5, "lon": 0}\n', ":1: latitude is 5.5"),
        ("x.jsonl", '{"time": null, "lat": 5, "lon": 0}\n', ":1: no time"),
        ("x.gpx", "<gpx>", "no element found"),
        ("x.gpx", "<gpx><trkpt lat='1' lon='2'/></gpx>", ":1: no time"),
        ("x.gpx", "<gpx>" + "<a>" * 40, ":1: elements 33 deep"),
        ("x.gpx", '<!DOCTYPE gpx [<!ENTITY a "b">]><gpx/>', ":1: a document type"),
        ("x.txt", "no sentences\n", "has no fix with a time; left out: {'noise bytes': 12}"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(LocalProtocolError) as caught:
        read_recording(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_north_and_a_leap_second(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("time,lat,lon,heading\n2016-12-31T23:59:60.5Z,1,2,360\n")
    assert read_recording(path).fixes == [Fix(10000000, 20000000, 1483228800500, heading=0)]


def test_a_recording_ends_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MAX_FIXES", 3)
    path = tmp_path / "x.jsonl"
    write_recording(path, [Fix(0, 0, time) for time in range(4)])
    with pytest.raises(LocalProtocolError, match=":4: a recording has at most 3 fixes"):
        read_recording(path)


@given(st.decimals(-1000, 1000, places=12), st.integers(0, 9))
def test_shifted_is_decimals_own_rounding(number: Decimal, places: int) -> None:
    assert shifted(f"{number:f}", places) == int(number.scaleb(places).to_integral_value("ROUND_HALF_UP"))


@given(st.datetimes(min_value=datetime(1970, 1, 2)), st.integers(-839, 839))
def test_instants_are_datetimes_own(moment: datetime, minutes: int) -> None:
    moment = moment.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert instant(moment.isoformat()) == (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
