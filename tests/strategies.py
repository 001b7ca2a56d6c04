"""What the tests draw: values, events, and filters as text.

One grammar serves two sources of choice. Under hypothesis every choice is drawn, so that what fails shrinks; from a
seeded `random.Random` hundreds of filters are made at once, for the engines that take them in batches (Spark, SQLite).

    Source      how a choice is made             Drawn, Seeded
    Grammar     filters over some columns        kinds of values per name, so that filters and events meet
    events()    events over the same names       mixed: any kind under any name; typed: the kind of the column
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from vicinal.errors import LocalProtocolError
from vicinal.event import Event

T = TypeVar("T")

INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1
INF = float("inf")

# Few and close to each other: filters must hit events, and sit where int and float part, or UTF-8 and UTF-16.
STRINGS = [
    "", "a", "ab", "abc", "abz", "b", "ba", "aXb", "a%b", "a_b", "it's", "\\",
    "a\nb", "\ud7ff", "\uffff", "\U00010000"
]  # fmt: skip
INTEGERS = [0, 1, -1, 2, 3, 30, (1 << 24) + 1, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, INT_MAX, INT_MIN]
REALS = [-0.0, 0.5, 1.0, 1.5, 2.5, -1.0, 1e-05, 5e-324, 1e300, -1e300, float(1 << 53), float(1 << 63), 16777216.0]
BLOBS = [b"", b"a", b"\x00\xff"]
SUBJECTS = ["a", "ab", "Speed", "x/y", "x/z/w", "a\nb", "\U00010000"]
PATTERNS = [
    "", "%", "a", "a%", "%b", "%b%", "a%b", "_", "a_", "_b%", "%_%", "a%b%c", "%%", "_%_",
    "\U00010000%", "%\\%", "a\n%"
]  # fmt: skip
ESCAPED = [
    ("a!%b", "!"), ("!_%", "!"), ("!!%", "!"), ("%a\\_b", "\\"), ("a%%b", "%"), ("a__b%", "_"),
    ("%x\U00010000%", "\U00010000")
]  # fmt: skip

# Name as it stands in a filter -> kind of its column: s string, i integer, d double, b boolean, x bytes.
COLUMNS = {
    "s": "s", "t": "s", "i": "i", "j": "i", "d": "d", "o": "b", "x": "x", "Vehicle.Speed": "d", "`odd name`": "i",
    "`a``b`": "s", "$q": "s", "$Priority": "i", "$`odd $`": "d", "lat": "i", "lon": "i",
}  # fmt: skip


def cases(count: int) -> settings:
    """So many examples where there is time for them (soak), and a third of them in every run."""
    most = max(count // 3, settings().max_examples)
    return settings(
        max_examples=most, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )


class Source:
    """Where choices come from."""

    def one(self, options: Sequence[T]) -> T:
        raise NotImplementedError

    def text(self) -> str:
        raise NotImplementedError

    def number(self) -> int | float:
        raise NotImplementedError

    def chance(self, one_in: int) -> bool:
        return self.one(range(one_in)) == 0


class Drawn(Source):
    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw

    def one(self, options: Sequence[T]) -> T:
        found: T = self.draw(st.sampled_from(options))
        return found

    def text(self) -> str:
        return str(self.draw(texts))

    def number(self) -> int | float:
        found: int | float = self.draw(numbers)
        return found


class Seeded(Source):
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def text(self) -> str:
        return "".join(self.random.choices("ab%_'\\\u00e9\uffff\U0001f600 ${}\n", k=self.random.randrange(6)))

    def number(self) -> int | float:
        if self.random.random() < 0.5:
            return self.random.randint(-1 << self.random.randrange(1, 64), (1 << self.random.randrange(1, 64)) - 1)
        return self.random.uniform(-1, 1) * 10.0 ** self.random.randrange(-20, 20)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(INT_MIN, INT_MAX) | st.floats(allow_nan=False, allow_infinity=False)
any_numbers = st.integers(INT_MIN, INT_MAX) | st.floats()


def value_text(value: Any) -> str:
    """A literal as a user would write it; not by the code under test."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return repr(value)


