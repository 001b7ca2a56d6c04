"""Translations never lose a match; where they say exact they gain none (seed 001, 5.2.5).

Each is evaluated by somebody else: Spark SQL itself, ActiveMQ and SQLite for JMS selectors, small evaluators of our own
for SIENA, ETCL and MQTT, arithmetic for CAN masks. Exact is meant for what the other side can carry: no bytes, nested
events, NaN.
"""

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocols.evaluators import activemq, etcl, mqtt, siena, spark, sqlite
from strategies import COLUMNS, Grammar, Seeded, batch, make_event, meetings, seeds

from vicinal.errors import LimitError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.filter.translate import Translation


def carried(event: Event) -> bool:
    values = [*event.params.values(), *event.attrs.values()]
    return all(type(value) in (str, int, bool) or (type(value) is float and value == value) for value in values)


def judge(f: Filter, translation: Translation, event: Event, found: bool) -> None:
    wanted = f.matches(event)
    assert found or not wanted, f"lost: {f}  as  {translation!r}  for {event}"
    if translation.exact and carried(event):
        assert wanted or not found, f"gained: {f}  as  {translation!r}  for {event}"


def to_siena(text: str, some: list[Event]) -> None:
    f = Filter(text)
    translation = f.to_siena()
    for event in some:
        judge(f, translation, event, siena.matches(translation.text, event))


def to_etcl(text: str, some: list[Event]) -> None:
    f = Filter(text)
    translation = f.to_etcl()
    for event in some:
        judge(f, translation, event, etcl.matches(translation.text, event))


@pytest.mark.parametrize("text", ["x NOT LIKE '%b%'", "x LIKE '%'"])
def test_patterns_in_etcl_take_strings_only(text: str) -> None:
    f = Filter(text)
    event = Event("e", {"x": 5})
    judge(f, f.to_etcl(), event, etcl.matches(f.to_etcl().text, event))


@pytest.mark.parametrize("pattern", ["a", "%b%", "a%", "%a", "a%b", "_", "", "%b_c%", "it''s"])
def test_patterns_in_etcl(pattern: str) -> None:
    """Exact where they say so, of strings."""
    for negation in ("", "NOT "):
        f = Filter(f"x {negation}LIKE '{pattern}'")
        translation = f.to_etcl()
        for value in ("", "a", "b", "ab", "ba", "abc", "aXb", "bXc", "it's"):
            event = Event("e", {"x": value})
            judge(f, translation, event, etcl.matches(translation.text, event))


def to_mqtt(text: str, some: list[Event], prefix: str = "vicinal/") -> None:
    f = Filter(text)
    translation = f.to_mqtt(prefix)
    for event in some:
        topic = prefix + event.subject
        if mqtt.may_be_published(topic):
            lines = translation.text.split("\n") if translation.text else []
            judge(f, translation, event, any(mqtt.matches(line, topic) for line in lines))


def test_a_subject_of_two_lines_is_one_topic() -> None:
    to_mqtt("subject IN ('a\nb', 'c')", [Event("a\nb"), Event("a"), Event("c")])


ONE_BY_ONE = [to_siena, to_etcl, to_mqtt]


@pytest.mark.parametrize("law", ONE_BY_ONE)
@given(drawn=meetings())
def test_nothing_is_lost(law: Callable[[str, list[Event]], None], drawn: tuple[str, list[Event]]) -> None:
    law(*drawn)


@pytest.mark.parametrize("law", ONE_BY_ONE)
@given(seed=seeds)
def test_nothing_is_lost_thousands_of_times(law: Callable[[str, list[Event]], None], seed: int) -> None:
    for text, some in batch(seed, size=10):
        law(text, some)


SUBJECTS = ["Speed", "Speeding", "x/y", "x/y/z", "x", "/x", "a+b", "#", "\U0001f600", "$SYS", "b"]


@given(seeds)
def test_subjects_as_topics(seed: int) -> None:
    """Filters on the subject only, which topics can say best."""
    source = Seeded(seed)
    some = [Event(subject) for subject in SUBJECTS]
    for _ in range(20):
        to_mqtt(_about_subjects(source), some)


