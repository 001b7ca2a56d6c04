"""vicinal scope: check, draw and explain, as people and scripts meet them."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from protocols.scope.test_model import publish
from protocols.scope.worlds import World

from vicinal.scope.manager import ScopeManager
from vicinal_tools.main import cli
from vicinal_tools.scopes.drawing import as_svg, as_text
from vicinal_tools.scopes.explaining import explain

FILE = str(Path(__file__).parent.parent.parent / "tools" / "examples" / "stock_exchange" / "exchange.toml")
QUOTE = '{"subject": "Quote", "params": {"share": "SAP", "price": 171.5}}'

TAGGED = '{"subject": "Accept", "attrs": {"Session": "C2"}}'


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["scope", *arguments])


def ask(producer: str, consumer: str, *more: str) -> Result:
    return call("explain", FILE, "--from", producer, "--to", consumer, *more)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    file = tmp_path / "bad.toml"
    file.write_text('[[scope]]\nname = "a"\nsupers = ["b"]\noutput = "x >"\n')
    return str(file)


def test_check(bad, tmp_path):
    good = call("check", FILE)
    assert (good.exit_code, good.output) == (0, "13 scopes and 10 components; dimensions: market\n")
    wrong = call("check", bad)
    assert wrong.exit_code == 1
    assert wrong.output.splitlines() == [
        f"{bad}: [scope 1 'a'] dimension is missing",
        f"{bad}: [scope 1 'a'] output is 'x >': want a name or a value, got the end (column 4)",
        f"{bad}: [scope 1 'a'] supers has 'b', which is no [[scope]]",
    ]
    noted = tmp_path / "noted.toml"
    noted.write_text('[[scope]]\nname = "a"\ndimension = "d"\n')
    assert call("check", str(noted)).output.splitlines()[1:] == ["note: scope 'a' has no members here"]


def test_check_for_programs(bad):
    good, wrong = call("check", FILE, "--json"), call("check", bad, "--json")
    assert (good.exit_code, wrong.exit_code) == (0, 1)
    assert json.loads(good.output) == {
        "ok": True, "problems": [], "notes": [], "counts": {"scopes": 13, "components": 10, "dimensions": ["market"]},
    }  # fmt: skip
    found = json.loads(wrong.output)
    assert (found["ok"], len(found["problems"]), found["counts"]) == (False, 3, None)


def test_a_file_that_is_not_there_or_in_order(bad):
    for arguments in (
        ["check", "no.toml"],
        ["draw", "no.toml"],
        ["draw", bad],
        ["explain", bad, "--from", "a", "--to", "b"],
    ):
        result = call(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert result.stderr.startswith("Error: ")
    assert "no.toml: No such file or directory" in call("draw", "no.toml").stderr


def test_draw_as_text():
    lines = call("draw", FILE).output.splitlines()
    assert lines[0] == "market   (advanced)"
    assert lines[1] == "└─ (World)"
    assert "   ├─ (M2)  out: subject = 'Quote', in: nothing, mapped" in lines
    assert sum("(TF1)" in line for line in lines) == 4
    assert sum("[engine1]" in line for line in lines) == 1


def test_draw_as_svg(tmp_path):
    out = tmp_path / "x.svg"
    assert call("draw", FILE, "--svg", str(out)).output == f"wrote {out}\n"
    assert call("draw", FILE, "--svg", "-").output == out.read_text(encoding="utf-8")
    root = ElementTree.fromstring(out.read_text(encoding="utf-8"))
    name = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{name}rect")) == 23
    assert len(root.findall(f"{name}line")) == 28
    boxes = [tuple(float(box.get(key)) for key in ("x", "y", "width", "height")) for box in root.findall(f"{name}rect")]
    for i, (x, y, w, h) in enumerate(boxes):
        assert 0 <= x <= float(root.get("width")) - w
        assert 0 <= y <= float(root.get("height")) - h
        assert not any(abs(x - a) < w and abs(y - b) < h for a, b, _, _ in boxes[i + 1 :]), "two boxes overlap"


@pytest.mark.parametrize("seed", range(40))
def test_any_graph_can_be_drawn(seed):
    graph = World(seed).graph
    ElementTree.fromstring(as_svg(graph))
    text = as_text(graph)
    assert all(f"({name})" in text for name in graph.scopes)
    assert all(f"[{name}]" in text for name in graph.components)


def test_names_are_not_markup(tmp_path):
    file = tmp_path / "odd.toml"
    file.write_text(
        '[[scope]]\nname = "<b>&"\ndimension = "<svg>"\n[[component]]\nname = "\\"c\'"\nscopes = ["<b>&"]\n'
    )
    found = ElementTree.fromstring(call("draw", str(file), "--svg", "-").output)
    assert "<b>&" in {one.text for one in found.iter()}


def test_explain_yes():
    result = ask("engine1", "pc1", "--event", QUOTE)
    assert result.exit_code == 0
    assert result.output.splitlines()[:6] == [
        "yes: pc1 hears it, 900000 ms later",
        "",
        "market: visible",
        "  engine1 → TF1 → Professional1 → Private1 → C1 → pc1",
        "    TF1 → Professional1: passes the output subject = 'Quote'",
        "    Professional1 holds it: publishes 900000 ms later",
    ]


def test_explain_what_a_mapping_made_of_it():
    result = ask("engine2", "ticker", "--event", QUOTE, "--json")
    found = json.loads(result.output)
    assert (found["visible"], found["after_ms"], found["event"]["params"]["currency"]) == (True, 900000, "EUR")
    (dimension,) = found["dimensions"]
    assert any("M2 → World: passes the output" in step and '"currency": "EUR"' in step for step in dimension["steps"])


@pytest.mark.parametrize(
    ("producer", "consumer", "event", "said"),
    [
        ("engine1", "pc4", QUOTE, "World → M2: stopped, it has no input interface"),
        ("engine1", "pc1", QUOTE.replace("SAP", "IBM"), "C1 → pc1: stopped, it subscribes to subject = 'Accept'"),
        ("engine1", "ticker", '{"subject": "OrderBook"}', "TF1 → Professional1: stopped, it does not meet the output"),
        ("database1", "pc1", TAGGED, "TF1 → C1: stopped, it belongs to session 'C2'"),
        ("engine1", "pc1", '{"subject": "Order"}', "no: engine1 publishes subject IN ('Quote', 'OrderBook'), and"),
        ("ticker", "pc1", QUOTE, "no: ticker publishes nothing, and this is not of it"),
    ],
)  # fmt: skip
def test_explain_no(producer, consumer, event, said):
    result = ask(producer, consumer, "--event", event)
    assert result.exit_code == 1
    assert result.output.startswith("no: ")
    assert said in result.output


def test_explain_the_ways_there_are():
    result = ask("engine2", "ticker")
    assert result.exit_code == 0
    assert "  TF2 → Professional2 → Private2 → M2 → World\n" in result.output
    assert "    an event that meets subject = 'Quote'\n" in result.output
    assert "Professional2: publishes 900000 ms later what meets subject = 'Quote'" in result.output
    nothing = ask("pc1", "pc4")
    assert (nothing.exit_code, nothing.output.splitlines()[0]) == (1, "no: pc4 hears nothing of pc1")


def test_explain_who_was_chosen_and_refused(tmp_path):
    file = tmp_path / "jobs.toml"
    rows = '[[scope]]\nname = "jobs"\ndimension = "d"\ndelivery = "one-of-n"\nmembership = { join = "role = \'w\'" }\n'
    for name, role in (("boss", "w"), ("w1", "w"), ("w2", "w"), ("x", "y")):
        rows += f'[[component]]\nname = "{name}"\nscopes = ["jobs"]\npublishes = "TRUE"\nsubscribes = "TRUE"\n'
        rows += f'identity = {{ role = "{role}" }}\n'
    file.write_text(rows)

    def said(producer, consumer):
        return call("explain", str(file), "--from", producer, "--to", consumer, "--event", '{"subject": "job"}').output

    assert said("boss", "w1").startswith("yes: w1 hears it")
    assert "jobs → w2: not chosen, one-of-n chose 'w1'" in said("boss", "w2")
    assert "jobs → x: stopped, 'x' may not subscribe in 'jobs': its rule for join is role = 'w'" in said("boss", "x")
    assert "x → jobs: refused, 'x' may not publish in 'jobs'" in said("x", "w1")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["engine", "pc1"], "--from 'engine' is no [[component]]"),
        (["engine1", "pc9"], "is 'pc4' meant?"),
        (["pc1", "pc1"], "nobody hears itself"),
        (["engine1", "pc1", "--event", "{"], "--event: not JSON"),
    ],
)
def test_explain_bad_input(arguments, said):
    result = ask(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr or ("meant" in said and "meant?" in result.stderr)


@pytest.mark.parametrize("seed", range(100))
def test_explain_says_what_happens(seed):
    """In worlds by chance: of an event whether it is delivered, and of no event never that nothing could be."""
    world = World(1000 + seed, plain=seed % 3 == 0)
    for seq in range(6):
        _, event = world.event(seq)
        producer = world.random.choice(world.names)
        found = {who: when for when, who, _, _ in publish(ScopeManager(world.graph), producer, event, 0)}
        for consumer in world.names:
            if consumer == producer:
                continue
            told = explain(world.graph, producer, consumer, event)
            assert told.visible == (consumer in found), (seed, producer, consumer, event)
            assert told.lines()
            json.dumps(told.as_json())
            if told.visible:
                assert told.after == found[consumer]
                assert explain(world.graph, producer, consumer, None).visible
