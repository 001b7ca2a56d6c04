"""Traces through gateways, and who an event is of, hidden from the services beyond."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from edge.gateway.within import Ear, applied, gateway, until
from spec_helpers import spec

from vicinal.event import Event
from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym
from vicinal.tables_cpython import ConfigError
from vicinal_edge.adapters.memory import spaces
from vicinal_edge.gateway.config import loads

KEY = bytes(range(32))
NOW = 1_780_000_000_000


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    spaces.clear()
    yield
    spaces.clear()


def pair(a: str, b: str, more: str = "") -> str:
    return (
        f'[[service]]\nname = "{a}"\ntype = "memory"\n[[service]]\nname = "{b}"\ntype = "memory"\n{more}'
        f'[[request]]\ntype = "subscribe"\nsource = "{b}"\nto = "{a}"\nfilter = "subject = \'Speed\'"\n'
    )


@spec("FED-26")
def test_a_trace_is_begun_where_it_shall_and_every_gateway_adds_itself(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            gateway(tmp_path / "1", f"trace = true\n{pair('A', 'B')}", "g1") as first,
            gateway(tmp_path / "2", pair("B", "C"), "g2") as second,
        ):
            bus, far = Ear("A"), Ear("C")
            await until(lambda: applied(first) and applied(second))
            before = first.now()
            bus.publish(Event("Speed", [("rate", 57.0)]))
            bus.publish(Event("Speed", [("rate", 58.0)], {"Time": NOW, "Trace": "earlier 5"}, producer="x", seq=1))
            bus.publish(Event("Speed", [("rate", 59.0)], {"Trace": True}, producer="x", seq=2))
            await until(lambda: len(far.of("Speed")) == 3)
            one, two, three = far.of("Speed")
            (hop,) = [hop.split() for hop in one.attrs["Trace"].split(", ")]
            assert (one.producer, hop[0]) == ("g1/A", "g2/B")
            assert before <= one.attrs["Time"] <= int(hop[1]) <= second.now()
            assert two.attrs["Time"] == NOW
            assert [hop.split()[0] for hop in two.attrs["Trace"].split(", ")] == ["earlier", "g1/A", "g2/B"]
            # What asks brokers alone for their trail goes as it is.
            assert three.attrs["Trace"] is True
            # And who does not ask for one gets none.
            spaces["B"].publish(Event("Speed", [("rate", 1.0)], producer="y", seq=1), bus)
            await until(lambda: len(far.of("Speed")) == 4)
            assert not {"Trace", "Time"} & set(far.of("Speed")[3].attrs)

    asyncio.run(work())


def hiding(folder: Path, scope: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "key").write_text(KEY.hex() + "\n")
    return f'[service.pseudonyms]\nkey = "key"\nscope = "{scope}"\n'


@spec("FED-27")
@pytest.mark.parametrize("store", ["", "store = true\n"])
def test_pseudonyms_of_a_scope_and_a_day(tmp_path: Path, store: str) -> None:
    def of(scope: str, time: int) -> str:
        return pseudonym(day_key(KEY, scope, day_of(time)), "car-7/can")

    async def work() -> None:
        found: dict[tuple[str, int], Event] = {}
        for name, scope in (("g1", "east"), ("g2", "east"), ("g3", "west")):
            spaces.clear()
            text = pair("A", "B", store + hiding(tmp_path / name, scope))
            async with gateway(tmp_path / name, text, name) as node:
                bus, other = Ear("A"), Ear("B")
                await until(lambda node=node: applied(node))  # type: ignore[misc]
                for day in (0, 1):
                    time = NOW + day * 86_400_000
                    attrs = {"Time": time, "Trace": f"car-7/can {time}"}
                    bus.publish(Event("Speed", [("rate", 57.0)], attrs, producer="car-7/can", seq=40 + day))
                await until(lambda other=other: len(other.of("Speed")) == 2)  # type: ignore[misc]
                for day, event in enumerate(other.of("Speed")):
                    found[name, day] = event
                    time = NOW + day * 86_400_000
                    assert event.identity == (of(scope, time), 40 + day)
                    assert event.attrs["Trace"].startswith(f"{of(scope, time)} {time}, {name}/A ")
                    assert "car-7" not in repr(event)
        assert found["g1", 0].producer == found["g2", 0].producer
        assert len({event.producer for event in found.values()}) == 4

    asyncio.run(work())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('key = "none"\nscope = "x"', "No such file"),
        ('key = "words"\nscope = "x"', "hexadecimal"),
        ('key = "short"\nscope = "x"', "4 bytes, want at least 16"),
        ('key = "key"', "scope is missing"),
        ('key = "key"\nscope = "x"\nscop = "y"', "not known"),
    ],
)
def test_keys_that_are_none(tmp_path: Path, table: str, message: str) -> None:
    hiding(tmp_path, "x")
    (tmp_path / "words").write_text("secret")
    (tmp_path / "short").write_text("01020304")
    text = f'[gateway]\nname = "g"\n[[service]]\nname = "A"\ntype = "memory"\n[service.pseudonyms]\n{table}\n'
    with pytest.raises(ConfigError, match=message) as said:
        loads(text.encode(), tmp_path / "gateway.toml")
    assert "[service A.pseudonyms]" in str(said.value)
