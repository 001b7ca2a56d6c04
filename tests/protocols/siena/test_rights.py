"""Rights in the engine, on a stepped clock: what was begun, queued or stored under one does not outlive it."""

import pytest
from protocols.scope.helpers import part, scope

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.component import Component
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.scope.membership import ACTIONS, Identity, Rule
from vicinal.siena.broker import Broker, Refused
from vicinal.siena.governed import NO_MEMBER

spec = pytest.mark.spec
RULE = Rule(Filter("role = 'member'"))
ALL = Filter("TRUE")
IN = Tags({"d": "s"})


def graph(*components, rule: Rule | None = RULE) -> ScopeGraph:
    return ScopeGraph([scope("s", membership=rule), scope("open"), scope("e", dimension="e")], components)


def broker(*components, name: str = "b1", rule: Rule | None = RULE) -> Broker:
    found = Broker(name, 1, graph(*components, rule=rule))
    for one in ("s", "open", "e"):
        found.join_scope(one)
    return found


def member(one: Broker, name: str, now: int = 0, issued: int | None = 0, **more) -> None:
    one.admit(name, Identity(name.partition("/")[0], {"role": "member"}, issued, **more), now)


def say(one: Broker, producer: str, seq: int, now: int = 0, advert: int = 1, subject: str = "n") -> list[str]:
    """Who gets it."""
    event = Event(subject, {}, {}, producer, seq)
    one.rights.now = now
    one.publish(producer, one.check_publish(producer, advert, event), event, now)
    return heard(one, now)


def heard(one: Broker, now: int = 0) -> list[str]:
    for kind, _, message in one.actions():
        assert kind != "send" or message[0] != "packets"
    return sorted(client for _, _, takers in one.deliveries() for client, _ in takers)


@spec("OVER-39")
def test_membership_is_asked_when_somebody_begins():
    one = broker()
    for ask in (one.advertise, lambda *what: one.subscribe(*what, 0)):
        with pytest.raises(LocalProtocolError, match=r"'ann' may not .* 's': its rule for join is role = 'member'"):
            ask("ann", ALL, IN)
        ask("ann", ALL, Tags({"d": "open"}))
        member(one, "bob")
        ask("bob", ALL, IN)


@spec("OVER-39", "OVER-40", "SCOPE-34")
@pytest.mark.parametrize("end", ["deny", "revoke", "rule", "expire", "approval"])
def test_what_was_begun_ends_with_the_right(end):
    one = broker()
    member(one, "p")
    member(one, "c", expires=100 if end == "expire" else None)
    one.advertise("p", ALL, IN)
    if end == "approval":
        one.admit("c", Identity("c"), 0)
        one.administer(("approve", "c", "s", ACTIONS, 100), 0)
    assert one.subscribe("c", ALL, IN, 0) == 1
    one.actions()
    assert say(one, "p", 1) == ["c"]
    if end == "deny":
        one.administer(("deny", "c", "s"), 50)
    elif end == "revoke":
        one.administer(("revoke", "c", 50), 50)
    elif end == "rule":
        one.use_graph(graph(rule=Rule(Filter("subject = 'p'"))), 50)
    else:
        assert one.rights.due == 100
        assert say(one, "p", 2, 99) == ["c"]
        one.handle_timeout(100)
    kind = "lapsed" if end == "expire" else "subscription"
    ended = [action for action in one.actions() if action[0] == "ended"]
    assert [(client, what[0], what[2]) for _, client, what in ended] == [("c", 1, kind)]
    assert one.subscribed("c", 1) is None
    assert say(one, "p", 3, 100) == []


@spec("OVER-39")
def test_an_answer_is_not_remembered_across_an_expiry_even_if_nobody_has_looked():
    one = broker()
    member(one, "p")
    member(one, "c", expires=100)
    one.advertise("p", ALL, IN)
    one.subscribe("c", ALL, IN, 0)
    assert say(one, "p", 1, 99) == ["c"]
    event = Event("n", {}, {}, "p", 2)
    one.publish("p", one.check_publish("p", 1, event), event, 100)
    assert one.deliveries() == []


