"""The whole agent on the virtual device: what it hears by fakes of its chips comes to a gateway, and it confirms."""

import os
import socket
import subprocess
import time
from pathlib import Path

import can
import pytest
from cloud.broker.brokers import COMMAND
from tools.flash.test_flash import CONFIG, ESP32, Silent

from vicinal import wire
from vicinal.coap.message import ACK, Message, decode, encode
from vicinal.cosmic.channels import SrtChannel
from vicinal.cosmic.node import Node
from vicinal.event import Event
from vicinal.proximity import Proximity
from vicinal.steam.node import Node as SteamNode
from vicinal_edge.agent import guard
from vicinal_hw.ble.virtual import VirtualRadio
from vicinal_hw.device import VirtualDevice
from vicinal_tools.flash import flasher
from vicinal_tools.flash.configuration import prepare
from vicinal_tools.flash.release import Release
from vicinal_tools.stage import compile_file

pytest.importorskip("mpremote")
pytestmark = pytest.mark.micropython
HERE = (533438000, -62546000)
PATIENCE = 60.0


class Gateway:
    """A few lines of CoAP: everything is taken, and nothing is known."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.02)
        self.port = self.socket.getsockname()[1]
        self.events: dict[str, Event] = {}

    def serve(self) -> None:
        try:
            data, peer = self.socket.recvfrom(2000)
        except TimeoutError:
            return
        message = decode(data)
        if message.code == 3:
            event = wire.decode(message.payload)
            self.events[event.subject] = event
        if message.code in (1, 3):
            code = 0x44 if message.code == 3 else 0x84
            self.socket.sendto(encode(Message(ACK, code, message.mid, message.token)), peer)


def impatient(folder: Path, built: Release) -> Release:
    """The agent as it is, but healthy after a second."""
    source, target = folder / "guard.py", folder / "guard.mpy"
    text = Path(guard.__file__).read_text()
    assert "HEALTHY_AFTER = 60000" in text
    source.write_text(text.replace("HEALTHY_AFTER = 60000", "HEALTHY_AFTER = 1000"))
    compile_file(source, target, "guard.py")
    return Release(built.version, built.files | {"lib/vicinal_edge/agent/guard.mpy": target.read_bytes()}, built.boot)


def test_a_bus_a_group_and_a_sensor(tmp_path: Path, built: Release) -> None:
    gateway, name = Gateway(), f"ondevice-{os.getpid()}"
    config = tmp_path / "agent.toml"
    config.write_text(
        CONFIG.format(name="car-7").replace("127.0.0.1:9", f"127.0.0.1:{gateway.port}")
        + "[position]\nlat = 53.3438\nlon = -6.2546\n"
        + "[[can]]\nnode = 7\n[[can.event]]\netag = 300\n[[ble]]\nsubject = 'Siren'\n"
    )
    made = impatient(tmp_path, built)
    device = VirtualDevice(
        tmp_path / "device", heap=192 * 1024, can=name, ble=name, at=HERE, wifi={"home": "hush-hush"}
    )
    device.set_adc(34, 4321)
    radio = VirtualRadio(name, *HERE)
    with device, can.Bus(interface="vicinal", channel=name, bitrate=500_000) as bus:
        done = flasher.flash(device.port, ESP32, made, prepare(config, ESP32), Silent())
        assert done.hello["trial"]
        radio.connect()
        siren = SteamNode("siren", 5)
        start, end = time.monotonic(), time.monotonic() + PATIENCE
        siren.set_position(*HERE, 0)
        siren.announce("Siren", Proximity.circle(*HERE, 200), 0)
        node = Node(3, 500_000)
        channel = SrtChannel(node, 300, 20_000)
        channel.announce(0)
        said = 0.0
        while not {"Speed", "Siren", "Battery", "AgentHealth"} <= set(gateway.events):
            assert time.monotonic() < end, (sorted(gateway.events), device.console[-1000:])
            now = int((time.monotonic() - start) * 1000)
            gateway.serve()
            if time.monotonic() - said > 0.3:
                said = time.monotonic()
                siren.publish(Event("Siren", (("kind", 3),)), now)
                channel.publish(Event("Speed", (("rate", 57),)), now * 1000)
            due = siren.next_timeout()
            if due is not None and due <= now:
                siren.handle_timeout(now)
            if (advertisement := siren.advertisement(now)) is not None:
                radio.advertise(advertisement)
            while (frame := node.frame_to_send(now * 1000)) is not None:
                bus.send(can.Message(arbitration_id=frame.id, data=frame.data, is_extended_id=True))
                node.frame_sent(frame, now * 1000)
        radio.shut()
        assert gateway.events["Speed"]["rate"] == 57
        assert gateway.events["Siren"]["kind"] == 3
        assert gateway.events["Battery"]["value"] == 4321
        assert gateway.events["AgentHealth"]["mode"] == "normal"
        # Healthy for a second, it confirms, and starts as the good one.
        while time.monotonic() - start < 3:
            gateway.serve()
        at = device.mark
        device.reset()
        assert not device.hello(at)["trial"]
    assert b'"good": "a"' in device.files()["slots.json"]


def test_the_command_of_the_device(tmp_path: Path) -> None:
    link = tmp_path / "port"
    command = [*COMMAND, "device", "run", str(tmp_path / "device")]
    process = subprocess.Popen([*command, "--link", str(link), "--console"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"virtual ESP32 (DevKitC, WROOM-32) at {link}\n"
        assert "virtual device with fakes" in process.stdout.readline()
        assert link.is_symlink()
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert not link.is_symlink()
    finally:
        process.kill()
    for wrong, said in (("--board=pi4", "runs Linux"), ("--at=here", "want LAT,LON"), ("--heap=1", "32<=x<=8192")):
        done = subprocess.run([*command, wrong], capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr
