"""`kill -9` of random brokers under load: no durable subscriber misses anything, gets it twice or in another order.

200 kills in `make test`, 10,000 in `make soak`; VICINAL_BROKER_KILLS says otherwise, VICINAL_SEED gives another start.
A run that fails prints its plan with the seed, what is missing and who was killed around it; to run it again by hand:
`cd tests && python -m cloud.broker.kills.attack ring 100 7`.
"""

import os
from pathlib import Path

import pytest
from cloud.broker.kills import attack
from cloud.broker.kills.attack import Plan, check
from cloud.broker.kills.mutants import MUTANTS

KILLS = int(os.environ.get("VICINAL_BROKER_KILLS", "10000" if os.environ.get("VICINAL_SOAK") else "200"))
SEED = int(os.environ.get("VICINAL_SEED", "1"))
# A log grows for ever; a run of more kills than this is several, each with a seed of its own.
AT_ONCE = 250

PLANS = {
    "ring": Plan("ring", 0, 0),
    "scoped line": Plan("line", 0, 0, subscribers=("b1", "b3"), scoped=True),
    "star, many at once": Plan("star", 0, 0, subscribers=("b2", "b3", "b4"), together=0.5),
    "fast pair": Plan("pair", 0, 0, rate=400, away=0.1, between=0.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_nothing_acknowledged_is_lost(tmp_path: Path, name: str) -> None:
    left, seed = -(-KILLS // len(PLANS)), SEED
    while left > 0:
        kills = min(left, AT_ONCE)
        folder = tmp_path / str(seed)
        folder.mkdir()
        check(folder, PLANS[name]._replace(kills=kills, seed=seed))
        left, seed = left - kills, seed + 1


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_caught(tmp_path: Path, mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "QUIET", 4.0)
    plan = Plan("pair", 16, SEED, rate=400, together=0.5, pauses=0, mutant=mutant)
    with pytest.raises(AssertionError, match=r"[1-9]\d* lost"):
        check(tmp_path, plan)
