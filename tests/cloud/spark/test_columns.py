"""Events as columns are the events; conditions over columns are the filters. No Spark is needed for either."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cloud.spark import fleet
from hypothesis import given, settings
from strategies import Grammar, Seeded, make_event, seeds

pytest.importorskip("pyarrow")

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Tags
from vicinal.wire import decode, encode
from vicinal_cloud.log import Log, LogOptions, Record, entry, entry_of
from vicinal_cloud.log._record import HEAD_BYTES, MAGIC
from vicinal_cloud.log.scoped import entry_with
from vicinal_cloud.spark.conditions import Bound, decided, may_match, select
from vicinal_cloud.spark.forms import Block, blocks_of, event_at
from vicinal_cloud.spark.logs import Asked, DirectoryLog, Lost
from vicinal_cloud.spark.sidecar import FOLDER
from vicinal_cloud.spark.stretches import stretch_at

# The town is made once, by one worker.
pytestmark = pytest.mark.xdist_group("columns")

# Each draws hundreds of events.
BATCHES = settings(max_examples=settings().max_examples // 20, deadline=None)


def records(events: list[Event]) -> list[Record]:
    return [Record(at, 7 + at, event.producer or "", event.seq or 0, encode(event)) for at, event in enumerate(events)]


def some_events(source: Seeded, count: int, typed: bool = False) -> list[Event]:
    """Of few forms, each many times, so that there are matrices; and some of any form."""
    shapes = [make_event(source, typed=typed) for _ in range(4)]
    found = []
    for number in range(count):
        if source.chance(8):
            event = make_event(source)
        else:
            event = shapes[number % len(shapes)]
            params = {name: _like(source, value) for name, value in event.params.items()}
            event = Event(event.subject, params, event.attrs)
        found.append(event.stamp(f"p{number % 7}", number))
    return found


def _like(source: Seeded, value: Any) -> Any:
    if type(value) is int:
        number = source.number()
        return number if isinstance(number, int) else source.one((0, 23, 24, 255, 256, 65536, 1 << 32, -1, -24, -25))
    if type(value) is float:
        return source.one((value, 0.5, 57.2, 1e300, 3.14159, 65504.0, 1e-8, float(source.random.randrange(1000))))
    return value


def whole(events: list[Event]) -> Iterator[tuple[int, Event]]:
    blocks, loose = blocks_of(records(events))
    for block in blocks:
        for row in range(len(block)):
            yield int(block.offset[row]), event_at(block, row)
    for one in loose:
        assert one.event is not None
        yield one.record.offset, one.event


@given(seeds)
@BATCHES
def test_events_come_out_as_they_went_in(seed: int) -> None:
    events = some_events(Seeded(seed), 200)
    found = dict(whole(events))
    assert len(found) == len(events)
    for at, event in enumerate(events):
        assert encode(found[at]) == encode(event)


@given(seeds)
@BATCHES
def test_damaged_bytes_are_read_as_the_strict_reader_reads_them(seed: int) -> None:
    """One byte of some is another: never an event that the reader would not take, nor another one."""
    source = Seeded(seed)
    changed = []
    for record in records(some_events(source, 150)):
        data = bytearray(record.event)
        if source.chance(2):
            data[source.random.randrange(len(data))] = source.random.randrange(256)
        changed.append(record._replace(event=bytes(data)))
    blocks, loose = blocks_of(changed)
    found: dict[int, bytes | None] = {}
    for block in blocks:
        for row in range(len(block)):
            found[int(block.offset[row])] = encode(event_at(block, row))
    for one in loose:
        found[one.record.offset] = None if one.event is None else encode(one.event)
    for record in changed:
        try:
            wanted: bytes | None = encode(decode(record.event))
        except Exception:
            wanted = None
        assert found[record.offset] == wanted


@given(seeds)
@BATCHES
def test_conditions_over_columns_are_the_filters(seed: int) -> None:
    source = Seeded(seed)
    events = some_events(source, 120, typed=bool(seed % 2))
    blocks, _ = blocks_of(records(events))
    for _ in range(12):
        condition = Filter(Grammar(source).condition())
        for block in blocks:
            chosen = {int(at) for at in select(block, condition, ()).offset}
            wanted = {int(at) for at in block.offset if condition.matches(events[int(at)])}
            assert chosen == wanted, str(condition)
            if wanted:
                assert may_match(block.form, {}, condition, ())
                assert may_match(block.form, ranges(block), condition, ()), str(condition)


@given(seeds)
@BATCHES
def test_what_a_form_decides_is_so_of_all_its_events(seed: int) -> None:
    source = Seeded(seed)
    events = some_events(source, 60, typed=bool(seed % 2))
    blocks, _ = blocks_of(records(events))
    for _ in range(40):
        one, other = (
            Grammar(source).condition(),
            f"subject = '{source.one(events).subject.replace(chr(39), chr(39) * 2)}'",
        )
        condition = Filter(source.one((one, f"({one}) OR {other}", f"{other} OR NOT ({one})", f"NOT ({other})")))
        for block in blocks:
            said = decided(block.form, condition)
            assert said in (None, *{condition.matches(events[int(at)]) for at in block.offset}), str(condition)
            if said is not None:
                assert all(condition.matches(events[int(at)]) == said for at in block.offset), str(condition)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("subject = 'Position'", True),
        ("subject = 'Other'", False),
        ("subject = 'Position' AND rate IS NOT NULL", True),
        ("rate > 5 OR subject LIKE 'P%'", True),
        ("rate > 5", None),
        ("rate > 5 OR missing > 5", None),
        ("NOT (missing > 5)", False),
        ("rate = 'fast'", False),
        ("NOT within(521002500, 44002500, 200)", None),
    ],
)
def test_a_form_decides_what_does_not_depend_on_values(text: str, said: bool | None) -> None:
    (block,) = blocks_of(records(fleet.positions(30)))[0]
    assert decided(block.form, Filter(text)) is said


def ranges(block: Block) -> dict[str, tuple[Any, Any]]:
    """Least and greatest, as Parquet keeps them."""
    found: dict[str, tuple[Any, Any]] = {}
    for (name, _), array in zip(block.form.columns, block.columns):
        values = array.tolist() if hasattr(array, "tolist") else array.to_pylist()
        found[name] = (min(values), max(values))
    return found


def asked(text: str | None, bounds: tuple[Bound, ...] = (), sidecars: bool = True) -> Asked:
    return Asked(None, None if text is None else Filter(text), bounds, sidecars)


def offsets(log: DirectoryLog, what: Asked) -> list[int]:
    found: list[int] = []
    first, end = log.ends()
    for piece in log.plan(first, end, what.sidecars):
        for one in log.blocks(piece, what):
            if isinstance(one, Block):
                found += one.offset.tolist()
            elif not isinstance(one, Lost):
                found += [loose.record.offset for loose in one]
    return sorted(found)


CONDITIONS = [
    None,
    "subject = 'Position'",
    "subject = 'Other'",
    "rate > 30",
    "rate > 39.5 AND heading < 90",
    "$Time BETWEEN 1700000001000 AND 1700000002000",
    "lat < 521010000",
    "within(521002500, 44002500, 200)",
    "producer IS NULL AND note LIKE 'n%'",
]


def test_a_sidecar_gives_what_the_log_gives(tmp_path: Path) -> None:
    events = fleet.positions(9000)
    events[77] = Event("Note", {"note": "nested", "inner": Event("x")}, {}, "other", 1)
    events[5000] = Event("Note", {"note": "n", "x": float("nan")}, {}, "other", 2)
    log = DirectoryLog(fleet.write(tmp_path / "log", events, segment_bytes=400_000))
    for text in CONDITIONS:
        plain = offsets(log, asked(text, sidecars=False))
        assert offsets(log, asked(text)) == plain, text
        assert plain == [at for at, event in enumerate(events) if text is None or Filter(text).matches(event)]
    made = list((tmp_path / "log" / FOLDER).iterdir())
    assert len(made) == len(list((tmp_path / "log").glob("*.segment"))) - 1


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Columns have been made of it."""
    events = fleet.positions(60_000, cars=100)
    for at in range(50, 60_000, 100):
        events[at] = Event("Rare", {"n": at}, {}, "rare", at)
    folder = fleet.write(tmp_path_factory.mktemp("town") / "log", events, segment_bytes=2 << 20)
    offsets(DirectoryLog(folder), asked(None))
    return folder


