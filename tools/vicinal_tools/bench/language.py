"""One event: encode, decode, match; and what a stranger can make us spend."""

import json
from collections.abc import Iterator

import cbor2

from vicinal import _cbor_read, wire
from vicinal.errors import RemoteProtocolError
from vicinal.event import Event
from vicinal.filter import Filter

from . import Row, cpu_time

HOSTILE_SECONDS = 0.020


def speed() -> Event:
    params = [("license_no", "00D12345"), ("rate", 57.2), ("lat", 533498000), ("lon", -62603000)]
    return Event("Speed", params, {"Priority": 3, "Time": 1700000000000}, "car-7", 123456)


def rows() -> Iterator[Row]:
    event = speed()
    data = wire.encode(event)
    plain = cbor2.loads(data)
    text = json.dumps(plain)

    def encode() -> bytes:
        event._wire = None  # else the bytes are remembered
        return wire.encode(event)

    ours, peer, peer2 = cpu_time(encode, lambda: json.dumps(plain), lambda: cbor2.dumps(plain, canonical=True))
    yield Row(
        "encode a Speed event", us(ours), f"json.dumps {us(peer)}, cbor2 alone {us(peer2)}", f"{ours / peer:.1f} x json"
    )
    ours, peer, peer2 = cpu_time(lambda: wire.decode(data), lambda: json.loads(text), lambda: cbor2.loads(data))
    yield Row(
        "decode and check it", us(ours), f"json.loads {us(peer)}, cbor2 alone {us(peer2)}", f"{ours / peer:.1f} x json"
    )
    ours, peer = cpu_time(lambda: wire._from_item(_cbor_read.loads(data)), lambda: wire.decode(data))
    yield Row("decode with the device's codec", us(ours), f"with cbor2 {us(peer)}", f"{ours / peer:.1f} x")
    condition = Filter("subject = 'Speed' AND rate > 30")
    params = event.params
    ours, peer = cpu_time(
        lambda: condition.matches(event),
        lambda: event.subject == "Speed" and params["rate"] > 30,  # type: ignore[operator]
    )
    yield Row("match one filter", us(ours), f"the same by hand in Python {us(peer)}", f"{ours / peer:.1f} x")
    yield from _hostile()


def hostile() -> dict[str, bytes]:
    """What takes other decoders seconds, or all memory."""
    bignum = b"\xc2\x49" + ((1 << 61) - 1).to_bytes(9, "big")
    keys = [b"\xc2\x4a" + (i * ((1 << 61) - 1)).to_bytes(10, "big") + b"\x00" for i in range(1, 5001)]
    tuples = [b"\x82\x1b" + (i << 40).to_bytes(8, "big") + b"\x00\x00" for i in range(1, 5001)]
    return {
        "2^61-1 as a bignum": bignum,
        "5,000 bignum keys": b"\xb9" + len(keys).to_bytes(2, "big") + b"".join(keys),
        "5,000 array keys": b"\xb9" + len(tuples).to_bytes(2, "big") + b"".join(tuples),
        "duplicate keys": b"\xb9\x13\x88" + b"\x61a\x00" * 5000,
        "depth bomb": b"\x81" * 65536,
        "map depth bomb": b"\xa1\x00" * 32768,
        "huge array": b"\x9b" + b"\xff" * 8,
        "huge string": b"\x7b" + b"\xff" * 8,
        "64 KiB of small items": b"\x99\xff\xf0" + b"\x00" * 65520,
        "64 KiB of parameters": b"\x85\x61a\xf6\xf6\x99\x7f\xf0" + b"\x61a" * 32752 + b"\x80",
        "tags in tags": b"\xc1" * 65536,
        "a regular expression (tag 35)": b"\xd8\x23\x78\x20" + b"(a+)+$(a+)+$(a+)+$(a+)+$(a+)+$aa",
        "a cycle (tags 28, 29)": b"\xd8\x1c\x81\xd8\x1d\x00",
    }


def refuse(data: bytes) -> None:
    try:
        wire.decode(data)
    except RemoteProtocolError:
        return
    raise AssertionError(f"accepted: {data[:20].hex()}...")


def _hostile() -> Iterator[Row]:
    times = {name: cpu_time(lambda data=data: refuse(data), seconds=0.05)[0] for name, data in hostile().items()}  # type: ignore[misc]
    worst = max(times, key=lambda name: times[name])
    yield Row(
        f"refuse a hostile message, worst of {len(times)}",
        f"{times[worst] * 1000:.2f} ms ({worst})",
        f"limit {HOSTILE_SECONDS * 1000:.0f} ms",
        f"{times[worst] / HOSTILE_SECONDS:.2f} of it",
        "under the limit",
        times[worst] < HOSTILE_SECONDS,
    )


def us(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us"
