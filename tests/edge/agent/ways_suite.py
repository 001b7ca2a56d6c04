"""Ways out beside the gateway: two agents on a bus and in the air made of a few lines, on either interpreter."""

import json

from vicinal.cosmic.channels import SrtChannel
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import unpack
from vicinal.cosmic.node import Node
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal_edge.agent import loop as loop_module
from vicinal_edge.agent.config import Config
from vicinal_edge.agent.loop import Loop
from vicinal_edge.agent.mailbox import Mailbox
from vicinal_edge.agent.parts import BlePart, CanPart, SensorPart
from vicinal_hw.flash.emulated import EmulatedFlash

HERE = {"lat": 53.3438, "lon": -6.2546}
SPEED = {
    "id": 12345,
    "subject": "Speed",
    "fields": [
        {"name": "license_no", "bytes": "0..6", "type": "string"},
        {"name": "rate", "bytes": 7, "type": "double"},
    ],
}
TABLES = {
    "agent": {"name": "car-7", "health_s": 0},
    "position": HERE,
    "can": [{"node": 7, "message": [SPEED], "event": [{"etag": 300}]}],
    "ble": [{"subject": "Siren"}],
    "sensor": [
        {"type": "own", "subject": "Speed", "every_ms": 1000},
        {"type": "own", "subject": "Battery", "every_ms": 100},
    ],
    "publish": [
        {"subject": "Speed", "on": "can"},
        {"subject": "Battery", "on": "can", "etag": 301, "field": "volts", "delta": 2, "every_ms": 300},
        {"subject": "Battery", "on": "ble", "field": "volts", "change": True},
        {"subject": "Reading", "on": "ble"},
        {"subject": "Reading", "on": "can 1", "etag": 301},
        {"subject": "Siren", "on": "can", "etag": 300},
    ],
}


def raises(call, text):
    try:
        call()
        said = "nothing was raised"
    except LocalProtocolError as error:
        said = str(error)
    assert text in said, said


class Controller:
    """On a bus that takes a frame in each turn, or none."""

    def __init__(self):
        self.inbox = []
        self.out = []
        self.inside = None
        self.busy = False
        self.gone = False
        self.how = "active"

    def receive(self):
        if self.gone:
            raise OSError("no such bus")
        return self.inbox.pop(0) if self.inbox else None

    def load(self, frame):
        assert self.inside is None
        self.inside = frame

    def sent(self):
        if self.busy or self.inside is None:
            return False
        self.out.append(self.inside)
        self.inside = None
        return True

    def abort(self):
        found, self.inside = self.inside is not None, None
        return found

    def state(self):
        return self.how

    def recover(self):
        self.inside = None


class Radio:
    def __init__(self):
        self.inbox = []
        self.out = []

    def receive(self):
        return self.inbox.pop(0) if self.inbox else None

    def advertise(self, data):
        if data is not None:
            self.out.append(data)

    def close(self):
        pass


class World:
    """One agent: its opener, its link, its gateway is None."""

    def __init__(self, tables=TABLES):
        self.controller, self.radio = Controller(), Radio()
        self.values = {"Speed": None, "Battery": None}
        self.fails = False
        self.now = 0
        config = Config(tables)
        # Boots are not what this is about, and files are not the same on both.
        keep, loop_module.keep = loop_module.keep, lambda path, value: None
        self.loop = Loop(config, self, None, "1", config.name.encode()[:1] + b"bcdefgh", 0, "nowhere")
        loop_module.keep = keep
        self.agent = self.loop.agent

    def flash(self, config):
        return EmulatedFlash(4, 512)

    def open(self, ports, loop, now):
        port, offer = ports[0], loop.offer_of(ports[0])
        if port.kind == "can":
            if self.fails:
                raise OSError("no bus yet")
            return CanPart(port, self.controller, offer, now)
        if port.kind == "ble":
            return BlePart(ports, self.radio, loop.sender, "x", loop.config.position, offer, now)
        return SensorPart(port, Sensor(self, port.subject), offer, now)

    def run(self, ms):
        end = self.now + ms
        while self.now < end:
            self.loop.turn(self.now)
            self.check()
            self.now += 10

    def check(self):
        for name, book in self.agent.ways.report().items():
            assert book["offered"] == book["withheld"] + book["waiting"] + book["accepted"], (name, book)
            dropped = sum(list(book["dropped"].values()))
            assert book["accepted"] == book["delivered"] + book["stored"] + dropped, (name, book)

    def book(self, name):
        return self.agent.ways.report()[name]


class Sensor:
    def __init__(self, world, subject):
        self.world, self.subject = world, subject

    def read(self):
        value = self.world.values[self.subject]
        if value is None:
            return None
        if self.subject == "Speed":
            return (("license_no", "00D1234"), ("rate", value))
        return (("volts", value),)


