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

*And never dropped for another's*: the first event of a batch has the attribute RowsDigest, made of all its rows. It is
published first and looked for in the log; if what is there under its identity is of other rows, or is not there any
more, the batch is refused: (name, batch) was used before, by a run that was another, or by a stream whose checkpoint is
gone. A broker without a log drops nothing, and is not asked.
"""

import datetime
import decimal
import hashlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal.wire import decode, encode

from ..broker.client import Closed
from ..broker.client import Refused as NotAnswered
from ..log import Log, Record, Refused, entry_of, event_of
from ..log.limits import MAX_BATCH_BYTES, MAX_BATCH_RECORDS
from .network import BrokerLog, Link

__all__ = ["MAX_BATCH_MIB", "NotPublished", "VicinalStreamWriter", "VicinalWriter"]

# What the driver holds of one batch; more is no result but a copy of the input.
MAX_BATCH_MIB = 256
_ROWS = 1 << 32
_AT_ONCE = 1000
DIGEST = "RowsDigest"
# Records that are looked at: at first those that have just come.
_LEAST, _MOST = 64, 16_384


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
        if not found:
            return
        events = [decode(data) for data in found]
        events[0] = events[0].replace(attrs={**events[0].attrs, DIGEST: _digest(found)})
        events = [event.stamp(self.name, batch * _ROWS + row) for row, event in enumerate(events)]
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
                most = 1 if at == 0 else MAX_BATCH_RECORDS
                while end < len(entries) and end - at < most and size < MAX_BATCH_BYTES // 2:
                    size += len(entries[end].event)
                    end += 1
                for result in log.append_batch(entries[at:end], int(time.time() * 1000)):
                    if isinstance(result, Refused):
                        raise NotPublished(f"{self.path}: {result.message}")
                if at == 0:
                    self._check(events[0], lambda low, high: log.read(low, high - low), log.first, log.next)
                at = end
        finally:
            log.close()

    def _send(self, events: list[Event]) -> None:
        link = Link(self.address or "", self.options, self.name)
        log = BrokerLog(self.address or "", self.options)
        try:
            client = link.client()

            async def send(some: list[Event]) -> None:
                advertisement = await client.advertise("subject IS NOT NULL")
                for at in range(0, len(some), _AT_ONCE):
                    done = await client.submit_many(some[at : at + _AT_ONCE], advertisement)
                    refused = await done
                    for place, error in refused.items():
                        raise NotPublished(f"{self.address}: {some[at + place].subject!r}: {error}")

            link.call(send(events[:1]))
            try:
                ends = log.ends()
            except NotAnswered:  # it has no log
                ends = None
            if ends is not None:
                self._check(events[0], log.records, *ends)
            link.call(send(events[1:]))
        except (TimeoutError, Closed, ConnectionError) as error:
            raise NotPublished(f"{self.address}: {error}; the batch runs again when the query is started") from error
        finally:
            log.close()
            link.close()

    def _check(self, first: Event, read: "_Read", oldest: int, newest: int) -> None:
        """Whether what the log has under its identity is of the same rows."""
        found = _record_of(first, read, oldest, newest)
        if found is None or event_of(found).attrs.get(DIGEST) != first.attrs[DIGEST]:
            was = "was published before, with other rows" if found else "was passed before, by later ones"
            raise NotPublished(
                f"{self.address or self.path}: batch {(first.seq or 0) // _ROWS} of {self.name!r} {was}, and these "
                'would be dropped. Give option("batch", a number that is higher for each run); for a stream, which '
                'counts its batches anew when its checkpoint is gone, another option("name", ...)'
            )


# From one offset up to another: records, and the offset to go on with.
_Read = Callable[[int, int], tuple[list[Record], int]]


def _record_of(event: Event, read: _Read, oldest: int, newest: int) -> Record | None:
    """From the end on: what has just been published is there."""
    end, size = newest, _LEAST
    while end > oldest:
        start = at = max(oldest, end - size)
        while at < end:
            records, following = read(at, end)
            for record in records:
                if (record.producer, record.seq) == event.identity:
                    return record
            if following <= at:
                break
            at = following
        end, size = start, min(2 * size, _MOST)
    return None


def _digest(rows: list[bytes]) -> str:
    made = hashlib.sha256()
    for row in rows:
        made.update(len(row).to_bytes(8, "big") + row)
    return made.hexdigest()[:32]


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
