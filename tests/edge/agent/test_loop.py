"""The loop around the core, and the commands: ports that fail, boots that fail, configurations that are wrong."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from vicinal.errors import LocalProtocolError
from vicinal_edge.agent.config import Config
from vicinal_edge.agent.guard import HEALTHY_AFTER, SAFE_AFTER, Watchdog
from vicinal_edge.agent.kept import keep, kept, take_lean
from vicinal_edge.agent.loop import Loop
from vicinal_edge.agent.parts import SensorPart
from vicinal_edge.agent.run_cpython import Pi, load
from vicinal_hw.flash.emulated import EmulatedFlash
from vicinal_hw.flash.file import FileFlash
from vicinal_hw.flash.partition import PartitionFlash
from vicinal_hw.sensors import Adc, Gpio, I2cRegister, NumberFile
from vicinal_tools.main import cli

TABLES = {
    "agent": {"name": "car-7", "gateway": "coap://127.0.0.1:5683"},
    "sensor": [{"type": "file", "subject": "Reading", "path": "x", "every_ms": 100}],
}


class Opener:
    def __init__(self) -> None:
        self.fails = False
        self.opened = 0

    def flash(self, config: Config) -> EmulatedFlash:
        return EmulatedFlash(4, 512)

    def open(self, ports: Any, loop: Loop, now: int) -> SensorPart:
        if self.fails:
            raise OSError("no such bus")
        self.opened += 1
        return SensorPart(ports[0], self, loop.agent.offer, now)

    def read(self) -> int:
        if self.fails:
            raise OSError("it does not answer")
        return 5


class Silence:
    def service(self, client: Any, now: int) -> None:
        while client.data_to_send() is not None:
            pass

    def close(self) -> None:
        pass


def loop_in(folder: Path, opener: Opener) -> Loop:
    return Loop(Config(TABLES), opener, Silence(), "1", b"abcdefgh", 0, str(folder))


class Updated:
    """In the place of the updater: what it is told."""

    restart = ""

    def __init__(self) -> None:
        self.works: list[bool] = []

    def service(self, now: int, works: bool) -> int:
        self.works.append(works)
        return now + 10


def test_a_release_is_judged_by_parts_that_work_and_not_in_safe_mode(tmp_path: Path) -> None:
    loop = loop_in(tmp_path, Opener())
    loop.updater = Updated()
    assert loop.turn(0) <= 10
    loop.watchdog = Watchdog({"loop": 5000, "sensor 1": 100, "other": 100}, 0)
    loop.turn(500)
    loop.guard.safe = True
    loop.watchdog = Watchdog({"loop": 5000, "sensor 1": 100}, 500)
    loop.turn(550)
    assert loop.updater.works == [True, False, False]
    # One that never opened does not work, long before the watchdog loses its patience; nor is the boot a healthy one.
    opener = Opener()
    opener.fails = True
    loop = loop_in(tmp_path, opener)
    loop.updater = Updated()
    for now in (0, 30_000, 61_000):
        loop.turn(now)
    assert loop.updater.works == [False, False, False]
    assert not loop.guard.is_healthy
    # A restart into another release is no boot that has failed.
    loop = loop_in(tmp_path, Opener())
    loop.give_way()
    assert kept(str(tmp_path / "boot.json")) == {"boots": 0, "why": ""}


def test_a_port_that_fails_is_opened_again(tmp_path: Path) -> None:
    opener = Opener()
    loop = loop_in(tmp_path, opener)
    now = 0
    for _ in range(20):
        loop.turn(now)
        now += 50
    offered = loop.agent.counters["offered"]
    assert offered > 3
    opener.fails = True
    for _ in range(260):
        now += 500
        loop.turn(now)
    assert loop.agent.counters["port failures"] >= 10
    assert "it does not answer" in loop.agent.why or "no such bus" in loop.agent.why
    assert not loop.watchdog.may_feed(now)  # for so long that it should be started again
    assert loop.watchdog.silent(now) == "sensor 1"
    opener.fails = False
    for _ in range(40):
        now += 500
        loop.turn(now)
    assert opener.opened == 2
    assert loop.watchdog.may_feed(now)
    assert loop.agent.counters["offered"] > offered


def test_boots_that_fail_end_in_a_safe_one_which_still_talks(tmp_path: Path) -> None:
    for boot in range(SAFE_AFTER):
        loop = loop_in(tmp_path, Opener())
        assert not loop.guard.safe
        assert loop.guard.boots == boot + 1
        loop.turn(0)
        loop.give_up("ValueError: wrong")
    loop = loop_in(tmp_path, Opener())
    assert loop.guard.safe
    assert loop.parts == []
    loop.turn(0)
    assert loop.agent.health(0)["mode"] == "safe"
    assert loop.agent.health(0)["why"] == "ValueError: wrong"
    for now in range(0, HEALTHY_AFTER + 1000, 1000):
        loop.turn(now)
    assert loop.guard.is_healthy
    assert not loop_in(tmp_path, Opener()).guard.safe


def test_a_healthy_boot_is_remembered_and_an_outage_is_none_of_its_business(tmp_path: Path) -> None:
    for _ in range(3):
        loop = loop_in(tmp_path, Opener())
        for now in range(0, HEALTHY_AFTER + 1000, 500):  # the gateway never answers
            loop.turn(now)
        assert kept(str(tmp_path / "boot.json"))["boots"] == 0


def test_a_full_file_system_is_no_reason_not_to_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: str, value: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vicinal_edge.agent.loop.keep", full)
    loop = loop_in(tmp_path, Opener())
    loop.turn(0)
    assert "No space left" in str(loop.agent.health(0)["why"])
    assert loop.agent.counters["offered"] == 1


def test_what_is_lean_is_so_once(tmp_path: Path) -> None:
    path = str(tmp_path / "update.json")
    assert not take_lean(path)
    keep(path, {"lean": True, "want": "0.2.0"})
    assert take_lean(path)
    assert kept(path) == {"lean": False, "want": "0.2.0"}
    assert not take_lean(path)


def test_what_is_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "x.json")
    assert kept(path) is None
    keep(path, {"a": 1})
    assert kept(path) == {"a": 1}
    Path(path).write_text("{")
    assert kept(path) is None


def test_sensors(tmp_path: Path) -> None:
    class Chip:
        data = b"\xff\xfe"

        def value(self) -> int:
            return 7

        def read_u16(self) -> int:
            return 40000

        def readfrom_mem(self, address: int, register: int, size: int) -> bytes:
            assert (address, register) == (0x48, 3)
            return self.data[:size]

    chip = Chip()
    assert Gpio(chip).read() == 1
    assert Adc(chip).read() == 40000
    assert I2cRegister(chip, 0x48, 3).read() == 0xFFFE
    assert I2cRegister(chip, 0x48, 3, signed=True).read() == -2
    assert I2cRegister(chip, 0x48, 3, signed=True, little=True).read() == -257
    assert I2cRegister(chip, 0x48, 3, 1).read() == 255
    file = tmp_path / "temp"
    file.write_text("42000\n")
    assert NumberFile(str(file)).read() == 42000
    file.write_text("warm")
    with pytest.raises(OSError, match="has 'warm', want a whole number"):
        NumberFile(str(file)).read()


def test_flash_of_a_file_and_of_a_partition(tmp_path: Path) -> None:
    class Partition:
        """As esp32.Partition, made after its documentation."""

        def __init__(self) -> None:
            self.memory = EmulatedFlash(4, 512)

        def ioctl(self, what: int, argument: int) -> int:
            if what == 6:
                self.memory.erase(argument)
            return {4: 4, 5: 512}.get(what, 0)

        def readblocks(self, block: int, into: bytearray, offset: int) -> None:
            into[:] = self.memory.read(block, offset, len(into))

        def writeblocks(self, block: int, data: bytes, offset: int) -> None:
            self.memory.program(block, offset, data)

    path = str(tmp_path / "flash")
    for flash in (FileFlash(path, 4, 512), PartitionFlash(Partition())):
        assert (flash.sectors, flash.size) == (4, 512)
        assert flash.read(3, 500, 12) == b"\xff" * 12
        flash.program(3, 500, b"twelve bytes")
        flash.program(0, 0, b"first")
        assert flash.read(3, 500, 12) == b"twelve bytes"
        flash.erase(3)
        assert flash.read(3, 0, 512) == b"\xff" * 512
        assert flash.read(0, 0, 5) == b"first"
    again = FileFlash(path, 4, 512)
    assert again.read(0, 0, 5) == b"first"
    with pytest.raises(LocalProtocolError, match="5 sectors are wanted, the partition has 4"):
        PartitionFlash(Partition(), 5)


# The commands


def call(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["agent", *arguments], input=stdin)


def test_new_asks_and_writes_what_can_be_run(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    answers = "car-7\n192.168.4.1\nhome\nvicinal:car\nSiren\n/sys/x\nSpeed\n"
    (tmp_path / "speed.toml").write_text(
        '[[message]]\nid = 1\nsubject = "Speed"\nfields = [{ name = "rate", start = 0, length = 8, type = "uint" }]\n'
    )
    result = call("new", str(file), stdin=answers)
    assert result.exit_code == 0, result.output
    found = load(file)
    assert (found.name, found.host, found.port, found.ssid) == ("car-7", "192.168.4.1", 5683, "home")
    assert [port.kind for port in found.ports] == ["can", "ble", "sensor"]
    assert found.ports[0].mapping is not None
    result = call("check", str(file))
    assert result.exit_code == 0, result.output
    assert "1 kinds of frames" in result.output
    device = json.loads(call("json", str(file)).stdout)
    assert Config(device).ports[0].mapping is not None
    assert "mapping" not in device["can"][0]
    assert call("new", str(file)).exit_code == 2
    least = tmp_path / "least.toml"
    assert call("new", str(least), stdin="pi\n\n\n\n\n\n\n").exit_code == 0
    assert load(least).ports == []
    # What stands there as a comment is right, too.
    text = least.read_text()
    lines = [line.removeprefix("# ") for line in text.splitlines() if not line.startswith("# An agent")]
    assert "rule" in tomllib.loads("\n".join(lines))
    assert call("new", str(tmp_path / "bad.toml"), stdin="a b\n\n").exit_code == 2


def test_one_without_a_gateway(tmp_path: Path) -> None:
    """It has its buses and its radio, and says what goes where."""
    (tmp_path / "a.toml").write_text(
        "[agent]\nname = 'car-7'\n[position]\nlat = 53.3\nlon = -6.2\n[[can]]\n[[ble]]\n"
        "[[publish]]\nsubject = 'Speed'\non = 'can'\netag = 300\n[[publish]]\nsubject = 'Siren'\non = 'ble'\n"
    )
    found = call("check", str(tmp_path / "a.toml"))
    assert found.exit_code == 0, found.output
    assert found.output.startswith("agent car-7 publishes on ble and on can 1\n")
    assert "'Speed' goes out on can 1, etag 300\n'Siren' goes out on ble, within 500 m\n" in found.output
    assert Config(json.loads(call("json", str(tmp_path / "a.toml")).stdout)).host is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[agent", "not TOML"),
        ("[agent]\nname = 'x'", "gateway is missing"),
        ("[agent]\nname = 'x'\ngateway = 'coap://h'\n[[can]]\nmapping = 'none.toml'", "No such file"),
        ("[agent]\nname = 'x'\ngateway = 'coap://h'\n[[can]]\nmapping = 'a'\ndbc = 'b'", "are both given"),
        ("[agent]\nname = 'x'\ngateway = 'coap://h'\n[[can]]\nmapping = 3", "are names of files"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text)
    for command in ("check", "run", "json"):
        result = call(command, str(file))
        assert result.exit_code == 2, result.output
        assert said in result.stderr
        assert "Traceback" not in result.output
    assert "No such file" in call("check", str(tmp_path / "none")).stderr


def test_what_a_pi_has_not(tmp_path: Path) -> None:
    pi = Pi(tmp_path)
    journal = {"agent": TABLES["agent"], "journal": {"partition": "journal"}}
    with pytest.raises(LocalProtocolError, match="partition is for boards"):
        pi.flash(Config(journal))
    pins = {"agent": TABLES["agent"], "sensor": [{"type": "adc", "subject": "V", "pin": 3}]}
    config = Config(pins)
    loop = Loop(config, pi, Silence(), "1", b"abcdefgh", 0, str(tmp_path))
    with pytest.raises(LocalProtocolError, match='type "adc" is for boards; on a Pi use type = "file"'):
        loop.turn(0)
    board = {"agent": TABLES["agent"], "can": [{"controller": "mcp2515", "event": [{"etag": 1}]}]}
    with pytest.raises(LocalProtocolError, match="controller 'mcp2515' is for boards"):
        Loop(Config(board), pi, Silence(), "1", b"abcdefgh", 0, str(tmp_path)).turn(0)