def kernel_reads() -> int:
    """Bytes that this process has asked the kernel for, by its own count."""
    return int(Path("/proc/self/io").read_text().split()[1])


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("subject = 'Rare'", ()),
        (None, (Bound("_producer", "=", "car-7"),)),
        ("within(521002500, 44002500, 200)", ()),
        (None, (Bound("_received_ms", "<", fleet.START + 500),)),
        ("lat BETWEEN 521000000 AND 521005000", ()),
        # Spread evenly over all cars and times: who asks first makes an order (orders.py).
        ("rate > 39.6", ()),
        (None, (Bound("heading", "in", (7, 200, 333)),)),
        ("subject = 'Position' AND heading BETWEEN 100 AND 102 AND rate > 1", ()),
        ("heading >= 100", (Bound("heading", "<=", 102),)),
    ],
)
def test_a_condition_that_keeps_a_hundredth_reads_a_twentieth(
    town: Path, text: str | None, bounds: tuple[Bound, ...]
) -> None:
    """Bytes as they lie on disk, of the log's; asked for the second time. Nobody has asked for anything else before."""
    for one in town.rglob("*.by-*.parquet"):
        one.unlink()
    closed = sorted(town.glob("*.segment"))[:-1]
    total = sum(one.stat().st_size for one in closed)
    end = int(sorted(town.glob("*.segment"))[-1].name[:20])
    kept = []
    for _ in range(2):
        log = DirectoryLog(town)
        pieces = log.plan(0, end)
        before = kernel_reads()
        found = [one for piece in pieces for one in log.blocks(piece, asked(text, bounds))]
        kernel = kernel_reads() - before
        assert all(isinstance(one, Block) for one in found)
        kept.append(sorted(at for one in found if isinstance(one, Block) for at in one.offset.tolist()))
    assert kept[0] == kept[1]
    assert 0 < len(kept[0]) <= 0.011 * end + 400
    assert log.read.bytes <= 0.05 * total, (log.read.bytes, total)
    # Counted honestly: the rest are heads of files and of segments.
    assert kernel <= log.read.bytes + 0.01 * total