def _about_subjects(source: Seeded) -> str:
    one = source.one
    patterns = ["x/%", "x/y%", "Speed%", "%", "/%", "x/_", "a+%", "Sp_ed", "Speed", "%/y"]
    subjects = ["'" + subject + "'" for subject in SUBJECTS]
    parts = []
    for _ in range(one((1, 1, 2, 3))):
        shape = one(range(4))
        if shape == 0:
            parts.append(f"subject {one(('=', '=', '<>', '<', '>='))} {one(subjects)}")
        elif shape == 1:
            parts.append(f"subject{one(('', '', ' NOT'))} LIKE '{one(patterns)}'")
        elif shape == 2:
            parts.append(f"subject{one(('', '', ' NOT'))} IN ({one(subjects)}, {one(subjects)})")
        else:
            parts.append(one(("rate > 5", "TRUE", "subject IS NOT NULL", "subject IS NULL")))
    return one((" AND ", " OR ")).join(parts)


identifiers = st.integers(0, 0x7FF) | st.integers(0x800, 0x1FFFFFFF) | st.integers(0x100, 0x10F)


@given(
    seeds,
    st.lists(st.lists(identifiers, max_size=4), min_size=len(SUBJECTS), max_size=len(SUBJECTS)),
    st.integers(0, 6),
)
def test_subjects_as_acceptance_masks(seed: int, numbers: list[list[int]], most: int) -> None:
    """An identifier belongs to one subject: who shares it first has it."""
    taken: set[int] = set()
    mapping = {}
    for subject, some in zip(SUBJECTS, numbers):
        mapping[subject] = sorted(set(some) - taken)
        taken |= set(some)
    source = Seeded(seed)
    for _ in range(5):
        f = Filter(_about_subjects(source))
        wanted = {
            number for subject in SUBJECTS if f.matches(Event(subject, {"rate": 9})) for number in mapping[subject]
        }
        if 0 < most < len({number > 0x7FF for number in wanted}):
            with pytest.raises(LimitError):  # one filter takes standard or extended frames, never both
                f.to_can(mapping, most)
            continue
        translation = f.to_can(mapping, most)
        assert not most or len(translation.masks) <= most
        heard = {number for number in taken if passes(translation.masks, number)}
        assert wanted <= heard, f"lost: {f} as {translation!r}"
        if translation.exact:
            assert wanted == heard, f"gained: {f} as {translation!r}"
            # Also of identifiers that nobody uses yet.
            assert sum(1 << free_bits(mask) for mask in translation.masks) == len(wanted)
        assert translation.text == ",".join(candump(mask) for mask in translation.masks)


def passes(masks: list[dict[str, int]], number: int) -> bool:
    """As a controller does it: equal where the mask is 1, standard and extended frames apart."""
    return any(
        mask["extended"] is (number > 0x7FF) and number & mask["can_mask"] == mask["can_id"] & mask["can_mask"]
        for mask in masks
    )


def free_bits(mask: dict[str, int]) -> int:
    return (29 if mask["extended"] else 11) - mask["can_mask"].bit_count()


def candump(mask: dict[str, int]) -> str:
    digits = 8 if mask["extended"] else 3
    return f"{mask['can_id']:0{digits}X}:{mask['can_mask']:0{digits}X}"


def test_neighbours_share_a_mask_and_stay_exact() -> None:
    translation = Filter("subject = 'a'").to_can({"a": [0x100, 0x101], "b": [0x102]}, 1)
    assert translation.text == "100:7FE"
    assert translation.exact


def test_an_identifier_of_two_subjects_is_not_exact() -> None:
    assert not Filter("subject = 'a'").to_can({"a": [0x100], "b": [0x100]}).exact


@pytest.mark.parametrize("number", [-1, 1 << 29])
def test_an_identifier_that_no_frame_has_is_refused(number: int) -> None:
    with pytest.raises(Exception, match="limit"):
        Filter("TRUE").to_can({"a": [number]})


@given(seeds)
def test_jms_selectors_by_sqlite(seed: int) -> None:
    source = Seeded(seed)
    grammar = Grammar(source, typed=True)
    some = [make_event(source, typed=True) for _ in range(20)]
    made = [Filter(grammar.condition()) for _ in range(20)]
    translations = [f.to_jms() for f in made]
    found = sqlite.matching([translation.text for translation in translations], some)
    for f, translation, rows in zip(made, translations, found):
        for event, row in zip(some, rows):
            judge(f, translation, event, row)


def by_activemq(made: list[Filter], some: list[Event], folder: Path) -> None:
    translations = [f.to_jms() for f in made]
    found = activemq.matching([translation.text for translation in translations], some, folder)
    assert len(found) == len(made)
    for f, translation, rows in zip(made, translations, found):
        assert not isinstance(rows, str), f"{translation.text} is refused: {rows}"
        for event, row in zip(some, rows):
            judge(f, translation, event, row)


