"""The answers of somebody else: Walmart's validator of Linear Road, over an input that our generator makes again.

validator.json has, of each type of answer, how many the validator gave and a digest of them, by key and without `emit`.
The validator itself is not here; its rules are those of the README.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from vicinal_cloud.spark.linear_road.generate import Generator, write_history, write_input
from vicinal_cloud.spark.linear_road.history import TollHistory
from vicinal_cloud.spark.linear_road.plain import LinearRoad
from vicinal_cloud.spark.linear_road.reading import read
from vicinal_cloud.spark.linear_road.rows import LeftOut

pytestmark = pytest.mark.xdist_group("road")

SAID = json.loads(Path(__file__).with_name("validator.json").read_text())
# Of each type, the columns that are its key and its answer.
COLUMNS = {"0": (1, 2, 4, 5), "1": (1, 3, 4, 5, 6), "2": (1, 4, 3, 5), "3": (1, 3, 4)}


def digests(lines: Iterable[str]) -> dict[str, list[int | str]]:
    found: dict[str, list[str]] = {kind: [] for kind in COLUMNS}
    for line in lines:
        cells = [cell.strip() for cell in line.split(",")]
        if cells[0] in found:  # the validator also says type 5, of its own
            found[cells[0]].append(",".join(cells[at] for at in COLUMNS[cells[0]]))
    return {
        kind: [len(rows), hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()] for kind, rows in found.items()
    }


def test_every_answer_is_the_validators(tmp_path: Path) -> None:
    """183,000 notifications, three of four with a toll, 1,790 alerts of an accident, balances and expenditures."""
    asked = SAID["input"]
    path, history = tmp_path / "input.csv", tmp_path / "history.csv"
    generator = Generator(asked["expressways"], asked["seed"], asked["start"])
    for _ in write_input(path, generator, asked["seconds"]):
        pass
    made = hashlib.sha256(path.read_bytes()).hexdigest()
    assert made == asked["sha256"], "another input than the validator was given: numpy draws other numbers, or we do"
    write_history(history, generator.vehicles, asked["expressways"], asked["seed"])
    road = LinearRoad(TollHistory.load(history))
    answers: list[str] = []
    for table in read(path, LeftOut()):
        answers += [line for rows in road.feed(table).rows for line in rows]
    answers += [line for rows in road.finish().rows for line in rows]
    assert digests(answers) == SAID["answers"]
