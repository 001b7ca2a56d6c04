"""Records: what is advertised fits into one message whatever comes and goes, and is said together and in no hurry."""

import random
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.siena import records
from vicinal.siena.broker import Broker, Refused
from vicinal.siena.messages import MAX_BYTES_BROKER, MAX_ITEMS_BROKER, encode
from vicinal.siena.messages_read import decode
from vicinal.siena.records import SAY_EVERY, Record

GRAPH = ScopeGraph([Scope("uk", "place"), Scope("press", "group")])
TAGS = [Tags(), Tags({"place": "uk"}), Tags({"place": "uk", "group": "press"}, rest=False)]


def broker() -> Broker:
    found = Broker("b1", 1, GRAPH)
    for scope in GRAPH.scopes:
        found.join_scope(scope)
    found.link_up("b2", 0)
    found.actions()
    return found


def said(one: Broker) -> list[Record]:
    """The records for its neighbour."""
    return [message[1] for _, _, message in one.actions() if message[0] == "record"]


def items_of(value: Any) -> int:
    return 1 + sum([items_of(each) for each in value]) if isinstance(value, list) else 1


@given(st.integers(0, (1 << 64) - 1))
def test_what_is_advertised_is_counted_as_it_is_said(seed: int) -> None:
    source = random.Random(seed)
    one = broker()
    held: list[tuple[str, int]] = []
    texts = ["TRUE", "rate > 1", "rate > 2", "plate = 'ä'", "NOT rate = 3"]
    with mock.patch.object(records, "MAX_ADVERT_ITEMS", 40), mock.patch.object(records, "MAX_ADVERT_BYTES", 150):
        for _ in range(40):
            if held and source.random() < 0.4:
                one.unadvertise(*held.pop(source.randrange(len(held))))
            else:
                client = source.choice(["a", "b"])
                try:
                    number = one.advertise(client, Filter(source.choice(texts)), source.choice(TAGS))
                except Refused:
                    continue
                held.append((client, number))
            kinds = {
                (str(kind.filter), kind.tags)
                for some in one._adverts.values()
                for held in some.values()
                for kind in held.kinds
            }
            flat = [[text, tags.item()] for text, tags in kinds]
            assert one._advertised_size.items == sum(map(items_of, flat)) <= 40
            assert one._advertised_size.bytes == sum([len(records.dumps(each)) for each in flat]) <= 150
    one._say()
    (*_, record) = said(one)
    assert {(str(condition), tags) for condition, tags in record.adverts} <= kinds


def fill(one: Broker, size: int, tags: Tags) -> None:
    for number in range(MAX_ITEMS_BROKER):
        one.advertise("a", Filter(f"p = {number} AND q = '{'x' * size}'"), tags)


@pytest.mark.parametrize("size", [1, 4000])
def test_whatever_is_advertised_neighbours_can_read_it(size: int) -> None:
    one = broker()
    first = one.advertise("a", Filter("TRUE"), TAGS[2])
    with pytest.raises(Refused, match="the limit is"):
        fill(one, size, TAGS[2])
    count = len(one._adverts["a"]) - 1
    assert count > 150
    one.unadvertise("a", first)  # which covered all of them
    (record,) = said(one)
    assert len(record.adverts) == count
    data = encode(("record", record))
    assert len(data) < MAX_BYTES_BROKER
    # Parsing thousands of filters is another matter: whether the message is within its limits is seen before.
    with mock.patch("vicinal.siena.messages_read._filter", side_effect=lambda text: text):
        assert len(decode(data)[1].adverts) == count


def test_the_same_for_many_clients_counts_once() -> None:
    one = broker()
    for number in range(100):
        one.advertise(f"c{number}", Filter("rate > 1"), Tags())
    assert one._advertised_size.items == 4
    for number in range(100):
        one.drop_client(f"c{number}", 0)
    assert (one._advertised_size.items, one._advertised_size.bytes) == (0, 0)


def test_many_changes_are_said_once() -> None:
    one = broker()
    for number in range(100):
        one.advertise("a", Filter(f"rate = {number}"), Tags())
    (record,) = said(one)
    assert len(record.adverts) == 100
    assert said(one) == []


def test_the_first_change_is_said_at_once_and_the_next_not_before_its_time() -> None:
    one = broker()
    one.handle_timeout(10_000)
    one.advertise("a", Filter("rate = 1"), Tags())
    assert len(said(one)) == 1
    assert one.next_timeout() is None
    one.advertise("a", Filter("rate = 2"), Tags())
    assert said(one) == []
    due = one.next_timeout()
    assert due == 10_000 + SAY_EVERY
    one.handle_timeout(due - 1)
    assert said(one) == []
    one.handle_timeout(due)
    assert [len(record.adverts) for record in said(one)] == [2]
    assert one.next_timeout() is None


def test_a_broker_that_was_told_no_time_for_long_asks_for_it() -> None:
    """Advertising tells none: the timeout is due long since, and a shell handles it at once."""
    one = broker()
    one.handle_timeout(10_000)
    one.advertise("a", Filter("rate = 1"), Tags())
    assert len(said(one)) == 1
    one.advertise("a", Filter("rate = 2"), Tags())  # an hour later
    due = one.next_timeout()
    assert due is not None
    one.handle_timeout(due + 3_600_000)
    assert len(said(one)) == 1
    one.advertise("a", Filter("rate = 3"), Tags())
    assert one.next_timeout() == due + 3_600_000 + SAY_EVERY


def test_churn_costs_few_records_and_fewer_when_they_are_long() -> None:
    counts = []
    for many in (0, 800):
        one = broker()
        for number in range(many):
            one.advertise("a", Filter(f"rate = {number}"), Tags())
        said(one)
        count = 0
        for now in range(0, 10_000, 10):
            one.handle_timeout(now)
            one.unadvertise("b", one.advertise("b", Filter(f"plate = {now}"), Tags()))
            count += len(said(one))
        counts.append(count)
    assert 45 <= counts[0] <= 51
    assert 23 <= counts[1] <= 26


def test_links_and_scopes_are_said_at_once() -> None:
    one = broker()
    one.advertise("a", Filter("rate = 1"), Tags())
    said(one)
    one.advertise("a", Filter("rate = 2"), Tags())
    one.leave_scope("uk")
    (record,) = said(one)
    assert record.scopes == {"press"}
    assert len(record.adverts) == 2  # and what waited with it
    one.link_up("b3", 0)
    assert said(one)
