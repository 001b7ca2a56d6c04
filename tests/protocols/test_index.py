"""Index matches exactly what one-by-one matching does, whatever is added and removed, in each of its three ways:
evaluating a few terms, counting in Python, counting with numpy."""

import pytest
import strategies
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter, _bucket
from vicinal.filter.index import Index

# (terms evaluated one by one, terms counted in Python): the product's sizes, and such that small cases reach every way
WAYS = {"evaluate": (1000, 2000), "count": (0, 2000), "numpy": (0, 1), "grow": (2, 5), "no numpy": (2, None)}


class IndexMachine(RuleBasedStateMachine):
    keys = Bundle("keys")

    def __init__(self):
        super().__init__()
        self.index = Index()
        self.model = {}
        self.next = 0

    @initialize(way=st.sampled_from(sorted(WAYS)))
    def choose(self, way):
        few, many = WAYS[way]
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(_bucket, "_FEW", few)
        if many is None:
            self.patch.setattr(_bucket, "_postings_cpython", None)
        else:
            self.patch.setattr(_bucket, "_MANY", many)

    @rule(target=keys, texts=st.lists(strategies.filters(), min_size=1, max_size=6))
    def add(self, texts):
        for text in texts:
            condition = Filter(text)
            self.index.add(self.next, condition)
            self.model[self.next] = condition
            self.next += 1
        return self.next - 1

    @rule(key=consumes(keys))
    def remove(self, key):
        self.index.remove(key)
        del self.model[key]

    @rule(events=st.lists(strategies.events(), min_size=1, max_size=8))
    def match(self, events):
        for event in events:
            found = self.index.match(event)
            assert len(found) == len(set(found))
            assert set(found) == {key for key, condition in self.model.items() if condition.matches(event)}

    @invariant()
    def size(self):
        assert len(self.index) == len(self.model)

    def teardown(self):
        self.patch.undo()


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=max(60, settings().max_examples // 5), stateful_step_count=15, deadline=None)


@pytest.mark.parametrize("numpy", [True, False])
def test_thousands_of_filters(numpy, monkeypatch):
    """Enough of them that every list is long, some share thresholds, and half are removed again."""
    if not numpy:
        monkeypatch.setattr(_bucket, "_postings_cpython", None)
    index, filters = Index(), {}
    for i in range(4000):
        texts = (
            f"subject = 'S{i % 40}' AND rate > {i % 100} AND rate <= {i % 100 + 7}",
            f"rate < {i % 50}",
            f"zone LIKE 'z{i % 30}%' AND rate >= {i % 90}.5",
            f"zone IN ('z{i % 30}', 'z{i % 7}') OR rate = {i}",
            f"within(53.{i % 100 + 100}, -6.25, {i % 900 + 1})",
        )
        filters[i] = Filter(texts[i % 5])
        index.add(i, filters[i])
    for i in range(0, 4000, 2):
        index.remove(i)
        del filters[i]
    for i in range(60):
        place = [("lat", 531000000 + i * 1000000), ("lon", -62500000)]
        event = Event(f"S{i}", [("rate", i * 1.5), ("zone", f"z{i}"), *place])
        assert sorted(index.match(event)) == [key for key, one in filters.items() if one.matches(event)]


def test_a_key_is_held_once_and_an_unknown_one_is_refused():
    index = Index()
    index.add("a", Filter("x > 1"))
    with pytest.raises(LocalProtocolError, match="'a' already"):
        index.add("a", Filter("x > 2"))
    index.remove("a")
    with pytest.raises(LocalProtocolError, match="no filter under 'a'"):
        index.remove("a")


def test_an_index_emptied_again_holds_nothing():
    index = Index()
    for i in range(20):
        index.add(("stays", i), Filter(f"x > {i}"))
    for i in range(200):
        for text in (f"subject = 'S{i}' AND rate > {i}", f"n{i} = 1", f"zone LIKE '{'z' * i}a%'", f"m{i} > {i}"):
            index.add((i, text), Filter(text))
        for held in [held for held in index._terms if held[0] == i]:
            index.remove(held)
    assert index._by == ({}, {}, {})
    assert list(index._rest._places[0]) == ["x"]
    assert index.match(Event("S1", [("rate", 100), ("x", 5)])) == [("stays", i) for i in range(5)]


def test_more_alternatives_than_a_normal_form_may_have_still_match_exactly():
    """Past MAX_DNF_TERMS the terms are wider; the filter itself decides."""
    condition = Filter(" AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(10)))
    index = Index()
    index.add("wide", condition)
    yes = Event("s", [(f"a{i}", 1) for i in range(10)])
    no = Event("s", [(f"a{i}", 1) for i in range(9)])
    assert index.match(yes) == ["wide"]
    assert index.match(no) == []
