"""Ways out beside the gateway: events that go out on a CAN bus or into the air (spec/agent.md).

    [[publish]]
    subject = "Speed"
    on = "can"                    the first [[can]]; "can 2" the second; "ble" the radio
    etag = 300                    on a bus: a COSMIC channel, with class, deadline_us, validity_us as of [[can.event]];
                                  without one a frame of the bus's mapping, for `validity_us`
    radius_m = 200                in the air: for who is so near to [position]
    names = ["kind"]              the parameters, where all who take part know them: then events are short
    beacon_ms = 1000              how often it is announced
    validity_ms = 2000            for how long an event is said
    keep = true                   and the last again and again, for who comes later
    filter = "rate > 5"           and all other keys of a [[rule]]: what of it is worth saying there

It is loaded where there is one. An event never goes out where it was heard, and one that comes back to us, or that we
had just now, goes nowhere. What a port that failed had is gone with it. Exactly, of each port in events:

    offered  = withheld + waiting + accepted
    accepted = delivered + stored + dropped(reason)
"""

from .outlets import outlet_of
from .ports import channel_of, name_of
from .rules import rule_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vicinal._table import Table
    from vicinal.event import Event

    from .rules import Rule

__all__ = ["Publish", "Ways", "publishes_of"]

# What a node in the air announces on a device, at most: each takes a beacon of its ten advertisements a second.
_MAX_ANNOUNCED = 4
# Identities of what was heard last: what goes round a ring of two agents is back within a few events.
_RECENT = 16


class Publish:
    """One of them. `rule` counts what it holds back."""

    def __init__(self, table: "Table", ports: "dict[str, Any]", position: "Any") -> None:
        self.rule = rule_of(table)
        self.subject = self.rule.subject
        where: str = table.take("on", str, required=True)
        self.port = "can 1" if where == "can" else where
        port = ports.get(self.port)
        if port is None or port.kind == "sensor":
            there = [name for name in sorted(ports) if ports[name].kind != "sensor"]
            raise table.error("on", f"is {where!r}, want " + (" or ".join(there) or "a port: add [[can]] or [[ble]]"))
        if port.kind == "can":
            self._on_a_bus(table, port)
        else:
            self._in_the_air(table, position)
        table.done()

    def _on_a_bus(self, table: "Table", port: "Any") -> None:
        self.etag: int | None = table.integer("etag", 0, 16383)
        kind, deadline, validity = channel_of(table)
        self.channel = (self.etag, kind, deadline, validity)
        if self.etag is not None:
            for other in port.channels:
                if other[0] == self.etag and other != self.channel:
                    raise table.error("etag", f"is {self.etag}, which is also heard, with another class or time")
        elif port.mapping is None or port.mapping.of_subject(self.subject) is None:
            raise table.error("etag", f"is missing, and no message of the bus has subject {self.subject!r}")
        elif port.mapping.of_subject(self.subject).length > 8:
            raise table.error("subject", "is of a message that is longer than 8 bytes, which no frame holds")

    def _in_the_air(self, table: "Table", position: "Any") -> None:
        if position is None:
            raise table.error("on", 'is "ble", and there is no [position]: an event in the air is for who is near')
        self.position = position
        self.radius: int = table.integer("radius_m", 1, 65535, 500)
        names = table.take("names", list)
        if names is not None and [each for each in names if type(each) is not str]:
            raise table.error("names", f"is {names!r}, want strings")
        self.names: list[str] | None = names
        self.beacon: int = table.integer("beacon_ms", 100, 25500, 1000)
        if self.beacon % 100:
            raise table.error("beacon_ms", f"is {self.beacon}, want a multiple of 100")
        self.validity: int = table.integer("validity_ms", 1, 86400000, 2000)
        self.keep: bool = table.take("keep", bool, True)


