"""Offences for other programs: CSV (RFC 4180, one header line, UTC times) and GeoJSON (RFC 7946)."""

import csv
import io
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from .cases import Case

__all__ = ["COLUMNS", "flat", "to_csv", "to_geojson"]

COLUMNS = (
    "number", "state", "license_no", "speed_kmh", "tolerance_kmh", "limit_kmh", "limit_source", "area", "over_kmh",
    "first", "last", "duration_ms", "time", "received", "lat", "lon", "place_source", "heading_deg", "braking",
    "reports", "monitor", "monitors", "vehicle", "seq", "fine", "currency", "points",
)  # fmt: skip
_UNIT = 10_000_000


def flat(case: Case) -> dict[str, Any]:
    worst = case.worst
    return {
        "number": case.number,
        "state": case.state,
        "license_no": case.plate,
        "speed_kmh": worst.speed,
        "tolerance_kmh": worst.tolerance,
        "limit_kmh": worst.limit,
        "limit_source": worst.limit_source,
        "area": worst.area,
        "over_kmh": worst.over,
        "first": _utc(case.first),
        "last": _utc(case.last),
        "duration_ms": case.duration,
        "time": _utc(worst.time),
        "received": _utc(worst.received),
        "lat": worst.place[0] / _UNIT,
        "lon": worst.place[1] / _UNIT,
        "place_source": worst.place_source,
        "heading_deg": worst.heading,
        "braking": worst.braking,
        "reports": case.reports,
        "monitor": worst.monitor,
        "monitors": " ".join(case.monitors),
        "vehicle": worst.vehicle,
        "seq": worst.seq,
        "fine": f"{case.fine / 100:.2f}",
        "currency": case.currency,
        "points": case.points,
    }


def to_csv(cases: Iterable[Case]) -> str:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\r\n")
    writer.writeheader()
    for case in cases:
        writer.writerow({name: _safe(value) for name, value in flat(case).items()})
    return out.getvalue()


def to_geojson(cases: Iterable[Case]) -> dict[str, Any]:
    features = []
    for case in cases:
        properties = flat(case)
        place = [properties.pop("lon"), properties.pop("lat")]
        features.append(
            {"type": "Feature", "id": case.number, "geometry": {"type": "Point", "coordinates": place},
             "properties": properties}
        )  # fmt: skip
    return {"type": "FeatureCollection", "features": features}


def _utc(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _safe(value: Any) -> Any:
    """What a plate says must not become a formula in somebody's spreadsheet."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