@spec("OVER-39", "OVER-40")
def test_who_may_no_longer_publish_is_refused_and_its_advertisement_ends():
    one = broker()
    member(one, "p")
    one.advertise("p", ALL, IN)
    one.administer(("deny", "p", "s"), 0)
    with pytest.raises(Refused, match="'p' was denied 's'"):
        one.check_publish("p", 1, Event("n", {}, {}, "p", 1))
    assert ("ended", "p", (1, "'p' was denied 's'", "advert")) in one.actions()
    with pytest.raises(Refused, match="no advertisement 1"):
        one.check_publish("p", 1, Event("n", {}, {}, "p", 1))


@spec("OVER-41")
def test_what_was_checked_and_waits_is_dropped_when_its_producer_may_no_longer():
    """Behind a disk, or a broker that takes no more: also when its client has gone meanwhile."""
    for gone in (False, True):
        one = broker()
        member(one, "p")
        member(one, "c")
        one.advertise("p", ALL, IN)
        one.subscribe("c", ALL, IN, 0)
        first, second = (Event("n", {}, {}, "p", seq) for seq in (1, 2))
        tags = one.check_publish("p", 1, first)
        if gone:
            one.drop_client("p", 0)
        one.publish("p", tags, first, 0)
        assert heard(one) == ["c"]  # the rule still has who it was
        one.handle_timeout(100)  # and has been acknowledged
        one.administer(("revoke", "p", 150), 150)
        assert one.publish("p", tags, second, 160) == 0
        assert heard(one) == []
        assert one.counts[NO_MEMBER] == 1


@spec("OVER-41")
@pytest.mark.parametrize("what", [("deny", "p", "s"), ("revoke", "p", 50)])
def test_what_is_read_again_from_the_log_is_asked_anew(what):
    """Also of a producer of whom only the name is left."""
    one = broker()
    one.position = 0
    member(one, "c/d")
    one.subscribe("c/d", ALL, IN, 0, durable=True)
    one.actions()
    stored = [Event("n", {}, {}, "p", seq) for seq in range(3)]
    one.publish_again("b1", stored[0], IN, 10, 5)
    assert heard(one) == ["c/d"]
    one.handle_timeout(55)
    one.administer(what, 60)
    one.publish_again("b1", stored[1], IN, 70, 40)
    assert heard(one) == []
    assert one.counts[NO_MEMBER] == 1
    # What came after the time that a revocation names was of a newer identity, or would not be in the log.
    one.publish_again("b1", stored[2], IN, 70, 60)
    assert heard(one) == (["c/d"] if what[0] == "revoke" else [])


@spec("SCOPE-35", "OVER-6")
def test_bottom_and_top_do_not_reach_past_a_rule():
    one = broker()
    for name in ("in", "member"):
        member(one, name)
    one.subscribe("in", ALL, IN, 0)
    one.subscribe("member", ALL, Tags(), 0)
    one.subscribe("anybody", ALL, Tags(), 0)
    one.subscribe("opened", ALL, Tags({"d": "open"}), 0)
    one.advertise("anybody", ALL, Tags())
    one.advertise("member", ALL, Tags())
    one.advertise("in", ALL, IN)
    one.actions()
    assert say(one, "anybody", 1) == ["member", "opened"]
    assert say(one, "member", 1) == ["anybody", "in", "opened"]
    event = Event("n", {}, {}, "in", 1)
    tags = one.check_publish("in", 1, event)
    assert one._audience(one._local.match(event), tags, (None,), event) == [("member", (1,))]
    assert one.check_publish("member", 1, Event("n", {}, {}, "member", 2)).admitted == ("s",)
    one.administer(("deny", "anybody", "open"), 0)
    assert say(one, "anybody", 2) == ["member"]
    one.administer(("approve", "anybody", "s", ACTIONS, None), 0)
    assert say(one, "anybody", 3) == ["in", "member"]


