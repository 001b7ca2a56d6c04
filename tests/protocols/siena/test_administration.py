"""What administrators say reaches every broker, and means the same everywhere, in whatever order it comes."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocols.scope.helpers import scope

from vicinal.errors import LimitError, LocalProtocolError
from vicinal.filter import Filter
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.scope.membership import ACTIONS, PUBLISH, SUBSCRIBE, Identity, Memberships, Rule
from vicinal.siena import administration
from vicinal.siena.administration import Administration
from vicinal.siena.broker import Broker

spec = pytest.mark.spec
GRAPH = ScopeGraph([scope("s", membership=Rule(Filter("role = 'member'"))), scope("open")])

STAMPS = st.tuples(st.integers(1, 6), st.sampled_from(["b1", "b2"]))
NAMES, SCOPES = st.sampled_from(["ann", "bob"]), st.sampled_from(["s", "open"])
STATEMENTS = st.one_of(
    st.tuples(
        st.just("approve"), STAMPS, NAMES, SCOPES,
        st.sampled_from([(PUBLISH,), (SUBSCRIBE,), ACTIONS]), st.none() | st.integers(0, 9),
    ),
    st.tuples(st.just("deny"), STAMPS, NAMES, SCOPES),
    st.tuples(st.just("revoke"), STAMPS, NAMES, st.integers(0, 9)),
    st.tuples(st.just("deploy"), STAMPS, st.sampled_from(["", "[[scope]]"])),
    st.tuples(st.sampled_from(["join", "leave"]), STAMPS, st.just("b1"), SCOPES),
)  # fmt: skip


def learned(statements) -> tuple[Administration, Memberships]:
    found, memberships = Administration(), Memberships(GRAPH)
    for one in statements:
        if found.put(one):
            found.apply(one, memberships)
    return found, memberships


def state(found: Administration, memberships: Memberships):
    return found.statements(), memberships.item(), found.deployment(), found.places("b1")


@spec("OVER-45")
@given(st.lists(STATEMENTS, max_size=12), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(said, chance: random.Random):
    shuffled = said + said[: len(said) // 2]
    chance.shuffle(shuffled)
    first, second = learned(said), learned(shuffled)
    assert state(*first) == state(*second)
    # Nor does it what is forgotten because something else counts: a newcomer hears only of what does.
    assert state(*learned(first[0].statements())) == state(*first)


@spec("SCOPE-33", "OVER-45")
@given(st.lists(STATEMENTS, max_size=8))
def test_said_one_after_the_other_it_is_as_memberships_have_it(said):
    """The stamps as they come: then the last word is that of a single broker."""
    ordered = [(one[0], (at, "b1"), *one[2:]) for at, one in enumerate(said)]
    plain = Memberships(GRAPH)
    for one in ordered:
        if one[0] == "approve":
            plain.approve(one[2], one[3], one[4], one[5])
        elif one[0] == "deny":
            plain.deny(one[2], one[3])
        elif one[0] == "revoke":
            plain.revoke(one[2], one[3])
    found = learned(ordered)[1]
    for now in range(10):
        for who in (Identity("ann", {"role": "member"}, issued=5), Identity("bob", (), issued=3)):
            for name in ("s", "open"):
                for action in ACTIONS:
                    asked = (who, name, action, now)
                    assert bool(found.refusal(*asked)) == bool(plain.refusal(*asked))


@spec("OVER-45")
def test_a_revocation_is_not_undone_by_an_older_approval():
    approve = ("approve", (5, "b2"), "ann", "s", ACTIONS, None)
    revoke = ("revoke", (6, "b1"), "ann", 100)
    for said in ([approve, revoke], [revoke, approve]):
        memberships = learned(said)[1]
        assert memberships.refusal(Identity("ann", {"role": "member"}, issued=99), "s", PUBLISH, 0)
        assert memberships.refusal(Identity("ann", (), issued=100), "s", PUBLISH, 0)
        assert not memberships.refusal(Identity("ann", {"role": "member"}, issued=100), "s", PUBLISH, 0)
    later = ("approve", (7, "b2"), "ann", "s", ACTIONS, None)
    assert not learned([later, revoke])[1].refusal(Identity("ann", (), issued=100), "s", PUBLISH, 0)
    weaker = ("revoke", (9, "b1"), "ann", 50)
    assert learned([weaker, revoke])[1].refusal(Identity("ann", {"role": "member"}, issued=99), "s", PUBLISH, 0)


@spec("SCOPE-33", "OVER-45")
def test_an_approval_without_an_end_ends_a_denial_for_good():
    said = [
        ("deny", (1, "b1"), "ann", "open"),
        ("approve", (2, "b1"), "ann", "open", ACTIONS, None),
        ("approve", (3, "b1"), "ann", "open", ACTIONS, 50),
    ]
    who = Identity("ann", (), issued=0)
    for order in (said, said[::-1]):
        assert not learned(order)[1].refusal(who, "open", PUBLISH, 60)
    assert learned([said[0], said[2]])[1].refusal(who, "open", PUBLISH, 60)
    assert not learned([said[0], said[2]])[1].refusal(who, "open", PUBLISH, 40)


@spec("OVER-44")
def test_a_stamp_is_later_than_all_that_is_known_whatever_the_clock_says():
    found = Administration()
    found.put(("deny", (5000, "b9"), "ann", "s"))
    made = found.make(("approve", "ann", "s", ACTIONS, None), "b1", 7)
    assert made[1] == (5001, "b1")
    assert found.put(made)
    assert found.make(("deny", "ann", "s"), "b1", 9000)[1] == (9000, "b1")


def test_what_cannot_be_said(monkeypatch: pytest.MonkeyPatch):
    found = Administration()
    with pytest.raises(LocalProtocolError, match="action is 'read', want one of join, publish, subscribe"):
        found.make(("approve", "ann", "s", ("read",), None), "b1", 0)
    with pytest.raises(LimitError, match="characters of a deployment is 500001, the limit is 500000"):
        found.make(("deploy", "x" * 500001), "b1", 0)
    monkeypatch.setattr(administration, "MAX_STATEMENTS", 1)
    found.put(found.make(("deny", "ann", "s"), "b1", 0))
    with pytest.raises(LimitError, match="statements of administrators"):
        found.make(("deny", "bob", "s"), "b1", 0)


# Flooding: brokers that are linked, parted, restarted.


class Overlay:
    def __init__(self, names: list[str]) -> None:
        self.brokers = {name: Broker(name, 1, GRAPH) for name in names}
        self.links: set[tuple[str, str]] = set()
        self.now = 1

    def link(self, one: str, other: str) -> None:
        if (one, other) not in self.links and (other, one) not in self.links and one != other:
            self.links.add((one, other))
            self.brokers[one].link_up(other, self.now)
            self.brokers[other].link_up(one, self.now)
            self.run()

    def part(self, one: str, other: str) -> None:
        for pair in {(one, other), (other, one)} & self.links:
            self.links.discard(pair)
            self.brokers[one].link_down(other, self.now)
            self.brokers[other].link_down(one, self.now)

    def restart(self, name: str) -> None:
        kept = self.brokers[name].administration.statements()
        for pair in [pair for pair in self.links if name in pair]:
            self.part(*pair)
        self.now += 1
        self.brokers[name] = Broker(name, self.now, GRAPH)
        self.brokers[name].recall(kept)

    def run(self) -> None:
        going = True
        while going:
            going = False
            for name, broker in self.brokers.items():
                for kind, other, what in broker.actions():
                    if kind == "send" and ((name, other) in self.links or (other, name) in self.links):
                        going = True
                        self.brokers[other].receive(name, what, self.now)

    def state(self, name: str):
        broker = self.brokers[name]
        return state(broker.administration, broker.rights.memberships)


BROKERS = ["b1", "b2", "b3", "b4"]
SAYINGS = st.one_of(
    st.tuples(st.just("approve"), NAMES, SCOPES, st.just(ACTIONS), st.none() | st.integers(0, 99)),
    st.tuples(st.just("deny"), NAMES, SCOPES),
    st.tuples(st.just("revoke"), NAMES, st.integers(0, 99)),
    st.tuples(st.just("deploy"), st.sampled_from(["", "[[scope]]"])),
    st.tuples(st.sampled_from(["join", "leave"]), st.sampled_from(BROKERS), SCOPES),
)
STEPS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(BROKERS), SAYINGS),
    st.tuples(st.sampled_from(["link", "part"]), st.sampled_from(BROKERS), st.sampled_from(BROKERS)),
    st.tuples(st.just("restart"), st.sampled_from(BROKERS), st.none()),
)


@spec("OVER-44", "OVER-45", "SCOPE-36")
@given(st.lists(STEPS, max_size=20))
def test_all_brokers_come_to_know_the_same_over_partitions_and_restarts(steps):
    world = Overlay(BROKERS)
    for kind, one, other in steps:
        world.now += 1
        if kind == "say":
            world.brokers[one].administer(other, world.now)
            world.run()
        elif kind == "restart":
            world.restart(one)
        elif one != other:
            getattr(world, kind)(one, other)
    for one, other in pairwise(BROKERS):
        world.link(one, other)
    world.run()
    assert all(world.state(name) == world.state("b1") for name in BROKERS)


@spec("OVER-44")
def test_a_revocation_at_one_side_of_a_partition_counts_at_the_other_when_it_heals():
    world = Overlay(["b1", "b2"])
    world.link("b1", "b2")
    b2 = world.brokers["b2"]
    b2.join_scope("s")
    b2.admit("ann", Identity("ann", {"role": "member"}, issued=5), 1)
    b2.subscribe("ann", Filter("TRUE"), Tags({"d": "s"}), 1)
    world.part("b1", "b2")
    world.brokers["b1"].administer(("revoke", "ann", 50), 60)
    world.run()
    assert b2.subscribed("ann", 1) is not None
    world.link("b1", "b2")
    assert b2.subscribed("ann", 1) is None
