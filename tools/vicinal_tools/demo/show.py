"""The demo from start to end: the town is started, runs, is brought to rest and accounted for.

To rest: the vehicles are silent, what is said is heard, stored is delivered, delivered is received. Then the sums are
made while all are still there, and the ground truth is compared with what the office has heard.
"""

import contextlib
import json
import time
import urllib.error
from collections.abc import Callable
from typing import Any, NamedTuple

from .accounts import Accounts, account
from .city import City, DemoError, get
from .judge import Change, Judgement, judge, read_truth
from .reception import read_air, receive

__all__ = ["Show", "Summary"]

REST = 30.0
"""seconds for everything under way to arrive"""
SILENCE = 2.5
"""seconds in which what a car has said last is said"""
PAGE = 1_000


class Summary(NamedTuple):
    vehicles: int
    seconds: float
    accounts: Accounts
    judgement: Judgement
    cases: dict[str, int]
    """by state"""
    fines: int
    """in the smallest unit of the currency"""
    latency_ms: dict[str, dict[str, int]]
    cpu_s: dict[str, float]
    memory_mb: dict[str, int]

    @property
    def holds(self) -> bool:
        return self.accounts.lost == 0 and self.judgement.holds

    def plain(self) -> dict[str, Any]:
        found = self.judgement
        return {
            "vehicles": self.vehicles,
            "seconds": round(self.seconds, 1),
            "hops": self.accounts.hops,
            "losses": self.accounts.losses,
            "said_slowly": found.slow,
            "must_cross": found.must,
            "may_cross": found.may,
            "crossed": found.crossed,
            "missing": [f"{monitor}: {one}" for monitor, one in found.missing],
            "extra": [f"{monitor}: {what}" for monitor, what in found.extra],
            "near": found.near,
            "unheard": len(found.unheard),
            "cases": self.cases,
            "fines": self.fines,
            "latency_ms": self.latency_ms,
            "cpu_s": self.cpu_s,
            "memory_mb": self.memory_mb,
            "holds": self.holds,
        }


class Show:
    def __init__(self, city: City) -> None:
        self.city = city
        self.heard: list[dict[str, Any]] = []
        self.away: list[tuple[str, int, int]] = []
        """monitors that were killed, from when to when they listened again"""
        self._changes: dict[tuple[str, int], Change] = {}
        self._begun = 0.0

    def start(self, tell: Callable[[str], None] = lambda text: None) -> None:
        self.city.start(tell)
        self.look()
        self.city.speak(True)
        self._begun = time.monotonic()

    def look(self) -> dict[str, Any]:
        """Again and again, at least once in some seconds: what is new at the office is written down."""
        self.city.check()
        state = self.city.state()
        for one in state["monitors"]:
            if one["shown"] is not None:
                done = one["done_at"] if one["done"] else 1 << 62
                # Not the area's limit: for a moment that is another one, and the sign has not been asked for it yet.
                change = Change(one["name"], one["wanted"], one["asked_at"], done)
                self._changes[change.monitor, change.asked] = change
        while True:
            after = self.heard[-1]["number"] if self.heard else 0
            more = get(f"{self.city.address}/api/events?after={after}&count={PAGE}")["events"]
            if more and more[0]["number"] != after + 1:
                raise DemoError(f"the office has forgotten events {after + 1} to {more[0]['number'] - 1}")
            self.heard += more
            if len(more) < PAGE:
                return state

    def run(self, seconds: float, tell: Callable[[dict[str, Any]], None] = lambda state: None) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            tell(self.look())
            time.sleep(min(1.0, left))

    def finish(self) -> Summary:
        """Brings it to rest and makes the sums. The vehicles have ended then."""
        city, seconds = self.city, time.monotonic() - self._begun
        city.speak(False)
        time.sleep(SILENCE * max(1.0, 2 * city.plan.scale))
        used = {name: part.cpu_and_memory() for name, part in city.parts.items()}
        code = city.end("fleet")
        if code:
            raise DemoError(f"the vehicles ended with exit code {code}")
        end, before = time.monotonic() + REST, -1
        while True:
            self.look()
            monitors = {name: city.status(name) for name in city.plan.network.monitors}
            accounts = account(_cars(city), monitors, city.accounts())
            roadside = accounts.hops["roadside"]
            # A monitor that was started anew has counted anew: then only the judge knows, when no more comes.
            arrived = accounts.hops["office"]["received"]
            quiet = accounts.lost == 0 or (self.away and arrived == before)
            if (not roadside["stored"] and quiet) or time.monotonic() > end:
                break
            before = arrived
            with contextlib.suppress(urllib.error.URLError):
                time.sleep(0.2)
        self.look()
        cases = get(f"{city.address}/api/cases")["cases"]
        states: dict[str, int] = {}
        for case in cases:
            states[case["state"]] = states.get(case["state"], 0) + 1
        fines = round(100 * sum(float(case["fine"]) for case in cases if case["state"] != "void"))
        truth = read_truth(city.plan.folder / "truth.jsonl")
        changes = sorted(self._changes.values(), key=lambda one: one.asked)
        received = receive(read_air(city.plan.folder / "air.jsonl"))
        judgement = judge(city.plan.network, city.plan.key, truth, self.heard, changes, received, self.away)
        return Summary(
            city.plan.vehicles, seconds, accounts, judgement, states, fines, city.accounts()["latency_ms"],
            {name: round(cpu, 2) for name, (cpu, _) in used.items()},
            {name: memory >> 20 for name, (_, memory) in used.items()},
        )  # fmt: skip


def _cars(city: City) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((city.plan.folder / "fleet-counters.json").read_text())
    return found
