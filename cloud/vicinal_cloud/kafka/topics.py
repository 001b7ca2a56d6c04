"""The topics of a mirror: made where they are missing, looked at where they are there.

    TOPIC               events; partitions by producer; kept until Kafka's own retention says otherwise
    TOPIC.cursors       how far each log is mirrored; one partition, compacted

A topic that we make keeps everything, as a log does that is told nothing else: `retention.ms` of Kafka counts from the
time at which the broker had an event, and would remove old logs as they are mirrored.
"""

import time
from typing import TYPE_CHECKING, Any

from .errors import KafkaFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from confluent_kafka.admin import AdminClient

__all__ = ["CURSORS", "client_config", "cursors_of", "ends", "ends_seen_by", "ensure", "quiet"]

CURSORS = ".cursors"
PARTITIONS = 8
# Seconds for one question to Kafka.
PATIENCE = 30.0
# A transaction of a writer that has died is given up by Kafka after so long; until then readers wait before it.
TRANSACTION_MS = 30_000


def cursors_of(topic: str) -> str:
    return topic + CURSORS


def quiet(*_: object) -> None:
    """What librdkafka logs of a broker that is away: who asked is told by an error."""


def client_config(servers: str, config: "Mapping[str, str] | None") -> dict[str, Any]:
    """Of any client: `config` is librdkafka's, for those who need TLS or a password."""
    return {
        "bootstrap.servers": servers,
        "client.id": "vicinal",
        # A broker that was killed is back in seconds, and is to be found then.
        "reconnect.backoff.max.ms": 1000,
        "error_cb": quiet,
        "log_level": 0,
        **(config or {}),
    }


def ensure(
    servers: str,
    topic: str,
    config: "Mapping[str, str] | None" = None,
    partitions: int = PARTITIONS,
    replicas: int = -1,
) -> int:
    """How many partitions it has. Raises KafkaFailed."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient(client_config(servers, config))
    wanted = [
        NewTopic(topic, partitions, replicas, config={"retention.ms": "-1"}),
        NewTopic(cursors_of(topic), 1, replicas, config={"cleanup.policy": "compact"}),
    ]
    try:
        there = _there(admin)
        missing = [one for one in wanted if one.topic not in there]
        made = admin.create_topics(missing, operation_timeout=PATIENCE) if missing else {}
        for future in made.values():
            _made(future)
        deadline = time.monotonic() + PATIENCE
        while any(not there.get(one.topic) for one in wanted) and time.monotonic() < deadline:
            time.sleep(0.05)  # the one that was asked to make it is not the one that is asked whether it is there
            there = _there(admin)
    except KafkaException as error:
        raise KafkaFailed(f"Kafka at {servers}, topic {topic!r}: {error.args[0].str()}") from error
    if not there.get(topic) or there.get(cursors_of(topic)) != 1:
        raise KafkaFailed(
            f"Kafka at {servers}: topic {topic!r} has {there.get(topic, 0)} partitions, want 1 or more, and "
            f"{cursors_of(topic)!r} has {there.get(cursors_of(topic), 0)}, want 1"
        )
    return there[topic]


def ends(servers: str, topic: str, config: "Mapping[str, str] | None" = None) -> dict[int, tuple[int, int]]:
    """First and next of each partition, counting what is in transactions that are still under way: a consumer of what
    is committed is told of an end before the first of these. Raises KafkaFailed."""
    from confluent_kafka import Consumer, KafkaException

    # `group.id` is asked for by librdkafka; nothing is committed to it.
    consumer = Consumer(
        {**client_config(servers, config), "group.id": "vicinal", "isolation.level": "read_uncommitted"}
    )
    try:
        return ends_seen_by(consumer, topic)
    except KafkaException as error:
        raise KafkaFailed(f"Kafka at {servers}, topic {topic!r}: {error.args[0].str()}") from error
    finally:
        consumer.close()


def ends_seen_by(consumer: Any, topic: str) -> dict[int, tuple[int, int]]:
    """Raises KafkaException. A partition that was made a moment ago, or whose server has just begun, has nobody who
    answers for it yet: that is waited for."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    soon = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            there = consumer.list_topics(topic, PATIENCE).topics[topic]
            if there.error is not None:
                raise KafkaException(there.error)
            return {
                one: consumer.get_watermark_offsets(TopicPartition(topic, one), PATIENCE, cached=False)
                for one in sorted(there.partitions)
            }
        except KafkaException as error:
            if error.args[0].code() not in soon or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _made(future: Any) -> None:
    from confluent_kafka import KafkaError, KafkaException

    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another mirror was faster
            raise


def _there(admin: "AdminClient") -> dict[str, int]:
    return {name: len(one.partitions) for name, one in admin.list_topics(timeout=PATIENCE).topics.items()}
