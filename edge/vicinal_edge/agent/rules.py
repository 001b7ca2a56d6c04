"""Filters at the source: what of all that a device knows is worth sending (spec/agent.md).

    [[rule]]
    subject = "Speed"
    filter = "rate > 5"          range: only what meets the condition
    field = "rate"               the parameter that the next two are about
    delta = 1.0                  deadband: only if it is this far from what was sent last
    change = true                on change: only if it is another value
    every_ms = 200               rate: no more often; the last that had to wait goes when the time has come
    refresh_ms = 60000           and again after so long, changed or not

The first value always goes, and the first after a rule was set anew: who reconstructs a value from what it gets must
have one to begin with. With `delta` the value that was sent last is never `delta` or more away from the true one, but
for as long as `every_ms` holds one back.

    offered = passed + outside + unchanged + replaced + waiting              of each rule, exactly
"""

from vicinal.errors import LocalProtocolError
from vicinal.filter import Filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vicinal._table import Table
    from vicinal.event import Event

__all__ = ["MAX_RULES", "Rule", "Rules", "rule_of"]

# Each is looked at for every event of its subject.
MAX_RULES = 32
# A day: beyond it nobody waits.
_MAX_MS = 86400000


class Rule:
    __slots__ = (
        "_again",
        "_due",
        "_last",
        "_test",
        "change",
        "delta",
        "every",
        "field",
        "held",
        "offered",
        "outside",
        "passed",
        "refresh",
        "replaced",
        "subject",
        "unchanged",
    )

    def __init__(
        self,
        subject: str,
        condition: "Filter | None" = None,
        field: "str | None" = None,
        delta: "float | int | None" = None,
        change: bool = False,
        every: int = 0,
        refresh: int = 0,
    ) -> None:
        self.subject = subject
        self._test: Any = None if condition is None else condition.test  # without the tree that it was made of
        self.field = field
        self.delta = delta
        self.change = change
        self.every = every
        self.refresh = refresh
        self.offered = self.passed = self.outside = self.unchanged = self.replaced = 0
        self._last: Any = None  # a tuple of one, so that None and absent values are values
        self._due = 0  # not before, by the rate
        self._again = 0  # sent again then, changed or not
        self.held: Event | None = None  # what waits

    def offer(self, event: "Event", now: int) -> "Event | None":
        """The event if it goes now."""
        self.offered += 1
        if self._test is not None and self._test(event) is not True:
            self.outside += 1
            return None
        value = event.params.get(self.field) if self.field is not None else event.params
        if not self._differs(value, now):
            self.unchanged += 1
            if self.held is not None:  # it is back where it was sent last
                self.held = None
                self.replaced += 1
            return None
        if self.every and self._last is not None and now < self._due:
            if self.held is not None:
                self.replaced += 1
            self.held = event
            return None
        if self.held is not None:
            self.replaced += 1
        return self._pass(event, value, now)

    def _differs(self, value: "Any", now: int) -> bool:
        if self._last is None or (self.refresh and now >= self._again):
            return True
        last = self._last[0]
        if self.delta is not None:
            kinds = type(value), type(last)
            if kinds[0] in (int, float) and kinds[1] in (int, float):
                # Not less, instead of more: a NaN passes, and is seen.
                return not abs(value - last) < self.delta
            return _other(value, last)
        return not self.change or _other(value, last)

    def _pass(self, event: "Event", value: "Any", now: int) -> "Event":
        self.passed += 1
        self._last = (value,)
        self._due, self._again = now + self.every, now + self.refresh
        self.held = None
        return event

    def next_timeout(self) -> "int | None":
        return None if self.held is None else self._due

    def handle_timeout(self, now: int) -> "Event | None":
        event = self.held
        if event is None or now < self._due:
            return None
        return self._pass(event, event.params.get(self.field) if self.field is not None else event.params, now)

    @property
    def waiting(self) -> int:
        return self.held is not None

    @property
    def withheld(self) -> int:
        return self.outside + self.unchanged + self.replaced


class Rules:
    """An event goes if a rule of its subject lets it. A subject without a rule goes whole, with `only` not at all."""

    def __init__(self, rules: "list[Rule] | None" = None, only: bool = False) -> None:
        self.only = only
        self.unasked = 0
        self.set([] if rules is None else rules)

    def set(self, rules: "list[Rule]") -> None:
        """Others from now on: the first event of each goes."""
        if len(rules) > MAX_RULES:
            raise LocalProtocolError(f"{len(rules)} rules, the limit is {MAX_RULES}")
        self.rules = rules

    def offer(self, event: "Event", now: int) -> "Event | None":
        found, known = None, False
        for rule in self.rules:
            if rule.subject == event.subject:
                known = True
                if rule.offer(event, now) is not None:
                    found = event
        if known:
            return found
        if self.only:
            self.unasked += 1
            return None
        return event

    def begin(self) -> None:
        """As if they were set anew: the next of each goes."""
        for rule in self.rules:
            rule._last = None

    def next_timeout(self) -> "int | None":
        due = None
        for rule in self.rules:
            each = rule.next_timeout()
            if each is not None and (due is None or each < due):
                due = each
        return due

    def handle_timeout(self, now: int) -> "list[Event]":
        found: list[Event] = []
        for rule in self.rules:
            if rule.next_timeout() is not None:
                event = rule.handle_timeout(now)
                if event is not None and event not in found:
                    found.append(event)
        return found


def _other(value: "Any", last: "Any") -> bool:
    """A truth value is not a number, though it is equal to one."""
    return bool(value != last) or (type(value) is bool) != (type(last) is bool)


def rule_of(table: "Table") -> Rule:
    """Of [[rule]], and the keys of one in [[publish]]; whatever is wrong is said with its place."""
    subject = table.name("subject", 255)
    text = table.take("filter", str)
    condition = None
    if text is not None:
        try:
            condition = Filter(text)
        except LocalProtocolError as error:
            raise table.error("filter", f"is {text!r}: {error}")
    field = table.take("field", str)
    delta = table.number("delta", None)
    change = table.take("change", bool, False)
    if delta is not None and not delta > 0:
        raise table.error("delta", f"is {delta}, want more than 0; `change = true` passes every change")
    if delta is not None and field is None:
        raise table.error("delta", "needs `field`: which parameter must change by so much")
    every = table.integer("every_ms", 0, _MAX_MS, 0)
    refresh = table.integer("refresh_ms", 0, _MAX_MS, 0)
    return Rule(subject, condition, field, delta, change, every, refresh)
