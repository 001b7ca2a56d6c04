"""Updates over the air on either interpreter: an agent, a gateway of a few lines, slots whose files are in memory, and
releases that fail in all the ways there are."""

import json
import sys
from binascii import hexlify
from hashlib import sha256

from vicinal import p256, release, wire
from vicinal.coap.message import ACK, CON, Message, decode, encode, uint
from vicinal.errors import LocalProtocolError, RemoteProtocolError
from vicinal.event import Event
from vicinal_edge.agent.config import Config
from vicinal_edge.agent.core import Agent
from vicinal_edge.agent.journal import Journal
from vicinal_edge.agent.kept import is_lean
from vicinal_edge.agent.slots import Choice
from vicinal_edge.agent.updater import Updater
from vicinal_hw.flash.emulated import EmulatedFlash

# Whose releases the device takes, and somebody else. A private key is a number; this one is for tests alone.
PRIVATE = 0x5EC2E7
OTHER = 0x0DD
MPY = 6
# Of the writes of an update, at how many the power is cut; test_agent.py says each where there is time.
EVERY = 6 if sys.implementation.name == "micropython" else 3


def hexed(data):
    return str(hexlify(data), "ascii")


def point(private):
    at = (1, 1, 0)
    for bit in range(255, -1, -1):
        at = p256._double(at)
        if private >> bit & 1:
            at = p256._add(at, p256._G)
    return p256._affine(at)


def public(private):
    x, y = point(private)
    return ("03" if y & 1 else "02") + hexed(x.to_bytes(32, "big"))


KEY = public(PRIVATE)
_R = point(0x1234567890ABCDEF)[0] % p256._N
_INVERSE = pow(0x1234567890ABCDEF, p256._N - 2, p256._N)


def sign(data, private=PRIVATE):
    """With a number that must never be used twice, and is: nobody's secret depends on it."""
    z = int.from_bytes(sha256(data).digest(), "big")
    s = _INVERSE * (z + _R * private) % p256._N
    return _R.to_bytes(32, "big") + s.to_bytes(32, "big")


def manifest_of(version, files, changed=()):
    head = {"back": None, "board": "any", "bytes": 0, "files": len(files), "format": 1, "mpy": MPY, "version": version}
    head["bytes"] = sum([len(files[name]) for name in files])
    head.update(dict(changed))
    ordered = ",".join([json.dumps(key) + ":" + json.dumps(head[key]) for key in sorted(head)])
    lines = ["{" + ordered + "}"]
    for name in sorted(files):
        lines.append(json.dumps([name, len(files[name]), hexed(sha256(files[name]).digest())]))
    return "".join([line + "\n" for line in lines]).encode()


def signed(manifest, private=PRIVATE):
    return hexed(sign(manifest, private)).encode() + b"\n" + manifest


FILES = {
    "lib/vicinal/__init__.mpy": b"M\x06" + b"0.2.0",
    "lib/vicinal/event.mpy": b"M\x06" + bytes(range(256)) * 9,
    "lib/vicinal/same.mpy": b"M\x06" + b"not changed" * 50,
    "lib/vicinal_edge/agent/main.mpy": b"M\x06" + b"x" * 1500,
}


