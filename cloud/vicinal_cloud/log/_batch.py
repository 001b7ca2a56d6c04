"""One batch: what is new in it, its bytes, and its acknowledgements, which cannot be had before it is on disk.

    plan = Plan(entries, producers, next, now)    decides; changes nothing
    data = plan.data_for(active)                  the bytes, and where they will end
    synced = active.commit(data)                  writes, then syncs: the only source of a Synced (_active.py)
    results = plan.acknowledge(synced)            counts as stored; without a Synced up to that end it raises

A plan that could not be written is refused as a whole: plan.refuse(reason, message).
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from vicinal.errors import LimitError

from ._active import Active, Synced
from ._producers import BEFORE_WINDOW, NEVER_STORED, ProducerIndex
from ._record import Entry, Record, encode_record
from .errors import LogError
from .limits import MAX_BATCH_BYTES, MAX_BATCH_RECORDS

__all__ = ["Duplicate", "Plan", "Refused", "Result", "Stored"]


class Stored(NamedTuple):
    offset: int


class Duplicate(NamedTuple):
    """It was stored before, and is not stored again."""

    offset: int | None
    """None when it is so old that only this much is known"""


class Refused(NamedTuple):
    reason: str
    """one of OUT_OF_ORDER, NO_SPACE, WRITE_FAILED, TOO_MANY_PRODUCERS; counters.refused counts by it"""
    message: str


Result: TypeAlias = Stored | Duplicate | Refused

OUT_OF_ORDER = "out of order"
NO_SPACE = "no space"
WRITE_FAILED = "write failed"
TOO_MANY_PRODUCERS = "too many producers"
SYNC_FAILED = "sync failed"
STORAGE = (NO_SPACE, WRITE_FAILED)


def check_batch(entries: Sequence[Entry]) -> int:
    """The bytes of its events."""
    if len(entries) > MAX_BATCH_RECORDS:
        raise LimitError("number of events in a batch", len(entries), MAX_BATCH_RECORDS)
    size = sum([len(entry.event) for entry in entries])
    if size > MAX_BATCH_BYTES:
        raise LimitError("bytes of the events in a batch", size, MAX_BATCH_BYTES)
    return size


class Plan:
    def __init__(self, entries: Sequence[Entry], producers: ProducerIndex, next_offset: int, now: int) -> None:
        self._producers = producers
        self._next = next_offset
        self._now = now
        self._wanted: Synced | None = None
        self._fresh: dict[tuple[str, int], int] = {}
        self._tops: dict[str, int] = {}  # the highest seq of each producer, this batch included
        self._new_producers = 0
        self.records: list[Record] = []
        self._results: list[Result] = [self._decide(entry) for entry in entries]

    def _decide(self, entry: Entry) -> Result:
        _, producer, seq = entry
        top = self._tops.get(producer)
        if top is None:
            top = self._producers.highest(producer)
            if top < 0:
                if len(self._producers) + self._new_producers >= self._producers.most:
                    limit = self._producers.most
                    return Refused(TOO_MANY_PRODUCERS, f"producer {producer!r} is one too many, the limit is {limit}")
                self._new_producers += 1
            self._tops[producer] = top
        return self._store(entry) if seq > top else self._seen(entry, top)

    def _store(self, entry: Entry) -> Stored:
        event, producer, seq = entry
        lag = len(self.records)
        offset = self._next + lag
        self.records.append(Record(offset, self._now, producer, seq, event, lag))
        self._fresh[producer, seq] = offset
        self._tops[producer] = seq
        return Stored(offset)

    def _seen(self, entry: Entry, top: int) -> Result:
        _, producer, seq = entry
        if (producer, seq) in self._fresh:
            return Duplicate(self._fresh[producer, seq])
        before = self._producers.find(producer, seq) if producer in self._producers else NEVER_STORED
        if before >= 0:
            return Duplicate(before)
        if before == BEFORE_WINDOW:
            return Duplicate(None)
        return Refused(OUT_OF_ORDER, f"seq {seq} of producer {producer!r} comes after {top}, and was not stored before")

    def data_for(self, active: Active) -> bytes:
        salt = active.salt
        data = b"".join([encode_record(record, salt) for record in self.records])
        self._wanted = Synced(active.name, active.size + len(data))
        return data

    def acknowledge(self, synced: Synced | None) -> list[Result]:
        """A batch of nothing but duplicates writes nothing, and needs no sync."""
        if self.records:
            wanted = self._wanted
            if synced is None or wanted is None or synced.name != wanted.name or synced.size < wanted.size:
                raise LogError(f"an acknowledgement before its sync: {synced} is on disk, {wanted} is wanted")
            note = self._producers.note
            for (producer, seq), offset in self._fresh.items():
                note(producer, seq, offset)
        return self._results

    def refuse(self, reason: str, message: str) -> list[Result]:
        """Nothing of it was written. What repeats an earlier batch stays a duplicate."""
        lost = set(self._fresh.values())
        return [
            Refused(reason, message) if not isinstance(result, Refused) and result.offset in lost else result
            for result in self._results
        ]
