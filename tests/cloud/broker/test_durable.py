"""Durable subscriptions when something goes wrong: the disk, the scopes, the client."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import Brokers, until
from cloud.broker.inside import Peer, server

from vicinal.errors import LimitError
from vicinal.event import Event
from vicinal.scope.graph import Tags
from vicinal_cloud.broker import limits
from vicinal_cloud.broker.config import load
from vicinal_cloud.broker.server import Server
from vicinal_cloud.log import Log, Refused, entry, entry_of

ALL = Tags()
UK = '[[scope]]\nname = "uk"\ndimension = "place"\n'


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "READ_AGAIN_FIRST", 0.05)


async def producer(one: Server, tags: Tags = ALL) -> Peer:
    found = await Peer.open(one, "car")
    await found.ask("advertise", 1, "TRUE", tags)
    return found


async def publish(car: Peer, *seqs: int, subject: str = "Speed", data: bytes = b"") -> None:
    for seq in seqs:
        await car.ask("publish", 100 + seq, 1, Event(subject, {"data": data}, (), "car", seq))


async def consumer(one: Server, *subscribe: Any) -> Peer:
    found = await Peer.open(one, "office")
    found.say(("credit", 10_000))
    if subscribe:
        await found.ask("subscribe", 1, *subscribe)
    return found


async def seqs(office: Peer, count: int) -> list[int]:
    return [(await office.next("deliver"))[2].seq for _ in range(count)]


async def refusal(peer: Peer, *message: Any) -> str:
    peer.say(message)
    answer = await peer.next("answer")
    assert answer[2] is False, answer
    return str(answer[3])


def storage(one: Server) -> Any:
    return one.node.storage


def counted(one: Server) -> dict[str, int]:
    return dict(one.node.counters.dropped)


@pytest.mark.parametrize("trouble", ["no space", "behind", "between"])
def test_what_a_full_disk_has_refused_comes_again(tmp_path: Path, trouble: str) -> None:
    """In order: what comes after it is not put before it."""

    async def fill() -> None:
        async with server(tmp_path, log=True) as b1:
            car, office = await producer(b1), await consumer(b1, "TRUE", ALL, "d", None)
            await publish(car, 1)
            commits: Any = storage(b1)._durable["office/d"].commits
            append, submit = commits.log.append_batch, commits.submit
            full = True

            def refuse(entries: Any, now: int) -> Any:
                return [Refused("no space", "full")] * len(entries) if full else append(entries, now)

            def behind(entries: Any) -> Any:
                if full:
                    raise LimitError("bytes", 1, 0)
                return submit(entries)

            if trouble == "behind":
                commits.submit = behind
            else:
                commits.log.append_batch = refuse
            await publish(car, 2)
            await until(lambda: counted(b1), "2 is refused")
            full = False
            if trouble == "between":  # the log has refused, and nobody was called back yet
                one = storage(b1)._durable["office/d"]
                one.missed = False
            await publish(car, 3, 4)
            assert await seqs(office, 4) == [1, 2, 3, 4]
            await until(lambda: storage(b1).cursors.cursors["b1"] >= 2, "the cursor moves again")
            assert "out of order" not in counted(b1)

    asyncio.run(fill())


def test_the_log_is_read_for_its_own_broker_as_fast_as_the_disk_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def behind() -> None:
        async with server(tmp_path, log=True) as b1:
            car, office = await producer(b1), await consumer(b1, "TRUE", ALL, "d", None)
            office.writer.close()
            await publish(car, *range(1, 301), data=bytes(1000))
        (tmp_path / "b1.log" / "cursors.json").write_text('{"b1": 0}')
        for segment in (tmp_path / "b1.log" / "durable").rglob("*"):
            if segment.is_file():
                segment.unlink()
        monkeypatch.setattr(limits, "MAX_STORING", 10_000)
        monkeypatch.setattr("vicinal_cloud.log.group_commit.MAX_PENDING_BYTES", 150_000)
        monkeypatch.setattr(limits, "READ_AGAIN_FIRST", 1000)
        append = Log.append_batch

        def slow(log: Log, entries: Any, now: int) -> Any:
            time.sleep(0.05)
            return append(log, entries, now)

        monkeypatch.setattr(Log, "append_batch", slow)
        async with server(tmp_path, log=True) as b1:
            office = await consumer(b1, "TRUE", ALL, "d", None)
            assert await seqs(office, 300) == list(range(1, 301))
            assert "the disk is behind" not in counted(b1)

    asyncio.run(behind())


def test_a_record_that_is_no_event_does_not_end_the_reading(tmp_path: Path) -> None:
    folder = tmp_path / "b1.log"

    async def read() -> None:
        async with server(tmp_path, log=True) as b1:
            await consumer(b1, "TRUE", ALL, "d", None)
        log = Log(folder / "published")
        bad = [entry(b"no event", "x", 1), entry(b"\xd7T\xff\xffno tags", "y", 1), entry(b"\xd7T\x00\x02{}", "z", 1)]
        log.append_batch([*bad, entry_of(Event("Speed", {}, (), "car", 7))], 1)
        log.close()
        async with server(tmp_path, log=True) as b1:
            assert await seqs(await consumer(b1, "TRUE", ALL, "d", None), 1) == [7]
            assert b1.node.replays is not None
            assert b1.node.replays.counts == {"not readable": 3, "published again": 1}

    asyncio.run(read())


def test_what_is_refused_has_changed_nothing(tmp_path: Path) -> None:
    async def ask() -> None:
        async with server(tmp_path, log=True) as b1:
            office = await consumer(b1)
            assert "it is new" in await refusal(office, "subscribe", 1, "TRUE", ALL, "d", 77)
            assert "no scope" in await refusal(office, "subscribe", 2, "TRUE", Tags({"place": "uk"}), "d", None)
            (tmp_path / "b1.log" / "durable").write_text("a file where a folder should be")
            assert "durable" in await refusal(office, "subscribe", 3, "TRUE", ALL, "d", None)
            assert not b1.node.engine.subscriptions.by_key
            assert not storage(b1)._durable
            assert not (tmp_path / "b1.log" / "durable.json").exists()
            (tmp_path / "b1.log" / "durable").unlink()
            await office.ask("subscribe", 4, "TRUE", ALL, "d", None)
            assert "open in this connection" in await refusal(office, "subscribe", 5, "TRUE", ALL, "d", None)
            other = await consumer(b1)
            assert "has 0 to 0" in await refusal(other, "subscribe", 1, "TRUE", ALL, "d", 5)
            await other.ask("subscribe", 2, "TRUE", ALL, "d", 0)

    asyncio.run(ask())


def test_a_name_that_is_used_anew_begins_with_nothing(tmp_path: Path) -> None:
    """Whatever the filter of the one before, and at once."""

    async def again() -> None:
        async with server(tmp_path, log=True) as b1:
            car, office = await producer(b1), await consumer(b1)
            number = await office.ask("subscribe", 1, "subject = 'A'", ALL, "d", None)
            await publish(car, 1, subject="A")
            assert await seqs(office, 1) == [1]
            office.say(("unsubscribe", 2, number), ("subscribe", 3, "subject = 'B'", ALL, "d", None))
            assert (await office.next("answer"))[2]
            answer = await office.next("answer")
            assert answer[2], answer
            await publish(car, 2, subject="B")
            delivered = await office.next("deliver")
            assert (delivered[2].subject, delivered[3]) == ("B", 0)
            await office.ask("unsubscribe", 4, answer[3])
            assert "no subscription" in await refusal(office, "unsubscribe", 5, answer[3])
            await until(lambda: not list((tmp_path / "b1.log" / "durable").glob("*/*")), "no log is left")

    asyncio.run(again())


def test_a_client_has_so_many_durable_subscriptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that it has made in other connections too."""
    monkeypatch.setattr(limits, "MAX_DURABLE_PER_CLIENT", 2)
    monkeypatch.setattr(limits, "MAX_DURABLE", 3)

    async def many() -> None:
        async with server(tmp_path, log=True) as b1:
            for name in ("d1", "d2"):
                await consumer(b1, "TRUE", ALL, name, None)
            office = await consumer(b1)
            assert "which is the limit" in await refusal(office, "subscribe", 1, "TRUE", ALL, "d3", None)
            await office.ask("subscribe", 2, "TRUE", ALL, "d2", None)
            other = await Peer.open(b1, "other")
            await other.ask("subscribe", 1, "TRUE", ALL, "d1", None)
            assert "this broker has 3" in await refusal(other, "subscribe", 2, "TRUE", ALL, "d2", None)

    asyncio.run(many())


