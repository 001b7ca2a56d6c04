"""The tables of traffic control, for SQLite and PostgreSQL alike. Times are ms, positions 1e-7 degrees, speeds km/h."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

from .texts import NAME_MAX, SOURCE_MAX, WHO_MAX

__all__ = ["cases", "evidence", "meta", "metadata", "quarantine", "rules", "shown", "sightings", "signs", "steps"]

metadata = MetaData()

meta = Table(
    "traffic_meta",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

rules = Table(
    "traffic_rules",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("area", String(NAME_MAX), nullable=False),
    Column("value", Integer, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("hours", String(64)),
    Column("source", String(WHO_MAX), nullable=False),
    Column("until", BigInteger),
)


signs = Table(
    "traffic_signs",
    metadata,
    Column("monitor", String(NAME_MAX), primary_key=True),
    Column("shown", Integer),
    Column("standing", JSON, nullable=False),
)

shown = Table(
    "traffic_shown",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("monitor", String(64), nullable=False),
    Column("value", Integer, nullable=False),
    Column("since", BigInteger, nullable=False),
)


def _measured() -> list[Column[object]]:
    """One measurement: of the worst of a case, and of each piece of its evidence."""
    return [
        Column("speed", Float, nullable=False),
        Column("tolerance", Integer, nullable=False),
        Column("limit_kmh", Integer, nullable=False),
        Column("limit_source", String(SOURCE_MAX), nullable=False),
        Column("area", String(NAME_MAX), nullable=False),
        Column("over", Integer, nullable=False),
        Column("lat", BigInteger, nullable=False),
        Column("lon", BigInteger, nullable=False),
        Column("place_source", String(16), nullable=False),
        Column("heading", Float),
        Column("braking", Boolean),
        Column("time", BigInteger, nullable=False),
        Column("received", BigInteger, nullable=False),
        Column("monitor", String(NAME_MAX), nullable=False),
        Column("vehicle", String(NAME_MAX), nullable=False),
        Column("seq", BigInteger, nullable=False),
    ]


cases = Table(
    "traffic_cases",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("plate", String(32), nullable=False, index=True),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("reports", Integer, nullable=False),
    Column("monitors", JSON, nullable=False),
    Column("fine", Integer, nullable=False),
    Column("currency", String(8), nullable=False),
    Column("points", Integer, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    *_measured(),
)

evidence = Table(
    "traffic_evidence",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("number", BigInteger, nullable=False, index=True),
    *_measured(),
)

steps = Table(
    "traffic_steps",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("number", BigInteger, nullable=False, index=True),
    Column("place", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("who", String(WHO_MAX), nullable=False),
    Column("note", Text, nullable=False),
)

quarantine = Table(
    "traffic_quarantine",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("reason", String(64), nullable=False, index=True),
    Column("detail", Text, nullable=False),
    Column("subject", String(256), nullable=False),
    Column("vehicle", String(NAME_MAX), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("monitor", String(NAME_MAX), nullable=False),
    Column("time", BigInteger),
    Column("received", BigInteger, nullable=False),
    Column("params", JSON, nullable=False),
)

sightings = Table(
    "traffic_sightings",
    metadata,
    Column("vehicle", String(NAME_MAX), primary_key=True),
    Column("time", BigInteger, primary_key=True, autoincrement=False),
    Column("lat", BigInteger, nullable=False),
    Column("lon", BigInteger, nullable=False),
    Column("heading", Float),
    Column("braking", Boolean),
    Column("monitor", String(NAME_MAX), nullable=False),
    Index("traffic_sightings_time", "time"),
)