class Gateway:
    """Answers datagrams: /release and what is below, /ps, /time; one block at a time, and nothing while it is away."""

    def __init__(self):
        self.bodies = {}
        """what GET on a path answers; of /release the signed manifest"""
        self.version = None
        """of the release; it is not offered to who runs it"""
        self.away = False
        self.events = []
        self.asked = []
        self.blocks = 0
        self.on_block = None
        self.observers = {}
        self.order = None

    def offer(self, manifest, files, private=PRIVATE):
        self.version = json.loads(manifest.split(b"\n")[0])["version"]
        self.bodies["release"] = signed(manifest, private)
        for name in files:
            self.bodies["release/" + hexed(sha256(files[name]).digest())] = files[name]

    def answer(self, data):
        message = decode(data)
        if self.away or message.code == 0:
            return None
        path = "/".join([str(value, "utf-8") for number, value in message.options if number == 11])
        if message.code == 3:
            self.events.append(wire.decode(message.payload))
            return encode(Message(ACK, 0x44, message.mid, message.token))
        if message.uint(6) is not None:
            self.observers[path] = message.token
            payload = wire.encode(self.order) if path == "ps/AgentUpdate" and self.order is not None else b""
            options = [(6, uint(1)), (12, uint(60))]
            return encode(Message(ACK, 0x45, message.mid, message.token, options, payload))
        if path == "time":
            return encode(Message(ACK, 0x45, message.mid, message.token, [], b"1700000000000"))
        block = message.uint(23) or 0
        if block >> 4 == 0:
            queries = [str(value, "utf-8") for number, value in message.options if number == 15]
            whole = path + "".join(["?" + query for query in queries])
            # A device asks whether there is a release, and then for it.
            if path != "release" or self.asked[-1:] != [whole] or f"version={self.version}" in queries:
                self.asked.append(whole)
        self.blocks += 1
        if self.on_block is not None:
            self.on_block(path, block >> 4)
        if self.away:
            return None
        body = self.bodies.get(path)
        if path == "release" and body is not None and self.version is not None:
            if f"version={self.version}".encode() in [value for number, value in message.options if number == 15]:
                body = None  # it runs already
        if body is None:
            return encode(Message(ACK, 0x84, message.mid, message.token, [], b"no such thing here"))
        size = 16 << (block & 7)
        at = (block >> 4) * size
        more = at + size < len(body)
        options = [(4, sha256(body).digest()[:8]), (23, uint(block & ~15 | more << 3 | block & 7))]
        return encode(Message(ACK, 0x45, message.mid, message.token, options, body[at : at + size]))


class PowerCut(Exception):
    pass


class MemorySlots:
    """The decisions of slots.py, and files in dicts."""

    def __init__(self, version, files):
        self.choice = Choice()
        self.choice.good = "a"
        self.choice.versions["a"] = version
        self.held = {"a": dict(files), "b": {}}
        self.whole = ["a"]
        self.active = None
        self.cut = None
        """writes until the power goes"""
        self.room = 100000
        self.full_at = None

    trying = property(lambda self: self.choice.trying)
    good = property(lambda self: self.choice.good)
    other = property(lambda self: "b" if self.choice.good == "a" else "a")

    @property
    def outcome(self):
        choice = self.choice
        if not choice.result:
            return None
        return {"version": choice.version, "result": choice.result, "why": choice.why}

    def spend(self):
        if self.cut is not None:
            self.cut -= 1
            if self.cut < 0:
                raise PowerCut()

    def begin(self, cause=""):
        self.active = self.choice.begin(list(self.whole), cause)[0]
        return self.active

    def confirm(self):
        self.choice.confirm()

    def failed(self, why):
        self.choice.failed(why)

    def switch(self, slot):
        self.spend()
        assert slot in self.whole
        self.choice.switch(slot)