def publishes_of(tables: "list[Table]", ports: "list[Any]", position: "Any") -> "list[Publish]":
    named = {name_of(port, number): port for number, port in enumerate(ports)}
    found: list[Publish] = []
    for table in tables:
        one = Publish(table, named, position)
        same = [each for each in found if each.port == one.port]
        if [each for each in same if each.subject == one.subject]:
            raise table.error("on", f"is {one.port!r}, where another [[publish]] of this subject goes already")
        if one.port == "ble" and len(same) >= _MAX_ANNOUNCED:
            raise table.error("on", f'is "ble" for the {len(same) + 1}th time, the limit is {_MAX_ANNOUNCED}')
        found.append(one)
    return found


class Ways:
    def __init__(self, publishes: "list[Publish]") -> None:
        self.publishes = publishes
        self._outlets: dict[str, Any] = {}
        """of ports that are open, by name"""
        self._books: dict[str, dict[str, int]] = {}
        for each in publishes:
            self._books[each.port] = {"accepted": 0, "delivered": 0}
        self._recent: list[Any] = []

    def is_known(self, event: "Event", name: str) -> bool:
        """Whether it is one of ours, or came just now."""
        identity = event.identity
        if identity is None:
            return False
        if identity[0] == name or identity in self._recent:
            return True
        self._recent = self._recent[1 - _RECENT :] + [identity]
        return False

    def offer(self, event: "Event", port: str, now: int) -> "list[Publish]":
        """Those that it goes out on now."""
        found: list[Publish] = []
        for each in self.publishes:
            if each.subject == event.subject and each.port != port and each.rule.offer(event, now) is not None:
                found.append(each)
        return found

    def next_timeout(self) -> "int | None":
        due = None
        for each in self.publishes:
            time = each.rule.next_timeout()
            if time is not None and (due is None or time < due):
                due = time
        return due

    def handle_timeout(self, now: int) -> "list[tuple[Event, Publish]]":
        """What had to wait, and where it goes."""
        found = []
        for each in self.publishes:
            event = each.rule.handle_timeout(now)
            if event is not None:
                found.append((event, each))
        return found

    def swap(self, rules: "list[Rule]", event: "Event", stamped: "Event") -> None:
        """It has got its number on one way: what waits on another, or by these rules, is the same event."""
        for rule in rules + [each.rule for each in self.publishes]:
            if rule.held is event:
                rule.held = stamped

    def give(self, way: Publish, event: "Event | None", now: int) -> None:
        """None: it got no number."""
        book, outlet = self._books[way.port], self._outlets.get(way.port)
        book["accepted"] += 1
        if event is None or outlet is None:
            why = "no number" if event is None else "away"
        else:
            why = outlet.publish(way, event, now)
        if why:
            book[why] = book.get(why, 0) + 1

    def opened(self, name: str, part: "Any", now: int) -> None:
        for each in self.publishes:
            if each.port == name:
                if name not in self._outlets:
                    self._outlets[name] = outlet_of(name, part)
                self._outlets[name].announce(each, now)

    def closed(self, name: str) -> None:
        """What it still had is nowhere now."""
        outlet = self._outlets.pop(name, None)
        if outlet is not None:
            book = self._books[name]
            delivered, stored, dropped = outlet.out()
            book["delivered"] += delivered
            book["port failed"] = book.get("port failed", 0) + stored
            for reason in dropped:
                book[reason] = book.get(reason, 0) + dropped[reason]

    def report(self) -> "dict[str, dict[str, Any]]":
        """Of each port: offered, withheld, waiting, accepted, delivered, stored, and dropped by reason."""
        found: dict[str, dict[str, Any]] = {}
        for name in self._books:
            book, outlet = self._books[name], self._outlets.get(name)
            delivered, stored, lost = (0, 0, {}) if outlet is None else outlet.out()
            dropped = dict(lost)
            for reason in book:
                if reason not in ("accepted", "delivered") and book[reason]:
                    dropped[reason] = dropped.get(reason, 0) + book[reason]
            rules = [each.rule for each in self.publishes if each.port == name]
            found[name] = {
                "offered": sum([rule.offered for rule in rules]),
                "withheld": sum([rule.withheld for rule in rules]),
                "waiting": sum([rule.waiting for rule in rules]),
                "accepted": book["accepted"],
                "delivered": book["delivered"] + delivered,
                "stored": stored,
                "dropped": dropped,
            }
        return found
