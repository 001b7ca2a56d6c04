"""Names for a day and a scope."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import LimitError
from vicinal.pseudonyms_cpython import day_key, day_of, pseudonym

MASTER = b"0123456789abcdef"


def test_golden() -> None:
    """Computed by hand with another program: bytes that must not change, or tracks of one day fall apart."""
    import hashlib
    import hmac

    key = hmac.new(MASTER, b"day\0old-town\x0020000", hashlib.sha256).digest()
    assert day_key(MASTER, "old-town", 20000) == key
    assert pseudonym(key, "car-7/can") == "p-" + _base32(hmac.new(key, b"car-7/can", hashlib.sha256).digest()[:10])


def _base32(data: bytes) -> str:
    bits = "".join(f"{one:08b}" for one in data)
    return "".join("abcdefghijklmnopqrstuvwxyz234567"[int(bits[at : at + 5], 2)] for at in range(0, len(bits), 5))


@given(st.text(max_size=20), st.text(max_size=20), st.integers(0, 99999), st.integers(0, 99999))
def test_another_scope_or_day_is_another_key(a: str, b: str, day: int, other: int) -> None:
    same = (a, day) == (b, other)
    if "\0" not in a + b:
        assert (day_key(MASTER, a, day) == day_key(MASTER, b, other)) == same


def test_days_and_short_keys() -> None:
    assert day_of(86_400_000 - 1) == 0
    assert day_of(86_400_000) == 1
    with pytest.raises(LimitError, match="15 bytes"):
        day_key(MASTER[1:], "x", 1)