class MemoryFiles:
    """update_files.py, in memory."""

    def __init__(self, slots):
        self.slots = slots
        self.slot = slots.other
        self.name = None

    def sha256(self):
        return sha256()

    @property
    def held(self):
        return self.slots.held[self.slot]

    def begin_manifest(self):
        self.begin("manifest")

    def begin(self, name):
        self.slots.spend()
        self.name = name
        self.held[name] = b""

    def write(self, data):
        self.slots.spend()
        if self.slots.full_at is not None and self.used() + len(data) > self.slots.full_at:
            raise OSError(28)
        self.held[self.name] += data

    def used(self):
        return sum([len(data) for data in self.held.values()])

    def close(self):
        self.name = None

    def copy(self, name):
        self.begin(name)
        self.write(self.slots.held[self.slots.active][name])
        self.close()

    def remove(self, name):
        self.held.pop(name, None)

    def first_line(self):
        return self.held["manifest"].split(b"\n")[0] + b"\n"

    def lines(self):
        for line in self.held["manifest"].split(b"\n")[1:-1]:
            yield line + b"\n"

    def digest(self, name, running=False):
        data = self.slots.held[self.slots.active if running else self.slot].get(name)
        return (-1, b"") if data is None else (len(data), sha256(data).digest())

    def room_of(self, file):
        return file.size

    def expect(self, file):
        self.expected = file.name

    def free(self):
        return self.slots.room

    def clear(self):
        self.slots.spend()
        self.slots.choice.drop(self.slot)
        if self.slot in self.slots.whole:
            self.slots.whole.remove(self.slot)
        names = [release.file_of(line).name for line in self.lines()] + ["manifest"]
        for name in list(self.held):
            if name not in names:
                del self.held[name]

    def seal(self, version, files):
        self.slots.spend()
        for file in files:
            assert self.digest(file.name) == (file.size, file.digest)
        self.slots.choice.versions[self.slot] = version
        self.slots.whole.append(self.slot)

    def switch(self):
        self.slots.switch(self.slot)


class Device:
    """What survives a restart, and a boot of it. `behaviour` says what releases do when they run."""

    def __init__(self, changed=()):
        settings = {"key": KEY, "board": "esp32", "every_s": 600, "healthy_s": 10, "patience_s": 40, "retry_s": 5}
        settings.update(dict(changed))
        agent = {"name": "car-7", "gateway": "coap://127.0.0.1:5683", "health_s": 0}
        self.config = Config({"agent": agent, "update": settings})
        self.gateway = Gateway()
        self.slots = MemorySlots("0.1.0", {"lib/vicinal/same.mpy": FILES["lib/vicinal/same.mpy"], "lib/old.mpy": b"o"})
        self.flash = EmulatedFlash(8, 1024)
        self.record = "null"
        self.behaviour = {}
        self.boots = []
        self.now = 0
        self.works = True
        self.crowded = ""
        """what leaves no room in memory for an update: its ports, or all there is"""
        self.updater = None

    def boot(self, cause=""):
        """As slots.boot() does; gives when a release runs."""
        while True:
            slot = self.slots.begin(cause)
            version = self.slots.choice.versions[slot]
            self.boots.append(version)
            assert len(self.boots) < 16, self.boots
            what = self.behaviour.get(version, "")
            if what.startswith("hang"):
                cause = "it hung, and the watchdog ended it"
            elif what.startswith("crash "):
                self.slots.failed(what[6:])
                cause = ""
            else:
                break
        self.now += 1000
        self.agent = Agent(self.config, Journal(self.flash), b"abcdefgh", version, self.now)
        self.works = what != "half"
        self.deaf = what == "deaf"
        record = json.loads(self.record)
        self.lean = is_lean(record) and self.slots.trying is None
        if self.lean:
            record["lean"] = False  # as kept.take_lean does
        self.agent.free = lambda: 10000 if self.crowded == "ports" and not self.lean else 40000

        def keep(record):
            self.slots.spend()
            self.record = json.dumps(record)

        def made():
            if self.crowded == "all":
                raise MemoryError()
            return MemoryFiles(self.slots)

        self.updater = Updater(self.agent, self.config.update, self.slots, record, keep, made, MPY, self.now, self.lean)
        self.dies_at = self.now + 5000 if what.startswith("later ") else None
        self.why = what[6:]
        return version

    def turn(self):
        agent = self.agent
        due = min(agent.service(self.now), self.updater.service(self.now, self.works))
        while True:
            data = agent.client.data_to_send()
            if data is None:
                break
            reply = None if self.deaf else self.gateway.answer(data)
            if reply is not None:
                agent.client.receive_data(reply, self.now)
        timeout = agent.client.next_timeout()
        if timeout is not None:
            due = min(due, timeout)
            if timeout <= self.now:
                agent.client.handle_timeout(self.now)
        self.now = max(self.now + 20, min(due, self.now + 500))  # the pace of a loop
        if self.dies_at is not None and self.now >= self.dies_at:
            self.slots.failed(self.why)
            self.boot()
        elif self.updater.restart:
            self.boot()

    def run(self, ms):
        if self.updater is None:
            self.boot()
        end = self.now + ms
        while self.now < end:
            try:
                self.turn()
            except PowerCut:
                self.slots.cut = None
                self.boot()
        return self

    def tell(self, version=None, seq=1):
        params = [("agent", "car-7")] + ([] if version is None else [("version", version)])
        self.gateway.order = Event("AgentUpdate", params, (), "office", seq)
        options = [(6, uint(1 + seq)), (12, uint(60))]
        token = self.gateway.observers["ps/AgentUpdate"]
        note = Message(CON, 0x45, 7000 + seq, token, options, wire.encode(self.gateway.order))
        self.agent.client.receive_data(encode(note), self.now)

    @property
    def said(self):
        """Of the last update, in its last word on how it is."""
        health = [event for event in self.gateway.events if event.subject == "AgentHealth"]
        last = health[-1]
        return last["version"], last.get("update"), last.get("update_result"), last.get("update_why") or ""

    def came_back(self, result, why, version="0.1.0"):
        """It runs what it ran before, says how it ended and why, and nothing of the running slot has changed."""
        running, _, ended, reason = self.said
        assert (running, ended) == (version, result), self.said
        assert why in reason, self.said
        assert self.slots.choice.good == "a"
        assert self.slots.held["a"] == {"lib/vicinal/same.mpy": FILES["lib/vicinal/same.mpy"], "lib/old.mpy": b"o"}


