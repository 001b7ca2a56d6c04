"""What rules do to events, one by one, and which rules are refused (spec/mapping.md)."""

from typing import Any

import pytest
from spec_helpers import spec

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.mapping.mapping import INWARD, OUTWARD, Mapping, Unmappable
from vicinal.mapping.toml_cpython import loads

SPEED = """
[[map]]
subject = "Speed"
as = "vehicle.speed"
rename = { rate = "v", "$Priority" = "urgency" }
unit = { rate = ["mph", "km/h"] }
retype = { rate = ["float", "int"] }
drop = ["driver"]
add = { kind = "car" }
"""


def one(**keys: Any) -> Mapping:
    return Mapping.from_tables([{"subject": "e", **keys}])


def out(found: Mapping, params: dict[str, Any], **attrs: Any) -> Event:
    return found.outward(Event("e", params, attrs))


@spec("EMAP-1", "EMAP-6", "EMAP-7", "EMAP-10", "EMAP-14", "EMAP-15")
def test_the_example_of_the_page() -> None:
    found = loads(SPEED)
    here = Event("Speed", [("driver", "Ann"), ("rate", 57.2), ("wet", True)], {"Priority": 3, "Time": 5}, "car-7", 12)
    there = found.outward(here)
    wanted = [("v", 92), ("wet", True), ("urgency", 3), ("kind", "car")]
    assert there == Event("vehicle.speed", wanted, {"Time": 5}, "car-7", 12)
    again = found.inward(there)
    assert again.replace(params=()) == here.replace(params=())
    assert list(again.params) == ["rate", "wet"]
    assert again["rate"] == pytest.approx(57.2, abs=0.4)


@spec("EMAP-2", "EMAP-5")
def test_what_no_rule_speaks_of() -> None:
    other, own = Event("Other", {"rate": 1}), Event("FES_ControlEvent", {"Type": 1})
    found = loads(SPEED)
    assert found.outward(other) is found.inward(other) is other
    assert found.outward(own) is own
    strict = loads("automatic = false\n" + SPEED)
    for way in (strict.outward, strict.inward):
        assert way(own) is own
        with pytest.raises(Unmappable, match="no rule speaks of 'Other'"):
            way(other)
    assert strict.map_filter(Filter("rate > 3"), OUTWARD).filter.matches(Event("FES_x", {"rate": 4}))
    assert not strict.map_filter(Filter("rate > 3"), OUTWARD).filter.matches(Event("Other", {"rate": 4}))
    assert not Mapping()
    assert found
    assert Mapping(automatic=False)


@spec("EMAP-3")
def test_a_subject_with_another_meaning_does_not_pass_by_itself() -> None:
    found = loads(SPEED)
    with pytest.raises(Unmappable, match="'Speed' cannot pass"):
        found.inward(Event("Speed", {"rate": 5}))
    with pytest.raises(Unmappable, match=r"'vehicle.speed' cannot pass"):
        found.outward(Event("vehicle.speed", {"v": 5}))
    assert found.map_filter(Filter("subject = 'vehicle.speed'"), OUTWARD).text == "FALSE"


def test_two_subjects_change_places() -> None:
    found = Mapping.from_tables([{"subject": "a", "as": "b"}, {"subject": "b", "as": "a"}])
    assert found.outward(Event("a")).subject == found.inward(Event("a")).subject == "b"
    assert found.map_filter(Filter("subject = 'a'"), OUTWARD).text == "subject = 'b'"


@spec("EMAP-4", "EMAP-24")
@pytest.mark.parametrize("direction", [OUTWARD, INWARD])
def test_one_way(direction: str) -> None:
    found = Mapping.from_tables([{"subject": "a", "as": "b", "direction": direction}])
    other = INWARD if direction == OUTWARD else OUTWARD
    names = {OUTWARD: "a", INWARD: "b"}
    assert getattr(found, direction)(Event(names[direction])).subject == names[other]
    with pytest.raises(Unmappable, match=f"mapped {direction} only"):
        getattr(found, other)(Event(names[other]))
    mapped = found.map_filter(Filter(f"subject = '{names[direction]}'"), direction)
    assert mapped.text == "FALSE"
    assert mapped.refusal == f"'a' is mapped {direction} only"
    assert not found.map_filter(Filter(f"subject = '{names[other]}'"), other).refusal
    assert found.losses() == [f"'a' is mapped {direction} only"]


