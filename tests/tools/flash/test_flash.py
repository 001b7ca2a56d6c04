"""`vicinal flash` against the virtual device, over its pty: complete, interrupted, refused. After each an agent starts.

VICINAL_SOAK=1: fifty interruptions with the whole agent, and not a handful.
"""

import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from vicinal_edge.agent import slots
from vicinal_hw.boards import board
from vicinal_hw.device import VirtualDevice
from vicinal_tools.flash import errors, flasher, link, ports, release, room
from vicinal_tools.flash.configuration import Configuration, prepare
from vicinal_tools.flash.release import Release
from vicinal_tools.main import cli
from vicinal_tools.stage import compile_file

serial = pytest.importorskip("serial")
pytest.importorskip("mpremote")
pytestmark = pytest.mark.micropython
SOAK = "VICINAL_SOAK" in os.environ
KIB = 1024
ESP32 = board("esp32")
CONFIG = """
[agent]
name = "{name}"
gateway = "coap://127.0.0.1:9"
[journal]
sectors = 4
[wifi]
ssid = "home"
password = "hush-hush"
[[sensor]]
type = "adc"
pin = 34
subject = "Battery"
"""
# An agent of a few lines: what is tested with it is what flashing does, and starts at once.
STAND_IN = """import json, time
def main(file, folder, turns, slots):
    config = json.loads(open(file).read())
    print("hello", json.dumps({"agent": config["agent"]["name"], "version": "VERSION", "safe": False,
        "slot": slots.active, "trial": slots.trying is not None}))
    while True: time.sleep_ms(10)
"""


class Silent:
    """Nobody looks at the progress; `stop_at` steps it raises what pulls the cable."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.bytes = 0

    def step(self, text: str) -> None:
        self.steps.append(text)

    def total(self, count: int) -> None:
        self.goal = count

    def sent(self, count: int) -> None:
        self.bytes += count


def stand_in(built: Release, version: str) -> Release:
    files = {
        "lib/vicinal_edge/__init__.py": b"",
        "lib/vicinal_edge/agent/__init__.py": b"",
        "lib/vicinal_edge/agent/main.py": STAND_IN.replace("VERSION", version).encode(),
        "lib/same.bin": bytes(range(256)) * 20,
    }
    for number in range(6):
        files[f"lib/more/{number}.bin"] = f"{version} {number} ".encode() * 400
    return Release(version, files, built.boot)


def changed(built: Release, version: str) -> Release:
    """The whole agent, with another version and some files that are new."""
    more = {f"lib/more/{number}.bin": f"{version} {number} ".encode() * 300 for number in range(8)}
    return Release(version, built.files | more, built.boot)


def config_of(folder: Path, name: str = "car-7") -> Configuration:
    path = folder / "agent.toml"
    path.write_text(CONFIG.format(name=name))
    return prepare(path, ESP32)


def install(device: VirtualDevice, made: Release, configuration: Configuration) -> None:
    """As if it had been flashed and confirmed: the device is off."""
    files = {f"a/{name}": data for name, data in made.files.items()} | dict(made.boot)
    files |= {"a/agent.json": configuration.data, "a/release.json": json.dumps(made.manifest).encode()}
    device.put(files)


def flash(device: VirtualDevice, made: Release, configuration: Configuration, **options: Any) -> flasher.Done:
    return flasher.flash(device.port, ESP32, made, configuration, Silent(), **options)


@pytest.fixture
def device(tmp_path: Path, built: Release) -> Iterator[VirtualDevice]:
    """With a stand-in of version 1 in slot a, that runs."""
    found = VirtualDevice(tmp_path / "device", flash=512 * KIB)
    install(found, stand_in(built, "1"), config_of(tmp_path))
    with found:
        assert found.hello()["version"] == "1"
        yield found


def test_a_blank_board_gets_a_whole_agent(tmp_path: Path, built: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the command, as a person gives it; then again, and another version."""
    monkeypatch.setattr(release, "build", lambda: built)
    config_of(tmp_path)
    arguments = ["flash", "--board", "esp32", "--config", str(tmp_path / "agent.toml"), "--port"]
    with VirtualDevice(tmp_path / "device") as device:
        done = CliRunner().invoke(cli, [*arguments, device.port])
        assert done.exit_code == 0, done.output
        assert "hello from car-7, version" in done.output
        assert f"{len(built.files)} files sent" in done.output
        assert "hush" not in done.output
        # Once more while it is on trial: it is the best there is, so the other slot is filled, on the device.
        done = CliRunner().invoke(cli, [*arguments, device.port, "--json"])
        assert done.exit_code == 0, done.output
        found = json.loads(done.stdout)
        assert (found["slot"], found["sent"], found["copied"]) == ("b", 0, len(built.files))
        assert found["hello"] == {
            "agent": "car-7", "version": built.version, "safe": False, "slot": "b", "trial": True,
        }  # fmt: skip
        assert found["before"] == built.version
        at = device.mark
        device.reset()
        assert device.hello(at)["slot"] == "b"
    files = device.files()
    assert files["b/agent.json"] == files["a/agent.json"]
    assert {name for name in files if "/" not in name} >= {"main.py", "slots.mpy", "slots.json"}
    assert not [name for name in files if name.endswith((".new", ".part"))]


