"""The page about the tables: what stands on it is what a person reckons from the rows."""

import re
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from vicinal_cloud.spark.traffic.report import page
from vicinal_cloud.spark.traffic.store import Store

ZONE = "America/Los_Angeles"
COUNTS = {"read": 200, "position": 150, "duplicate": 10, "late": 0, "quarantine": 40, "quarantine: malformed": 40}


def speeds() -> pa.Table:
    """By the town's clock: r1 crawls at eight and is free at nine, r2 is free, r3 is in between."""
    found = []
    for segment, along, hour, ratio, kmh, reports in (
        ("r1/0", "forward", 8, 0.2, 10.0, 30),
        ("r1/0", "forward", 8, 0.5, 25.0, 10),
        ("r1/0", "forward", 9, 1.0, 50.0, 10),
        ("r2/0", "backward", 17, 0.95, 47.5, 1000),
        ("r3/0", "forward", 23, 0.75, 37.5, 4),
    ):
        at = datetime(2026, 11, 10, hour, len(found), tzinfo=ZoneInfo(ZONE))
        row = {"segment_id": segment, "direction": along, "minute_time": at, "free_flow_ratio": ratio, "mean_kmh": kmh}
        found.append({**row, "reports": reports, "day": "2026-11-10", "area": "a"})
    return pa.Table.from_pylist(found)


def offences() -> pa.Table:
    found = {"vehicle_id": ["v", "w", "x"], "over_kmh": [12, 30, 5], "day": ["2026-11-10"] * 3}
    return pa.table({**found, "area": ["north <old>", "north <old>", "south"]})


@pytest.fixture
def html(tmp_path: Path) -> str:
    with Store(tmp_path / "t") as store:
        staged = store.stage({"segment_speeds": speeds(), "offences": offences()})
        store.commit(0, staged, notes={"counts": COUNTS, "timezone": ZONE})
    return page(tmp_path / "t")


def test_hours_are_the_towns(html: str) -> None:
    titles = re.findall(r"<title>(r\d/0 .*?)</title>", html)
    assert sorted(titles) == [
        "r1/0 08:00: 13.8 km/h, 28% of free flow, 40 reports",
        "r1/0 09:00: 50.0 km/h, 100% of free flow, 10 reports",
        "r2/0 17:00: 47.5 km/h, 95% of free flow, 1000 reports",
        "r3/0 23:00: 37.5 km/h, 75% of free flow, 4 reports",
    ]
    colours = dict(re.findall(r'fill="(#\w+)">\s*<title>(r\d/0 \d\d)', html))
    assert {"#b71c1c": "r1/0 08", "#fb8c00": "r3/0 23"}.items() <= colours.items()
    assert ZONE in html


def test_the_worst_come_first(html: str) -> None:
    table = re.findall(r"<td>(r\d/0)</td><td class=n>(\w+)</td><td class=n>(.*?)</td><td class=n>(.*?)</td>", html)
    assert table == [
        ("r1/0", "forward", "21.0", "42%"),
        ("r3/0", "forward", "37.5", "75%"),
        ("r2/0", "backward", "47.5", "95%"),
    ]


def test_offences_and_quality_are_counted(html: str) -> None:
    assert "2 (up to 30 km/h over)" in html
    assert "1 (up to 5 km/h over)" in html
    assert "north &lt;old&gt;" in html
    assert "north <old>" not in html
    assert "<td>quarantine: malformed</td><td class=n>40</td><td class=n>20.00%</td>" in html
    assert "200 events read, 150 positions" in html
    assert "<td>late</td>" not in html
