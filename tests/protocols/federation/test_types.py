"""The event type repository: checks, versions, what is learned, the wire (spec/types.md)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_helpers import spec
from strategies import cases, values

from vicinal import wire
from vicinal.errors import LimitError, LocalProtocolError, RemoteProtocolError
from vicinal.event import Event
from vicinal.federation import types as module
from vicinal.federation.types import EventType, TypeRepository, compatible

ROWS: list[dict[str, Any]] = [
    {
        "subject": "Speed",
        "version": 2,
        "params": {"license_no": "str", "rate": "float", "note": "str", "more": "any"},
        "optional": ["note", "more"],
        "unknown": "refuse",
    }
]

NAMES = ["a", "b", "c"]
SAMPLES: dict[str, list[Any]] = {
    "str": ["", "x"], "int": [0, -5], "float": [0.5, float("nan")], "bool": [True, False], "bytes": [b""],
    "event": [Event("n")],
}  # fmt: skip
kinds = st.sampled_from(["str", "int", "float", "bool", "bytes", "event", "any", "int", "float"])


@st.composite
def event_types(draw: Any, version: int = 1) -> EventType:
    params = draw(st.dictionaries(st.sampled_from(NAMES), kinds))
    optional = draw(st.sets(st.sampled_from(sorted(params)))) if params else set()
    return EventType("e", version, params, optional, draw(st.booleans()))


@st.composite
def successors(draw: Any, old: EventType) -> EventType:
    """Few changes, of which some break."""
    params, optional = dict(old.params), set(old.optional)
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=2)):
        change = draw(st.sampled_from(["widen", "go", "turn", "retype"]))
        if name not in params or change == "retype":
            params[name] = draw(kinds)
            optional.add(name)
        elif change == "widen" and params[name] == "int":
            params[name] = "float"
        elif change == "turn":
            optional ^= {name}
        elif change == "go":
            del params[name]
            optional.discard(name)
    return EventType("e", 2, params, optional, draw(st.sampled_from([old.unknown, True, False])))


events = st.builds(
    Event,
    st.just("e"),
    st.dictionaries(
        st.sampled_from([*NAMES, "other"]), st.sampled_from([one for some in SAMPLES.values() for one in some])
    ),
)


def allowed(kind: str, value: Any) -> bool:
    """The rule, said in another way than the code says it."""
    names = {str: "str", int: "int", float: "float", bool: "bool", bytes: "bytes", Event: "event"}
    return kind == "any" or names[type(value)] == kind or (kind == "float" and type(value) is int)


@spec("TYPE-1", "TYPE-2", "TYPE-5")
@cases(500)
@given(event_types(), events)
def test_an_event_is_of_its_type_or_not(found: EventType, event: Event) -> None:
    repository = TypeRepository()
    repository.add(found)
    right = all(name in event.params for name in found.params if name not in found.optional)
    right = right and all(
        allowed(found.params[name], value) for name, value in event.params.items() if name in found.params
    )
    right = right and (found.unknown or all(name in found.params for name in event.params))
    assert (repository.check(event) == "") is right
    assert (
        repository.check(event.replace(attrs={"Priority": 3}, params=list(event.params.items())[::-1]))
        == (repository.check(event))
        or not right
    )


@spec("TYPE-1", "TYPE-2")
@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"license_no": "a", "rate": 5}, ""),
        ({"license_no": "a", "rate": 5.5, "note": "x", "more": b""}, ""),
        ({"license_no": "a", "rate": "fast"}, "parameter 'rate' of 'Speed' is a str, want float"),
        ({"license_no": "a", "rate": True}, "parameter 'rate' of 'Speed' is a bool, want float"),
        ({"license_no": "a", "rate": 1, "note": Event("x")}, "parameter 'note' of 'Speed' is a event, want str"),
        ({"rate": 5.5}, "'Speed' has no parameter 'license_no'"),
        ({"license_no": "a", "rate": 5, "colour": 1}, "'Speed' has a parameter 'colour', which its type does not know"),
    ],
)
def test_reasons(params: dict[str, Any], reason: str) -> None:
    assert TypeRepository.from_tables(ROWS).check(Event("Speed", params)) == reason


@spec("TYPE-3", "TYPE-4")
def test_subjects_that_nobody_declared() -> None:
    assert TypeRepository().check(Event("Other")) == ""
    closed = TypeRepository.from_tables(ROWS, closed=True)
    assert closed.check(Event("Other")) == "no type is declared for 'Other'"
    assert closed.learn(Event("Other")) == "no type is declared for 'Other'"
    assert closed.check(Event("FES_ControlEvent")) == closed.learn(Event("FES_ControlEvent")) == ""
    with pytest.raises(LocalProtocolError, match="'FES_x' is one of the federation's own"):
        closed.add(EventType("FES_x"))


@spec("TYPE-6")
@cases(800)
@given(event_types(1), st.data(), st.lists(events, max_size=8))
def test_a_compatible_version_takes_old_events_and_serves_old_readers(
    old: EventType, data: Any, some: list[Event]
) -> None:
    new = data.draw(event_types(2) | successors(old))
    if compatible(old, new):
        return
    for event in some:
        new_to_old = [name for name in event.params if name in new.params and name not in old.params]
        if old.check()(event) == "" and not new_to_old:
            assert new.check()(event) == "", (old, new)
        if new.check()(event) == "":
            for name in set(old.params) - old.optional:
                assert name in event.params
                assert old.params[name] == "any" or allowed(new.params[name], event.params[name])


@spec("TYPE-6")
@pytest.mark.parametrize(
    ("new", "breaks"),
    [
        ({"a": "int", "b": "str?"}, []),
        ({"a": "float", "b": "str?"}, []),
        ({"a": "int"}, []),
        ({"a": "int", "b": "str?", "c": "str?"}, []),
        ({"b": "str?"}, ["'a' is gone: who reads version 1 relies on it"]),
        ({"a": "str", "b": "str?"}, ["'a' is str and was int"]),
        ({"a": "any", "b": "str?"}, ["'a' is any and was int"]),
        ({"a": "int?", "b": "str?"}, ["'a' becomes optional"]),
        ({"a": "int", "b": "str"}, ["'b' becomes required"]),
        ({"a": "int", "b": "str?", "c": "str"}, ["'c' is new and required"]),
        (
            {"a": "bool?", "b": "int", "c": "str"},
            ["'a' is bool", "'a' becomes", "'b' is int", "'b' becomes", "'c' is new"],
        ),
    ],
)
def test_what_breaks(new: dict[str, str], breaks: list[str]) -> None:
    def made(version: int, params: dict[str, str], unknown: bool = True) -> EventType:
        optional = [name for name, kind in params.items() if kind.endswith("?")]
        return EventType("e", version, {name: kind.rstrip("?") for name, kind in params.items()}, optional, unknown)

    found = compatible(made(1, {"a": "int", "b": "str?"}), made(2, new))
    assert len(found) == len(breaks)
    assert all(one.startswith(want) for one, want in zip(found, breaks)), found
    closing = compatible(made(1, {"a": "int"}), made(2, {"a": "int"}, False))
    assert closing == ["unknown parameters become refused: who sends version 1 may have some"]
    strict = compatible(made(1, {"a": "int", "b": "str?"}, False), made(2, {"a": "int"}, False))
    assert strict == ["'b' is gone, and unknown parameters are refused: it is still sent"]


@spec("TYPE-7", "TYPE-3")
def test_versions_in_any_order_and_all_reasons() -> None:
    repository = TypeRepository()
    one = EventType("e", 1, {"a": "int"})
    two = EventType("e", 2, {"a": "float"})
    three = EventType("e", 3, {"a": "float", "b": "str"}, ["b"])
    assert repository.add(three)
    assert repository.add(one)
    assert repository.add(two)
    assert not repository.add(two)
    assert not repository.add(EventType("e", 3, {"b": "str", "a": "float"}, ["b"]))
    assert repository.get("e") == three
    assert repository.get("e", 1) == one
    assert repository.get("e", 9) is None
    assert repository.check(Event("e", {"a": 1, "b": 5})) != ""
    before = repository.events()
    for bad, reasons in (
        (EventType("e", 4, {"a": "int", "b": "int", "c": "int"}, ["b"]), ["'a' is int", "'b' is int", "'c' is new"]),
        (EventType("e", 2, {"a": "int"}), ["version 2 is known, and another"]),
        (EventType("e", 0), ["version of 'e' is 0"]),
    ):
        with pytest.raises(LocalProtocolError) as raised:
            repository.add(bad)
        assert all(reason in str(raised.value) for reason in reasons)
        assert repository.events() == before


@spec("TYPE-7")
def test_a_name_does_not_come_back_as_something_else() -> None:
    repository = TypeRepository()
    repository.add(EventType("e", 1, {"x": "str"}, ["x"]))
    repository.add(EventType("e", 2))
    with pytest.raises(LocalProtocolError, match="'x' is int and was str"):
        repository.add(EventType("e", 3, {"x": "int"}, ["x"]))


@spec("TYPE-8", "TYPE-9")
def test_learning() -> None:
    repository = TypeRepository.from_tables(ROWS)
    assert "want float" in repository.learn(Event("Speed", {"license_no": "", "rate": ""}))
    assert repository.learn(Event("Speed", {"license_no": "", "rate": 0})) == ""
    repository.learn(Event("Light", {"colour": "red", "age": 1, "x": 1}))
    repository.learn(Event("Light", {"colour": "red", "age": 1.5, "x": "a", "y": b""}))
    found = repository.get("Light")
    assert found is not None
    assert found.learned
    assert found.params == {"colour": "str", "age": "float", "x": "any", "y": "bytes"}
    assert found.optional == {"y"}
    assert repository.check(Event("Light", {"colour": 5})) == ""
    repository.add(EventType("Light", 1, {"colour": "str"}))
    assert repository.check(Event("Light", {"colour": 5})) != ""
    assert [(one["subject"], one["learned"]) for one in repository.report()] == [("Light", False), ("Speed", False)]


@spec("TYPE-10")
@given(event_types(7))
def test_the_wire_carries_it(found: EventType) -> None:
    data = wire.encode(found.to_event())
    again = EventType.from_event(wire.decode(data))
    assert again == found
    assert (again.params, again.optional, again.unknown) == (found.params, found.optional, found.unknown)
    repository = TypeRepository()
    assert repository.receive(wire.decode(data))
    assert not repository.receive(wire.decode(data))
    assert repository.events() == [found.to_event()]


@spec("TYPE-10")
def test_the_event_of_the_page() -> None:
    params = Event("Params", [("rate", "float"), ("note", "str?")])
    wanted = [("Subject", "Speed"), ("Version", 2), ("Unknown", False), ("Params", params)]
    made = EventType("Speed", 2, [("rate", "float"), ("note", "str")], ["note"], False).to_event()
    assert made == Event("FES_EventType", wanted)


@spec("TYPE-10")
@given(
    st.dictionaries(
        st.sampled_from(["Subject", "Version", "Unknown", "Params"]), values | st.just(Event("Params", {"a": "int"}))
    )
)
def test_what_is_no_type_is_refused(params: dict[str, Any]) -> None:
    try:
        found = EventType.from_event(Event("FES_EventType", params))
    except RemoteProtocolError:
        return
    assert EventType.from_event(found.to_event()) == found


@spec("TYPE-11")
def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TYPES", 3)
    repository = TypeRepository()
    for subject in ("a", "b"):
        repository.add(EventType(subject))
    for subject in ("c", "d", "e"):
        assert repository.learn(Event(subject)) == ""
    assert [one.subject for one in repository.types()] == ["a", "b", "c"]
    assert repository.overflow == 2
    repository.add(EventType("c"))
    with pytest.raises(LimitError, match="number of event types is 4, the limit is 3"):
        repository.add(EventType("d"))
    for version in range(2, 65):
        repository.add(EventType("a", version))
    with pytest.raises(LimitError, match="number of versions of type 'a' is 65, the limit is 64"):
        repository.add(EventType("a", 65))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({}, "subject is missing"),
        ({"subject": "e", "version": 0}, "version is 0, want 1 .."),
        ({"subject": "e", "params": {"a": "long"}}, "params has a = 'long', want one of str, int"),
        ({"subject": "e", "params": {"": "int"}}, "params is wrong: parameter name is ''"),
        ({"subject": "e", "optional": ["a"]}, "optional has 'a', which is none of params"),
        ({"subject": "e", "unknown": True}, "unknown is True, want a string"),
        ({"subject": "e", "unknown": "drop"}, "unknown is 'drop', want allow or refuse"),
        ({"subject": "e", "parms": {}}, "parms is not known here: want subject, version"),
        (
            {"subject": "first", "version": 2, "params": {"a": "int"}},
            "version is 2: type 'first' does not fit: 'a' is new",
        ),
    ],
)
def test_a_table_that_is_wrong(row: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalProtocolError, match=rf"^gw.toml: \[\[type\]\] 2.*{message}"):
        TypeRepository.from_tables([{"subject": "first"}, row], "gw.toml")


def test_two_brackets() -> None:
    with pytest.raises(LocalProtocolError, match=r"gw.toml: write \[\[type\]\]"):
        TypeRepository.from_tables({"subject": "e"}, "gw.toml")
