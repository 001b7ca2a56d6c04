"""What agents hold back at a broker with a disk: across starts, other deployments and holders, and failing disks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import balanced, until
from cloud.broker.inside import Peer, server

from vicinal.event import Event
from vicinal.limits import MAX_EVENT_BYTES
from vicinal.scope.graph import Tags
from vicinal_cloud.broker.server import Server
from vicinal_cloud.log.errors import OffsetGone

IN_S, IN_TOP = Tags({"m": "S"}), Tags({"m": "Top"})
spec = pytest.mark.spec


def scopes(publishing: str = "{ delay = 200 }", holder: str = "") -> str:
    return f"""
[[scope]]
name = "Top"
dimension = "m"
[[scope]]
name = "S"
dimension = "m"
supers = ["Top"]
output = "TRUE"
input = "FALSE"
publishing = [{publishing}]
{f'holder = "{holder}"' if holder else ""}
"""


def event(seq: int, size: int = 1, subject: str = "X") -> Event:
    return Event(subject, [("n", seq), ("bytes", b"x" * size)], {}, "car", seq)


def running(folder: Path, text: str = "", **what: Any) -> Any:
    (folder / "scopes.toml").write_text(text or scopes())
    return server(folder, **{"log": True, "scopes": "scopes.toml", "join": ("Top", "S"), **what})


async def producer(one: Server) -> Peer:
    found = await Peer.open(one, "car")
    assert await found.ask("advertise", 1, "TRUE", IN_S) == 1
    return found


async def listener(one: Server, durable: str | None = None) -> Peer:
    found = await Peer.open(one, "home")
    found.say(("credit", 1 << 20))
    await found.ask("subscribe", 1, "TRUE", IN_TOP, durable, None)
    return found


async def heard(peer: Peer, count: int) -> list[Any]:
    return [(await peer.next("deliver"))[2].attrs["OriginSeq"] for _ in range(count)]


def test_what_is_too_large_to_be_stored_again_takes_nothing_with_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as one:
            home, car = await listener(one), await producer(one)
            for seq, size in ((1, 1), (2, MAX_EVENT_BYTES - 90), (3, 1)):
                await car.ask("publish", seq, 1, event(seq, size))
            assert await heard(home, 2) == [1, 3]
            counts = one.status()["held"]
            assert (counts["released"], counts["dropped: too large to be let go"]) == (2, 1)
            await until(lambda: balanced(one.status()))

    asyncio.run(work())


def test_a_log_that_cannot_be_read_for_now_or_was_trimmed_does_not_end_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OSError("the disk is away"), OffsetGone(0, 1)]

    async def work() -> None:
        monkeypatch.setattr("vicinal_cloud.broker.holding._AGAIN", 0.01)
        async with running(tmp_path) as one:
            assert one.node.storage is not None
            (agent,) = one.node.storage.holding()
            read = agent.commits.log.read

            def failing(*what: Any) -> Any:
                if errors:
                    raise errors.pop(0)
                return read(*what)

            monkeypatch.setattr(agent.commits.log, "read", failing)
            home, car = await listener(one), await producer(one)
            for seq in (1, 2, 3):
                await car.ask("publish", seq, 1, event(seq))
            assert await heard(home, 2) == [2, 3]
            assert not errors
            assert one.status()["held"]["dropped: retention was faster"] == 1

    asyncio.run(work())


@spec("SCOPE-34")
def test_what_was_let_go_and_waits_in_a_log_is_not_heard_of_who_was_revoked(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path) as one:
            home, car = await listener(one, "all"), await producer(one)
            await car.ask("publish", 1, 1, event(1))
            assert await heard(home, 1) == [1]
            home.writer.close()
            await until(lambda: "home" not in one.node.sessions)
            await car.ask("publish", 2, 1, event(2))
            await until(lambda: one.status()["held"]["released"] == 2)
            await until(lambda: one.status()["log"]["durable"][-1]["next"] == 2)
            now = one.node.now() + 1
            one.node.engine.administer(("revoke", "car", now), now)
            one.node.pump()
            bus = await Peer.open(one, "bus")
            assert await bus.ask("advertise", 1, "TRUE", IN_S) == 1
            again = await Peer.open(one, "home")
            again.say(("credit", 1 << 20))
            await again.ask("subscribe", 1, "TRUE", IN_TOP, "all", 0)
            await bus.ask("publish", 2, 1, Event("X", (), {}, "bus", 7))
            assert await heard(again, 1) == [7]

    asyncio.run(work())


@spec("SCOPE-43")
def test_a_broker_that_holds_no_more_after_a_start_lets_go_what_it_has(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, scopes("{ delay = 3_000 }")) as one:
            car = await producer(one)
            await car.ask("publish", 1, 1, event(1))
            await until(lambda: one.status()["held"].get("held") == 1)
            assert "released" not in one.status()["held"]
        async with running(tmp_path, scopes("{ delay = 3_000 }", "b2")) as one:
            home, car = await listener(one), await producer(one)
            assert await heard(home, 1) == [1]  # what it has it lets go
            await car.ask("publish", 2, 1, event(2))
            assert one.node.engine.counts["dropped: nobody holds what leaves its scope"] == 1
            assert not [client for client in one.node.engine.clients() if client.startswith("@")]
            (held,) = one.status()["log"]["durable"]
            assert held["next"] == 1

    asyncio.run(work())


def test_what_the_disk_does_not_take_is_let_go_later_in_its_order(tmp_path: Path) -> None:
    async def work() -> None:
        async with running(tmp_path, scopes("{ delay = 300 }")) as one:
            home, car = await listener(one), await producer(one)
            storage: Any = one.node.storage
            real, refused = storage.submit, []

            def submit(entries: Any) -> Any:
                if refused or not entries[0].producer.startswith("@"):
                    return real(entries)
                refused.extend(entries)
                found = asyncio.get_running_loop().create_future()
                found.set_result(["there is no space"] * len(entries))
                return found

            storage.submit = submit
            await car.ask("publish", 1, 1, event(1))
            await until(lambda: refused)
            await car.ask("publish", 2, 1, event(2))
            assert await heard(home, 2) == [1, 2]
            await until(lambda: balanced(one.status()))
            assert one.status()["publishes"]["refused"] == {"let go, and not stored": 1}

    asyncio.run(work())
