"""The demo with many vehicles in one process, and its bench: offences are exactly those of the ground truth."""

import os

import pytest

from vicinal_tools.bench.traffic import row
from vicinal_tools.demo.load import Loaded, load

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traffic")]

SOAK = bool(os.environ.get("VICINAL_SOAK"))
VEHICLES, SECONDS, SCALE = (1000, 20, 5.0) if SOAK else (200, 5, 1.2)


@pytest.fixture(scope="module")
def run() -> Loaded:
    return load(VEHICLES, SECONDS, SCALE)


def test_nothing_is_lost_and_nothing_too_much(run: Loaded) -> None:
    judged = run.summary.judgement
    assert run.summary.accounts.lost == 0
    assert (judged.missing, judged.extra) == ([], [])
    assert judged.said >= VEHICLES * SECONDS
    assert judged.must > VEHICLES


def test_offences_agree_with_the_ground_truth(run: Loaded) -> None:
    assert run.offences == run.expected.offences
    assert run.expected.unjust == []
    assert run.expected.over > run.expected.lenient
    assert len(run.offences) > 3
    assert len({one.plate for one in run.offences}) > 3


def test_the_bench_says_so(run: Loaded) -> None:
    found = row(VEHICLES, SECONDS, run)
    assert found.met is True
    assert f"{len(run.offences)} offences" in found.figure
    assert "s of CPU" in found.ratio
    assert " MB" in found.ratio
    less = row(VEHICLES, SECONDS, run._replace(offences=run.offences[1:]))
    assert less.met is False
