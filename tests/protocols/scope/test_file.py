"""The file of a deployment: what it says, and everything that is wrong in it."""

from pathlib import Path

import pytest
from protocols.scope.helpers import hearers

from vicinal.scope.file_cpython import notes, read
from vicinal.scope.manager import ScopeManager

spec = pytest.mark.spec
FILE = Path("d.toml")

GOOD = """
[[scope]]
name = "top"
dimension = "d"
[[scope]]
name = "low"
dimension = "d"
supers = ["top"]
output = "x > 1"
input = "x > 2"
delivery = "by-key"
key = "car"
traverse = "top-down"
session = true
publishing = [
    { of = "x > 3", delay = 1000, most = 5 },
    { rate = 5, per = 2000, burst = 2 },
    { until = "x = 0", closed_by = "x = 1" },
]
membership = { join = "role = 'm'", publish = "TRUE", subscribe = "TRUE" }
[[scope]]
name = "net"
dimension = "e"
[[edge]]
scope = "low"
super = "top"
output = "x > 9"
automatic = false
[[edge.map]]
subject = "a"
as = "b"
[[component]]
name = "p"
scopes = ["low", "net"]
publishes = "TRUE"
subscribes = "x = 7"
rest = false
identity = { role = "m", grade = 3 }
[[component]]
name = "q"
"""


def problems(text: str) -> list[str]:
    graph, found = read(FILE, text.encode())
    assert (graph is None) == bool(found)
    return found


def test_everything():
    graph, found = read(FILE, GOOD.encode())
    assert found == []
    low, p = graph.scopes["low"], graph.components["p"]
    assert (low.supers, str(low.output), str(low.input)) == (("top",), "x > 1", "x > 2")
    assert (low.delivery.kind, low.delivery.key, low.traverse, low.session) == ("by-key", "car", "top-down", True)
    assert [(one.delay, one.rate, one.per, one.burst, one.most) for one in low.publishing] == [
        (1000, 0, 1000, 0, 5), (0, 5, 2000, 2, 65536), (0, 0, 1000, 0, 65536),
    ]  # fmt: skip
    assert [str(one) for one in low.publishing] == ["1000 ms later", "at most 5 in 2000 ms", "not until x = 0"]
    assert str(low.membership.join) == "role = 'm'"
    edge = graph.edge("low", "top")
    assert (str(edge.output), str(edge.input), edge.mapping.automatic) == ("x > 9", "x > 2", False)
    assert (p.scopes, str(p.subscribes), p.rest, p.identity.event.params["grade"]) == (
        ("low", "net"),
        "x = 7",
        False,
        3,
    )
    assert graph.advanced == "d"
    assert graph.components["q"].publishes is None


