"""The outbox against a model that sorts a list: order, numbers, drops and the books, after every step."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vicinal.errors import LocalProtocolError
from vicinal.federation.drop_policy import DEFAULT_CLASSES, Class
from vicinal.federation.flow import TokenBucket
from vicinal.federation.outbox import NEVER, Outbox
from vicinal.proximity import CIRCLE, Proximity

HERE = (533498000, -62603000)
THERE = (523498000, -62603000)
NEAR = Proximity(CIRCLE, False, *HERE, 500)
FAR = Proximity(CIRCLE, False, *THERE, 500)
POLICIES = st.sampled_from(["oldest", "newest", "never"])
FREE_FROM = 1000
Row = dict[str, Any]


class Model:
    """Lists, sorted whenever somebody asks."""

    def __init__(self, max_bytes: int, max_count: int, classes: list[Class], located: bool) -> None:
        self.max_bytes, self.max_count, self.located = max_bytes, max_count, located
        self.classes = sorted(classes, key=lambda one: -one.low)
        self.waits: list[Row] = []
        self.flying: list[Row] = []
        self.again: list[Row] = []
        self.number = 1
        self.accepted = self.delivered = 0
        self.dropped: dict[str, int] = {}
        self.gone: list[tuple[int, str]] = []

    def drop(self, row: Row, reason: str) -> None:
        for rows in (self.waits, self.flying, self.again):
            if row in rows:
                rows.remove(row)
                self.gone.append((row["id"], reason))
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def class_of(self, row: Row) -> Class:
        return next(one for one in self.classes if row["priority"] >= one.low)

    def all(self) -> list[Row]:
        return self.waits + self.flying + self.again

    def of(self, one: Class, rows: list[Row] | None = None) -> tuple[int, int]:
        found = [row for row in (self.all() if rows is None else rows) if self.class_of(row) is one]
        return sum(row["size"] for row in found), len(found)

    def over(self, one: Class) -> tuple[int, int]:
        """What others may not have of the room, subtracted from what it has: bytes and count."""
        much, many = self.of(one)
        return much - self.max_bytes * one.share // 100, many - self.max_count * one.share // 100

    def lacking(self, one: Class, size: int) -> tuple[int, int]:
        much = sum(row["size"] for row in self.all()) + size - self.max_bytes
        many = len(self.all()) + 1 - self.max_count
        for other in self.classes:
            if other is not one:
                much += max(0, -self.over(other)[0])
                many += max(0, -self.over(other)[1])
        return much, many

    def accept(self, row: Row, now: int) -> None:
        self.accepted += 1
        if expired(row, now):
            return self.drop(row, "expired")
        one = self.class_of(row)
        if max(self.lacking(one, row["size"])) > 0:
            self.sweep(now)
            if not self.make_room(one, row["size"]):
                return self.drop(row, f"no room: {one.name}")
        self.waits.append(row)
        return None

    def make_room(self, one: Class, size: int) -> bool:
        below = [other for other in reversed(self.classes) if other.low < one.low and other.policy != "never"]
        much, many = self.lacking(one, size)
        for other in below:
            waiting = self.of(other, self.waits)
            if waiting[1]:
                much -= min(waiting[0], max(0, self.over(other)[0]))
                many -= min(waiting[1], max(0, self.over(other)[1]))
        if one.policy == "oldest":
            much -= self.of(one, self.waits)[0]
            many -= self.of(one, self.waits)[1]
        if max(much, many) > 0:
            return False
        while max(self.lacking(one, size)) > 0:
            losers = [other for other in below if self.of(other, self.waits)[1] and max(self.over(other)) > 0]
            if one.policy == "oldest" and self.of(one, self.waits)[1]:
                losers.append(one)
            if not losers:
                return False
            rows = [row for row in self.waits if self.class_of(row) is losers[0]]
            victim = rows[-1] if losers[0].policy == "newest" else rows[0]
            self.drop(victim, f"no room: {losers[0].name}")
        return True

    def sweep(self, now: int) -> None:
        for row in [row for row in self.waits if expired(row, now)]:
            self.drop(row, "expired")

    def inherited(self, row: Row) -> int:
        later = [other for other in self.waits if other["producer"] == row["producer"] and other["id"] >= row["id"]]
        return max(other["priority"] for other in later)

    def worthless(self, row: Row, now: int, position: tuple[int, int] | None) -> str:
        if expired(row, now):
            return "expired"
        area = row["area"] if self.located and position is not None else None
        return "outside its proximity" if area is not None and not area.contains(*position) else ""

    def take(self, most: int, now: int, position: tuple[int, int] | None, bucket: TokenBucket | None) -> list[Row]:
        found: list[Row] = []
        if self.again:
            if any(row["number"] > self.again[0]["number"] for row in self.flying):
                return found
            while self.again and len(found) < most:
                row = self.again[0]
                reason = self.worthless(row, now, position)
                if reason:
                    self.drop(row, reason)
                elif bucket is not None and not row["free"] and not bucket.allow(1, now):
                    return found
                else:
                    found.append(self.again.pop(0))
                    self.flying.append(row)
            if self.again:
                return found
        while len(found) < most and self.waits:
            row = min(self.waits, key=lambda one: (-self.inherited(one), one["id"]))
            reason = self.worthless(row, now, position)
            if reason:
                self.drop(row, reason)
                continue
            row["free"] = self.inherited(row) >= FREE_FROM
            if bucket is not None and not row["free"] and not bucket.allow(1, now):
                break
            self.waits.remove(row)
            row["number"] = self.number
            self.number += 1
            self.flying.append(row)
            found.append(row)
        return found

    def done(self, number: int) -> list[int]:
        for rows in (self.flying, self.again):
            for row in rows:
                if row["number"] == number:
                    rows.remove(row)
                    self.delivered += 1
                    return [row["id"]]
        return []

    def failed(self, numbers: list[int]) -> None:
        failing = [row for row in self.flying if row["number"] in numbers]
        self.flying = [row for row in self.flying if row not in failing]
        self.again = sorted(self.again + failing, key=lambda row: int(row["number"]))

    def refused(self, number: int, reason: str) -> None:
        for row in self.flying + self.again:
            if row["number"] == number:
                return self.drop(row, reason)
        return None


def expired(row: Row, now: int) -> bool:
    return bool(row["expires"] != NEVER and now > row["expires"])


class Machine(RuleBasedStateMachine):
    @initialize(
        policies=st.tuples(POLICIES, POLICIES, POLICIES),
        shares=st.sampled_from([(0, 0, 0), (0, 0, 0), (30, 0, 20), (50, 20, 30)]),
        located=st.booleans(),
        max_count=st.integers(1, 24),
        max_bytes=st.integers(20, 400),
        rate=st.sampled_from([0, 0, 5]),
    )
    def begin(
        self,
        policies: tuple[str, ...],
        shares: tuple[int, ...],
        located: bool,
        max_count: int,
        max_bytes: int,
        rate: int,
    ) -> None:
        classes = [
            Class(one.name, one.low, policy, share)
            for one, policy, share in zip(DEFAULT_CLASSES, policies, shares, strict=True)
        ]
        self.right = Model(max_bytes, max_count, classes, located)
        self.tested = Outbox(max_bytes, max_count, classes, located, free_from=FREE_FROM)
        self.buckets = [TokenBucket(rate, 3) if rate else None for _ in range(2)]
        self.now = 1_000_000
        self.last = 0
        self.sent: dict[str, list[int]] = {}

    @rule(
        producer=st.sampled_from(["a", "a", "b", "c"]),
        priority=st.sampled_from([0, 0, 0, 3, 999, 1000, 5000, -1, -7, 32767, -32767]),
        lives=st.one_of(st.just(NEVER), st.integers(-1, 3000)),
        size=st.integers(1, 60),
        area=st.sampled_from([None, None, NEAR, FAR]),
        skip=st.integers(1, 3),
        quick=st.booleans(),
    )
    def accept(
        self, producer: str, priority: int, lives: int, size: int, area: Any, skip: int, quick: bool = False
    ) -> None:
        """`quick`: by the short way, where that takes it."""
        self.last += skip
        expires = NEVER if lives == NEVER else self.now + lives
        row = {
            "id": self.last, "producer": producer, "priority": priority, "expires": expires, "size": size, "area": area,
        }  # fmt: skip
        self.right.accept(row, self.now)
        reason = ""
        if (
            not quick
            or expires != NEVER
            or area is not None
            or not self.tested.accept_alike(self.last, producer, priority, size)
        ):
            reason = self.tested.accept(self.last, producer, priority, expires, size, self.now, area)
        assert (reason == "") == (row in self.right.waits)

    @rule(
        producers=st.lists(st.sampled_from(["a", "b", "c"]), max_size=9),
        priority=st.sampled_from([0, 0, 1000]),
        quick=st.booleans(),
    )
    def accept_several(self, producers: list[str], priority: int, quick: bool) -> None:
        """Alike: they need no lanes."""
        for producer in producers:
            self.accept(producer, priority, NEVER, 7, None, 1, quick)

    @rule(most=st.integers(0, 9), position=st.sampled_from([None, HERE, HERE]))
    def take(self, most: int, position: tuple[int, int] | None) -> None:
        right = self.right.take(most, self.now, position, self.buckets[0])
        found = self.tested.take(most, self.now, position, self.buckets[1])
        assert [(one.id, one.number, one.producer, one.size) for one in found] == [
            (row["id"], row["number"], row["producer"], row["size"]) for row in right
        ]
        # Once more without the model: numbers rise with the ids of each producer, on every try.
        for one in found:
            ids = self.sent.setdefault(one.producer, [])
            assert not ids or one.id > ids[-1] or one.id in ids
            if one.id not in ids:
                ids.append(one.id)

    @rule(which=st.randoms(use_true_random=False), how_many=st.integers(1, 5))
    def done(self, which: random.Random, how_many: int) -> None:
        for _ in range(how_many):
            number = self.some_number(which)
            assert self.tested.done([number]) == self.right.done(number)

    @rule(which=st.randoms(use_true_random=False), end=st.booleans())
    def failed(self, which: random.Random, end: bool) -> None:
        """The end of what is under way, as when a connection breaks, or any."""
        numbers = [row["number"] for row in self.right.flying]
        if end:
            numbers = numbers[which.randint(0, len(numbers)) :]
        else:
            numbers = which.sample(numbers, which.randint(0, len(numbers)))
        self.right.failed(numbers)
        self.tested.failed(numbers)

    @rule(which=st.randoms(use_true_random=False), reason=st.sampled_from(["refused", "too large"]))
    def refused(self, which: random.Random, reason: str) -> None:
        number = self.some_number(which)
        self.right.refused(number, reason)
        self.tested.refused(number, reason)

    @rule(which=st.randoms(use_true_random=False))
    def withdraw(self, which: random.Random) -> None:
        rows = self.right.all()
        row = which.choice(rows) if rows else {"id": 99_999_999, "producer": "a"}
        waits = row in self.right.waits
        if waits:
            self.right.drop(row, "damaged")
        assert self.tested.withdraw(row["id"], row["producer"], "damaged") == waits

    @rule()
    def sweep(self) -> None:
        self.right.sweep(self.now)
        self.tested.sweep(self.now, 1000)

    @rule(step=st.one_of(st.integers(0, 2000), st.sampled_from([-3_600_000, 3_600_000])))
    def wait(self, step: int) -> None:
        self.now += step

    def some_number(self, which: random.Random) -> int:
        known = [int(row["number"]) for row in self.right.flying + self.right.again]
        return which.choice([*known, *known, self.right.number - 1, 99_999])

    @invariant()
    def books(self) -> None:
        if not hasattr(self, "right"):
            return
        right, tested = self.right, self.tested
        assert tested.accepted == tested.delivered + tested.count + sum(tested.dropped.values())
        assert (tested.accepted, tested.delivered, tested.dropped) == (right.accepted, right.delivered, right.dropped)
        assert tested.count == len(right.all())
        assert tested.bytes == sum(row["size"] for row in right.all())
        assert (tested.waiting, tested.under_way) == (len(right.waits) + len(right.again), len(right.flying))
        assert sorted(tested.gone) == sorted(right.gone)
        assert tested.bytes <= tested.max_bytes
        assert tested.count <= tested.max_count
        tested.gone.clear()
        right.gone.clear()


Machine.TestCase.settings = settings(stateful_step_count=60)
TestAgainstTheModel = Machine.TestCase


def filled(*rows: tuple[str, int], **more: Any) -> Outbox:
    box = Outbox(1 << 20, 1000, **more)
    for number, (producer, priority) in enumerate(rows):
        box.accept(number + 1, producer, priority, NEVER, 10, 0)
    return box


def test_an_urgent_event_brings_its_producers_earlier_ones_with_it() -> None:
    box = filled(("a", 0), ("b", 5), ("a", 0), ("c", 7), ("a", 2000), ("a", 0))
    assert [one.id for one in box.take(10, 0)] == [1, 3, 5, 4, 2, 6]


def test_what_failed_waits_for_those_behind_it() -> None:
    box = filled(("a", 0), ("a", 0), ("a", 0), ("a", 9000))
    assert [one.number for one in box.take(3, 0)] == [1, 2, 3]
    box.failed([2])
    assert box.take(3, 0) == []
    box.failed([3])
    assert [(one.id, one.number) for one in box.take(3, 0)] == [(2, 2), (3, 3), (4, 4)]
    assert box.done([1]) == [1], "an answer may come late"


def test_what_failed_may_be_worthless_when_it_would_go_again() -> None:
    box = Outbox(1 << 20, 1000, located=True)
    for id, expires, area in [(1, 100, None), (2, NEVER, FAR), (3, NEVER, NEAR), (4, 101, None)]:
        box.accept(id, "a", 0, expires, 10, 0, area)
    assert len(box.take(4, 0)) == 4
    box.failed([1, 2, 3, 4])
    assert [one.id for one in box.take(4, 101, HERE)] == [3, 4]
    assert box.dropped == {"expired": 1, "outside its proximity": 1}
    assert box.gone == [(1, "expired"), (2, "outside its proximity")]


def test_what_was_handed_out_before_goes_first_after_a_restart() -> None:
    box = Outbox(1 << 20, 1000, number=7)
    for id, number in [(1, 0), (4, 12), (5, 11), (6, 0)]:
        box.restore(id, "abc"[id % 3], 9 if id == 6 else 0, NEVER, 10, number)
    assert [(one.id, one.number) for one in box.take(9, 0)] == [(5, 11), (4, 12), (6, 13), (1, 14)]
    assert box.accepted == box.count == 4


def test_numbers_end_where_they_are_reserved() -> None:
    box = filled(("a", 0), ("a", 0), ("a", 0))
    box.number_limit = 3
    assert [one.number for one in box.take(9, 0)] == [1, 2]
    box.number_limit = 9
    assert [one.number for one in box.take(9, 0)] == [3]


def test_a_sweep_comes_round_in_small_steps() -> None:
    box = Outbox(1 << 20, 10_000)
    for id in range(1, 5001):
        box.accept(id, f"car-{id % 7}", 0, 100 if id % 2 else NEVER, 10, 0)
    steps = sum(1 for _ in range(200) if box.sweep(101, 100))
    assert box.dropped == {"expired": 2500}
    assert steps <= 5000 // 100 + 2
    assert [one.id for one in box.take(10_000, 101)] == list(range(2, 5001, 2))


def test_long_queues_stay_in_order_when_the_middle_goes() -> None:
    """Through the clearing away of dead places, which the model's short lists do not reach."""
    chance = random.Random(3)
    box = Outbox(1 << 30, 3000, [Class("all", -32767, "oldest")])
    producers: dict[str, list[int]] = {}
    last = 0
    for id in range(1, 20_001):
        producer = f"car-{chance.randrange(5)}"
        box.accept(id, producer, 0, id // 4 + 400 if chance.random() < 0.4 else NEVER, 10, id // 4)
        if id % 3 == 0:
            box.sweep(id // 4, 20)
        if chance.random() < 0.2:
            for one in box.take(chance.randrange(4), id // 4):
                producers.setdefault(one.producer, []).append(one.id)
                box.done([one.number])
        assert box.accepted == box.delivered + box.count + sum(box.dropped.values())
    while box.waiting:
        for one in box.take(500, 5000):
            assert one.id > last
            last = one.id
            producers[one.producer].append(one.id)
            box.done([one.number])
    assert all(ids == sorted(set(ids)) for ids in producers.values())
    assert not box.count
    assert set(box.dropped) == {"expired", "no room: all"}


def test_reasons_are_few() -> None:
    box = filled(*[("a", 0)] * 200)
    for one in box.take(200, 0):
        box.refused(one.number, f"reason {one.number}")
    assert len(box.dropped) == 65
    assert box.dropped["other"] == 136
    assert box.accepted == sum(box.dropped.values())


@pytest.mark.parametrize(
    ("classes", "text"),
    [
        ([], "do not begin"),
        ([Class("a", 0)], "do not begin"),
        ([Class("a", -32767), Class("b", 5, "first")], "policy of class 'b' is 'first'"),
        ([Class("a", -32767), Class("a", 5)], "twice"),
        ([Class("a", -32767), Class("b", 5), Class("c", 5)], "twice"),
        ([Class("a", -32767, share=60), Class("b", 5, share=50)], "more than 100"),
        ([Class("a", -32767, share=-1)], "share of class 'a' is -1"),
    ],
)
def test_what_are_no_classes(classes: list[Class], text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        Outbox(1, 1, classes)


def test_ids_rise() -> None:
    with pytest.raises(LocalProtocolError, match="id is 1, want more than the last, 1"):
        filled(("a", 0)).accept(1, "a", 0, NEVER, 1, 0)


SCENARIO = """
from vicinal.federation.drop_policy import Class
from vicinal.federation.flow import TokenBucket
from vicinal.federation.outbox import NEVER, Outbox

box = Outbox(4000, 40, [Class("high", 1000, "never"), Class("low", -32767, "oldest", 20)], free_from=1000)
bucket = TokenBucket(50, 10)
state = 12345
for step in range(1, 2000):
    state = state * 1103515245 + 12345 & 0x7FFFFFFF
    chance = state >> 8
    now = 1700000000000 + step * 7
    if chance % 3:
        priority = 2000 if chance % 7 == 0 else chance % 5 - 2
        expires = now + chance % 500 if chance % 4 == 0 else NEVER
        box.accept(step, "car-%d" % (chance % 6), priority, expires, 10 + chance % 200, now)
    elif chance % 2:
        print([(one.id, one.number) for one in box.take(chance % 6, now, None, bucket)])
    elif chance % 5 == 0:
        box.failed(box.numbers_under_way())
    else:
        print(box.done(box.numbers_under_way()[: chance % 4]))
    assert box.accepted == box.delivered + box.count + sum(box.dropped.values())
print(sorted(box.dropped.items()), box.count, box.bytes)
"""


@pytest.mark.micropython
def test_the_same_on_a_device(micropython: Callable[..., str], tmp_path: Path) -> None:
    script = tmp_path / "scenario.py"
    script.write_text(SCENARIO)
    here = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
    assert "no room" in here
    assert "expired" in here
    assert micropython(script) == here
