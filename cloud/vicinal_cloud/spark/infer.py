"""A schema for those who gave none: what the log declares, and what its newest events have.

Event types (spec/types.md) that were published are the word of who publishes; the rest is looked at. A name that is an
int here and a float there is a double. One that is of types that do not go together is of the commonest, and the others
are an `_error` of their rows. Names come in the order in which they were first seen, attributes behind them.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructType,
)

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal.federation.types import SUBJECT, EventType
from vicinal.filter import Filter
from vicinal.wire import decode

from ..log.scoped import event_bytes

__all__ = ["TYPES", "base_schema", "infer_schema"]

# Events that are looked at, of each log: the newest, and some of the oldest.
NEWEST, OLDEST = 20_000, 2_000
# Spark's plans slow down with columns; past it the rarest are left out: ask for them in a schema.
MAX_COLUMNS = 200
# Of the types of values (forms.py), Spark's.
TYPES: dict[str, DataType] = {
    "str": StringType(),
    "int": LongType(),
    "float": DoubleType(),
    "bool": BooleanType(),
    "bytes": BinaryType(),
}
_PYTHON = {str: "str", int: "int", float: "float", bool: "bool", bytes: "bytes"}


def base_schema() -> StructType:
    found = StructType().add("subject", StringType())
    for name in ("_producer", "_log"):
        found = found.add(name, StringType())
    for name in ("_seq", "_offset", "_received_ms"):
        found = found.add(name, LongType())
    return found.add("_error", StringType())


def infer_schema(logs: Sequence[Any], condition: Filter | None) -> StructType:
    seen: dict[str, Counter[str]] = {}
    declared: dict[str, str] = {}
    count = 0
    for log in logs:
        for record in log.sample(OLDEST, NEWEST):
            try:
                event = decode(event_bytes(record.event))
            except VicinalError:
                continue
            if event.subject == SUBJECT:
                _declare(event, condition, declared)
            elif condition is None or condition.matches(event):
                count += 1
                _count(event, seen)
    if not count and not declared:
        raise VicinalError(
            f"no event to learn the columns from in {', '.join(log.name for log in logs)}: "
            'give them, .schema("subject string, rate double, ...")'
        )
    schema = base_schema()
    names = [*declared, *(name for name in seen if name not in declared and not name.startswith("$"))]
    names += [name for name in seen if name.startswith("$")]
    if len(names) > MAX_COLUMNS:
        common = sorted(names, key=lambda name: (name not in declared, -sum(seen.get(name, Counter()).values())))
        names = [name for name in names if name in set(common[:MAX_COLUMNS])]
    for name in names:
        if name not in schema.names:
            schema = schema.add(name, TYPES[declared.get(name) or _common(seen[name])])
    return schema


def _declare(event: Event, condition: Filter | None, declared: dict[str, str]) -> None:
    try:
        found = EventType.from_event(event)
    except VicinalError:
        return
    subject = found.subject.replace("'", "''")
    if condition is not None and not condition.overlaps(Filter(f"subject = '{subject}'")):
        return
    for name, kind in found.params.items():
        if kind in TYPES:
            declared[name] = "float" if {kind, declared.get(name, kind)} == {"int", "float"} else kind


def _count(event: Event, seen: dict[str, "Counter[str]"]) -> None:
    value: Any
    for name, value in [*event.params.items(), *(("$" + name, value) for name, value in event.attrs.items())]:
        kind = _PYTHON.get(type(value))
        if kind is not None:
            counts = seen.get(name)
            if counts is None:  # one made for every value was a third of the time
                counts = seen[name] = Counter()
            counts[kind] += 1


def _common(kinds: "Counter[str]") -> str:
    numbers = kinds["int"] + kinds["float"]
    if numbers and kinds["float"]:
        kinds = Counter({**kinds, "float": numbers, "int": 0})
    return kinds.most_common(1)[0][0]