@spec("EMAP-4")
def test_many_become_one_only_one_way() -> None:
    rows = [{"subject": "a", "as": "x"}, {"subject": "b", "as": "x"}]
    with pytest.raises(LocalProtocolError, match="nobody could tell which it was"):
        Mapping.from_tables(rows)
    found = Mapping.from_tables([rows[0], {**rows[1], "direction": "outward"}])
    assert found.outward(Event("a")).subject == found.outward(Event("b")).subject == "x"
    assert found.inward(Event("x")).subject == "a"
    mapped = found.map_filter(Filter("subject = 'x'"), INWARD)
    assert [mapped.filter.matches(Event(name)) for name in ("a", "b", "x")] == [True, True, False]


@spec("EMAP-5")
@pytest.mark.parametrize("key", ["subject", "as"])
def test_the_federations_own_events_have_no_rules(key: str) -> None:
    with pytest.raises(LocalProtocolError, match=f"{key} is 'FES_ControlEvent'.* not mapped"):
        Mapping.from_tables([{"subject": "e", key: "FES_ControlEvent"}])


@spec("EMAP-8")
def test_an_event_whose_names_would_meet_is_refused() -> None:
    found = one(rename={"rate": "v"}, add={"kind": "car"})
    for params in ({"rate": 1, "v": 2}, {"v": 2}, {"kind": "bus"}):
        with pytest.raises(Unmappable, match="cannot pass"):
            out(found, params)
    with pytest.raises(Unmappable, match="'rate' of 'e' cannot pass"):
        found.inward(Event("e", {"rate": 1}))
    assert out(one(rename={"a": "b", "b": "a"}), {"a": 1, "b": 2}) == Event("e", [("b", 1), ("a", 2)])
    assert out(one(drop=["kind"], add={"kind": "car"}), {"kind": "bus"}) == Event("e", {"kind": "car"})
    strange = Event("e", {"$x": 1}, {"x": 2})
    assert one(rename={"$x": "y"}).outward(strange) == Event("e", [("$x", 1), ("y", 2)])


@spec("EMAP-7")
def test_a_parameter_becomes_an_attribute() -> None:
    found = one(rename={"urgency": "$Priority"})
    assert out(found, {"urgency": 3}) == Event("e", (), {"Priority": 3})
    assert found.inward(Event("e", (), {"Priority": 3})) == Event("e", {"urgency": 3})
    with pytest.raises(Unmappable, match="'Priority' is 'high'"):
        out(found, {"urgency": "high"})
    assert found.map_filter(Filter("subject = 'e' AND urgency > 2"), OUTWARD).text == "subject = 'e' AND $Priority > 2"


@spec("EMAP-9", "EMAP-10")
def test_numbers() -> None:
    assert out(one(unit={"x": ["degC", "degF"]}), {"x": 100}) == Event("e", {"x": 212.0})
    assert out(one(scale={"x": "1.1"}, offset={"x": "1/3"}), {"x": 10}) == Event("e", {"x": 34 / 3})
    assert out(one(scale={"x": 1000}, retype={"x": ["int", "int"]}), {"x": 2}) == Event("e", {"x": 2000})
    for how, wanted in (("nearest", [0, 2, 2, -2]), ("down", [0, 1, 2, -2]), ("up", [1, 2, 3, -1])):
        found = one(retype={"x": ["float", "int"]}, round={"x": how})
        assert [out(found, {"x": value})["x"] for value in (0.5, 1.5, 2.5, -1.5)] == wanted
    assert out(one(scale={"x": -1}), {"x": float("inf")}) == Event("e", {"x": float("-inf")})
    for params, why in (
        ({"x": 1e300}, "past 64 bits"),
        ({"x": float("nan")}, "is nan, which is no int"),
        ({"x": "fast"}, "'x' is 'fast', a str, want float"),
        ({"x": True}, "a bool, want float"),
        ({"x": Event("n")}, "want float"),
    ):
        with pytest.raises(Unmappable, match=why):
            out(one(retype={"x": ["float", "int"]}), params)
    with pytest.raises(Unmappable, match="past the largest float"):
        out(one(scale={"x": "1e300"}), {"x": 1e300})


