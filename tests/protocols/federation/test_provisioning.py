"""A gateway that is configured from afar: it never ends without a configuration that works (spec/provisioning.md).

A world of a disk, a process that may be killed between any two actions, and a fleet; configurations are of several
kinds of evil.
"""

import json
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_helpers import spec
from strategies import cases, values

from vicinal import wire
from vicinal.errors import LocalProtocolError, RemoteProtocolError
from vicinal.event import Event
from vicinal.federation.provisioning import (
    APPLYING,
    ASKING,
    MAX_CONFIG_BYTES,
    ROLLED_BACK,
    SETTLED,
    TRIAL,
    UNNAMED,
    GatewayConfig,
    GatewayHello,
    Provisioning,
    good_name,
)

KINDS = ("fine", "fine", "unusable", "kills", "sick", "deaf", "flaps", "hangs")


class Killed(Exception):
    pass


class World:
    """`kinds` are what the versions are like; the fleet serves the newest that has not failed."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.kinds: dict[int, str] = {0: "fine"}
        self.files: dict[int, bytes] = {}
        self.saved: str = ""
        self.now = 1_000_000
        self.bad: set[int] = set()
        self.link = True
        self.kill_rate = 0.0
        self.kill_at: int | None = None
        self.actions = 0
        self.running: int | None = None
        self.runs: list[int] = []
        self.inbox: list[Event] = []
        self.hellos: list[GatewayHello] = []
        self.names: list[str] = []
        self.turns = 0
        self.gateway = self._new()

    def _new(self) -> Provisioning:
        found = Provisioning("uid-1", json.loads(self.saved) if self.saved else None)
        found.start(self.now)
        return found

    def do(self, work: Callable[[], None]) -> None:
        try:
            work()
            self._act()
        except Killed:
            self.running = None
            self.inbox.clear()
            self.gateway = self._new()

    def _act(self) -> None:
        while (action := self.gateway.next_action()) is not None:
            self.actions += 1
            if self.actions == self.kill_at or self.random.random() < self.kill_rate:
                raise Killed
            self._one(*action)
            self._invariants()

    def _one(self, kind: str, *rest: Any) -> None:
        if kind == "write":
            self.files[rest[0]] = rest[1]
        elif kind == "save":
            self.saved = json.dumps(rest[0])
        elif kind == "remove":
            self.files.pop(rest[0], None)
        elif kind == "name":
            self.names.append(rest[0])
        elif kind == "run":
            self._run(rest[0])
        else:
            self._hello(GatewayHello.from_event(wire.decode(wire.encode(rest[0].stamp("g", self.actions)))))

    def _run(self, version: int) -> None:
        assert version == 0 or version in self.files, f"runs {version}, which is not on disk"
        if version:
            assert self.files[version] == b"text %d" % version
        state = json.loads(self.saved) if self.saved else {}
        assert version in (state.get("candidate", 0) or state.get("good", 0), 0)
        assert version not in state.get("bad", []), f"runs {version}, which has failed"
        self.running = version
        self.runs.append(version)
        evil = self.kinds[version]
        if evil == "unusable":
            self.gateway.unusable(self.now, "it is nonsense")
        elif evil == "kills":
            raise Killed
        elif evil != "hangs":
            self.gateway.started(self.now)

    def _hello(self, hello: GatewayHello) -> None:
        self.hellos.append(hello)
        assert hello.version == self.gateway.running
        if not self.link or self.kinds[hello.version] == "deaf":
            return
        if hello.failed:
            self.bad.add(hello.failed)
        newest = max([0] + [version for version in self.kinds if version and version not in self.bad])
        text = None if newest in (hello.version, 0) else b"text %d" % newest
        answer = GatewayConfig("uid-1", "gw-7", newest, text, hello.failed)
        self.inbox.append(wire.decode(wire.encode(answer.to_event().stamp("fleet", self.actions))))

    def _invariants(self) -> None:
        state = json.loads(self.saved) if self.saved else {"good": 0, "candidate": 0}
        for version in (state["good"], state["candidate"]):
            assert version == 0 or version in self.files, f"{version} is noted and not on disk"
        assert state.get("starts", 0) <= 3

    def step(self, ms: int) -> None:
        """Time, health, what has come."""
        self.now += ms
        for event in [self.inbox.pop(0) for _ in range(len(self.inbox))]:
            self.do(lambda event=event: self.gateway.receive(event, self.now))  # type: ignore[misc]
        evil = self.kinds.get(self.running or 0, "fine")
        self.turns += 1
        problem = "sick" if evil == "sick" or (evil == "flaps" and self.turns % 2) else ""
        self.do(lambda: self.gateway.health(self.now, problem))
        self.do(lambda: self.gateway.handle_timeout(self.now))

    def push(self, kind: str) -> None:
        self.kinds[max(self.kinds) + 1] = kind

    def settle(self, seconds: int = 3000) -> None:
        """Nothing evil from outside any more."""
        self.link, self.kill_rate, self.kill_at = True, 0.0, None
        for _ in range(seconds):
            self.step(1000)


def wanted(world: World) -> int:
    fine = [version for version, kind in world.kinds.items() if kind == "fine" and version not in world.bad]
    return max(fine)


@spec("PROV-6", "PROV-8", "PROV-9", "PROV-10")
@cases(300)
@given(st.integers(0, 1 << 32))
def test_whatever_happens_it_ends_with_a_configuration_that_works(seed: int) -> None:
    world = World(seed)
    chance = world.random
    world.do(lambda: None)
    for _ in range(chance.randrange(1, 6)):
        world.push(chance.choice(KINDS))
        world.kill_rate = chance.choice((0.0, 0.0, 0.05, 0.3))
        world.link = chance.random() < 0.8
        for _ in range(chance.randrange(1, 60)):
            world.step(chance.choice((200, 1000, 5000, 30_000, 300_000)))
    world.settle()
    assert world.gateway.state == SETTLED
    assert world.gateway.good == world.running == wanted(world)
    assert world.kinds[world.running or 0] == "fine"
    assert set(world.files) >= {world.running} - {0}
    assert world.gateway.name == "gw-7"
    # What was fine and failed all the same did so because somebody killed it again and again, or cut it off.
    for version in world.bad:
        assert world.runs.count(version) <= 3 or world.kinds[version] != "kills"
    assert not world.gateway.failed


@spec("PROV-9")
@pytest.mark.parametrize("kinds", [("fine", "unusable", "fine"), ("fine", "kills"), ("sick", "fine"), ("fine", "fine")])
def test_killed_before_each_action_in_turn(kinds: tuple[str, ...]) -> None:
    at = 1
    while True:
        world = World()
        world.kill_at = at
        world.do(lambda: None)
        for kind in kinds:
            world.push(kind)
            for _ in range(700):
                world.step(1000)
        done = world.actions < at
        world.settle()
        assert world.gateway.state == SETTLED
        assert world.running == wanted(world)
        if done:
            break
        at += 1
    assert at > 15


@spec("PROV-4", "PROV-5", "PROV-6", "PROV-7", "PROV-1", "PROV-2")
def test_from_the_first_hello_to_settled() -> None:
    world = World()
    world.push("fine")
    states = []
    world.do(lambda: None)
    for _ in range(200):
        states.append(world.gateway.state)
        world.step(1000)
    order = [state for at, state in enumerate(states) if at == 0 or states[at - 1] != state]
    assert order == [UNNAMED, TRIAL, SETTLED]
    assert world.names == ["gw-7"]
    healths = [(hello.version, hello.health, hello.name) for hello in world.hellos]
    assert healths[0] == (0, "ok", "")
    assert healths[1] == (1, "trial", "gw-7")
    assert (1, "ok", "gw-7") in healths
    assert states.count(TRIAL) >= 60
    assert len(world.hellos) < 10
    again = Provisioning("uid-1", json.loads(world.saved))
    again.start(world.now)
    assert (again.name, again.state, again.running) == ("gw-7", ASKING, 1)


@spec("PROV-7")
def test_a_trial_needs_health_without_a_break_and_an_answer() -> None:
    for evil in ("flaps", "deaf", "hangs", "sick"):
        world = World()
        world.push(evil)
        world.do(lambda: None)
        for _ in range(605):
            world.step(1000)
        assert world.gateway.state in (SETTLED, ROLLED_BACK), evil
        assert world.running == 0
        world.step(1000)
        world.step(1000)
        failed = [hello for hello in world.hellos if hello.failed == 1]
        reasons = {
            "flaps": " within 600 s",
            "deaf": "the fleet did not answer within 600 s",
            "hangs": "it did not start within 600 s",
            "sick": "sick within 600 s",
        }
        assert reasons[evil] in failed[0].health
        assert failed[0].version == 0


@spec("PROV-8", "PROV-10")
def test_a_version_that_kills_is_started_three_times() -> None:
    world = World()
    world.push("fine")
    world.settle(200)
    world.push("kills")
    world.settle(300)
    assert world.runs == [0, 1, 2, 2, 2, 1]
    assert world.gateway.state == SETTLED
    assert any("started 3 times" in hello.health for hello in world.hellos)
    world.bad.clear()  # a fleet that has forgotten it
    world.settle(300)
    assert world.runs == [0, 1, 2, 2, 2, 1]
    assert world.bad == {2}


@spec("PROV-10")
def test_a_failure_is_reported_until_it_is_noted() -> None:
    world = World()
    world.push("unusable")
    world.do(lambda: None)
    world.step(1000)
    world.link = False
    world.hellos.clear()
    for _ in range(200):
        world.step(1000)
    assert world.gateway.state == ROLLED_BACK
    assert len(world.hellos) > 5
    assert {(hello.failed, hello.health) for hello in world.hellos} == {(1, "failed: it is nonsense")}
    world.gateway = Provisioning("uid-1", json.loads(world.saved))
    world.do(lambda: world.gateway.start(world.now))
    assert world.gateway.state == ROLLED_BACK
    late = GatewayConfig("uid-1", "gw-7", 0, None, 0).to_event()
    world.do(lambda: world.gateway.receive(late, world.now))
    assert world.gateway.state == ROLLED_BACK  # an answer to an older hello
    world.settle(100)
    assert world.gateway.state == SETTLED
    assert world.bad == {1}


@spec("PROV-11")
def test_a_good_one_that_works_no_longer() -> None:
    world = World()
    world.push("fine")
    world.settle(200)
    world.kinds[1] = "unusable"
    world.gateway = Provisioning("uid-1", json.loads(world.saved))
    world.do(lambda: world.gateway.start(world.now))
    assert world.running == 0
    world.settle(100)
    assert world.bad == {1}
    assert world.gateway.state == SETTLED
    world.do(lambda: world.gateway.unusable(world.now, "nothing works"))
    world.settle(100)
    assert world.running == 0


@spec("PROV-6")
def test_while_one_is_on_trial_no_other_begins() -> None:
    world = World()
    world.push("fine")
    world.do(lambda: None)
    world.step(1000)
    world.step(1000)
    assert world.gateway.state == TRIAL
    world.push("fine")
    world.do(lambda: world.gateway.receive(GatewayConfig("uid-1", "gw-7", 2, b"text 2").to_event(), world.now))
    assert world.running == 1
    world.settle(300)
    assert world.runs == [0, 1, 2]


def test_applying_until_it_has_started() -> None:
    gateway = Provisioning("u")
    gateway.start(0)
    gateway.receive(GatewayConfig("u", "gw-7", 1, b"x").to_event(), 0)
    assert gateway.state == APPLYING
    actions = []
    while (action := gateway.next_action()) is not None:
        actions.append(action[0])
    assert actions == ["run", "save", "name", "write", "save", "run"]
    gateway.started(5)
    assert gateway.state == TRIAL


def test_unhealthy_later_is_said_and_changes_nothing() -> None:
    world = World()
    world.push("fine")
    world.settle(200)
    world.kinds[1] = "sick"
    world.hellos.clear()
    world.step(1000)
    assert [hello.health for hello in world.hellos] == ["failed: sick"]
    world.settle(2000)
    assert world.running == 1
    assert world.gateway.state == SETTLED


@spec("PROV-2")
@given(st.dictionaries(st.sampled_from(["Uid", "Name", "Version", "Text", "Noted", "Health", "Failed"]), values))
def test_messages_that_are_none(params: dict[str, Any]) -> None:
    gateway = Provisioning("u")
    gateway.start(0)
    gateway.next_action()
    before = dict(vars(gateway))
    try:
        gateway.receive(Event("FES_GatewayConfig", params), 5)
    except RemoteProtocolError:
        assert vars(gateway) == before
    with pytest.raises(RemoteProtocolError):
        gateway.receive(Event("Speed", params), 5)
    try:
        hello = GatewayHello.from_event(Event("FES_GatewayHello", params))
    except RemoteProtocolError:
        return
    assert GatewayHello.from_event(hello.to_event()).uid == hello.uid


@spec("PROV-2")
def test_for_another() -> None:
    gateway = Provisioning("u")
    gateway.receive(GatewayConfig("v", "gw-7", 1, b"x").to_event(), 0)
    assert gateway.next_action() is None
    assert (gateway.name, gateway.ignored) == ("", 1)
    with pytest.raises(LocalProtocolError, match="has 49153 bytes, the limit is 49152"):
        GatewayConfig("v", "gw-7", 1, bytes(MAX_CONFIG_BYTES + 1))
    wire.encode(GatewayConfig("v" * 64, "g" * 64, 1 << 62, bytes(MAX_CONFIG_BYTES)).to_event().stamp("f" * 64, 1 << 62))


@spec("PROV-3")
@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", ".x", "-x", 'a"b', "a'b", "a\\b", "{n}", "a,b", "a*", "a?", "a\n", "x" * 65, 5, None]
)
def test_bad_names(name: Any) -> None:
    assert not good_name(name)
    if isinstance(name, str):
        event = Event("FES_GatewayConfig", {"Uid": "u", "Name": name, "Version": 0, "Noted": 0})
        with pytest.raises(RemoteProtocolError, match="Name is"):
            GatewayConfig.from_event(event)


@spec("PROV-3")
@pytest.mark.parametrize("name", ["gw-7", "x" * 64, "Gerät:7", "a.b@c"])
def test_good_names(name: str) -> None:
    assert good_name(name)


@spec("PROV-7")
def test_an_answer_before_it_has_started_proves_nothing() -> None:
    gateway = Provisioning("u")
    gateway.start(0)
    config = GatewayConfig("u", "gw-7", 1, b"x").to_event()
    gateway.receive(config, 0)
    gateway.receive(config, 1)  # to an older hello: the new configuration may be deaf
    gateway.started(2)
    for now in range(3, 200_000, 1000):
        gateway.health(now)
    assert gateway.state == TRIAL
    gateway.receive(config, 200_000)
    assert gateway.state == SETTLED


@spec("PROV-4")
def test_hellos_without_an_answer_become_rare() -> None:
    gateway = Provisioning("u")
    gateway.start(0)
    times = []
    while len(times) < 9:
        now = gateway.next_timeout()
        assert now is not None
        gateway.handle_timeout(now)
        while (action := gateway.next_action()) is not None:
            times += [now] if action[0] == "send" else []
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert gaps == [2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000]
