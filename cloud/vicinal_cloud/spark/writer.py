"""Rows back into the overlay as events, once: df.writeStream.format("vicinal") and df.write.format("vicinal").

    brokers or path     where to; one address, or the directory of a log that no broker has open
    name                who publishes: the producer of the events. Of a stream it must be given, and be no one else's
    subject             of all events, where there is no column `subject`
    batch               of df.write: a number, higher for each run that is another; the same again is the same run
    token, ca, ...      as of the source

A column is a parameter, `$Time` an attribute; null is left out; a timestamp is integer ms, as times are. Columns that
begin with an underscore are of the log and stay behind.

*Once*: Spark runs a batch again when a driver died in it, so what is published has an identity that does not depend on
which run it is, and brokers drop what they have: the producer is `name`, the seq is batch * 2^32 + row, and a row's
number is its place among all rows of the batch when they are sorted by their bytes, so neither partitions nor order
matter. Workers make the bytes, the driver numbers and publishes them: results of a query, not its input.
"""

import datetime
import decimal
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal.wire import decode, encode

from ..broker.client import Closed
from ..log import Log, Refused, entry_of
from ..log.limits import MAX_BATCH_BYTES, MAX_BATCH_RECORDS
from .network import Link

__all__ = ["MAX_BATCH_MIB", "NotPublished", "VicinalStreamWriter", "VicinalWriter"]

# What the driver holds of one batch; more is no result but a copy of the input.
MAX_BATCH_MIB = 256
_ROWS = 1 << 32
_AT_ONCE = 1000


class NotPublished(VicinalError):
    """A row cannot be an event, or a broker has refused it."""


class _Encoded(WriterCommitMessage):
    def __init__(self, events: list[bytes]) -> None:
        self.events = events


class _Target:
    """Options, checked; and the publishing itself, in the driver."""

    def __init__(self, options: Mapping[str, str], schema: StructType, stream: bool) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        self.address, self.path = self.options.get("brokers"), self.options.get("path")
        if bool(self.address) == bool(self.path):
            raise VicinalError('want option("brokers", one address) or option("path", directory of a log), one of them')
        self.name = self.options.get("name", "")
        if stream and not self.name:
            raise VicinalError(
                'want option("name", ...): the producer of the events, by which a batch that runs again is known'
            )
        self.name = self.name or f"spark-{secrets.token_hex(6)}"
        self.subject = self.options.get("subject")
        if self.subject is None and "subject" not in schema.names:
            raise VicinalError('want a column `subject`, or option("subject", ...) for all rows')
        self.names = [name for name in schema.names if name != "subject" and not name.startswith("_")]

    def encoded(self, rows: Iterator[Row]) -> _Encoded:
        """In a worker."""
        found, size = [], 0
        for row in rows:
            data = encode(self._event(row))
            size += len(data)
            if size > MAX_BATCH_MIB << 20:
                raise NotPublished(f"a batch has more than {MAX_BATCH_MIB} MiB of events, which is the limit")
            found.append(data)
        return _Encoded(found)

    def _event(self, row: Row) -> Event:
        subject = row["subject"] if self.subject is None else self.subject
        params: dict[str, Any] = {}
        attrs: dict[str, Any] = {}
        for name in self.names:
            value = row[name]
            if value is not None:
                (attrs if name.startswith("$") else params)[name.removeprefix("$")] = _value(name, value)
        try:
            return Event(subject, params, attrs)
        except VicinalError as error:
            raise NotPublished(f"a row cannot be an event: {error}") from error

    def publish(self, messages: "list[Any]", batch: int) -> None:
        """In the driver. What was published of the batch before is known by its identity, and dropped."""
        found = sorted(data for message in messages if message is not None for data in message.events)
        if sum(map(len, found)) > MAX_BATCH_MIB << 20:
            raise NotPublished(f"batch {batch} has more than {MAX_BATCH_MIB} MiB of events, which is the limit")
        events = [decode(data).stamp(self.name, batch * _ROWS + row) for row, data in enumerate(found)]
        if not events:
            return
        if self.path is not None:
            self._append(events)
        else:
            self._send(events)

    def _append(self, events: list[Event]) -> None:
        log = Log(Path(self.path or ""))
        try:
            entries = [entry_of(event) for event in events]
            at = 0
            while at < len(entries):
                end, size = at, 0
                while end < len(entries) and end - at < MAX_BATCH_RECORDS and size < MAX_BATCH_BYTES // 2:
                    size += len(entries[end].event)
                    end += 1
                for result in log.append_batch(entries[at:end], int(time.time() * 1000)):
                    if isinstance(result, Refused):
                        raise NotPublished(f"{self.path}: {result.message}")
                at = end
        finally:
            log.close()

    def _send(self, events: list[Event]) -> None:
        link = Link(self.address or "", self.options, self.name)
        try:
            client = link.client()

            async def send() -> None:
                advertisement = await client.advertise("subject IS NOT NULL")
                for at in range(0, len(events), _AT_ONCE):
                    done = await client.submit_many(events[at : at + _AT_ONCE], advertisement)
                    refused = await done
                    for place, error in refused.items():
                        raise NotPublished(f"{self.address}: {events[at + place].subject!r}: {error}")

            link.call(send())
        except (TimeoutError, Closed, ConnectionError) as error:
            raise NotPublished(f"{self.address}: {error}; the batch runs again when the query is started") from error
        finally:
            link.close()


def _value(name: str, value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, decimal.Decimal):
        return float(value)
    if type(value) in (str, int, float, bool, bytes):
        return value
    raise NotPublished(f"column {name!r} is {type(value).__name__}, which no parameter of an event can be: cast it")


class VicinalStreamWriter(DataSourceStreamWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.target = _Target(options, schema, stream=True)

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return self.target.encoded(iterator)

    def commit(self, messages: "list[WriterCommitMessage | None]", batchId: int) -> None:  # noqa: N803 - Spark's
        self.target.publish(messages, batchId)


class VicinalWriter(DataSourceWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise VicinalError('events are never overwritten: want mode("append")')
        self.target = _Target(options, schema, stream=False)
        text = self.target.options.get("batch", "0")
        if not text.isdigit() or int(text) >= 1 << 31:
            raise VicinalError(f"option batch is {text!r}, want a number, 0 to 2^31-1")
        self.batch = int(text)

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        return self.target.encoded(iterator)

    def commit(self, messages: "list[WriterCommitMessage | None]") -> None:
        self.target.publish(messages, self.batch)