@spec("EMAP-12")
@pytest.mark.parametrize(
    ("types", "here", "there"),
    [
        (["int", "str"], -57, "-57"),
        (["float", "str"], 57.2, "57.2"),
        (["bool", "int"], True, 1),
        (["bool", "str"], False, "false"),
        (["bytes", "str"], b"\xc3\xa9", "é"),
        (["str", "str"], "a", "a"),
    ],
)
def test_types(types: list[str], here: Any, there: Any) -> None:
    found, turned = one(retype={"x": types}), one(retype={"x": types[::-1]})
    assert out(found, {"x": here}) == turned.inward(Event("e", {"x": here})) == Event("e", {"x": there})
    assert found.inward(Event("e", {"x": there})) == out(turned, {"x": there}) == Event("e", {"x": here})


@spec("EMAP-12", "EMAP-6")
@pytest.mark.parametrize(
    ("types", "value"),
    [
        (["str", "int"], "5.0"),
        (["str", "int"], " 5"),
        (["str", "int"], "1_0"),
        (["str", "int"], "9223372036854775808"),
        (["str", "float"], "nan"),
        (["str", "float"], "1e999"),
        (["str", "float"], "--1"),
        (["str", "bool"], "True"),
        (["int", "bool"], 2),
        (["bytes", "str"], b"\xff"),
        (["float", "str"], float("inf")),
        (["float", "str"], (1 << 53) + 1),
        (["int", "int"], 5.0),
        (["str", "str"], 5),
    ],
)
def test_what_has_no_form_is_refused(types: list[str], value: Any) -> None:
    with pytest.raises(Unmappable, match="'x' is "):
        out(one(retype={"x": types}), {"x": value})


@spec("EMAP-14", "EMAP-15", "EMAP-23")
def test_dropped_and_added() -> None:
    found = one(drop=["secret", "$Session"], add={"kind": "car", "$Priority": 3}, add_inward={"origin": "obd"})
    there = out(found, {"secret": 1, "origin": "x", "rate": 2}, Session="s")
    assert there == Event("e", [("rate", 2), ("kind", "car")], {"Priority": 3})
    assert found.inward(there.replace(attrs={"Session": "s"})) == Event("e", [("rate", 2), ("origin", "obd")])
    for text, wanted in (
        ("secret = 1", "FALSE"),
        ("secret IS NULL AND rate > 1", "subject = 'e' AND rate > 1"),
        ("NOT secret = 1", "FALSE"),
        ("origin = 'obd'", "subject = 'e'"),
        ("origin LIKE 'x%'", "FALSE"),
        ("origin IS NOT NULL", "subject = 'e'"),
        ("origin > rate", "subject = 'e' AND rate < 'obd'"),
        ("kind IS NOT NULL", "FALSE"),
        ("$Session IS NULL", "subject = 'e'"),
    ):
        mapped = found.map_filter(Filter(f"subject = 'e' AND {text}"), OUTWARD)
        assert mapped.exact
        assert mapped.text == wanted, text
    refused = found.map_filter(Filter("subject = 'e' AND secret = 1"), OUTWARD)
    assert refused.refusal == "secret of 'e' does not pass"


@spec("EMAP-16")
def test_joined_and_cut_up() -> None:
    found = one(
        join={"place": {"of": ["lat", "lon"], "types": ["int", "float"]}},
        split={"name": {"of": ["first", "last"], "by": " "}},
    )
    here = Event("e", [("n", 1), ("name", "Ada Lovelace"), ("lat", 533438000), ("lon", -6.5)])
    there = found.outward(here)
    assert there == Event("e", [("n", 1), ("first", "Ada"), ("last", "Lovelace"), ("place", "533438000,-6.5")])
    assert sorted(found.inward(there).params.items()) == sorted(here.params.items())
    for params, why in (
        ({"lat": 1}, "has 'lat' and no 'lon'"),
        ({"lat": "x", "lon": 1.0}, "'lat' is 'x', a str, want int"),
        ({"name": "Ada"}, "want first last"),
        ({"name": 5}, "'name' is 5"),
        ({"name": "Ada K Lovelace"}, "want first last"),
    ):
        with pytest.raises(Unmappable, match=why):
            out(found, params)
    with pytest.raises(Unmappable, match="' ' in it"):
        found.inward(Event("e", {"first": "A B", "last": "C"}))
    with pytest.raises(Unmappable, match="'place' is '1;2', want lat,lon"):
        found.inward(Event("e", {"place": "1;2"}))


