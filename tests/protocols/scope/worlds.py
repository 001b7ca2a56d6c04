"""Worlds of scopes by chance, once as plain data for the model and once as vicinal.scope has them."""

import random
from typing import Any

from protocols.scope import model

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.mapping.mapping import Mapping
from vicinal.scope.component import Component
from vicinal.scope.graph import Scope, ScopeGraph
from vicinal.scope.interface import Edge
from vicinal.scope.membership import Rule
from vicinal.scope.policy import Delivery
from vicinal.scope.publishing import Publishing

Form = dict[str, Any]
SUBJECTS = ["a", "b", "c"]

# A condition is its text and what it means; of many a world lets much through, or nothing would ever get anywhere.
CONDITIONS = [("TRUE", lambda form: True)] * 9 + [
    ("FALSE", lambda form: False),
    ("subject = 'a'", lambda form: form["subject"] == "a"),
    ("subject <> 'a'", lambda form: form["subject"] != "a"),
    ("subject IN ('a', 'b')", lambda form: form["subject"] in "ab"),
    ("x > 2", lambda form: form["x"] > 2),
    ("x <= 4", lambda form: form["x"] <= 4),
    ("subject = 'b' OR x < 3", lambda form: form["subject"] == "b" or form["x"] < 3),
]
PARSED = {text: Filter(text) for text, _ in CONDITIONS}


def _same(form: Form) -> Form:
    return form


def mapping(chance: random.Random) -> "tuple[Mapping, Any, Any]":
    """Down it is `here` to `there`; a subject that is given another meaning does not pass."""
    here, there, scale = chance.choice(SUBJECTS), chance.choice(SUBJECTS), chance.choice([1, 1, 2])
    row: dict[str, Any] = {"subject": here, "as": there}
    if scale != 1:
        row |= {"scale": {"x": scale}, "retype": {"x": ["int", "int"]}}

    def down(form: Form) -> Form | None:
        if form["subject"] == here:
            return form | {"subject": there, "x": form["x"] * scale}
        return None if form["subject"] == there else form

    def up(form: Form) -> Form | None:
        if form["subject"] == there:
            return form | {"subject": here, "x": round(form["x"] / scale)}
        return None if form["subject"] == here else form

    return Mapping.from_tables([row]), down, up


class World:
    """`plain`: without mappings, policies, sessions; then visibility alone decides. `without` some of "rules",
    "delays", "choices"."""

    def __init__(self, seed: int, plain: bool = False, without: tuple[str, ...] = ()) -> None:
        self.random = chance = random.Random(seed)
        self.without = without
        self.advanced = None if plain else "d"
        scopes: dict[str, model.Scope] = {}
        self.names = [f"n{i}" for i in range(chance.randrange(3, 9))]
        made = []
        for dimension, count in (("d", chance.randrange(2, 8)), ("e", chance.randrange(0, 4))):
            for i in range(count):
                supers = sorted(chance.sample(range(i), min(i, chance.choice([0, 1, 1, 1, 2, 2]))))
                name = f"{dimension}{i}"
                made.append(self._scope(name, dimension, [f"{dimension}{j}" for j in supers], scopes, plain))
        parts, components = {}, []
        for name in self.names:
            inside = [scope for scope in scopes if chance.random() < 0.35]
            text, takes = chance.choice(CONDITIONS)
            rest = chance.random() < 0.7
            parts[name] = model.Part(inside, rest, takes)
            components.append(Component(name, inside, Filter("TRUE"), PARSED[text], rest))
        self.model = model.World(scopes, parts, self.advanced, {})
        self.graph = ScopeGraph(made, components)
        # Of a world in which nothing is advanced the model would call "d" advanced, and vicinal no dimension.
        self.model = self.model._replace(advanced=self.graph.advanced)

    def _scope(self, name: str, dimension: str, supers: list[str], scopes: Any, plain: bool) -> Scope:
        chance = self.random
        advanced = dimension == "d" and not plain
        (out, out_of), (into, into_of) = chance.choice(CONDITIONS), chance.choice(CONDITIONS)
        outs, intos = dict.fromkeys(supers, out_of), dict.fromkeys(supers, into_of)
        ups, downs, edges = dict.fromkeys(supers, _same), dict.fromkeys(supers, _same), []
        for above in supers:
            changed = Edge(above)
            if chance.random() < 0.2:
                text, outs[above] = chance.choice(CONDITIONS)
                changed.output = PARSED[text]
            if chance.random() < 0.2:
                text, intos[above] = chance.choice(CONDITIONS)
                changed.input = PARSED[text]
            if advanced and chance.random() < 0.25:
                changed.mapping, downs[above], ups[above] = mapping(chance)
            edges.append(changed)
        traverse, delivery, delay, session = "broadcast", "all", 0, False
        if advanced:
            traverse = chance.choice(["broadcast"] * 3 + ["top-down", "bottom-up"])
            delivery = "all" if "choices" in self.without else chance.choice(["all"] * 3 + ["one-of-n"])
            delay = 0 if "delays" in self.without else chance.choice([0] * 5 + [10, 20])
            session = chance.random() < 0.3
        rule, say, hear = self._rule()
        scopes[name] = model.Scope(
            dimension, supers, outs, intos, ups, downs, session, traverse, delivery, delay, say, hear
        )
        return Scope(
            name,
            dimension,
            supers,
            PARSED[out],
            PARSED[into],
            edges,
            Delivery(delivery) if delivery != "all" else None,
            traverse,
            [Publishing(delay=delay)] if delay else [],
            session,
            rule,
        )

    def _rule(self) -> "tuple[Rule | None, list[str], list[str]]":
        """Who may; nobody in particular is everybody."""
        if "rules" in self.without or self.random.random() < 0.8:
            return None, [], []
        say = self.random.sample(self.names, len(self.names) * 2 // 3)
        hear = self.random.sample(self.names, len(self.names) * 2 // 3)
        return Rule(*[Filter(_one_of(names)) for names in (sorted({*say, *hear}), say, hear)]), say, hear

    def event(self, seq: int) -> "tuple[Form, Event]":
        chance = self.random
        form: Form = {"subject": chance.choice(SUBJECTS), "x": chance.randrange(6)}
        sessions = [name for name, scope in self.model.scopes.items() if scope.session]
        attrs = {}
        if sessions and chance.random() < 0.2:
            form["$Session"] = attrs["Session"] = chance.choice(sessions)
        return form, Event(form["subject"], {"x": form["x"]}, attrs, "p", seq)


def _one_of(names: list[str]) -> str:
    return f"subject IN ({', '.join(repr(name) for name in names)})"


def form_of(event: Event) -> Form:
    found: Form = {"subject": event.subject, "x": event["x"]}
    if "Session" in event.attrs:
        found["$Session"] = event.attrs["Session"]
    return found
