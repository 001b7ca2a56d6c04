"""The virtual device: what a board does, done by real MicroPython with fakes around it."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import can
import pytest

from vicinal.errors import LocalProtocolError
from vicinal_hw.ble.virtual import VirtualRadio
from vicinal_hw.device import DeviceError, VirtualDevice, find_micropython
from vicinal_tools.romfs import image

mpremote = pytest.importorskip("mpremote.transport_serial")
pytestmark = pytest.mark.micropython
NAME = f"device-{os.getpid()}"
KIB = 1024


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VirtualDevice]:
    folder = tmp_path_factory.mktemp("device")
    with VirtualDevice(
        folder, flash=256 * KIB, link=folder / "port", can=NAME, ble=NAME, wifi={"home": "right"}
    ) as found:
        found.wait_for(">>> ")
        yield found


class Terminal:
    """mpremote's transport, as `vicinal flash` uses it; it interrupts what runs."""

    def __init__(self, device: VirtualDevice, soft_reset: bool = False) -> None:
        self.transport = mpremote.SerialTransport(device.port, 115200, timeout=5)
        self.transport.enter_raw_repl(soft_reset=soft_reset)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # of a cable that is unplugged
            self.transport.close()

    def run(self, text: str) -> str:
        said: bytes = self.transport.exec(text)
        return said.decode().strip()


def test_it_is_a_board(device: VirtualDevice) -> None:
    with Terminal(device) as terminal:
        said = terminal.run("import sys, gc, os; print(sys.platform, sys.implementation._machine, sys.maxsize)")
        assert said == "esp32 Virtual device with ESP32 2147483647"
        free = int(terminal.run("gc.collect(); print(gc.mem_free())"))
        assert 120 * KIB < free <= 128 * KIB
        with pytest.raises(mpremote.TransportError, match="memory allocation failed"):
            terminal.run(f"x = bytearray({128 * KIB})")
        with pytest.raises(mpremote.TransportError, match="NameError"):
            terminal.run("nothing")
        assert terminal.run("print(os.listdir('/'), os.statvfs('/')[:3])") == "[] (4096, 4096, 64)"
        # What it runs is not in its file system, and neither is the host's.
        with pytest.raises(mpremote.TransportError, match="ENOENT"):
            terminal.run("open('/etc/passwd')")


def test_main_runs_after_every_reset_and_files_stay(device: VirtualDevice) -> None:
    with Terminal(device) as terminal:
        terminal.transport.fs_writefile("main.py", b"import machine\nprint('main', machine.reset_cause())\n")
        at = device.mark
        terminal.transport.exec_raw_no_follow("import machine; machine.reset()")
        device.wait_for("main 2", at)
        at = device.mark
        device.reset()
        at = device.wait_for("main 2", at)
        device.wait_for(">>> ", at)
        terminal.transport.enter_raw_repl(soft_reset=True)  # which does not run it
        assert terminal.run("import machine; print(machine.reset_cause())") == "5"
        terminal.transport.exit_raw_repl()
        at = device.mark
        device.wait_for(">>> ", at)
        terminal.transport.serial.write(b"print(6 *\b* 7)\r")
        device.wait_for("42", at)
        terminal.transport.serial.write(b"for n in (1, 2):\r  print('line', n)\r\r")
        device.wait_for("line 2", at)
        terminal.transport.serial.write(b"\x04")
        device.wait_for("main 5", at)


def test_a_program_is_interrupted_and_the_watchdog_bites(device: VirtualDevice) -> None:
    with Terminal(device) as terminal:
        terminal.transport.fs_writefile("main.py", b"print('busy')\nwhile True:\n    pass\n")
        at = device.mark
        device.reset()
        at = device.wait_for("busy", at)
        terminal.transport.enter_raw_repl(soft_reset=False)
        device.wait_for("KeyboardInterrupt", at)
        bites = device.bites
        terminal.run("from machine import WDT; dog = WDT(timeout=300)")
        terminal.run("import time\nfor _ in range(10):\n  dog.feed(); time.sleep_ms(60)")
        assert device.bites == bites
        at = device.mark
        device.wait_for("busy", at)
        assert device.bites == bites + 1
        terminal.transport.enter_raw_repl(soft_reset=False)
        assert terminal.run("import machine; print(machine.reset_cause() == machine.WDT_RESET)") == "True"
        terminal.run("import os; os.remove('main.py')")


