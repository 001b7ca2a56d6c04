"""A day at the stock exchange of seed 004, with a clock that is stepped: python exchange.py

The components below publish what happens to them and react to what they hear; who hears what, when, in which currency
and in whose session, is said in exchange.toml alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from vicinal.event import Event
from vicinal.scope.file_cpython import read
from vicinal.scope.journey import Delivered
from vicinal.scope.manager import ScopeManager
from vicinal.scope.session_cpython import in_context, reacting_to

FILE = Path(__file__).parent / "exchange.toml"
MINUTE = 60_000
Say = Callable[[Event], None]


class Heard(NamedTuple):
    time: int
    who: str
    event: Event


class Engine:
    """Matches orders: a trade is at the price of the order that was there first."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.book: list[Event] = []

    def hear(self, order: Event) -> None:
        other = next((one for one in self.book if _meet(one, order)), None)
        if other is None:
            self.book.append(order)
        else:
            self.book.remove(other)
            self.say(Event("Quote", {"share": order["share"], "price": other["price"], "volume": order["volume"]}))
        self.say(Event("OrderBook", {"orders": len(self.book)}))


def _meet(one: Event, other: Event) -> bool:
    if one["share"] != other["share"] or one["side"] == other["side"]:
        return False
    buy, sell = (one, other) if one["side"] == "buy" else (other, one)
    return float(str(buy["price"])) >= float(str(sell["price"]))


class Database:
    """Logs what happens on the floor, and accepts orders."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.log: list[Event] = []

    def hear(self, event: Event) -> None:
        self.log.append(event)
        if event.subject == "Order":
            self.say(Event("Accept", {"order": event["order"]}))


class Watcher:
    """Tells its customer that a share is cheap, and buys it."""

    def __init__(self, say: Say) -> None:
        self.say = say

    def hear(self, quote: Event) -> None:
        self.say(Event("Limit", {"share": quote["share"], "price": quote["price"]}))
        self.say(order("watcher", "M1", "buy", str(quote["share"]), float(str(quote["price"]))))


def order(number: str, market: str, side: str, share: str, price: float, volume: int = 100) -> Event:
    values = {"order": number, "market": market, "side": side, "share": share, "price": price, "volume": volume}
    return Event("Order", values)


class Exchange:
    """All components in one process, and the scopes between them."""

    def __init__(self, file: Path = FILE) -> None:
        graph, problems = read(file, file.read_bytes())
        if graph is None:
            raise SystemExit("\n".join(problems))
        self.scopes = ScopeManager(graph)
        self.now = 9 * 60 * MINUTE
        self.heard: list[Heard] = []
        self._seqs = dict.fromkeys(graph.components, 0)
        self.parts: dict[str, Engine | Database | Watcher] = {}
        for market in "12":
            self.parts[f"engine{market}"] = Engine(self._sayer(f"engine{market}"))
            self.parts[f"database{market}"] = Database(self._sayer(f"database{market}"))
        self.parts["watcher2"] = Watcher(self._sayer("watcher2"))

    def say(self, who: str, event: Event) -> None:
        """What a component publishes; while it reacts to something, in that session."""
        self._seqs[who] += 1
        self._deliver(self.scopes.publish(who, in_context(event.stamp(who, self._seqs[who])), self.now))

    def wait(self, minutes: int) -> None:
        until = self.now + minutes * MINUTE
        while (due := self.scopes.next_timeout(self.now)) is not None and due <= until:
            self.now = max(due, self.now)
            self._deliver(self.scopes.handle_timeout(self.now))
        self.now = until

    def _sayer(self, who: str) -> Say:
        return lambda event: self.say(who, event)

    def _deliver(self, deliveries: list[Delivered]) -> None:
        for one in deliveries:
            self.heard.append(Heard(self.now, one.component, one.event))
            part = self.parts.get(one.component)
            if part is not None:
                with reacting_to(one.event):
                    part.hear(one.event)


def day(exchange: Exchange) -> None:
    exchange.say("pc1", order("pc1/1", "M1", "sell", "SAP", 171.5))
    exchange.wait(1)
    exchange.say("pc3", order("pc3/1", "M1", "buy", "SAP", 172.0))
    exchange.wait(5)
    exchange.say("pc4", order("pc4/1", "M2", "sell", "SAP", 185.0))
    exchange.say("pc3", order("pc3/2", "M2", "buy", "SAP", 185.0))
    exchange.wait(20)
    # Cheap enough for the watcher of C2, which buys what pc1 has left.
    exchange.say("pc1", order("pc1/2", "M1", "sell", "SAP", 169.0))
    exchange.say("pc1", order("pc1/3", "M1", "sell", "SAP", 169.0))
    exchange.say("pc3", order("pc3/3", "M1", "buy", "SAP", 169.0))
    exchange.wait(30)


def main() -> None:
    exchange = Exchange()
    day(exchange)
    for time, who, event in exchange.heard:
        minutes = time // MINUTE
        values = ", ".join(" ".join((name, str(value))) for name, value in event.params.items())
        session = f"   in session {event.attrs['Session']}" if "Session" in event.attrs else ""
        print(f"{minutes // 60:02}:{minutes % 60:02}  {who:10}{event.subject:10}{values}{session}")


if __name__ == "__main__":
    main()
