"""Damage: every flipped bit and every missing end is found, nothing wrong is served, and only what was hit is lost."""

import os
import random
import zlib

import pytest
from cloud.log.mutants import apply
from cloud.log.workload import read_all

from vicinal.event import Event
from vicinal.wire import encode
from vicinal_cloud.log import Log, LogOptions, LogReader, Record, Stored, entry
from vicinal_cloud.log._checkpoint import CHECKPOINT, COMMITTED
from vicinal_cloud.log._record import HEAD_BYTES, Head, encode_record, parse_segment_name, segment_name
from vicinal_cloud.log._scan import Scanner
from vicinal_cloud.log.simulated_files import SimulatedFiles

FLIPS = 100_000 if os.environ.get("VICINAL_SOAK") else 12_000
OPTIONS = LogOptions(segment_bytes=2000)


def filled(seed: int = 5, batches: int = 40) -> tuple[SimulatedFiles, list[Record]]:
    files = SimulatedFiles(seed)
    rng = random.Random(seed)
    log = Log(files, OPTIONS, lambda: rng.getrandbits(32))
    for seq in range(batches):
        data = encode(Event("Speed", [("rate", seq), ("pad", "y" * rng.randrange(80))]))
        log.append_batch([entry(data + bytes([n]), f"car-{n}", seq) for n in range(rng.randrange(1, 5))], seq)
    records = read_all(log)
    log.close()
    return files, records


class Copy(SimulatedFiles):
    """A fresh copy of a disk for every trial."""

    def __init__(self, files: SimulatedFiles) -> None:
        super().__init__()
        for name in files.names():
            self.write_at(name, 0, files.read(name, 0, 1 << 20))
            self.sync(name)
        self.sync_directory()
        self._boot = files._boot


def offsets_hit(files: SimulatedFiles, name: str, records: list[Record], start: int, end: int) -> set[int]:
    """Whose bytes lie in start..end-1 of the segment; computed from the format, not by the scanner."""
    parsed = parse_segment_name(name)
    assert parsed is not None
    bases = sorted(found[0] for found in map(parse_segment_name, files.names()) if found)
    high = next((base for base in bases if base > parsed[0]), 1 << 62)
    hit, at = set(), HEAD_BYTES
    for record in records:
        if parsed[0] <= record.offset < high:
            size = len(encode_record(record, parsed[1]))
            if at < end and start < at + size:
                hit.add(record.offset)
            at += size
    return hit


def trial(files: SimulatedFiles, records: list[Record], name: str, hit: set[int], scan: bool) -> None:
    """Opens the damaged log, with and without a checkpoint, and reads it in both ways."""
    if scan and CHECKPOINT in files.names():
        files.remove(CHECKPOINT)
    want = [record for record in records if record.offset not in hit]
    reader = LogReader(files)
    assert read_all(reader) == want, (name, hit)
    log = Log(files, OPTIONS)
    assert log.next == len(records)
    assert read_all(log) == want, (name, hit)
    lost = {offset for damage in log.damage.values() for offset in range(damage.first, damage.last + 1)}
    assert lost == hit
    assert log.counters.damaged == len(hit)
    if hit:
        assert log.append_batch([entry(b"\x80", "new", 1)], 0) == [Stored(len(records))]
        assert read_all(log)[-1].producer == "new"
    log.close()


def segments(files: SimulatedFiles) -> list[str]:
    return [name for name in files.names() if name.endswith(".segment")]


