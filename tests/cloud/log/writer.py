"""A real writer process, until it is killed.

Appends the events of PRODUCERS producers through GroupCommit as fast as it may, each producer with a window of events
in flight, and puts what is acknowledged into the shared file: one 64-bit number for each producer, the highest seq
below which all are acknowledged. The file is mapped by the parent too, so that what stands there when the process
dies is what a client would know.

An event is a function of its identity, so that a checker can tell wrong bytes.
"""

import asyncio
import time
from pathlib import Path

from cloud.log.mutants import apply
from numbers_in_memory import WORD, numbers

from vicinal.event import Event
from vicinal.wire import encode
from vicinal_cloud.log import GroupCommit, Log, LogOptions

PRODUCERS = 8
SHARED_BYTES = WORD * PRODUCERS
# In flight for each producer.
WINDOW = 25
OPTIONS = LogOptions(segment_bytes=100_000)


def name_of(number: int) -> str:
    return f"car-{number}"


def event_of(number: int, seq: int) -> bytes:
    params = [("rate", seq), ("pad", "x" * ((seq * 7 + number) % 200))]
    return encode(Event("Speed", params, producer=name_of(number), seq=seq))


async def produce(commits: GroupCommit, shared: "memoryview[int]", number: int) -> None:
    """Goes on where its acknowledgements end: what is repeated must not be stored again."""
    seq = shared[number]
    while True:
        window = range(seq, seq + WINDOW)
        await asyncio.gather(*(commits.append(event_of(number, one), name_of(number), one) for one in window))
        seq += WINDOW
        shared[number] = seq


async def run(path: str, shared_path: str) -> None:
    _, shared = numbers(Path(shared_path))
    commits = GroupCommit(Log(path, OPTIONS), lambda: time.time_ns() // 1_000_000)
    await asyncio.gather(*(produce(commits, shared, number) for number in range(PRODUCERS)))


def main(path: str, shared_path: str, mutant: str | None = None) -> None:
    with apply(mutant):
        asyncio.run(run(path, shared_path))
