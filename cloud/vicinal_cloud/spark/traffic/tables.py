"""What follows from positions. Each table is one function of a DataFrame, for history and for now.

A table of a day, by the town's clock, is a function of the positions of that day, whatever order they came in: windows
are by vehicle and time, and of equals the lower seq is first. So what a stream has refreshed is what a batch computes.

    observed          positions with a place and a speed: a vehicle may send both in one event, or one after the other
    segment_speeds    by segment, direction and minute, against free flow
    congestion        runs of slow minutes, and whether they have ended
    stopped           vehicles that stood still
    accidents         two that stood still at the same place at the same time (Linear Road's meaning, with metres)
    trips             from one long pause to the next

Offences are judged by other rules, those of the office of traffic control: offences.py.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .places import Places

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["TABLES", "accidents", "congestion", "following", "observed", "segment_speeds", "stopped", "trips"]

TABLES = ("segment_speeds", "congestion", "stopped", "accidents", "trips")
# A speed counts for a place so long after it was said: 28 m at 50 km/h.
PAIRED_S = 2
# Slow is below so much of free flow, by at least so many vehicles; two runs with so few minutes between are one.
SLOW, SLOW_VEHICLES, SLOW_GAP_MIN = 0.6, 2, 2
# Vehicles that make a minute's mean worth believing whole.
CONFIDENT_VEHICLES = 5
# Who stands may be heard of a little elsewhere each time: positions are as exact as that.
STILL_KMH, STILL_S, STILL_REPORTS, STILL_M = 3.0, 60, 4, 30.0
ACCIDENT_S, ACCIDENT_M = 120, 30.0
PAUSE_S = 300
_OBSERVED = ("day", "area", "vehicle_id", "seq", "event_time", "ms", "lat_deg", "lon_deg", "segment_id", "direction")
_WHEN = "struct(ms, seq)"
_BY_VEHICLE = "over (partition by day, vehicle_id order by ms, seq)"
_METRES = (
    "6371008.8 * sqrt(pow(radians({a}lat_deg - {b}lat_deg), 2)"
    " + pow(radians({a}lon_deg - {b}lon_deg) * cos(radians({a}lat_deg)), 2))"
)


def observed(positions: "DataFrame") -> "DataFrame":
    """What the tables are made of, with `ms`, the time as a number."""
    # The latest that was said by then, of all: a frame that only grows costs little, one that slides does not.
    latest = "max(if(speed_kmh is null, null, struct(ms, seq, speed_kmh)))"
    return (
        positions.selectExpr("*", "unix_millis(event_time) as ms")
        .selectExpr(*_OBSERVED, "speed_kmh", f"{latest} over (partition by day, vehicle_id order by ms) as said")
        .where("lat_deg is not null")
        .selectExpr(
            *_OBSERVED, f"coalesce(speed_kmh, if(ms - said.ms <= {PAIRED_S * 1000}, said.speed_kmh, null)) as speed_kmh"
        )
    )


def segment_speeds(seen: "DataFrame", places: Places) -> "DataFrame":
    pieces = seen.sparkSession.createDataFrame(
        [(one.segment_id, one.road, one.length_m, one.free_flow_kmh) for one in places.pieces],
        "segment_id string, road string, length_m double, free_flow_kmh double",
    )
    grouped = (
        seen.where("segment_id is not null and speed_kmh is not null")
        .selectExpr("*", "date_trunc('minute', event_time) as minute", "coalesce(direction, 'unknown') as along")
        .groupBy("day", "segment_id", "along", "minute")
        .agg(
            *_expressions(
                "count(distinct vehicle_id) as vehicles",
                "count(*) as reports",
                f"round({_exactly('avg', 'speed_kmh')}, 3) as mean_kmh",
                "percentile(speed_kmh, 0.15) as p15_kmh",
                "percentile(speed_kmh, 0.5) as p50_kmh",
                "percentile(speed_kmh, 0.85) as p85_kmh",
                "min(area) as area",
            )
        )
    )
    return grouped.join(pieces.hint("broadcast"), "segment_id").selectExpr(
        "segment_id",
        "road",
        "along as direction",
        "minute as minute_time",
        "vehicles",
        "reports",
        "mean_kmh",
        "p15_kmh",
        "p50_kmh",
        "p85_kmh",
        "free_flow_kmh",
        "round(mean_kmh / free_flow_kmh, 4) as free_flow_ratio",
        "round(length_m / nullif(mean_kmh, 0) * 3.6, 2) as travel_time_s",
        "round(length_m / free_flow_kmh * 3.6, 2) as free_flow_travel_time_s",
        f"least(1.0D, vehicles / {CONFIDENT_VEHICLES}D) as confidence",
        "day",
        "area",
    )


def congestion(speeds: "DataFrame") -> "DataFrame":
    """One row for a run of slow minutes. It has ended when a later minute of the segment was not slow, or when nothing
    was heard of it for longer than two runs may be apart. A slow minute of few vehicles makes no run, and ends none."""
    key = "day, segment_id, direction"
    slow = f"free_flow_ratio < {SLOW}"
    marked = speeds.selectExpr(
        "*",
        "max(minute_time) over (partition by day) as latest_time",
        f"max(minute_time) over (partition by {key}) as heard_time",
        f"max(if({slow}, null, minute_time)) over (partition by {key}) as free_time",
    ).where(f"{slow} and vehicles >= {SLOW_VEHICLES}")
    numbered = marked.selectExpr(
        "*",
        f"""if(timestampdiff(MINUTE, lag(minute_time) over (partition by {key} order by minute_time), minute_time)
            <= {SLOW_GAP_MIN} + 1, 0, 1) as fresh""",
    ).selectExpr("*", f"sum(fresh) over (partition by {key} order by minute_time) as run")
    return (
        numbered.groupBy("day", "segment_id", "direction", "run")
        .agg(
            *_expressions(
                "min(area) as area",
                "min(minute_time) as start_time",
                "max(minute_time) + interval 1 minute as end_time",
                "count(*) as slow_minutes",
                "min(mean_kmh) as least_kmh",
                f"round({_exactly('avg', 'free_flow_ratio')}, 4) as free_flow_ratio",
                "max(vehicles) as most_vehicles",
                f"""coalesce(max(free_time) > max(minute_time), false)
                    or max(latest_time) > max(heard_time) + interval {SLOW_GAP_MIN + 1} minutes as ended""",
            )
        )
        .selectExpr("* except (run, day, area)", "day", "area")
    )


def stopped(seen: "DataFrame") -> "DataFrame":
    """A stop has ended when the vehicle moves, is heard of elsewhere, or is not heard of for long."""
    same = f"{_METRES.format(a='', b='was_')} <= {STILL_M} and ms - was_ms <= {PAUSE_S * 1000}"
    runs = (
        seen.where("speed_kmh is not null")
        .selectExpr("*", f"speed_kmh < {STILL_KMH} as still", *_before())
        .selectExpr("*", f"if(still and coalesce(lag(still) {_BY_VEHICLE} and {same}, false), 0, 1) as fresh")
        .selectExpr("*", f"sum(fresh) {_BY_VEHICLE} as run")
        .where("still")
    )
    return (
        runs.groupBy("day", "vehicle_id", "run")
        .agg(
            *_expressions(
                "min(event_time) as start_time",
                "max(event_time) as end_time",
                "(max(ms) - min(ms)) / 1000D as duration_s",
                "count(*) as reports",
                f"min_by(lat_deg, {_WHEN}) as lat_deg",
                f"min_by(lon_deg, {_WHEN}) as lon_deg",
                f"min_by(segment_id, {_WHEN}) as segment_id",
                f"min_by(direction, {_WHEN}) as direction",
                f"min_by(area, {_WHEN}) as area",
            )
        )
        .where(f"duration_s >= {STILL_S} and reports >= {STILL_REPORTS}")
        .selectExpr("* except (run, day, area)", "day", "area")
    )


def accidents(still: "DataFrame") -> "DataFrame":
    """One row for each two vehicles."""
    metres = _METRES.format(a="a.", b="b.")
    return (
        still.alias("a")
        .join(
            still.alias("b"),
            _expressions(
                f"""a.day = b.day and a.segment_id = b.segment_id and a.vehicle_id < b.vehicle_id
                and a.direction <=> b.direction and a.start_time <= b.end_time and b.start_time <= a.end_time
                and unix_millis(least(a.end_time, b.end_time)) - unix_millis(greatest(a.start_time, b.start_time))
                    >= {ACCIDENT_S * 1000} and {metres} <= {ACCIDENT_M}"""
            )[0],
        )
        .selectExpr(
            "a.segment_id",
            "a.direction",
            "a.vehicle_id as first_vehicle_id",
            "b.vehicle_id as second_vehicle_id",
            "greatest(a.start_time, b.start_time) as start_time",
            "least(a.end_time, b.end_time) as end_time",
            f"round({metres}, 1) as apart_m",
            "(a.lat_deg + b.lat_deg) / 2 as lat_deg",
            "(a.lon_deg + b.lon_deg) / 2 as lon_deg",
            "a.day",
            "a.area",
        )
    )


def trips(seen: "DataFrame") -> "DataFrame":
    """From one long pause to the next, in which the vehicle stood or was silent; `reports` are those in which it moved.
    Within a day; one over the town's midnight is two."""
    step = _METRES.format(a="", b="was_")
    runs = (
        seen.where(f"speed_kmh is null or speed_kmh >= {STILL_KMH}")
        .selectExpr("*", *_before())
        .selectExpr("*", f"if(ms - was_ms <= {PAUSE_S * 1000}, 0, 1) as fresh")
        .selectExpr("*", f"sum(fresh) {_BY_VEHICLE} as run")
    )
    return (
        runs.groupBy("day", "vehicle_id", "run")
        .agg(
            *_expressions(
                "min(event_time) as start_time",
                "max(event_time) as end_time",
                "(max(ms) - min(ms)) / 1000D as duration_s",
                f"round(coalesce({_exactly('sum', f'if(fresh = 0, {step}, 0)')}, 0), 1) as distance_m",
                "max(speed_kmh) as top_kmh",
                "count(*) as reports",
                f"min_by(lat_deg, {_WHEN}) as start_lat_deg",
                f"min_by(lon_deg, {_WHEN}) as start_lon_deg",
                f"max_by(lat_deg, {_WHEN}) as end_lat_deg",
                f"max_by(lon_deg, {_WHEN}) as end_lon_deg",
                f"min_by(area, {_WHEN}) as area",
            )
        )
        .where("reports > 1")
        .selectExpr(
            "* except (run, day, area)", "round(distance_m / nullif(duration_s, 0) * 3.6, 2) as mean_kmh", "day", "area"
        )
    )


def _before() -> list[str]:
    """When and where the vehicle was heard of before."""
    return [f"lag({name}) {_BY_VEHICLE} as was_{name}" for name in ("ms", "lat_deg", "lon_deg")]


def _exactly(what: str, value: str) -> str:
    """A sum or a mean that is the same whatever order rows come in, which one of floating numbers is not."""
    return f"cast({what}(cast({value} as decimal(18, 6))) as double)"


def _expressions(*texts: str) -> list[Any]:
    from pyspark.sql import functions

    return [functions.expr(text) for text in texts]


def following(seen: "DataFrame", places: Places, keep: "Callable[[DataFrame], DataFrame]") -> "dict[str, DataFrame]":
    """Every table, by name, of what was observed. `keep` is told of each that another one is made of."""
    speeds, still = keep(segment_speeds(seen, places)), keep(stopped(seen))
    return {
        "segment_speeds": speeds,
        "congestion": congestion(speeds),
        "stopped": still,
        "accidents": accidents(still),
        "trips": trips(seen),
    }