def test_an_order_is_made_where_it_pays_and_not_elsewhere(tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "log", fleet.positions(40_000, cars=100), segment_bytes=2 << 20)
    log = DirectoryLog(folder)
    for text in (None, "rate > 5", "rate > 39 OR heading = 3", "lat < 521010000", "_x = 3"):
        offsets(log, asked(text))
        assert not list(folder.rglob("*.by-*.parquet")), text
    wanted = offsets(log, asked("rate > 39 AND heading < 90", sidecars=False))
    assert offsets(log, asked("rate > 39 AND heading < 90")) == wanted
    orders = list(folder.rglob("*.by-*.parquet"))
    assert {one.name for one in orders} == {"0.by-2.parquet"}  # by the rate, which keeps least
    for damage in (lambda one: one.write_bytes(b"PAR1"), lambda one: one.unlink()):
        for one in orders:
            damage(one)
        assert offsets(log, asked("rate > 39 AND heading < 90")) == wanted


def test_of_the_open_segment_all_but_the_last_share_has_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vicinal_cloud.spark.logs.SHARE", 4096)
    folder = tmp_path / "log"
    events = fleet.positions(20_000)
    writer = Log(folder, LogOptions(segment_bytes=2_200_000))
    fleet.append(writer, events[:18_000])
    for text in CONDITIONS:
        wanted = offsets(DirectoryLog(folder), asked(text, sidecars=False))
        for _ in range(2):
            log = DirectoryLog(folder)
            assert offsets(log, asked(text)) == wanted, text
    (segment,) = folder.glob("*.segment")
    left = (18_000 % 4096) / 18_000
    log = DirectoryLog(folder)
    offsets(log, asked("lat < 521010000"))
    assert log.read.bytes < (left + 0.05) * segment.stat().st_size
    assert {one.name for one in (folder / FOLDER).iterdir()} == {f"{segment.name}+{at * 4096}" for at in range(4)}
    # From the middle of a share to the middle of another: never a row too many.
    log = DirectoryLog(folder)
    some = [one for piece in log.plan(1000, 9000) for one in log.blocks(piece, asked(None)) if isinstance(one, Block)]
    assert sorted(at for one in some for at in one.offset.tolist()) == list(range(1000, 9000))
    # Closed, it is one again.
    fleet.append(writer, events[18_000:])
    writer.close()
    assert len(list(folder.glob("*.segment"))) == 2
    for _ in range(2):
        assert offsets(DirectoryLog(folder), asked(None)) == list(range(20_000))
    assert {one.name for one in (folder / FOLDER).iterdir()} == {segment.name}


