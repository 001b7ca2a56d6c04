"""Signatures on the curve P-256 (ECDSA, FIPS 186-5), checked with integers alone: a board has SHA-256, and no more.

    key = key_of("02...")                        33 bytes in hex: the point, compressed (SEC 1, 2.3.3)
    check = Check(key, digest, signature)        32 bytes of SHA-256; r and s, 32 bytes each
    while check.step() is None: ...              a little each time, as others must have their turn
    check.step()                                 True: whoever has the private key has signed it

    u G + v Q, both at once, from the highest bit:   double ─▶ add G, Q or G + Q, as the bits of u and v say ─▶ ...

Points are Jacobian, x = X / Z^2 and y = Y / Z^3, so that nothing is divided on the way. What is checked is public: the
time it takes may tell.
"""

import binascii

from .errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Point: TypeAlias = "tuple[int, int]"

__all__ = ["Check", "key_of", "verify"]

# SEC 2, 2.4.2. On a board a literal that is a big integer is made anew wherever it is met: so they are made once.
_P = int("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff", 16)
_N = int("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551", 16)
_B = int("5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b", 16)
_G = (
    int("6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296", 16),
    int("4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5", 16),
)


def key_of(text: str) -> "Point":
    """The point of a public key. One that is not on the curve is none."""
    try:
        data = binascii.unhexlify(text)
    except ValueError:
        data = b""
    if len(data) != 33 or data[0] not in (2, 3):
        raise LocalProtocolError(f"a key of {len(text)} characters, want 66 hex digits that begin with 02 or 03")
    x = int.from_bytes(data[1:], "big")
    square = (x * x * x - 3 * x + _B) % _P
    y = pow(square, (_P + 1) // 4, _P)
    if x >= _P or y * y % _P != square:
        raise LocalProtocolError("the key is no point of the curve P-256")
    return x, y if y & 1 == data[0] & 1 else _P - y


class Check:
    def __init__(self, key: "Point", digest: bytes, signature: bytes) -> None:
        self._result: bool | None = None
        self._bit = 256
        self._at = (1, 1, 0)  # nowhere yet: the point at infinity
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        self._r = r
        if len(signature) != 64 or len(digest) != 32 or not (0 < r < _N and 0 < s < _N):
            self._result = False
            return
        w = pow(s, _N - 2, _N)
        self._u = int.from_bytes(digest, "big") * w % _N
        self._v = r * w % _N
        self._key = key
        self._both = _affine(_add((_G[0], _G[1], 1), key))

    def step(self, bits: int = 8) -> "bool | None":
        """None: there is more to do."""
        if self._result is not None:
            return self._result
        at, bit = self._at, self._bit
        for _ in range(min(bits, bit)):
            bit -= 1
            at = _double(at)
            u, v = self._u >> bit & 1, self._v >> bit & 1
            point = (self._both if v else _G) if u else (self._key if v else None)
            if point is not None:
                at = _add(at, point)
        self._at, self._bit = at, bit
        if bit == 0:
            x, _, z = at
            square = z * z % _P
            # x modulo the order is r: x is r, or once in 2^128 times r and the order.
            self._result = z != 0 and (
                (self._r * square - x) % _P == 0 or (self._r + _N < _P and ((self._r + _N) * square - x) % _P == 0)
            )
        return self._result


def verify(key: "Point", digest: bytes, signature: bytes) -> bool:
    """All at once."""
    return bool(Check(key, digest, signature).step(256))


def _double(point: "tuple[int, int, int]") -> "tuple[int, int, int]":
    x, y, z = point
    if z == 0:
        return point
    delta, gamma = z * z % _P, y * y % _P
    beta = x * gamma % _P
    alpha = 3 * (x - delta) * (x + delta) % _P
    found = (alpha * alpha - 8 * beta) % _P
    return found, (alpha * (4 * beta - found) - 8 * gamma * gamma) % _P, 2 * y * z % _P


def _add(point: "tuple[int, int, int]", other: "Point") -> "tuple[int, int, int]":
    x, y, z = point
    if z == 0:
        return other[0], other[1], 1
    square = z * z % _P
    h = (other[0] * square - x) % _P
    r = (other[1] * z * square - y) % _P
    if h == 0:
        return _double(point) if r == 0 else (1, 1, 0)
    hh = h * h % _P
    hhh, v = h * hh % _P, x * hh % _P
    found = (r * r - hhh - 2 * v) % _P
    return found, (r * (v - found) - y * hhh) % _P, z * h % _P


def _affine(point: "tuple[int, int, int]") -> "Point | None":
    """None: at infinity, where adding changes nothing."""
    x, y, z = point
    if z == 0:
        return None
    inverse = pow(z, _P - 2, _P)
    square = inverse * inverse % _P
    return x * square % _P, y * square * inverse % _P
