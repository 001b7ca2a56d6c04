"""A table of a file that a person wrote: keys are taken; what is left over is an error, because it is a misspelt one.

    car.toml: [[message]] 2 'Speed', field 1 'rate': scale is 0, want another number

Every message begins with the place; `where` grows as names become known.
"""

from ._compat import utf8_len
from .errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Table", "shown"]

_WANT = {str: "a string", int: "an integer", bool: "true or false", list: "an array", dict: "a table"}


class Table:
    def __init__(self, where: str, values: "Any") -> None:
        self.where = where
        if not isinstance(values, dict):
            raise LocalProtocolError(f"{where}: want a table, got {shown(values)}")
        self.values: dict[str, Any] = dict(values)
        self.known: list[str] = []

    def take(self, key: str, kind: "Any", default: "Any" = None, required: bool = False) -> "Any":
        self.known.append(key)
        if key not in self.values:
            if required:
                raise self.error(key, "is missing")
            return default
        value = self.values.pop(key)
        if type(value) is not kind and not (kind is dict and isinstance(value, dict)):
            raise self.error(key, f"is {shown(value)}, want {_WANT[kind]}")
        return value

    def name(self, key: str, most: int) -> str:
        value: str = self.take(key, str, required=True)
        if not 0 < utf8_len(value) <= most:
            raise self.error(key, f"is {shown(value)}, want 1 to {most} bytes of text")
        self.where += f" {value!r}"
        return value

    def number(self, key: str, default: "Any") -> "Any":
        self.known.append(key)
        value = self.values.pop(key, default)
        if value is not default and (type(value) not in (int, float) or value - value != 0):
            raise self.error(key, f"is {shown(value)}, want a number")
        return value

    def integer(self, key: str, low: int, high: int, default: "int | None" = None, required: bool = False) -> "Any":
        value = self.take(key, int, default, required)
        if value is not default and not low <= value <= high:
            raise self.error(key, f"is {value}, want {low} .. {high}")
        return value

    def endian(self, default: "str | None" = None) -> "str | None":
        value: str | None = self.take("endian", str, default)
        if value not in (None, "big", "little"):
            raise self.error("endian", f'is {shown(value)}, want "big" or "little"')
        return value

    def done(self) -> None:
        for key in self.values:
            raise self.error(key, f"is not known here: want {', '.join(self.known)}")

    def error(self, key: str, message: str) -> LocalProtocolError:
        return LocalProtocolError(f"{self.where}: {key} {message}")


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."