@spec("SCOPE-38", "SCOPE-39")
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "top"', 'nmae = "top"', "[scope 1] name is missing: there is 'nmae', is it meant?"),
        ('dimension = "e"', "", "[scope 3 'net'] dimension is missing"),
        ('name = "net"', 'name = "low"', "[scope 3 'low'] name is 'low', which [scope 2 'low'] has already"),
        ('name = "q"', 'name = "net"', "[component 2 'net'] name is 'net', which [scope 3 'net'] has already"),
        ('supers = ["top"]', 'supers = ["tpo"]', "supers has 'tpo', which is no [[scope]]: is 'top' meant?"),
        ('supers = ["top"]', 'supers = ["p"]', "[scope 2 'low'] supers has 'p', a component: those have no members"),
        ('supers = ["top"]', 'supers = ["net"]', "supers has 'net', which is of dimension 'e', not 'd'"),
        ('supers = ["top"]', "supers = 7", "[scope 2 'low'] supers is 7, want an array"),
        ('output = "x > 1"', 'output = "x >"', "[scope 2 'low'] output is 'x >': want a name or a value, got the end"),
        ('delivery = "by-key"', 'delivery = "some"', "[scope 2 'low'] delivery is 'some', want one of all, one-of-n"),
        ('key = "car"', "", "[scope 2 'low'] key is '': delivery 'by-key' has key ''"),
        ('traverse = "top-down"', 'traverse = "up"', "[scope 2 'low'] traverse is 'up', want one of broadcast"),
        ("session = true", "session = 1", "[scope 2 'low'] session is 1, want true or false"),
        ("delay = 1000", "delay = 0", "[scope 2 'low'.publishing] delay is 0, want at least 1"),
        ("delay = 1000", "dealy = 1000", "[scope 2 'low'.publishing] dealy is not known here: is 'delay' meant?"),
        ("burst = 2", "delay = 2", "[scope 2 'low'.publishing] a publishing policy has one of delay, rate and until"),
        ("publish = ", "pblish = ", "[scope 2 'low'.membership] pblish is not known here: is 'publish' meant?"),
        ("\"role = 'm'\"", '"role ="', "[scope 2 'low'.membership] join is 'role =': "),
        ('membership = {', 'membership = 7 # {', "[scope 2 'low'] membership is 7, want a table"),
        ('scope = "low"', 'scope = "lwo"', "[edge 1] scope is 'lwo', which is no [[scope]]: is 'low' meant?"),
        ('super = "top"', 'super = "net"', "[edge 1] super is 'net': 'low' is not in it: it is in top"),
        ('super = "top"', 'super = "top"\nplugin = "x"', "[edge 1] plugin is 'x': 'x' is no plug-in"),
        ('as = "b"', 'as = "b"\nunits = 1', "[edge 1]: [[map]] 1 'a': units is not known here"),
        ('scopes = ["low", "net"]', 'scopes = ["lo"]', "[component 1 'p'] scopes has 'lo', which is no [[scope]]"),
        ("grade = 3", "grade = [3]", "[component 1 'p'] identity is {'role': 'm', 'grade': [3]}: "),
        ("rest = false", "rest = 0", "[component 1 'p'] rest is 0, want true or false"),
        ("[[component]]", "[[compnent]]", "[compnent] is not known: is [[component]] meant?"),
        ("[[edge]]", "[edge]", "write [[edge]], not [edge]: there may be several"),
        ('dimension = "e"', 'dimension = "e"\nsession = true', "and so has 'low' of 'd': mappings, policies"),
        ("[[scope]]", "[[scope", "not TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(old, new, said):
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    if new == "[edge]":
        text = text.replace("[[edge.map]]", "[edge.x]")
    found = problems(text)
    assert any(said in one for one in found), found
    assert all(one.startswith("d.toml: ") for one in found)


@spec("SCOPE-38")
def test_all_of_it_and_not_the_first():
    text = GOOD
    for old, new in [
        ("x > 1", "x >"), ("x > 2", "x <"), ("top-down", "down"), ("x > 3", "("), ('as = "b"', "as = 1"),
        ("rest = false", "rset = false\nrets = true"), ('subscribes = "x = 7"', "subscribes = 7"),
        ("session = true", "sesion = true"),
    ]:  # fmt: skip
        text = text.replace(old, new, 1)
    found = problems(text)
    places = ["output", "input", "traverse", "of", "as", "rset", "rets", "subscribes", "sesion"]
    assert len(found) == len(places)
    for place in places:
        assert any(f"] {place} " in one or f": {place} " in one for one in found), place


@spec("SCOPE-38")
def test_one_mistake_is_not_said_twice():
    assert len(problems(GOOD.replace("delay = 1000", "delay = 0"))) == 1
    assert len(problems(GOOD.replace('name = "low"', "name = 7"))) == 3  # and who speaks of it: an edge, a component


@spec("SCOPE-1", "SCOPE-38")
def test_every_circle_once_with_its_way():
    rows = {"a": ["b"], "b": ["c"], "c": ["a"], "x": ["x"], "fine": ["a"]}
    text = "".join(f'[[scope]]\nname = "{name}"\ndimension = "d"\nsupers = {supers}\n' for name, supers in rows.items())
    assert problems(text) == [
        "d.toml: [scope 1 'a'] supers: 'a' in 'b' in 'c' in 'a': no scope is in itself",
        "d.toml: [scope 4 'x'] supers: 'x' in 'x': no scope is in itself",
    ]


def test_what_may_be_a_mistake():
    text = """
    [[scope]]
    name = "top"
    dimension = "d"
    publishing = [{ delay = 5 }]
    [[scope]]
    name = "low"
    dimension = "d"
    supers = ["top"]
    membership = {}
    """
    graph, found = read(FILE, text.encode())
    assert found == []
    assert notes(graph) == [
        "scope 'low' has no interface: nothing gets out of it or into it",
        "scope 'low' has a membership rule without join: nobody may belong to it",
        "scope 'low' has no members here",
        "scope 'top' has publishing policies and no superscope to publish into",
    ]


@spec("SCOPE-32")
def test_an_empty_rule_allows_nobody():
    text = '[[scope]]\nname = "s"\ndimension = "d"\nmembership = {}\n'
    for name in "pq":
        text += f'[[component]]\nname = "{name}"\nscopes = ["s"]\npublishes = "TRUE"\nsubscribes = "TRUE"\n'
    graph, _ = read(FILE, text.encode())
    assert hearers(ScopeManager(graph), "p", "x") == []
    open_graph, _ = read(FILE, text.replace("membership = {}", "").encode())
    assert hearers(ScopeManager(open_graph), "p", "x") == ["q"]


def test_arbitrary_bytes():
    for data in (b"", b"\xff", b"[[scope]]", b"scope = 1", b"scope = [1]", b"[[scope]]\nname=''"):
        graph, found = read(FILE, data)
        assert (graph is None) == bool(found)