def flips(count: int, seed: int = 1) -> None:
    original, records = filled(batches=24)
    rng = random.Random(seed)
    names = [*segments(original), CHECKPOINT, COMMITTED]
    for number in range(count):
        files = Copy(original)
        name = rng.choice(names)
        bit = rng.randrange(8 * files.size(name))
        files.flip(name, bit)
        hit = offsets_hit(files, name, records, bit // 8, bit // 8 + 1) if name.endswith(".segment") else set()
        trial(files, records, name, hit, number % 3 == 0)


@pytest.mark.parametrize("part", range(4))
def test_every_flipped_bit_costs_the_record_it_is_in(part: int) -> None:
    flips(FLIPS // 4, part)


def test_without_crc_flips_would_be_served() -> None:
    with apply("no_crc_check"), pytest.raises((AssertionError, UnicodeDecodeError)):
        flips(200)


@pytest.mark.parametrize("seed", range(4))
def test_bursts_and_missing_ends(seed: int) -> None:
    original, records = filled(seed)
    rng = random.Random(seed)
    for number in range(FLIPS // 40):
        files = Copy(original)
        name = rng.choice(segments(files))
        size = files.size(name)
        start = rng.randrange(size)
        if number % 2:
            end = min(size, start + rng.randrange(1, 400))
            old = files.read(name, start, end - start)
            new = bytes(byte ^ rng.randrange(1, 256) for byte in old)
            files.write_at(name, start, new)
        else:
            end = size
            files.chop(name, start)
        files.sync(name)
        trial(files, records, name, offsets_hit(original, name, records, start, end), number % 3 == 0)


def test_two_holes_at_once() -> None:
    original, records = filled()
    rng = random.Random(3)
    for _ in range(300):
        files = Copy(original)
        hit: set[int] = set()
        name = segments(files)[0]
        for _ in range(2):
            bit = rng.randrange(8 * files.size(name))
            files.flip(name, bit)
            hit |= offsets_hit(files, name, records, bit // 8, bit // 8 + 1)
        if len(hit) == 2:
            trial(files, records, name, hit, True)


def test_a_whole_segment_missing_is_a_hole() -> None:
    original, records = filled()
    names = segments(original)
    for name, following in zip(names[1:], [*names[2:], None]):
        files = Copy(original)
        files.remove(name)
        base = parse_segment_name(name)
        top = parse_segment_name(following) if following else None
        assert base
        hit = set(range(base[0], top[0] if top else len(records)))
        log = Log(files, OPTIONS)
        assert read_all(log) == [record for record in records if record.offset not in hit]
        assert log.next == len(records)


def test_an_event_that_looks_like_records_is_not_taken_for_them() -> None:
    """Behind damage the scanner looks for records: an event that holds some, made without the salt, must not pass."""
    rng = random.Random(9)
    files = SimulatedFiles()
    log = Log(files, OPTIONS, lambda: rng.getrandbits(32))
    forged = b"".join(encode_record(Record(offset, 1, "victim", 99, b"\x80", 0), 0) for offset in range(1, 5))
    log.append_batch([entry(forged, "evil", 1)], 0)
    log.append_batch([entry(b"\x81\x01", "good", 1)], 0)
    log.close()
    name = segments(files)[0]
    for bit in range(8 * HEAD_BYTES, 8 * (HEAD_BYTES + 60)):
        damaged = Copy(files)
        damaged.flip(name, bit)
        assert [record.producer for record in read_all(Log(damaged))] == ["good"]


def test_random_bytes_are_never_records() -> None:
    rng = random.Random(4)
    for _ in range(300):
        scanner = Scanner(rng.getrandbits(32), 0, 1 << 62, 0)
        data = rng.randbytes(500) + b"\xd7Vr\n" + rng.randbytes(200)
        for at in range(0, len(data), 64):
            scanner.feed(data[at : at + 64])
            assert scanner.take(10) == []
        scanner.feed(b"")
        assert scanner.take(10) == []
        assert scanner.end == 0


def test_the_bytes_are_those_of_the_description() -> None:
    """README.md of the log, by hand: another program may read it."""
    record = Record(7, 1700000000000, "car-7", 12, b"\x85event", 2)
    body = (
        (6).to_bytes(4, "big")
        + (7).to_bytes(8, "big")
        + (1700000000000).to_bytes(8, "big")
        + (12).to_bytes(8, "big")
        + (2).to_bytes(4, "big")
        + b"\x05car-7\x85event"
    )
    assert encode_record(record, 0x01020304) == b"\xd7Vr\n" + zlib.crc32(body, 0x01020304).to_bytes(4, "big") + body
    assert segment_name(7, 0x01020304) == "00000000000000000007-01020304.segment"
    files = SimulatedFiles()
    Log(files, salt=lambda: 0x01020304).append_batch([entry(b"x", "p", 1)], 5)
    head = files.read(segment_name(0, 0x01020304), 0, HEAD_BYTES)
    fields = b"VicSeg\r\n\x00\x01\x01\x02\x03\x04" + bytes(8) + (5).to_bytes(8, "big")
    assert head == fields + zlib.crc32(fields).to_bytes(4, "big")
    assert Head(1, 2, 3)._fields == ("salt", "base", "time")
