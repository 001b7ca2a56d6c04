"""What `vicinal flash` is given: configurations, secrets, images; and what it asks esptool for. No device is there."""

import contextlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from vicinal.errors import LocalProtocolError
from vicinal_hw.boards import board
from vicinal_tools.flash import errors, firmware, ports, release
from vicinal_tools.flash.configuration import prepare, secrets_of
from vicinal_tools.flash.release import Release
from vicinal_tools.main import cli

esptool = pytest.importorskip("esptool")
ESP32 = board("esp32")
AGENT = '[agent]\nname = "car-7"\ngateway = "coap://192.168.4.1"\n'
WIFI = '[wifi]\nssid = "home"\n'
SECRET = "hush-hush"


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "build", lambda: Release("9.9", {"lib/x.mpy": b"x" * 1000}, {"main.py": b"y"}))
    monkeypatch.setattr(ports, "listed", list)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def run(*arguments: str, text: str | None = None) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["flash", *arguments], input=text)
    return done.exit_code, done.output


def test_a_board_fills_in_its_controller_and_pins(tmp_path: Path) -> None:
    config = write(tmp_path, "agent.toml", AGENT + "[[can]]\nbitrate = 250000\n[[can.event]]\netag = 300\n")
    values = json.loads(prepare(config, ESP32).data)
    assert values["can"][0]["controller"] == "mcp2515"
    assert values["can"][0]["pins"] == {"spi": 2, "cs": 5, "int": 4}
    config = write(tmp_path, "agent.toml", AGENT + "[[can]]\npins = { cs = 15 }\n[[can.event]]\netag = 300\n")
    assert json.loads(prepare(config, ESP32).data)["can"][0]["pins"] == {"spi": 2, "cs": 15, "int": 4}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[sensor]]\ntype = "adc"\npin = 6\nsubject = "T"\n', "pin 6 of ESP32 (DevKitC, WROOM-32) is reserved"),
        ('[[sensor]]\ntype = "gpio"\npin = 34\nsubject = "T"\n', "is no gpio pin: there are 2, 4"),
        ('[[sensor]]\ntype = "file"\npath = "/sys/x"\nsubject = "T"\n', 'type = "file" is for a Pi'),
        ("[[sensor]]\nsubject = 3\n", "[[sensor]] 1"),
        ("[nonsense]\n", "[nonsense] is not known"),
        (WIFI, "the password of 'home' is not known: put it into a file"),
    ],
)
def test_a_configuration_that_the_board_cannot_have(tmp_path: Path, text: str, said: str) -> None:
    config = write(tmp_path, "agent.toml", AGENT + text)
    code, output = run("--board", "esp32", "--config", str(config))
    assert code == 2
    assert said in output


def test_secrets_come_from_a_file_or_are_asked_for_and_never_shown(tmp_path: Path) -> None:
    config = write(tmp_path, "agent.toml", AGENT + WIFI)
    secrets = write(tmp_path, "secrets.toml", f'[wifi]\npassword = "{SECRET}"\n')
    made = prepare(config, ESP32, secrets_of(secrets))
    assert json.loads(made.data)["wifi"] == {"ssid": "home", "password": SECRET}
    assert SECRET not in repr(made)
    asked: list[str] = []

    def ask(ssid: str) -> str:
        asked.append(ssid)
        return SECRET

    assert json.loads(prepare(config, ESP32, None, ask).data)["wifi"]["password"] == SECRET
    assert asked == ["home"]
    for more in ((), ("--json",)):
        code, output = run("--board", "esp32", "--config", str(config), "--secrets", str(secrets), "--dry-run", *more)
        assert code == 0
        assert "1,000" in output or '"lib/x.mpy": 1000' in output
        assert "agent.json" in output
        assert SECRET not in output
    # A dry run asks nobody.
    assert run("--board", "esp32", "--config", str(config), "--dry-run")[0] == 0
    for text in (
        f"password = {SECRET}",
        f'[wifi]\npasword = "{SECRET}"\n',
        f'password = "{SECRET}"\n',
        "[wifi]\npassword = 5\n",
    ):
        code, output = run("--board", "esp32", "--config", str(config), "--secrets", str(write(tmp_path, "bad", text)))
        assert code == 2
        assert SECRET not in output
        assert "[wifi]" in output
    code, output = run("--board", "esp32", "--config", str(config), "--secrets", str(tmp_path / "none"))
    assert (code, "No such file" in output) == (2, True)
    plain = write(tmp_path, "plain.toml", AGENT)
    code, output = run("--board", "esp32", "--config", str(plain), "--secrets", str(secrets))
    assert (code, "no [wifi] with an ssid" in output) == (2, True)


def test_no_option_takes_a_secret() -> None:
    from vicinal_tools.commands.flash import command

    names = {name for option in command.params for name in option.opts}
    assert names == {"--board", "--config", "--port", "--firmware", "--secrets", "--dry-run", "--json"}


