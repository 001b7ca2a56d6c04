"""The tables of a TOML file, read key by key. Whatever is wrong is said with the file, the table and the key.

    table = Table(file, "broker", tables["broker"])
    name = table.name()
    rate = table.number("rate", 0, minimum=0)
    table.done()                                    what is left over is an error: it is a misspelt key

Nothing is opened here: who has the file gives its bytes to `parse_tables`.
"""

import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from .errors import LocalProtocolError
from .filter import Filter
from .siena.messages import MAX_NAME_BYTES

__all__ = ["ConfigError", "Table", "parse_tables", "tables_of"]

T = TypeVar("T")
_WANT = {
    str: "a string",
    list: "an array",
    int: "an integer",
    dict: "a table",
    bool: "true or false",
    float: "a number",
}


class ConfigError(LocalProtocolError):
    """The file, the table, the key and what is wrong there."""


def parse_tables(file: Path, data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not TOML: {error}") from error


def tables_of(file: Path, tables: dict[str, Any], where: str) -> "list[Table]":
    """Those of [[where]], of which there may be several."""
    found = tables.get(where, [])
    if not isinstance(found, list):
        raise ConfigError(f"{file}: write [[{where}]], not [{where}]: there may be several")
    return [Table(file, where, values) for values in found]


class Table:
    """Takes keys; what is left over is an error, because it is a misspelt one. Paths are relative to the file."""

    def __init__(self, file: Path, where: str, values: Any) -> None:
        self.file = file
        self.where = where
        if not isinstance(values, dict):
            raise ConfigError(f"{file}: [{where}] is not a table")
        self.values: dict[str, Any] = dict(values)
        self._known: list[str] = []

    def take(self, key: str, kind: type, default: Any = None, required: bool = False) -> Any:
        self._known.append(key)
        if key not in self.values:
            if required:
                close = get_close_matches(key, self.values, 1)
                raise self.error(key, f"is missing: there is {close[0]!r}, is it meant?" if close else "is missing")
            return default
        value = self.values.pop(key)
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:
            raise self.error(key, f"is {value!r}, want {_WANT[kind]}")
        return value

    def number(self, key: str, default: Any = None, minimum: int = 0, maximum: int | None = None) -> Any:
        """An integer within its bounds."""
        value = self.take(key, int, default)
        if value is not None and (value < minimum or (maximum is not None and value > maximum)):
            most = "" if maximum is None else f" and at most {maximum}"
            raise self.error(key, f"is {value}, want at least {minimum}{most}")
        return value

    def choice(self, key: str, choices: tuple[str, ...], default: str | None = None) -> str:
        value: str = self.take(key, str, default, required=default is None)
        if value not in choices:
            raise self.error(key, f"is {value!r}, want one of {', '.join(choices)}")
        return value

    def name(self, key: str = "name", default: str | None = None) -> str:
        value: str = self.take(key, str, default, required=default is None)
        if not 0 < len(value.encode()) <= MAX_NAME_BYTES or "/" in value:
            raise self.error(key, f"is {value!r}, want 1 to {MAX_NAME_BYTES} bytes without a slash")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        values = self.take(key, list, [])
        for value in values:
            if type(value) is not str:
                raise self.error(key, f"has {value!r}, want strings")
        return tuple(values)

    def path(self, key: str, required: bool = False) -> Path | None:
        value = self.take(key, str, required=required)
        return None if value is None else self.file.parent / value

    def filter(self, key: str, required: bool = False) -> Filter | None:
        return self.parsed(key, Filter, required)

    def parsed(self, key: str, parse: Callable[[str], T], required: bool = False) -> T | None:
        """What `parse` makes of a string."""
        value = self.take(key, str, required=required)
        try:
            return None if value is None else parse(value)
        except LocalProtocolError as error:
            raise self.error(key, f"is {value!r}: {error}") from error

    def table(self, key: str) -> "Table":
        """[where.key]; an empty one where there is none."""
        return Table(self.file, f"{self.where}.{key}", self.take(key, dict, {}))

    def tables(self, key: str) -> "list[Table]":
        """[[where.key]]"""
        return [Table(self.file, f"{self.where}.{key}", values) for values in self.take(key, list, [])]

    def done(self) -> None:
        for key in self.values:
            close = get_close_matches(key, self._known, 1)
            raise self.error(key, f"is not known here{f': is {close[0]!r} meant?' if close else ''}")

    def error(self, key: str, message: str) -> ConfigError:
        return ConfigError(f"{self.file}: [{self.where}] {key} {message}")

    def fail(self, key: str, message: str) -> NoReturn:
        raise self.error(key, message)
