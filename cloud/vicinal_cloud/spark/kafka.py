"""Events that a mirror has put into Kafka (vicinal_cloud.kafka), read by Spark's own connector: the same rows.

    frame = events(spark.readStream, {"kafka": "localhost:9092", "topic": "events"}, "subject string, rate double, ...")

    kafka                   servers, as Kafka's clients want them: host:port, with commas between
    topic
    filter                  in the filter language (DESIGN 3): only events for which it is true
    startingOffsets, endingOffsets, maxOffsetsPerTrigger, failOnDataLoss, minPartitions, kafka.*
                            go to the connector as they are

Columns and what becomes of values of other types are those of table.py. `_log`, `_offset` and `_received_ms` are those
of the log that was mirrored; of a message that no mirror has put there they are topic/partition, and Kafka's own. Only
what is committed is read. The connector is a package of its own: `connector` gives the settings that fetch it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from vicinal.errors import VicinalError
from vicinal.filter import Filter

from ..kafka.message import RETENTION
from ..log import Record
from .conditions import select
from .forms import blocks_of
from .table import Column, columns_of_schema, rows_of_block, rows_of_loose, rows_of_lost

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["connector", "events"]

_PASSED = ("startingoffsets", "endingoffsets", "maxoffsetspertrigger", "failondataloss", "minpartitions")
_KNOWN = ("kafka", "topic", "filter", *_PASSED)


def connector() -> dict[str, str]:
    """Settings of a session that has it: none where it is among Spark's own libraries, else its name in Maven Central,
    from where Spark fetches it when it starts."""
    import pyspark

    libraries = Path(pyspark.__file__).with_name("jars")
    if list(libraries.glob("spark-sql-kafka-0-10_*.jar")):
        return {}
    scala = next((one.name.split("-")[2] for one in libraries.glob("scala-library-*.jar")), "2.13")
    name = f"spark-sql-kafka-0-10_{'.'.join(scala.split('.')[:2])}"
    return {"spark.jars.packages": f"org.apache.spark:{name}:{pyspark.__version__}"}


def events(reader: Any, options: Mapping[str, str], schema: str) -> "DataFrame":
    """Of spark.read or spark.readStream. Raises VicinalError for options that are unknown or missing."""
    from pyspark.sql.types import StructType

    unknown = [name for name in options if name.lower() not in _KNOWN and not name.startswith("kafka.")]
    if unknown:
        raise VicinalError(f"option {unknown[0]!r} is unknown, want one of {', '.join(_KNOWN)}, kafka.*")
    for wanted in ("kafka", "topic"):
        if not options.get(wanted):
            raise VicinalError(f"option {wanted!r} is missing")
    text = options.get("filter")
    condition = Filter(text) if text else None
    columns = columns_of_schema(cast(StructType, StructType.fromDDL(schema)))
    reader = (
        reader.format("kafka")
        .option("kafka.bootstrap.servers", options["kafka"])
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", options["topic"])
        .option("includeHeaders", "true")
    )
    for name, value in options.items():
        if name.lower() in _PASSED or name.startswith("kafka."):
            reader = reader.option(name, value)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _rows(batch, columns, condition)

    frame: DataFrame = reader.load().selectExpr(*_SELECTED).mapInArrow(work, schema)
    return frame


def _header(name: str) -> str:
    return f"try_validate_utf8(cast(get(filter(headers, h -> h.key = 'vicinal-{name}'), 0).value as string))"


_SELECTED = [
    "value",
    "make_valid_utf8(cast(key as string)) as producer",
    f"coalesce({_header('log')}, concat(topic, '/', partition)) as log",
    f"coalesce(try_cast({_header('offset')} as bigint), offset) as log_offset",
    f"coalesce(try_cast({_header('received')} as bigint), unix_millis(timestamp)) as received",
    f"coalesce(try_cast({_header('seq')} as bigint), 0) as seq",
    f"try_cast({_header('last')} as bigint) as last",
    f"{_header('lost')} as lost",
]


def _rows(batch: pa.RecordBatch, columns: Sequence[Column], condition: Filter | None) -> Iterator[pa.RecordBatch]:
    whole = batch.filter(batch.column("value").is_valid())
    taken = [whole.column(name).to_pylist() for name in ("log_offset", "received", "producer", "seq", "value")]
    by_log: dict[str, list[Record]] = {}
    for log, record in zip(whole.column("log").to_pylist(), starmap(Record, zip(*taken))):
        by_log.setdefault(log, []).append(record)
    for log, records in by_log.items():
        blocks, loose = blocks_of(records)
        for block in blocks:
            chosen = select(block, condition, ())
            if len(chosen):
                yield rows_of_block(chosen, columns, log)
        if condition is not None:
            loose = [one for one in loose if one.event is not None and condition.matches(one.event)]
        if loose:
            yield rows_of_loose(loose, columns, log)
    for row in batch.filter(batch.column("value").is_null()).to_pylist():
        # What retention has taken is said whatever was asked for, as by the log's own reader.
        if condition is None or row["lost"] == RETENTION:
            last = row["log_offset"] if row["last"] is None else row["last"]
            yield rows_of_lost(row["log_offset"], last, row["lost"] or "a message without a value", columns, row["log"])
