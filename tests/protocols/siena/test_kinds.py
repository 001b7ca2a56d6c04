"""Kinds: what is told covers all that is held, nothing told is covered by another, and equal filters cost nothing."""

import random
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from vicinal.filter import Filter
from vicinal.filter._covering import covers
from vicinal.scope.graph import Tags
from vicinal.siena import kinds as module
from vicinal.siena.kinds import Kind, Kinds

TEXTS = [f"rate {op} {number}" for op in ("<", ">", "=") for number in (10, 20, 30)] + ["TRUE", "plate = 'A'"]


@given(st.integers(0, (1 << 64) - 1))
def test_what_is_told_covers_what_is_held(seed: int) -> None:
    source = random.Random(seed)
    told: dict[int, Kind] = {}

    def tell(key: int, kind: Kind | None) -> None:
        if kind is None:
            del told[key]
        else:
            assert key not in told
            told[key] = kind

    kinds = Kinds(tell)
    held: list[Kind] = []
    for _ in range(30):
        if held and source.random() < 0.4:
            kinds.remove(held.pop(source.randrange(len(held))))
        else:
            tags = source.choice([Tags(), Tags({"geography": "london"})])
            held.append(kinds.add(Filter(source.choice(TEXTS)), tags, source.random() < 0.3))
        assert told == kinds.roots
        for one in held:
            assert any(root.tags == one.tags and covers(root.filter.node, one.filter.node) for root in told.values())
            if one.durable:
                assert any(root.durable and covers(root.filter.node, one.filter.node) for root in told.values())
        for a in told.values():
            for b in told.values():
                assert a is b or not module._covers(a, b)
    for one in held:
        kinds.remove(one)
    assert not told
    assert not kinds._kinds
    assert not kinds._groups


def test_thousands_with_the_same_filter_are_one() -> None:
    """Clients that come and go by thousands with a filter that others hold need no proof and tell nobody anything."""
    told = mock.Mock()
    kinds = Kinds(told)
    first = kinds.add(Filter("rate > 30"), Tags())
    with mock.patch.object(module, "covers", side_effect=AssertionError("a proof")):
        many = [kinds.add(Filter("rate > 30"), Tags()) for _ in range(1000)]
        kinds.remove(first)
        for one in many[1:]:
            kinds.remove(one)
    told.assert_called_once_with(first.key, many[0])


def proofs_of(kinds_with: str, count: int, first: str = "", going: bool = False) -> int:
    """How many proofs it takes to add so many kinds, or to remove the one that came first."""
    kinds = Kinds(lambda key, kind: None)
    cover = kinds.add(Filter(first), Tags()) if first else None
    filters = [Filter(kinds_with.format(number=number)) for number in range(count)]
    if going:
        for condition in filters:
            kinds.add(condition, Tags())
    with mock.patch.object(module, "covers", side_effect=covers) as proof:
        if going:
            assert cover is not None
            kinds.remove(cover)
            assert len(kinds.roots) == count
        else:
            for condition in filters:
                kinds.add(condition, Tags())
    return proof.call_count


def test_what_is_unlike_all_others_comes_and_goes_without_a_proof() -> None:
    text = "plate = {number} AND rate > {number}"
    assert proofs_of(text, 200) == 0
    assert proofs_of(text, 200, "rate > -5") == 200  # each that it is covered
    assert proofs_of(text, 200, "rate > -5", going=True) == 0


def test_filters_that_match_each_others_examples_cost_so_many_proofs_and_no_more() -> None:
    text, count = "NOT rate = {number}", 80
    with mock.patch.object(module, "MAX_FAILURES", 5), mock.patch.object(module, "MAX_FAILURES_GOING", 50):
        assert count < proofs_of(text, count) <= 2 * 5 * count
        assert 0 < proofs_of(text, count, "TRUE", going=True) <= 50


def test_of_two_that_cover_each_other_one_stays() -> None:
    kinds = Kinds(lambda key, kind: None)
    cover = kinds.add(Filter("TRUE"), Tags())
    same = [kinds.add(Filter(text), Tags()) for text in ("rate > 1 AND rate > 2", "rate > 2")]
    kinds.remove(cover)
    assert len(kinds.roots) == 1
    kinds.remove(next(iter(kinds.roots.values())))
    assert len(kinds.roots) == 1
    assert next(iter(kinds.roots.values())) in same
