"""What the agent must reach on a device, in a short run (bench/agent.py has the million events), and on a drive."""

import pytest
from can_helpers import AT_50, FORD, FROM_30_TO_80, captures

from vicinal_tools.bench import agent, update


@pytest.mark.micropython
def test_memory_on_a_device() -> None:
    found = agent.device(6_000)
    assert found.offered >= 6_000
    assert found.rules == 5
    assert found.wanted > 100
    assert found.sirens > 0
    assert 0 < found.delivered < found.offered
    assert found.low >= agent.GOAL_FREE, found
    assert found.tree < agent.GOAL_TREE


@pytest.mark.micropython
def test_memory_while_it_is_updated() -> None:
    found = update.update()
    assert found.files == found.total
    assert found.low >= update.GOAL_FREE, found
    beside = update.update(False, False)
    assert beside.files == 1
    assert beside.before - beside.low < update.GOAL_TAKEN, beside


@pytest.mark.micropython
def test_memory_of_one_that_publishes_on_its_bus_and_in_the_air() -> None:
    found = agent.device(1_500, ways=True)
    assert found.low >= agent.GOAL_FREE, found
    assert found.out > 3


@captures
@pytest.mark.parametrize("log", [AT_50, FROM_30_TO_80], ids=["50", "30 to 80"])
def test_a_drive_on_change_of_one_kilometre_an_hour(log) -> None:  # type: ignore[no-untyped-def]
    found = agent.drive(log, FORD)
    assert found.frames > 500
    assert 0 < found.sent < agent.GOAL_SHARE * found.frames
    assert found.off < 1.0
    assert agent.drive(log, FORD, 0.001).sent > found.sent
