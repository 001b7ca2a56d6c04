"""The stock exchange of seed 004 on three real brokers: clients that know nothing of scopes, put into them by the
deployment alone; delays, sessions and currencies across brokers, and what is held back outliving a kill -9."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import Brokers, Process, free_port, until
from cloud.broker.issuing import IDENTITY, Issuing

from vicinal.event import Event
from vicinal.scope.file_cpython import read
from vicinal_cloud.broker.client import Client, connect

EXAMPLE = Path(__file__).parents[3] / "tools" / "examples" / "stock_exchange" / "exchange.toml"
NAMES = ("b1", "b2", "b3")
spec = pytest.mark.spec


class Exchange:
    def __init__(self, folder: Path, delay: str) -> None:
        self.issuing = Issuing(folder)
        text = EXAMPLE.read_text()
        assert "delay = 900_000" in text
        self.issuing.deploy(text.replace("delay = 900_000", f"delay = {delay}"))
        graph, problems = read(EXAMPLE, EXAMPLE.read_bytes())
        assert graph is not None, problems
        self.graph = graph
        self.brokers = Brokers(folder)
        self.ports = {name: free_port() for name in NAMES}
        self.running: dict[str, Process] = {}
        self.clients: dict[str, Client] = {}
        self.adverts: dict[str, Any] = {}
        self.got: dict[str, list[Event]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, name: str) -> None:
        """A chain; each broker is in every scope."""
        at = NAMES.index(name)
        around = [other for other in (NAMES[at - 1] if at else "", *NAMES[at + 1 : at + 2]) if other]
        neighbours = {other: f"tcp://127.0.0.1:{self.ports[other]}" if other > name else None for other in around}
        self.running[name] = self.brokers.start(
            name,
            neighbours,
            f"tcp://127.0.0.1:{self.ports[name]}",
            tuple(self.graph.scopes),
            "deployment.toml",
            IDENTITY,
            log=True,
        )

    async def enter(self, name: str, broker: str) -> None:
        """With what the deployment declares of it, and no word of a scope."""
        component = self.graph.components[name]
        role = "floor" if name.startswith(("engine", "database")) else "customer"
        client = await connect(self.running[broker].address, name, token=self.issuing.token(name, role))
        self.clients[name] = client
        self.got[name] = []
        if component.publishes is not None:
            self.adverts[name] = await client.advertise(str(component.publishes))
        if component.subscribes is not None:
            subscription = await client.subscribe(str(component.subscribes))
            self._tasks.append(asyncio.get_running_loop().create_task(self._take(name, subscription)))

    async def _take(self, name: str, subscription: Any) -> None:
        async for delivery in subscription:
            self.got[name].append(delivery.event)
            await self.react(name, delivery.event)

    async def react(self, name: str, event: Event) -> None:
        """The database accepts what is ordered: it knows of no customer's session."""
        if name.startswith("database") and event.subject == "Order":
            await asyncio.sleep(0.01)  # the context follows over await points
            await self.say(name, "Accept", order=event["number"])

    async def say(self, name: str, subject: str, **params: Any) -> None:
        await self.clients[name].publish(Event(subject, params), self.adverts[name])

    def heard(self, name: str, subject: str) -> list[Any]:
        return [event for event in self.got[name] if event.subject == subject]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for client in self.clients.values():
            await client.close()
        self.brokers.stop()


PLACES = {
    "engine1": "b1",
    "database1": "b3",
    "engine2": "b2",
    "pc1": "b3",
    "pc2": "b1",
    "pc3": "b2",
    "pc4": "b1",
    "ticker": "b2",
}


async def settled(exchange: Exchange) -> None:
    """Every broker knows of the others, and nothing more is told."""

    def known() -> list[Any]:
        found = [process.status()["overlay"] for process in exchange.running.values()]
        return [(one["brokers"], one["interest"], one["waiting"]) for one in found]

    before: list[Any] = []
    while before != (now := known()) or any(len(one[0]) < 3 or one[2] for one in now):
        before = now
        await asyncio.sleep(0.5)


