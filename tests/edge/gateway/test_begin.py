"""How a gateway begins: with what it has kept, what it has lost, and what cannot be read, made or loaded."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from edge.gateway.within import Ear, applied, gateway, until

from vicinal.control import Subscription
from vicinal.event import Event
from vicinal.tables_cpython import ConfigError
from vicinal_edge.adapters.memory import MemoryAdapter, spaces
from vicinal_edge.gateway import node as node_module
from vicinal_edge.gateway.config import loads
from vicinal_edge.gateway.node import MARGIN, Node

PAIR = """
[[service]]
name = "A"
type = "memory"
[[service]]
name = "B"
type = "memory"
[[request]]
type = "subscribe"
source = "B"
to = "A"
filter = "subject = 'Speed'"
"""


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    spaces.clear()
    yield
    spaces.clear()


def numbers(ear: Ear) -> list[Any]:
    return [event["n"] for event in ear.of("Speed")]


def test_a_new_card_of_the_same_gateway_counts_above_the_old_one(tmp_path: Path) -> None:
    """Else others take its records for old ones, and its events for those that they have."""

    async def work() -> None:
        seqs, lives = [], []
        for folder in (tmp_path / "old", tmp_path / "new"):
            for _ in range(2):
                async with gateway(folder, PAIR) as node:
                    lives.append(node.engine.incarnation)
                    seqs.append(node.engine.seq)
            start = node.now()
            await until(lambda start=start: node.now() > start + 3000)  # as long as lives of no events are
        assert lives == sorted(set(lives))
        assert seqs == sorted(set(seqs))

    asyncio.run(work())


def test_numbers_that_cannot_be_reserved_are_no_reason_to_stop_while_there_are_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(file: Path, now: int) -> int:
        raise OSError(30, "Read-only file system")

    async def work() -> None:
        async with gateway(tmp_path, PAIR) as node:
            bus, other = Ear("A"), Ear("B")
            await until(lambda: applied(node))
            monkeypatch.setattr(node_module, "reserve", broken)
            node.engine.seq = node._reserved - MARGIN + 1
            for n in range(3):
                bus.publish(Event("Speed", [("n", n)]))
            await until(lambda: numbers(other) == [0, 1, 2])
            assert node.services["A"].counters["faults"] == 0

    asyncio.run(work())


def test_one_request_that_cannot_be_read_costs_no_other(tmp_path: Path) -> None:
    """Nor does a character that some call the end of a line."""
    texts = [f"subject = 'Speed' AND driver = 'a\u2028{n}\x85'" for n in range(3)]

    async def work() -> None:
        async with gateway(tmp_path, PAIR) as node:
            client = Ear("B")
            await until(lambda: applied(node))
            for n, text in enumerate(texts):
                client.publish(Subscription("A", "B", text).to_event().stamp("app", n + 1))
            await until(lambda: len(node.engine.requests.standing) == 4)
        file = tmp_path / "state" / "requests.jsonl"
        lines = file.read_bytes().split(b"\n")
        file.write_bytes(b"\n".join([lines[0], b'{"subject": "\xff', *lines[1:]]))
        async with gateway(tmp_path, PAIR) as node:
            asked = [one["what"] for one in node.engine.requests.report()]
            assert sorted(asked) == sorted([*texts, "subject = 'Speed'"])

    asyncio.run(work())


def test_requests_that_could_not_be_kept_are_kept_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, real = [True], node_module.replace

    def replace(file: Path, text: str) -> None:
        if full[0]:
            raise OSError(28, "No space left on device")
        real(file, text)

    async def work() -> None:
        monkeypatch.setattr(node_module, "replace", replace)
        async with gateway(tmp_path, PAIR) as node:
            client = Ear("B")
            await until(lambda: applied(node))
            client.publish(Subscription("A", "B", "n > 5").to_event().stamp("app", 1))
            await until(lambda: "remember" in node._said, "the disk is full")
            full[0] = False
            await until(lambda: (tmp_path / "state" / "requests.jsonl").exists(), "it is kept now")

    asyncio.run(work())


def test_a_gateway_that_could_not_begin_gives_its_store_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Second(MemoryAdapter):
        def __init__(self, service: str, table: Any) -> None:
            super().__init__(service, table)
            made.append(service)
            if len(made) == 2:
                raise RuntimeError("not twice")

    async def work() -> None:
        monkeypatch.setattr("vicinal_edge.adapters.memory.MemoryAdapter", Second)
        config = loads(b'[gateway]\nname = "g1"\n[[service]]\nname = "A"\ntype = "memory"\n', tmp_path / "gateway.toml")
        with pytest.raises(RuntimeError, match="not twice"):
            await Node.open(config)
        await (await Node.open(config)).stop()

    asyncio.run(work())


@pytest.mark.parametrize("error", [ValueError("bad luck"), SystemExit(2), AttributeError("no class")])
def test_a_plug_in_that_cannot_be_made_or_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    class Bad(MemoryAdapter):
        def __init__(self, service: str, table: Any) -> None:
            raise error

    text = b'[gateway]\nname = "g1"\n[[service]]\nname = "A"\ntype = "memory"\n'
    monkeypatch.setattr("vicinal_edge.adapters.memory.MemoryAdapter", Bad)
    with pytest.raises(ConfigError, match=f"gateway.toml: .service A. type is 'memory'.* {type(error).__name__}"):
        loads(text, tmp_path / "gateway.toml")

    def load(self: Any) -> Any:
        raise error

    monkeypatch.setattr("importlib.metadata.EntryPoint.load", load)
    with pytest.raises(ConfigError, match=f"cannot be loaded: {type(error).__name__}"):
        loads(text, tmp_path / "gateway.toml")


@pytest.mark.parametrize(
    "fixed", ["[nan, 0.0]", "[0.0, inf]", "[91, 0]", "[0, -180.5]", "[1]", "[1, 2, 3]", '["1", 2]']
)
def test_a_place_that_is_nowhere_is_named(tmp_path: Path, fixed: str) -> None:
    text = f'[gateway]\nname = "g1"\n[location]\nfixed = {fixed}\n'
    with pytest.raises(ConfigError, match=r"fixed is .*, want .latitude, longitude. in degrees"):
        loads(text.encode(), tmp_path / "gateway.toml")
