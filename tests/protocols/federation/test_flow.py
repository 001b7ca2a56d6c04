"""Token buckets: never more than the rate and the burst, never a longer wait than is owed, whatever the clock does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import LimitError
from vicinal.federation.flow import TokenBucket

RATES = st.integers(1, 5000)
BURSTS = st.integers(1, 500)
STEPS = st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 20)), max_size=60)
HOUR = 3_600_000
JUMPS = st.sampled_from([-10 * 365 * 24 * HOUR, -HOUR, HOUR, 10 * 365 * 24 * HOUR])


def test_begins_full_and_fills_with_time() -> None:
    bucket = TokenBucket(rate=10, burst=3)
    assert [bucket.allow(1, 0) for _ in range(4)] == [True, True, True, False]
    assert bucket.next_time(0) == 100
    assert not bucket.allow(1, 99)
    assert bucket.allow(1, 100)
    assert [bucket.allow(1, 10_000) for _ in range(4)] == [True, True, True, False]


def test_slow_rates() -> None:
    bucket = TokenBucket(rate=1, burst=1, per=60_000)
    assert bucket.allow(1, 0)
    assert bucket.next_time(0) == 60_000
    assert not bucket.allow(1, 59_999)
    assert bucket.allow(1, 60_000)


def test_what_is_larger_than_the_bucket_is_not_shut_out() -> None:
    bucket = TokenBucket(rate=10, burst=2)
    assert bucket.allow(5, 0)
    assert bucket.next_time(0) == 400
    assert not bucket.allow(1, 399)
    assert bucket.allow(1, 400)
    assert bucket.next_time(400, 5) == 600, "when it is full"


def test_what_was_not_used_is_given_back() -> None:
    bucket = TokenBucket(rate=10, burst=2)
    assert bucket.allow(2, 0)
    bucket.give_back(1)
    assert [bucket.allow(1, 0), bucket.allow(1, 0)] == [True, False]
    bucket.give_back(7)
    assert [bucket.allow(1, 0) for _ in range(3)] == [True, True, False]


@given(RATES, BURSTS, STEPS)
def test_never_more_than_rate_and_burst_in_any_span(rate: int, burst: int, steps: list[tuple[int, int]]) -> None:
    bucket = TokenBucket(rate, burst)
    now, sent = 0, []
    for wait, n in steps:
        now += wait
        sent += [now for _ in range(n) if bucket.allow(1, now)]
    for i, start in enumerate(sent):
        for j in range(i, len(sent)):
            assert (j - i + 1 - burst) * 1000 <= (sent[j] - start) * rate


@given(RATES, BURSTS, STEPS)
def test_next_time_is_the_first_at_which_it_is_allowed(rate: int, burst: int, steps: list[tuple[int, int]]) -> None:
    bucket, before, now = TokenBucket(rate, burst), TokenBucket(rate, burst), 0
    for wait, n in steps:
        now += wait
        for _ in range(n):
            assert bucket.allow(1, now) == before.allow(1, now)
        due = bucket.next_time(now)
        assert due - now <= -(-1000 // rate)
        if due > now:
            assert not before.allow(1, due - 1)
            now = due
        assert before.allow(1, now)
        assert bucket.allow(1, now)


@given(RATES, BURSTS, st.lists(st.one_of(JUMPS, st.integers(0, 50)), min_size=1, max_size=30))
def test_a_jump_is_a_burst_at_most_and_no_stall(rate: int, burst: int, steps: list[int]) -> None:
    bucket, now, most = TokenBucket(rate, burst), 2_000_000_000_000, burst * 1000
    given_out = 0
    for step in steps:
        now += step
        most += min(burst * 1000, rate * max(0, step))
        while bucket.allow(1, now):
            given_out += 1
        assert given_out * 1000 <= most
        assert bucket.next_time(now) - now <= -(-1000 // rate)


@pytest.mark.parametrize(
    ("rate", "burst", "per", "what"),
    [(0, 1, 1000, "rate"), (1.5, 1, 1000, "rate"), (1, -1, 1000, "burst"), (1, 1, 0, "period")],
)
def test_what_is_no_bucket(rate: int, burst: int, per: int, what: str) -> None:
    with pytest.raises(LimitError, match=f"^{what} of a token bucket is"):
        TokenBucket(rate, burst, per)
