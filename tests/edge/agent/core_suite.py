"""Rules, guard, clock, configuration and the agent with a gateway made of a few lines, on either interpreter."""

import json

from vicinal import wire
from vicinal.coap.message import ACK, CON, Message, decode, encode, uint
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_edge.agent.clock import Clock, Ticks
from vicinal_edge.agent.config import Config
from vicinal_edge.agent.core import Agent, subject_of
from vicinal_edge.agent.guard import SAFE_AFTER, BootGuard, Watchdog
from vicinal_edge.agent.journal import Journal
from vicinal_edge.agent.rules import MAX_RULES, Rule, Rules
from vicinal_hw.flash.emulated import EmulatedFlash

SEED = b"abcd\x12\x34\x56\x78"
TABLES = {"agent": {"name": "car-7", "gateway": "coap://127.0.0.1:5683", "health_s": 0}}


def raises(call, text):
    try:
        call()
        said = "nothing was raised"
    except LocalProtocolError as error:
        said = str(error)
    assert text in said, said


def speed(rate, more=0):
    return Event("Speed", (("rate", rate), ("more", more)))


def passing(rule, values):
    """Which of (time, value) pass, with those that had to wait, at their time."""
    found = []
    for now, value in values:
        due = rule.next_timeout()
        if due is not None and due <= now:
            found.append((due, rule.handle_timeout(due)["rate"]))
        event = rule.offer(speed(value), now)
        if event is not None:
            found.append((now, event["rate"]))
    due = rule.next_timeout()
    if due is not None:
        found.append((due, rule.handle_timeout(due)["rate"]))
    assert rule.offered == rule.passed + rule.outside + rule.unchanged + rule.replaced + rule.waiting
    return found


def test_rules():
    steps = [(n * 100, value) for n, value in enumerate((50, 50, 50.5, 51, 51, 50.1, 49.9, 80, 80))]
    assert passing(Rule("Speed"), steps) == steps
    assert passing(Rule("Speed", Filter("rate > 60")), steps) == [(700, 80), (800, 80)]
    found = passing(Rule("Speed", None, "rate", None, True), steps)
    assert [value for _, value in found] == [50, 50.5, 51, 50.1, 49.9, 80]
    found = passing(Rule("Speed", None, "rate", 1), steps)
    assert [value for _, value in found] == [50, 51, 49.9, 80]
    found = passing(Rule("Speed", None, "rate", 1, False, 0, 300), steps)
    assert found == [(0, 50), (300, 51), (600, 49.9), (700, 80)]
    found = passing(Rule("Speed", None, None, None, False, 250), steps)
    assert found == [(0, 50), (250, 50.5), (500, 51), (750, 80), (1000, 80)]
    # What waits and comes back to what was sent is not sent.
    assert passing(Rule("Speed", None, "rate", 1, False, 250), [(0, 50), (100, 60), (200, 50)]) == [(0, 50)]
    # Not numbers: any other value is another; a NaN is seen.
    assert len(passing(Rule("Speed", None, "rate", 1), [(0, "a"), (1, "a"), (2, "b"), (3, 1), (4, True)])) == 4
    assert len(passing(Rule("Speed", None, "rate", 1), [(0, 1.0), (1, float("nan")), (2, 1.0)])) == 3
    assert len(passing(Rule("Speed", None, "none", 1), [(0, 1.0), (1, 2.0)])) == 1


def test_sets_of_rules():
    rules = Rules([Rule("Speed", Filter("rate > 60")), Rule("Speed", None, "rate", 10)])
    assert [rules.offer(speed(rate), 0) is not None for rate in (50, 55, 61, 62, 50)] == [True, False, True, True, True]
    assert rules.offer(Event("Other"), 0) is not None
    rules = Rules([Rule("Speed")], True)
    assert rules.offer(Event("Other"), 0) is None
    assert rules.unasked == 1
    raises(lambda: rules.set([Rule("x")] * (MAX_RULES + 1)), "33 rules, the limit is 32")
    rules.set([Rule("Speed", None, None, None, True)])
    assert rules.offer(speed(1), 0) is not None
    assert rules.offer(speed(1), 0) is None
    rules.set([Rule("Speed", None, None, None, True)])
    assert rules.offer(speed(1), 0) is not None


