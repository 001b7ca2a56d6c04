"""From events to positions, each with what became of it.

    events ──▶ judged: outcome = position | late | quarantine(reason) | other
                          └─ positions of a batch that are there already ──▶ duplicate

Those that may be over a limit are `fast`: only these have a plate (offences.py).

Everything said here of a row depends on that row alone, so that a batch and a stream say the same. Who says it is the
vehicle (`$OriginProducer`, where a gateway passed it on), when is `$Time`, in ms. *Late* is what was received more than
`late_ms` after it happened: it is kept, and counts in no other table.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...traffic.control import Settings
from ...traffic.reports import PLATE_MAX, monitor_of
from ..table import lost_in
from .offences import least_limit
from .places import BACKWARD, FORWARD, Places
from .small import NO_AREA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["EVENTS", "JUDGED", "KEPT", "LATE", "OTHER", "POSITION", "QUARANTINE", "REASONS", "judged"]

# What is asked of the source.
EVENTS = (
    "subject string, _producer string, _seq bigint, _log string, _offset bigint, _received_ms bigint, _error string, "
    "lat bigint, lon bigint, rate double, heading double, license_no string, "
    "`$Time` bigint, `$OriginProducer` string, `$OriginSeq` bigint"
)
SUBJECTS = ("Position", "Location", "Speed")
POSITION, LATE, QUARANTINE, OTHER = "position", "late", "quarantine", "other"
MALFORMED, IMPOSSIBLE, ASTRAY = "malformed", "impossible speed", "impossible heading"
NO_TIME, FUTURE = "no time", "time in the future"
SWAPPED, OUTSIDE, LOST = "latitude and longitude swapped", "position outside the network", "lost before it was read"
REASONS = (MALFORMED, IMPOSSIBLE, ASTRAY, NO_TIME, FUTURE, SWAPPED, OUTSIDE, LOST)

JUDGED = (
    "outcome string, reason string, detail string, events bigint, "
    "vehicle_id string, seq bigint, event_time timestamp, received_time timestamp, subject string, "
    "lat_deg double, lon_deg double, speed_kmh double, heading_deg double, plate string, fast boolean, "
    "segment_id string, direction string, match_distance_m double, area string, limit_kmh double, limit_source string, "
    "monitor string, "
    "log string, log_offset bigint, day string"
)
KEPT = [
    *("vehicle_id", "seq", "event_time", "received_time", "subject", "lat_deg", "lon_deg", "speed_kmh", "heading_deg"),
    *("segment_id", "direction", "match_distance_m", "limit_kmh", "limit_source", "monitor", "log", "log_offset"),
    *("day", "area"),
]


def judged(events: "DataFrame", places: Places, settings: Settings) -> "DataFrame":
    """Rows as in JUDGED, one for each event; one for `events` that were lost before they were read."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield _judge(batch, places, settings)

    return events.mapInArrow(work, JUDGED)


