"""The event of all runs: a Speed event of 93 bytes, and its payload with the peers too.

    85 65 Speed  6c car-00D12345  1b <seq: 8>  88 license_no 00D12345 rate fb 40 50 <step> <5> lat .. lon ..  82 03 Time

Sequence numbers begin at 2^32 and rates are doubles, so that every event has the same size: who receives can count
bytes. A rate is 64 km/h and a number of 64ths, one of a hundred, so that one byte at a fixed place tells them apart:
who must filter by itself needs to look at nothing else.

Real rates have a decimal, and of those every fifth (.0 and .5) is a double of half the precision, six bytes shorter:
*mixed* events are like that, by chance, so that those of one size are seldom more than a few in a row.
"""

import random
from collections.abc import Callable

from vicinal.event import Event
from vicinal.wire import encode

__all__ = [
    "FIRST_SEQ",
    "SHORTER",
    "SHORT_SHARE",
    "SHORT_STEP",
    "SIZE",
    "STEPS",
    "STEP_AT",
    "Wrap",
    "are_short",
    "condition",
    "packets",
    "producer",
    "step_of",
]

Wrap = Callable[[int], tuple[bytes, bytes]]
"""What stands before and behind an event of a size."""

FIRST_SEQ = 1 << 32
STEPS = 100
SHORT_SHARE = 0.2
SHORT_STEP = 32
_SHORT_RATE = 64 + SHORT_STEP / 64
_ABOVE = 0.001  # so that no shorter float holds the rate


def producer(number: int) -> str:
    return f"car-00D{number:05}"


def _encoded(name: str, rate: float) -> bytes:
    params = [("license_no", name[4:]), ("rate", rate), ("lat", 533438000), ("lon", -62546000)]
    return encode(Event("Speed", params, {"Time": 1700000000000}, producer=name, seq=FIRST_SEQ))


def _rate(step: int) -> float:
    return 64 + step / 64 + _ABOVE


_one = _encoded(producer(0), _rate(0))
SIZE = len(_one)
STEP_AT = _one.index(b"\xfb\x40\x50") + 3
SHORTER = SIZE - len(_encoded(producer(0), _SHORT_RATE))
_SEQ_AT = _one.index(FIRST_SEQ.to_bytes(8, "big"))


def condition(step: int, variant: int) -> str:
    """True of the events of one step: of one in a hundred. Variants (0 to 9) differ in their text and their limits."""
    low = 64 + (step - 0.05 * variant) / 64
    high = 64 + (step + 1 - 0.05 * variant) / 64
    return f"subject = 'Speed' AND rate >= {low:.6f} AND rate < {high:.6f}"


def step_of(number: int) -> int:
    return number * 37 % STEPS


def are_short(count: int) -> list[bool]:
    """Of mixed events: every fifth, by chance, and always the same: the first are, however many there are."""
    chance = random.Random(7)
    return [chance.random() < SHORT_SHARE for _ in range(count)]


def packets(name: str, wrap: Wrap, count: int, mixed: bool = False) -> list[bytes]:
    """Events of one producer as they are sent, numbered from 0, all steps equally often."""
    steps = [_cut(_encoded(name, _rate(step)), wrap) for step in range(STEPS)]
    short = _cut(_encoded(name, _SHORT_RATE), wrap)
    found = []
    for number, is_short in enumerate(are_short(count) if mixed else [False] * count):
        head, tail = short if is_short else steps[step_of(number)]
        found.append(head + (FIRST_SEQ + number).to_bytes(8, "big") + tail)
    return found


def _cut(event: bytes, wrap: Wrap) -> tuple[bytes, bytes]:
    """What comes before the sequence number, and what behind it."""
    prefix, suffix = wrap(len(event))
    return prefix + event[:_SEQ_AT], event[_SEQ_AT + 8 :] + suffix