def test_boots():
    record = None
    for boot in range(1, SAFE_AFTER + 1):
        guard = BootGuard(record)
        assert not guard.safe
        record = guard.begin()
        assert guard.boots == boot
        record = guard.failed("ImportError: " + "x" * 500)
        assert len(record["why"]) == 160
    guard = BootGuard(json.loads(json.dumps(record)))
    assert guard.safe
    assert "ImportError" in guard.why
    record = guard.begin()
    # A safe boot that works: the next is tried in full, and one failure more is safe again.
    record = guard.healthy()
    guard = BootGuard(record)
    assert not guard.safe
    record = guard.begin()
    assert BootGuard(record).safe
    guard = BootGuard(guard.healthy())
    assert guard.boots == 0
    for bad in (None, [], "x", {"boots": -1}, {"boots": True}, {"boots": "4"}, {"why": 3}):
        guard = BootGuard(bad)
        assert (guard.safe, guard.boots, guard.why) == (False, 0, "")


def test_watchdog():
    dog = Watchdog({"loop": 1000, "can": 5000}, 0)
    assert dog.may_feed(1000)
    assert dog.silent(1001) == "loop"
    dog.report("loop", 4000)
    assert dog.may_feed(5000)
    dog.report("loop", 5900)
    assert dog.silent(6000) == "can"
    assert not dog.may_feed(6000)
    raises(lambda: dog.report("ble", 0), "'ble' is no part that is watched: can, loop")


def test_clock():
    clock, unix = Clock(), 1700000000000
    assert clock.now_unix(5) is None
    assert clock.wants(0)
    clock.asked(100)
    assert not clock.wants(10099)
    assert clock.wants(10100)
    assert not clock.told(12345, 200)
    assert clock.told(unix, 300)
    assert clock.now_unix(300) == unix + 100
    assert clock.error == 100
    assert not clock.wants(600299)
    clock.asked(600300)
    assert not clock.told(unix, 603000)  # a way of 2.7 s
    assert clock.wants(610300)
    clock.asked(610300)
    last = clock.now_unix(610310)
    assert clock.told(unix, 610320)  # earlier: it stands still
    assert clock.now_unix(610330) == last
    assert clock.now_unix(2 * 610330) > last
    ticks = Ticks((1 << 30) - 5)
    assert [ticks.now(each) for each in (((1 << 30) - 1), 3, 3, 10)] == [4, 8, 8, 15]