@spec("SCOPE-28", "SCOPE-40", "SCOPE-42")
def test_the_exchange_on_three_brokers(tmp_path: Path) -> None:
    async def work() -> None:
        exchange = Exchange(tmp_path, "3_000")
        try:
            for name in NAMES:
                exchange.start(name)
            await settled(exchange)
            for name, broker in PLACES.items():
                await exchange.enter(name, broker)
            await settled(exchange)
            await exchange.say("engine1", "OrderBook", share="SAP", orders=12)
            await exchange.say("engine1", "Quote", share="SAP", price=171.5)
            await exchange.say("engine2", "Quote", share="IBM", price=108.32)
            # Professionals at once; C3 is professional in M1. Then private customers, and the world, in euro.
            await until(lambda: exchange.heard("pc3", "Quote"), "C3 hears SAP")
            assert not exchange.heard("pc1", "Quote")
            await until(lambda: exchange.heard("pc1", "Quote"), "C1 hears SAP later")
            await until(lambda: len(exchange.heard("ticker", "Quote")) == 2, "the world hears both")
            prices = {event["share"]: round(event["price"], 2) for event in exchange.heard("ticker", "Quote")}
            assert prices == {"SAP": 171.5, "IBM": 100.0}
            held = exchange.heard("pc1", "Quote")[0]
            assert (held.attrs["OriginProducer"], held["price"]) == ("engine1", 171.5)
            # The order book stays on the floor; orders and acceptances stay in the customer's session.
            await until(lambda: exchange.heard("database1", "OrderBook"), "the floor hears of its book")
            await exchange.say("pc1", "Order", market="M1", number=1)
            await exchange.say("pc3", "Order", market="M1", number=3)
            await until(lambda: exchange.heard("pc1", "Accept") and exchange.heard("pc3", "Accept"), "both accepted")
            assert [event["order"] for event in exchange.heard("pc1", "Accept")] == [1]
            assert [event["order"] for event in exchange.heard("pc3", "Accept")] == [3]
            for name in ("pc2", "pc4", "ticker"):
                assert not exchange.heard(name, "Accept") + exchange.heard(name, "Order")
            assert not any(exchange.heard(name, "OrderBook") for name in PLACES if not name.startswith("database"))
            assert not exchange.heard("pc4", "Quote")
        finally:
            await exchange.stop()

    asyncio.run(work())


@spec("SCOPE-42", "SCOPE-43")
def test_what_is_held_back_outlives_a_kill(tmp_path: Path) -> None:
    """b1 holds the quotes: the first of the brokers that are in the scope. It is killed while it does."""

    async def work() -> None:
        exchange = Exchange(tmp_path, "4_000")
        try:
            for name in NAMES:
                exchange.start(name)
            await settled(exchange)
            for name, broker in {"engine1": "b2", "pc1": "b3"}.items():
                await exchange.enter(name, broker)
            await settled(exchange)
            for price in range(5):
                await exchange.say("engine1", "Quote", share="SAP", price=price)

            def waiting(name: str) -> int:
                held = exchange.running[name].status()["held"]["waiting"]
                return int(held.get("Professional1", 0))

            await until(lambda: waiting("b1") == 5, "b1 holds all five")
            exchange.running["b1"].kill()
            await asyncio.sleep(0.2)
            assert not exchange.heard("pc1", "Quote")
            exchange.start("b1")
            await until(lambda: len(exchange.heard("pc1", "Quote")) == 5, "all five come")
            assert [event["price"] for event in exchange.heard("pc1", "Quote")] == [0, 1, 2, 3, 4]
            # And once more: what was let go is not let go again.
            exchange.running["b1"].kill()
            exchange.start("b1")
            await exchange.say("engine1", "Quote", share="SAP", price=5)
            await until(lambda: len(exchange.heard("pc1", "Quote")) >= 6, "the sixth comes")
            assert [event["price"] for event in exchange.heard("pc1", "Quote")] == [0, 1, 2, 3, 4, 5]
        finally:
            await exchange.stop()

    asyncio.run(work())
