"""Judges a log by what its clients know (as Jepsen's total-queue checker does).

Each client keeps a History: what it attempted, what was acknowledged, what was refused; the rest is unknown, which is
no failure. `check` compares that with what is read at the end. An empty Verdict is a good one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from vicinal_cloud.log import Duplicate, Record, Refused, Result, Stored

Key = tuple[str, int]


@dataclass
class History:
    attempted: dict[Key, bytes] = field(default_factory=dict)
    acknowledged: dict[Key, int | None] = field(default_factory=dict)
    """with the offset it was told"""
    refused: set[Key] = field(default_factory=set)
    seen: dict[int, Record] = field(default_factory=dict)
    """what some reader has been given, by offset"""

    def attempt(self, producer: str, seq: int, event: bytes) -> None:
        self.attempted[producer, seq] = event

    def answer(self, producer: str, seq: int, result: Result) -> None:
        key = producer, seq
        if isinstance(result, Refused):
            if key not in self.acknowledged:
                self.refused.add(key)
            return
        assert isinstance(result, Stored | Duplicate)
        self.refused.discard(key)
        if self.acknowledged.get(key) is None:
            self.acknowledged[key] = result.offset

    def see(self, records: Iterable[Record]) -> None:
        for record in records:
            self.seen[record.offset] = record


@dataclass
class Verdict:
    lost: list[Key] = field(default_factory=list)
    """acknowledged, not read"""
    duplicated: list[Key] = field(default_factory=list)
    unexpected: list[Key] = field(default_factory=list)
    """read, never attempted, or with other bytes"""
    aborted: list[Key] = field(default_factory=list)
    """refused for good, and read"""
    inverted: list[Key] = field(default_factory=list)
    """read after a higher seq of its producer"""
    moved: list[Key] = field(default_factory=list)
    """read at another offset than was told"""
    diverged: list[int] = field(default_factory=list)
    """offsets at which a reader has seen something else"""

    def __bool__(self) -> bool:
        return any(vars(self).values())


def check(history: History, records: Iterable[Record], damaged: Iterable[int] = (), first: int = 0) -> Verdict:
    """`damaged` offsets and those before `first` may be missing."""
    verdict = Verdict()
    missing = set(damaged)
    found: dict[Key, int] = {}
    tops: dict[str, int] = {}
    by_offset: dict[int, Record] = {}
    for record in records:
        key = record.producer, record.seq
        by_offset[record.offset] = record
        if history.attempted.get(key) != record.event:
            verdict.unexpected.append(key)
        if key in found:
            verdict.duplicated.append(key)
        elif record.seq <= tops.get(record.producer, -1):
            verdict.inverted.append(key)
        found.setdefault(key, record.offset)
        tops[record.producer] = max(record.seq, tops.get(record.producer, -1))
    for key, offset in history.acknowledged.items():
        if key not in found:
            if offset is None or (offset not in missing and offset >= first):
                verdict.lost.append(key)
        elif offset is not None and found[key] != offset:
            verdict.moved.append(key)
    verdict.aborted = sorted(history.refused & found.keys())
    for offset, record in history.seen.items():
        if offset >= first and offset not in missing and by_offset.get(offset) != record:
            verdict.diverged.append(offset)
    return verdict
