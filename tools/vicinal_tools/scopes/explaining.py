"""Whether one component hears another, and why (seed 004, 3; spec/scope.md).

Of an event: it is published in a scope manager of its own, whose clock is stepped until it is delivered or nothing more
can come of it; what the manager notes on the way is the explanation. Without one: the ways there are, and the filter
that an event must meet at its producer to get through each.
"""

from itertools import pairwise
from typing import Any, NamedTuple

from vicinal import json_form
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import ScopeGraph
from vicinal.scope.manager import ScopeManager
from vicinal.scope.mapping import along, both, paths
from vicinal.scope.membership import PUBLISH, SUBSCRIBE, Memberships
from vicinal.scope.notes import Note
from vicinal.scope.visibility import visible_in

from .words import scope_words

__all__ = ["Explanation", "Setting", "explain"]

# Of ways between two scopes, as many as somebody reads.
_MOST = 8


class Explanation:
    """`lines` are for people: (indent, text)."""

    def __init__(self, visible: bool, verdict: str, event: Event | None) -> None:
        self.visible = visible
        self.verdict = verdict
        self.event = event
        """as the consumer gets it"""
        self.after: int | None = None
        """so many milliseconds later, where a policy held it"""
        self.dimensions: list[dict[str, Any]] = []

    def as_json(self) -> dict[str, Any]:
        return {
            "visible": self.visible,
            "verdict": self.verdict,
            "after_ms": self.after,
            "event": None if self.event is None else json_form.to_json(self.event),
            "dimensions": self.dimensions,
        }

    def lines(self) -> list[str]:
        found = [("yes: " if self.visible else "no: ") + self.verdict]
        for one in self.dimensions:
            found += ["", f"{one['dimension']}: " + ("visible" if one["visible"] else "not visible")]
            found += [f"  {step}" for step in one["steps"]]
        if self.event is not None:
            found += ["", f"it gets {json_form.dumps(self.event)}"]
        return found


class Setting(NamedTuple):
    """Who may what, and when it is asked."""

    memberships: Memberships | None = None
    now: int = 0


def explain(
    graph: ScopeGraph, producer: str, consumer: str, event: Event | None, setting: Setting | None = None
) -> Explanation:
    """Without a setting nothing was said at run time, and nothing has expired."""
    at = setting or Setting()
    if event is None:
        made = _of_ways(graph, producer, consumer, at)
    else:
        made = _of_event(graph, producer, consumer, event, at)
    for dimension in graph.dimensions:
        if dimension != graph.advanced:
            made.dimensions.append(_plain(graph, dimension, producer, consumer, event, at))
    return made


def _plain(
    graph: ScopeGraph, dimension: str, producer: str, consumer: str, event: Event | None, at: Setting
) -> dict[str, Any]:
    """A dimension with interfaces alone."""
    moved = ScopeManager(graph, at.memberships)
    p, c = graph.components[producer], graph.components[consumer]
    starts, goals = graph.scopes_of(p, dimension), graph.scopes_of(c, dimension)
    steps = _outside(dimension, producer, bool(starts), p.rest, consumer, bool(goals), c.rest)
    for name, scopes, action in ((p, starts, PUBLISH), (c, goals, SUBSCRIBE)):
        steps += [f"{scope}: {why}" for scope in scopes if (why := moved.judge.refusal(name, scope, action, at.now))]
    found = False
    for start in starts:
        for goal in goals:
            for path in paths(graph, start, goal)[:_MOST]:
                found = found or event is None or visible_in(graph, event, start, goal)
                steps += [" → ".join(path), *_crossings(graph, path, event)]
    if starts and goals and not any("→" in step or step in starts for step in steps):
        steps.append(f"there is no way from {', '.join(starts)} to {', '.join(goals)}")
    hidden = moved.judge.hiding_in(dimension, p, c, event, at.now) if event is not None else ""
    if hidden and not steps:
        steps.append(hidden)
    seen = not hidden if event is not None else found or not (starts and goals)
    return {"dimension": dimension, "visible": seen, "steps": steps}