class Grammar:
    """Conditions as text. `typed`: a name is compared only with values of its column's kind, as engines with schemas
    want it."""

    OPERATORS = ("=", "<>", "<", "<=", ">", ">=")

    def __init__(
        self,
        source: Source,
        columns: dict[str, str] = COLUMNS,
        typed: bool = False,
        within: bool = True,
        depth: int = 3,
    ) -> None:
        self.source = source
        self.columns = columns
        self.names = list(columns)
        self.typed = typed
        self.within = within
        self.depth = depth

    def value_of(self, kind: str) -> Any:
        one = self.source.one
        rare = self.source.chance(6)
        if kind == "s":
            return self.source.text() if rare else one(STRINGS)
        if kind in "id":
            return self.source.number() if rare else one(INTEGERS + REALS)  # type: ignore[operator]
        return one((True, False)) if kind == "b" else one(BLOBS)

    def literal(self, name: str) -> str:
        kind = self.columns.get(name, "s")
        return value_text(self.value_of(kind if self.typed or not self.source.chance(5) else self.source.one("sidbx")))

    def name(self) -> str:
        return "subject" if self.source.chance(7) else self.source.one(self.names)

    def condition(self, depth: int | None = None) -> str:
        depth = self.depth if depth is None else depth
        shape = self.source.one(range(8)) if depth else 0
        if shape < 3:
            return self.predicate()
        if shape == 3:
            return f"NOT ({self.condition(depth - 1)})"
        if shape == 4:
            return f"({self.condition(depth - 1)})"
        word = " AND " if shape < 7 else " or "
        return word.join([self.nested(depth - 1) for _ in range(self.source.one((2, 2, 3)))])

    def nested(self, depth: int) -> str:
        text = self.condition(depth)
        return f"({text})" if self.source.chance(2) else text

    def predicate(self) -> str:
        makers = (
            self.comparison, self.comparison, self.comparison, self.flipped, self.between, self.member, self.like,
            self.like, self.presence, self.relation, self.other,
        )  # fmt: skip
        return self.source.one(makers)()

    def negation(self) -> str:
        return self.source.one(("", "", " NOT", " not"))

    def comparison(self) -> str:
        name = self.name()
        return f"{name} {self.operator(name)} {self.literal(name)}"

    def operator(self, name: str) -> str:
        ordered = not self.typed or self.columns.get(name, "s") in "sid"
        return self.source.one(self.OPERATORS if ordered else ("=", "<>"))

    def flipped(self) -> str:
        name = self.name()
        return f"{self.literal(name)} {self.operator(name)} {name}"

    def between(self) -> str:
        name = self.name()
        return f"{name}{self.negation()} BETWEEN {self.literal(name)} AND {self.literal(name)}"

    def member(self) -> str:
        name = self.name()
        values = [self.literal(name) for _ in range(self.source.one((1, 2, 3)))]
        return f"{name}{self.negation()} IN ({', '.join(values)})"

    def like(self) -> str:
        strings = [name for name in self.names if self.columns[name] == "s"] if self.typed else self.names
        name = self.source.one([*strings, "subject"])
        return f"{name}{self.negation()} LIKE {self.pattern()}"

    def pattern(self) -> str:
        if self.source.chance(4):
            pattern, escape = self.source.one(ESCAPED)
            return f"{value_text(pattern)} ESCAPE {value_text(escape)}"
        return value_text(self.source.text() if self.source.chance(5) else self.source.one(PATTERNS))

    def presence(self) -> str:
        return f"{self.name()} IS{self.source.one(('', ' NOT'))} NULL"

    def relation(self) -> str:
        name = self.name()
        kind = self.columns.get(name, "s")
        alike = [other for other in self.names if self.columns[other] == kind] if self.typed else self.names
        return f"{name} {self.operator(name)} {self.source.one(alike)}"

    def other(self) -> str:
        choice = self.source.one(range(4))
        if choice == 0 and self.within:
            lat, lon = self.source.one(((533438000, -62546000), (0, 0), (515000000, -1000000)))
            return f"within({lat}, {lon}, {self.source.one((1, 500, 20000))})"
        booleans = [name for name in self.names if self.columns[name] == "b"]
        if choice == 1 and booleans:
            return self.source.one(booleans)
        return self.source.one(("TRUE", "FALSE", "1 = 1.0", "TRUE = 0", "'b' < 'a'"))


def _identifier(name: str) -> tuple[bool, str]:
    """Whether an attribute, and the name it has in an event."""
    attribute = name.startswith("$")
    bare = name[1:] if attribute else name
    return attribute, bare[1:-1].replace("``", "`") if bare.startswith("`") else bare


