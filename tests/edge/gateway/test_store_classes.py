"""[[store.class]]: who loses when there is no room, as the configuration says it."""

import asyncio
from pathlib import Path

import pytest
from edge.gateway.within import Ear, applied, gateway, until

from vicinal.event import Event
from vicinal.tables_cpython import ConfigError
from vicinal_edge.adapters.memory import spaces
from vicinal_edge.gateway.config import loads

ALARMS = """
[[store.class]]
name = "alarms"
from = 100
policy = "never"
share = 20
[[store.class]]
name = "rest"
from = -32767
policy = "newest"
"""
PAIR = """
[[service]]
name = "A"
type = "memory"
[[service]]
name = "B"
type = "memory"
store = true
[[request]]
type = "subscribe"
source = "B"
to = "A"
filter = "subject = 'Speed'"
"""


def test_they_are_read(tmp_path: Path) -> None:
    found = loads(f'[gateway]\nname = "g1"\n{ALARMS}'.encode(), tmp_path / "gateway.toml").store["classes"]
    assert [(one.name, one.low, one.policy, one.share) for one in found] == [
        ("alarms", 100, "never", 20),
        ("rest", -32767, "newest", 0),
    ]


def test_a_gateway_runs_with_them(tmp_path: Path) -> None:
    async def work() -> None:
        spaces.clear()
        async with gateway(tmp_path, PAIR + ALARMS) as node:
            a, b = Ear("A"), Ear("B")
            await until(lambda: applied(node), "the request")
            a.publish(Event("Speed", [("n", 1)], {"Priority": 100}, "car-7", 1))
            await until(lambda: b.of("Speed"), "the event")

    asyncio.run(work())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('name = "a"\nfrom = 0', "do not begin at -32767"),
        ('name = "a"\npolicy = "oldst"', "policy is 'oldst', want one of oldest, newest, never"),
        ('name = "a"\nshare = 101', "share is 101"),
        ('name = "a"\nform = 3', "form is not known here: is 'from' meant"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        loads(f'[gateway]\nname = "g1"\n[[store.class]]\n{text}'.encode(), tmp_path / "gateway.toml")
