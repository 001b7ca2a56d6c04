"""Least-loaded over brokers: who does not keep up gets no more than it can bear."""

from collections import Counter
from typing import Any

import pytest

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.scope.policy import Delivery
from vicinal.siena.loads import REPORT_EVERY, Loads
from vicinal_tools.sim.network import Network

spec = pytest.mark.spec
WORK = Tags({"d": "work"})


class Workshop:
    """Two brokers with a worker each; jobs come at the first."""

    def __init__(self) -> None:
        self.network = Network(ScopeGraph([Scope("work", "d", delivery=Delivery("least-loaded"))]), 1)
        self.got: Counter[str] = Counter()
        self.network.on_deliver = self._delivered
        for name in ("B0", "B1"):
            self.network.start(name).join_scope("work")
            self.network.pump(name)
        self.network.connect("B0", "B1")
        self.network.brokers["B0"].advertise("jobs", Filter("TRUE"), WORK)
        for name, worker in (("B0", "near"), ("B1", "far")):
            self.network.brokers[name].subscribe(worker, Filter("TRUE"), WORK, self.network.now)
            self.network.pump(name)
        self.network.settle()
        self.seq = 0

    def _delivered(self, _broker: str, client: str, _event: Any, _trail: Any) -> None:
        self.got[client] += 1

    def publish(self, count: int, every: int) -> None:
        for _ in range(count):
            self.seq += 1
            self.network.brokers["B0"].publish("jobs", WORK, Event("Job", {}, {}, "jobs", self.seq), self.network.now)
            self.network.pump("B0")
            self.network.run(self.network.now + every)


@spec("SCOPE-44")
@pytest.mark.parametrize("stuck", ["near", "far"])
def test_who_is_stuck_gets_no_more(stuck: str) -> None:
    shop = Workshop()
    for broker in shop.network.brokers.values():
        broker.loads.backlog = lambda client: shop.got[stuck] if client == stuck else 0
    shop.publish(200, 2 * REPORT_EVERY)
    other = {"near": "far", "far": "near"}[stuck]
    assert shop.got[stuck] + shop.got[other] == 200
    assert shop.got[stuck] <= 2
    for broker in shop.network.brokers.values():
        broker.loads.backlog = lambda client: 0
    shop.network.run(shop.network.now + 10 * REPORT_EVERY)
    before = shop.got[stuck]
    shop.publish(100, 2 * REPORT_EVERY)
    assert shop.got[stuck] - before >= 40  # it takes its turns again


def test_those_who_keep_up_share() -> None:
    shop = Workshop()
    shop.publish(100, 2 * REPORT_EVERY)
    assert abs(shop.got["near"] - shop.got["far"]) <= 2


def test_nothing_is_told_when_nothing_has_changed() -> None:
    loads = Loads()
    loads.gave("b1", "c", 0)
    assert loads.due == REPORT_EVERY
    assert loads.reports(REPORT_EVERY - 1) == []
    assert loads.reports(REPORT_EVERY) == [("b1", "c", 1)]
    assert loads.due is None
    loads.backlog = lambda _client: 5
    loads.gave("b1", "c", 1000)
    assert loads.reports(1000 + REPORT_EVERY) == [("b1", "c", 0)]
    assert loads.due == 1000 + 2 * REPORT_EVERY
    assert loads.reports(1000 + 2 * REPORT_EVERY) == []
    loads.forget("c")
    assert loads.reports(1000 + 3 * REPORT_EVERY) == []


def test_nothing_is_kept_of_clients_that_are_gone_or_never_were() -> None:
    shop = Workshop()
    near, far = shop.network.brokers["B0"], shop.network.brokers["B1"]
    for number in range(100):
        far.subscribe(f"w{number}", Filter("TRUE"), WORK, shop.network.now)
        shop.network.pump("B1")
        shop.network.settle()
        shop.publish(3, 1)
        far.drop_client(f"w{number}", shop.network.now)  # some of it is still on its way
        shop.network.pump("B1")
        shop.network.settle()
        far._stream("B0").put(("load", f"nobody{number}", 5))
        far._flush(["B0"], shop.network.now)
        shop.network.pump("B1")
        shop.network.settle()
    routes = near._routes
    assert set(routes._outstanding) | set(routes._done) <= {"near\0B0", "far\0B1"}
    assert {client for _, client in far.loads._given} <= {"far"}
    assert len(near.interest._named) == 1


def test_another_subscription_is_no_work_done() -> None:
    """Who is stuck does not get more by asking for more."""
    shop = Workshop()
    for broker in shop.network.brokers.values():
        broker.loads.backlog = lambda client: shop.got["far"] if client == "far" else 0
    for _ in range(20):
        shop.network.brokers["B1"].subscribe("far", Filter(f"n = {shop.seq}"), WORK, shop.network.now)
        shop.network.pump("B1")
        shop.publish(5, 2 * REPORT_EVERY)
    assert shop.got["far"] <= 2