def offered(changed=(), version="0.2.0", files=None, private=PRIVATE, settings=()):
    device = Device(settings)
    files = FILES if files is None else files
    device.gateway.offer(manifest_of(version, files, changed), files, private)
    return device


def test_a_release_comes_runs_and_is_confirmed():
    device = offered().run(60000)
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")
    assert device.boots == ["0.1.0", "0.2.0"]
    assert device.slots.choice.good == "b"
    held = dict(device.slots.held["b"])
    held.pop("manifest")
    assert held == FILES
    gateway = device.gateway
    assert gateway.asked[0] == "release?board=esp32?version=0.1.0"
    # What the running slot has alike was copied; the others were fetched once.
    assert len([path for path in gateway.asked if path.startswith("release/")]) == 3
    results = [event.get("update_result") for event in gateway.events if event.subject == "AgentHealth"]
    assert results[-2:] == ["on trial", "confirmed"]
    # Nothing newer: it is asked again in its time, and nothing happens.
    device.run(700000)
    assert gateway.asked[4:] == ["release?board=esp32?version=0.2.0"] * 2  # at its start, and after 600 s
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")
    assert len(device.boots) == 2


def test_the_next_release_uses_the_other_slot():
    device = offered().run(60000)
    files = dict(FILES)
    files["lib/vicinal/__init__.mpy"] = b"M\x06" + b"0.3.0"
    device.gateway.offer(manifest_of("0.3.0", files), files)
    before = len(device.gateway.asked)
    device.run(700000)
    assert device.said == ("0.3.0", "0.3.0", "confirmed", "")
    assert device.slots.choice.good == "a"
    assert "lib/old.mpy" not in device.slots.held["a"]
    fetched = [path for path in device.gateway.asked[before:] if path.startswith("release/")]
    assert fetched == ["release/" + hexed(sha256(files["lib/vicinal/__init__.mpy"]).digest())]


