"""Signatures on P-256 with integers alone, against the cryptography package: the same keys, the same answers."""

import hashlib

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from vicinal import p256
from vicinal.errors import LocalProtocolError
from vicinal_tools.release import public_of, sign

N = p256._N
# Small keys and those near the order: where adding is doubling, or ends at infinity.
privates = st.integers(1, 20) | st.integers(N - 20, N - 1) | st.integers(1, N - 1)


def verified(key: ec.EllipticCurvePrivateKey, data: bytes, signature: bytes) -> bool:
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    try:
        key.public_key().verify(encode_dss_signature(r, s), data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


@pytest.mark.spec("AGENT-18")
@given(privates, st.binary(max_size=40))
def test_what_is_signed_is_good(private: int, data: bytes) -> None:
    key = ec.derive_private_key(private, ec.SECP256R1())
    assert p256.verify(p256.key_of(public_of(key)), hashlib.sha256(data).digest(), sign(key, data))


numbers = st.sampled_from([0, 1, 2, N - 1, N, N + 1, p256._P - 1, p256._P, 2**256 - 1]) | st.integers(0, 2**256 - 1)


@given(privates, st.binary(max_size=8), numbers, numbers, st.integers(0, 511))
def test_what_is_not_signed_is_as_bad_as_for_others(private: int, data: bytes, r: int, s: int, bit: int) -> None:
    key = ec.derive_private_key(private, ec.SECP256R1())
    mine, digest = p256.key_of(public_of(key)), hashlib.sha256(data).digest()
    made = r.to_bytes(32, "big") + s.to_bytes(32, "big")
    assert p256.verify(mine, digest, made) == verified(key, data, made)
    changed = bytearray(sign(key, data))
    changed[bit // 8] ^= 1 << bit % 8
    assert p256.verify(mine, digest, bytes(changed)) == verified(key, data, bytes(changed))


@given(st.binary(min_size=33, max_size=33) | st.binary(max_size=70))
def test_keys(data: bytes) -> None:
    try:
        ours = p256.key_of(data.hex())
    except LocalProtocolError:
        ours = None
    if len(data) != 33 or data[0] not in (2, 3):
        assert ours is None
        return
    try:
        theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), data).public_numbers()
    except ValueError:
        assert ours is None
    else:
        assert ours == (theirs.x, theirs.y)


def test_a_point_whose_x_is_above_the_order() -> None:
    """Once in 2^128 signatures x is r and the order: such a one is made from its end."""
    half = (p256._P - 1) // 2
    x = next(x for x in range(N + 1, N + 50) if pow(x**3 - 3 * x + p256._B, half, p256._P) == 1)
    r, s, u = x - N, 0xABCDEF, 0x1234567
    v = r * pow(s, -1, N) % N
    end = p256.key_of("02" + x.to_bytes(32, "big").hex())
    # The key is (end - u G) / v, so that u G + v key is the end.
    less = times(N - u, p256._G)
    key = times(pow(v, -1, N), p256._affine(p256._add((*end, 1), less)))
    digest, signature = (u * s % N).to_bytes(32, "big"), r.to_bytes(32, "big") + s.to_bytes(32, "big")
    theirs = ec.EllipticCurvePublicNumbers(*key, ec.SECP256R1()).public_key()
    theirs.verify(encode_dss_signature(r, s), digest, ec.ECDSA(Prehashed(hashes.SHA256())))
    assert p256.verify(key, digest, signature)
    assert not p256.verify(key, digest, (r + 1).to_bytes(32, "big") + signature[32:])


def times(number: int, point: "tuple[int, int] | None") -> "tuple[int, int]":
    at = (1, 1, 0)
    assert point is not None
    for bit in range(255, -1, -1):
        at = p256._double(at)
        if number >> bit & 1:
            at = p256._add(at, point)
    found = p256._affine(at)
    assert found is not None
    return found
