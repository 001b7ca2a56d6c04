"""A topic, open for appending what is in one log.

    with KafkaWriter("localhost:9092", "events", "b1") as topic:
        topic.cursor                            how far the log b1 is in it
        topic.append(messages, cursor)          all of it when it returns, and the cursor; or KafkaFailed, and the next
                                                writer finds out which

Transactions of Kafka make it exact: messages and cursor become visible together. The transactional id is that of the
log, so that a second writer of the same log ends the first (Fenced), as a lock would, wherever the two run; what the
first had begun is over before the second reads the cursor. After a KafkaFailed nothing is believed: open another.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .cursor import Cursor, encode_cursor
from .errors import Fenced, KafkaFailed
from .message import Message
from .reader import read_cursors
from .topics import PARTITIONS, PATIENCE, TRANSACTION_MS, client_config, cursors_of, ensure

__all__ = ["KafkaWriter"]


class KafkaWriter:
    def __init__(
        self,
        servers: str,
        topic: str,
        log: str,
        config: Mapping[str, str] | None = None,
        partitions: int = PARTITIONS,
        replicas: int = -1,
    ) -> None:
        """Raises KafkaFailed, or Fenced when a third one was faster. `partitions` and `replicas` are of a topic that is
        not there yet."""
        from confluent_kafka import KafkaException, Producer

        self.servers = servers
        self.topic = topic
        self.log = log
        self.partitions = ensure(servers, topic, config, partitions, replicas)
        self._failed: Any = None
        self._producer = Producer(
            {
                **client_config(servers, config),
                "transactional.id": f"vicinal.{topic}.{log}",
                "transaction.timeout.ms": TRANSACTION_MS,
                "partitioner": "murmur2_random",  # as Java's clients do: the same key, the same partition
                "compression.type": "lz4",
                "linger.ms": 5,
            }
        )
        try:
            self._producer.init_transactions(PATIENCE)
            self.cursor = read_cursors(servers, topic, config).get(log, Cursor())
        except KafkaException as error:
            raise self._reason(error) from error

    def __enter__(self) -> "KafkaWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, messages: Sequence[Message], cursor: Cursor) -> None:
        from confluent_kafka import KafkaException

        producer = self._producer
        try:
            producer.begin_transaction()
            for message in messages:
                self._produce(message)
            producer.produce(cursors_of(self.topic), encode_cursor(cursor), self.log.encode(), on_delivery=self._done)
            producer.commit_transaction(PATIENCE)
        except KafkaException as error:
            raise self._reason(error) from error
        if self._failed is not None:
            raise KafkaFailed(f"topic {self.topic!r} at {self.servers}: {self._failed.str()}")
        self.cursor = cursor

    def _produce(self, message: Message) -> None:
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    message.value,
                    message.key,
                    timestamp=message.timestamp,
                    headers=list(message.headers),
                    on_delivery=self._done,
                )
                return
            except BufferError:  # what waits to be sent is as much as may wait
                self._producer.poll(0.1)

    def _done(self, error: Any, message: Any) -> None:
        if error is not None:
            self._failed = error

    def _reason(self, error: Any) -> Exception:
        """`error` is a KafkaException."""
        from confluent_kafka import KafkaError

        what = error.args[0]
        if what.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            return Fenced(
                f"another mirror of {self.log!r} into topic {self.topic!r} has begun, or this one was stopped for more "
                f"than {TRANSACTION_MS // 1000} s in the middle of a batch: it ends"
            )
        return KafkaFailed(f"topic {self.topic!r} at {self.servers}: {what.str()}")

    def close(self) -> None:
        """What is under way is given up by the next writer, or by Kafka."""
        self._producer.purge()