def test_it_is_told():
    device = offered((), "0.2.0", None, PRIVATE, {"every_s": 0}).run(30000)
    assert device.gateway.asked == []
    device.tell("0.2.0")
    device.run(60000)
    assert device.gateway.asked[0] == "release?board=esp32?want=0.2.0"
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")
    count = len(device.gateway.asked)
    # Told again by a gateway that is observed anew: the same order changes nothing.
    device.tell("0.2.0")
    device.run(300000)
    assert len(device.gateway.asked) == count
    # Another order for what runs already is answered.
    device.tell("0.2.0", 2)
    device.run(20000)
    assert device.said == ("0.2.0", "0.2.0", "refused", "0.2.0 is running already")
    device.gateway.bodies = {}
    device.tell(None, 3)
    device.run(20000)
    assert device.said[2:] == ("refused", "4.04 no such thing here")
    # An order for somebody else, or for nobody, is none.
    for params in ((("agent", "car-8"), ("version", "1")), (("version", "1"),)):
        device.updater._told(Event("AgentUpdate", params, (), "office", 9), device.now)
    device.run(20000)
    assert device.gateway.asked[-1] == "release?board=esp32?version=0.2.0"


def test_an_order_that_is_no_version():
    """Any client of the gateway may say it: it is refused, and the next start knows nothing of it."""
    device = offered((), "0.2.0", None, PRIVATE, {"every_s": 0}).run(10000)
    for number, text in enumerate(("latest", "\U0001f697" * 100, "1" * 28)):
        device.tell(text, number + 1)
        device.run(20000)
        device.came_back("refused", "no version")
        assert json.loads(device.record)["want"] is None
    device.record = json.dumps({"want": "\U0001f697" * 100})
    device.boot()
    device.run(60000)
    assert device.gateway.asked == []
    device.tell("0.2.0", 9)
    device.run(60000)
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")


def test_a_release_by_cable_that_is_on_trial_is_left_alone():
    """It lies where the next one would go: what is offered waits until it is good."""
    device = offered()
    device.slots.held["b"], device.slots.whole = {"lib/cable.mpy": b"M"}, ["a", "b"]
    device.slots.choice.versions["b"] = "0.1.5"
    device.slots.switch("b")
    device.boot()
    device.run(60000)
    assert device.gateway.asked == []
    assert device.slots.held["b"] == {"lib/cable.mpy": b"M"}
    device.slots.confirm()
    device.run(90000)
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")


def test_events_go_first():
    """Between two blocks of a file."""
    files = dict(FILES)
    files["lib/large.mpy"] = b"M\x06" + bytes(40000)
    device = offered((), "0.2.0", files)
    blocks = []

    def block(path, number):
        if path.startswith("release/") and number == 10:
            blocks.append(len(device.gateway.events))
            device.agent.offer(Event("Speed", (("rate", 50),)), device.now)
        elif number == 11:
            blocks.append(len(device.gateway.events))

    device.gateway.on_block = block
    device.run(60000)
    assert blocks[1] == blocks[0] + 1
    assert device.said[2] == "confirmed"


# Bad firmware: the release is fetched, runs, and fails


def fails_on_trial(behaviour, why):
    device = offered()
    device.behaviour["0.2.0"] = behaviour
    device.run(300000)
    assert device.boots == ["0.1.0", "0.2.0", "0.2.0", "0.1.0"]
    device.came_back("went back", why)
    assert device.said[1] == "0.2.0"
    # It is not tried again by itself ...
    device.run(2000000)
    assert len(device.boots) == 4
    device.came_back("went back", why)
    # ... but when somebody says so; and a mended release at once.
    device.behaviour = {}
    device.tell("0.2.0")
    device.run(100000)
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")


def test_crash_at_import():
    fails_on_trial("crash ImportError: no module named 'x'", "ImportError: no module named 'x'")


def test_syntax_and_bytecode_of_another_version():
    fails_on_trial("crash ValueError: incompatible .mpy file", "incompatible .mpy file")


def test_memory_error_at_import():
    fails_on_trial("crash MemoryError: memory allocation failed", "MemoryError")


def test_hang_before_the_loop():
    fails_on_trial("hang", "it hung, and the watchdog ended it")


def test_an_exception_after_some_seconds():
    fails_on_trial("later KeyError: 'rate'", "KeyError: 'rate'")


def test_it_never_reaches_the_network():
    fails_on_trial("deaf", "it did not reach the gateway within 40 s")


def test_a_part_of_it_never_works():
    fails_on_trial("half", "not all of its parts work within 40 s")