def test_the_other_slot_is_written_and_what_is_there_is_used(
    device: VirtualDevice, tmp_path: Path, built: Release
) -> None:
    done = flash(device, stand_in(built, "2"), config_of(tmp_path, "car-8"))
    assert (done.slot, done.before, done.hello["agent"], done.hello["version"]) == ("b", "", "car-8", "2")
    assert (done.sent, done.copied, done.kept) == (7, 3, 0)
    assert (done.chip, done.notes) == ("esp32", [])
    done = flash(device, stand_in(built, "2"), config_of(tmp_path, "car-9"))
    assert (done.slot, done.sent, done.copied, done.kept, done.hello["agent"]) == ("b", 0, 0, 10, "car-9")
    # A file of the release before is not left behind.
    fewer = {name: data for name, data in stand_in(built, "3").files.items() if "more/5" not in name}
    flash(device, Release("3", fewer, built.boot), config_of(tmp_path))
    device.stop()
    assert "b/lib/more/4.bin" in device.files()
    assert "b/lib/more/5.bin" not in device.files()


def test_a_main_of_somebody_else_is_kept(tmp_path: Path, built: Release) -> None:
    device = VirtualDevice(tmp_path / "device", flash=256 * KIB)
    device.put({"main.py": b"print('mine')\nwhile True: pass\n"})
    with device:
        device.wait_for("mine")
        done = flash(device, stand_in(built, "1"), config_of(tmp_path))
        assert done.notes == ["the main.py that was there is kept as main_before.py"]
    assert device.files()["main_before.py"].startswith(b"print('mine')")


def test_an_agent_that_does_not_start_gives_way(device: VirtualDevice, tmp_path: Path, built: Release) -> None:
    bad = stand_in(built, "2")
    bad.files["lib/vicinal_edge/agent/main.py"] = b"raise ValueError('no good')\n"
    bad = Release("2", bad.files, built.boot)
    with pytest.raises(errors.NoHello, match="went back to the old one: ValueError: no good"):
        flash(device, bad, config_of(tmp_path))
    at = device.mark
    device.reset()
    assert device.hello(at)["version"] == "1"
    device.stop()
    record = json.loads(device.files()["slots.json"])
    assert (record["good"], record["result"], record["version"]) == ("a", "went back", "2")
    assert record["why"] == "ValueError: no good"


class Pulled:
    """A serial port whose cable is pulled when so many bytes have gone."""

    def __init__(self, real: Any, device: VirtualDevice, left: int) -> None:
        self._real, self._device, self._left = real, device, left

    def write(self, data: bytes) -> Any:
        self._left -= len(data)
        if self._left < 0 and self._device.port:
            self._device.unplug()
        return self._real.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._real, name, value)