@spec("OVER-38")
def test_a_component_is_in_its_scopes_without_knowing():
    engine = part("engine", "s", publishes="subject = 'Quote'", subscribes="subject = 'Order'", rest=False)
    one = broker(engine, part("both", "s", "open"), Component("dumb", ["open"]), rule=None)
    one.advertise("engine", ALL, Tags())
    one.subscribe("engine", ALL, Tags(), 0)
    one.subscribe("engine", Filter("subject = 'Order' AND x = 1"), Tags(), 0)
    order = Filter("subject = 'Order'")
    assert all(order.covers(condition) for condition, _ in one.subscribed_by("engine"))
    assert one.subscribed_by("engine")[1][0].matches(Event("Order", {"x": 1}))
    assert one.subscribed("engine", 1) == Tags({"d": "s"}, False)
    with pytest.raises(Refused, match="outside the advertisement"):
        one.check_publish("engine", 1, Event("OrderBook", {}, {}, "engine", 1))
    assert one.check_publish("engine", 1, Event("Quote", {}, {}, "engine", 1)) == Tags({"d": "s"}, False)
    assert not one.subscribed_by("engine")[0][0].matches(Event("Quote"))
    with pytest.raises(LocalProtocolError, match="component 'engine' is not in 'open': its scopes are s"):
        one.subscribe("engine", ALL, Tags({"d": "open"}), 0)
    one.advertise("both", ALL, Tags())
    assert one.advertised_by("both")[0][1] == Tags([("d", "open"), ("d", "s")])
    one.advertise("both", ALL, Tags({"d": "open"}))
    assert one.advertised_by("both")[1][1] == Tags({"d": "open"})
    with pytest.raises(LocalProtocolError, match="component 'dumb' is declared to publish nothing"):
        one.advertise("dumb", ALL, Tags())


@spec("OVER-38")
def test_a_component_that_is_declared_otherwise_is_told_to_come_again():
    one = broker(part("engine", "s"), rule=None)
    one.subscribe("engine", ALL, Tags(), 0)
    one.use_graph(graph(part("engine", "s"), rule=None), 0)
    assert not [action for action in one.actions() if action[0] == "ended"]
    one.use_graph(graph(part("engine", "open"), rule=None), 0)
    assert [action[1:] for action in one.actions() if action[0] == "ended"] == [
        ("engine", (0, "it is another component now", "moved"))
    ]


def test_what_is_declared_of_a_component_counts_for_who_has_proven_to_be_it():
    one = broker(part("engine", "s", identity=Identity("engine", {"role": "member"})))
    with pytest.raises(LocalProtocolError, match="may not publish"):
        one.advertise("engine", ALL, Tags())
    one.admit("engine", Identity("engine", (), issued=0), 0)
    one.advertise("engine", ALL, Tags())


@spec("OVER-36")
def test_several_connections_of_one_name_have_its_rights():
    one = broker()
    one.admit("ann~2", Identity("ann", {"role": "member"}, 0), 0)
    one.subscribe("ann~2", ALL, IN, 0)
    one.administer(("deny", "ann", "s"), 0)
    assert [action[1] for action in one.actions() if action[0] == "ended"] == ["ann~2"]


def pair() -> tuple[Broker, Broker]:
    """b1 with the producers, b2 with the consumers, and a link."""
    one, other = broker(), broker(name="b2")
    one.link_up("b2", 0)
    other.link_up("b1", 0)
    return one, other


def run(*brokers: Broker, now: int) -> list[tuple[str, str]]:
    """Everything moves; who got what of whom."""
    by_name = {one.name: one for one in brokers}
    found, going = [], True
    while going:
        going = False
        for one in brokers:
            for kind, other, message in one.actions():
                if kind == "send":
                    going = True
                    by_name[other].receive(one.name, message, now)
            found += [(client, event.subject) for event, _, takers in one.deliveries() for client, _ in takers]
    return sorted(found)