def test_a_mended_release_of_the_same_version_is_tried():
    device = offered()
    device.behaviour["0.2.0"] = "hang"
    device.run(300000)
    device.came_back("went back", "hung")
    device.behaviour = {}
    files = dict(FILES)
    files["lib/mended.mpy"] = b"M\x06!"
    device.gateway.offer(manifest_of("0.2.0", files), files)
    device.run(700000)
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")


# Bad releases: refused before they run


def is_refused(device, why, fetched=None):
    device.run(60000)
    device.came_back("refused", why)
    assert set(device.boots) == {"0.1.0"}
    if fetched is not None:
        assert len([path for path in device.gateway.asked if path.startswith("release/")]) == fetched
    return device


def test_wrong_key():
    is_refused(offered((), "0.2.0", None, OTHER), "the signature is not of the key that this device has", 0)


def test_tampered_manifest():
    for old, new in ((b'"0.2.0"', b'"0.9.0"'), (b"event", b"evenT"), (b"\n[", b"\n [")):
        device = offered()
        body = device.gateway.bodies["release"]
        assert old in body
        device.gateway.bodies["release"] = body.replace(old, new, 1)
        is_refused(device, "the signature is not of the key", 0)
    for cut in (b"", b"x", b"x" * 129, signed(manifest_of("0.2.0", FILES))[:-1]):
        device = offered()
        device.gateway.bodies["release"] = cut
        is_refused(device, "the signature is not of the key", 0)


def file_key(name):
    return "release/" + hexed(sha256(FILES[name]).digest())


def test_tampered_file():
    device = offered()
    data = FILES["lib/vicinal/event.mpy"]
    device.gateway.bodies[file_key("lib/vicinal/event.mpy")] = data[:-1] + b"\x00"
    is_refused(device, "lib/vicinal/event.mpy: its hash is not the one")
    assert "lib/vicinal/event.mpy" not in device.slots.held["b"]


def test_truncated_and_lengthened_files():
    data = FILES["lib/vicinal/event.mpy"]
    for wrong in (data[:-1], data[:600], b"", data + b"x", data + bytes(5000)):
        device = offered()
        device.gateway.bodies[file_key("lib/vicinal/event.mpy")] = wrong
        is_refused(device, f"lib/vicinal/event.mpy: it has {len(wrong)} bytes, the release says {len(data)}")


def test_missing_file_and_a_release_that_is_withdrawn():
    device = offered()
    del device.gateway.bodies[file_key("lib/vicinal_edge/agent/main.mpy")]
    is_refused(device, "lib/vicinal_edge/agent/main.mpy: 4.04 no such thing here")
    device = offered()

    def block(path, number):
        if path == file_key("lib/vicinal/event.mpy") and number == 2:
            device.gateway.bodies = {}

    device.gateway.on_block = block
    is_refused(device, "4.04 no such thing here", 2)
    # When it is there again, what has come is not fetched again.
    device.gateway.on_block = None
    device.gateway.offer(manifest_of("0.2.0", FILES), FILES)
    device.run(700000)
    assert device.said[:3] == ("0.2.0", "0.2.0", "confirmed")


def test_too_large():
    device = offered()
    device.slots.room = 3000
    is_refused(device, "bytes of flash, 3000 are free", 0)
    files = {f"lib/f{n:03}.mpy": b"M\x06" for n in range(300)}
    is_refused(offered((), "0.2.0", files), "the release says 300 of what may be 1 .. 256", 0)
    device = offered()
    device.gateway.bodies["release"] = bytes(70000)
    is_refused(device, "what it says of itself has 70000 bytes, the limit is 65536", 0)


def test_wrong_board_and_bytecode():
    is_refused(offered({"board": "esp32s3"}), "it is for board esp32s3, this is esp32", 0)
    is_refused(offered({"mpy": 5}), "its bytecode is of version 5, this firmware has 6", 0)
    is_refused(offered({"format": 2}), "a release of format 2, this agent knows 1", 0)
    assert offered({"board": "esp32"}).run(60000).said[2] == "confirmed"


