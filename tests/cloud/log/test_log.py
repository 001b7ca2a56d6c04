"""The log as its users see it: results, reading, filters, retention, the lock, opening."""

import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from cloud.log.checker import History, check
from cloud.log.workload import read_all

from vicinal.errors import LimitError, LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.limits import MAX_EVENT_BYTES
from vicinal.wire import decode, encode
from vicinal_cloud.log import (
    Duplicate,
    Entry,
    Log,
    LogClosed,
    LogError,
    LogFailed,
    LogInUse,
    LogOptions,
    LogReader,
    LogVersionError,
    OffsetAhead,
    OffsetGone,
    Refused,
    Stored,
    _batch,
    _segments,
    entry,
    entry_of,
)
from vicinal_cloud.log._active import Active, Synced
from vicinal_cloud.log._batch import Plan
from vicinal_cloud.log._checkpoint import CHECKPOINT, COMMITTED
from vicinal_cloud.log._producers import BEFORE_WINDOW, NEVER_STORED, ProducerIndex
from vicinal_cloud.log._retention import AGE, SIZE, Extent, removable
from vicinal_cloud.log.simulated_files import LOST, SimulatedFiles


def event(seq: int, producer: str = "car-7", subject: str = "Speed") -> Entry:
    return entry_of(Event(subject, [("rate", seq)], producer=producer, seq=seq))


def filled(count: int, options: LogOptions | None = None, files: SimulatedFiles | None = None) -> Log:
    log = Log(files or SimulatedFiles(), options)
    for seq in range(count):
        log.append_batch([event(seq, subject="Speed" if seq % 10 else "Fine")], seq)
    return log


def test_what_is_appended_is_read_as_it_came() -> None:
    log = Log(SimulatedFiles())
    one = Event("Speed", [("license_no", "00D12345"), ("rate", 57.2)], {"Priority": 3}, producer="car-7", seq=12)
    assert log.append_batch([entry_of(one)], 1700000000000) == [Stored(0)]
    records, following = log.read(0, 10)
    assert following == log.next == 1
    assert records[0].event == encode(one)
    assert decode(records[0].event) == one
    assert (records[0].offset, records[0].time, records[0].producer, records[0].seq) == (0, 1700000000000, "car-7", 12)


def test_a_repeated_event_keeps_its_offset() -> None:
    log = filled(5)
    assert log.append_batch([event(2), event(9), event(9), event(4)], 1) == [
        Duplicate(2),
        Stored(5),
        Duplicate(5),
        Duplicate(4),
    ]
    assert log.highest("car-7") == 9
    assert log.highest("nobody") == -1
    (refused,) = log.append_batch([event(7)], 1)
    assert isinstance(refused, Refused)
    assert refused.reason == "out of order"
    assert "seq 7 of producer 'car-7' comes after 9" in refused.message
    counted = log.counters.as_dict()
    assert [counted[name] for name in ("accepted", "stored", "duplicates")] == [10, 6, 3]
    assert counted["refused"] == {"out of order": 1}


def test_producer_index_answers_by_its_window() -> None:
    index = ProducerIndex(window=4)
    for seq in range(0, 40, 2):
        index.note("p", seq, 100 + seq)
    assert index.highest("p") == 38
    assert index.find("p", 36) == 136
    assert index.find("p", 37) == NEVER_STORED
    assert index.find("p", 3) == BEFORE_WINDOW
    assert index.find("p", 2) == BEFORE_WINDOW


def test_more_producers_than_the_limit_are_refused_until_old_ones_may_be_forgotten() -> None:
    options = LogOptions(max_producers=2, segment_bytes=200, max_age_ms=10)
    log = Log(SimulatedFiles(), options)
    results = log.append_batch([event(1, "a"), event(1, "b"), event(1, "c")], 0)
    assert [type(result) for result in results] == [Stored, Stored, Refused]
    assert "'c' is one too many, the limit is 2" in results[2].message  # type: ignore[union-attr]
    for seq in range(2, 10):
        log.append_batch([event(seq, "a")], 100 + seq)
    log.retain(200)
    assert log.append_batch([event(1, "c")], 200) == [Stored(10)]
    assert log.counters.forgotten_producers == 1


