"""A workload on a simulated disk that survives whatever is done to the disk, and a verdict at the end.

Three producers with a few events each; every one sends its next events in order, repeats some, now and then one too
late, and after a failure goes on where its acknowledgements end. A reader of another process looks on.
"""

import random
from itertools import count

from cloud.log.checker import History, Verdict, check

from vicinal.event import Event
from vicinal.wire import encode
from vicinal_cloud.log import Log, LogFailed, LogOptions, LogReader, Record, Refused, Result, entry
from vicinal_cloud.log.simulated_files import SimulatedFiles

PRODUCERS = ("a", "b", "c")
OPTIONS = LogOptions(segment_bytes=700, window=4)


class Workload:
    def __init__(self, files: SimulatedFiles, seed: int, events: int = 14, options: LogOptions = OPTIONS) -> None:
        self.files = files
        self.events = events
        self.options = options
        self.history = History()
        self.random = random.Random(seed)
        self.now = 0
        self.salts = count(seed * 1000 + 7)
        self.next = dict.fromkeys(PRODUCERS, 0)
        self.log: Log | None = None
        self.reader: LogReader | None = None
        self.position = 0
        # Left out on the way up and tried afterwards: out of order.
        self.late = {(producer, 2 * self.random.randrange(2, events // 2)) for producer in PRODUCERS}
        for producer in PRODUCERS:
            for seq in range(events):
                self.history.attempt(producer, seq, self.event(producer, seq))

    def event(self, producer: str, seq: int) -> bytes:
        size = random.Random(f"{producer}{seq}").randrange(60)
        return encode(Event("Speed", [("rate", seq), ("pad", "x" * size)], producer=producer, seq=seq))

    def open(self) -> Log:
        self.log = Log(self.files, self.options, lambda: next(self.salts) * 2654435761 % (1 << 32))
        self.reader = LogReader(self.files)
        # A client that does not know what became of its last events sends them again.
        for producer in PRODUCERS:
            known = [seq for name, seq in self.history.acknowledged if name == producer]
            self.next[producer] = max(known, default=-1) + 1
        return self.log

    def done(self) -> bool:
        return all(seq >= self.events for seq in self.next.values())

    def step(self) -> None:
        """One batch, and a look by the reader."""
        assert self.log is not None
        batch: list[tuple[str, int]] = []
        for producer in self.random.choices(PRODUCERS, k=self.random.randrange(1, 7)):
            seq = self.next[producer]
            while (producer, seq) in self.late and (producer, seq) not in self.history.acknowledged:
                seq += 1
            if seq < self.events:
                batch.append((producer, seq))
                self.next[producer] = seq + 1
            if (producer, seq - 1) in self.late:
                batch.append((producer, seq - 1))  # too late
            elif seq and self.random.random() < 0.3:
                again = producer, self.random.randrange(seq)
                if again not in self.late:
                    batch.append(again)
        self.now += 1
        results = self.log.append_batch([entry(self.event(*key), *key) for key in batch], self.now)
        for key, result in zip(batch, results, strict=True):
            self.history.answer(*key, result)
        self.resume(batch, results)
        self.look()

    def resume(self, batch: list[tuple[str, int]], results: list[Result]) -> None:
        """What was refused for want of space is sent again, in order."""
        for (producer, seq), result in zip(batch, results, strict=True):
            if isinstance(result, Refused) and result.reason != "out of order":
                self.next[producer] = min(self.next[producer], seq)

    def look(self) -> None:
        assert self.reader is not None
        while self.position < self.reader.next:
            records, self.position = self.reader.read(self.position, 100)
            self.history.see(records)

    def finish(self) -> None:
        """The rest of the events, with nothing in the way."""
        log = self.open()
        for _ in range(300):
            if self.done():
                break
            try:
                self.step()
            except LogFailed:
                raise AssertionError(f"failed without a fault: {log.failed}") from None
        else:
            raise AssertionError(f"stuck at {self.next}")

    def records(self) -> list[Record]:
        return read_all(self.log or self.open())

    def verdict(self) -> Verdict:
        assert self.log is not None
        return check(self.history, self.records(), first=self.log.first)

    def missing(self) -> list[tuple[str, int]]:
        """Events in order that were never stored: an earlier one was shut out by a later one."""
        stored = {(record.producer, record.seq) for record in self.records()}
        return sorted(self.history.attempted.keys() - stored - self.late)


def read_all(log: Log | LogReader, offset: int | None = None) -> list[Record]:
    records: list[Record] = []
    offset = log.first if offset is None else offset
    while offset < log.next:
        found, offset = log.read(offset, 100)
        records += found
    return records