def test_older_versions_and_going_back():
    is_refused(offered((), "0.0.9"), "0.1.0 is running, which is newer", 0)
    is_refused(offered({"back": "0.0.99"}, "0.0.9"), "it may replace 0.0.99 and older, 0.1.0 is running", 0)
    device = offered({"back": "0.1.0"}, "0.0.9").run(60000)
    assert device.said == ("0.0.9", "0.0.9", "confirmed", "")
    device = offered((), "0.1.0").run(60000)
    assert device.said == ("0.1.0", None, None, "")
    for one, other, newer in (
        ("0.2", "0.1.9", True),
        ("0.10.0", "0.9.0", True),
        ("1", "1.0.0", False),
        ("0.1.0.1", "0.1", True),
    ):
        assert release.is_newer(one, other) == newer
        assert not release.is_newer(other, one)


def test_what_is_signed_and_not_in_order():
    for names in ("main.py", "lib/../main.py", "lib//x", "/lib/x", "lib/" + "x" * 120, "lib/a b", "agent.json"):
        is_refused(offered((), "0.2.0", {names: b"M\x06"}), "which is no name for one", 0)
    is_refused(offered({"bytes": 17}), "it says 4 files of 17 bytes, and names 4 of", 0)
    device = offered()
    lines = manifest_of("0.2.0", FILES).split(b"\n")
    device.gateway.bodies["release"] = signed(b"\n".join([lines[0], lines[2], lines[1], lines[3], lines[4], b""]))
    is_refused(device, "the files are not in order", 0)
    for bad in (b"", b"{}\n", b"[]\n", b"\xff\n", b"{" * 300 + b"\n"):
        device = offered()
        device.gateway.bodies["release"] = signed(bad)
        device.run(60000)
        assert device.said[2] == "refused", bad
    for line in (
        b'["lib/x",1]\n',
        b'["lib/x",-1,"00"]\n',
        b'["lib/x",true,"00"]\n',
        b'["lib/x",1,"zz"]\n',
        b'["lib/x",1,7]\n',
    ):
        try:
            release.file_of(line)
            raise AssertionError(line)
        except RemoteProtocolError:
            pass


# What is cut off goes on


def test_power_cut_at_every_write():
    """Of an update: whenever it is, the device runs, and has the new release in the end."""
    device = offered()
    device.slots.cut = 1000000
    device.run(60000)
    assert device.said[2] == "confirmed"
    writes = 1000000 - device.slots.cut
    assert writes > 15
    for cut in range(0, writes, EVERY):
        device = offered()
        device.slots.cut = cut
        device.run(150000)
        assert device.said == ("0.2.0", "0.2.0", "confirmed", ""), (cut, device.said)
        assert device.slots.choice.good == "b"
        assert set(device.boots) == {"0.1.0", "0.2.0"}


def test_what_is_there_is_not_fetched_again():
    device = offered()
    device.run(1)

    def block(path, number):
        if path == file_key("lib/vicinal_edge/agent/main.mpy"):
            device.slots.cut = 0

    device.gateway.on_block = block
    while len(device.boots) < 2:
        device.run(100)
    device.gateway.on_block = None
    device.run(60000)
    assert device.said[2] == "confirmed"
    fetched = [path for path in device.gateway.asked if path == file_key("lib/vicinal/event.mpy")]
    assert len(fetched) == 1


def test_the_gateway_goes_half_way():
    device = offered()

    def block(path, number):
        if path == file_key("lib/vicinal/event.mpy") and number == 2:
            device.gateway.away = True

    device.gateway.on_block = block
    device.run(200000)
    device.gateway.on_block, device.gateway.away = None, False
    device.run(100000)
    assert "interrupted" in [event.get("update_result") for event in device.gateway.events]
    device.run(100000)
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")


