"""vicinal sim: small overlays, and what the figures must show whatever the machine."""

import json

import pytest
from click.testing import CliRunner

from vicinal_tools.commands.sim import command
from vicinal_tools.sim.topologies import TOPOLOGIES


def simulate(*options: str) -> dict[str, dict[str, float]]:
    done = CliRunner().invoke(command, ["overlay", "--json", "--brokers", "40", "--notifications", "30", *options])
    assert done.exit_code == 0, done.output
    found: dict[str, dict[str, float]] = json.loads(done.stdout)["variants"]
    return found


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_pruning_saves_messages_and_tables_and_loses_nothing(topology: str) -> None:
    found = simulate("--topology", topology, "--subscriptions", "40")
    everything, nothing = found["all"], found["nothing"]
    assert everything["subscription_messages"] < nothing["subscription_messages"]
    assert everything["table_mean"] < nothing["table_mean"]
    # Covering and advertisements change who is told, never who hears.
    assert (
        everything["deliveries"] == found["no covering"]["deliveries"] == found["no advertisements"]["deliveries"] > 0
    )
    assert found["no scopes"]["deliveries"] == nothing["deliveries"]
    # Scopes keep events where they belong.
    assert everything["brokers_reached"] < found["no scopes"]["brokers_reached"]


def test_the_same_seed_gives_the_same_figures() -> None:
    first, again, other = (simulate("--variant", "all", "--seed", seed)["all"] for seed in ("3", "3", "4"))
    for row in (first, again, other):
        del row["cpu_seconds"]
    assert first == again != other


def test_chaos_says_what_it_saw() -> None:
    done = CliRunner().invoke(command, ["chaos", "--seeds", "3"])
    assert done.exit_code == 0
    assert "3 runs" in done.output
    assert "no property violated" in done.output
