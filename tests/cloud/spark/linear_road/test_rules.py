"""The rules of Linear Road: their own examples, and all of them against a reference that looks at everything."""

import pickle
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from cloud.spark.linear_road import reference
from cloud.spark.linear_road.helpers import balance, by_key, expenditure, history_of, report, run, table
from cloud.spark.linear_road.traffic import traffic
from hypothesis import assume, given
from hypothesis import strategies as st

from vicinal_cloud.spark.linear_road.direction import Direction, Found
from vicinal_cloud.spark.linear_road.plain import LinearRoad
from vicinal_cloud.spark.linear_road.tolls import accident_ahead, toll

SEEDS = st.integers(0, 2**32)
HISTORY = {(vid, day, xway): vid * 100 + day * 10 + xway for vid in range(5) for day in (1, 2) for xway in (0, 1)}


@given(SEEDS)
def test_answers_are_those_of_the_reference_wherever_batches_end(seed: int) -> None:
    rows = traffic(seed)
    wanted = sorted(reference.answers(rows, HISTORY))
    assert by_key(run(rows, cuts(seed, rows), history_of(HISTORY))) == [tuple(answer) for answer in wanted]


@given(SEEDS)
def test_a_direction_goes_on_from_its_state(seed: int) -> None:
    reports = [(r[1], r[2], r[3], r[5], r[7], r[8]) for r in traffic(seed) if r[0] == 0 and (r[4], r[6]) == (0, 1)]
    whole = Direction(1).drive(reports)
    direction, found = Direction(1), Found([], [], [])
    for begin, end in pairwise([0, *cuts(seed, reports), len(reports)]):
        for all_of_it, part in zip(found, direction.drive(reports[begin:end])):
            all_of_it.extend(part)  # type: ignore[arg-type]
        direction = Direction.of(pickle.loads(pickle.dumps(direction.state())))
    assert found == whole


@given(SEEDS)
def test_answers_depend_on_the_order_of_one_vehicle_alone(seed: int) -> None:
    reports = [row for row in traffic(seed) if row[0] == 0]
    # Of three that stand in one segment, the order says which two are its accident.
    stays = Counter((row[4], row[6], row[7], row[5], row[8], row[2]) for row in reports)
    stopped = Counter(segment for segment, _ in {(stay[:3], stay[5]) for stay, count in stays.items() if count > 3})
    assume(max(stopped.values(), default=0) <= 2)
    random = Random(seed)
    mixed = sorted(reports, key=lambda row: (row[1], random.random()))
    assert by_key(run(mixed)) == by_key(run(reports))


