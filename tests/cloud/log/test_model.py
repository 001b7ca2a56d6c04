"""The log against a model of it that is a list."""

from typing import Any

import pytest
from cloud.log.workload import read_all
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from strategies import cases

from vicinal_cloud.log import Duplicate, Log, LogOptions, LogReader, OffsetGone, Refused, Result, Stored, entry
from vicinal_cloud.log._checkpoint import CHECKPOINT
from vicinal_cloud.log._record import HEAD_BYTES
from vicinal_cloud.log.simulated_files import KEPT, LOST, TORN, SimulatedFiles

WINDOW = 3
names = st.sampled_from(["a", "b", "c", "ü"])
seqs = st.integers(0, 12) | st.integers(0, (1 << 63) - 1)
events = st.binary(min_size=1, max_size=90)
batches = st.lists(st.tuples(events, names, seqs), max_size=8)


class Model:
    """What a log means. `holes` are offsets whose bytes were damaged."""

    def __init__(self) -> None:
        self.records: list[tuple[int, str, int, bytes]] = []
        self.holes: set[int] = set()
        self.first = 0

    def seqs(self, producer: str) -> list[int]:
        return [seq for _, name, seq, _ in self.records if name == producer]

    def append(self, event: bytes, producer: str, seq: int, now: int, result: Result) -> None:
        known = self.seqs(producer)
        if not known or seq > max(known):
            assert result == Stored(len(self.records))
            self.records.append((now, producer, seq, event))
        elif seq in known:
            offset = next(i for i, record in enumerate(self.records) if record[1:3] == (producer, seq))
            recent = seq in known[-WINDOW:]
            assert result == Duplicate(offset) or (result == Duplicate(None) and not recent)
        else:
            recent = sum(one > seq for one in known) < WINDOW
            assert isinstance(result, Refused) or (result == Duplicate(None) and not recent)

    def readable(self) -> list[tuple[int, int, str, int, bytes]]:
        return [
            (offset, *record)
            for offset, record in enumerate(self.records)
            if offset >= self.first and offset not in self.holes
        ]


class Machine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 32))
    def start(self, seed: int) -> None:
        self.files = SimulatedFiles(seed, sector=64)
        self.options = LogOptions(segment_bytes=400, window=WINDOW, max_age_ms=20, max_bytes=3000)
        self.model = Model()
        self.now = 0
        self.spoilt: set[str] = set()
        self.flipped: set[tuple[str, int]] = set()
        self.salt = seed
        self.open()

    def open(self) -> None:
        self.log = Log(self.files, self.options, self.next_salt)
        self.catch_up()

    def next_salt(self) -> int:
        self.salt = (self.salt * 1103515245 + 12345) % (1 << 32)
        return self.salt

    def catch_up(self) -> None:
        """Retention is a decision of the log; that it only ever takes whole old segments is checked in test_log.py."""
        assert self.log.first >= self.model.first
        self.model.first = self.log.first

    @rule(batch=batches, later=st.integers(0, 5))
    def append(self, batch: list[tuple[bytes, str, int]], later: int) -> None:
        self.now += later
        batch = [one for one in batch if one[1] not in self.spoilt]
        results = self.log.append_batch([entry(*one) for one in batch], self.now)
        for (event, producer, seq), result in zip(batch, results, strict=True):
            self.model.append(event, producer, seq, self.now, result)
        self.catch_up()

    @rule(later=st.integers(0, 30))
    def retain(self, later: int) -> None:
        self.now += later
        self.log.retain(self.now)
        self.catch_up()

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.open()

    @rule()
    def kill(self) -> None:
        self.files.restart()
        self.open()

    @rule(fate=st.sampled_from([LOST, KEPT, TORN]))
    def power_cut(self, fate: str) -> None:
        self.files.power_on(fate)
        self.model.first = 0  # what was removed may be there again
        self.log = Log(self.files, self.options, self.next_salt)
        self.model.first = self.log.first

    @rule()
    def lose_checkpoint(self) -> None:
        """It costs a scan, and the memory of producers all of whose records are gone."""
        if CHECKPOINT in self.files.names():
            self.files.remove(CHECKPOINT)
        self.spoilt |= {name for name in "abcü" if self.log.first}
        self.kill()

    @precondition(lambda self: self.log.next > self.log.first and len(self.spoilt) < 3)
    @rule(data=st.data())
    def rot(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name in self.files.names() if name.endswith(".segment")]))
        if self.files.size(name) <= HEAD_BYTES:
            return
        before = {record.offset: record for record in read_all(self.log)}
        bit = data.draw(st.integers(8 * HEAD_BYTES, 8 * self.files.size(name) - 1))
        if (name, bit) in self.flipped:
            return  # it would be whole again
        self.flipped.add((name, bit))
        self.files.flip(name, bit)
        self.kill()
        lost = before.keys() - {record.offset for record in read_all(self.log)}
        assert len(lost) <= 1  # one record, or bytes that were damaged before
        self.model.holes |= lost
        self.spoilt |= {before[offset].producer for offset in lost}

    @invariant()
    def reads_the_same(self) -> None:
        want = self.model.readable()
        got = [(r.offset, r.time, r.producer, r.seq, r.event) for r in read_all(self.log)]
        assert got == want
        assert self.log.next == len(self.model.records)
        reader = LogReader(self.files)
        assert [r.offset for r in read_all(reader)] == [one[0] for one in want]
        if self.model.first:
            with pytest.raises(OffsetGone) as gone:
                self.log.read(self.model.first - 1, 1)
            assert gone.value.first == self.model.first

    @invariant()
    def counts(self) -> None:
        c = self.log.counters
        assert c.accepted == c.stored + c.duplicates + sum(c.refused.values())


TestMachine: Any = Machine.TestCase
TestMachine.settings = settings(
    max_examples=max(60, settings().max_examples // 5),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@given(batches=st.lists(batches, max_size=12), offset=st.integers(0, 60), limit=st.integers(1, 20))
@cases(200)
def test_reading_anywhere_gives_what_was_appended(
    batches: list[list[tuple[bytes, str, int]]], offset: int, limit: int
) -> None:
    log = Log(SimulatedFiles(), LogOptions(segment_bytes=300))
    stored: list[tuple[str, int, bytes]] = []
    for batch in batches:
        for (event, producer, seq), result in zip(batch, log.append_batch([entry(*one) for one in batch], 1)):
            if isinstance(result, Stored):
                assert result.offset == len(stored)
                stored.append((producer, seq, event))
    if offset <= len(stored):
        records, following = log.read(offset, limit)
        assert [(r.producer, r.seq, r.event) for r in records] == stored[offset : offset + limit]
        assert following == min(len(stored), offset + limit)
