"""Durable subscriptions while brokers die: engines, and a world that forgets what is not on disk.

What a broker's disk holds here is a list, what it was about to write a queue that a death empties. Every seed is one
course of events: publishes, messages one at a time, commits, deaths and starts in any order; then peace, and all that
was acknowledged must be in every durable list, once and in the order of its producer.
"""

import os
import random
from typing import Any

import pytest

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.siena import catchup
from vicinal.siena.broker import Broker
from vicinal.siena.records import Record

spec = pytest.mark.spec

GRAPH = ScopeGraph([Scope("uk", "place", (), None, None), Scope("london", "place", ("uk",), Filter("TRUE"), None)])
SHAPES = {
    "alone": {"b1": ()},
    "line": {"b1": ("b2",), "b2": ("b1", "b3"), "b3": ("b2",)},
    "ring": {"b1": ("b2", "b3"), "b2": ("b1", "b3"), "b3": ("b1", "b2")},
}
SEEDS = 2000 if os.environ.get("VICINAL_SOAK") else 60
FIRST, LATER = Tags({"place": "london"}), Tags({"place": "uk"})
NEIGHBOUR = Record("b2", 5, 1, ("b1",), frozenset(), ())


class Disk:
    def __init__(self) -> None:
        self.published: list[tuple[Event, Tags]] = []
        self.cursors: dict[str, int] = {}
        self.got: list[tuple[str, int]] = []


