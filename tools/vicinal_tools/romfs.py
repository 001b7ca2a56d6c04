"""A tree of files as a ROMFS image, from which MicroPython 1.25 and later runs bytecode where it lies, in flash.

    python -m vicinal_tools.romfs TREE IMAGE        then: mpremote romfs deploy IMAGE

What is imported from a file system is copied into the heap; of a ROMFS, bytecode, names and strings stay where they
are. An image is records in records, all of kind, length and payload:

    image      header │ length │ entries
    entry      5 │ length │ name's length │ name │ 2 │ length │ bytes        a file
               4 │ length │ name's length │ name │ entries                   a folder

Kinds and lengths have seven bits a byte, the highest first, the upper bit set in all but the last.
"""

import sys
from pathlib import Path

__all__ = ["image"]

_HEADER = b"\xd2\xcd\x31"
_DATA, _FOLDER, _FILE = 2, 4, 5


def image(tree: Path) -> bytes:
    entries = _entries(tree)
    length = _number(len(entries))
    if (len(_HEADER) + len(length) + len(entries)) % 2:
        length = b"\x80" + length  # flash is written in pairs of bytes at least
    return _HEADER + length + entries


def _entries(folder: Path) -> bytes:
    found = b""
    for path in sorted(folder.iterdir()):
        name = path.name.encode()
        head = _number(len(name)) + name
        if path.is_dir():
            found += _record(_FOLDER, head + _entries(path))
        else:
            found += _record(_FILE, head + _record(_DATA, path.read_bytes()))
    return found


def _record(kind: int, payload: bytes) -> bytes:
    return _number(kind) + _number(len(payload)) + payload


def _number(value: int) -> bytes:
    found = bytes([value & 0x7F])
    while value := value >> 7:
        found = bytes([0x80 | value & 0x7F]) + found
    return found


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0].startswith("-"):
        print("usage: python -m vicinal_tools.romfs TREE IMAGE", file=sys.stderr)
        return 2
    try:
        data = image(Path(arguments[0]))
        Path(arguments[1]).write_bytes(data)
    except OSError as error:
        print(f"romfs: {error}", file=sys.stderr)
        return 1
    print(f"{arguments[1]}: {len(data):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