def make_event(source: Source, columns: dict[str, str] = COLUMNS, typed: bool = False) -> Event:
    params, attrs = [], []
    for name, kind in columns.items():
        if source.chance(6):
            continue
        attribute, ident = _identifier(name)
        (attrs if attribute else params).append((ident, _event_value(source, ident, kind, typed)))
    try:
        return Event(source.one(SUBJECTS), params, attrs)
    except LocalProtocolError:
        return Event(source.one(SUBJECTS), params)


def _event_value(source: Source, ident: str, kind: str, typed: bool) -> Any:
    if ident == "Priority":
        return source.one((-32767, 0, 1, 2, 3, 30, 32767))
    if ident in ("lat", "lon") and not source.chance(6):
        return source.one(PLACES[ident])
    if not typed and source.chance(5):
        return source.one(
            (*STRINGS, *INTEGERS, True, False, *BLOBS, float("nan"), INF, -INF, Event("nested", {"s": "a"}))
        )
    if kind == "s":
        return source.text() if source.chance(6) else source.one(STRINGS)
    if kind == "i":
        number = source.number() if source.chance(6) else source.one(INTEGERS)
        return number if isinstance(number, int) else int(max(-1e15, min(1e15, number)))
    if kind == "d":
        return float(source.number()) if source.chance(6) else float(source.one([*REALS, 0.0, 2.0, INF, -INF]))
    return source.one((True, False)) if kind == "b" else source.one(BLOBS)


# Around the centres that filters name: at them, some metres off, inside 500 m, inside 20 km, far away.
PLACES = {
    "lat": [533438000, 533438050, 533438300, 533470000, 533400000, 534438000, 515000000, 0, 30, 30000],
    "lon": [-62546000, -62545930, -62546400, -62500000, -62600000, -61546000, -1000000, 0, 30, -30000],
}

values = st.deferred(
    lambda: st.one_of(
        texts,
        any_numbers,
        st.booleans(),
        st.binary(max_size=8),
        st.sampled_from(STRINGS),
        st.sampled_from(INTEGERS + REALS),
        nested_events,
    )
)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
nested_events = st.builds(
    Event,
    names,
    st.dictionaries(names, st.one_of(texts, any_numbers, st.booleans(), st.binary(max_size=4)), max_size=3),
)
arbitrary_events = st.builds(Event, names, st.dictionaries(names, values, max_size=4))


@st.composite
def events(draw: Any, columns: dict[str, str] = COLUMNS, typed: bool = False) -> Event:
    return make_event(Drawn(draw), columns, typed)


@st.composite
def filters(
    draw: Any, columns: dict[str, str] = COLUMNS, typed: bool = False, within: bool = True, depth: int = 3
) -> str:
    return Grammar(Drawn(draw), columns, typed, within, depth).condition()


def meeting(source: Source, count: int = 1, most: int = 4, depth: int = 3) -> tuple[Any, ...]:
    """Filters, and events that have what they ask for: (text, ..., [event, ...])."""
    found = [Grammar(source, depth=depth).condition() for _ in range(count)]
    asked = {name: kind for name, kind in COLUMNS.items() if any(name in text for text in found)}
    return (*found, [make_event(source, asked) for _ in range(source.one(range(1, most + 1)))])


@st.composite
def meetings(draw: Any, count: int = 1) -> tuple[Any, ...]:
    """Small ones, which shrink."""
    return meeting(Drawn(draw), count, 2, 2)


# Drawing a filter choice by choice costs milliseconds. For thousands of cases hypothesis draws the seed of a batch.
seeds = st.integers(0, (1 << 64) - 1)


def batch(seed: int, count: int = 1, size: int = 20) -> list[tuple[Any, ...]]:
    source = Seeded(seed)
    return [meeting(source, count) for _ in range(size)]


@st.composite
def conjunctions(draw: Any, columns: dict[str, str], most: int = 4) -> str:
    """Constraints on one name each: the filters for which covering is complete."""
    grammar = Grammar(Drawn(draw), columns, within=False)
    # NOT BETWEEN is a disjunction, and so is what NOT makes of BETWEEN.
    makers = (grammar.comparison, grammar.flipped, grammar.member, grammar.like, grammar.presence)
    parts = []
    for _ in range(draw(st.integers(1, most))):
        negation = "NOT " if grammar.source.chance(4) else ""
        parts.append(negation + grammar.source.one(makers)())
    return " AND ".join(parts)
