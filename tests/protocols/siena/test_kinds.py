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