def test_pins_converters_registers_and_wifi(device: VirtualDevice) -> None:
    device.set_pin(4, 1)
    device.set_adc(34, 54321)
    device.set_register(0x48, 0, b"\x01\x02")
    with Terminal(device) as terminal:
        terminal.run("from machine import Pin, ADC, I2C; import network")
        assert terminal.run("print(Pin(4, Pin.IN).value(), ADC(Pin(34)).read_u16(), Pin(5).value())") == "1 54321 0"
        assert terminal.run("print(I2C(0).readfrom_mem(0x48, 0, 2))") == "b'\\x01\\x02'"
        with pytest.raises(mpremote.TransportError, match="ENODEV"):
            terminal.run("I2C(0).readfrom_mem(0x49, 0, 2)")
        for password, right in (("wrong", False), ("right", True)):
            text = f"w = network.WLAN(network.STA_IF); w.active(True); w.connect('home', '{password}')"
            terminal.run(text)
            assert terminal.run("print(w.isconnected())") == str(right)
        said = terminal.run(
            "from esp32 import Partition\n"
            "p = Partition.find(Partition.TYPE_DATA, label='journal')[0]\n"
            "p.ioctl(6, 1); p.writeblocks(1, b'abc', 8)\n"
            "b = bytearray(4); p.readblocks(1, b, 7); print(b, p.ioctl(4, 0))"
        )
        assert said == "bytearray(b'\\xffabc') 16"


def test_frames_and_advertisements(device: VirtualDevice) -> None:
    with can.Bus(interface="vicinal", channel=NAME, bitrate=500_000) as bus, Terminal(device) as terminal:
        terminal.run("from machine import SPI, Pin; spi = SPI(1); cs = Pin(5, Pin.OUT, value=1)")
        transfer = (
            "def t(*out):\n  into = bytearray(len(out)); spi.write_readinto(bytes(out), into); return bytes(into)"
        )
        terminal.run(transfer)
        terminal.run("t(0xC0); t(2, 0x60, 0x60); t(2, 0x0F, 0)")  # reset, any frame, normal mode
        bus.send(can.Message(arbitration_id=0x123, data=b"abc", is_extended_id=False))
        end = time.monotonic() + 20
        while terminal.run("print(t(0xA0, 0)[1] & 1)") != "1":
            assert time.monotonic() < end
        assert terminal.run("print(t(0x90, *([0] * 13))[6:9])") == "b'abc'"
        terminal.run("t(0x40, 0x24, 0x60, 0, 0, 2, 65, 66); t(0x81)")
        message = bus.recv(20)
        assert message is not None
        assert (message.arbitration_id, bytes(message.data)) == (0x123, b"AB")
        radio = VirtualRadio(NAME)
        radio.connect()
        try:
            terminal.run(
                "import bluetooth, time\nheard = []\nble = bluetooth.BLE(); ble.active(True)\n"
                "ble.irq(lambda event, data: heard.append((event, data[3] < 0, bytes(data[4]))))\n"
                "ble.gap_scan(0, 30000, 30000)"
            )
            radio.advertise(b"\x05\xff\xff\xffhi")
            terminal.run("n = 0\nwhile not heard and n < 200:\n  time.sleep_ms(50); n += 1")
            assert terminal.run("print(heard[0])") == "(5, True, b'\\x05\\xff\\xff\\xffhi')"
            radio.advertise(None)
            terminal.run("ble.gap_advertise(100000, b'\\x05\\xff\\xff\\xffyo', connectable=False)")
            heard = radio.fetch(20)
            assert heard is not None
            assert heard.advertisement == b"\x05\xff\xff\xffyo"
            with pytest.raises(mpremote.TransportError, match="OSError"):
                terminal.run("ble.gap_advertise(100000, b'x' * 32)")
        finally:
            radio.shut()


def test_the_cable_is_unplugged_and_the_device_runs_on(device: VirtualDevice) -> None:
    with Terminal(device) as terminal:
        terminal.transport.fs_writefile(
            "main.py", b"import time\nn = 0\nwhile True:\n  n += 1; print('n', n); time.sleep_ms(20)\n"
        )
        at, boots = device.mark, device.boots
        terminal.transport.exec_raw_no_follow("import machine; machine.reset()")
        device.wait_for("n 3", at)
        assert device.link is not None
        assert device.link.resolve() == Path(device.port)
        device.unplug()
        assert not device.link.exists()
        with pytest.raises((OSError, mpremote.TransportError)):
            terminal.run("print(1)")
    device.wait_for("n 40", at)
    device.plug()
    assert device.boots == boots + 1
    with Terminal(device) as terminal:
        terminal.run("import os; os.remove('main.py')")