@pytest.mark.parametrize("restarted", [False, True])
def test_out_of_a_scope_and_back(tmp_path: Path, restarted: bool) -> None:
    """It goes on from where it was, while another went on all the time."""
    uk = Tags({"place": "uk"})

    def scopes(*join: str) -> Any:
        return load(Brokers(tmp_path).write("b1", log=True, join=join, scopes=UK))

    async def move() -> None:
        async with server(tmp_path, log=True, join=("uk",), scopes=UK) as b1:
            office = await consumer(b1, "TRUE", uk, "d", None)
            await office.ask("subscribe", 2, "TRUE", ALL, "e", None)
            office.writer.close()
            car = await producer(b1, uk)
            await publish(car, 1)
            await until(lambda: storage(b1)._durable["office/d"].commits.log.next == 1)
            b1.reload(scopes())
            assert storage(b1)._durable["office/d"].key == 0
            if not restarted:
                b1.reload(scopes("uk"))
                assert storage(b1)._durable["office/d"].key
                car = await producer(b1, uk)
                await publish(car, 2, 3)
                assert await seqs(await consumer(b1, "TRUE", uk, "d", None), 3) == [1, 2, 3]
        if restarted:
            async with server(tmp_path, log=True, scopes=UK) as b1:
                assert storage(b1)._durable["office/d"].key == 0
                b1.reload(scopes("uk"))
                assert storage(b1)._durable["office/d"].key
                car = await producer(b1, uk)
                await publish(car, 2, 3)
                assert await seqs(await consumer(b1, "TRUE", uk, "d", None), 3) == [1, 2, 3]

    asyncio.run(move())