@spec("EMAP-17", "EMAP-18", "EMAP-8")
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"renam": {}}, "renam is not known here: want subject, as,"),
        ({"as": ""}, "as is '', want 1 to 255 bytes: no subject is lost"),
        ({"as": 5}, "as is 5, want a string"),
        ({"direction": "up"}, "direction is 'up', want both, outward, inward"),
        ({"rename": {"a": "c", "b": "c"}}, "rename gives 'c' there a second meaning"),
        ({"rename": {"a": "b"}, "unit": {"b": ["m", "km"]}}, "unit has 'b', the name there of 'a': write 'a'"),
        ({"rename": {"a": "b"}, "add": {"b": 1}}, "add gives 'b' there a second meaning"),
        ({"rename": {"a": "b"}, "add_inward": {"a": 1}}, "add_inward gives 'a' here a second meaning"),
        ({"rename": {"a": ""}}, "rename has '', want names"),
        ({"rename": {"a": "$"}}, r"rename has '\$', want names"),
        ({"rename": {"a": "b"}, "drop": ["a"]}, "drop has 'a', of which another key says"),
        ({"retype": {"a": "int"}}, "retype has a = 'int', want the type here and there"),
        ({"retype": {"a": ["int", "long"]}}, r"retype has a = \['int', 'long'\]"),
        ({"retype": {"a": ["bytes", "int"]}}, "no way between the two"),
        ({"retype": {"a": ["str", "int"]}, "scale": {"a": 2}}, "retype has a = .* want int and float"),
        ({"unit": {"a": ["km/h", "kg"]}}, "a speed is no mass"),
        ({"unit": {"a": ["km/h", "furlong"]}}, "unit has a = .*want of %, 1, 1/min"),
        ({"unit": {"a": "km/h"}}, "want the unit here and there"),
        ({"unit": {"a": ["m", "km"]}, "scale": {"a": 2}}, "scale has 'a', of which unit says it already"),
        ({"scale": {"a": 0}}, "scale has a = 0, want a number but 0"),
        ({"scale": {"a": "x/y"}}, "scale has a = 'x/y'"),
        ({"offset": {"a": "1/0"}}, "offset has a = '1/0'"),
        ({"offset": {"a": True}}, "offset has a = True"),
        ({"round": {"a": "down"}}, "round has 'a', of which neither"),
        ({"scale": {"a": 2}, "round": {"a": "off"}}, "round has a = 'off', want nearest, down, up"),
        ({"add": {"a": [1]}}, r"add has a = \[1\]: parameter 'a' is a list"),
        ({"add": {"$Priority": 99999}}, r"add has \$Priority = 99999: attribute 'Priority' is 99999, the limit"),
        ({"add": {"a": float("nan")}}, "add has a = nan"),
        ({"drop": [5]}, "drop has 5, want names"),
        ({"join": {"p": {"of": ["a"]}}}, "join 'p': of is .*want at least two names"),
        ({"join": {"p": {"of": ["a", "b"], "by": ""}}}, "join 'p': by is empty"),
        ({"join": {"p": {"of": ["a", "b"], "types": ["int"]}}}, "join 'p': types is"),
        ({"join": {"p": {"of": ["a", "b"]}}, "rename": {"a": "c"}}, "join gives 'a' here a second meaning"),
    ],
)
def test_a_rule_that_is_wrong_is_refused_with_its_place(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(LocalProtocolError, match=rf"^gw.toml: \[\[map\]\] 2.*{message}"):
        Mapping.from_tables([{"subject": "first"}, {"subject": "e", **keys}], "gw.toml")


@spec("EMAP-17", "EMAP-1")
def test_a_file_that_is_wrong() -> None:
    for text, message in (
        ("[[map]]\nsubject=", "gw.toml: not TOML"),
        ("[map]\nsubject='a'", r"gw.toml: write \[\[map\]\]"),
        ("automatic = 1", "automatic is 1, want true or false"),
        ("[[mapp]]", "mapp is not known"),
        ("[[map]]\nas='x'", r"gw.toml: \[\[map\]\] 1: subject is missing"),
        ("[[map]]\nsubject='a'\n[[map]]\nsubject='a'\nas='b'", r"\[\[map\]\] 2 'a': subject has a rule already"),
    ):
        with pytest.raises(LocalProtocolError, match=message):
            loads(text, "gw.toml")
    with pytest.raises(LocalProtocolError, match="1025 rules, the limit is 1024"):
        Mapping.from_tables([{"subject": f"s{n}"} for n in range(1025)])


@spec("EMAP-19", "EMAP-21")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("subject = 'Speed' AND rate > 30", "subject = 'vehicle.speed' AND v >= 49"),
        ("subject = 'Speed' AND rate >= 30 AND $Priority = 3", "subject = 'vehicle.speed' AND v >= 49 AND urgency = 3"),
        ("subject = 'Speed' AND rate = 'fast'", "FALSE"),
        ("subject = 'Speed' AND NOT rate > 30", "subject = 'vehicle.speed' AND v <= 48"),
        ("subject LIKE 'Sp%' AND rate IS NULL", None),
        ("subject = 'Other' AND rate > 30", "subject = 'Other' AND rate > 30"),
    ],
)
def test_filters_of_the_example(text: str, wanted: str | None) -> None:
    mapped = loads(SPEED).map_filter(Filter(text), OUTWARD)
    assert mapped.exact, mapped.reasons
    assert wanted is None or mapped.text == wanted
    assert str(Filter(mapped.text)) == mapped.text