@pytest.mark.parametrize("magic", [False, True])
def test_records_at_once_are_those_of_the_logs_own_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, magic: bool
) -> None:
    """Of a log with scopes and strangers in it, sound, and with one byte changed anywhere. One that has the magic of
    records in an event is not read at once."""
    source = Seeded(3 + magic)
    events = some_events(source, 240)
    log = Log(tmp_path / "log")
    log.append_batch(
        [
            entry_with(event, Tags([("geography", "town")], False)) if at % 5 == 0 else entry_of(event)
            for at, event in enumerate(events)
        ],
        7,
    )
    log.append_batch([entry(b"\xd7T\xff\xff", "stranger", at) for at in range(40)], 8)
    log.append_batch([entry(b"x" + (MAGIC if magic else b"y") * 20, "stranger", 40)], 9)
    log.close()
    (segment,) = (tmp_path / "log").glob("*.segment")
    sound = segment.read_bytes()
    at_once = stretch_at(sound[HEAD_BYTES:], int(segment.name[21:29], 16), 0, 281)
    assert (at_once is None) == magic
    for number in range(12 if not magic else 3):
        data = bytearray(sound)
        if number == 1:  # a whole record is gone
            places = [one.start() for one in re.finditer(re.escape(MAGIC), sound)]
            del data[places[50] : places[51]]
        elif number:
            data[source.random.randrange(len(data))] ^= 1 << source.random.randrange(8)
        segment.write_bytes(data)
        fast = everything(DirectoryLog(tmp_path / "log"))
        with monkeypatch.context() as patched:
            patched.setattr("vicinal_cloud.spark.logs.stretch_at", lambda *_: None)
            assert everything(DirectoryLog(tmp_path / "log")) == fast
        assert len(fast) == 281 or number


def everything(log: DirectoryLog) -> dict[int, Any]:
    """By offset: what each record is, and how long each hole."""
    found: dict[int, Any] = {}
    for piece in log.plan(*log.ends(), False):
        for one in log.blocks(piece, asked(None, sidecars=False)):
            if isinstance(one, Block):
                found |= {
                    int(at): (encode(event_at(one, row)), int(one.received[row])) for row, at in enumerate(one.offset)
                }
            elif isinstance(one, Lost):
                found[one.first] = one
            else:
                found |= {loose.record.offset: (loose.record, loose.error) for loose in one}
    return found


def test_a_sidecar_that_is_not_whole_is_made_anew(tmp_path: Path) -> None:
    log = DirectoryLog(fleet.write(tmp_path / "log", fleet.positions(20_000)))
    wanted = offsets(log, asked(None))
    folder = sorted((tmp_path / "log" / FOLDER).iterdir())[0]
    for damage in (
        lambda: (folder / "forms.json").write_text("{"),
        lambda: (folder / "0.parquet").write_bytes(b"PAR1"),
        lambda: (folder / "forms.json").unlink(),
        lambda: (folder / "forms.json").write_text(
            (folder / "forms.json").read_text().replace('"bytes": ', '"bytes": 1')
        ),
    ):
        damage()
        assert offsets(log, asked(None)) == wanted
        assert (folder / "forms.json").exists()


def test_sidecars_go_with_their_segments(tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "log", fleet.positions(20_000))
    log = DirectoryLog(folder)
    offsets(log, asked(None))
    first = sorted(folder.glob("*.segment"))[0]
    first.unlink()
    log = DirectoryLog(folder)
    offsets(log, asked(None))
    assert first.name not in {one.name for one in (folder / FOLDER).iterdir()}


def test_what_retention_has_taken_is_said_with_its_count(tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "log", fleet.positions(20_000))
    segments = sorted(folder.glob("*.segment"))
    gone = int(segments[1].name[:20])
    segments[0].unlink()
    log = DirectoryLog(folder)
    found = [one for piece in log.plan(5, 20_000) for one in log.blocks(piece, asked(None)) if isinstance(one, Lost)]
    assert found == [Lost(5, gone - 1, "removed by retention")]


def test_what_is_damaged_is_said_with_its_count(tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "log", fleet.positions(20_000))
    segment = sorted(folder.glob("*.segment"))[0]
    data = bytearray(segment.read_bytes())
    data[5000] ^= 1
    segment.write_bytes(data)
    for sidecars in (False, True):
        log = DirectoryLog(folder)
        what = asked(None, sidecars=sidecars)
        lost = [
            one for piece in log.plan(0, 20_000, sidecars) for one in log.blocks(piece, what) if isinstance(one, Lost)
        ]
        assert [one.why for one in lost] == ["damaged"]
        assert len(offsets(log, what)) + lost[0].last - lost[0].first + 1 == 20_000
