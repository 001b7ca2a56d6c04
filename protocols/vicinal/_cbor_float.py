"""The CBOR profile, floats: half, single or double, whichever is shortest and keeps the value (spec/cbor.md).

Apart from the rest, because a node whose events have none does not load it.
"""

import struct


def float_bytes(value: float) -> bytes:
    """The shortest of the three forms that keeps the value; one NaN."""
    if value != value:
        return b"\xf9\x7e\x00"
    infinite = value in (float("inf"), float("-inf"))
    # Past the largest single CPython raises and MicroPython gives infinity.
    if infinite or -3.4028234663852886e38 <= value <= 3.4028234663852886e38:
        single = struct.pack(">f", value)
        if struct.unpack(">f", single)[0] == value:
            half = _half_of(int.from_bytes(single, "big"))
            return b"\xfa" + single if half < 0 else b"\xf9" + half.to_bytes(2, "big")
    return b"\xfb" + struct.pack(">d", value)


def _half_of(single: int) -> int:
    """The 16 bits of a single-precision number, or -1 if they cannot hold it."""
    sign = single >> 16 & 0x8000
    exponent = single >> 23 & 0xFF
    mantissa = single & 0x7FFFFF
    if exponent == 255:
        return sign | 0x7C00
    if exponent == 0 and mantissa == 0:
        return sign
    if 113 <= exponent <= 142 and not mantissa & 0x1FFF:
        return sign | (exponent - 112) << 10 | mantissa >> 13
    shift = 126 - exponent
    if 14 <= shift <= 23:  # subnormal as a half
        mantissa |= 0x800000
        if not mantissa & ((1 << shift) - 1):
            return sign | mantissa >> shift
    return -1


def float_of(info: int, n: int, raw: bytes) -> float:
    """The number of a head's additional information (25, 26, 27), its argument and its bytes."""
    if info == 25:
        return _from_half(n)
    number: float = struct.unpack(">f" if info == 26 else ">d", raw)[0]
    return number


def _from_half(bits: int) -> float:
    exponent, mantissa = bits >> 10 & 31, bits & 0x3FF
    if exponent == 31:
        number = float("nan") if mantissa else float("inf")
    elif exponent == 0:
        number = mantissa / 16777216
    else:
        number = (1024 + mantissa) * 2.0 ** (exponent - 25)
    return -number if bits & 0x8000 else number
