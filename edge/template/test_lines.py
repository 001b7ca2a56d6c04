"""The contract that every adapter keeps, and what is this one's own. Run: pip install -e '.[test]' && pytest"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from vicinal_lines import LinesAdapter

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.tables_cpython import ConfigError
from vicinal_edge.adapter import Adapter, Unavailable
from vicinal_edge.contract import AdapterContract, RecordingPort, settings

SPEED = Filter("subject = 'Speed'")


class TestLines(AdapterContract):
    @asynccontextmanager
    async def service(self, folder: Path) -> AsyncIterator[Callable[[str], Adapter]]:
        yield lambda name: LinesAdapter(name, settings({"path": str(folder / "events.jsonl"), "poll_ms": 5}))


def speed(n: int) -> Event:
    return Event("Speed", [("n", n)])


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[tuple[LinesAdapter, RecordingPort]]:
    made, port = LinesAdapter("notes", settings({"path": str(path)})), RecordingPort("notes", path.parent)
    await made.connect(port)
    await made.subscribe(SPEED)
    try:
        yield made, port
    finally:
        await made.disconnect()


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


LINE = '{"subject": "Speed", "params": {"n": %d}}\n'


def test_what_people_write(tmp_path: Path) -> None:
    """Before it was looked at, by halves, with blank lines, and nonsense between."""

    async def work() -> None:
        path = tmp_path / "events.jsonl"
        append(path, LINE % 1)
        async with connected(path) as (made, port):
            append(path, LINE % 2 + "\nhello\n" + '{"subject": "Other"}\n' + '{"subject": "Sp')
            await made.poll()
            assert (port.events, port.wrong) == ([speed(2)], ["a line that is no event"])
            append(path, 'eed", "params": {"n": 3}}\n')
            await made.poll()
            assert port.events == [speed(2), speed(3)]
            assert made.status()["lines read"] == 3

    asyncio.run(work())


def test_half_a_line_before_ours(tmp_path: Path) -> None:
    async def work() -> None:
        path = tmp_path / "events.jsonl"
        async with connected(path) as (one, port), connected(path) as (two, heard):
            append(path, "half")
            await one.publish(speed(1))
            append(path, LINE % 2)
            for made in (one, two):
                await made.poll()
            assert (heard.events, heard.wrong) == ([speed(1), speed(2)], ["a line that is no event"])
            assert port.events == [speed(2)]

    asyncio.run(work())


@pytest.mark.parametrize("how", ["moved", "cut", "gone"])
def test_logrotate(tmp_path: Path, how: str) -> None:
    async def work() -> None:
        path = tmp_path / "events.jsonl"
        async with connected(path) as (made, port):
            await made.publish(speed(1))
            append(path, LINE % 2)
            await made.poll()
            if how == "moved":
                append(path, LINE % 3)
                path.rename(tmp_path / "events.jsonl.1")
            elif how == "gone":
                path.unlink()
            else:
                path.write_text("")
            append(path, LINE % 4)
            await made.publish(speed(5))
            await made.poll()
            assert [event["n"] for event in port.events] == ([2, 3, 4] if how == "moved" else [2, 4])
            assert '"n": 5' in path.read_text()

    asyncio.run(work())


def test_a_line_without_end_is_not_kept(tmp_path: Path) -> None:
    async def work() -> None:
        path = tmp_path / "events.jsonl"
        async with connected(path) as (made, port):
            append(path, "x" * 400_000)
            await made.poll()
            append(path, "x\n" + LINE % 1)
            await made.poll()
            assert port.events == [speed(1)]
            assert set(port.wrong) == {"a line that is no event"}

    asyncio.run(work())


def test_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="path is missing"):
        LinesAdapter("notes", settings({}))

    async def work() -> None:
        made: Any = LinesAdapter("notes", settings({"path": str(tmp_path / "no" / "folder")}))
        with pytest.raises(Unavailable, match="No such file"):
            await made.connect(RecordingPort("notes", tmp_path))

    asyncio.run(work())