@pytest.mark.xdist_group("activemq")
class TestActiveMq:
    @pytest.mark.parametrize("seed", range(2))
    def test_selectors(self, seed: int, tmp_path: Path) -> None:
        source = Seeded(seed)
        grammar = Grammar(source, typed=True)
        some = [make_event(source, typed=True) for _ in range(100)]
        by_activemq([Filter(grammar.condition()) for _ in range(1000)], some, tmp_path)

    def test_selectors_lose_nothing_of_mixed_types(self, tmp_path: Path) -> None:
        source = Seeded(5)
        grammar = Grammar(source)
        some = [make_event(source) for _ in range(100)]
        made = [Filter(grammar.condition()) for _ in range(1000)]
        found = activemq.matching([f.to_jms().text for f in made], some, tmp_path)
        for f, rows in zip(made, found):
            assert not isinstance(rows, str), f"{f} is refused: {rows}"
            for event, row in zip(some, rows):
                assert row or not f.matches(event), f"lost: {f}  as  {f.to_jms()!r}  for {event}"

    def test_zero_has_no_sign(self, tmp_path: Path) -> None:
        made = [Filter(f"x {op} {zero}") for op in Grammar.OPERATORS for zero in ("0", "-0.0")]
        by_activemq(made, [Event("e", {"x": zero}) for zero in (0, 0.0, -0.0)], tmp_path)

    def test_unequal_types_do_not_match(self, tmp_path: Path) -> None:
        made = [Filter(text) for text in ("x <> 5", "x <> 'a'", "x <> TRUE", "x NOT LIKE 'a%'")]
        by_activemq(made, [Event("e", {"x": value}) for value in (6, 1.5, "b", False)], tmp_path)

    def test_an_escape_outside_the_bmp(self, tmp_path: Path) -> None:
        by_activemq([Filter("x LIKE 'a\U00010000%' ESCAPE '\U00010000'")], [Event("e", {"x": "a%"})], tmp_path)


SPARK_TYPES = {"s": "string", "i": "bigint", "d": "double", "b": "boolean", "x": "binary"}


def column(name: str) -> str:
    """As the column of a DataFrame is called."""
    sign, bare = ("$", name[1:]) if name.startswith("$") else ("", name)
    return sign + (bare[1:-1].replace("``", "`") if bare.startswith("`") else bare)


SCHEMA = {column(name): SPARK_TYPES[kind] for name, kind in COLUMNS.items()}


def by_spark(
    made: list[Filter], some: list[Event], declared: dict[str, str] | None, schema: dict[str, str] = SCHEMA
) -> None:
    translations = [f.to_spark(declared) for f in made]
    found = spark.matching([translation.text for translation in translations], some, schema)
    for f, translation, rows in zip(made, translations, found):
        for event, row in zip(some, rows):
            judge_spark(f, translation, event, row, declared is not None)


def judge_spark(f: Filter, translation: Translation, event: Event, found: bool, nan_is_known: bool) -> None:
    """Spark carries bytes too, and NaN where the schema says that there may be one."""
    wanted = f.matches(event)
    assert found or not wanted, f"lost: {f}  as  {translation!r}  for {event}"
    if translation.exact and (nan_is_known or not has_nan(event)):
        assert wanted or not found, f"gained: {f}  as  {translation!r}  for {event}"


def has_nan(event: Event) -> bool:
    return any(type(value) is float and math.isnan(value) for value in event.params.values())


