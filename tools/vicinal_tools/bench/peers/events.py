"""The event of all runs: a Speed event of 93 bytes, and its payload with the peers too.

    85 65 Speed  6c car-00D12345  1b <seq: 8>  88 license_no 00D12345 rate fb 40 50 <step> <5> lat .. lon ..  82 03 Time

Sequence numbers begin at 2^32 and rates are doubles, so that every event has the same size: who receives can count
bytes. A rate is 64 km/h and a number of 64ths, one of a hundred, so that one byte at a fixed place tells them apart:
who must filter by itself needs to look at nothing else.
"""

from vicinal.event import Event
from vicinal.wire import encode

__all__ = ["FIRST_SEQ", "SIZE", "STEPS", "STEP_AT", "condition", "packets", "producer"]

FIRST_SEQ = 1 << 32
STEPS = 100
_ABOVE = 0.001  # so that no shorter float holds the rate


def producer(number: int) -> str:
    return f"car-00D{number:05}"


def _encoded(name: str, step: int) -> bytes:
    params = [("license_no", name[4:]), ("rate", 64 + step / 64 + _ABOVE), ("lat", 533438000), ("lon", -62546000)]
    return encode(Event("Speed", params, {"Time": 1700000000000}, producer=name, seq=FIRST_SEQ))


_one = _encoded(producer(0), 0)
SIZE = len(_one)
STEP_AT = _one.index(b"\xfb\x40\x50") + 3
_SEQ_AT = _one.index(FIRST_SEQ.to_bytes(8, "big"))


def condition(step: int, variant: int) -> str:
    """True of the events of one step: of one in a hundred. Variants (0 to 9) differ in their text and their limits."""
    low = 64 + (step - 0.05 * variant) / 64
    high = 64 + (step + 1 - 0.05 * variant) / 64
    return f"subject = 'Speed' AND rate >= {low:.6f} AND rate < {high:.6f}"


def packets(name: str, prefix: bytes, suffix: bytes, first: int, count: int) -> list[bytes]:
    """Events of one producer as they are sent, numbered from `first`, all steps equally often."""
    heads = []
    tails = []
    for step in range(STEPS):
        data = _encoded(name, step)
        heads.append(prefix + data[:_SEQ_AT])
        tails.append(data[_SEQ_AT + 8 :] + suffix)
    found = []
    for number in range(first, first + count):
        step = number * 37 % STEPS
        found.append(heads[step] + (FIRST_SEQ + number).to_bytes(8, "big") + tails[step])
    return found