def _judge(batch: pa.RecordBatch, places: Places, settings: Settings) -> pa.RecordBatch:
    rules = settings.rules
    rows = batch.to_pandas()
    count = len(rows)
    received = rows["_received_ms"].fillna(0).to_numpy(np.int64)
    time_known = rows["$Time"].notna().to_numpy()
    time = batch.column("$Time").fill_null(0).to_numpy()
    # Some 5,000 years: what is beyond is no time, and would be none in a timestamp either.
    time_known &= time < 160_000_000_000_000
    time = np.where(time_known, time, received)
    has_place = (rows["lat"].notna() & rows["lon"].notna()).to_numpy()
    lat, lon = (batch.column(name).fill_null(0).to_numpy() for name in ("lat", "lon"))
    rate, heading = rows["rate"].to_numpy(np.float64), rows["heading"].to_numpy(np.float64)
    has_rate, has_heading = (batch.column(name).is_valid().to_numpy(False) for name in ("rate", "heading"))
    error = rows["_error"].fillna("").to_numpy(object)
    wanted = rows["subject"].isin(SUBJECTS).to_numpy()
    contained = places.contains(lat, lon)
    swapped = has_place & ~contained & (np.abs(lon) <= 900_000_000) & places.contains(lon, lat)

    outcome = np.full(count, POSITION, dtype=object)
    reason = np.full(count, "", dtype=object)
    detail = error.copy()

    def put(mask: Any, what: str, why: str = "", shown: Any = None) -> None:
        mask = mask & (outcome == POSITION)
        outcome[mask], reason[mask] = what, why
        if shown is not None:
            detail[mask] = [str(value) for value in np.asarray(shown)[mask]]

    gap = rows["subject"].isna().to_numpy() & rows["_producer"].isna().to_numpy()
    put(gap, QUARANTINE, LOST)
    put(rows["subject"].isna().to_numpy(), QUARANTINE, MALFORMED)
    put(~wanted, OTHER)
    put(error != "", QUARANTINE, MALFORMED)
    bare = ~has_place & ~has_rate
    put(bare, QUARANTINE, MALFORMED, np.full(count, "neither a place (lat, lon) nor a speed (rate)"))
    plates = [None if plate is None else plate.strip() for plate in batch.column("license_no").to_pylist()]
    sizes = np.array([1 if plate is None else len(plate) for plate in plates], np.int64)
    said = [f"license_no has {size} characters, want 1 to {PLATE_MAX}" for size in sizes]
    put((sizes < 1) | (sizes > PLATE_MAX), QUARANTINE, MALFORMED, said)
    put(has_rate & ~((rate >= 0) & (rate <= rules.max_speed)), QUARANTINE, IMPOSSIBLE, rate)
    put(has_heading & ~((heading >= 0) & (heading <= 360)), QUARANTINE, ASTRAY, heading)
    put(~time_known, QUARANTINE, NO_TIME)
    put(time > received + rules.skew_ms, QUARANTINE, FUTURE, time - received)
    put(swapped, QUARANTINE, SWAPPED)
    put(has_place & ~contained, QUARANTINE, OUTSIDE)
    put(received - time > rules.late_ms, LATE, "", received - time)

    good = (outcome == POSITION) & has_place
    piece, far, along = np.full(count, -1), np.full(count, np.nan), np.zeros(count, np.int64)
    area = np.full(count, "", dtype=object)
    limit, source = np.full(count, np.nan), np.full(count, "", dtype=object)
    if good.any():
        piece[good], far[good], along[good] = places.match(lat[good], lon[good], heading[good])
        area[good] = places.areas(lat[good], lon[good])
        limit[good], source[good] = places.limits_at(area[good], time[good])
    # Who may be over a limit: of its own place, or of any where it has said none. Of the others no plate is kept.
    bar, over = np.where(np.isnan(limit), least_limit(places), limit), settings.tariff.over
    may = (outcome == POSITION) & (rate > bar)
    fast = [bool(one) and over(speed, int(most)) > 0 for one, speed, most in zip(may, rate, bar)]
    heard = [monitor_of(producer) for producer in batch.column("_producer").to_pylist()]
    stamps = pa.array(time, pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    columns: dict[str, Any] = {
        "outcome": pa.array(outcome, pa.string()),
        "reason": _texts(reason),
        "detail": _texts(detail),
        "events": pa.array([lost_in(text) if one else 1 for one, text in zip(gap, error)], pa.int64()),
        "vehicle_id": pc.coalesce(batch.column("$OriginProducer"), batch.column("_producer")),
        "seq": pc.coalesce(batch.column("$OriginSeq"), batch.column("_seq")),
        "event_time": stamps,
        "received_time": pa.array(received).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
        "subject": batch.column("subject"),
        "lat_deg": _floats(np.where(has_place, lat / 1e7, np.nan)),
        "lon_deg": _floats(np.where(has_place, lon / 1e7, np.nan)),
        "speed_kmh": _floats(rate),
        "heading_deg": _floats(heading),
        "plate": pa.array([plate if one else None for plate, one in zip(plates, fast)], pa.string()),
        "fast": pa.array(fast, pa.bool_()),
        "segment_id": pa.array([places.pieces[one].segment_id if one >= 0 else None for one in piece], pa.string()),
        "direction": pa.array([{1: FORWARD, -1: BACKWARD}.get(int(one)) for one in along], pa.string()),
        "match_distance_m": _floats(np.round(far, 2)),
        "area": pa.array(np.where(area == "", NO_AREA, area), pa.string()),
        "limit_kmh": _floats(limit),
        "limit_source": _texts(source),
        "monitor": pa.array([name if name in places.network.monitors else None for name in heard], pa.string()),
        "log": batch.column("_log"),
        "log_offset": batch.column("_offset"),
        "day": pa.array(places.days(time), pa.string()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _texts(values: Any) -> pa.Array:
    return pa.array([value or None for value in values], pa.string())


def _floats(values: Any) -> pa.Array:
    return pa.array(values, pa.float64(), mask=np.isnan(values))
