"""The sentences of protocols/spec/distlist.md."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_helpers import spec

from vicinal.distlist import DistList
from vicinal.errors import LimitError, LocalProtocolError

NAN, INF = float("nan"), float("inf")


@spec("DIST-1", "DIST-2", "DIST-3", "DIST-4", "DIST-5")
def test_distlist_of_the_dissertation() -> None:
    services = [f"ES{i}" for i in range(1, 11)]
    assert DistList("ES1, ES2, ES3").select(services) == services[:3]
    assert DistList("ES*").select(services) == services
    assert DistList("ES?").select(services) == services[:9]
    assert DistList("*").select(services) == services
    assert DistList("").select(services) == DistList("  ").select(services) == []
    assert DistList(" ES1 ,\r\nES2\t,\u2003ES3").select(services) == services[:2]
    assert "es1" not in DistList("ES1")


@spec("DIST-3", "DIST-4")
@given(st.text("aA*?%_\\.[", min_size=1, max_size=6), st.text("aA%_\\.[", max_size=8))
def test_distlist_wildcards(name: str, service: str) -> None:
    reach = {0}
    for char in name:
        if char == "*":
            reach = set(range(min(reach), len(service) + 1)) if reach else reach
        else:
            reach = {at + 1 for at in reach if at < len(service) and char in ("?", service[at])}
    assert (service in DistList(name)) is (len(service) in reach)


@spec("DIST-6", "DIST-7", "DIST-8")
def test_distlist_refusals() -> None:
    for bad in ("ES1,", ",", "ES1,,ES2", " , ES1"):
        with pytest.raises(LocalProtocolError, match="has an empty name"):
            DistList(bad)
    assert "x" * 4096 in DistList("x" * 4096)
    with pytest.raises(LimitError, match="4097, the limit is 4096"):
        DistList("x" * 4097)
    assert DistList("a,b") == DistList("a,b") != DistList("b,a")