def _outside(dimension: str, p: str, p_in: bool, p_rest: bool, c: str, c_in: bool, c_rest: bool) -> list[str]:
    if not p_in and not c_in:
        return [f"neither {p} nor {c} is in a scope of it"]
    found = []
    if not p_in:
        found.append(f"{p} is in no scope of it: heard {'everywhere (bottom)' if p_rest else 'nowhere'}")
    if not c_in:
        found.append(f"{c} is in no scope of it: hears {'everything (top)' if c_rest else 'nothing'}")
    return found


def _crossings(graph: ScopeGraph, path: list[str], event: Event | None) -> list[str]:
    """Each boundary of a way; of an event to where it is stopped."""
    found = []
    form = event
    for before, after in pairwise(path):
        up = after in graph.scopes[before].supers
        edge = graph.edge(before, after) if up else graph.edge(after, before)
        interface, what = (edge.output, "output") if up else (edge.input, "input")
        scope = before if up else after
        if form is None:
            found.append(f"  {before} → {after}: {what} of {scope}: {'none' if interface is None else interface}")
            continue
        got, why = edge.up(form) if up else edge.down(form)
        if got is None:
            found.append(f"  {before} → {after}: stopped, {why}")
            break
        found.append(f"  {before} → {after}: passes the {what} {interface}{_became(form, got)}")
        form = got
    return found


def _became(before: Event, after: Event) -> str:
    return "" if after is before else f", and is {json_form.dumps(after)}"


def _of_ways(graph: ScopeGraph, producer: str, consumer: str, at: Setting) -> Explanation:
    """What an event would have to be."""
    p, c = graph.components[producer], graph.components[consumer]
    if p.publishes is None or c.subscribes is None:
        what = f"{producer} publishes nothing" if p.publishes is None else f"{consumer} subscribes to nothing"
        return Explanation(False, what, None)
    conditions: list[Filter] = []
    steps: list[str] = []
    starts = goals = []
    if graph.advanced is not None:
        starts, goals = graph.scopes_of(p, graph.advanced), graph.scopes_of(c, graph.advanced)
        steps += _outside(graph.advanced, producer, bool(starts), p.rest, consumer, bool(goals), c.rest)
        for start in starts:
            for path in [path for goal in goals for path in paths(graph, start, goal)][:_MOST]:
                asked, reasons = along(graph, path, c.subscribes)
                asked = both(p.publishes, asked, [])
                steps += [" → ".join(path), *_crossings(graph, path, None), *_policies(graph, path)]
                nothing = not p.publishes.overlaps(asked) or asked.simplify().text == "FALSE"
                steps.append("  nothing gets through" if nothing else f"  an event that meets {asked.simplify()}")
                steps += [f"  at most: {reason}" for reason in reasons]
                if not nothing:
                    conditions.append(asked)
    through = bool(conditions) or not (starts and goals)
    if through and not (starts and goals):
        through = (bool(starts) or p.rest or not goals) and (bool(goals) or c.rest or not starts)
        through = through and p.publishes.overlaps(c.subscribes)
    if through:
        verdict = f"{consumer} hears of {producer} what gets through in every dimension"
    else:
        verdict = f"{consumer} hears nothing of {producer}"
    for dimension in graph.dimensions:
        if dimension != graph.advanced and not _plain(graph, dimension, producer, consumer, None, at)["visible"]:
            through, verdict = False, f"{consumer} hears nothing of {producer}: not in dimension {dimension!r}"
    made = Explanation(through, verdict, None)
    if graph.advanced is not None:
        seen = bool(conditions) if starts and goals else through
        made.dimensions.append({"dimension": graph.advanced, "visible": seen, "steps": steps})
    return made


def _policies(graph: ScopeGraph, path: list[str]) -> list[str]:
    return [f"  {name}: {word}" for name in path for word in scope_words(graph.scopes[name])]