def test_configuration():
    config = Config(TABLES)
    assert (config.name, config.host, config.port, config.sectors) == ("car-7", "127.0.0.1", 5683, 16)
    whole = {
        "agent": {"name": "car-7", "gateway": "coap://[fe80::1]:99/", "only": True},
        "journal": {"sectors": 4, "sector_bytes": 512, "linger_ms": 10},
        "position": {"lat": 53.3438, "lon": -6.2546},
        "rule": [{"subject": "Speed", "filter": "rate > 5", "field": "rate", "delta": 1.0, "every_ms": 200}],
        "can": [
            {
                "channel": "car",
                "interface": "vicinal",
                "event": [{"etag": 300}, {"etag": 301, "class": "nrt"}],
                "message": [
                    {
                        "id": 12345,
                        "subject": "Door",
                        "fields": [{"name": "open", "start": 0, "length": 8, "type": "uint"}],
                    }
                ],
            }
        ],
        "ble": [{"subject": "Siren", "names": ["kind"], "filter": "kind > 0"}],
        "sensor": [{"type": "adc", "subject": "Battery", "name": "volts", "pin": 34, "scale": 0.5, "offset": 1}],
    }
    config = Config(whole)
    assert (config.host, config.port, config.position) == ("fe80::1", 99, (533438000, -62546000))
    assert [port.kind for port in config.ports] == ["can", "ble", "sensor"]
    assert config.ports[0].channels == [(300, "srt", 20000, 100000), (301, "nrt", 20000, 100000)]
    assert config.ports[2].value(10) == 6
    assert len(config.rules) == 1

    def wrong(table, key, value, said, place=None):
        changed = json.loads(json.dumps(whole))
        where = changed[table] if place is None else changed[table][place]
        where[key] = value
        raises(lambda: Config(changed, "a.toml"), said)

    wrong("agent", "name", "a b", "a.toml: [agent]: name is 'a b', want 1 to 64 letters")
    wrong("agent", "gateway", "http://x", "a.toml: [agent]: gateway is 'http://x', want coap://HOST")
    wrong("agent", "gateway", "coap://x:0", "want coap://HOST")
    wrong("agent", "gateway", "coap://[::1", "want coap://HOST")
    wrong("agent", "helth_s", 3, "helth_s is not known here: want name, gateway")
    wrong("agent", "health_s", -1, "health_s is -1, want 0 .. 86400")
    wrong("journal", "sectors", 2, "sectors is 2, want 3 .. 4096")
    wrong("journal", "sector_bytes", 1000, "want a multiple of 256")
    wrong("position", "lat", 91, "lat is 91, want -90 .. 90 degrees")
    wrong("rule", "filter", "rate >", "[[rule]] 1 'Speed': filter is 'rate >'", 0)
    wrong("rule", "delta", 0, "delta is 0, want more than 0", 0)
    wrong("rule", "field", None, "want a string", 0)
    wrong("can", "controller", "x", "[[can]] 1: controller is 'x', want python-can or mcp2515 or machine", 0)
    wrong("can", "event", [{"etag": 20000}], "[[can]] 1, event 1: etag is 20000, want 0 .. 16383", 0)
    wrong("ble", "names", [1], "names is [1], want 16 strings", 0)
    wrong("sensor", "type", "spi", "type is 'spi', want gpio or adc or i2c or file or own", 0)
    wrong("sensor", "pin", 99, "pin is 99, want 0 .. 64", 0)
    raises(lambda: Config({"agent": TABLES["agent"], "cann": []}, "a.toml"), "a.toml: [cann] is not known: want agent")
    raises(lambda: Config({}, "a.toml"), "[agent] is missing")
    raises(lambda: Config([], "a.toml"), "want tables, got a list")
    raises(lambda: Config({"agent": {"name": "x"}}, "a.toml"), "gateway is missing")
    raises(lambda: Config(dict(TABLES, can={}), "a.toml"), "[[can]] has two brackets")
    raises(lambda: Config(dict(TABLES, can=[{}]), "a.toml"), "nothing on the bus is an event")
    raises(lambda: Config(dict(TABLES, sensor=[{"type": "i2c", "subject": "T"}]), "a"), "address is missing")


class Gateway:
    """Takes events, gives the time and rules, and can be away, full or unwilling."""

    def __init__(self):
        self.taken = []
        self.mode = "up"
        self.observer = None
        self.mid = 1
        self.rules = None
        self.wants = None
        self.wants_token = None
        self.asked = None
        self.unix = 1700000000000

    def answer(self, data, now):
        message = decode(data)
        if self.mode == "away" or message.code == 0:
            return []
        path = [str(value, "utf-8") for number, value in message.options if number == 11]
        reply = Message(ACK, 0x44, message.mid, message.token)
        if message.code == 3:
            if self.mode == "full":
                reply.code, reply.options = 0xA3, [(14, uint(3))]
            elif self.mode == "unwilling":
                reply.code, reply.payload = 0x80, b"no"
            else:
                event = wire.decode(message.payload)
                assert (path[0], path[1:]) == ("ps", event.subject.split("/"))
                self.taken.append(event)
        elif path == ["time"]:
            reply.code, reply.payload = 0x45, b"%d" % (self.unix + now)
        elif path == ["ps", "AgentRules"]:
            self.observer = message.token
            reply.code, reply.options = 0x45, [(6, uint(self.mid))]
        elif path == ["ps", "AgentWanted"]:
            if self.mode == "old":
                reply.code = 0x84
            else:
                self.asked, self.wants_token = now, message.token
                reply.code, reply.options = 0x45, [(6, uint(self.mid))]
                if self.wants is not None:
                    reply.options.append((12, uint(60)))
                    reply.payload = wire.encode(Event("AgentWanted", (("filter", self.wants),)))
        return [encode(reply)]

    def push(self, rules, agent="car-7"):
        self.mid += 1
        text = rules if type(rules) is str else json.dumps(rules)
        event = Event("AgentRules", (("agent", agent), ("rules", text)), (), "office", self.mid)
        message = Message(CON, 0x45, self.mid, self.observer, [(6, uint(self.mid)), (12, uint(60))], wire.encode(event))
        return encode(message)

    def want(self, text):
        self.wants = text
        self.mid += 1
        event = Event("AgentWanted", (("filter", text),))
        options = [(6, uint(self.mid)), (12, uint(60))]
        return encode(Message(CON, 0x45, self.mid, self.wants_token, options, wire.encode(event)))


