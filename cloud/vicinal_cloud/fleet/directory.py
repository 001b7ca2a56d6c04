"""The folder that an administrator writes, and gateways are served from.

    fleet.toml            names = "gw-{n}"                    optional
    default.toml          for gateways without a file of their own; {name} and {uid} are filled in
    gateways/gw-3.toml    for one
    names.json, versions/, status.json                        the fleet's own; read them, leave them alone

What is no TOML, or too long, is not served: the gateway keeps what it has, and `problems` says why.
"""

import fcntl
import json
import os
import tomllib
from pathlib import Path
from typing import Any

from vicinal.errors import LocalProtocolError
from vicinal.federation.provisioning import MAX_CONFIG_BYTES, GatewayConfig, GatewayHello, good_name
from vicinal.tables_cpython import ConfigError, Table, parse_tables

from ..broker.files import replace
from .names import DEFAULT_PATTERN, Names, good_pattern
from .versions import Versions

__all__ = ["ALIVE_MS", "Fleet", "FleetInUse", "check", "put", "report"]

# A gateway says hello every minute: one that was heard within so long is told of changes.
ALIVE_MS = 180_000
DEFAULT = "default.toml"
GATEWAYS = "gateways"


class FleetInUse(LocalProtocolError):
    pass


class Fleet:
    """One process has the folder, until `close`."""

    def __init__(self, directory: Path) -> None:
        """Raises FleetInUse, or ConfigError of what is wrong with the fleet's own files."""
        self.directory = directory
        (directory / GATEWAYS).mkdir(parents=True, exist_ok=True)
        self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise FleetInUse(f"{directory}: another process serves this fleet") from error
        try:
            self.names = Names(directory / "names.json", _pattern(directory))
        except ConfigError:
            os.close(self._lock)
            raise
        self.problems: dict[str, str] = {}
        """of a gateway's name, why its text is not served"""
        self._versions: dict[str, Versions] = {}
        self._status: dict[str, dict[str, Any]] = _read_status(directory)
        self._hellos: dict[str, GatewayHello] = {}
        self._seen: dict[str, tuple[int, int]] = {}
        self._default = (0, 0)
        self._news = False

    def close(self) -> None:
        if self._lock >= 0:
            self.save_status()
            os.close(self._lock)
            self._lock = -1

    def answer(self, hello: GatewayHello, now: int) -> GatewayConfig:
        """What a gateway that says hello should be and run."""
        name = self.names.give(hello.uid, hello.name)
        versions = self._of(name)
        versions.heard(hello)
        self._hellos[name] = hello
        self._status[name] = {"uid": hello.uid, "version": hello.version, "health": hello.health, "heard": now}
        self._news = True
        return self._config(name, hello)

    def changed(self, now: int) -> list[GatewayConfig]:
        """Since the last call: for each gateway that is there and whose text is another, what it should run."""
        files = {file.stem: _stamp(file) for file in (self.directory / GATEWAYS).glob("*.toml")}
        default = _stamp(self.directory / DEFAULT)
        touched = {name for name in files.keys() | self._seen.keys() if files.get(name) != self._seen.get(name)}
        every = default != self._default
        self._seen, self._default = files, default
        found = []
        for name, hello in self._hellos.items():
            if now - self._status[name]["heard"] > ALIVE_MS:
                continue
            if name in touched or (every and name not in files):
                config = self._config(name, hello)
                if config.text is not None:
                    found.append(config)
        return found

    def save_status(self) -> None:
        """For `vicinal fleet list`."""
        if self._news:
            self._news = False
            replace(self.directory / "status.json", json.dumps(self._status))

    def _config(self, name: str, hello: GatewayHello) -> GatewayConfig:
        versions = self._of(name)
        try:
            current = versions.number_of(text_of(self.directory, name, hello.uid))
            self.problems.pop(name, None)
        except ConfigError as error:
            self.problems[name] = str(error)
            current = 0
        number, text = versions.serve(current, hello.version)
        self._status[name]["served"] = number
        self._status[name]["problem"] = self.problems.get(name, "")
        return GatewayConfig(hello.uid, name, number, None if number == hello.version else text, hello.failed)

    def _of(self, name: str) -> Versions:
        if name not in self._versions:
            self._versions[name] = Versions(self.directory / "versions" / name)
        return self._versions[name]


