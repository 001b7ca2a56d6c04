"""What agents hold and let go: whatever is in an event, whoever published it, and wherever the agent is."""

from typing import Any

import pytest

from vicinal import limits
from vicinal.errors import LimitError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.scope.membership import Identity
from vicinal.scope.publishing import Publishing
from vicinal.siena.holding import producer_of
from vicinal_tools.sim.network import Network

spec = pytest.mark.spec
TRUE = Filter("TRUE")


def world(*policies: Publishing, holder: str = "") -> ScopeGraph:
    held = list(policies) or [Publishing(delay=1000)]
    return ScopeGraph([Scope("Top", "d"), Scope("S", "d", ["Top"], TRUE, TRUE, publishing=held, holder=holder)])


class Two:
    """Brokers b1 and b2 in all scopes; the client "p" publishes in S, "c" hears Top."""

    def __init__(self, graph: ScopeGraph, producer: str = "b1", consumer: str = "b2") -> None:
        self.network = Network(graph, 1)
        for name in ("b1", "b2"):
            broker = self.network.start(name)
            for scope in graph.scopes:
                broker.join_scope(scope)
            self.network.pump(name)
        self.network.connect("b1", "b2")
        self.network.settle()
        self.home = producer
        self.got: list[Event] = []
        self.network.on_deliver = lambda _broker, _client, event, _trail: self.got.append(event)
        broker = self.network.brokers[producer]
        broker.admit("p", Identity("p", issued=1), self.network.now)
        broker.advertise("p", TRUE, Tags([("d", "S")]))
        self.network.brokers[consumer].subscribe("c", TRUE, Tags([("d", "Top")]), self.network.now)
        self.pump()
        self.network.settle()

    def pump(self) -> None:
        for name in ("b1", "b2"):
            self.network.pump(name)

    def publish(self, seq: int, **attrs: Any) -> None:
        event = Event("X", (), attrs, "p", seq)
        self.network.brokers[self.home].publish("p", Tags([("d", "S")]), event, self.network.now)
        self.pump()

    def administer(self, *what: Any) -> None:
        self.network.brokers[self.home].administer(what, self.network.now)
        self.pump()
        self.network.run(self.network.now + 200)

    def pass_time(self) -> None:
        self.network.run(self.network.now + 300)

    def seqs(self) -> list[Any]:
        return [event.attrs["OriginSeq"] for event in self.got]


@pytest.mark.parametrize("producer", ["b1", "b2"])
@pytest.mark.parametrize("name", ["Held", "PublishedBy", "OriginSeq"])
def test_attributes_of_a_client_do_no_harm(producer: str, name: str) -> None:
    two = Two(world(), producer)
    two.publish(1, **{name: b"x"})
    two.network.settle()
    (event,) = two.got
    assert event.attrs["PublishedBy"] == "p"
    assert event.attrs.get("Held", b"x") == b"x"


@pytest.mark.parametrize("count", [limits.MAX_ATTRS - 2, limits.MAX_ATTRS])
def test_what_is_too_large_to_be_let_go_takes_nothing_with_it(count: int) -> None:
    two = Two(world())
    two.publish(1)
    two.publish(2, **{f"A{i}": i for i in range(count)})
    two.publish(3)
    two.network.settle()
    assert two.seqs() == [1, 3]
    assert two.network.holders["b1"].counts == {"held": 3, "released": 2, "dropped: too large to be let go": 1}


@spec("SCOPE-24", "SCOPE-42")
@pytest.mark.parametrize("holder", ["b1", "b2"])
@pytest.mark.parametrize("origin", [{}, {"OriginProducer": "somebody", "OriginSeq": 1}])
@pytest.mark.parametrize("kind", ["deny", "revoke"])
def test_what_is_held_of_who_may_no_longer_is_not_let_go(holder: str, origin: dict[str, Any], kind: str) -> None:
    two = Two(world(holder=holder))
    two.publish(1, **origin)
    two.pass_time()
    two.administer(*(("deny", "p", "S") if kind == "deny" else ("revoke", "p", two.network.now)))
    two.network.settle()
    assert not two.got
    assert two.network.holders[holder].counts == {"held": 1, "dropped: no longer a member": 1}


@spec("SCOPE-42")
def test_nobody_is_shut_out_by_being_named_as_the_origin() -> None:
    two = Two(world())
    two.publish(1, OriginProducer="c", OriginSeq=7)
    two.network.settle()
    assert [(event.attrs["OriginProducer"], event.attrs["OriginSeq"]) for event in two.got] == [("c", 7)]


@spec("SCOPE-43")
def test_another_holder_begins_to_count_anew_and_is_heard() -> None:
    """On disk what is held is numbered by where it lies: each broker has its own."""
    two = Two(world(), "b2")
    for holder in two.network.holders.values():
        numbers = iter(range(100))
        real = holder.take
        holder.take = lambda agent, event, _, since, real=real, numbers=numbers: real(  # type: ignore[method-assign,misc]
            agent, event, next(numbers), since
        )
    for seq in (1, 2, 3):
        two.publish(seq)
    two.network.settle()
    two.network.brokers["b1"].leave_scope("S")
    two.pump()
    two.network.settle()
    for seq in (4, 5, 6):
        two.publish(seq)
    two.network.settle()
    assert two.seqs() == [1, 2, 3, 4, 5, 6]


def test_a_scope_that_holds_has_a_name_that_what_it_lets_go_can_have() -> None:
    for name, fits in (("S" * 46, True), ("S" * 47, False), ("ß" * 23, True), ("ß" * 24, False)):
        scopes = [Scope("Top", "d"), Scope(name, "d", ["Top"], publishing=[Publishing(delay=1)])]
        if fits:
            assert len(producer_of(name, "", "b1").encode()) == limits.MAX_PRODUCER_BYTES
            ScopeGraph(scopes)
        else:
            with pytest.raises(LimitError, match=r"which has publishing policies is 4[78]"):
                ScopeGraph(scopes)


@spec("SCOPE-43")
@pytest.mark.parametrize("holder", ["", "b2"])
def test_while_two_say_that_they_hold_one_gets_it(holder: str) -> None:
    two = Two(world(holder=holder))
    for broker in two.network.brokers.values():
        broker.held_here = lambda: ["S"]  # type: ignore[method-assign]
    two.pump()
    two.network.settle()
    two.publish(1)
    two.network.settle()
    assert two.seqs() == [1]
    assert two.network.holders[holder or "b1"].counts == {"held": 1, "released": 1}


@spec("SCOPE-25")
def test_what_waits_is_let_go_by_a_policy_that_has_let_go_later_ones() -> None:
    first = Publishing(of=Filter("$Slow = TRUE"), until=Filter("subject = 'Go'"))
    two = Two(world(first, Publishing(delay=10)))
    two.publish(1, Slow=True)
    two.pass_time()
    two.publish(2)
    two.network.settle()
    assert two.seqs() == [2]
    graph = world(Publishing(delay=10))
    for name in ("b1", "b2"):
        two.network.brokers[name].use_graph(graph, two.network.now)
        two.network.holders[name].use_graph(graph)
    two.pump()
    two.network.settle()
    assert two.seqs() == [2, 1]
    assert two.network.holders["b1"].counts == {"held": 2, "released": 2}
