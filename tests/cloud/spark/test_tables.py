"""What follows from positions, on rows made by hand."""

from collections.abc import Iterator
from typing import Any

import pytest
from cloud.spark import town

pytest.importorskip("pyspark")


def test_what_is_made_of_standing_still(spark: Any) -> None:
    """A car that stops for two minutes and a half, one that runs into it, and one that waits at a light."""
    from vicinal_cloud.spark.traffic.tables import accidents, stopped, trips

    def reports(vehicle: str, speeds: list[float], lat: float) -> Iterator[tuple[Any, ...]]:
        for at, speed in enumerate(speeds):
            yield (vehicle, at, town.START + at * 10_000, speed, lat, 5.0, "r1/0", "forward", "a", "d")

    data = [
        *reports("one", [50.0] * 3 + [0.0] * 16 + [30.0] * 3, 52.0),
        *reports("two", [50.0] * 4 + [0.5] * 15 + [30.0] * 3, 52.0001),
        *reports("light", [50.0] * 3 + [0.0] * 5 + [30.0] * 14, 52.0),
    ]
    frame = spark.createDataFrame(
        data,
        "vehicle_id string, seq bigint, ms bigint, speed_kmh double, lat_deg double, lon_deg double, "
        "segment_id string, direction string, area string, day string",
    ).selectExpr("*", "timestamp_millis(ms) as event_time")
    still = {row["vehicle_id"]: row for row in stopped(frame).collect()}
    assert {name: (row["duration_s"], row["reports"]) for name, row in still.items()} == {
        "one": (150.0, 16),
        "two": (140.0, 15),
    }
    (found,) = accidents(stopped(frame)).collect()
    assert (found["first_vehicle_id"], found["second_vehicle_id"]) == ("one", "two")
    assert found["apart_m"] == pytest.approx(11.1, abs=0.1)
    assert {row["vehicle_id"]: row["reports"] for row in trips(frame).collect()} == {"one": 6, "two": 7, "light": 17}


def test_what_is_not_heard_of_is_not_known_to_stand(spark: Any) -> None:
    """Four reports within seconds, and one an hour later elsewhere: that is no stop of an hour, and no accident. Who
    stands for long while it goes on reporting has ended a trip."""
    from vicinal_cloud.spark.traffic.tables import accidents, stopped, trips

    schema = (
        "vehicle_id string, seq bigint, ms bigint, speed_kmh double, lat_deg double, lon_deg double, "
        "segment_id string, direction string, area string, day string"
    )

    def frame(data: list[tuple[str, int, float, float]]) -> Any:
        rows = [
            (vehicle, seq, town.START + second * 1000, speed, lat, 5.0, "r1/0", "forward", "a", "d")
            for seq, (vehicle, second, speed, lat) in enumerate(data)
        ]
        return spark.createDataFrame(rows, schema).selectExpr("*", "timestamp_millis(ms) as event_time")

    silent = [(name, at, 0.0, 52.0) for name in "ab" for at in (0, 1, 2, 3)]
    elsewhere = [("a", 3600, 0.0, 52.002), ("b", 3600, 0.0, 51.998)]
    towed = [("c", at * 30, 0.0, 52.0 + at // 4 / 100) for at in range(8)]
    still = stopped(frame([*silent, *elsewhere, *towed]))
    assert [(row["vehicle_id"], row["duration_s"]) for row in still.collect()] == [("c", 90.0), ("c", 90.0)]
    assert not accidents(still).collect()
    parked = [("p", at * 60, 0.0 if 5 <= at < 50 else 40.0, 52.0 + at / 1000) for at in range(55)]
    assert sorted((row["reports"], row["duration_s"]) for row in trips(frame(parked)).collect()) == [
        (5, 240.0),
        (5, 240.0),
    ]


def test_congestion_and_its_end(spark: Any) -> None:
    from vicinal_cloud.spark.traffic.tables import congestion

    def minutes(segment: str, ratios: list[float]) -> Iterator[tuple[Any, ...]]:
        for at, ratio in enumerate(ratios):
            yield (segment, "forward", town.START + at * 60_000, 4, 50.0 * ratio, float(ratio), "d", "a")

    data = [
        *minutes("ended", [1, 0.3, 0.4, 0.9, 0.9, 0.9, 0.9, 0.2]),
        *minutes("goes on", [1, 1, 1, 1, 1, 1, 0.5, 0.5]),
        *minutes("never", [0.7] * 8),
        # Two minutes between two runs that are one; three between two that are two.
        *minutes("near", [0.3, 0.9, 0.9, 0.3, 0.9, 0.9, 0.9, 0.9]),
        *minutes("far", [0.3, 0.9, 0.9, 0.9, 0.3, 0.9, 0.9, 0.9]),
        # One vehicle alone crawls on: nobody knows that the road is free.
        *(one if at < 3 else (*one[:3], 1, *one[4:]) for at, one in enumerate(minutes("thin", [0.3] * 8))),
        *minutes("silent", [0.3, 0.3]),
    ]
    frame = spark.createDataFrame(
        data,
        "segment_id string, direction string, ms bigint, vehicles bigint, mean_kmh double, free_flow_ratio double, "
        "day string, area string",
    ).selectExpr("*", "timestamp_millis(ms) as minute_time")
    found = sorted(
        (
            row["segment_id"],
            (row["start_time"].timestamp() * 1000 - town.START) // 60_000,
            row["slow_minutes"],
            row["ended"],
        )
        for row in congestion(frame).collect()
    )
    assert found == [
        *(("ended", 1, 2, True), ("ended", 7, 1, False)),
        *(("far", 0, 1, True), ("far", 4, 1, True)),
        ("goes on", 6, 2, False),
        ("near", 0, 2, True),
        ("silent", 0, 2, True),
        ("thin", 0, 3, False),
    ]