class World:
    firsts_at_once = True

    def __init__(self, shape: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.time_to_write = self.chance.choice((0.7, 0.02))
        self.neighbours = SHAPES[shape]
        self.tags = (FIRST, LATER) if seed % 3 == 0 else (Tags(), Tags())
        self.now = 1000
        self.disks = {name: Disk() for name in self.neighbours}
        self.engines: dict[str, Broker] = {}
        self.links: dict[tuple[str, str], list[Any]] = {}
        self.adverts: dict[str, int] = {}
        self.writing: dict[str, list[tuple[Any, ...]]] = {}
        self.replays: dict[str, dict[str, int]] = {}
        self.acknowledged: dict[str, int] = {}
        self.missing: set[str] = set()  # whose disk is full: what comes is not put, and no cursor moves
        self.subscribers = list(self.neighbours)[:2]

    # Deaths and starts

    def start(self, name: str) -> None:
        disk = self.disks[name]
        self.now += 1
        engine = self.engines[name] = Broker(name, self.now, GRAPH)
        for scope in ("london", "uk"):
            engine.join_scope(scope)
        engine.cursors.update(disk.cursors)
        engine.position = len(disk.published)
        self.writing[name], self.replays[name] = [], {}
        self.missing.discard(name)
        if name in self.subscribers:
            engine.subscribe("office/all", Filter("TRUE"), self.tags[1], self.now, durable=True)
        for other in self.neighbours[name]:
            if other in self.engines:
                self.links[name, other], self.links[other, name] = [], []
                engine.link_up(other, self.now)
                self.engines[other].link_up(name, self.now)
        self.carry_out()

    def kill(self, name: str) -> None:
        del self.engines[name]
        self.missing.discard(name)
        self.adverts.pop(name, None)
        for other in self.neighbours[name]:
            for link in ((name, other), (other, name)):
                self.links.pop(link, None)
            if other in self.engines:
                self.engines[other].link_down(name, self.now)
        self.carry_out()

    def fill_the_disk(self, name: str) -> None:
        """What is on its way to the disk is refused, from some point on."""
        del self.writing[name][self.chance.randint(0, len(self.writing[name])) :]
        self.missing.add(name)

    def make_room(self, name: str) -> None:
        self.missing.discard(name)
        self.engines[name].read_again("office/all", self.now)
        self.carry_out()

    # What the shell does

    def publish(self, name: str, dies: bool) -> None:
        engine, disk = self.engines[name], self.disks[name]
        if name not in self.adverts:
            self.adverts[name] = engine.advertise(f"p-{name}", Filter("TRUE"), self.tags[0])
        seq = self.acknowledged.get(name, 0) + 1
        event = Event("Speed", {"rate": seq}, (), f"p-{name}", seq)
        known = [one.seq for one, _ in disk.published[-1:]] == [seq]
        if not known:
            disk.published.append((event, self.tags[0]))
        if dies:
            self.kill(name)
            return
        tags = engine.check_publish(f"p-{name}", self.adverts[name], event)
        engine.publish(f"p-{name}", tags, event, self.now)
        engine.position = len(disk.published)
        self.acknowledged[name] = seq
        self.carry_out()

    def carry_out(self) -> None:
        for name, engine in self.engines.items():
            for event, _, takers in engine.deliveries():
                assert [client for client, _ in takers] == ["office/all"]
                if name not in self.missing:
                    self.writing[name].append(("put", (event.producer, event.seq)))
            for kind, other, what in engine.actions():
                if kind == "send":
                    if (name, other) in self.links:
                        self.links[name, other].append(what)
                elif kind == "mark":
                    if name not in self.missing:
                        self.writing[name].append(("mark", other, what))
                elif what < 0:
                    self.replays[name].pop(other, None)
                else:
                    self.replays[name][other] = what

    def write(self, name: str) -> None:
        kind, *what = self.writing[name].pop(0)
        disk = self.disks[name]
        if kind == "put":
            producer, seq = what[0]
            if seq > max([have for who, have in disk.got if who == producer], default=0):
                disk.got.append((producer, seq))
        else:
            # Cursors are written when there is time, the first of a source before it is named.
            is_first = what[0] not in self.engines[name].cursors
            self.engines[name].cursors[what[0]] = what[1]
            if is_first and self.firsts_at_once:
                disk.cursors[what[0]] = what[1]
            if self.chance.random() < self.time_to_write:
                disk.cursors = dict(self.engines[name].cursors)

    def replay(self, name: str, reader: str) -> None:
        engine, offset = self.engines[name], self.replays[name][reader]
        if not engine.has_room(reader):
            return
        if offset >= engine.position:
            del self.replays[name][reader]
            engine.caught_up(reader, self.now)
        else:
            event, tags = self.disks[name].published[offset]
            self.replays[name][reader] = offset + 1
            engine.publish_again(reader, event, tags, self.now)
        self.carry_out()

    # One step of many

    def work(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = [("message", link) for link, waiting in self.links.items() if waiting]
        found += [("write", name) for name in self.engines if self.writing[name]]
        found += [("replay", name, reader) for name in self.engines for reader in self.replays[name]]
        return found

    def do(self, kind: str, *what: Any) -> None:
        if kind == "message":
            sender, receiver = what[0]
            self.engines[receiver].receive(sender, self.links[what[0]].pop(0), self.now)
            self.carry_out()
        elif kind == "write":
            self.write(what[0])
        else:
            self.replay(*what)

    def wait(self, most: int) -> None:
        self.now += self.chance.randint(1, most)
        for engine in self.engines.values():
            engine.handle_timeout(self.now)
        self.carry_out()

    def fire(self, steps: int) -> None:
        chance = self.chance
        for _ in range(steps):
            what = chance.random()
            alive = sorted(self.engines)
            if what < 0.02 and alive:
                self.kill(chance.choice(alive))
            elif what < 0.06 and len(alive) < len(self.neighbours):
                self.start(chance.choice(sorted(set(self.neighbours) - set(alive))))
            elif what < 0.2 and alive:
                self.publish(chance.choice(alive), chance.random() < 0.03)
            elif what < 0.22:
                self.wait(1500)
            elif what < 0.23 and (full := self.missing or set(alive) & set(self.subscribers)):
                name = chance.choice(sorted(full))
                (self.make_room if name in self.missing else self.fill_the_disk)(name)
            elif work := self.work():
                self.do(*chance.choice(work))

    def settle(self) -> None:
        """Until nothing is left to do, however often something must be sent again."""
        for name in sorted(self.missing):
            self.make_room(name)
        for _ in range(40):
            for _ in range(1000):
                work = self.work()
                if not work:
                    break
                for one in work:
                    if one in self.work():
                        self.do(*one)
            self.wait(3000)
        assert not self.work()


def courses(shape: str, seeds: range) -> None:
    for seed in seeds:
        course(shape, seed)


def course(shape: str, seed: int) -> None:
    world = World(shape, seed)
    for name in world.neighbours:
        world.start(name)
    world.settle()  # from now on every event counts
    world.fire(900)
    for name in sorted(set(world.neighbours) - set(world.engines)):
        world.start(name)
    world.settle()
    for name in world.subscribers:
        got = world.disks[name].got
        for producer, last in world.acknowledged.items():
            seqs = [seq for who, seq in got if who == f"p-{producer}"]
            assert len(seqs) >= last, f"seed {seed}: {name} has {seqs} of {producer}, want {last}"
            assert seqs == list(range(1, len(seqs) + 1)), f"seed {seed}: {name} has {seqs} of {producer}"


@pytest.fixture(autouse=True)
def many_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Oftener than they are, so that more can go wrong."""
    monkeypatch.setattr(catchup, "MARK_EVERY", 3)
    monkeypatch.setattr(catchup, "MARK_ALL", 10)


@spec("OVER-28", "OVER-29", "OVER-31", "OVER-32")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("part", range(2))
def test_nothing_acknowledged_is_lost(shape: str, part: int) -> None:
    courses(shape, range(part * SEEDS // 2, (part + 1) * SEEDS // 2))


def no_hold(self: Broker, reader: str) -> None:
    pass


def no_replay(self: Broker, reader: str, cursor: int | None, now: int) -> None:
    self.caught_up(reader, now)


def told_where_it_is_advertised(self: Broker, record: Any, key: int, one: Any) -> bool:
    if record.broker == self.name or key in self._tellings.get(record.broker, ()):
        return False
    return any(self._may_see(tags, one.tags) for _, tags in record.adverts)


def marks_before_the_disk(self: World, name: str) -> None:
    marks = [one for one in self.writing[name] if one[0] == "mark"]
    self.writing[name] = [one for one in self.writing[name] if one[0] != "mark"]
    for _, source, offset in marks:
        self.disks[name].cursors[source] = self.engines[name].cursors[source] = offset
    if self.writing[name]:
        WRITE(self, name)


def not_read_again(self: World, name: str) -> None:
    self.missing.discard(name)


def takes_what_was_under_way(self: Broker, source: str, takers: list[Any]) -> list[Any]:
    return takers


def marks_that_were_under_way(self: Broker, source: str, offset: int) -> None:
    self._barred.pop(source, None)
    self._actions.append(("mark", source, offset))


WRITE = World.write
MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "no hold": (Broker, "_hold", no_hold),
    "no replay": (Broker, "_resume", no_replay),
    "told only where it is advertised": (Broker, "_concerns", told_where_it_is_advertised),
    "nothing is read again after the disk was full": (World, "make_room", not_read_again),
    "what was under way overtakes what was missed": (Broker, "_admitted", takes_what_was_under_way),
    "marks that were under way count": (Broker, "_marked", marks_that_were_under_way),
    "marks before the disk": (World, "write", marks_before_the_disk),
    "a first cursor is named before it is on disk": (World, "firsts_at_once", False),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_caught(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTANTS[mutant])
    with pytest.raises(AssertionError, match=r"seed \d+: b\d has"):
        courses("ring", range(SEEDS))


@spec("OVER-30")
def test_live_clients_get_nothing_again_and_durable_ones_nothing_live() -> None:
    broker = Broker("b1", 1, GRAPH)
    broker.position = 0
    broker.subscribe("office", Filter("TRUE"), Tags(), 0)
    broker.subscribe("office/all", Filter("TRUE"), Tags(), 0, durable=True)
    broker.records.put(NEIGHBOUR)
    for number, (kind, takers) in enumerate(
        (("again", ["office/all"]), ("live", ["office"]), ("event", ["office", "office/all"])), 1
    ):
        event = Event("Speed", {"rate": number}, (), "p", number)
        target = ("b1", 1, 1, number, ())
        broker.receive("b2", ("packets", 1, "b2", 5, (), (kind, event, Tags()), [target], ()), 0)
        assert [[client for client, _ in one[2]] for one in broker.deliveries()] == [takers]


@spec("OVER-31")
def test_a_reader_that_dies_before_its_first_cursor_is_kept() -> None:
    """Its client was answered, and what was published since is acknowledged."""
    world = World("line", 1)
    world.subscribers = []
    for name in world.neighbours:
        world.start(name)
    world.settle()
    world.publish("b3", False)
    world.subscribers = ["b1"]
    world.engines["b1"].subscribe("office/all", Filter("TRUE"), Tags(), world.now, durable=True)
    world.carry_out()
    world.settle()
    world.disks["b1"] = Disk()
    for _ in range(10):
        world.publish("b3", False)
    world.kill("b1")
    world.publish("b3", False)
    world.start("b1")
    world.settle()
    assert [seq for _, seq in world.disks["b1"].got] == list(range(2, 13))
    # From then on it has a cursor. One that begins anew while it lives begins at the end.
    world.engines["b1"].drop_client("office/all", world.now)
    world.carry_out()
    world.settle()
    world.engines["b1"].cursors.clear()
    world.publish("b3", False)
    world.disks["b1"].got.clear()
    world.engines["b1"].subscribe("office/all", Filter("TRUE"), Tags(), world.now, durable=True)
    world.carry_out()
    world.settle()
    assert not world.disks["b1"].got


def test_nothing_is_acknowledged_while_the_disk_is_behind() -> None:
    broker = Broker("b1", 1, GRAPH)
    broker.position = 0
    broker.subscribe("office/all", Filter("TRUE"), Tags(), 0, durable=True)
    broker.link_up("b2", 0)
    behind = True
    broker.keeps_up = lambda: not behind
    broker.actions()
    broker.records.put(NEIGHBOUR)
    content = ("event", Event("Speed", {"rate": 1}, (), "p", 1), Tags())
    broker.receive("b2", ("packets", 1, "b2", 5, (), content, [("b1", 1, 1, 1, ())], ()), 0)
    now = 0
    for _ in range(5):
        due = broker.next_timeout()
        assert due is not None
        assert due > now
        now = due
        broker.handle_timeout(now)
    assert broker._in["b2"].unacknowledged == 1
    assert not broker.has_room("b1")
    behind = False
    broker.handle_timeout(broker.next_timeout() or 0)
    assert broker._in["b2"].unacknowledged == 0
    assert broker.has_room("b1")


def test_an_event_of_a_scope_that_is_not_known_here() -> None:
    """It lies in the log, and is for nobody; or brokers that know the scope have brought it into one that is here."""
    broker = Broker("b1", 1, ScopeGraph([Scope("uk", "place")]))
    broker.join_scope("uk")
    broker.position = 1
    broker.subscribe("office/all", Filter("TRUE"), Tags(), 0, durable=True)
    broker.subscribe("office", Filter("TRUE"), LATER, 0)
    broker.subscribe("office", Filter("rate IS NULL OR TRUE"), LATER, 0)
    event = Event("Speed", {"rate": 1}, (), "p", 1)
    broker.publish_again("b1", event, FIRST, 0)
    assert not broker.deliveries()
    broker.records.put(NEIGHBOUR)
    content = ("event", event, FIRST)
    broker.receive("b2", ("packets", 1, "b2", 5, (("uk", True),), content, [("b1", 1, 1, 1, ("uk",))], ()), 0)
    assert [takers for _, _, takers in broker.deliveries()] == [[("office", (1, 2))]]
