"""The boards: every file is in order, pins are used once, and mistakes are named."""

import json
import tomllib
from importlib.resources import files
from typing import Any

import pytest
from click.testing import CliRunner

from vicinal.errors import LocalProtocolError
from vicinal_hw.boards import Board, board, names
from vicinal_tools.main import cli

ESP32 = (files("vicinal_hw.boards") / "esp32.toml").read_text(encoding="utf-8")


def test_those_that_are_promised_are_there() -> None:
    assert set(names()) == {"esp32", "esp32s3", "esp32c3", "pi-zero2", "pi3", "pi4", "pi5"}


@pytest.mark.parametrize("name", names())
def test_a_board_is_in_order(name: str) -> None:
    found = board(name)
    assert found.name == name
    buses = [value for key, value in found.can.items() if key in ("sck", "mosi", "miso", "cs", "int")]
    buses += [found.i2c["scl"], found.i2c["sda"]]
    assert len(set(buses)) == len(buses)
    assert not set(buses) & set(found.pins["reserved"])
    assert (found.firmware_offset is None) == (found.kind == "linux")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("kind", "arduino", 'esp.toml: kind is \'arduino\', want "micropython" or "linux"'),
        ("flash_mb", 0, "flash_mb is 0, want 1 .. 64"),
        ("radios", ["lora"], "radios is ['lora']"),
        ("chipp", "x", "chipp is not known here"),
        ("pins", {"adc": [6], "gpio": [], "reserved": [6]}, "[pins]: adc has 6, which is reserved"),
        ("pins", {"adc": [6, 6], "gpio": [], "reserved": []}, "[pins]: adc is [6, 6], want different numbers"),
        ("i2c", {"bus": 0, "scl": 99, "sda": 1}, "[i2c]: scl is 99, want 0 .. 64"),
        ("can", {"cs": "x"}, "[can]: cs is 'x', want an integer"),
    ],
)
def test_what_is_wrong_is_said(key: str, value: Any, said: str) -> None:
    tables = tomllib.loads(ESP32)
    tables[key] = value
    with pytest.raises(LocalProtocolError) as error:
        Board(tables, "esp.toml")
    assert said in str(error.value)


def test_pins() -> None:
    esp = board("esp32")
    assert esp.check_pin("adc", 34) is None
    assert "is reserved" in str(esp.check_pin("gpio", 6))
    assert "is no adc pin: there are 32, 33" in str(esp.check_pin("adc", 4))
    assert "there are none" in str(board("pi4").check_pin("adc", 4))


def test_the_commands() -> None:
    result = CliRunner().invoke(cli, ["board", "list"])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == names()
    for line in CliRunner().invoke(cli, ["board", "list", "--json"]).stdout.splitlines():
        assert json.loads(line)["name"] in names()
    shown = CliRunner().invoke(cli, ["board", "show", "esp32"]).stdout
    assert "firmware at 0x1000" in shown
    assert "cs 5" in shown
    assert json.loads(CliRunner().invoke(cli, ["board", "show", "pi5", "--json"]).stdout)["kind"] == "linux"
    wrong = CliRunner().invoke(cli, ["board", "show", "esp8266"])
    assert wrong.exit_code == 2
    assert "there are esp32" in wrong.stderr
