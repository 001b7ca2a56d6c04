"""Offences, as the office of traffic control finds them: its own core (vicinal_cloud.traffic.control) judges here too.

    speeding: reports that may be over a limit, of one driver and day ──┐
    positions: where those vehicles were about then                  ───┴─▶ TrafficControl ──▶ cases ──▶ offences

So where a vehicle was when it spoke, which limit counts there, tolerance, rounding, witnesses and what is one stretch
are decided in one place, and of the same log both say the same. So `speeding` has a report once for each monitor that
heard it: they are witnesses, and each has a sign of its own. A speed is never carried to another place. An offence
is by plate, whatever pseudonyms the vehicle had; of a vehicle that says none, by its name. One that no monitor of the
network has heard, and that has not said where it was, is under no limit.

*Plates* are in `offences`, and in `speeding`, of which they are made: apart from positions, and only of reports that
may be over a limit, as far as a report alone can tell. A place that is told later may show that one was not: it is
forgotten with the first refresh after nothing can come any more that counts, `late_ms` and the gap after it.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from vicinal.event import Event

from ...traffic.cases import Case
from ...traffic.control import Settings, TrafficControl
from ...traffic.limits import LEAST, Rule
from ...traffic.network import Monitor, Network
from ...traffic.posted import Shown
from ...traffic.whereabouts import NEAR_MS
from .places import Places

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

__all__ = ["SPEEDING", "cases", "least_limit", "offences", "settles_ms", "to_keep"]

SPEEDING = [
    *("vehicle_id", "seq", "monitor", "event_time", "received_time", "speed_kmh", "plate", "log", "log_offset"),
    *("day", "area"),
]
_CASE = (
    "plate string, vehicle_id string, first bigint, last bigint, reports bigint, speed_kmh double, "
    "tolerance_kmh bigint, limit_kmh bigint, limit_source string, over_kmh bigint, lat_deg double, lon_deg double, "
    "place_source string, segment_id string, time bigint, received bigint, area string, day string"
)
_COLUMNS = [*[part.split()[0] for part in _CASE.split(", ")], "proved"]
_PROVED = "proved array<struct<vehicle_id: string, seq: bigint>>"
_NAMELESS = "?"


def least_limit(places: Places) -> float:
    """km/h: who is not over this is over none, wherever it was. Where there are no areas there are no limits."""
    return min([rule.value for rule in places.limits.rules()], default=math.inf)


def settles_ms(settings: Settings) -> int:
    """So long after it happened something may still be said that counts for it."""
    return settings.rules.late_ms + max(settings.gap_ms, NEAR_MS)


def cases(speeding: "DataFrame", positions: "DataFrame", places: Places, settings: Settings) -> "DataFrame":
    """Rows as in _CASE: what the office would have open if the day ended here."""
    step = max(settings.gap_ms, NEAR_MS)
    spoken = speeding.selectExpr(
        "day",
        "coalesce(concat('plate ', plate), concat('vehicle ', vehicle_id)) as who",
        *("vehicle_id", "seq", "monitor", "unix_millis(event_time) as ms", "unix_millis(received_time) as received"),
        *("speed_kmh", "plate", "log", "log_offset", "cast(null as double) as lat_deg"),
        "cast(null as double) as lon_deg",
    )
    # Whose places are asked for, and about when.
    asked = spoken.selectExpr(
        *("day", "who", "vehicle_id"),
        f"explode(array(ms div {step} - 1, ms div {step}, ms div {step} + 1)) as about",
    ).distinct()
    spots = (
        positions.where("lat_deg is not null")
        .selectExpr("*", "unix_millis(event_time) as ms")
        .selectExpr("*", f"ms div {step} as about")
        .join(asked, ["day", "vehicle_id", "about"])
        .selectExpr(
            *("day", "who", "vehicle_id", "seq", "monitor", "ms", "unix_millis(received_time) as received"),
            *("cast(null as double) as speed_kmh", "cast(null as string) as plate", "log", "log_offset"),
            *("lat_deg", "lon_deg"),
        )
    )

    def work(rows: "pd.DataFrame") -> "pd.DataFrame":
        return _of_driver(rows, places, settings)

    return spoken.unionByName(spots).groupBy("day", "who").applyInPandas(work, f"{_CASE}, {_PROVED}")


def _of_driver(rows: "pd.DataFrame", places: Places, settings: Settings) -> "pd.DataFrame":
    import pandas as pd

    rows = rows.sort_values(["received", "log", "log_offset"])
    control = _control(places, settings)
    placed = rows[rows["lat_deg"].notna()]
    spots: dict[str, list[tuple[int, tuple[int, int]]]] = {}
    for number, one in enumerate(placed.itertuples(), 1):
        place = (round(one.lat_deg * 1e7), round(one.lon_deg * 1e7))
        spots.setdefault(one.vehicle_id, []).append((one.ms, place))
        # Its number is ours: a report that says both place and speed is two here.
        event = _event("Location", {"lat": place[0], "lon": place[1]}, one, -number)
        control.receive(event, _heard_by(one.monitor, control.network), one.received)
    for one in rows[rows["lat_deg"].isna()].itertuples():
        if _heard_by(one.monitor, control.network) != one.monitor and not _is_placed(
            spots.get(one.vehicle_id, ()), one.ms, control
        ):
            continue
        event = _event(
            "Speed",
            {"license_no": one.plate if isinstance(one.plate, str) else _NAMELESS, "rate": one.speed_kmh},
            one,
            one.seq,
        )
        control.receive(event, _heard_by(one.monitor, control.network), one.received)
    found = control.open_cases()
    proved = [{"vehicle_id": one.vehicle, "seq": one.seq} for _, one in control.changes().evidence] if found else []
    day = rows["day"].iloc[0] if len(rows) else ""
    return pd.DataFrame([_row(case, places, day, proved) for case in found], columns=_COLUMNS)


def _control(places: Places, settings: Settings) -> TrafficControl:
    control = TrafficControl(_with_a_monitor(places.network), settings)
    own = {Rule(area.name, area.limit, 0, None, "network") for area in places.network.areas.values()}
    for rule in places.limits.rules():
        if rule not in own:
            control.limits.add(rule)
    # Of signs that nobody knows of: none shows more than what holds.
    lowest = tuple(Shown(monitor, LEAST, 1) for monitor in control.network.monitors)
    for sign in lowest if places.shown is None else places.shown:
        control.sign_shows(*sign)
    return control


def _with_a_monitor(network: Network) -> Network:
    if network.monitors:
        return network
    area = next(iter(network.areas.values()))
    stand_in = Monitor(_NAMELESS, area.ring[0], area.name)
    zone = str(network.timezone)
    return Network(network.name, network.roads, network.areas.values(), [stand_in], network.lights, zone)


def _heard_by(monitor: Any, network: Network) -> str:
    """The office hears of vehicles through monitors alone; where a vehicle has said its place, any will do."""
    return monitor if isinstance(monitor, str) else next(iter(network.monitors))


def _is_placed(spots: Iterable[tuple[int, tuple[int, int]]], ms: int, control: TrafficControl) -> bool:
    near = [place for at, place in spots if abs(at - ms) <= NEAR_MS]
    return any(control.network.areas_near(place, control.settings.accuracy_m) for place in near)


def _event(subject: str, params: dict[str, Any], row: Any, seq: int) -> Event:
    return Event(subject, params, {"Time": int(row.ms), "OriginProducer": row.vehicle_id, "OriginSeq": int(seq)})


def _row(case: Case, places: Places, day: str, proved: list[dict[str, Any]]) -> dict[str, Any]:
    worst = case.worst
    lat, lon = worst.place
    heading = np.nan if worst.heading is None else worst.heading
    piece, _, _ = places.match(np.array([lat]), np.array([lon]), np.array([heading]))
    return {
        "plate": None if case.plate == _NAMELESS else case.plate,
        "vehicle_id": worst.vehicle,
        "first": case.first,
        "last": case.last,
        "reports": case.reports,
        "speed_kmh": worst.speed,
        "tolerance_kmh": worst.tolerance,
        "limit_kmh": worst.limit,
        "limit_source": worst.limit_source,
        "over_kmh": worst.over,
        "lat_deg": lat / 1e7,
        "lon_deg": lon / 1e7,
        "place_source": worst.place_source,
        "segment_id": places.pieces[piece[0]].segment_id if piece[0] >= 0 else None,
        "time": worst.time,
        "received": worst.received,
        "area": worst.area,
        "day": day,
        "proved": proved,
    }


def offences(found: "DataFrame") -> "DataFrame":
    """One row for a stretch; the area, and all that is measured, is that of its worst moment."""
    return found.selectExpr(
        *("plate", "vehicle_id"),
        "timestamp_millis(first) as start_time",
        "timestamp_millis(last) as end_time",
        "(last - first) / 1000D as duration_s",
        *("reports", "speed_kmh", "tolerance_kmh", "limit_kmh", "limit_source", "over_kmh", "lat_deg", "lon_deg"),
        *("place_source", "segment_id"),
        "timestamp_millis(time) as event_time",
        "timestamp_millis(received) as received_time",
        *("day", "area"),
    )


def to_keep(speeding: "DataFrame", found: "DataFrame", final_ms: int | None) -> "DataFrame":
    """What has become evidence, and what still may: reports since `final_ms`; None: nothing comes any more."""
    proved = found.selectExpr("day", "explode(proved) as one").selectExpr("day", "one.vehicle_id", "one.seq").distinct()
    still = "false" if final_ms is None else f"unix_millis(event_time) >= {final_ms}"
    known = proved.selectExpr("*", "true as is_proved")
    kept = speeding.join(known, ["day", "vehicle_id", "seq"], "left").where(f"is_proved or {still}")
    return kept.select(*SPEEDING)