def listen(frames, etag, subject):
    """What a node on the bus hears of a channel."""
    heard, node = [], Node(3, 500000)
    channel = SrtChannel(node, etag, 20000)
    channel.subscribe(lambda event, tx_node, now: heard.append(event), 0)
    for frame in frames:
        if frame.id != 12345:
            node.receive_frame(frame, 0)
    return [event for event in heard if event.subject == subject]


def frames_of(event, etag):
    node = Node(3, 500000)
    channel = SrtChannel(node, etag, 20000)
    channel.announce(0)
    channel.publish(event, 0)
    found = []
    while True:
        frame = node.frame_to_send(0)
        if frame is None:
            return found
        found.append(frame)
        node.frame_sent(frame, 0)


def test_a_sensor_on_a_bus_and_in_the_air():
    world = World()
    assert world.agent.client is None
    world.values["Speed"] = 57.0
    world.run(3000)
    plain = [frame for frame in world.controller.out if frame.id == 12345]
    assert [frame.data for frame in plain] == [b"00D1234\x39"] * 3
    # Each way has its rule: the bus every 300 ms what is 2 away, the air each change.
    for volts in (10, 10, 11, 13, 14, 16):
        world.values["Battery"] = volts
        world.run(100)
    world.values["Battery"] = None
    world.run(3000)
    on_bus = listen(world.controller.out, 301, "Battery")
    assert [event["volts"] for event in on_bus] == [10, 13, 16]
    other = World(
        {
            "agent": {"name": "other"},
            "position": HERE,
            "ble": [{"subject": "Battery"}],
            "can": [{}],
            "publish": [{"subject": "Battery", "on": "can", "etag": 9}],
        }
    )
    heard = other.book("can 1")
    assert heard["accepted"] == 0
    for data in world.radio.out:
        other.radio.inbox.append((data, -50))
        other.run(10)
    in_air = listen(other.controller.out, 9, "Battery")
    assert [event["volts"] for event in in_air] == [10, 11, 13, 14, 16]
    # It is the same event on both, wherever it had to wait: by its identity who hears both knows it.
    numbers = {event["volts"]: event.identity for event in in_air}
    assert [numbers[event["volts"]] for event in on_bus] == [event.identity for event in on_bus]
    assert on_bus[0].producer == "car-7"
    book = world.book("ble")
    assert (book["offered"], book["withheld"], book["accepted"], book["dropped"]) == (6, 1, 5, {})


def test_what_is_heard_goes_on_but_not_back():
    world = World()
    world.run(100)
    reading = Event("Reading", (("value", 5),), (), "other", 3)
    siren = Event("Siren", (("kind", 2),), (), "other", 4)
    for event in (reading, siren, siren):
        world.controller.inbox += frames_of(event, 300)
    world.run(500)
    # Heard on the bus: into the air, and not onto the bus again.
    assert world.book("can 1")["offered"] == 0
    assert world.book("ble")["accepted"] == 1
    assert world.agent.counters["returned"] == 1
    # What comes back to us goes nowhere, whoever said it.
    before = world.agent.counters["returned"]
    world.agent.offer(Event("Reading", (("value", 6),), (), "car-7", 1), world.now, "ble")
    assert world.agent.counters["returned"] == before + 1
    # Frames have no identity: they get ours, and do not go out where they came from.
    world.controller.inbox.append(Frame(12345, b"00D1234\x39", True))
    world.run(100)
    assert world.book("can 1")["offered"] == 0
    world.agent.offer(Event("Siren", (("kind", 3),), (), "other", 5), world.now, "ble")
    world.run(100)
    (heard,) = listen(world.controller.out, 300, "Siren")
    assert (heard["kind"], heard.identity) == (3, ("other", 5))


def test_a_bus_that_is_away_or_full_or_gone():
    world = World()
    world.fails = True
    world.values["Speed"] = 57.0
    world.run(2000)
    assert world.book("can 1")["dropped"] == {"away": 2}
    world.fails = False
    world.run(9000)
    assert world.book("can 1")["delivered"] == 1
    # Nobody acknowledges: what is not out in time is dropped, and counted.
    world.controller.busy = True
    world.values["Battery"] = 1
    world.run(1500)
    dropped = world.book("can 1")["dropped"]
    assert dropped["expired"] >= 2, dropped
    assert world.controller.inside is None
    world.controller.busy = False
    world.run(2000)
    assert world.book("can 1")["delivered"] > 2
    # What does not fit into its frame.
    world.values["Speed"] = 300.0
    world.run(1000)
    assert world.book("can 1")["dropped"]["does not fit"] == 1
    # It fails: what it had is gone, and said to be; a sensor goes on.
    world.controller.busy, world.values["Speed"] = True, 20.0
    while not world.book("can 1")["stored"]:
        world.run(10)
    world.controller.gone = True
    world.run(100)
    assert world.book("can 1")["dropped"]["port failed"] == 1
    assert world.agent.counters["port failures"] >= 1
    world.controller.gone = world.controller.busy = False
    world.controller.inside = None
    sent = world.book("can 1")["delivered"]
    world.run(13000)
    assert world.book("can 1")["delivered"] > sent