class World:
    def __init__(self, tables=TABLES, flash=None, guard=None):
        self.flash = flash or EmulatedFlash(6, 512)
        self.gateway = Gateway()
        self.now = 0
        self.boot(tables, guard)

    def boot(self, tables=TABLES, guard=None):
        self.agent = Agent(Config(tables), Journal(self.flash, 512, 2000, 32), SEED, "1.2", self.now, guard)

    def run(self, ms):
        end = self.now + ms
        agent = self.agent
        while True:
            agent.service(self.now)
            while True:
                data = agent.client.data_to_send()
                if data is None:
                    break
                for reply in self.gateway.answer(data, self.now):
                    agent.client.receive_data(reply, self.now)
            due = agent.service(self.now)
            client = agent.client.next_timeout()
            if client is not None and client <= self.now:
                agent.client.handle_timeout(self.now)
            self.check()
            if self.now >= end:
                return
            self.now = min(end, max(self.now + 10, due))

    def check(self):
        agent, count = self.agent, self.agent.counters.get
        stored = agent.journal.stored
        accepted = count("accepted", 0) + agent.stored_before
        done = count("delivered", 0) + count("refused", 0)
        assert accepted == done + stored + agent.dropped, (agent.counters, stored, agent.dropped)

    def speeds(self):
        return [event["rate"] for event in self.gateway.taken if event.subject == "Speed"]


def test_events_go_up_in_order_with_identity_and_time():
    world = World()
    world.agent.offer(speed(0), 0)
    world.run(100)
    for rate in range(1, 20):
        world.agent.offer(speed(rate), world.now)
        world.run(50)
    world.agent.offer(Event("Speed", (("rate", 20),), {"Time": 5}, "other", 3), world.now)
    world.run(50)
    taken = [event for event in world.gateway.taken if event.subject == "Speed"]
    assert [event["rate"] for event in taken] == list(range(21))
    seqs = [event.seq for event in taken[:-1]]
    assert seqs == sorted(set(seqs))
    assert {event.producer for event in taken[:-1]} == {"car-7"}
    assert "Time" not in taken[0].attrs
    assert abs(taken[10].attrs["Time"] - 1700000000600) < 200
    assert taken[-1].identity == ("other", 3)
    assert taken[-1].attrs["Time"] == 5
    assert world.flash.writes < 4  # nothing of it was on flash


def test_a_gateway_that_is_away_keeps_nobody_busy():
    world = World()
    world.gateway.mode = "away"
    world.agent.offer(speed(0), 0)
    agent, turns = world.agent, 0
    while world.now < 60000:
        due = agent.service(world.now)
        while agent.client.data_to_send() is not None:
            pass
        client = agent.client.next_timeout()
        if client is not None and client <= world.now:
            agent.client.handle_timeout(world.now)
        elif client is not None:
            due = min(due, client)
        world.now = max(world.now + 1, due)
        turns += 1
    assert turns < 400, turns


def test_an_outage_and_a_power_cut_lose_nothing():
    world = World()
    world.run(100)
    world.gateway.mode = "away"
    for rate in range(15):
        world.agent.offer(speed(rate), world.now)
        world.run(1000)
    assert world.speeds() == []
    world.run(3000)  # all of them are on flash
    before = world.agent.journal.stored
    assert before >= 15
    world.boot()
    assert world.agent.stored_before == before
    world.run(5000)
    world.gateway.mode = "up"
    world.run(120000)
    assert world.speeds() == list(range(15))
    assert world.agent.journal.stored == 0
    identities = [event.identity for event in world.gateway.taken]
    assert len(set(identities)) == len(identities)