def test_ports_that_leave_no_room_in_memory():
    """It starts without them, updates, and the new release has them."""
    device = offered()
    device.crowded = "ports"
    device.run(90000)
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")
    assert device.boots == ["0.1.0", "0.1.0", "0.2.0"]
    assert not device.lean
    # Refused there, it works on with its ports.
    device = offered((), "0.2.0", None, OTHER)
    device.crowded = "ports"
    device.run(60000)
    device.came_back("refused", "the signature")
    assert device.boots == ["0.1.0"] * 3
    assert not device.lean
    # While it is offered that is not done again and again.
    device.run(6000000)
    assert len(device.boots) == 7
    device.came_back("refused", "the signature")
    # Nothing to fetch, nothing to load.
    device = Device()
    device.crowded = "ports"
    device.run(2000000)
    assert device.boots == ["0.1.0"]
    # Without them there is no room either.
    device = offered()
    device.crowded = "all"
    device.run(6000000)
    device.came_back("interrupted", "it has no room in memory")
    assert len(device.boots) == 7
    device.crowded = ""
    device.tell("0.2.0")
    device.run(60000)
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")


def test_a_full_file_system():
    device = offered()
    device.slots.full_at = 2000
    device.run(20000)
    device.came_back("interrupted", "flash: ")
    device.slots.full_at = None
    device.run(60000)
    assert device.said == ("0.2.0", "0.2.0", "confirmed", "")


def test_without_slots_or_key_it_says_why():
    for settings, slots, why in (
        (False, False, "pip or apt"),
        (True, False, "pip or apt"),
        (False, True, "no [update]"),
    ):
        device = Device()
        device.boot()
        given = device.config.update if settings else None
        held = device.slots if slots else None
        device.updater = Updater(device.agent, given, held, None, lambda record: None, dict, None, device.now)
        device.run(5000)
        device.tell("0.2.0")
        device.run(5000)
        assert device.said[:3] == ("0.1.0", "0.2.0", "refused")
        assert why in device.said[3]
        assert device.gateway.asked == []


def test_settings():
    for changed, text in (
        ({"key": "02ab"}, "[update]: key is no key"),
        ({"key": KEY[:-1]}, "[update]: key is no key"),
        ({"patience_s": 5}, "patience_s is 5, want more than healthy_s"),
        ({"kex": 1}, "kex is not known here"),
        ({"every_s": -1}, "every_s is -1, want 0 .. 2592000"),
    ):
        try:
            Device(changed)
            said = "nothing was raised"
        except LocalProtocolError as error:
            said = str(error)
        assert text in said, said


# Signatures


def test_signatures():
    key = p256.key_of(KEY)
    assert key == point(PRIVATE)
    digest = sha256(b"release").digest()
    good = sign(b"release")
    assert p256.verify(key, digest, good)
    check, steps = p256.Check(key, digest, good), 0
    while check.step() is None:
        steps += 1
    assert steps == 31
    assert check.step() is True
    zero, order = bytes(32), p256._N.to_bytes(32, "big")
    for bad in (
        b"",
        good[:-1],
        good + b"\x00",
        zero + good[32:],
        good[:32] + zero,
        order + good[32:],
        good[:32] + order,
    ):
        assert not p256.verify(key, digest, bad)
    for at in (0, 31, 32, 63):
        changed = bytearray(good)
        changed[at] ^= 1
        assert not p256.verify(key, digest, bytes(changed))
    assert not p256.verify(key, sha256(b"Release").digest(), good)
    assert not p256.verify(key, digest[:-1], good)
    assert not p256.verify(p256.key_of(public(OTHER)), digest, good)
    # Keys for which adding is doubling, or ends at infinity.
    for private in (1, 2, 3, p256._N - 1, p256._N - 2):
        assert p256.verify(point(private), digest, sign(b"release", private))
        assert not p256.verify(point(private), sha256(b"Release").digest(), sign(b"release", private))
    for text in ("", "00", "04" + KEY[2:], KEY + "00", "02" + "ff" * 32, "02" + "00" * 31 + "01", "zz" * 33):
        try:
            p256.key_of(text)
            raise AssertionError(text)
        except LocalProtocolError:
            pass