def test_what_others_had_meanwhile_comes_from_the_log(tmp_path: Path) -> None:
    """The cursor of the broker went on with the others: that of the one outside did not."""
    uk = Tags({"place": "uk"})

    async def move() -> None:
        async with server(tmp_path, log=True, join=("uk",), scopes=UK) as b1:
            office = await consumer(b1, "subject = 'Speed'", uk, "d", None)
            await office.ask("subscribe", 2, "TRUE", ALL, "e", None)
            office.writer.close()
            found = storage(b1)
            found.outside("office/d")
            car = await producer(b1)
            await publish(car, 1, 2)
            found.cursors.mark("b1", 2)
            await until(lambda: found.cursors.cursors["b1"] == 2)
            found.inside()
            b1.node.pump()
            await publish(car, 3)
            assert await seqs(await consumer(b1, "subject = 'Speed'", uk, "d", None), 3) == [1, 2, 3]

    asyncio.run(move())


def test_the_cursor_of_the_broker_itself_is_on_disk_before_the_answer(tmp_path: Path) -> None:
    async def ask() -> None:
        async with server(tmp_path, log=True) as b1:
            car = await producer(b1)
            await publish(car, 1, 2, 3)
            await consumer(b1, "TRUE", ALL, "d", None)
            assert json.loads((tmp_path / "b1.log" / "cursors.json").read_text()) == {"b1": 3}

    asyncio.run(ask())


def test_a_backlog_does_not_get_its_own_reader_cut(tmp_path: Path) -> None:
    async def read() -> None:
        async with server(tmp_path, log=True) as b1:
            car, office = await producer(b1), await consumer(b1, "TRUE", ALL, "d", None)
            office.writer.close()
            await publish(car, *range(1, 401), data=bytes(60_000))
            await until(lambda: storage(b1)._durable["office/d"].commits.log.next == 400)
            office = await consumer(b1, "TRUE", ALL, "d", None)
            await until(lambda: b1.node.sessions["office"].link.backlog > limits.MAX_FED)
            await asyncio.sleep(0.3)  # it does not read, and the broker does not go on
            assert b1.node.sessions["office"].link.backlog < limits.MAX_BUFFER // 2
            assert await seqs(office, 400) == list(range(1, 401))

    asyncio.run(read())