def test_a_mailbox_for_two():
    controller = Controller()
    box = Mailbox(controller)
    controller.busy = True
    low, high, node = Frame(5, b"a", False), Frame(0x7FF, b"b", False), Frame(40 << 21 | 3 << 14 | 9, b"c", True)
    assert box.put(high, 0, 100)
    assert controller.inside is high
    box.load(node)  # more urgent than the one inside
    assert controller.inside is node
    assert box.put(low, 0, 100)
    assert controller.inside is low
    assert not box.sent()
    assert box.abort()  # of the node's, which waits
    box.load(node)
    controller.busy = False
    assert box.sent()
    assert not box.sent()
    assert controller.out == [low, node, high]
    assert box.counters == {"out sent": 2}
    # Full, expired, bus-off.
    controller.busy = True
    put = [box.put(Frame(n + 1, b"", False), 0, 100 + n) for n in range(11)]
    assert put == [True] * 10 + [False]
    box.move(104)
    assert (len(box.plain), box.counters["out dropped: expired"]) == (5, 5)
    controller.how = "bus-off"
    assert box.state() == "bus-off"
    controller.recover()
    box.load(node)
    assert controller.inside is None
    controller.how, controller.busy = "active", False
    box.state()
    assert box.sent()
    assert len(controller.out) == 3 + 6
    assert box.plain == []


def test_configurations():
    raises(lambda: Config({"agent": {"name": "x"}, "can": [{"event": [{"etag": 3}]}]}), "gateway is missing")

    def wrong(said, place=None, **changes):
        tables = json.loads(json.dumps(TABLES))
        if place is None:
            tables.update(changes)
        else:
            tables["publish"][place].update(changes)
        raises(lambda: Config(tables, "a"), said)

    wrong("[[publish]] 1 'Speed': on is 'can 2', want ble or can 1", 0, on="can 2")
    wrong("on is 'sensor 3', want ble or can 1", 0, on="sensor 3")
    wrong("etag is missing, and no message of the bus has subject 'Other'", 0, subject="Other")
    wrong("where another [[publish]] of this subject goes already", 3, on="can", etag=301)
    wrong("etag is 300, which is also heard, with another class or time", 5, **{"class": "nrt"})
    wrong("radius_m is 0, want 1 .. 65535", 2, radius_m=0)
    wrong("beacon_ms is 150, want a multiple of 100", 2, beacon_ms=150)
    wrong("names is [1], want strings", 2, names=[1])
    wrong("delta needs `field`", 0, delta=1)
    wrong("validty_us is not known here: want subject, filter", 0, validty_us=1)
    wrong("[[rule]] is of what a gateway gets, and there is none", rule=[{"subject": "Speed"}])
    wrong("[[can]] has no `event` and no `message`", can=[TABLES["can"][0], {}])
    wrong(
        "[[ble]] has no `subject`: nothing is heard, and no [[publish]] goes there",
        ble=[{}],
        publish=[TABLES["publish"][0]],
    )
    no_place = {name: value for name, value in TABLES.items() if name != "position"}
    raises(lambda: Config(no_place, "a"), 'on is "ble", and there is no [position]')
    many = [{"subject": f"s{n}", "on": "ble"} for n in range(5)]
    wrong('on is "ble" for the 5th time, the limit is 4', publish=many)
    wrong("[[publish]] has two brackets", publish={"subject": "x"})
    speaks = {"agent": {"name": "x"}, "position": HERE, "ble": [{}], "publish": [{"subject": "Siren", "on": "ble"}]}
    assert Config(speaks).ports[0].subject is None
    assert unpack(frames_of(Event("x", (), (), "p", 1), 300)[0].id)[2] == 300


def test_health_where_there_is_no_gateway():
    tables = dict(
        TABLES,
        agent={"name": "car-7", "health_s": 60},
        publish=[{"subject": "AgentHealth", "on": "can", "etag": 7, "class": "nrt"}],
        ble=[],
    )
    world = World(tables)
    world.run(1000)
    (health,) = listen(world.controller.out, 7, "AgentHealth")
    assert (health["agent"], health["mode"]) == ("car-7", "normal")
    assert world.agent.counters.get("own", 0) == 0
