"""A topic by partition and offset, with filters: what LogReader is for a directory.

    reader = KafkaReader("localhost:9092", "events")
    reader.ends()                                       {0: (0, 812), 1: (0, 790), ...}: first and next, by partition
    reader.read(0, 0, 100, Filter("rate > 30"))         records, and the offset to go on with

Only what is committed. Offsets of a partition ascend and have holes: the ends of transactions take some.
"""

import time
from collections.abc import Mapping
from typing import Any

from vicinal.errors import RemoteProtocolError
from vicinal.filter import Filter

from ..log import OffsetAhead, OffsetGone, Record
from ..log._select import selector
from .cursor import Cursor, decode_cursor
from .errors import KafkaFailed
from .message import record_of
from .topics import PATIENCE, TRANSACTION_MS, client_config, cursors_of, ends, ends_seen_by

__all__ = ["KafkaReader", "read_cursors"]

_COMMITTED = {
    "group.id": "vicinal",  # asked for by librdkafka; nothing is committed to it
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 50,
}


class KafkaReader:
    """Not for several threads at once."""

    def __init__(self, servers: str, topic: str, config: Mapping[str, str] | None = None) -> None:
        from confluent_kafka import Consumer

        self.servers = servers
        self.topic = topic
        self.unreadable = 0
        """messages that are none of ours"""
        self._consumer = Consumer({**client_config(servers, config), **_COMMITTED})

    def ends(self) -> dict[int, tuple[int, int]]:
        """Of what is committed. Where a writer was told so a moment ago, it may take one more until readers are."""
        from confluent_kafka import KafkaException

        try:
            return ends_seen_by(self._consumer, self.topic)
        except KafkaException as error:
            raise self._failed(error.args[0]) from error

    def read(self, partition: int, offset: int, limit: int, filter: Filter | None = None) -> tuple[list[Record], int]:
        """Up to `limit` records from `offset` on for which the filter is true; nothing where nothing more is committed.
        Raises OffsetGone, OffsetAhead and KafkaFailed."""
        from confluent_kafka import KafkaError, KafkaException, TopicPartition

        where = TopicPartition(self.topic, partition, offset)
        select = None if filter is None else selector(filter)
        found: list[Record] = []
        deadline = time.monotonic() + PATIENCE
        try:
            first, end = self._consumer.get_watermark_offsets(where, PATIENCE, cached=False)
            if offset < first:
                raise OffsetGone(offset, first)
            if offset > end:
                raise OffsetAhead(offset, end)
            self._consumer.assign([where])
            while offset < end and len(found) < limit:
                messages = self._consumer.consume(min(limit - len(found), 10_000), 0.05)
                if not messages and time.monotonic() > deadline:
                    raise KafkaFailed(f"topic {self.topic!r}: offset {offset} of {end} was not to be had")
                for message in messages:
                    error = message.error()
                    if message.partition() != partition:
                        continue  # the end of the one that was read before
                    if error is None:
                        offset = int(message.offset() or 0) + 1
                        record = self._record(message)
                        if record is not None and (select is None or select(record)):
                            found.append(record)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return found, max(offset, int(message.offset() or 0))
                    else:
                        raise KafkaException(error)
        except KafkaException as error:
            raise self._failed(error.args[0]) from error
        finally:
            self._consumer.unassign()
        return found, offset

    def _record(self, message: Any) -> Record | None:
        try:
            return record_of(
                message.key(), message.value(), message.headers(), message.offset(), message.timestamp()[1]
            )
        except RemoteProtocolError:
            self.unreadable += 1
            return None

    def _failed(self, error: Any) -> KafkaFailed:
        return KafkaFailed(f"topic {self.topic!r} at {self.servers}: {error.str()}")

    def close(self) -> None:
        self._consumer.close()


def read_cursors(servers: str, topic: str, config: Mapping[str, str] | None = None) -> dict[str, Cursor]:
    """How far each log is mirrored. Mirrors may have transactions under way, before which readers wait: the end is the
    one that counts those too, and is waited for. Raises KafkaFailed."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    name = cursors_of(topic)
    at, end = ends(servers, name, config)[0]
    found: dict[str, Cursor] = {}
    consumer = Consumer({**client_config(servers, config), **_COMMITTED})
    deadline = time.monotonic() + PATIENCE + TRANSACTION_MS / 1000
    try:
        consumer.assign([TopicPartition(name, 0, at)])
        while at < end:
            message = consumer.poll(0.5)
            if message is None:
                if time.monotonic() > deadline:
                    raise KafkaFailed(f"topic {name!r} at {servers}: offset {at} of {end} was not to be had")
                continue
            error = message.error()
            if error is None:
                found[(message.key() or b"").decode()] = decode_cursor(message.value() or b"")
                at = (message.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                at = max(at, message.offset() or 0)
            else:
                raise KafkaException(error)
    except KafkaException as error:
        raise KafkaFailed(f"topic {name!r} at {servers}: {error.args[0].str()}") from error
    finally:
        consumer.close()
    return found
