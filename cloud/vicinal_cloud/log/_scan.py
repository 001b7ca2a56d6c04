"""From bytes of a segment to its records, whatever has happened to the bytes.

A record counts when its magic, its lengths, its CRC and its place in the order of offsets are right. Where one is not,
the scanner looks for the next that is: what lies between is a `Damage`, with the offsets that are missing. No damaged
byte is ever given out.
"""

from typing import NamedTuple

from vicinal.limits import MAX_EVENT_BYTES, MAX_PRODUCER_BYTES

from . import _record
from ._record import CHECKED_FROM, FIXED, FIXED_BYTES, MAGIC, Record

# Of the checked part, before the producer.
_BODY = FIXED_BYTES - CHECKED_FROM


class Damage(NamedTuple):
    """Records `first` to `last` cannot be read; none when last < first, and only bytes are wrong."""

    first: int
    last: int
    position: int
    bytes: int


class Scanner:
    """feed() bytes from `position` on, take() records. Offsets must lie in low..high-1 and ascend.

    `next` is the offset after the last record, `end` the position behind it: what is behind `end` when all bytes have
    been fed and taken is a torn tail, or damage up to the end of the segment.
    """

    def __init__(self, salt: int, low: int, high: int, position: int) -> None:
        self.salt = salt
        self.next = low
        self.high = high
        self.end = position
        self.damage: list[Damage] = []
        self._buffer = b""
        self._at = 0  # of the next byte to look at, in the buffer
        self._start = position  # of the buffer's first byte, in the segment
        self._eof = False

    @property
    def fed(self) -> int:
        """The position of the byte to feed next."""
        return self._start + len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Nothing means the end of the segment."""
        if not data:
            self._eof = True
        self._buffer = self._buffer[self._at :] + data
        self._start += self._at
        self._at = 0

    def take(self, most: int) -> list[Record]:
        """Up to `most` records; fewer when more bytes are wanted, the segment ends or `high` is reached."""
        found: list[Record] = []
        buffer, at, size, salt = self._buffer, self._at, len(self._buffer), self.salt
        unpack, check = FIXED.unpack_from, _record.crc
        while len(found) < most and at + FIXED_BYTES <= size and self.next < self.high:
            magic, crc, n, offset, time, seq, lag, p = unpack(buffer, at)
            if (
                magic == MAGIC
                and 0 < n <= MAX_EVENT_BYTES
                and 0 < p <= MAX_PRODUCER_BYTES
                and self.next <= offset < self.high
            ):
                end = at + FIXED_BYTES + p + n
                if end <= size:
                    checked = buffer[at + CHECKED_FROM : end]
                    if check(checked, salt) == crc:
                        here = self._start + at
                        if offset != self.next or here != self.end:
                            self.damage.append(Damage(self.next, offset - 1, self.end, here - self.end))
                        body = _BODY + p
                        found.append(Record(offset, time, checked[_BODY:body].decode(), seq, checked[body:], lag))
                        self.next = offset + 1
                        at = end
                        self.end = self._start + end
                        continue
                elif not self._eof:
                    break
            at = buffer.find(MAGIC, at + 1)
            if at < 0:
                at = size - len(MAGIC) + 1  # the magic may begin in the last bytes
        self._at = at
        return found


def first_record(data: bytes, salt: int, low: int, high: int) -> tuple[int, int] | None:
    """Position in `data` and offset of the first whole record, whatever lies before it."""
    scanner = Scanner(salt, low, high, 0)
    scanner.feed(data)
    scanner.feed(b"")
    found = scanner.take(1)
    if not found:
        return None
    position = scanner.damage[0].position + scanner.damage[0].bytes if scanner.damage else 0
    return position, found[0].offset
