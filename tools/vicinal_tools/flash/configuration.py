"""agent.toml as the agent.json of one board: its controller and its pins filled in, checked, and secrets put in.

A secret is in a file of its own or typed in, never in an argument, which other users of the machine could read:

    [wifi]
    password = "..."
"""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vicinal.errors import LocalProtocolError
from vicinal_edge.agent.config import Config
from vicinal_edge.agent.run_cpython import tables
from vicinal_hw.boards import Board

__all__ = ["Configuration", "prepare", "secrets_of"]


class Configuration:
    def __init__(self, config: Config, values: dict[str, Any]) -> None:
        self.config = config
        self.data = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode()
        """agent.json. It has secrets in it: show its length, not its text."""

    def __repr__(self) -> str:
        return f"<agent.json of {self.config.name}, {len(self.data)} bytes>"

    @property
    def journal_bytes(self) -> int:
        """That the agent takes of the file system at its first start."""
        return 0 if self.config.partition is not None else self.config.sectors * self.config.sector_bytes

    @property
    def kinds(self) -> list[str]:
        return sorted({port.kind for port in self.config.ports})


def secrets_of(path: Path) -> dict[str, Any]:
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LocalProtocolError(f"secrets {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # Not what the parser says: it may quote the line.
        raise LocalProtocolError(f'secrets {path}: not TOML; want [wifi] with password = "..."') from error
    for name, table in found.items():
        if name != "wifi" or not isinstance(table, dict) or set(table) != {"password"}:
            raise LocalProtocolError(f'secrets {path}: want [wifi] with password = "..." and nothing else')
        if not isinstance(table["password"], str):
            raise LocalProtocolError(f"secrets {path}: [wifi] password is no string")
    return found


def prepare(
    path: Path, board: Board, secrets: dict[str, Any] | None = None, ask: Callable[[str], str] | None = None
) -> Configuration:
    """`ask` is called with the name of a network whose password is not known; None: that is an error."""
    values = tables(path)
    for number, port in enumerate(_several(values, "can")):
        where = f"{path}: [[can]] {number + 1}"
        if not board.can:
            raise LocalProtocolError(f"{where}: {board.title} has no CAN controller")
        if port.get("controller", "python-can") == "python-can":
            port["controller"] = board.can["controller"]
        pins = port.setdefault("pins", {})
        if isinstance(pins, dict):
            for pin in ("spi", "cs", "int"):
                if pin in board.can:
                    pins.setdefault(pin, board.can[pin])
    for number, port in enumerate(_several(values, "sensor")):
        _check_sensor(port, board, f"{path}: [[sensor]] {number + 1}")
    if _several(values, "ble") and "ble" not in board.radios:
        raise LocalProtocolError(f"{path}: [[ble]]: {board.title} has no Bluetooth")
    wifi = values.get("wifi")
    if isinstance(wifi, dict) and isinstance(wifi.get("ssid"), str):
        if secrets and "wifi" in secrets:
            wifi["password"] = secrets["wifi"]["password"]
        if "password" not in wifi:
            if ask is None:
                raise LocalProtocolError(
                    f"{path}: [wifi] the password of {wifi['ssid']!r} is not known: put it into a file, as "
                    '[wifi] with password = "...", and give that with --secrets; "" is a network without one'
                )
            wifi["password"] = ask(wifi["ssid"])
    elif secrets:
        raise LocalProtocolError(f"{path}: there are secrets for [wifi], and no [wifi] with an ssid")
    return Configuration(Config(values, str(path)), values)


def _several(values: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """What is no list of tables is Config's to complain about."""
    found = values.get(kind, [])
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _check_sensor(port: dict[str, Any], board: Board, where: str) -> None:
    kind, pin = port.get("type"), port.get("pin")
    if kind == "file":
        raise LocalProtocolError(f'{where}: type = "file" is for a Pi; {board.title} has gpio, adc and i2c')
    if kind in ("gpio", "adc") and type(pin) is int:
        why = board.check_pin(kind, pin)
        if why is not None:
            raise LocalProtocolError(f"{where}: {why}")
