"""A plan is what the gateway would find anew for every event: kept, it is the same after every change of notes and
ways."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from vicinal.control import Record, Subscription, Unsubscription
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.federation.gateway import Gateway
from vicinal.federation.plans import MAX_PLANS
from vicinal.filter import Filter

DIRECT = ("A", "B", "C")
FAR = ("D", "E")
FILTERS = ("subject = 'Speed'", "subject = 'Speed' AND rate > 30", "rate > 50", "subject = 'Brake'")


class Anew(Gateway):
    """Keeps no plan."""

    def _spread(self, event: Event, service: str) -> list[tuple[str, Event]]:
        self._forget_plans()
        return super()._spread(event, service)


class TwoGateways(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000
        self.number = 0
        self.both = [Gateway("g1", 1), Anew("g1", 1)]
        self.each(lambda one: [one.attach(name, "memory", Capabilities(), self.now) for name in DIRECT])
        self.each(lambda one: [one.service_up(name, self.now) for name in DIRECT])
        self.settle()

    def each(self, act: Any) -> None:
        kept, anew = [act(one) for one in self.both]
        assert kept == anew

    def settle(self) -> None:
        self.each(lambda one: one.handle_timeout(self.now))
        self.each(self.do)

    @staticmethod
    def do(one: Gateway) -> list[Any]:
        actions = one.actions()
        for number, _, _, _ in actions:
            one.applied(number, "", 0)
        return [(number, verb, service, str(what)) for number, verb, service, what in actions] + one.deliveries()

    def identity(self) -> tuple[str, int]:
        self.number += 1
        return ("another", self.number)

    @rule(
        at=st.sampled_from(DIRECT),
        source=st.sampled_from(DIRECT + FAR),
        text=st.sampled_from(FILTERS),
        kind=st.sampled_from([Subscription, Subscription, Unsubscription]),
    )
    def ask(self, at: str, source: str, text: str, kind: Any) -> None:
        asker = (self.identity(), source)
        self.each(lambda one: one.apply(kind(at, source, Filter(text)), at, asker, self.now))
        self.each(self.do)

    @rule(transit=st.sets(st.sampled_from(DIRECT + FAR)), heard=st.sampled_from(DIRECT))
    def another_gateway(self, transit: set[str], heard: str) -> None:
        producer, seq = self.identity()
        record = Record("g2", 1, seq, tuple(sorted(transit)), ()).to_event()
        event = record.replace(producer=producer, seq=seq, attrs={"Hops": 9})
        self.each(lambda one: one.receive(event, heard, self.now))
        self.each(self.do)

    @rule(step=st.sampled_from([100, 40_000]))
    def wait(self, step: int) -> None:
        self.now += step
        self.settle()

    @rule(name=st.sampled_from(DIRECT), up=st.booleans())
    def up_or_down(self, name: str, up: bool) -> None:
        self.each(lambda one: one.service_up(name, self.now) if up else one.service_down(name, self.now))
        self.each(self.do)

    @rule(name=st.sampled_from(DIRECT))
    def detach_and_attach(self, name: str) -> None:
        self.each(lambda one: one.detach(name, self.now))
        self.each(lambda one: one.attach(name, "memory", Capabilities(), self.now))

    @rule(
        at=st.sampled_from(DIRECT),
        subject=st.sampled_from(["Speed", "Brake"]),
        rate=st.sampled_from([20, 40, 60]),
        attrs=st.sampled_from([{}, {}, {"Priority": 3}, {"Source": "E", "Via": "B"}, {"Via": 7}, {"Source": "A"}]),
        many=st.sampled_from([0, 0, 60, 61, 62]),
        stamped=st.booleans(),
    )
    def event(self, at: str, subject: str, rate: int, attrs: dict[str, Any], many: int, stamped: bool) -> None:
        more = {f"n{n}": n for n in range(many)}
        producer, seq = self.identity()
        event = Event(
            subject, [("rate", rate)], {**attrs, **more}, producer if stamped else None, seq if stamped else None
        )
        before = (event.attrs.copy(), event.identity)
        self.each(lambda one: one.receive(event, at, self.now))
        assert (event.attrs, event.identity) == before
        self.each(lambda one: dict(one.counters))
        self.each(self.do)


TwoGateways.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTwoGateways = TwoGateways.TestCase


def test_strangers_do_not_fill_the_memory() -> None:
    gateway = Gateway("g1", 1)
    for name in ("A", "B"):
        gateway.attach(name, "memory", Capabilities(), 0)
        gateway.service_up(name, 0)
    gateway.handle_timeout(0)
    gateway.apply(Subscription("A", "B", Filter("rate > 1")), "A", (("x", 1), "B"), 0)
    for n in range(3 * MAX_PLANS):
        found = gateway.receive(Event("Speed", [("rate", 2)], {"Source": f"S{n}"}, "p", n), "A", 0)
        assert [(name, event.attrs["Source"], event.attrs["Via"]) for name, event in found] == [("B", f"S{n}", "A")]
    assert len(gateway.services["A"].plans) <= MAX_PLANS


def test_another_way_is_another_plan() -> None:
    gateway = Gateway("g1", 1)
    for name in DIRECT:
        gateway.attach(name, "memory", Capabilities(), 0)
        gateway.service_up(name, 0)
    gateway.handle_timeout(0)
    ways = []
    for version, beside in enumerate(["B", "C", "B"]):
        record = Record("g2", 1, version, (beside, "D"), ()).to_event()
        gateway.receive(record.replace(producer="g2", seq=version, attrs={"Hops": 9}), beside, version)
        if not version:
            gateway.apply(Subscription("A", "D", Filter("rate > 1")), "A", (("x", 1), "D"), 0)
        for n in range(2):
            found = gateway.receive(Event("Speed", [("rate", 2)], {}, "p", 10 * version + n), "A", 0)
            ways.append([name for name, _ in found])
    assert ways == [["B"], ["B"], ["C"], ["C"], ["B"], ["B"]]
