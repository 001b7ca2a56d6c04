"""Delivery, traverse and publishing policies."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocols.scope.helpers import hearers, manager, part, scope

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.journey import Journey
from vicinal.scope.policy import Chooser, Delivery
from vicinal.scope.publishing import FULL, HELD, NOW, Outlet, Publishing

spec = pytest.mark.spec
names = st.lists(st.sampled_from([f"w{i}" for i in range(9)]), min_size=1, unique=True).map(sorted)


@spec("SCOPE-16")
def test_one_after_the_other_whoever_is_there():
    chooser = Chooser(Delivery("one-of-n"))
    turns = [["a", "b", "c"]] * 4 + [["a", "c"]] * 2 + [["b"], ["a", "b", "c", "d"], ["a", "b", "c", "d"]]
    assert [chooser.choose(members, Event("x"))[0] for members in turns] == list("abcacabcd")


@spec("SCOPE-17")
def test_the_least_loaded():
    chooser = Chooser(Delivery("least-loaded"))
    members = ["a", "b", "c"]
    assert [chooser.choose(members, Event("x")) for _ in range(4)] == [["a"], ["b"], ["c"], ["a"]]
    chooser.done("c")
    assert chooser.choose(members, Event("x")) == ["c"]
    chooser.done("b")
    assert chooser.choose(["a", "c"], Event("x")) == ["c"]  # b is free, and not there
    chooser.gone("a")
    assert chooser.choose(members, Event("x")) == ["a"]
    chooser.done("never heard of")
    assert chooser.load == {"a": 1, "c": 2}


@spec("SCOPE-18")
@given(names, names)
def test_a_key_stays_where_it_is(before, after):
    chooser = Chooser(Delivery("by-key", "k"))
    for key in range(40):
        event = Event("x", {"k": key})
        (old,), (new,) = chooser.choose(before, event), chooser.choose(after, event)
        assert new == old or new not in before or old not in after


@spec("SCOPE-18")
def test_keys_spread_and_are_told_apart():
    chooser, members = Chooser(Delivery("by-key", "$k")), [f"worker-{i}" for i in range(8)]
    found = Counter(chooser.choose(members, Event("x", (), {"k": key}))[0] for key in range(8000))
    assert sorted(found) == members
    assert min(found.values()) > 800
    # The same in every process, and on every interpreter.
    keys = ["car-7", 7, 7.0, True, b"\x07"]
    assert [chooser.choose(members, Event("x", (), {"k": key}))[0] for key in keys] == KEYED
    assert len({chooser.choose(members, event)[0] for event in (Event("x"), Event("y", {"k": 1}))}) == 1


KEYED = ["worker-7", "worker-1", "worker-4", "worker-0", "worker-1"]


@pytest.mark.parametrize(("kind", "key"), [("most", ""), ("by-key", ""), ("all", "k")])
def test_what_is_no_delivery(kind, key):
    with pytest.raises(LocalProtocolError, match="delivery"):
        Delivery(kind, key)


@spec("SCOPE-15")
def test_a_subscope_is_a_member_when_somebody_in_it_takes_the_event():
    moved = manager(
        scope("s", delivery=Delivery("one-of-n")), scope("empty", "s"), scope("full", "s"),
        part("p", "s"), part("a", "s", subscribes="subject = 'a'"), part("f", "full"), part("g", "full"),
    )  # fmt: skip
    assert [hearers(moved, "p", subject) for subject in "abaa"] == [["a"], ["f", "g"], ["a"], ["f", "g"]]


@spec("SCOPE-17")
def test_what_is_done_is_done_in_every_scope_that_chose():
    moved = manager(
        scope("s", delivery=Delivery("least-loaded")), scope("t", "s", delivery=Delivery("least-loaded")),
        part("p", "s", subscribes=None), part("a", "s"), part("b", "t"), part("c", "t"),
    )  # fmt: skip
    found = [moved.publish("p", Event("x"), 0)[0] for _ in range(4)]
    assert [one.component for one in found] == ["a", "b", "a", "c"]
    moved.done(found[1])
    assert hearers(moved, "p", "x") == ["b"]


@spec("SCOPE-14")
@pytest.mark.parametrize(
    ("outer", "inner", "found"),
    [
        ("broadcast", "broadcast", ["deep", "low", "top"]),
        ("top-down", "broadcast", ["top"]),
        ("bottom-up", "broadcast", ["deep", "low"]),
        ("bottom-up", "bottom-up", ["deep"]),
        ("bottom-up", "top-down", ["low"]),
    ],
)
def test_traverse(outer, inner, found):
    def world(**wants):
        takes = {"top": "TRUE", "low": "TRUE", "deep": "TRUE"} | wants
        return manager(
            scope("a", traverse=outer), scope("b", "a", traverse=inner), scope("c", "b"),
            part("p", "a", subscribes=None), part("top", "a", subscribes=takes["top"]),
            part("low", "b", subscribes=takes["low"]),
            part("deep", "c", subscribes=takes["deep"]),
        )  # fmt: skip

    assert hearers(world(), "p", "n") == found
    # Where nobody is first, the others are: nothing is lost.
    only = dict.fromkeys(("top", "low", "deep"), "FALSE")
    for name in only:
        assert hearers(world(**(only | {name: "TRUE"})), "p", "n") == [name]


def quotes(policies, more=()):
    return manager(
        scope("Private"), scope("Prof", "Private", publishing=policies), *more,
        part("tf", "Prof", subscribes=None), part("pro", "Prof"), part("private", "Private"),
    )  # fmt: skip


@spec("SCOPE-19", "SCOPE-20")
def test_what_is_delayed_is_heard_within_at_once():
    moved = quotes([Publishing(Filter("subject = 'Quote'"), delay=900)])
    assert hearers(moved, "tf", "Quote", 100) == ["pro"]
    assert hearers(moved, "tf", "Accept", 100) == ["private", "pro"]
    assert moved.next_timeout(100) == 1000
    assert moved.handle_timeout(999) == []
    assert [one.component for one in moved.handle_timeout(1000)] == ["private"]
    assert moved.next_timeout(1000) is None


@spec("SCOPE-21")
def test_so_many_in_so_much_time():
    moved = quotes([Publishing(rate=2, per=1000, burst=2)])
    heard, now = [], 0
    for seq in range(5):
        events = moved.publish("tf", Event("Quote", (), (), "tf", seq), now)
        heard += [(now, one.event.seq) for one in events if one.component == "private"]
    while (due := moved.next_timeout(now)) is not None:
        now = due
        heard += [(now, one.event.seq) for one in moved.handle_timeout(now)]
    assert heard == [(0, 0), (0, 1), (500, 2), (1000, 3), (1500, 4)]


@spec("SCOPE-21")
def test_nobody_overtakes_what_waits():
    moved = quotes([Publishing(rate=1, per=100, burst=1)])
    found = [moved.publish("tf", Event("Quote", (), (), "tf", seq), now) for seq, now in ((0, 0), (1, 0), (2, 100))]
    assert [[one.event.seq for one in some if one.component == "private"] for some in found] == [[0], [], [1]]
    assert [one.event.seq for one in moved.handle_timeout(200)] == [2]


@spec("SCOPE-22")
def test_until_a_condition_holds():
    moved = quotes([Publishing(until=Filter("subject = 'Open'"), closed_by=Filter("subject = 'Close'"))])
    assert hearers(moved, "tf", "Quote") == ["pro"]
    assert moved.next_timeout(0) is None
    assert hearers(moved, "tf", "Open") == ["private", "private", "pro"]  # and the quote, which was first
    assert hearers(moved, "tf", "Quote") == ["private", "pro"]
    assert hearers(moved, "tf", "Close") == ["pro"]
    assert hearers(moved, "tf", "Quote") == ["pro"]
    assert [one[3].subject for one in moved.waiting()] == ["Close", "Quote"]


@spec("SCOPE-23")
def test_what_is_held_is_bounded_and_expires():
    moved = quotes([Publishing(delay=100, most=2)])
    for seq in range(3):
        moved.publish("tf", Event("Quote", (), {"Expires": 50} if seq == 0 else {}, "tf", seq), 0)
    assert [one.event.seq for one in moved.handle_timeout(100)] == [1]
    counts = moved.counts
    assert (counts["held"], counts["full"], counts["expired"], counts["released"]) == (2, 1, 1, 1)
    assert moved.waiting() == []


@spec("SCOPE-25")
def test_what_is_held_survives_a_restart():
    policies = [Publishing(Filter("subject = 'Quote'"), delay=100), Publishing(until=Filter("subject = 'Open'"))]
    moved = quotes(policies)
    for seq, subject in enumerate(["Quote", "Accept", "Quote"]):
        moved.publish("tf", Event(subject, (), (), "tf", seq), seq * 10)
    kept = [(name, since, journey.item(), event) for name, since, journey, event in moved.waiting()]
    for _, _, journey, event in moved.waiting():
        again = Journey.of(journey.item(), event)
        assert (again.taken, again.received) == (journey.taken, journey.received) == ({"Prof"}, {"pro"})
    opened = moved.opened()
    again = quotes(policies)
    again.reopen(opened)
    again.restore([(name, since, Journey.of(item, event), event) for name, since, item, event in reversed(kept)], 50)
    assert again.next_timeout(50) == 100
    assert [one.event.seq for one in again.handle_timeout(120)] == [0, 2]
    # Who had it before the restart does not get it again.
    assert [one.component for one in again.publish("tf", Event("Open"), 120)] == ["pro", "private", "private"]
    assert again.counts["held"] == again.counts["released"]


@spec("SCOPE-25")
def test_what_is_held_waits_on_under_another_policy():
    moved = quotes([Publishing(delay=100)])
    moved.publish("tf", Event("Quote"), 0)
    longer = quotes([Publishing(delay=300)]).graph
    assert moved.reload(longer, 50) == []
    assert moved.next_timeout(50) == 300
    assert [one.component for one in moved.reload(quotes([]).graph, 60)] == ["private"]
    assert moved.counts["held"] == 1 == moved.counts["released"]


@spec("SCOPE-22", "SCOPE-25")
def test_conditions_rates_and_turns_go_on_in_a_graph_with_the_same_policies():
    def world():
        policies = [Publishing(Filter("k = 1"), until=Filter("subject = 'Open'")), Publishing(rate=1, per=100, burst=1)]
        return manager(
            scope("Private"), scope("Prof", "Private", publishing=policies, delivery=Delivery("one-of-n")),
            part("tf", "Prof", subscribes=None), part("a", "Prof"), part("b", "Prof"), part("private", "Private"),
        )  # fmt: skip

    moved = world()
    assert hearers(moved, "tf", "Open") == ["a", "private"]
    moved.reload(world().graph, 1)
    assert hearers(moved, "tf", Event("Quote", {"k": 1}), 1) == ["b", "private"]
    assert hearers(moved, "tf", "Other", 1) == ["a"]  # that the rate allows was Open


@spec("SCOPE-24")
def test_an_interface_that_closed_meanwhile_stops_what_was_held():
    moved = quotes([Publishing(delay=100)])
    moved.publish("tf", Event("Quote"), 0)
    closed = manager(
        scope("Private"), scope("Prof", "Private", output="FALSE", publishing=[Publishing(delay=100)]),
        part("tf", "Prof", subscribes=None), part("private", "Private"),
    )  # fmt: skip
    moved.reload(closed.graph, 10)
    assert moved.handle_timeout(100) == []
    assert moved.counts["closed"] == 1


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"delay": 1, "rate": 1},
        {"delay": -1},
        {"delay": 10**10},
        {"rate": -1},
        {"delay": 1, "most": 0},
        {"closed_by": Filter("TRUE"), "delay": 1},
    ],
)
def test_what_is_no_publishing_policy(values):
    with pytest.raises(LocalProtocolError):
        Publishing(**values)


def test_an_outlet_alone():
    outlet = Outlet([Publishing(Filter("subject = 'a'"), delay=5, most=1)])
    assert outlet.offer(Event("b"), 1, 0) == NOW
    assert outlet.offer(Event("a"), 2, 0) == HELD
    assert outlet.offer(Event("a"), 3, 0) == FULL
    assert outlet.due(4) == []
    assert outlet.due(5) == [2]