def test_no_acknowledgement_without_its_sync() -> None:
    """The order write, sync, acknowledge is not a habit but the only way through."""
    files = SimulatedFiles()
    active = Active(files, 0, 1, 0)
    files.create(active.name)
    plan = Plan([event(1)], ProducerIndex(), 0, 0)
    with pytest.raises(LogError, match="before its sync"):
        plan.acknowledge(Synced(active.name, 1 << 40))
    data = plan.data_for(active)
    for synced in (None, Synced(active.name, len(data) - 1), Synced("another", len(data))):
        with pytest.raises(LogError, match="before its sync"):
            plan.acknowledge(synced)
    assert plan.acknowledge(active.commit(data)) == [Stored(0)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((b"", "p", 1), "event is b''"),
        (("text", "p", 1), "event is 'text'"),
        ((b"x" * (MAX_EVENT_BYTES + 1), "p", 1), f"is {MAX_EVENT_BYTES + 1}, the limit is {MAX_EVENT_BYTES}"),
        ((b"x", "", 1), "producer is ''"),
        ((b"x", "p" * 65, 1), "is 65, the limit is 64 bytes"),
        ((b"x", "\ud800", 1), "no UTF-8 form"),
        ((b"x", "p", -1), "seq is -1, the limit is 0 .. 2^63-1"),
        ((b"x", "p", 1 << 63), "the limit is 0 .. 2^63-1"),
        ((b"x", "p", True), "seq is True, want an int"),
    ],
)
def test_bad_entries_name_the_value_and_the_limit(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises((LocalProtocolError, LimitError)) as raised:
        entry(*arguments)  # type: ignore[arg-type]
    assert message in str(raised.value)
    with pytest.raises(LocalProtocolError, match="has no identity"):
        entry_of(Event("Speed"))


def test_reading_with_a_filter() -> None:
    log = filled(100, LogOptions(segment_bytes=500))
    records, following = log.read(0, 1000, Filter("subject = 'Fine'"))
    assert [record.offset for record in records] == list(range(0, 100, 10))
    assert following == 100
    records, following = log.read(0, 3, Filter("rate > 50 AND subject = 'Speed'"))
    assert [record.offset for record in records] == [51, 52, 53]
    assert following == 54
    assert log.read(0, 1000, Filter("subject = 'None of these'")) == ([], 100)
    assert log.read(0, 1000, Filter("subject LIKE 'F%' AND rate < 5"))[0][0].seq == 0


def test_a_filter_decodes_only_subjects_that_may_match(monkeypatch: pytest.MonkeyPatch) -> None:
    from vicinal_cloud.log import _select

    log = filled(100)
    decoded = []
    monkeypatch.setattr(_select, "decode", lambda data: decoded.append(data) or decode(data))
    assert len(log.read(0, 1000, Filter("subject = 'Fine' AND rate >= 0"))[0]) == 10
    assert len(decoded) == 10


def test_a_filter_is_not_true_of_bytes_that_are_no_event() -> None:
    log = Log(SimulatedFiles())
    log.append_batch(
        [entry(data, "p", seq) for seq, data in enumerate((b"\x00", b"\x85\x61\xff", b"garbage", b"\x85\x78"))], 0
    )
    assert log.read(0, 10, Filter("subject <> 'x' OR subject = 'x'")) == ([], 4)


def test_one_call_looks_at_a_bounded_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_segments, "MAX_READ_BYTES", 500)
    monkeypatch.setattr(_segments, "READ_CHUNK", 200)
    log = filled(100, LogOptions(segment_bytes=900))
    offset, calls = 0, 0
    while offset < log.next:
        records, following = log.read(offset, 1000, Filter("subject = 'No'"))
        assert records == []
        assert following > offset
        offset, calls = following, calls + 1
    assert calls > 5


def test_offsets_outside_are_errors_that_say_what_is_inside() -> None:
    log = filled(100, LogOptions(segment_bytes=500, max_bytes=1500))
    assert log.first > 0
    with pytest.raises(OffsetGone, match=f"offset 0 has been removed by retention, the first is {log.first}") as gone:
        log.read(0, 1)
    assert gone.value.first == log.first
    with pytest.raises(OffsetAhead, match="offset 101 has not been written, the next is 100"):
        log.read(101, 1)
    assert log.read(100, 1) == ([], 100)
    assert log.counters.gone == {SIZE: log.first}


def test_retention_decides_by_whole_segments() -> None:
    extents = [Extent(0, 100, 10), Extent(10, 100, 20), Extent(20, 100, 5), Extent(30, 100, 0)]
    assert removable(extents, 1000, None, None) == []
    assert removable(extents, 25, 10, None) == [(0, AGE)]
    assert removable(extents, 1000, 10, None) == [(0, AGE), (10, AGE), (20, AGE)]  # never the newest
    assert removable(extents, 0, None, 250) == [(0, SIZE)]
    assert removable(extents, 0, None, 0) == [(0, SIZE), (10, SIZE), (20, SIZE)]
    assert removable(extents, 15, 3, 150) == [(0, AGE), (10, SIZE), (20, AGE)]
    assert removable([], 0, 0, 0) == []


def test_retention_by_age_survives_a_restart() -> None:
    files = SimulatedFiles()
    log = filled(60, LogOptions(segment_bytes=500), files)
    log.close()
    log = Log(files, LogOptions(segment_bytes=500, max_age_ms=20))
    assert log.retain(60) > 0
    assert 20 < log.first <= 40
    assert log.counters.gone == {AGE: log.first}
    assert [record.offset for record in read_all(log)] == list(range(log.first, 60))
    assert log.append_batch([event(1)], 60)[0] in (Duplicate(1), Duplicate(None))  # gone, and still not stored again


