"""A release for agents: what it has to say of itself, signed. The files themselves are elsewhere, by their hashes.

    signature                       128 hex digits: r and s of ECDSA on P-256 (p256.py) over SHA-256 of all that follows
    {"back":null,"board":"any",     the head: for which board and bytecode, how much it is; from which version on it may
     "bytes":98304,"files":58,        go back, if it may
     "format":1,"mpy":6,
     "version":"0.2.0"}
    ["lib/vicinal/event.mpy",          a file each, in the order of their names: name, bytes, SHA-256
     4711,"9f86d0..."]
    ...

Each is one line of JSON. A device reads them one by one from flash, so that a release of any size costs it a line of
memory. Nothing of it is believed before the signature is checked.
"""

import binascii
import json

from ._compat import const
from .errors import LocalProtocolError, RemoteProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["FORMAT", "File", "Head", "file_of", "head_of", "is_newer", "refusal", "version_of"]

FORMAT = 1
# The first line, with its end.
SIGNATURE_LINE = const(129)
# A name, a number and a hash; and a head.
MAX_LINE = const(256)
MAX_NAME = const(120)
# Four times what an agent has today.
MAX_FILES = const(256)
MAX_FILE = const(65536)
MAX_BYTES = const(524288)
MAX_MANIFEST = const(65536)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
_KEYS = ("back", "board", "bytes", "files", "format", "mpy", "version")


class Head:
    __slots__ = ("back", "board", "bytes", "files", "mpy", "version")

    def __init__(self, version: str, board: str, mpy: int, back: "str | None", files: int, bytes: int) -> None:
        self.version = version
        self.board = board
        """the name of a board (`vicinal board list`), or "any\""""
        self.mpy = mpy
        """the version of MicroPython's bytecode"""
        self.back = back
        """the newest version that it may replace although it is older itself; None: only older ones than itself"""
        self.files = files
        self.bytes = bytes


class File:
    __slots__ = ("digest", "name", "size")

    def __init__(self, name: str, size: int, digest: bytes) -> None:
        self.name = name
        self.size = size
        self.digest = digest


def version_of(text: str) -> "list[int]":
    """Numbers with dots between them, 1 to 4 of them."""
    parts = text.split(".")
    if not 0 < len(parts) <= 4 or [part for part in parts if not part.isdigit() or len(part) > 6]:
        raise LocalProtocolError(f"version {text[:40]!r}: want one to four numbers with dots between them, as 0.2.0")
    return [int(part) for part in parts] + [0] * (4 - len(parts))


def is_newer(one: str, other: str) -> bool:
    return version_of(one) > version_of(other)


def refusal(head: Head, running: str, board: str, mpy: "int | None") -> "str | None":
    """Why a device does not want it; None: it does. `mpy` is the bytecode that it understands, if it says so."""
    if head.board not in ("any", board):
        return f"it is for board {head.board}, this is {board}"
    if mpy is not None and head.mpy != mpy:
        return f"its bytecode is of version {head.mpy}, this firmware has {mpy}"
    if is_newer(head.version, running):
        return None
    if version_of(head.version) == version_of(running):
        return f"{running} is running already"
    if head.back is None:
        return f"{running} is running, which is newer"
    if is_newer(running, head.back):
        return f"it may replace {head.back} and older, {running} is running"
    return None


def head_of(line: bytes) -> Head:
    values = _json(line)
    if not isinstance(values, dict) or sorted(values) != list(_KEYS):
        raise RemoteProtocolError("the head of the release is not in order")
    if values["format"] != FORMAT:
        raise RemoteProtocolError(f"a release of format {values['format']}, this agent knows {FORMAT}")
    version, board, back = values["version"], values["board"], values["back"]
    numbers = [values["files"], values["bytes"], values["mpy"]]
    if type(version) is not str or type(board) is not str or not (back is None or type(back) is str):
        raise RemoteProtocolError("version, board and back of the release are no text")
    for number, most in zip(numbers, (MAX_FILES, MAX_BYTES, 255)):
        if type(number) is not int or not 0 < number <= most:
            raise RemoteProtocolError(f"the release says {number} of what may be 1 .. {most}")
    try:
        version_of(version)
        if back is not None:
            version_of(back)
    except LocalProtocolError as error:
        raise RemoteProtocolError(str(error))
    return Head(version, board, numbers[2], back, numbers[0], numbers[1])


def file_of(line: bytes) -> File:
    values = _json(line)
    if not isinstance(values, list) or len(values) != 3:
        raise RemoteProtocolError("a file of the release is not in order")
    name, size, digest = values
    if type(name) is not str or not is_name(name):
        raise RemoteProtocolError(f"the release has a file {str(name)[:40]!r}, which is no name for one")
    if type(size) is not int or not 0 <= size <= MAX_FILE:
        raise RemoteProtocolError(f"{name} has {size} bytes, the limit is {MAX_FILE}")
    try:
        found = binascii.unhexlify(digest)
    except (ValueError, TypeError):
        found = b""
    if len(found) != 32:
        raise RemoteProtocolError(f"{name} has no hash")
    return File(name, size, found)


def is_name(name: str) -> bool:
    """Code alone, below the folder that a device loads it from: no configuration, and nothing that leads out of it."""
    if not name.startswith("lib/") or len(name) > MAX_NAME:
        return False
    for part in name.split("/"):
        if part in ("", ".", "..") or [sign for sign in part if sign not in _LETTERS]:
            return False
    return True


def _json(line: bytes) -> "Any":
    if len(line) > MAX_LINE or line[-1:] != b"\n":
        raise RemoteProtocolError(f"a line of {len(line)} bytes in the release, the limit is {MAX_LINE}")
    try:
        return json.loads(line)
    except ValueError:
        raise RemoteProtocolError("a line of the release is no JSON")