def test_flash_is_full_and_power_goes(tmp_path: Path) -> None:
    """Littlefs itself says that it is full; and after a write that was torn it has what it had before."""
    device = VirtualDevice(tmp_path, flash=160 * KIB)
    device.put({"old.txt": b"old", "lib/x.py": b"print('x')\n"})
    assert device.files() == {"old.txt": b"old", "lib/x.py": b"print('x')\n"}
    with device:
        device.wait_for(">>> ")
        with pytest.raises(DeviceError, match="the device runs"):
            device.files()
        with Terminal(device) as terminal:
            with pytest.raises(mpremote.TransportError, match="28"):  # ENOSPC
                terminal.run(f"with open('big', 'wb') as f:\n  for n in range(200):\n    f.write(b'x' * {KIB})")
            terminal.run("import os; os.remove('big'); import x")
        text = b"import os\nwith open('new', 'w') as f:\n  f.write('new' * 9000)\n"
        text += b"os.rename('new', 'old.txt')\nprint('done')\n"
        with Terminal(device) as terminal:
            terminal.transport.fs_writefile("main.py", text)
            for cut in (0, 3, 7):
                device.cut_power_after(cut)
                at, cuts = device.mark, device.cuts
                device.reset()
                device.wait_for("done", at)  # at the second start, with power that stays
                assert device.cuts == cuts + 1
    assert device.files()["old.txt"] == b"new" * 9000


def test_what_cannot_be_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LocalProtocolError, match="runs Linux"):
        VirtualDevice(tmp_path, board="pi4")
    with pytest.raises(LocalProtocolError, match="is not known: there are"):
        VirtualDevice(tmp_path, board="esp99")
    with (
        VirtualDevice(tmp_path / "quiet", flash=64 * KIB) as quiet,
        pytest.raises(DeviceError, match="did not say 'x'"),
    ):
        quiet.wait_for("x", patience=0.1)
    monkeypatch.setenv("VICINAL_MICROPYTHON", "/usr/bin/env")
    assert find_micropython() == Path("/usr/bin/env").resolve()


def test_a_romfs_as_a_board_has_it(tmp_path: Path) -> None:
    """By mpremote's own commands; then the physics: bits go and do not come, and the power goes in the middle."""
    tree = tmp_path / "tree"
    (tree / "lib").mkdir(parents=True)
    (tree / "lib" / "inside.py").write_text("print('from the ROMFS')\n")
    (tmp_path / "it.romfs").write_bytes(image(tree))
    with VirtualDevice(tmp_path / "device", flash=256 * KIB, rom=32 * KIB) as device:
        device.wait_for(">>> ")
        command = [sys.executable, "-m", "mpremote", "connect", device.port, "resume", "romfs"]
        said = subprocess.run([*command, "query"], capture_output=True, text=True, check=False).stdout
        assert "ROMFS0 partition has size 32768 bytes (8 blocks of 4096 bytes each)" in said, said
        assert "Not a valid ROMFS" in said
        done = subprocess.run([*command, "deploy", str(tmp_path / "it.romfs")], capture_output=True, check=False)
        assert done.returncode == 0, done
        device.reset()
        at = device.wait_for(">>> ", device.mark)
        with Terminal(device) as terminal:
            assert terminal.run("import sys, inside; print(sys.path[-2:])") == (
                "from the ROMFS\r\n['/rom', '/rom/lib']"
            )
            terminal.run("import vfs; d = vfs.rom_ioctl(2, 0); m = memoryview(d)")
            assert terminal.run("print(vfs.rom_ioctl(1), vfs.rom_ioctl(2, 1), vfs.rom_ioctl(3, 0, 9))") == "1 -22 -22"
            assert terminal.run("d.writeblocks(7, b'\\x0f\\xf0', 100); print(bytes(m[28770:28775]))") == (
                "b'\\xff\\xff\\x0f\\xf0\\xff'"
            )
            assert terminal.run("d.writeblocks(7, b'\\xff\\x5a', 100); print(bytes(m[28772:28774]))") == "b'\\x0fP'"
            assert terminal.run("d.ioctl(6, 7); print(bytes(m[28772:28774]), len(m))") == "b'\\xff\\xff' 32768"
            with pytest.raises(mpremote.TransportError, match="OSError"):
                terminal.run("d.ioctl(6, 8)")
        for text, found in (
            ("d.writeblocks(6, bytes(100), 0)", "0 0 90 255 255"),
            ("d.ioctl(6, 6)", "255 255 255 255 255"),
            ("d.writeblocks(6, bytes(4096), 0); d.ioctl(6, 6)", "255 255 255 255 0"),
        ):
            device.cut_power_after(text.count(";"))
            at = device.mark
            device.reset()
            device.wait_for(">>> ", at)
            with Terminal(device) as terminal:
                at = device.mark
                terminal.transport.exec_raw_no_follow(f"import vfs; d = vfs.rom_ioctl(2, 0); {text}")
                device.wait_for(">>> ", at)
            with Terminal(device) as terminal:
                said = terminal.run("import vfs; m = memoryview(vfs.rom_ioctl(2, 0))[24576:]")
                assert terminal.run("print(m[0], m[49], m[50], m[51], m[4000])") == found, text
        assert device.cuts == 3
    with VirtualDevice(tmp_path / "other", flash=256 * KIB) as device:
        device.wait_for(">>> ")
        with Terminal(device) as terminal:
            assert terminal.run("import vfs; print(hasattr(vfs, 'rom_ioctl'))") == "False"