def test_one_writer_and_the_error_names_it(tmp_path: Path) -> None:
    code = "import sys, vicinal_cloud.log as l\nlog = l.Log(sys.argv[1])\nprint('open', flush=True)\nsys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "log")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(LogInUse, match=f"already written by process {other.pid}"):
            Log(tmp_path / "log")
        LogReader(tmp_path / "log").close()
        other.kill()
    Log(tmp_path / "log").close()


def test_a_closed_log_says_so(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.close()
    log.close()
    with pytest.raises(LogClosed):
        log.append_batch([event(1)], 0)


def test_another_version_is_refused_not_guessed() -> None:
    files = SimulatedFiles()
    filled(3, files=files).close()
    name = next(name for name in files.names() if name.endswith(".segment"))
    import zlib

    head = bytearray(files.read(name, 0, 30))
    head[9] = 2
    files.write_at(name, 0, bytes(head) + zlib.crc32(head).to_bytes(4, "big"))
    for opener in (Log, LogReader):
        with pytest.raises(LogVersionError, match="format version 2, this program knows 1"):
            opener(files)


def test_opening_reads_only_what_the_checkpoint_does_not_cover() -> None:
    files = SimulatedFiles()
    log = filled(2000, LogOptions(segment_bytes=20_000), files)
    log.close()
    asked = 0
    right = files.read

    def read(name: str, position: int, size: int) -> bytes:
        nonlocal asked
        data = right(name, position, size)
        asked += len(data) if name.endswith(".segment") else 0
        return data

    files.read = read  # type: ignore[method-assign]
    assert Log(files).append_batch([event(1999), event(5)], 0) == [Duplicate(1999), Duplicate(None)]
    with_checkpoint, asked = asked, 0
    files.restart()
    files.remove(CHECKPOINT)
    assert Log(files).append_batch([event(1999), event(5)], 0) == [Duplicate(1999), Duplicate(None)]
    assert with_checkpoint < 500 < 50_000 < asked


def test_finding_an_offset_takes_few_reads() -> None:
    files = SimulatedFiles()
    log = Log(files)
    for start in range(0, 20_000, 1000):
        log.append_batch([event(seq) for seq in range(start, start + 1000)], 0)
    reader = LogReader(files)
    asked: list[int] = []
    right = files.read

    def read(name: str, position: int, size: int) -> bytes:
        asked.append(size)
        return right(name, position, size)

    files.read = read  # type: ignore[method-assign]
    for offset in (0, 1, 777, 9_999, 19_999):
        asked.clear()
        assert [record.offset for record in reader.read(offset, 1)[0]] == [offset]
        assert len(asked) < 16


def test_a_reader_sees_what_is_committed_and_nothing_else() -> None:
    files = SimulatedFiles()
    log = filled(5, files=files)
    reader = LogReader(files)
    seen_at_sync = []

    def peek(number: int, kind: str, name: str) -> None:
        if kind == "sync":
            seen_at_sync.append(reader.next)

    files.fault = peek
    log.append_batch([event(5), event(6)], 0)
    assert seen_at_sync == [5]
    assert reader.next == 7
    assert [record.seq for record in reader.read(4, 10)[0]] == [4, 5, 6]
    assert [record.seq for record in reader.read(0, 10, Filter("subject = 'Fine'"))[0]] == [0]
    with pytest.raises(OffsetAhead):
        reader.read(8, 1)


def test_a_reader_alone_after_a_power_cut_sees_all_that_was_acknowledged() -> None:
    files = SimulatedFiles()
    filled(30, LogOptions(segment_bytes=500), files)
    files.power_on(LOST)
    assert len(read_all(LogReader(files))) == 30


def test_a_reader_meets_retention() -> None:
    files = SimulatedFiles()
    log = filled(60, LogOptions(segment_bytes=500, max_age_ms=20), files)
    reader = LogReader(files)
    assert reader.first == log.first
    old = reader.first
    reader.read(old, 1)
    log.retain(1000)
    with pytest.raises(OffsetGone) as gone:
        reader.read(old, 1)
    assert gone.value.first == log.first == reader.first


def test_a_reader_of_an_empty_or_new_log(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    reader = LogReader(tmp_path / "log")
    assert (reader.first, reader.next, reader.read(0, 10)) == (0, 0, ([], 0))
    log = Log(tmp_path / "log")
    log.append_batch([event(1)], 0)
    assert reader.next == 1
    assert len(reader.read(0, 10)[0]) == 1
    log.close()
    with pytest.raises(FileNotFoundError):
        LogReader(tmp_path / "nothing here")


def test_a_copy_is_read_to_its_end(tmp_path: Path) -> None:
    """In a copy, `committed` may be older than the segments: it is not believed there."""
    import shutil

    log = Log(tmp_path / "log")
    log.append_batch([event(1)], 0)
    old = (tmp_path / "log" / COMMITTED).read_bytes()
    log.append_batch([event(2)], 0)
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    (tmp_path / "copy" / COMMITTED).write_bytes(old)
    assert LogReader(tmp_path / "copy").next == 2
    log.close()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_refuses_the_batch_and_the_log_goes_on(error: int) -> None:
    files = SimulatedFiles()
    log = filled(5, files=files)
    files.fault = lambda number, kind, name: OSError(error, "no") if kind == "append" else None
    results = log.append_batch([event(5), event(4), event(5)], 0)
    reason = "no space" if error == errno.ENOSPC else "write failed"
    assert [type(result) for result in results] == [Refused, Duplicate, Refused]
    assert log.counters.refused == {reason: 2}
    files.fault = None
    assert log.append_batch([event(5), event(6)], 0) == [Stored(5), Stored(6)]
    assert [record.seq for record in read_all(log)] == list(range(7))


def test_a_full_disk_can_be_opened_and_read() -> None:
    files = SimulatedFiles()
    log = filled(5, files=files)
    files.restart()
    files.capacity = files.used()
    log = Log(files)
    assert len(read_all(log)) == 5
    assert isinstance(log.append_batch([event(5)], 0)[0], Refused)
    log.close()
    assert log.counters.checkpoints_failed == 1
    files.capacity = None
    assert Log(files).append_batch([event(5)], 0) == [Stored(5)]


def test_an_interrupted_append_ends_the_log_not_its_truth() -> None:
    files = SimulatedFiles()
    log = filled(5, files=files)

    def interrupt(number: int, kind: str, name: str) -> None:
        if kind == "sync":
            raise KeyboardInterrupt

    files.fault = interrupt
    with pytest.raises(KeyboardInterrupt):
        log.append_batch([event(5)], 0)
    files.fault = None
    with pytest.raises(LogFailed, match="read-only since: appending ended with KeyboardInterrupt"):
        log.append_batch([event(6)], 0)
    log.close()
    assert Log(files).append_batch([event(5), event(6)], 0) == [Duplicate(5), Stored(6)]


def test_batches_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(SimulatedFiles())
    monkeypatch.setattr(_batch, "MAX_BATCH_RECORDS", 2)
    with pytest.raises(LimitError, match="number of events in a batch is 3, the limit is 2"):
        log.append_batch([event(seq) for seq in range(3)], 0)
    monkeypatch.setattr(_batch, "MAX_BATCH_BYTES", 20)
    with pytest.raises(LimitError, match=r"bytes of the events in a batch is .*, the limit is 20"):
        log.append_batch([event(seq) for seq in range(2)], 0)
    assert log.next == log.counters.accepted == 0


FILL = """
import resource, sys
from vicinal.event import Event
from vicinal_cloud.log import Log, LogOptions, Stored, entry_of
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))
log = Log(sys.argv[1], LogOptions(segment_bytes=1 << 20))
stored, refused = [], 0
for seq in range(0, 400, 4):
    batch = [entry_of(Event("Speed", [("pad", "x" * 50)], producer="p", seq=seq + i)) for i in range(4)]
    results = log.append_batch(batch, 0)
    if isinstance(results[0], Stored): stored += [seq + i for i in range(4)]
    else:
        refused += 1
        assert results[0].reason == "no space", results
        assert "File too large" in results[0].message, results
    if refused == 3: break
assert refused == 3
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, resource.RLIM_INFINITY))
assert isinstance(log.append_batch(batch, 0)[0], Stored)   # space again: it goes on by itself
stored += [seq + i for i in range(4)]
print(*stored)
"""


def test_a_real_limit_on_size(tmp_path: Path) -> None:
    """A short write, then an error, as a full disk gives."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path / "log")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    history = History()
    for seq in map(int, done.stdout.split()):
        history.attempt("p", seq, encode(Event("Speed", [("pad", "x" * 50)], producer="p", seq=seq)))
        history.acknowledged["p", seq] = None
    log = Log(tmp_path / "log")
    assert not check(history, read_all(log))
    assert log.counters.repaired == log.counters.damaged == 0
    log.close()


def test_refusals_of_a_plan_keep_older_duplicates() -> None:
    index = ProducerIndex()
    index.note("car-7", 1, 0)
    plan = Plan([event(1), event(2), event(2)], index, 1, 0)
    assert plan.refuse("no space", "full") == [Duplicate(0), Refused("no space", "full"), Refused("no space", "full")]
    assert index.highest("car-7") == 1
    assert _batch.NO_SPACE == "no space"
