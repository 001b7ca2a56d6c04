"""What one would write without us: a Spark data source of a log that decodes event by event and yields tuples."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from vicinal_cloud.log import LogReader, event_of

__all__ = ["RowSource"]


class RowSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "vicinal-bench-rows"

    def schema(self) -> str:
        return "_producer string, lat bigint, lon bigint, rate double, heading bigint, `$Time` bigint"

    def reader(self, schema: StructType) -> "_Reader":
        return _Reader(self.options["path"], int(self.options["end"]))


class _Reader(DataSourceReader):
    def __init__(self, path: str, end: int) -> None:
        self.path, self.end = path, end

    def partitions(self) -> Sequence[InputPartition]:
        end = min(self.end, LogReader(self.path).next)
        return [InputPartition((at, min(at + end // 4 + 1, end))) for at in range(0, end, end // 4 + 1)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        at, end = partition.value
        log = LogReader(self.path)
        while at < end:
            records, at = log.read(at, min(1000, end - at))
            for record in records:
                event = event_of(record)
                found: dict[str, Any] = event.params
                time: Any = event.attrs["Time"]
                yield event.producer, found["lat"], found["lon"], found["rate"], found["heading"], time
