"""From a sensor to a subscriber of a broker, all as real processes: the agent on CPython and on the 32-bit MicroPython,
a gateway with a CoAP service, a broker. The gateway is killed in between, and rules are pushed down."""

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import can
import pytest
from cloud.broker.brokers import COMMAND, PATIENCE, Brokers
from edge.agent.test_coap_interop import free_port
from edge.gateways import Gateways

from vicinal.cosmic.channels import SrtChannel
from vicinal.cosmic.node import Node
from vicinal.event import Event
from vicinal_tools.stage import stage_agent

ROOT = Path(__file__).parents[3]
MICROPYTHON = ROOT / ".tools" / "micropython" / "micropython"


class Lines:
    """A process that is started and says something in lines of JSON, read as they come."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self._lines: queue.Queue[str] = queue.Queue()
        self.seen: list[Any] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def take(self) -> None:
        while not self._lines.empty():
            line = self._lines.get()
            if line.startswith("{"):
                self.seen.append(json.loads(line))
            elif line.startswith("hello "):
                self.seen.append(json.loads(line[6:]))

    def until(self, is_so: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            self.take()
            if is_so():
                return
            assert self.process.poll() is None, f"{what}: it ended: {self.end()}"
            assert time.monotonic() < end, f"{what}: {self.seen[-10:]}"
            time.sleep(0.02)

    def end(self, number: int = signal.SIGTERM) -> str:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(PATIENCE)
        assert self.process.stderr is not None
        return self.process.stderr.read()


class Field:
    """Broker, gateway and subscriber; `agents` are started by tests."""

    def __init__(self, folder: Path, brokers: Brokers, gateways: Gateways) -> None:
        self.folder = folder
        self.port = free_port()
        self.broker = brokers.start("b1")
        self.gateways = gateways
        self.gateway = gateways.start(
            "gw",
            f"""
[[service]]
name = "field"
type = "coap"
bind = "127.0.0.1:{self.port}"
[[service]]
name = "office"
type = "siena"
address = "{self.broker.address}"
store = true
[[request]]
type = "subscribe"
source = "office"
to = "field"
filter = "subject = 'Reading' OR subject = 'Speed' OR subject = 'Siren' OR subject = 'AgentHealth'"
[[request]]
type = "subscribe"
source = "field"
to = "office"
filter = "subject = 'AgentRules'"
""",
        )
        self.started: list[Lines] = []
        self.subscriber = self.start(
            [*COMMAND, "sub", "subject <> 'AgentRules'", "--broker", self.broker.address, "--json"]
        )
        # It has subscribed when it hears what gateways say again and again.
        self.subscriber.until(lambda: self.gateway.applied and self.subscriber.seen, "the gateway")

    def start(self, command: list[str], **options: Any) -> Lines:
        self.started.append(Lines(command, **options))
        return self.started[-1]

    def heard(self, subject: str) -> list[dict[str, Any]]:
        self.subscriber.take()
        return [event for event in self.subscriber.seen if event.get("subject") == subject]

    def push_rules(self, agent: str, rules: list[dict[str, Any]]) -> None:
        command = [*COMMAND, "pub", "AgentRules", f"agent={agent}", f"rules={json.dumps(rules)}"]
        subprocess.run([*command, "--broker", self.broker.address], check=True, timeout=PATIENCE)

    def stop(self) -> None:
        for one in self.started:
            one.end(signal.SIGKILL)


@pytest.fixture
def field(tmp_path: Path, brokers: Brokers, gateways: Gateways) -> Iterator[Field]:
    found = Field(tmp_path, brokers, gateways)
    yield found
    found.stop()


def write(path: Path, value: int) -> None:
    """As Linux's own files change: at once."""
    new = path.with_suffix(".new")
    new.write_text(f"{value}\n")
    new.replace(path)


CONFIG = """
[agent]
name = "{name}"
gateway = "coap://127.0.0.1:{port}"
[journal]
sectors = 8
linger_ms = 500
[[sensor]]
type = "file"
path = "{sensor}"
subject = "Reading"
name = "value"
every_ms = 20
[[rule]]
subject = "Reading"
field = "value"
change = true
"""


def watch_a_sensor(field: Field, sensor: Path, start: Callable[[], Lines], name: str) -> None:
    write(sensor, 0)
    agent = start()
    agent.until(lambda: agent.seen, "hello")
    sub = field.subscriber

    def values() -> list[int]:
        return [event["params"]["value"] for event in field.heard("Reading")]

    sub.until(lambda: field.heard("AgentHealth"), "its health")
    for value in range(1, 6):
        write(sensor, value)
        sub.until(lambda wanted=value: values()[-1:] == [wanted], f"value {value}")  # type: ignore[misc]
    # The gateway dies; what changes meanwhile waits, over a restart of the agent too.
    field.gateway.kill()
    for value in range(6, 10):
        write(sensor, value)
        time.sleep(0.15)  # several readings of each
    time.sleep(1.0)  # more than linger_ms: it is on flash
    agent.end(signal.SIGKILL)
    agent = start()
    agent.until(lambda: agent.seen, "hello again")
    field.gateway.start()
    sub.until(lambda: values()[-1:] == [9], "what had to wait")
    found = values()
    # The first value goes, and again when the gateway has said what is wanted, and after a start.
    known = [value for at, value in enumerate(found) if at == 0 or value != found[at - 1]]
    assert known[known[0] == 0 :] == list(range(1, 10)), found
    assert len(found) - len(known) <= 4, found
    # A rule is pushed down: only what is 10 away.
    count = len(found)
    field.push_rules(name, [{"subject": "Reading", "field": "value", "delta": 10}])
    sub.until(lambda: len(values()) > count, "the first under the new rule")
    for value in (12, 15, 25, 30, 100):
        write(sensor, value)
        time.sleep(0.2)
    sub.until(lambda: values()[-1:] == [100], "the last")
    # What was the first under the new rule goes in any case: 9, or on a slow machine 12.
    assert [value for value in values()[count:] if value not in (9, 12)] == [25, 100]
    agent.end()