@spec("EMAP-22")
def test_why_a_filter_is_wider() -> None:
    found = one(retype={"n": ["int", "str"]}, scale={"a": 2}, rename={"lat": "y"}, join={"p": {"of": ["u", "w"]}})
    for text, why in (
        ("n > 5", "n of 'e' is int and was str"),
        ("a > b", "a of 'e' is compared with b, and one of the two is converted"),
        ("within(53.0, -6.0, 500)", "lat of 'e' is another there"),
        ("u = 'x'", "u of 'e' is joined or cut up"),
    ):
        mapped = found.map_filter(Filter(f"subject = 'e' AND {text}"), OUTWARD)
        assert not mapped.exact
        assert why in mapped.reasons[0]
    assert one(scale={"a": 2}).map_filter(Filter("within(53.0, -6.0, 500)"), OUTWARD).text == (
        "within(530000000, -60000000, 500)"
    )


def test_a_rule_that_does_not_touch_what_is_asked_leaves_the_filter_alone() -> None:
    mapped = one(scale={"a": 2}).map_filter(Filter("rate > 30 OR subject = 'e'"), OUTWARD)
    assert mapped.text == "rate > 30 OR subject = 'e'"


@spec("EMAP-25")
def test_a_filter_that_would_be_too_long_is_widened() -> None:
    found = Mapping.from_tables([{"subject": f"s{n}", "as": f"t{n}", "scale": {"x": n + 2}} for n in range(200)])
    mapped = found.map_filter(Filter("x > 5"), OUTWARD)
    assert not mapped.exact
    assert mapped.filter.matches(Event("t7", {"x": 46}))
    few = Mapping.from_tables([{"subject": f"s{n}", "as": f"t{n}", "scale": {"x": n + 2}} for n in range(30)])
    condition = Filter(" OR ".join(f"x = {n}" for n in range(40)))
    mapped = few.map_filter(condition, OUTWARD)
    assert not mapped.exact
    assert mapped.filter.matches(Event("t7", {"x": 9}))
    assert not mapped.filter.matches(Event("s7", {"x": 1}))
    assert found.map_filter(Filter("subject = 's5' AND x > 5"), OUTWARD).text == "subject = 't5' AND x > 35.0"