def test_a_full_gateway_is_asked_again_and_an_unwilling_one_is_not():
    world = World()
    world.run(100)
    world.gateway.mode = "full"
    sent = world.agent.client.counters["sent"] + 1
    world.agent.offer(speed(1), world.now)
    world.run(2900)
    assert world.agent.client.counters["sent"] == sent
    world.gateway.mode = "up"
    world.run(50)
    assert world.agent.client.counters["sent"] == sent  # Max-Age is 3 s
    world.run(200)
    assert world.speeds() == [1]
    world.gateway.mode = "unwilling"
    world.agent.offer(speed(2), world.now)
    world.run(100)
    assert world.agent.counters["refused"] == 1
    assert "4.00 no" in world.agent.why
    world.gateway.mode = "up"
    world.agent.offer(speed(3), world.now)
    world.run(100)
    assert world.speeds() == [1, 3]


def test_a_journal_that_is_full_drops_the_oldest_and_counts():
    world = World(flash=EmulatedFlash(3, 256))
    world.run(100)
    world.gateway.mode = "away"
    for rate in range(60):
        world.agent.offer(speed(rate), world.now)
        world.run(200)
    assert world.agent.dropped > 0
    world.gateway.mode = "up"
    world.run(200000)
    speeds = world.speeds()
    assert speeds[-1] == 59
    assert speeds == sorted(set(speeds))
    world.agent.offer(Event("Big", (("text", "x" * 300),)), world.now)
    assert world.agent.counters["too long"] == 1
    world.check()


def test_rules_are_pushed_down():
    world = World()
    world.run(100)
    assert world.gateway.observer is not None
    data = world.gateway.push([{"subject": "Speed", "field": "rate", "delta": 5}])
    world.agent.client.receive_data(data, world.now)
    for rate in (1, 2, 3, 6, 7, 11.5, 1):
        world.agent.offer(speed(rate), world.now)
        world.run(20)
    assert world.speeds() == [1, 6, 11.5, 1]
    world.agent.client.receive_data(world.gateway.push([{"subject": "Speed", "field": "rate", "delta": 5}]), world.now)
    world.agent.offer(speed(2), world.now)
    world.run(20)
    assert world.speeds() == [1, 6, 11.5, 1]
    for bad in ("[", "{}", '[{"subject": 3}]', '[{"subject": "x", "delta": 1}]', "[" + '{"subject": "x"},' * 40 + "1]"):
        world.agent.client.receive_data(world.gateway.push(bad), world.now)
        world.run(20)
    assert world.agent.counters["rules refused"] == 5
    world.agent.client.receive_data(world.gateway.push([], "car-8"), world.now)
    world.run(20)
    assert world.agent.counters["rules set"] == 1
    world.agent.offer(speed(2), world.now)
    world.run(20)
    assert len(world.speeds()) == 4
    world.agent.client.receive_data(world.gateway.push([{"subject": "Speed", "every_ms": 1000}]), world.now)
    for rate in (21, 22, 23):
        world.agent.offer(speed(rate), world.now)
        world.run(20)
    assert world.speeds()[4:] == [21]
    world.run(1000)
    assert world.speeds()[4:] == [21, 23]
    # The gateway was started again, and knows nothing of us.
    world.gateway.observer = None
    world.run(130000)
    assert world.gateway.observer is not None


