"""Who may; and the mistakes of others' access control, each of which was somebody's advisory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocols.scope.helpers import hearers, manager, part, scope

from vicinal import wire
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import ScopeGraph
from vicinal.scope.membership import ACTIONS, JOIN, PUBLISH, SUBSCRIBE, Identity, Memberships, Rule
from vicinal.scope.policy import Delivery
from vicinal.scope.publishing import Publishing

spec = pytest.mark.spec
ANN = Identity("ann", {"role": "trader", "grade": 3}, issued=100, expires=1000)


def memberships(rule: Rule | None = None) -> Memberships:
    return Memberships(ScopeGraph([scope("s", membership=rule), scope("open")]))


def allowed(found: Memberships, who: Identity = ANN, now: int = 0, name: str = "s") -> list[str]:
    return [action for action in ACTIONS if not found.refusal(who, name, action, now)]


@spec("SCOPE-30", "SCOPE-31")
@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (None, [JOIN, PUBLISH, SUBSCRIBE]),
        ({"join": "role = 'trader'"}, [JOIN, PUBLISH, SUBSCRIBE]),
        ({"join": "TRUE", "publish": "role = 'engine'"}, [JOIN, SUBSCRIBE]),
        ({"join": "grade > 2", "subscribe": "grade > 5"}, [JOIN, PUBLISH]),
        ({"join": "subject = 'ann'"}, [JOIN, PUBLISH, SUBSCRIBE]),
        ({"join": "role = 'engine'", "publish": "TRUE"}, []),
    ],
)
def test_a_rule(texts, found):
    assert allowed(memberships(None if texts is None else Rule.parse(texts))) == found


@spec("SCOPE-32")
@pytest.mark.parametrize(
    "texts",
    [
        {},  # an empty file that allowed everything (CVE-2018-12550)
        {"publish": "TRUE"},
        {"join": ""},  # a malformed line that was a valid user (CVE-2018-12551)
        {"join": "role = "},
        {"join": "TRUE", "publish": "role ="},
        {"join": None},
        {"join": True},
        {"jion": "TRUE"},
        {"join": "clearance >= 0"},  # which ann does not have: unknown is not true
        {"join": "NOT clearance = 1"},
        {"join": "grade = '3'"},
        {"join": "role"},
    ],
)
def test_what_allows_nothing(texts):
    found = memberships(Rule.parse(texts))
    assert allowed(found) == []
    assert found.refusal(ANN, "s", PUBLISH, 0).startswith("'ann' may not publish in 's': ")


@spec("SCOPE-33")
def test_at_run_time():
    found = memberships(Rule.parse({"join": "role = 'engine'"}))
    found.approve("ann", "s", [SUBSCRIBE], until=500)
    assert allowed(found, now=499) == [JOIN, SUBSCRIBE]
    assert found.next_timeout(0) == 500
    assert found.next_timeout(500) is None
    assert allowed(found, now=500) == []
    found.approve("ann", "s")
    assert allowed(found, now=999) == [JOIN, PUBLISH, SUBSCRIBE]
    assert allowed(found, now=1000) == []  # the certificate has expired
    found.deny("ann", "s")
    assert allowed(found) == []
    found.approve("ann", "s")
    found.revoke("ann", 101)
    assert allowed(found) == []
    found.approve("ann", "s")
    assert allowed(found) == []  # what was revoked is to be issued anew
    assert allowed(found, Identity("ann", (), issued=101)) == [JOIN, PUBLISH, SUBSCRIBE]
    assert allowed(found, Identity("ann")) == []  # nobody knows since when
    assert allowed(found, Identity("bob")) == []


@spec("SCOPE-33")
def test_to_revoke_ends_what_was_approved_and_is_never_undone_by_an_older_one():
    found = memberships(Rule.parse({"join": "FALSE"}))
    found.approve("ann", "s")
    found.revoke("ann", 200)
    found.revoke("ann", 50)
    assert allowed(found, Identity("ann", (), issued=199), name="open") == []
    assert allowed(found, Identity("ann", (), issued=200)) == []
    assert allowed(found, Identity("ann", (), issued=200), name="open") == [JOIN, PUBLISH, SUBSCRIBE]


@spec("SCOPE-33")
def test_a_denial_in_an_open_scope():
    found = memberships()
    found.deny("ann", "open")
    assert allowed(found, name="open") == []
    assert allowed(found, Identity("bob"), name="open") == [JOIN, PUBLISH, SUBSCRIBE]


def test_what_is_not_there():
    for method, arguments in (("approve", ["ann", "x"]), ("deny", ["ann", "x"]), ("approve", ["ann", "s", ["read"]])):
        with pytest.raises(LocalProtocolError):
            getattr(memberships(), method)(*arguments)
    assert memberships().refusal(ANN, "x", JOIN, 0) == "there is no scope 'x'"


@spec("SCOPE-36")
def test_a_restart_and_new_rules_forget_nothing():
    found = memberships(Rule.parse({"join": "FALSE"}))
    found.approve("bob", "s", [PUBLISH], until=900)
    found.deny("eve", "open")
    found.revoke("ann", 5000)
    event = Event("kept", {"data": repr(found.item())})  # values that the wire has: lists, texts and numbers
    assert wire.decode(wire.encode(event)) == event
    again = memberships(Rule.parse({"join": "TRUE"}))
    again.restore(found.item())
    again.reload(memberships(Rule.parse({"join": "role = 'trader'"})).graph)
    assert allowed(again) == []
    assert allowed(again, Identity("bob")) == [JOIN, PUBLISH]
    assert allowed(again, Identity("eve"), name="open") == []
    assert again.item() == found.item()


# In the open field: what is subscribed, queued or published does not outlive a right.

RULED = {"membership": Rule.parse({"join": "role = 'member'"})}
MEMBER = {"role": "member"}


def field(*more, **options):
    return manager(
        scope("s", **RULED), scope("top"), scope("low", "top", **(RULED | options)),
        part("p", "s", "low", identity=Identity("p", MEMBER)), part("c", "s", identity=Identity("c", MEMBER)),
        part("x", "s", identity=Identity("x", {"role": "guest"})), part("up", "top"), *more,
    )  # fmt: skip


@spec("SCOPE-34")
def test_a_subscription_does_not_survive_its_right():
    """CVE-2021-34434."""
    moved = field()
    assert hearers(moved, "p", "n") == ["c", "up"]
    moved.memberships.deny("c", "s")
    assert hearers(moved, "p", "n") == ["up"]
    moved.memberships.approve("c", "s", until=10)
    assert hearers(moved, "p", "n", 9) == ["c", "up"]
    assert hearers(moved, "p", "n", 10) == ["up"]


@spec("SCOPE-24", "SCOPE-34")
@pytest.mark.parametrize("end", ["revoke", "deny", "gone", "rule", "moved", "no scope"])
def test_nothing_queued_of_a_revoked_publisher_is_delivered(end):
    """CVE-2018-12546, and messages half delivered that nobody checked again."""
    moved = field(publishing=[Publishing(delay=100)])
    assert hearers(moved, "p", "n") == ["c"]
    if end == "revoke":
        moved.memberships.revoke("p", 50)
    elif end == "deny":
        moved.memberships.deny("p", "low")
    else:
        graph = field(publishing=[Publishing(delay=100)]).graph
        others = [one for one in graph.components.values() if one.name != "p"]
        if end == "gone":
            graph = ScopeGraph(graph.scopes.values(), others)
        elif end == "moved":
            moved_out = part("p", "s", identity=Identity("p", MEMBER))
            graph = ScopeGraph(graph.scopes.values(), [*others, moved_out])
        elif end == "no scope":
            elsewhere = part("p", "s", identity=Identity("p", MEMBER))
            graph = ScopeGraph([one for one in graph.scopes.values() if one.name != "low"], [*others, elsewhere])
        else:
            graph.scopes["low"].membership = Rule.parse({"join": "role ="})
        moved.reload(graph, 50)
    assert moved.handle_timeout(100) == []
    assert (moved.counts["held"], moved.counts["closed"]) == (1, 1)


@spec("SCOPE-24", "SCOPE-34")
def test_nothing_held_is_delivered_to_who_lost_a_right_in_another_dimension_meanwhile():
    moved = manager(
        scope("top"), scope("low", "top", delivery=Delivery("one-of-n"), publishing=[Publishing(delay=100)]),
        scope("e", dimension="e"), part("p", "low", "e", subscribes=None), part("a", "low", "e"),
        part("c", "low", "top", "e"),
    )  # fmt: skip
    assert hearers(moved, "p", "n") == ["a"]  # it was not c's turn
    moved.memberships.deny("c", "e")
    assert moved.handle_timeout(100) == []


@spec("SCOPE-34")
def test_who_may_not_publish_is_refused_and_counted():
    moved = field()
    assert hearers(moved, "x", "n") == []
    assert moved.counts == {"published": 1, "refused": 1}
    moved.memberships.deny("p", "s")
    # In a dimension where it is in several scopes, those that will have it.
    assert hearers(moved, "p", "n") == ["up"]


@spec("SCOPE-35")
def test_agnostic_components_do_not_reach_past_a_rule():
    moved = manager(
        scope("s", session=True, **RULED), scope("e", dimension="e", **RULED), scope("free"),
        part("agnostic"), part("member", identity=Identity("member", MEMBER)),
        part("in_s", "s", identity=Identity("in_s", MEMBER)), part("in_e", "e", identity=Identity("in_e", MEMBER)),
        part("in_free", "free"),
    )  # fmt: skip
    assert hearers(moved, "agnostic", "n") == ["in_free", "member"]
    assert hearers(moved, "in_s", "n") == ["in_e", "member"]
    assert hearers(moved, "in_e", "n") == ["in_s", "member"]
    assert hearers(moved, "member", "n") == ["agnostic", "in_e", "in_free", "in_s"]


ODD = ["%", "_", "#", "+", "*", "$x", "' OR TRUE", "car-%", "car-_", "ann"]


@spec("SCOPE-37")
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8) | st.sampled_from(ODD))
def test_no_name_is_a_pattern(name):
    """CVE-2017-7650 (users called # and +) and CVE-2018-12543 (names that begin with $)."""
    rule = Rule.parse({"join": "subject = 'ann' OR subject LIKE 'car-_'"})
    found = memberships(rule)
    expected = name == "ann" or (name.startswith("car-") and len(name) == 5)
    assert bool(allowed(found, Identity(name))) == expected
    found.deny(name, "open")
    assert allowed(found, Identity("ann" if name != "ann" else "bob"), name="open") == [JOIN, PUBLISH, SUBSCRIBE]


@spec("SCOPE-32")
def test_a_broken_rule_denies_whatever_of_it_could_be_read():
    found = memberships(Rule(Filter("TRUE"), broken="the rest of the file is gone"))
    assert allowed(found) == []
    assert found.refusal(ANN, "s", JOIN, 0).endswith("its rule is broken (the rest of the file is gone)")
    assert "is broken (join: " in memberships(Rule.parse({"join": "role ="})).refusal(ANN, "s", JOIN, 0)


def test_a_rule_costs_what_its_length_says():
    """CVE-2017-7651: nothing is allocated for what somebody merely claims."""
    broken = Rule.parse({"join": "(" * 5000 + "TRUE" + ")" * 5000})
    assert "characters" in broken.broken or "limit" in broken.broken
    assert broken.refusal(ANN, JOIN)


def test_the_filter_of_a_rule_sees_the_identity_alone():
    moved = manager(
        scope("s", membership=Rule(Filter("role = 'member'"))), part("c", "s"),
        part("p", "s", identity=Identity("p", MEMBER)),
    )  # fmt: skip
    assert hearers(moved, "p", Event("n", {"role": "member"})) == []
