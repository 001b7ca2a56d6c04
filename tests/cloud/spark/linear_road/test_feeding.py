"""Rows as events in a real broker's log, each once and in order; and the clock of a paced run."""

from pathlib import Path
from typing import Any

import pytest
from cloud.spark.linear_road.helpers import Row, balance, expenditure, report

from vicinal.event import Event
from vicinal_cloud.log import LogReader
from vicinal_cloud.log.scoped import event_of
from vicinal_cloud.spark.linear_road.accounts import BalanceQuery
from vicinal_cloud.spark.linear_road.direction import Found
from vicinal_cloud.spark.linear_road.feeding import PRODUCER, Feeder, fed_before
from vicinal_cloud.spark.linear_road.office import Delays, Office
from vicinal_cloud.spark.linear_road.sink import Sink
from vicinal_cloud.spark.linear_road.streaming import Batch
from vicinal_tools.spark._broker import broker


def rows_for(seconds: int) -> list[Row]:
    rows: list[Row] = []
    for second in range(seconds):
        rows += [report(second, vid, vid % 100) for vid in range(700)]
        rows += [balance(second, 7, second), expenditure(second, 8, second + 1000, 4)]
    return rows


def write(path: Path, rows: list[Row]) -> Path:
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


def events_in(log: Path) -> list[Event]:
    reader = LogReader(log / "published")
    found: list[Event] = []
    while len(found) < reader.next:
        records, _ = reader.read(len(found), 1000)
        found += [event_of(record) for record in records]
    return found


def feed(feeder: Feeder) -> None:
    feeder.start()
    feeder.join(60)
    if feeder.error is not None:
        raise feeder.error


def _stopping_at(rows: int) -> Any:
    """As one that is killed: it says nothing of an end."""
    count = Feeder._count

    def stopping(self: Feeder, events: list[Event]) -> None:
        count(self, events)
        if self.fed >= rows:
            self.stop()

    return stopping


@pytest.mark.parametrize("paced", [False, True])
def test_a_feeder_that_was_stopped_goes_on_behind_the_last_row(
    tmp_path: Path, paced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rows_for(3)
    half = len(rows) // 2 + 1
    part, whole = write(tmp_path / "part", rows[:half]), write(tmp_path / "whole", rows)
    monkeypatch.setattr(Feeder, "_count", _stopping_at(half // 2))
    assert fed_before(tmp_path / "log") == 0
    with broker(tmp_path) as address:
        feed(Feeder(part, address, paced=paced))
        before = fed_before(tmp_path / "log")
        assert half // 2 <= before < half
        monkeypatch.undo()
        feed(Feeder(whole, address, before, paced))
        assert fed_before(tmp_path / "log") == len(rows)
        feed(Feeder(whole, address, len(rows), paced))  # the end again: it is in the log already
    events = [event for event in events_in(tmp_path / "log") if event.producer == PRODUCER]
    assert events[-1].subject == "EndOfInput"
    fed = [event for event in events if event.subject not in ("EndOfInput", "SecondOver")]
    assert [event.seq for event in fed] == [2 * number for number in range(1, len(rows) + 1)]
    assert [(event.params["time"], event.params["vid"]) for event in fed] == [(row[1], row[2]) for row in rows]
    assert list(fed[0].params.items()) == list(
        zip(["time", "vid", "spd", "xway", "lane", "dir", "seg", "pos"], rows[0][1:9])
    )
    assert fed[700].subject == "AccountBalance"
    assert dict(fed[701].params) == {"time": 0, "vid": 8, "xway": 0, "qid": 1000, "day": 4}
    overs = [place for place, event in enumerate(events) if event.subject == "SecondOver"]
    assert bool(overs) is paced
    for place in overs:
        assert events[place - 1].params["time"] < events[place].params["time"] == events[place + 1].params["time"]


def test_warming_up_comes_before_the_rows_and_is_none_of_them(tmp_path: Path) -> None:
    calls: list[int] = []
    rows = rows_for(1)
    with broker(tmp_path) as address:
        feed(Feeder(write(tmp_path / "input", rows), address, paced=True, warm=lambda: calls.append(1)))
    events = events_in(tmp_path / "log")
    assert calls
    assert {event.subject for event in events[: -len(rows) - 1]} == {"WarmUp"}
    assert fed_before(tmp_path / "log") == len(rows)


def batch(found: Found, balances: list[BalanceQuery], now: int) -> Batch:
    return Batch([(0, 0, found)], balances, [], 0, now, False)


def test_emit_is_when_it_was_written_rounded_up_and_never_before_its_tuple(tmp_path: Path) -> None:
    clock = iter([103.25, 103.5, 104.0, 104.0, 109.0, 109.0])
    sink = Sink(tmp_path, tmp_path / "state")
    office = Office(sink, None, lambda: 100.0, lambda: next(clock))
    office.do(0, batch(Found([(1, 1, 30, 0), (2, 3, 30, 0)], [], []), [BalanceQuery(3, 1, 9)], 3))
    office.do(1, batch(Found([(3, 5, 30, 2)], [(5, 7, 3)], [(5, 1, 8)]), [], 5))
    office.do(1, batch(Found([(4, 5, 30, 2)], [], []), [], 5))  # again: it is in the files
    assert (tmp_path / "type0.csv").read_text() == "0,1,1,4,30,0\n0,2,3,4,30,0\n0,3,5,5,30,2\n"
    assert (tmp_path / "type1.csv").read_text() == "1,5,5,0,7,0,3\n"
    assert (tmp_path / "type2.csv").read_text() == "2,3,4,3,9,0\n"
    assert office.delays.most(0) == pytest.approx(2.5)
    assert office.delays.most(2) == pytest.approx(1.0)
    assert office.answered == [3, 1, 1, 0]
    sink.close()
    again = Sink(tmp_path, tmp_path / "state")
    assert (again.batch, again.now, again.ended, again.rows) == (1, 5, False, [3, 1, 1, 0])
    assert again.accounts().balances == {1: 8}
    again.close()


def test_the_clock_stands_still_until_rows_are_fed_again(tmp_path: Path) -> None:
    sink = Sink(tmp_path, tmp_path / "state")
    office = Office(sink, None, lambda: 0.0, lambda: 1e9)
    office.do(0, batch(Found([(1, 50, 30, 0), (2, 52, 30, 0)], [], []), [], 52))
    assert (tmp_path / "type0.csv").read_text() == "0,1,50,52,30,0\n0,2,52,52,30,0\n"
    assert office.delays.most(0) == 2.0
    sink.close()


def test_what_waits_survives(tmp_path: Path) -> None:
    sink = Sink(tmp_path, tmp_path / "state")
    Office(sink, None).do(0, batch(Found([], [], [(3, 1, 8)]), [BalanceQuery(3, 1, 9)], 3))
    sink.close()
    sink = Sink(tmp_path, tmp_path / "state")
    Office(sink, None).do(1, batch(Found([], [], [(3, 1, 2)]), [], 4))
    sink.close()
    assert (tmp_path / "type2.csv").read_text() == "2,3,3,3,9,10\n"


def test_quantiles_of_delays() -> None:
    delays = Delays()
    delays.add(0, list(range(100)), 100.0)  # 1 s to 100 s
    assert (delays.count(0), delays.most(0)) == (100, 100.0)
    assert [delays.quantile(0, part) for part in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert (delays.most(1), delays.quantile(1, 0.5)) == (0.0, 0.0)