def test_on_cpython(field: Field, tmp_path: Path) -> None:
    file, sensor = tmp_path / "agent.toml", tmp_path / "sensor"
    file.write_text(CONFIG.format(name="pi-1", port=field.port, sensor=sensor))
    command = [*COMMAND, "agent", "run", str(file), "--json"]
    watch_a_sensor(field, sensor, lambda: field.start(command), "pi-1")


@pytest.mark.micropython
def test_on_micropython(field: Field, tmp_path: Path) -> None:
    """The tree as it goes onto a device, and its configuration as `vicinal agent json` makes it."""
    file, sensor, device = tmp_path / "agent.toml", tmp_path / "sensor", tmp_path / "device"
    file.write_text(CONFIG.format(name="esp-1", port=field.port, sensor=sensor))
    stage_agent(device)
    made = subprocess.run([*COMMAND, "agent", "json", str(file)], capture_output=True, check=True, timeout=PATIENCE)
    (device / "agent.json").write_bytes(made.stdout)
    (device / "main.py").write_text("from vicinal_edge.agent.main import main\nmain()\n")
    command = [str(MICROPYTHON), "-X", "heapsize=128K", "main.py"]
    env = {**os.environ, "MICROPYPATH": f".frozen:{device / 'lib'}"}
    watch_a_sensor(field, sensor, lambda: field.start(command, cwd=device, env=env), "esp-1")


def test_a_bus_and_a_group(field: Field, tmp_path: Path) -> None:
    """Frames of a mapping, a COSMIC channel, and a proximity group on the virtual radio."""
    name = f"agent-{os.getpid()}"
    (tmp_path / "speed.toml").write_text(
        '[[message]]\nid = 12345\nsubject = "Speed"\n'
        'fields = [{ name = "plate", bytes = "0..6", type = "string" },'
        '{ name = "rate", bytes = 7, type = "double" }]\n'
    )
    file = tmp_path / "agent.toml"
    file.write_text(
        f"""
[agent]
name = "car-7"
gateway = "coap://127.0.0.1:{field.port}"
[position]
lat = 53.3438
lon = -6.2546
[[can]]
interface = "vicinal"
channel = "{name}"
node = 7
mapping = "speed.toml"
[[can.event]]
etag = 300
[[ble]]
subject = "Siren"
virtual = "{name}"
[[rule]]
subject = "Speed"
filter = "rate > 30"
"""
    )
    agent = field.start([*COMMAND, "agent", "run", str(file), "--json"])
    agent.until(lambda: agent.seen, "hello")
    assert agent.seen[0]["ports"] == ["can 1", "ble"]
    sub = field.subscriber
    beacon = field.start([*COMMAND, "ble", "beacon", "Siren", "kind=3", "--virtual", name, "--at", "53.3438,-6.2546"])
    with can.Bus(interface="vicinal", channel=name, bitrate=500_000) as bus:
        node = Node(3, 500_000)
        channel = SrtChannel(node, 300, 20_000)
        channel.announce(0)
        end = time.monotonic() + PATIENCE
        while not (field.heard("Siren") and field.heard("Reading") and field.heard("Speed")):
            assert time.monotonic() < end, sub.seen
            bus.send(can.Message(arbitration_id=12345, data=b"00D1234\x39", is_extended_id=True))
            bus.send(can.Message(arbitration_id=12345, data=b"00D1234\x10", is_extended_id=True))
            now = time.monotonic_ns() // 1000
            channel.publish(Event("Reading", (("value", 5),)), now)
            while (frame := node.frame_to_send(now)) is not None:
                bus.send(can.Message(arbitration_id=frame.id, data=frame.data, is_extended_id=True))
                node.frame_sent(frame, now)
            time.sleep(0.2)
    assert {event["params"]["rate"] for event in field.heard("Speed")} == {57.0}
    assert field.heard("Reading")[0]["params"] == {"value": 5}
    assert field.heard("Siren")[0]["params"] == {"kind": 3}
    # The agent asks for the time when it starts; what happened before the answer has none.
    timed = ["Time" in event.get("attrs", {}) for event in field.heard("Speed") + field.heard("Siren")]
    assert any(timed)
    beacon.end()
    assert agent.end() == ""