def _of_event(graph: ScopeGraph, producer: str, consumer: str, event: Event, at: Setting) -> Explanation:
    noted: list[tuple[int, Note]] = []
    now = at.now
    moved = ScopeManager(graph, at.memberships, lambda note: noted.append((now - at.now, note)))
    if not graph.components[producer].may_say(event):
        says = graph.components[producer].publishes
        what = "nothing" if says is None else says.text
        return Explanation(False, f"{producer} publishes {what}, and this is not of it", None)
    moved.publish(producer, event, now)
    while (due := moved.next_timeout(now)) is not None:
        now = max(now, due)
        moved.handle_timeout(now)
    got = [(when, note) for when, note in noted if note.kind == "delivered" and note.to == consumer]
    if got:
        when, last = got[0]
        late = f", {when} ms later" if when else ""
        made = Explanation(True, f"{consumer} hears it{late}", last.event)
        made.after = when
        way = _way(noted, last.at)
        told = _told(noted, set(pairwise(way)), consumer, ("up", "down", "held", "delivered"))
        steps = [" → ".join([producer, *way, consumer]), *[f"  {line}" for line in told]]
    else:
        made = Explanation(False, f"{consumer} does not hear it", None)
        steps = _told(noted, _pairs(graph, producer, consumer), consumer, None)
        steps = steps or [f"there is no way from {producer} to {consumer}"]
    if graph.advanced is not None:
        made.dimensions.append({"dimension": graph.advanced, "visible": bool(got), "steps": steps})
    elif not got:
        stops = [note.why for _, note in noted if note.to == consumer and note.kind == "stopped"]
        made.verdict += "".join(f": {why}" for why in stops[:1])
    return made


def _way(noted: list[tuple[int, Note]], at: str) -> list[str]:
    """The scopes to one, from where it was published: each is entered once."""
    before: dict[str, str] = {}
    for _, note in noted:
        if note.kind == "up":
            before.setdefault(note.to, note.at)
    for _, note in noted:
        if note.kind == "down":
            before[note.to] = note.at
    way = [at] if at else []
    while way and way[0] in before and before[way[0]] not in way:
        way.insert(0, before[way[0]])
    return way


def _pairs(graph: ScopeGraph, producer: str, consumer: str) -> set[tuple[str, str]]:
    """Every step of every way between the two."""
    found: set[tuple[str, str]] = set()
    if graph.advanced is None:
        return found
    starts = graph.scopes_of(graph.components[producer], graph.advanced)
    for start in starts or [name for name in graph.scopes if graph.scopes[name].dimension == graph.advanced]:
        found.add((producer, start))
        for goal in graph.scopes_of(graph.components[consumer], graph.advanced):
            for path in paths(graph, start, goal):
                found.update(pairwise(path))
    return found


def _told(
    noted: list[tuple[int, Note]], steps: set[tuple[str, str]], consumer: str, kinds: tuple[str, ...] | None
) -> list[str]:
    """The notes about these steps and about the consumer, of some kinds or all, in their order."""
    found: list[str] = []
    forms: dict[str, Event] = {}
    scopes = {name for step in steps for name in step}
    for when, note in noted:
        if note.kind in ("held", "dropped"):
            mine = note.at in scopes
        else:
            mine = note.to == consumer or (note.at, note.to) in steps
        if mine and note.kind != "in" and (kinds is None or note.kind in kinds):
            said = _say(note, when, forms.get(note.at))
            found += [] if said in found else [said]
        if note.kind in ("in", "down"):
            forms[note.to] = note.event
    return found


def _say(note: Note, when: int, before: Event | None) -> str:
    at = f"after {when} ms: " if when else ""
    if note.kind in ("up", "down"):
        same = before is not None and note.event == before
        return f"{at}{note.at} → {note.to}: passes {note.why}" + (
            "" if same else f", and is {json_form.dumps(note.event)}"
        )
    if note.kind == "held":
        return f"{at}{note.at} holds it: publishes {note.why}"
    if note.kind == "dropped":
        return f"{at}{note.at} drops it: {note.why}"
    if note.kind == "skipped":
        return f"{at}{note.at} → {note.to}: not chosen, {note.why}"
    if note.kind == "delivered":
        return f"{at}{note.to} gets it{f' in {note.at}' if note.at else ''}"
    return f"{at}{note.at or 'outside'} → {note.to}: {'refused' if note.kind == 'refused' else 'stopped'}, {note.why}"
