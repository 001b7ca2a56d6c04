"""A ROMFS image from the names and sizes of its files: what stands before each of them, and where.

    layout = Layout()
    layout.add("lib/vicinal/event.mpy", 4711)       every file, in ascending order of names; then in the same order:
    at, head = layout.place("lib/vicinal/event.mpy", 4711)
    layout.total                                    bytes of the image

From a ROMFS MicroPython 1.25 and later runs bytecode where it lies, in flash, and copies nothing into the heap. It is
an image of records in records, all of kind, length and payload:

    image      header │ length │ entries
    entry      5 │ length │ name's length │ name │ 2 │ length │ bytes        a file
               4 │ length │ name's length │ name │ entries                   a folder

Numbers have seven bits a byte, the highest first, the upper bit set in all but the last. Lengths always have three
bytes here: so what stands before a file is known before the others are there, to a device with no room for all of it.
"""

__all__ = ["HEADER", "Layout"]

HEADER = b"\xd2\xcd\x31"
_DATA, _FOLDER, _FILE = 2, 4, 5
# Bytes of kind and length; and what three times seven bits count to.
_RECORD = 4
_MAX = 1 << 21


class Layout:
    def __init__(self) -> None:
        self._entries = 0
        self._folders: dict[str, int] = {}
        """bytes of the payload of each"""
        self._open: list[str] = []
        self._at = 0

    @property
    def total(self) -> int:
        return len(HEADER) + 3 + self._entries

    def add(self, name: str, size: int) -> int:
        """Gives the bytes that it takes, with its names."""
        parts = name.split("/")
        taken = 2 * _RECORD + len(_named(parts[-1])) + size
        for depth in range(len(parts) - 1, 0, -1):
            path = "/".join(parts[:depth])
            is_new = path not in self._folders
            own = len(_named(parts[depth - 1]))
            self._folders[path] = (own if is_new else self._folders[path]) + taken
            taken += _RECORD + own if is_new else 0
        self._entries += taken
        return taken

    def rewind(self) -> None:
        self._open, self._at = [], 0

    def place(self, name: str, size: int) -> "tuple[int, bytes]":
        """Where the records before the next file begin, and these; its bytes follow them."""
        at, parts = self._at, name.split("/")
        head = b"" if at else HEADER + _length(self._entries)
        same, most = 0, min(len(self._open), len(parts) - 1)
        while same < most and self._open[same] == parts[same]:
            same += 1
        for depth in range(same, len(parts) - 1):
            path = "/".join(parts[: depth + 1])
            head += bytes([_FOLDER]) + _length(self._folders[path]) + _named(parts[depth])
        named = _named(parts[-1])
        head += bytes([_FILE]) + _length(len(named) + _RECORD + size) + named + bytes([_DATA]) + _length(size)
        self._open, self._at = parts[:-1], at + len(head) + size
        return at, head


def _named(name: str) -> bytes:
    octets = name.encode()
    if not 0 < len(octets) < 128:
        raise ValueError(f"a name of {len(octets)} bytes, want 1 .. 127")
    return bytes([len(octets)]) + octets


def _length(value: int) -> bytes:
    if value >= _MAX:
        raise ValueError(f"{value} bytes in a ROMFS, the limit is {_MAX - 1}")
    return bytes([0x80 | value >> 14, 0x80 | value >> 7 & 0x7F, value & 0x7F])