def test_only_what_is_wanted_goes_up():
    tables = {"agent": dict(TABLES["agent"], health_s=60), "rule": [{"subject": "Speed", "field": "rate", "delta": 50}]}
    world = World(tables)
    agent, gateway = world.agent, world.gateway
    agent.offer(speed(1), 0)  # nobody has said anything yet
    world.run(100)
    assert world.speeds() == [1]

    def offer(*rates):
        before = len(world.speeds())
        for rate in rates:
            agent.offer(speed(rate), world.now)
            world.run(20)
        return world.speeds()[before:]

    agent.client.receive_data(gateway.want("subject = 'Speed' AND rate > 30"), world.now)
    # What is not wanted is nothing to the rule: the first that is goes, however near it is to what was not.
    assert offer(2, 29, 31, 32, 30, 82) == [31, 82]
    assert agent.counters["unwanted"] == 3
    # A second subscriber: the first value goes at once, and no door that nobody asks for.
    agent.client.receive_data(gateway.want("(subject = 'Speed' AND rate > 30) OR subject = 'Temp'"), world.now)
    assert offer(83, 84, 5) == [83]
    agent.offer(Event("Door"), world.now)
    agent.offer(Event("Temp"), world.now)
    world.run(20)
    assert [event.subject for event in gateway.taken[-1:]] == ["Temp"]
    # The same again changes nothing; nobody wants anything; health goes all the same.
    agent.client.receive_data(gateway.want(gateway.wants), world.now)
    assert offer(83) == []
    agent.client.receive_data(gateway.want("FALSE"), world.now)
    assert offer(99, 10) == []
    said = len(gateway.taken)
    world.run(60000)
    assert [event.subject for event in gateway.taken[said:]] == ["AgentHealth"]
    # What the agent adds counts: it knows the time.
    agent.client.receive_data(gateway.want("$Time > 1700000000000"), world.now)
    assert offer(20) == [20]
    # What is not understood wants everything.
    agent.client.receive_data(gateway.want("rate >"), world.now)
    assert offer(100) == [100]
    assert agent.wanted.refused == 1
    counters = agent.counters
    rules = agent.rules.rules[0]
    assert counters["offered"] == counters["unwanted"] + rules.withheld + counters["accepted"] - counters["own"]


def test_what_is_wanted_is_known_after_an_outage_and_of_a_gateway_without():
    world = World()
    world.gateway.wants = "subject = 'Temp'"
    world.run(100)
    world.agent.offer(speed(1), world.now)
    world.run(100)
    assert world.speeds() == []
    # Silent for long: asked again.
    asked = world.gateway.asked
    world.run(31000)
    assert world.gateway.asked > asked
    # It is away, and what it wanted last holds; another one is there in its place, which says so when it is asked.
    world.gateway.mode = "away"
    world.gateway.wants = "subject = 'Speed'"
    world.agent.offer(speed(2), world.now)
    world.agent.offer(Event("Temp"), world.now)
    world.run(10000)
    asked = world.gateway.asked
    world.gateway.mode = "up"
    while not [event for event in world.gateway.taken if event.subject == "Temp"]:
        world.run(10)
    world.run(100)
    assert world.gateway.asked > asked
    world.agent.offer(speed(3), world.now)
    world.run(100)
    assert world.speeds() == [3]
    world = World()
    world.gateway.mode = "old"
    world.run(100)
    world.agent.offer(speed(1), world.now)
    world.run(100)
    assert world.speeds() == [1]
    world.gateway.mode, world.gateway.wants = "up", "FALSE"
    world.run(60000)
    world.agent.offer(speed(2), world.now)
    world.run(100)
    assert world.speeds() == [1]


def test_health():
    record = BootGuard(None).failed("it fell")
    guard = BootGuard(record)
    guard.begin()
    tables = {"agent": dict(TABLES["agent"], health_s=60)}
    world = World(tables, guard=guard)
    world.agent.free = lambda: 12345
    world.run(130000)
    said = [event for event in world.gateway.taken if event.subject == "AgentHealth"]
    assert [event["uptime_s"] for event in said] == [0, 60, 120]
    assert (said[0]["agent"], said[0]["version"], said[0]["mode"], said[0]["boots"]) == ("car-7", "1.2", "normal", 1)
    assert (said[0]["why"], said[0]["free"]) == ("it fell", 12345)
    world.gateway.mode = "away"
    world.run(1500000)
    assert world.agent.journal.stored == 8


def test_subjects_of_all_lengths():
    for length in (1, 22, 23, 24, 100, 255):
        subject = "ä" * (length // 2) + "x" * (length % 2)
        assert subject_of(wire.encode(Event(subject, (), (), "p", 1))) == subject
