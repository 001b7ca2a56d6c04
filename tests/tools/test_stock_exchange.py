"""The stock exchange of seed 004 (Figures 1, 3 and 7, Table 1), as the example that people run."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from vicinal.event import Event
from vicinal.scope.component import Component
from vicinal.scope.file_cpython import notes, read
from vicinal.scope.graph import ScopeGraph
from vicinal.scope.manager import ScopeManager

FOLDER = Path(__file__).parent.parent.parent / "tools" / "examples" / "stock_exchange"
spec = pytest.mark.spec


@pytest.fixture(scope="module")
def example():
    found = importlib.util.spec_from_file_location("stock_exchange", FOLDER / "exchange.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def exchange(example):
    return example.Exchange()


@pytest.fixture
def after(example, exchange):
    """After the whole day: [(minutes since nine, who, subject, event)]."""
    example.day(exchange)
    return [(one.time // example.MINUTE - 540, one.who, one.event.subject, one.event) for one in exchange.heard]


def test_it_runs():
    done = subprocess.run(
        [sys.executable, str(FOLDER / "exchange.py")], capture_output=True, text=True, timeout=60, check=True
    )
    assert "09:16  pc1       Quote     share SAP, price 171.5, volume 100   in session C1" in done.stdout
    assert done.stderr == ""


def test_nothing_in_its_file_looks_like_a_mistake():
    file = FOLDER / "exchange.toml"
    graph, problems = read(file, file.read_bytes())
    assert problems == []
    assert notes(graph) == []


@spec("SCOPE-20")
def test_quotes_reach_professionals_at_once_and_private_customers_later(after):
    heard = [(when, who) for when, who, subject, event in after if subject == "Quote" and event["price"] == 171.5]
    assert heard == [(1, "database1"), (1, "pc3"), (16, "pc1"), (16, "ticker")]


def test_quotes_of_one_market_are_not_heard_in_the_other(after):
    """Figure 3: pc3 is in both, pc4 in the second only."""
    heard = {who for _, who, subject, event in after if subject == "Quote" and event["price"] in (171.5, 169.0)}
    assert heard == {"database1", "pc1", "pc3", "ticker", "watcher2"}
    assert {who for _, who, subject, event in after if subject == "Quote" and event["price"] == 185.0} == {
        "database2", "pc3", "pc4",
    }  # fmt: skip


def test_summaries_never_leave_the_floor(after):
    assert {who for _, who, subject, _ in after if subject == "OrderBook"} == {"database1", "database2"}


@spec("SCOPE-27")
def test_orders_and_acceptances_stay_in_the_customers_session(after):
    """Figure 7."""
    accepted = [
        (who, event["order"], event.attrs["Session"]) for _, who, subject, event in after if subject == "Accept"
    ]
    assert accepted[:4] == [
        ("pc1", "pc1/1", "C1"), ("pc3", "pc3/1", "C3"), ("pc4", "pc4/1", "C4"), ("pc3", "pc3/2", "C3"),
    ]  # fmt: skip
    assert all(order.split("/")[0] in (who, "watcher") for who, order, _ in accepted)
    assert {who for _, who, subject, _ in after if subject == "Order"} == {
        "engine1", "database1", "engine2", "database2",
    }  # fmt: skip
    assert ("pc2", "watcher", "C2") in accepted  # an agent reacts in its own customer's session


@spec("SCOPE-10")
def test_prices_cross_a_market_boundary_in_another_currency(after):
    quotes = [event for _, who, subject, event in after if who == "ticker" and event["price"] not in (171.5, 169.0)]
    (quote,) = quotes
    assert (quote["price"], quote["currency"]) == (185.0 / 1.0832, "EUR")


@spec("SCOPE-31", "SCOPE-32")
def test_the_floor_takes_no_strangers(example, exchange):
    graph = exchange.scopes.graph
    loud = Component(
        "crasher", ["TF1"], graph.components["engine1"].publishes, graph.components["database1"].subscribes
    )
    exchange.scopes = ScopeManager(ScopeGraph(graph.scopes.values(), [*graph.components.values(), loud]))
    exchange.say("pc1", example.order("pc1/1", "M1", "sell", "SAP", 171.5))
    assert "crasher" not in {one.who for one in exchange.heard}
    assert exchange.scopes.publish("crasher", Event("Quote", {"share": "SAP", "price": 0.01}), exchange.now) == []


def test_everything_is_accounted_for(exchange, example):
    example.day(exchange)
    counts = exchange.scopes.counts
    assert counts["published"] == counts["moved"]
    assert counts["held"] == counts["released"] == 4
    assert counts["delivered"] == len(exchange.heard)