def cuts(seed: int, rows: Sequence[object]) -> list[int]:
    random = Random(seed)
    return sorted(random.randint(0, len(rows)) for _ in range(random.choice([0, 2, 8, len(rows) // 3])))


# -- tolls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cars", "lav", "wanted"),
    [(50, 39, 0), (51, 39, 2), (52, 39, 8), (60, 0, 200), (51, 40, 0), (52, 70, 0), (0, 0, 0)],
)
def test_tolls(cars: int, lav: int, wanted: int) -> None:
    assert toll(cars, lav) == wanted


def crowd(minute: int, seg: int, cars: int, spd: int = 30, **where: int) -> list[tuple[int, ...]]:
    begin = (minute - 1) * 60
    return [report(begin + n % 60, 1000 * minute + n, seg, spd=spd, **where) for n in range(cars)]


def said(lines: list[str], *key: int) -> tuple[int, ...] | None:
    return dict(by_key(lines)).get(key)


def in_order(*rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return sorted((row for some in rows for row in some), key=lambda row: row[1])


@pytest.mark.parametrize(("cars", "wanted"), [(50, 0), (51, 2), (52, 8)])
def test_the_toll_is_of_the_minute_before(cars: int, wanted: int) -> None:
    rows = in_order(crowd(3, 10, cars), [report(180, 1, 10), report(240, 2, 10)])
    lines = run(rows)
    assert said(lines, 0, 1, 180) == (30, wanted)
    assert said(lines, 0, 2, 240) == (30, 0)  # one car was there in minute 4


def test_a_vehicle_counts_once_a_minute_in_a_segment() -> None:
    rows = in_order(crowd(1, 10, 50), [report(0, 1, 10), report(30, 1, 10, pos=5280 * 10 + 9), report(60, 2, 10)])
    assert said(run(rows), 0, 2, 60) == (30, 2)


def test_lav_is_over_five_minutes_by_readings_and_rounds_half_up() -> None:
    rows = [report(0, 1, 10, spd=100)]  # minute 1: out of reach from minute 7
    rows += [
        report(60, 2, 10, spd=39),
        report(300, 3, 10, spd=40),
        report(301, 4, 10, spd=40),
        report(310, 5, 10, spd=39),
    ]
    rows += [report(360, 6, 10), report(359, 7, 11)]
    lines = run(sorted(rows, key=lambda row: row[1]))
    assert said(lines, 0, 6, 360) == (40, 0)  # 158 / 4 = 39.5
    assert said(lines, 0, 3, 300) == (70, 0)  # 139 / 2 = 69.5
    assert said(lines, 0, 1, 0) == (0, 0)


def test_a_notification_for_every_segment_and_none_for_the_exit() -> None:
    rows = [report(0, 1, 5, lane=0), report(30, 1, 5), report(60, 1, 6), report(90, 1, 7), report(120, 1, 8, lane=4)]
    assert [key for key, _ in by_key(run(rows))] == [(0, 1, 0), (0, 1, 60), (0, 1, 90)]


def test_a_toll_is_charged_in_the_next_segment() -> None:
    rows = in_order(
        crowd(1, 10, 52),
        [report(60, 1, 10), report(90, 1, 10, pos=53_000), balance(90, 1, 1), report(120, 1, 11), balance(120, 1, 2)],
    )
    lines = run(rows)
    assert said(lines, 2, 90, 1) == (90, 0)
    assert said(lines, 2, 120, 2) == (120, 8)


@pytest.mark.parametrize(("seg", "wanted"), [(10, 0), (11, 8)])
def test_who_leaves_pays_only_in_a_new_segment(seg: int, wanted: int) -> None:
    rows = in_order(crowd(1, 10, 52), [report(60, 1, 10), report(90, 1, seg, lane=4), balance(500, 1, 7)])
    lines = run(rows)
    assert said(lines, 2, 500, 7) == (500, wanted)
    assert said(lines, 0, 1, 90) is None


@pytest.mark.parametrize(("gap", "wanted"), [(60, 8), (61, 0)])
def test_entering_anew_after_more_than_a_minute_forgets_the_toll(gap: int, wanted: int) -> None:
    rows = in_order(crowd(1, 10, 52), [report(60, 1, 10), report(60 + gap, 1, 11, lane=0), balance(500, 1, 7)])
    assert said(run(rows), 2, 500, 7) == (500, wanted)


def test_after_the_exit_only_an_entry_counts() -> None:
    rows = [report(0, 1, 5), report(30, 1, 5, lane=4), report(60, 1, 6), report(400, 1, 7), report(430, 1, 8, lane=0)]
    assert [key for key, _ in by_key(run(rows))] == [(0, 1, 0), (0, 1, 430)]
    # What is ignored is not counted either: 50 cars and it are 50.
    rows = in_order(rows[:2], crowd(2, 10, 50), [report(100, 1, 10), report(120, 2, 10)])
    assert said(run(rows), 0, 2, 120) == (30, 0)


# -- accidents --------------------------------------------------------------------------------------------------


def standing(vid: int, since: int, seg: int, reports: int = 4, **where: int) -> list[tuple[int, ...]]:
    return [report(since + 30 * n, vid, seg, spd=0, pos=seg * 5280 + 100, **where) for n in range(reports)]


def accident(seg: int, **where: int) -> list[tuple[int, ...]]:
    """Found at 100, in minute 2."""
    return standing(1, 0, seg, 20, **where) + standing(2, 10, seg, 20, **where)


def alerts(lines: list[str]) -> list[tuple[int, ...]]:
    return [key[1:] for key, _ in by_key(lines) if key[0] == 1]


@pytest.mark.parametrize(("seg", "alerted"), [(16, False), (17, True), (20, True), (21, False), (0, False)])
@pytest.mark.parametrize("west", [0, 1])
def test_who_comes_into_the_accident_or_four_segments_before_is_told(seg: int, alerted: bool, west: int) -> None:
    # East: an accident in 20 or 21 is ahead of 17; west the road runs the other way.
    place = 20 if seg != 16 else 21
    at, here = (place, seg) if west == 0 else (99 - place, 99 - seg)
    rows = in_order(accident(at, dir=west), [report(130, 9, here, dir=west)])
    assert alerts(run(rows)) == ([(130, 0, at, west, 9)] if alerted else [])


def test_the_nearest_accident_is_told() -> None:
    assert accident_ahead(10, 1, [14, 12, 9, 15]) == 12
    assert accident_ahead(10, -1, [14, 12, 9, 6]) == 9
    assert accident_ahead(10, -1, [5, 11]) == -1
    assert accident_ahead(2, -1, [99]) == -1


@pytest.mark.parametrize(("time", "told"), [(119, False), (120, True), (700, True)])
def test_an_accident_counts_from_the_minute_after(time: int, told: bool) -> None:
    assert bool(alerts(run(in_order(accident(20), [report(time, 9, 18)])))) is told


@pytest.mark.parametrize(("time", "told"), [(220, True), (239, True), (240, False)])
def test_an_accident_counts_up_to_the_minute_in_which_it_is_cleared(time: int, told: bool) -> None:
    rows = in_order(
        standing(1, 0, 20, 7), standing(2, 10, 20, 30), [report(210, 1, 20, pos=105_900), report(time, 9, 18)]
    )
    assert bool(alerts(run(rows))) is told


def test_an_accident_that_is_cleared_in_its_own_minute_never_was() -> None:
    rows = in_order(standing(1, 0, 20), standing(2, 10, 20), [report(110, 1, 20, pos=105_900), report(119, 9, 18)])
    assert alerts(run(in_order(rows, [report(120, 8, 18), report(180, 7, 18)]))) == []


@pytest.mark.parametrize("reports", [3, 4])
@pytest.mark.parametrize("lane", [0, 1, 3])
def test_four_reports_are_a_stop_on_any_lane(reports: int, lane: int) -> None:
    rows = in_order(standing(1, 0, 20, reports, lane=lane), standing(2, 0, 20, 4, lane=lane), [report(300, 9, 19)])
    assert bool(alerts(run(rows))) is (reports == 4)


def test_another_lane_is_another_place() -> None:
    rows = in_order(standing(1, 0, 20, 4, lane=1), standing(2, 0, 20, 4, lane=2), [report(300, 9, 19)])
    assert alerts(run(rows)) == []


def test_a_segment_has_one_accident() -> None:
    first = in_order(standing(1, 0, 20), standing(2, 0, 20), [report(120, 1, 21), report(120, 2, 21)])
    again = [report(200 + 30 * n, vid, 20, pos=105_700, spd=0) for vid in (3, 4) for n in range(4)]
    assert alerts(run(in_order(first, again, [report(400, 9, 20)]))) == []


def test_an_accident_ahead_makes_it_free() -> None:
    rows = in_order(accident(20), crowd(3, 18, 52), [report(180, 9, 18)])
    lines = run(rows)
    assert said(lines, 0, 9, 180) == (30, 0)
    assert (180, 0, 20, 0, 9) in alerts(lines)


# -- queries ----------------------------------------------------------------------------------------------------


def test_a_balance_waits_for_the_end_of_its_second_and_goes_over_all_roads() -> None:
    rows = in_order(crowd(1, 10, 52), crowd(1, 40, 51, xway=1, dir=1))
    rows += [report(60, 1, 10), report(60, 1, 40, xway=1, dir=1), balance(90, 1, 5), report(90, 1, 11)]
    rows += [report(90, 1, 39, xway=1, dir=1), report(91, 1, 12)]
    road = LinearRoad()
    assert road.feed(table(rows[:-1])).rows[2] == []
    assert road.feed(table(rows[-1:])).rows[2] == ["2,90,90,90,5,10\n"]


def test_a_vehicle_that_nobody_knows_has_paid_nothing() -> None:
    assert run([balance(7, 99, 3)]) == ["2,7,7,7,3,0\n"]


def test_expenditures_without_a_history_are_counted_not_answered() -> None:
    road = LinearRoad()
    assert road.feed(table([expenditure(1, 2, 3, 4)])).rows[3] == []
    assert dict(road.desk.unanswered) == {"daily expenditure: no toll history was given": 1}
    road = LinearRoad(history_of({(2, 4, 0): 77, (2, 4, 1): 78, (2, 5, 0): 79}))
    assert road.feed(table([expenditure(1, 2, 3, 4)])).rows[3] == ["3,1,1,3,77\n"]
    assert road.feed(table([expenditure(1, 2, 3, 4, xway=7)])).rows[3] == []
    assert dict(road.desk.unanswered) == {"daily expenditure: not in the toll history": 1}
