"""A process that accepts and forwards as fast as it can, until it is killed.

Each of PRODUCERS producers has a number of accepts in flight. What a producer knows is in a shared file, written the
moment it knows it: how far it has attempted, and what became of each. The file outlives the process, and so is what a
client would know when the process dies.

    number (8 bytes), producer (1), seq (8)      to the service
    number (8)                                   its acknowledgement
"""

import asyncio
import contextlib
import struct
from pathlib import Path

from edge.store.mutants import apply
from numbers_in_memory import WORD, numbers

from vicinal.event import Event
from vicinal_edge.store import Dropped, QueueOptions, Store, StoredQueue, StoreOptions

PRODUCERS = 6
EVENTS = 400_000
# In words: of each producer how far it has attempted, and a byte for each event; last, how many are stored.
OF_ONE = 1 + EVENTS // WORD
STORED = PRODUCERS * OF_ONE
ACCEPTED, REFUSED = 1, 2
IN_FLIGHT = 40
MAX_BACKLOG = 2000
FRAME = struct.Struct(">qBq")
NUMBER = struct.Struct(">q")
# Small blocks, so that many are begun; a small cache, so that much is read.
OPTIONS = StoreOptions(block=500, cache_bytes=4000, delete_after=0.05)


def event_of(producer: int, seq: int) -> Event:
    priority = 2000 if (seq * 7 + producer) % 23 == 0 else 0
    params = [("rate", seq), ("pad", "x" * ((seq * 7 + producer) % 100))]
    return Event("Speed", params, {"Priority": priority}, producer=f"car-{producer}", seq=seq)


class Shared:
    """What the producers know."""

    def __init__(self, path: Path, new: bool = False) -> None:
        self.path = path
        if new:
            with path.open("wb") as file:
                file.truncate((STORED + 1) * WORD)
        self._bytes, self._numbers = numbers(path)

    def attempted(self, producer: int) -> int:
        return self._numbers[producer * OF_ONE]

    def attempt(self, producer: int, seq: int) -> None:
        self._numbers[producer * OF_ONE] = seq + 1

    def tell(self, producer: int, seq: int, what: int) -> None:
        self._bytes[(producer * OF_ONE + 1) * WORD + seq] = what

    def known(self, producer: int) -> bytes:
        start = (producer * OF_ONE + 1) * WORD
        return self._bytes[start : start + self.attempted(producer)]

    def progress(self) -> int:
        return sum(self.attempted(producer) for producer in range(PRODUCERS))

    def count(self, number: int) -> None:
        self._numbers[STORED] = number

    def counted(self) -> int:
        return self._numbers[STORED]


async def produce(queue: StoredQueue, shared: Shared, producer: int) -> None:
    room = asyncio.Semaphore(IN_FLIGHT)

    def told(seq: int, done: "asyncio.Future[int]") -> None:
        room.release()
        if done.exception() is None:
            shared.tell(producer, seq, ACCEPTED)
        else:
            assert isinstance(done.exception(), Dropped), done.exception()
            shared.tell(producer, seq, REFUSED)

    for seq in range(shared.attempted(producer), EVENTS):
        await room.acquire()
        while queue.outbox.count > MAX_BACKLOG:
            await asyncio.sleep(0.002)
        shared.attempt(producer, seq)
        queue.accept(event_of(producer, seq)).add_done_callback(lambda done, seq=seq: told(seq, done))  # type: ignore[misc]


async def forward(queue: StoredQueue, socket: str) -> None:
    """As an adapter does it: what is under way when the connection ends fails, all of it."""
    while True:
        try:
            reader, writer = await asyncio.open_unix_connection(socket)
        except OSError:
            await asyncio.sleep(0.002)
            continue
        sending = asyncio.create_task(send(queue, writer))
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                queue.done([NUMBER.unpack(await reader.readexactly(8))[0]])
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()
        queue.failed()


async def send(queue: StoredQueue, writer: asyncio.StreamWriter) -> None:
    while True:
        for number, event in await queue.take(20):
            assert event.producer is not None
            assert event.seq is not None
            writer.write(FRAME.pack(number, int(event.producer[4:]), event.seq))
        await writer.drain()


async def watch(queue: StoredQueue, shared: Shared) -> None:
    while True:
        counters = queue.counters()
        assert counters["accepted"] == counters["delivered"] + counters["stored"] + sum(counters["dropped"].values())
        shared.count(counters["stored"] + 1)
        await asyncio.sleep(0.005)


async def run(path: str, shared_path: str, socket: str, drain: bool) -> None:
    shared = Shared(Path(shared_path))
    shared.count(0)
    store = await Store.open(Path(path), OPTIONS)
    queue = await store.stored_queue("wide", QueueOptions(durable=True, window=100))
    works = [forward(queue, socket), watch(queue, shared)]
    if not drain:
        works += [produce(queue, shared, producer) for producer in range(PRODUCERS)]
    await asyncio.gather(*works)


def main(path: str, shared_path: str, socket: str, drain: bool, mutant: str | None = None) -> None:
    with apply(mutant):
        asyncio.run(run(path, shared_path, socket, drain))
