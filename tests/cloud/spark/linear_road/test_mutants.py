"""Every rule that is broken is noticed: by the reference on small traffic, wherever batches end."""

import pickle
from types import ModuleType

import pytest
from cloud.spark.linear_road import reference
from cloud.spark.linear_road.helpers import Row, by_key, history_of, lines_of, table
from cloud.spark.linear_road.mutants import MUTANTS, applied
from cloud.spark.linear_road.test_rules import HISTORY, cuts
from cloud.spark.linear_road.traffic import traffic

# What is right is found out once, by one worker.
pytestmark = pytest.mark.xdist_group("road")

TRAFFICS = 300


@pytest.fixture(scope="module")
def right() -> list[tuple[int, list[Row], list[object]]]:
    return [
        (seed, rows, [tuple(answer) for answer in sorted(reference.answers(rows, HISTORY))])
        for seed, rows in ((seed, traffic(seed)) for seed in range(TRAFFICS))
    ]


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str, right: list[tuple[int, list[Row], list[object]]]) -> None:
    with applied(name) as modules:
        assert any(_is_caught(modules, seed, rows, wanted) for seed, rows, wanted in right)


def test_the_right_one_is_not(right: list[tuple[int, list[Row], list[object]]]) -> None:
    from vicinal_cloud.spark.linear_road import direction, plain

    modules = {"plain": plain, "direction": direction}
    assert all(_same(modules, seed, rows, wanted) for seed, rows, wanted in right)


def _is_caught(modules: dict[str, ModuleType], seed: int, rows: list[Row], wanted: list[object]) -> bool:
    try:
        return not _same(modules, seed, rows, wanted)
    except (IndexError, KeyError, TypeError, ValueError):
        return True


def _same(modules: dict[str, ModuleType], seed: int, rows: list[Row], wanted: list[object]) -> bool:
    """The state of directions goes through pickle between batches, as on Spark."""
    road, answers = modules["plain"].LinearRoad(history_of(HISTORY)), []
    places = [0, *cuts(seed, rows), len(rows)]
    for begin, end in zip(places, places[1:]):  # noqa: RUF007
        if begin < end:
            answers.append(road.feed(table(rows[begin:end])))
            of = modules["direction"].Direction.of
            road._directions = {
                key: of(pickle.loads(pickle.dumps(one.state()))) for key, one in road._directions.items()
            }
    return by_key(lines_of([*answers, road.finish()])) == wanted