def test_exit_codes(tmp_path: Path) -> None:
    config = str(write(tmp_path, "agent.toml", AGENT))
    assert run("--board", "esp32", "--config", config, "--dry-run")[0] == 0
    code, output = run("--board", "esp32", "--config", config)
    assert (code, "no device found" in output) == (1, True)
    code, output = run("--board", "esp32", "--config", config, "--port", str(tmp_path / "none"))
    assert (code, "there is no port" in output) == (1, True)
    code, output = run("--board", "esp99", "--config", config)
    assert (code, "is not known: there are" in output) == (2, True)
    code, output = run("--board", "pi4", "--config", config)
    assert (code, "runs Linux: install vicinal on it" in output) == (2, True)


# Firmware


def image(chip_id: int, payload: bytes = bytes(range(64))) -> bytes:
    """The least that esptool takes for an image: header, extended header, one segment, checksum."""
    head = struct.pack("<BBBBI", 0xE9, 1, 2, 0x20, 0x40080000)
    head += bytes([0xEE, 0, 0, 0]) + struct.pack("<HBHH", chip_id, 0, 0, 0xFFFF) + bytes(4) + b"\x00"
    body = head + struct.pack("<II", 0x3FFB0000, len(payload)) + payload
    check = 0xEF
    for octet in payload:
        check ^= octet
    body += bytes(15 - len(body) % 16) + bytes([check])
    return body


def test_an_image_is_checked_against_the_board(tmp_path: Path) -> None:
    path = tmp_path / "mp.bin"
    path.write_bytes(image(0) + b"\xff" * 5000)
    assert firmware.check_image(path, ESP32) == path.read_bytes()
    path.write_bytes(image(9))
    assert firmware.check_image(path, board("esp32s3"))
    for data, said in (
        (image(9), "it is for the chip esp32s3, and board 'esp32' has esp32: take the image for this board"),
        (image(0)[:-1] + b"\x00", "its checksum is wrong: get it again"),
        (image(0)[:40], "no image for an ESP32"),
        (b"", "no image for an ESP32"),
        (b"<!DOCTYPE html>", "no image for an ESP32"),
        (b"\xe9" * (4 * 1024 * 1024 + 1), "has 4 MiB of flash"),
    ):
        path.write_bytes(data)
        with pytest.raises(LocalProtocolError) as raised:
            firmware.check_image(path, ESP32)
        assert said in str(raised.value)
    config = str(write(tmp_path, "agent.toml", AGENT))
    code, output = run("--board", "esp32", "--config", config, "--firmware", str(path))
    assert (code, "has 4 MiB of flash" in output) == (2, True)
    path.write_bytes(image(0))
    code, output = run("--board", "esp32", "--config", config, "--firmware", str(path), "--dry-run")
    assert (code, "firmware, at 0x1000" in output) == (0, True)


class FakeChip:
    """In the place of esptool's loader: what a chip would be asked for."""

    def __init__(self, name: str) -> None:
        self.CHIP_NAME = name
        self.baud = 115_200

    def change_baud(self, baud: int) -> None:
        self.baud = baud


class FakeEsptool:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, chip: str, error: Exception | None = None) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.chip = FakeChip(chip)

        @contextlib.contextmanager
        def detect_chip(port: str) -> Iterator[FakeChip]:
            self.calls.append(("detect", port))
            if error is not None:
                raise error
            yield self.chip

        def write_flash(chip: FakeChip, data: list[tuple[int, bytes]], **options: Any) -> None:
            self.calls.append(("write", data, options))
            esptool.logger.log.progress_bar(5, 10)

        def note(name: str) -> Any:
            return lambda chip, *rest: self.calls.append((name, *rest)) or chip

        for name, call in (
            ("detect_chip", detect_chip),
            ("run_stub", note("stub")),
            ("attach_flash", note("attach")),
            ("write_flash", write_flash),
            ("reset_chip", note("reset")),
        ):
            monkeypatch.setattr(esptool.cmds, name, call)


def test_what_esptool_is_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake, told = FakeEsptool(monkeypatch, "ESP32-S3"), []
    firmware.write("/dev/x", board("esp32s3"), b"image", lambda at, total: told.append((at, total)))
    assert fake.calls == [
        ("detect", "/dev/x"),
        ("stub",),
        ("attach",),
        ("write", [(0, b"image")], {}),
        ("reset", "hard-reset"),
    ]
    assert (fake.chip.baud, told) == (460_800, [(5, 10)])
    assert capsys.readouterr() == ("", "")


def test_what_esptool_says_is_said_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeEsptool(monkeypatch, "ESP32-C3")
    with pytest.raises(errors.WrongBoard, match=r"is ESP32-C3, and board 'esp32' has esp32: .* Nothing was written"):
        firmware.write("/dev/x", ESP32, b"image", lambda *_: None)
    assert [call[0] for call in fake.calls] == ["detect", "reset"]
    FakeEsptool(monkeypatch, "ESP32", esptool.FatalError("Failed to connect"))
    with pytest.raises(errors.FlashError, match=r"esptool says: Failed to connect. Hold BOOT while"):
        firmware.write("/dev/x", ESP32, b"image", lambda *_: None)
    FakeEsptool(monkeypatch, "ESP32", OSError(5, "Input/output error"))
    with pytest.raises(errors.NoPort, match="is gone, or cannot be opened"):
        firmware.write("/dev/x", ESP32, b"image", lambda *_: None)
