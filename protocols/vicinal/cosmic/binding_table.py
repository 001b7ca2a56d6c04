"""What a broker has given to whom: a list of entries that only grows, so that two brokers can compare theirs by length
and checksum, and so that a file of it is written by appending (spec/cosmic_binding.md, CBIND-32 to CBIND-34).

    entry = kind (1: node, 2: subject) │ UID (8) │ number or etag (2) │ CRC-32 of all entries up to here (4)

The last entry rules: it takes the UID from what it had before, and the number from whoever had it.
"""

from binascii import crc32

from .._compat import const
from ..errors import LimitError
from .binding_frames import BROKER, FIRST_ETAG, LAST_ETAG

TYPE_CHECKING = False
if TYPE_CHECKING:
    Entry = tuple[int, bytes, int]

__all__ = ["BindingTable"]

NODE = const(1)
SUBJECT = const(2)
ENTRY_BYTES = const(15)
# Every etag and every node, and as many corrections by those who hold another.
MAX_ENTRIES = const(32768)


class BindingTable:
    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._entries: list[Entry] = []
        self._checks = [0]
        self._numbers: tuple[dict[bytes, int], dict[bytes, int]] = ({}, {})
        self._owners: tuple[dict[int, bytes], dict[int, bytes]] = ({}, {})
        self._free = [0, LAST_ETAG]  # where to look for the next

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: int) -> "Entry":
        return self._entries[index]

    def check(self, length: "int | None" = None) -> int:
        """The checksum of the first `length` entries; -1 for more than there are."""
        if length is None:
            return self._checks[-1]
        return self._checks[length] if length < len(self._checks) else -1

    def number(self, kind: int, uid: bytes) -> "int | None":
        return self._numbers[kind - 1].get(uid)

    def owner(self, kind: int, number: int) -> "bytes | None":
        return self._owners[kind - 1].get(number)

    def put(self, kind: int, uid: bytes, number: int) -> None:
        if len(self._entries) >= MAX_ENTRIES:
            raise LimitError("entries of the binding table", len(self._entries) + 1, MAX_ENTRIES)
        numbers, owners = self._numbers[kind - 1], self._owners[kind - 1]
        before = numbers.pop(uid, None)
        if before is not None:
            del owners[before]
        robbed = owners.pop(number, None)
        if robbed is not None:
            del numbers[robbed]
        numbers[uid] = number
        owners[number] = uid
        if before is not None and before != number:
            self._free = [0, LAST_ETAG]
        self._entries.append((kind, uid, number))
        self._checks.append(crc32(_body(kind, uid, number), self._checks[-1]))

    def give(self, kind: int, uid: bytes) -> "int | None":
        """A number that nobody has: nodes from 0 up, etags from 16383 down. None when there is none, or no room."""
        if len(self._entries) >= MAX_ENTRIES:
            return None
        owners = self._owners[kind - 1]
        number = self._free[kind - 1]
        step = 1 if kind == NODE else -1
        while number in owners:
            number += step
        self._free[kind - 1] = number
        if number >= BROKER if kind == NODE else number < FIRST_ETAG:
            return None
        self.put(kind, uid, number)
        return number

    # For the disk

    def to_bytes(self, start: int = 0) -> bytes:
        """The entries from `start` on: append them to what was stored before."""
        found = []
        for index in range(start, len(self._entries)):
            kind, uid, number = self._entries[index]
            found.append(_body(kind, uid, number) + self._checks[index + 1].to_bytes(4, "big"))
        return b"".join(found)

    def restore(self, data: bytes) -> int:
        """From what was stored. Gives how many bytes were good: an append that was cut short ends it there."""
        self.clear()
        start = 0
        while start + ENTRY_BYTES <= len(data) and len(self._entries) < MAX_ENTRIES:
            kind, uid = data[start], data[start + 1 : start + 9]
            number = int.from_bytes(data[start + 9 : start + 11], "big")
            check = crc32(data[start : start + 11], self._checks[-1])
            if check != int.from_bytes(data[start + 11 : start + ENTRY_BYTES], "big"):
                break
            if not valid(kind, uid, number):
                break
            self.put(kind, uid, number)
            start += ENTRY_BYTES
        return start


def valid(kind: int, uid: bytes, number: int) -> bool:
    if kind == NODE:
        return any(uid) and number < BROKER
    return kind == SUBJECT and any(uid) and FIRST_ETAG <= number <= LAST_ETAG


def _body(kind: int, uid: bytes, number: int) -> bytes:
    return bytes([kind]) + uid + number.to_bytes(2, "big")
