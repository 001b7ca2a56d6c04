"""Scopes as any interpreter has them: run under CPython and MicroPython, and what it prints is compared."""

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.mapping.mapping import Mapping
from vicinal.scope.component import Component
from vicinal.scope.graph import Scope, ScopeGraph
from vicinal.scope.interface import Edge
from vicinal.scope.manager import ScopeManager
from vicinal.scope.mapping import along, paths
from vicinal.scope.membership import Identity, Rule
from vicinal.scope.policy import Chooser, Delivery
from vicinal.scope.publishing import Publishing

OPEN = Filter("TRUE")
price = Mapping.from_tables(
    [{"subject": "Quote", "as": "Kurs", "scale": {"price": 2}, "retype": {"price": ["int", "int"]}}]
)
graph = ScopeGraph(
    [
        Scope("top", "d", (), None, None),
        Scope("mid", "d", ["top"], OPEN, OPEN, [Edge("top", mapping=price)], publishing=[Publishing(delay=50)]),
        Scope("S", "d", ["mid"], OPEN, OPEN, session=True, delivery=Delivery("one-of-n")),
        Scope(
            "T", "d", (), OPEN, OPEN, session=True, traverse="top-down", membership=Rule.parse({"join": "grade > 2"})
        ),
        Scope("e", "e", (), OPEN, OPEN),
    ],
    [
        Component("p", ["S", "T"], OPEN, OPEN, True, Identity("p", {"grade": 3})),
        Component("a", ["S"], OPEN, OPEN),
        Component("b", ["S", "e"], OPEN, OPEN),
        Component("low", ["T"], OPEN, OPEN, True, Identity("low", {"grade": 1})),
        Component("high", ["T"], OPEN, OPEN, True, Identity("high", {"grade": 5})),
        Component("far", ["top"], OPEN, Filter("subject = 'Quote'")),
        Component("any", (), OPEN, OPEN),
    ],
)
moved = ScopeManager(graph)


def show(when, found):
    for one in found:
        event = one.event
        print(when, one.component, one.scope, event.subject, event.get("price"), event.attrs.get("Session"), event.seq)


for seq in range(4):
    tag = {"Session": "T"} if seq == 3 else {}
    show(seq, moved.publish("p", Event("Kurs", {"price": 40 + seq}, tag, "p", seq), seq))
print(moved.next_timeout(4))
show(60, moved.handle_timeout(60))
moved.memberships.revoke("high", 100)
show(70, moved.publish("p", Event("Kurs", {"price": 1}, {"Session": "T"}, "p", 9), 70))
print(sorted(moved.counts.items()), moved.memberships.item())
print(paths(graph, "S", "top"), along(graph, ["S", "mid", "top"], Filter("price > 20"))[0])
chooser = Chooser(Delivery("by-key", "k"))
print([chooser.choose(["a", "b", "c"], Event("x", {"k": key}))[0] for key in ("car-7", 7, True, b"7")])
