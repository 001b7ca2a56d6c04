"""The file of cursors when the disk is slow, full, or has been damaged."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import until
from cloud.broker.inside import Peer, server

from vicinal.scope.graph import Tags
from vicinal_cloud.broker import cursors as module
from vicinal_cloud.broker.cursors import Cursors


def test_closing_waits_for_the_write_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cursors.json"
    replace, begun, go_on = module.replace, threading.Event(), threading.Event()

    def slow(*what: Any) -> None:
        begun.set()
        assert go_on.wait(60)
        replace(*what)

    async def close() -> None:
        cursors = Cursors(file, {})
        cursors.mark("b2", 0)
        monkeypatch.setattr(module, "replace", slow)
        cursors.mark("b2", 1)
        await until(begun.is_set)
        cursors.mark("b2", 2)
        closing = asyncio.get_running_loop().create_task(cursors.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        go_on.set()
        await closing
        assert json.loads(file.read_text()) == {"b2": 2}

    asyncio.run(close())


def test_a_write_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cursors.json"
    replace = module.replace

    def once(*what: Any) -> None:
        monkeypatch.setattr(module, "replace", replace)
        raise OSError(28, "No space left on device")

    async def write() -> None:
        monkeypatch.setattr(module, "replace", once)
        found: dict[str, int] = {}
        cursors = Cursors(file, found)
        cursors.mark("b2", 9)
        assert not found
        await until(file.exists)
        assert (json.loads(file.read_text()), cursors.failed) == ({"b2": 9}, 1)
        monkeypatch.setattr(module, "replace", once)
        cursors.mark("b2", 10)
        await until(lambda: json.loads(file.read_text()) == {"b2": 10})
        assert cursors.failed == 2
        cursors.mark("b2", 20)
        await cursors.close()
        assert json.loads(file.read_text()) == {"b2": 20}

    asyncio.run(write())


def test_a_first_cursor_is_on_disk_before_anybody_is_told(tmp_path: Path) -> None:
    """A source that was told one does not know any more where it began: to come back with none would lose events."""
    file = tmp_path / "cursors.json"

    async def mark() -> None:
        found: dict[str, int] = {}
        cursors = Cursors(file, found)
        cursors.mark("b2", 5)
        assert found == json.loads(file.read_text()) == {"b2": 5}
        await cursors.close()

    asyncio.run(mark())


def test_marks_from_before_a_failure_never_count(tmp_path: Path) -> None:
    async def freeze() -> None:
        found: dict[str, int] = {}
        cursors = Cursors(tmp_path / "cursors.json", found)
        put = asyncio.get_running_loop().create_future()
        cursors.putting(put)
        cursors.mark("b2", 10)
        cursors.freeze()
        cursors.thaw()
        put.set_result(None)
        await asyncio.sleep(0)
        assert not found
        cursors.mark("b2", 5)
        assert found == {"b2": 5}
        await cursors.close()

    asyncio.run(freeze())


@pytest.mark.parametrize("text", ["", '{"b1": 1', "[]", '{"b1": "x"}', '{"b1": -1}', "\x80"])
def test_a_damaged_file_costs_repetitions_and_no_events(tmp_path: Path, text: str) -> None:
    async def start() -> None:
        async with server(tmp_path, log=True) as b1:
            office = await Peer.open(b1, "office")
            await office.ask("subscribe", 1, "TRUE", Tags(), "d", None)
        (tmp_path / "b1.log" / "cursors.json").write_bytes(text.encode("latin-1"))
        async with server(tmp_path, log=True) as b1:
            assert b1.node.engine.first_cursor == 0
            await until(lambda: b1.node.engine.cursors == {"b1": 0}, "its own log is read from the start")

    asyncio.run(start())


@pytest.mark.parametrize("text", ["{", '{"b1": 1, "b2": 7}'])
def test_cursors_of_nobody_are_forgotten(tmp_path: Path, text: str) -> None:
    """A broker that died when its last durable subscription had gone: the next wants what comes after it."""

    async def start() -> None:
        async with server(tmp_path, log=True):
            pass
        (tmp_path / "b1.log" / "cursors.json").write_text(text)
        async with server(tmp_path, log=True) as b1:
            assert b1.node.engine.first_cursor is None
            assert not b1.node.engine.cursors
        assert json.loads((tmp_path / "b1.log" / "cursors.json").read_text()) == {}

    asyncio.run(start())
