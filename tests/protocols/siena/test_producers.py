"""What is remembered of producers: as a memory without limits would, as long as there is room; then less, not more."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.siena import producers
from vicinal.siena.broker import Broker
from vicinal.siena.producers import Producers


def publish(broker: Broker, client: str, seq: int) -> "int | None":
    return broker.publish(client, Tags(), Event("Speed", [], {}, client, seq), 0)


def test_producers_that_are_gone_are_forgotten_and_clients_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "MAX_PRODUCERS", 100)
    broker = Broker("b1", 1, ScopeGraph())
    broker.subscribe("office", Filter("TRUE"), Tags(), 0)
    broker.advertise("quiet", Filter("TRUE"), Tags())
    publish(broker, "quiet", 7)
    for number in range(1000):
        name = f"car-{number}"
        broker.advertise(name, Filter("TRUE"), Tags())
        publish(broker, name, 1)
        assert publish(broker, name, 1) is None
        broker.drop_client(name, 0)
        assert len(broker._producers) <= 101
        assert len(broker._producers._givers["office"]) <= 101
    assert broker.last_published("quiet") == 7
    assert publish(broker, "quiet", 7) is None
    assert broker.last_published("car-999") == 1
    assert broker.last_published("car-0") == -1
    assert broker.counts["producers forgotten"] + len(broker._producers) == 1001
    assert len(broker.deliveries()) == 1001


def test_who_publishes_again_and_again_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "MAX_PRODUCERS", 100)
    broker = Broker("b1", 1, ScopeGraph())
    for number in range(1000):
        publish(broker, f"car-{number}", 1)
        if number % 40 == 0:
            publish(broker, "bus", number)
    assert broker.last_published("bus") == 960


def test_that_many_clients_get_from_many_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "MAX_GIVEN", 200)
    broker = Broker("b1", 1, ScopeGraph())
    for number in range(20):
        broker.subscribe(f"office-{number}", Filter("TRUE"), Tags(), 0)
    for number in range(100):
        publish(broker, f"car-{number}", 1)
    known = broker._producers
    pairs = sum([len(one.given) for one in [*known.recent.values(), *known._older.values()]])
    assert pairs <= 200
    assert pairs == sum([len(names) for names in known._givers.values()])


def test_a_client_that_goes_is_looked_for_only_where_it_is() -> None:
    """Not at all producers: only what it was given is touched."""
    broker = Broker("b1", 1, ScopeGraph())
    one = broker.subscribe("one", Filter("TRUE"), Tags(), 0)
    publish(broker, "car", 1)
    broker.unsubscribe("one", one, 0)
    publish(broker, "bus", 1)
    broker._producers.recent["bus"].given = None  # type: ignore[assignment]
    broker.drop_client("one", 0)
    assert broker._producers.recent["car"].given == {}
    assert broker._producers._givers == {}


STEPS = st.lists(st.tuples(st.sampled_from("gggf"), st.integers(0, 5), st.sets(st.integers(0, 3), min_size=1)))


@given(STEPS, st.integers(1, 12), st.integers(1, 30))
def test_the_index_and_the_counts_are_those_of_what_is_there(
    steps: "list[tuple[str, int, set[int]]]", most: int, pairs: int
) -> None:
    model: dict[str, dict[str, int]] = {}
    counts: Counter[str] = Counter()

    def count(what: str, by: int) -> None:
        counts[what] += by

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(producers, "MAX_PRODUCERS", most)
        patch.setattr(producers, "MAX_GIVEN", pairs)
        known = Producers(lambda name: name == "p0", count)
        for time, (kind, producer, clients) in enumerate(steps):
            name, names = f"p{producer}", [f"c{client}" for client in clients]
            if kind == "f":
                known.forget_client(names[0])
                for given in model.values():
                    given.pop(names[0], None)
            else:
                one = known.recent.get(name) or known.recall(name)
                before = len(one.given)
                for client in names:
                    one.given[client] = model.setdefault(name, {})[client] = time
                if len(one.given) > before:
                    known.gave(name, before, names)
            everyone = {**known.recent, **known._older}
            assert len(everyone) == len(known) <= max(most, 2) + 1
            held = {(client, who) for who, one in everyone.items() for client in one.given}
            assert held == {(client, who) for client, whose in known._givers.items() for who in whose}
            assert known._pairs == sum([len(one.given) for one in known.recent.values()])
            # Less than is true is known, perhaps, but nothing that is not.
            for who, one in everyone.items():
                assert one.given.items() <= model[who].items()
