"""A neighbour that invents brokers, or says too much of them: it is counted, and costs next to nothing."""

from typing import Any
from unittest import mock

import pytest

from vicinal.errors import LimitError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.siena import interest, streams
from vicinal.siena.broker import Broker
from vicinal.siena.records import Record
from vicinal.siena.streams import MAX_HELD, MAX_HELD_BYTES, WINDOW, Incoming


def linked() -> Broker:
    """To b2, which has said what it is."""
    broker = Broker("b1", 5, ScopeGraph())
    broker.position = 0
    broker.link_up("b2", 0)
    broker.receive("b2", ("record", Record("b2", 7, 1, ("b1",), frozenset(), ())), 0)
    broker.actions()
    return broker


def packet(source: str, number: int, content: "tuple[Any, ...]", incarnation: int = 7) -> "tuple[Any, ...]":
    return ("packets", 1, source, incarnation, (), content, [("b1", 5, 1, number, ())], ())


def big(number: int, size: int) -> Event:
    return Event("x", [("p", b"z" * size)], (), "p", number)


def test_nothing_is_kept_of_brokers_without_a_record() -> None:
    broker = linked()
    for number in range(50):
        source = f"fake{number}"
        broker.receive("b2", packet(source, 1, ("add", 1, Filter("TRUE"), Tags())), 0)
        broker.receive("b2", packet(source, 2, ("resume", 0)), 0)
        broker.receive("b2", packet(source, 3, ("hold",)), 0)
        broker.receive("b2", packet(source, 100, ("event", big(1, 1000), Tags())), 0)
    assert broker.counts["dropped: source without a record"] == 200
    assert (len(broker._in), len(broker._out), len(broker.interest)) == (0, 0, 0)
    assert broker._behind == {}
    assert broker.actions() == []
    assert broker.next_timeout() is None


def test_nor_of_a_start_that_no_record_has_told_of() -> None:
    broker = linked()
    broker.receive("b2", packet("b2", 1, ("add", 1, Filter("TRUE"), Tags()), incarnation=8), 0)
    assert len(broker.interest) == 0
    assert broker.counts["dropped: source without a record"] == 1
    broker.receive("b2", ("record", Record("b2", 8, 1, ("b1",), frozenset(), ())), 0)
    broker.receive("b2", packet("b2", 1, ("add", 1, Filter("TRUE"), Tags()), incarnation=8), 0)
    assert len(broker.interest) == 1


def test_the_interest_of_one_broker_has_a_limit() -> None:
    broker = linked()
    with mock.patch.object(interest, "MAX_INTEREST", 10):
        for number in range(1, 16):
            broker.receive("b2", packet("b2", number, ("add", number, Filter(f"a = {number}"), Tags())), 0)
        assert len(broker.interest) == 10
        assert broker.counts["dropped: too much interest of one broker"] == 5
        broker.receive("b2", packet("b2", 16, ("add", 3, Filter("b = 3"), Tags())), 0)  # in place of another
        assert broker.counts["dropped: too much interest of one broker"] == 5
        broker.receive("b2", packet("b2", 17, ("remove", 3)), 0)
        broker.receive("b2", packet("b2", 18, ("add", 20, Filter("c = 3"), Tags())), 0)
    assert len(broker.interest) == 10
    assert broker.interest.match(Event("x", [("c", 3)])) == {("b2", Tags())}
    broker.interest.forget("b2")
    assert len(broker.interest) == 0
    assert broker.interest.match(Event("x", [("c", 3)])) == set()


def test_a_broker_takes_no_more_subscriptions_than_others_keep() -> None:
    broker = Broker("b1", 5, ScopeGraph())
    with mock.patch.object(interest, "MAX_INTEREST", 10):
        for number in range(10):
            broker.subscribe("a", Filter(f"a = {number}"), Tags(), 0)
        with pytest.raises(LimitError, match="different subscriptions of this broker is 11, the limit is 10"):
            broker.subscribe("a", Filter("a = 10"), Tags(), 0)
        broker.subscribe("b", Filter("a = 3"), Tags(), 0)  # not a different one
        broker.unsubscribe("a", 1, 0)
        broker.subscribe("a", Filter("a = 10"), Tags(), 0)


def test_what_is_held_back_has_a_limit_in_bytes() -> None:
    broker = linked()
    for number in range(2, WINDOW):
        broker.receive("b2", packet("b2", number, ("event", big(number, 60_000), Tags())), 0)
    held = broker._in["b2"].held
    assert MAX_HELD_BYTES // 61_000 - 2 <= len(held) <= MAX_HELD_BYTES // 60_000
    assert broker.counts["lost: too far ahead to be held"] == WINDOW - 2 - len(held)
    # Again what is held already: nothing more is lost or held.
    lost = broker.counts["lost: too far ahead to be held"]
    broker.receive("b2", packet("b2", 2, ("event", big(2, 60_000), Tags())), 0)
    assert broker.counts["lost: too far ahead to be held"] == lost
    # What was missing comes, and there is room again.
    broker.receive("b2", packet("b2", 1, ("void",)), 0)
    assert held == {}
    assert broker._in["b2"]._held_bytes == 0
    assert broker._in["b2"]._sizes == {}


def test_all_that_a_window_has_of_usual_events_is_held() -> None:
    incoming = Incoming((1, 1))
    for number in range(2, WINDOW + 2):
        incoming.take(number, ("event", big(number, 2000), Tags(), (), ()), 0)
    assert incoming.too_far_ahead == 0
    assert len(incoming.take(1, ("void", (), ()), 0)) == WINDOW + 1


def test_numbers_that_no_window_has_are_not_held() -> None:
    incoming = Incoming((1, 1))
    incoming.take(MAX_HELD + 2, ("void", (), ()), 0)
    incoming.take(10**9, ("void", (), ()), 0)
    assert incoming.held == {}
    assert incoming.too_far_ahead == 2
    assert WINDOW <= streams.MAX_HELD
