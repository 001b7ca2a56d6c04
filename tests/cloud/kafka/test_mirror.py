"""A log into a real Kafka: once, in order, resumed, and said where it cannot be."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from cloud.kafka.server import Kafka
from cloud.kafka.topics import append, event, in_topic, judge, mirror_of, mirrored, wait_until

from vicinal.filter import Filter
from vicinal.scope.graph import Tags
from vicinal_cloud.kafka.cursor import Cursor
from vicinal_cloud.kafka.errors import Fenced, KafkaFailed, LogGone, NotTheLog
from vicinal_cloud.kafka.reader import KafkaReader
from vicinal_cloud.kafka.writer import KafkaWriter
from vicinal_cloud.log import Log, LogOptions, OffsetAhead
from vicinal_cloud.log.scoped import entry_with


def test_every_event_once_and_in_order(server: Kafka, topic: str, tmp_path: Path) -> None:
    with_log = Log(tmp_path / "log")
    append(with_log, range(2000))
    mirror = mirrored(tmp_path / "log", server.servers, topic)
    assert mirror.cursor[:4] == (2000, 2000, 0, 0)
    judge(tmp_path / "log", server.servers, topic)
    # Again: it goes on where it was, and what is there is not sent again.
    append(with_log, range(2000, 2600))
    assert mirrored(tmp_path / "log", server.servers, topic).cursor.mirrored == 2600
    judge(tmp_path / "log", server.servers, topic)
    with_log.close()

    reader = KafkaReader(server.servers, topic)
    ends = reader.ends()
    assert len(ends) == 3
    found, at = reader.read(0, 0, 5, Filter("rate > 100"))
    assert len(found) == 5 == len({one.seq for one in found if one.seq > 800})
    assert found[-1].offset < at <= ends[0][1]
    assert reader.read(0, ends[0][1], 5) == ([], ends[0][1])
    with pytest.raises(OffsetAhead):
        reader.read(0, ends[0][1] + 1, 5)
    reader.close()


def test_two_logs_in_one_topic(server: Kafka, topic: str, tmp_path: Path) -> None:
    for name, numbers in (("b1", range(300)), ("b2", range(1000, 1200))):
        log = Log(tmp_path / name)
        append(log, numbers)
        log.close()
        mirrored(tmp_path / name, server.servers, topic, name)
    found = [record.seq for some in in_topic(server.servers, topic).values() for record in some]
    assert sorted(found) == [*range(300), *range(1000, 1200)]
    for name, count in (("b1", 300), ("b2", 200), ("b3", 0)):
        with KafkaWriter(server.servers, topic, name) as writer:
            assert writer.cursor.mirrored == count


def test_scopes_stay_where_they_are_unless_asked_for(server: Kafka, topic: str, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.append_batch([entry_with(event(at), Tags([("area", "north")], False)) for at in range(10)], 5)
    append(log, range(10, 30))
    log.close()
    mirror = mirrored(tmp_path / "log", server.servers, topic)
    assert mirror.cursor[:4] == (30, 20, 10, 0)
    found = [record.seq for some in in_topic(server.servers, topic).values() for record in some]
    assert sorted(found) == list(range(10, 30))
    mirrored(tmp_path / "log", server.servers, topic + "-all", scoped=True)
    judge(tmp_path / "log", server.servers, topic + "-all")  # byte for byte, with its scopes


def test_another_log_by_the_same_name_is_seen(server: Kafka, topic: str, tmp_path: Path) -> None:
    for name, numbers in (("first", range(100)), ("shorter", range(50)), ("other", range(500, 900))):
        log = Log(tmp_path / name)
        append(log, numbers)
        log.close()
    mirrored(tmp_path / "first", server.servers, topic)
    with pytest.raises(NotTheLog, match="100 of b1 are mirrored, and it has 50"):
        mirrored(tmp_path / "shorter", server.servers, topic)
    with pytest.raises(NotTheLog, match=r"offset 99 of b1 is event 599 of .*, and 99 of .* was mirrored"):
        mirrored(tmp_path / "other", server.servers, topic)
    judge(tmp_path / "first", server.servers, topic)


def test_retention_that_was_faster(server: Kafka, topic: str, tmp_path: Path) -> None:
    log = Log(tmp_path / "log", LogOptions(segment_bytes=4000, max_bytes=20_000))
    for at in range(0, 1000, 20):
        append(log, range(at, at + 20))
    first = log.first
    assert first > 0
    log.close()
    with pytest.raises(LogGone, match=f"{first} events, offsets 0 to {first - 1}, were removed by retention"):
        mirrored(tmp_path / "log", server.servers, topic)
    cursor = mirrored(tmp_path / "log", server.servers, topic, skip_lost=True).cursor
    assert cursor[:4] == (1000, 1000 - first, 0, first)
    found = [record.seq for some in in_topic(server.servers, topic).values() for record in some]
    assert sorted(found) == list(range(first, 1000))


def test_a_second_mirror_ends_the_first(server: Kafka, topic: str, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    append(log, range(100))

    async def both() -> None:
        first = mirror_of(tmp_path / "log", server.servers, topic)
        running = asyncio.create_task(first.run())
        while first.cursor.next < 100:
            await asyncio.sleep(0.02)
        second = mirror_of(tmp_path / "log", server.servers, topic)
        await second.run(once=True)
        append(log, range(100, 120))
        with pytest.raises(Fenced, match="another mirror of 'b1'"):
            await running
        await second.run(once=True)

    asyncio.run(both())
    log.close()
    judge(tmp_path / "log", server.servers, topic)


def test_a_transaction_of_another_log_is_waited_for(server: Kafka, topic: str) -> None:
    """A cursor may lie behind what another mirror has begun: who read only as far as all is decided would see the one
    before, and send again what is there."""
    mine, other = KafkaWriter(server.servers, topic, "b1"), KafkaWriter(server.servers, topic, "b2")
    mine.append([], Cursor(100))
    other._producer.begin_transaction()
    other._producer.produce(topic + ".cursors", b"{}", b"b2")
    other._producer.flush(30)
    mine.append([], Cursor(150))
    with ThreadPoolExecutor(1) as thread:
        next_one = thread.submit(KafkaWriter, server.servers, topic, "b1")
        time.sleep(0.5)
        other._producer.abort_transaction(30)
        assert next_one.result(60).cursor == Cursor(150)


def test_no_kafka_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edge.servers import free_port

    from vicinal_cloud.kafka import topics

    monkeypatch.setattr(topics, "PATIENCE", 1.0)
    log = Log(tmp_path / "log")
    append(log, range(10))
    log.close()
    with pytest.raises(KafkaFailed, match=r"Kafka at 127\.0\.0\.1:\d+, topic 'x'"):
        mirrored(tmp_path / "log", f"127.0.0.1:{free_port()}", "x")


def test_kafka_killed_while_it_is_mirrored(server: Kafka, topic: str, tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    append(log, range(500))
    trouble: list[str] = []
    at = 500

    async def both() -> None:
        nonlocal at
        mirror = mirror_of(
            tmp_path / "log", server.servers, topic, said=lambda what: trouble.append(str(what.get("trouble", "")))
        )
        running = asyncio.create_task(mirror.run())
        while mirror.cursor.next < 500:
            await asyncio.sleep(0.02)
        killing = asyncio.create_task(asyncio.to_thread(_kill_and_start, server))
        while not killing.done():  # goes on while it dies, while it is dead and while it comes back
            append(log, range(at, at + 40))
            at += 40
            await asyncio.sleep(0.02)
        append(log, range(at, at + 40))
        at += 40
        limit = time.monotonic() + 120
        while mirror.cursor.next < at:
            assert not running.done()
            assert time.monotonic() < limit, trouble
            await asyncio.sleep(0.05)
        mirror.stop()
        await running

    asyncio.run(both())
    log.close()
    wait_until(server.listens, "Kafka does not listen")
    judge(tmp_path / "log", server.servers, topic)


def _kill_and_start(server: Kafka) -> None:
    server.kill()
    server.start()