@spec("SCOPE-35", "OVER-39", "OVER-44")
def test_over_two_brokers():
    one, other = pair()
    member(one, "p")
    member(one, "bottom")
    member(other, "c")
    for client, tags in (("p", IN), ("bottom", Tags()), ("stranger", Tags())):
        one.advertise(client, ALL, tags)
    other.subscribe("c", ALL, IN, 0)
    other.subscribe("top", ALL, Tags(), 0)
    for now in range(0, 2000, 100):
        one.handle_timeout(now)
        other.handle_timeout(now)
        run(one, other, now=now)

    def said(producer: str, seq: int, now: int = 2000) -> list[str]:
        event = Event("n", {}, {}, producer, seq)
        one.publish(producer, one.check_publish(producer, 1, event), event, now)
        return [client for client, _ in run(one, other, now=now)]

    assert said("p", 1) == ["c"]
    assert said("bottom", 1) == ["c", "top"]
    assert said("stranger", 1) == ["top"]
    # Said at the producers' broker, in force at the consumers'.
    one.administer(("deny", "c", "s"), 2000)
    assert said("p", 2) == []
    one.administer(("approve", "top", "s", ACTIONS, None), 2001)
    assert said("p", 3, 2001) == ["top"]
    other.administer(("deny", "bottom", "s"), 2002)
    other.administer(("approve", "c", "s", ACTIONS, None), 2003)
    run(one, other, now=2003)
    other.subscribe("c", ALL, IN, 2003)
    for now in range(2003, 4000, 100):
        one.handle_timeout(now)
        other.handle_timeout(now)
        run(one, other, now=now)
    assert said("bottom", 4, 4000) == ["top"]
    assert said("p", 4, 4000) == ["c", "top"]


@spec("OVER-41")
def test_what_waits_for_another_broker_goes_with_the_right_of_its_producer():
    one, other = pair()
    member(one, "p")
    member(one, "q")
    member(other, "c")
    one.advertise("p", ALL, IN)
    one.advertise("q", ALL, IN)
    other.subscribe("c", ALL, IN, 0)
    for now in range(0, 2000, 100):
        one.handle_timeout(now)
        other.handle_timeout(now)
        run(one, other, now=now)
    one.link_down("b2", 2000)
    other.link_down("b1", 2000)
    for producer in ("p", "q"):
        event = Event(producer, {}, {}, producer, 1)
        one.publish(producer, one.check_publish(producer, 1, event), event, 2000)
    one.administer(("revoke", "p", 2000), 2000)
    one.link_up("b2", 2001)
    other.link_up("b1", 2001)
    found = []
    for now in range(2001, 9000, 100):
        one.handle_timeout(now)
        other.handle_timeout(now)
        found += run(one, other, now=now)
    assert found == [("c", "q")]
    assert one.counts[NO_MEMBER] == 1


def test_a_broker_without_rules_asks_nothing():
    one = broker(rule=None)
    assert not one.rights.guarded
    one.admit("c", Identity("c"), 0)
    assert not one.rights.guarded
    bare = Broker("b1", 1, ScopeGraph())
    bare.admit("c", Identity("c", (), 0, 100), 0)
    bare.administer(("revoke", "x", 5), 0)
    assert not bare.rights.guarded


@spec("SCOPE-45")
def test_a_component_is_heard_where_it_may_be():
    rule = Rule(Filter("role = 'member'"))
    one = broker(part("both", "s", "open"), rule=rule)
    one.admit("both", Identity("both", {"role": "guest"}, issued=0), 0)
    one.advertise("both", ALL, Tags())
    one.subscribe("ear", ALL, Tags({"d": "open"}), 0)
    said = one.check_publish("both", 1, Event("A", {}, {}, "both", 1))
    assert said.scopes == (("d", "open"),)
    one.rights.memberships.deny("both", "open")
    one._rights_changed()
    with pytest.raises(LocalProtocolError, match="was denied 'open'"):
        one.check_publish("both", 1, Event("A", {}, {}, "both", 2))