def interrupted(
    device: VirtualDevice, made: Release, configuration: Configuration, left: int, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Whether the cable was pulled before it was done."""
    real = link.Link._enter

    def enter(self: link.Link) -> None:
        if not isinstance(self._transport.serial, Pulled):
            self._transport.serial = Pulled(self._transport.serial, device, left)
        real(self)

    with monkeypatch.context() as patched:
        patched.setattr(link.Link, "_enter", enter)
        try:
            flash(device, made, configuration, hello=20.0)
        except (errors.Unplugged, errors.NotMicroPython):
            return True
    return False


@pytest.mark.parametrize("whole", [pytest.param(True, marks=pytest.mark.skipif(not SOAK, reason="make soak")), False])
def test_interrupted_at_random_points_and_resumed(
    whole: bool, tmp_path: Path, built: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time the cable is pulled, with the power or without; then the old agent starts, and flashing goes on."""
    chance = random.Random(7)
    make = changed if whole else stand_in
    device = VirtualDevice(tmp_path / "device", flash=2048 * KIB if whole else 512 * KIB)
    configuration = config_of(tmp_path)
    install(device, make(built, "0"), configuration)
    versions = {built.version} if whole else {"0"}
    resumed = 0
    with device:
        assert device.hello()["version"] in versions
        count = 50 if SOAK else 4
        for number in range(1, count + 1):
            new = make(built, str(number))
            size = sum(len(new.files[name]) for name in new.files if "more" in name) * 3 // 2 + 14000
            pulled = interrupted(device, new, configuration, chance.randrange(size), monkeypatch)
            at = device.mark
            device.plug()
            device.reset()
            found = device.hello(at)
            if pulled:
                assert found["version"] in versions
            done = flash(device, new, configuration)
            resumed += done.kept > 0
            assert done.hello["version"] == (built.version if whole else new.version)
            versions = {done.hello["version"]}
            # The agent works for a minute, and is confirmed.
            with link.Link(device.port) as now:
                now.hold()
                now.slots()
                now.run("_s.confirm()")
                at = device.mark
                now.restart()
            assert device.hello(at)["version"] in versions
    assert resumed, "no copy was ever gone on with"


def test_pulled_without_power_loss_the_device_starts_its_agent_by_itself(
    device: VirtualDevice, tmp_path: Path, built: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flasher.flash, "__kwdefaults__", {"hold": 700, "hello": 5.0})
    at = device.mark
    assert interrupted(device, stand_in(built, "2"), config_of(tmp_path), 16000, monkeypatch)
    found = device.hello(at)
    assert (found["version"], device.bites) == ("1", 1)


@pytest.mark.parametrize("writes", [3, 40, 80] if not SOAK else range(0, 140, 4))
def test_power_goes_while_it_is_written(
    device: VirtualDevice, tmp_path: Path, built: Release, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "PATIENCE", 5.0)  # it says nothing of the call that it was cut in
    device.cut_power_after(writes)  # from the soft reset on, with which flashing begins
    try:
        done = flash(device, stand_in(built, "2"), config_of(tmp_path))
        cut = False
    except errors.Unplugged:
        cut = True
    assert cut == (device.cuts == 1)
    if cut:
        at = device.mark
        device.reset()
        assert device.hello(at)["version"] in ("1", "2")  # it may have gone behind the switch
        done = flash(device, stand_in(built, "2"), config_of(tmp_path))
    assert done.hello["version"] == "2"


def test_ctrl_c_starts_the_old_agent(device: VirtualDevice, tmp_path: Path, built: Release) -> None:
    class Stops(Silent):
        def sent(self, count: int) -> None:
            super().sent(count)
            if self.bytes > 8000:
                raise KeyboardInterrupt

    at = device.mark
    with pytest.raises(KeyboardInterrupt):
        flasher.flash(device.port, ESP32, stand_in(built, "2"), config_of(tmp_path), Stops())
    assert device.hello(at)["version"] == "1"


@pytest.mark.parametrize(
    ("main", "why"),
    [
        (b"1 / 0\n", "ZeroDivisionError: divide by zero"),
        (b"while True: pass\n", "it hung, and the watchdog ended it"),
        (b"import machine\nmachine.reset()\n", "it ended without a word: a hang, or the power went"),
        (b"import nothing\n", "ImportError: no module named 'nothing'"),
        (b"def main(*_): pass\n", "it ended"),
    ],
)
def test_a_release_that_fails_on_trial_gives_way(
    tmp_path: Path, built: Release, main: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The boot part on a device, with a watchdog of a second: two tries, then the good one again, which knows why."""
    source = tmp_path / "slots.py"
    text = Path(slots.__file__).read_text()
    assert "TRIAL_WATCHDOG = 60000" in text
    source.write_text(text.replace("TRIAL_WATCHDOG = 60000", "TRIAL_WATCHDOG = 1000"))
    compile_file(source, tmp_path / "slots.mpy", "slots.py")
    device = VirtualDevice(tmp_path / "device", flash=512 * KIB)
    install(device, stand_in(built, "1"), config_of(tmp_path))
    bad = stand_in(built, "2").files | {"lib/vicinal_edge/agent/main.py": main}
    choice = slots.Choice()
    choice.good, choice.versions = "a", {"a": "1", "b": "2"}
    choice.switch("b")
    device.put(
        {f"b/{name}": data for name, data in bad.items()}
        | {"b/release.json": b"{}", "b/agent.json": b"{}", "slots.json": json.dumps(choice.record()).encode()}
        | {"slots.mpy": (tmp_path / "slots.mpy").read_bytes()}
    )
    with device:
        found = device.hello()
        assert (found["version"], found["slot"], device.boots) == ("1", "a", 3)
    record = json.loads(device.files()["slots.json"])
    assert (record["good"], record["trying"], record["result"], record["version"]) == ("a", None, "went back", "2")
    assert record["why"] == why


def test_wrong_board(device: VirtualDevice, tmp_path: Path, built: Release) -> None:
    at = device.mark
    with pytest.raises(
        errors.WrongBoard, match="with ESP32, and board 'esp32s3' has the chip esp32s3: give --board esp32"
    ):
        flasher.flash(device.port, board("esp32s3"), stand_in(built, "2"), config_of(tmp_path), Silent())
    assert device.hello(at)["version"] == "1"
    assert flasher.chip_of({"platform": "rp2", "machine": "Raspberry Pi Pico with RP2040"}) == "rp2"
    assert flasher.chip_of({"platform": "esp32", "machine": "Generic ESP32S3 module with ESP32S3"}) == "esp32s3"


@pytest.mark.parametrize("seen", [True, False])
def test_a_full_file_system(tmp_path: Path, built: Release, seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen before a file is copied, or met in the middle."""
    if not seen:
        monkeypatch.setattr(flasher, "_check_room", lambda *_: None)
    device = VirtualDevice(tmp_path / "device", flash=256 * KIB)
    install(device, stand_in(built, "1"), config_of(tmp_path))
    device.put({"holiday.jpg": b"x" * 110 * KIB})
    with device:
        device.hello()
        at = device.mark
        with pytest.raises(
            errors.DeviceFull, match=r"full: .* of 262,144 are free. Remove files .* The old agent stays"
        ):
            flash(device, stand_in(built, "2"), config_of(tmp_path))
        assert device.hello(at)["version"] == "1"
    assert [name for name in device.files() if name.startswith("b/")] == []
    # With room it goes.
    device = VirtualDevice(tmp_path / "device")
    with device, link.Link(device.port) as now:
        now.run("import os; os.remove('holiday.jpg')")
        now.close()
        assert flash(device, stand_in(built, "2"), config_of(tmp_path)).hello["version"] == "2"


def test_no_micropython(tmp_path: Path, built: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something that talks, and not as MicroPython; and something that is silent."""
    monkeypatch.setattr(link, "ENTER", 0.3)
    for talks in (True, False):
        master, slave = os.openpty()
        stop = threading.Event()

        def chatter(master: int = master, stop: threading.Event = stop) -> None:
            while not stop.wait(0.02):
                os.write(master, b"invalid header: 0xffffffff\r\n")

        thread = threading.Thread(target=chatter)
        if talks:
            thread.start()
        try:
            with pytest.raises(
                errors.NotMicroPython, match=r"does not answer as MicroPython. Write that with --firmware"
            ):
                flasher.flash(os.ttyname(slave), ESP32, stand_in(built, "1"), config_of(tmp_path), Silent())
        finally:
            stop.set()
            if talks:
                thread.join()
            os.close(master)
            os.close(slave)


class Listed:
    def __init__(self, device: str) -> None:
        self.device, self.description, self.vid = device, "CP2102 USB to UART", 0x10C4


def test_which_port(device: VirtualDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ports.choose("/dev/x", []) == "/dev/x"
    assert ports.choose(None, [Listed("/dev/ttyUSB0")]) == "/dev/ttyUSB0"
    with pytest.raises(errors.NoPort, match="no device found: is its cable plugged in"):
        ports.choose(None, [])
    with pytest.raises(errors.NoPort, match="there are 2 devices, say which:\n  --port /dev/ttyUSB0    CP2102"):
        ports.choose(None, [Listed("/dev/ttyUSB0"), Listed("/dev/ttyUSB1")])
    ports.check(device.port)
    with (
        serial.Serial(device.port, exclusive=True),
        pytest.raises(errors.NoPort, match="is in use: close the terminal"),
    ):
        ports.check(device.port)
    with pytest.raises(errors.NoPort, match="there is no port /dev/nothing: is the cable plugged in"):
        ports.check("/dev/nothing")

    def refuse(*_: object, **__: object) -> None:
        raise serial.SerialException(13, "could not open port: Permission denied")

    monkeypatch.setattr(serial, "Serial", refuse)
    with pytest.raises(errors.NoPort, match="usermod -aG dialout"):
        ports.check(device.port)


def test_memory_that_an_agent_takes(tmp_path: Path, built: Release) -> None:
    """room.py's figures hold: measured with CAN and BLE, from files, with a heap that is large enough."""
    text = CONFIG.format(name="car-7") + "[[can]]\n[[can.event]]\netag = 300\n[[ble]]\nsubject = 'Siren'\n"
    (tmp_path / "agent.toml").write_text(text)
    configuration = prepare(tmp_path / "agent.toml", ESP32)
    heap, name = 256 * KIB, f"room-{os.getpid()}"
    device = VirtualDevice(tmp_path / "device", heap=heap, can=name, ble=name)
    main = (
        b"import sys, gc, slots\nsys.path[:] = ['a/lib', '.frozen']\nfrom vicinal_edge.agent.main import main\n"
        b"main('a/agent.json', '.', 40, slots.Slots())\ngc.collect()\nprint('free', gc.mem_free(), 'end')\n"
    )
    install(device, Release("1", built.files, dict(built.boot) | {"main.py": main}), configuration)
    with device:
        device.wait_for("end")
        said = device.console
    used = heap - int(said.split("free ")[1].split()[0])
    wanted = room.needed(configuration) - 8 * KIB
    assert wanted - 12 * KIB < used <= wanted, f"{used} bytes are used, room.py says {wanted}"
    assert "wants 147 KiB of memory, and the device has 124" in str(room.warning(configuration, 124 * KIB))
    assert room.warning(configuration, 160 * KIB) is None
    assert room.warning(config_of(tmp_path), 124 * KIB) is None