def text_of(directory: Path, name: str, uid: str) -> bytes:
    """The configuration of a gateway. Raises ConfigError."""
    own, default = directory / GATEWAYS / f"{name}.toml", directory / DEFAULT
    file = own if own.exists() else default
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{own}: is not there, and {DEFAULT} is not, either: {error.strerror}") from error
    if file == default:
        data = data.replace(b"{name}", name.encode()).replace(b"{uid}", uid.encode())
    check_text(file, data)
    return data


def check_text(file: Path, data: bytes) -> None:
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigError(f"{file}: has {len(data)} bytes, the limit is {MAX_CONFIG_BYTES}")
    parse_tables(file, data)


def put(directory: Path, name: str | None, data: bytes, again: bool = False) -> Path:
    """Makes a text the configuration of a gateway, or of those without one of their own. `again`: as a new version even
    if the same text was served before, and failed. Raises ConfigError."""
    if name is not None and not good_name(name):
        raise ConfigError(f"{name!r} is no name of a gateway: want 1 to 64 bytes without spaces, quotes, / , * ? {{ }}")
    file = directory / DEFAULT if name is None else directory / GATEWAYS / f"{name}.toml"
    if again:
        count = data.count(b"# again\n") + (file.read_bytes().count(b"# again\n") if file.exists() else 0)
        data = data.rstrip(b"\n") + b"\n" + b"# again\n" * (count + 1)
    check_text(file, data)
    file.parent.mkdir(parents=True, exist_ok=True)
    replace(file, data)
    return file


def check(directory: Path) -> list[str]:
    """Everything that is wrong with the folder."""
    if not directory.is_dir():
        return [f"{directory}: is no directory"]
    wrong = []
    try:
        Names(directory / "names.json", _pattern(directory))
    except ConfigError as error:
        wrong.append(str(error))
    for file in sorted((directory / GATEWAYS).glob("*")):
        if file.suffix not in (".toml", ".new") or not good_name(file.stem):
            wrong.append(f"{file}: is no NAME.toml of a gateway")
            continue
    for file in files_of(directory):
        try:
            check_text(file, filled(file, file.read_bytes()))
        except ConfigError as error:
            wrong.append(str(error))
    return wrong


def files_of(directory: Path) -> list[Path]:
    """The configurations that an administrator wrote."""
    default = directory / DEFAULT
    return [default] * default.exists() + sorted((directory / GATEWAYS).glob("*.toml"))


def filled(file: Path, data: bytes) -> bytes:
    """As some gateway would get it."""
    return data.replace(b"{name}", b"gw-1").replace(b"{uid}", b"uid-1") if file.name == DEFAULT else data


def report(directory: Path) -> list[dict[str, Any]]:
    """The gateways, as the process that serves them, or did, has left them on disk."""
    status = _read_status(directory)
    found = []
    for uid, name in Names(directory / "names.json").items():
        versions = Versions(directory / "versions" / name)
        own = status.get(name, {})
        found.append(
            {
                "name": name,
                "uid": uid,
                "version": own.get("version", 0),
                "served": own.get("served", 0),
                "health": own.get("health", ""),
                "heard": own.get("heard"),
                "bad": versions.bad,
                "problem": own.get("problem", ""),
            }
        )
    return found


def _pattern(directory: Path) -> str:
    file = directory / "fleet.toml"
    if not file.exists():
        return DEFAULT_PATTERN
    try:
        table = Table(file, "fleet", tomllib.loads(file.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not TOML: {error}") from error
    pattern: str = table.take("names", str, DEFAULT_PATTERN)
    if not good_pattern(pattern):
        raise table.error("names", f'is {pattern!r}, want {{n}} in it, once, as in "{DEFAULT_PATTERN}"')
    table.done()
    return pattern


def _stamp(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_ino


def _read_status(directory: Path) -> dict[str, dict[str, Any]]:
    try:
        found: dict[str, dict[str, Any]] = json.loads((directory / "status.json").read_bytes())
    except (OSError, ValueError):
        return {}  # it is for people only: who says hello is in it again
    return found