def with_nan(source: Seeded, event: Event) -> Event:
    params = {
        name: float("nan") if type(value) is float and source.chance(5) else value
        for name, value in event.params.items()
    }
    return event.replace(params=params)


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
class TestSpark:
    @pytest.mark.parametrize("seed", range(2))
    def test_without_a_schema_columns_have_the_type_they_are_compared_with(self, seed: int) -> None:
        source = Seeded(seed)
        grammar = Grammar(source, typed=True)
        by_spark(
            [Filter(grammar.condition()) for _ in range(250)],
            [make_event(source, typed=True) for _ in range(150)],
            None,
        )

    @pytest.mark.parametrize("seed", range(2))
    def test_with_a_schema_any_filter_fits(self, seed: int) -> None:
        source = Seeded(100 + seed)
        grammar = Grammar(source)
        by_spark(
            [Filter(grammar.condition()) for _ in range(250)],
            [with_nan(source, make_event(source, typed=True)) for _ in range(150)],
            SCHEMA,
        )

    def test_columns_that_the_schema_lacks(self) -> None:
        source = Seeded(7)
        grammar = Grammar(source)
        schema = {name: SCHEMA[name] for name in ("s", "i", "$q", "lat")}
        some = [make_event(source, {"s": "s", "i": "i", "$q": "s", "lat": "i"}, typed=True) for _ in range(100)]
        by_spark([Filter(grammar.condition()) for _ in range(150)], some, schema, schema)

    def test_values_that_only_text_can_spoil(self) -> None:
        strings = [
            "${x}", "$${env:HOME}", "\\", "\\'", "'", "\\%", "%", "\\_", "\\u0041",
            "a\tb\r\n", "\x1a", "\u2028", "`", '"',
        ]  # fmt: skip
        shown = ["'" + text.replace("'", "''") + "'" for text in strings]
        made = [Filter(f"s {op} {text}") for text in shown for op in ("=", "<>", "<", ">=", "LIKE", "NOT LIKE")]
        made += [Filter(f"s IN ({', '.join(shown)})")]
        made += [Filter(f"s LIKE '%!{sign}%' ESCAPE '!'") for sign in "%_!"]
        some = [Event("e", {"s": text}) for text in strings] + [Event("e")]
        for schema in (None, {"s": "string"}):
            by_spark(made, some, schema, {"s": "string"})

    def test_numbers_at_the_ends_of_bigint(self) -> None:
        edges = [base + step for base in (-(1 << 63), -(1 << 53), 0, 1 << 53, 1 << 63) for step in (-2, -1, 0, 1, 2)]
        inside = [number for number in edges if -(1 << 63) <= number < 1 << 63]
        made = [Filter(f"i {op} {number}") for op in Grammar.OPERATORS for number in inside]
        made += [Filter(f"i {op} {float(number)!r}") for op in Grammar.OPERATORS for number in edges]
        some = [Event("e", {"i": number}) for number in inside]
        by_spark(made, some, {"i": "bigint"}, {"i": "bigint"})
        by_spark(made, some, None, {"i": "bigint"})

    def test_small_integer_columns(self) -> None:
        made = [
            Filter(f"i {op} {number}")
            for op in Grammar.OPERATORS
            for number in (-129, -128, 0, 1.5, 127, 128, 40000, 1 << 40)
        ]
        some = [Event("e", {"i": number}) for number in (-128, -1, 0, 1, 2, 127)]
        for kind in ("tinyint", "smallint", "int"):
            by_spark(made, some, {"i": kind}, {"i": kind})

    @pytest.mark.parametrize("declared", [None, {"f": "float"}])
    def test_columns_of_32_bit_floats(self, declared: dict[str, str] | None) -> None:
        made = [Filter(f"f {op} {number}") for op in Grammar.OPERATORS for number in (16777216, 16777217, 0.1, 0.5)]
        some = [Event("e", {"f": number}) for number in (16777216.0, 16777218.0, 0.5, 0.10000000149011612)]
        by_spark(made, some, declared, {"f": "float"})

    @pytest.mark.parametrize("text", ["s = i", "o = i", "s < missing"])
    def test_relations_of_unlike_columns(self, text: str) -> None:
        schema = {name: SCHEMA[name] for name in ("s", "i", "o", "x")}
        some = [Event("e", {"s": "a", "i": 1, "o": True, "x": b"a"}), Event("e", {"s": "1", "i": 1})]
        by_spark([Filter(text)], some, schema, schema)

    @pytest.mark.parametrize("declared", [None, {}])
    @pytest.mark.parametrize("text", ["subject > 0", "subject <> TRUE OR subject = 'a'", "subject IN (1, 'a')"])
    def test_a_subject_is_a_string(self, text: str, declared: dict[str, str] | None) -> None:
        by_spark([Filter(text)], [Event("a"), Event("b")], declared, {})

    @pytest.mark.parametrize("kind", ["BIGINT", "decimal(10,2)"])
    def test_a_type_the_translation_does_not_know_loses_nothing(self, kind: str) -> None:
        from decimal import Decimal

        value = Decimal(7) if kind.startswith("d") else 7
        text = Filter("i > 5").to_spark({"i": kind}).text
        frame = spark.session().createDataFrame([(value,)], f"i {kind}")
        assert frame.filter(text).count() == 1
