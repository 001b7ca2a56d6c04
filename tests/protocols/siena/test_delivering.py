"""What is remembered of audiences: how much, and that it is the same as found anew."""

import tracemalloc

import pytest

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.siena import delivering
from vicinal.siena.broker import Broker

CLIENTS = 300


def crowded(each: int) -> Broker:
    """Every rate is for others: client n wants those above n, and has as many more subscriptions."""
    broker = Broker("b1", 1, ScopeGraph())
    broker.advertise("car", Filter("TRUE"), Tags())
    for number in range(CLIENTS):
        for more in range(each):
            broker.subscribe(f"client-{number}", Filter(f"rate > {number} AND lane > {-more - 1}"), Tags(), 0)
    return broker


def publish(broker: Broker, seq: int, rate: float) -> list[tuple[str, tuple[int, ...]]]:
    event = Event("Speed", [("rate", rate), ("lane", 1)], {}, "car", seq)
    broker.publish("car", broker.check_publish("car", 1, event), event, 0)
    return [taker for _, _, takers in broker.deliveries() for taker in takers]


@pytest.mark.parametrize("each", [1, 3])
def test_audiences_take_no_more_memory_than_is_allowed(monkeypatch: pytest.MonkeyPatch, each: int) -> None:
    allowed = 40_000
    monkeypatch.setattr(delivering, "_MAX_REMEMBERED", allowed)
    broker = crowded(each)
    publish(broker, 1, CLIENTS + 1)  # who was given something is remembered too
    broker._forget_audiences()
    tracemalloc.start()
    try:
        most = 0
        for n in range(CLIENTS):
            publish(broker, n + 2, n + 0.5)
            assert broker._remembered <= allowed
            most = max(most, tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert allowed * 16 / 2 < most < allowed * 16 * 1.3
    assert broker._audiences


@pytest.mark.parametrize("each", [1, 3])
def test_who_gets_an_event_is_the_same_however_much_is_remembered(monkeypatch: pytest.MonkeyPatch, each: int) -> None:
    found = []
    for allowed in (0, 2_000, 1 << 30):
        monkeypatch.setattr(delivering, "_MAX_REMEMBERED", allowed)
        broker = crowded(each)
        found.append([publish(broker, n + 1, n * 7 % CLIENTS + 0.5) for n in range(200)])
    assert found[0] == found[1] == found[2]
    assert all(numbers == tuple(range(1, each + 1)) for takers in found[0] for _, numbers in takers)


def test_one_audience_that_is_too_much_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivering, "_MAX_REMEMBERED", 100)
    broker = crowded(1)
    assert len(publish(broker, 1, 1.5)) == 2
    assert len(publish(broker, 2, CLIENTS + 1)) == CLIENTS
    assert len(broker._audiences) == 1
