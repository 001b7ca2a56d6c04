"""What waits for the gateway: in memory while it is there, on flash while it is not, and after a power cut.

    journal = Journal(flash)
    seq = journal.take_seq()                   a number that was never given before, whatever happened
    journal.append(seq, data, now)             in memory; on flash after `linger` ms, or when the memory is full
    journal.first()                            (seq, data) of the oldest; journal.done(seq) when the gateway has it

    sector   header │ record │ record │ ... │ 0xFF ...        a ring of them, the oldest erased for the next
    header   "VJ", version, size of sector / 256 │ serial │ oldest serial │ done │ reserved │ dropped │ CRC-32
    record   length (2) │ kind (1) │ 0 (1) │ payload │ CRC-32 from the serial on; padded to 4 bytes

Flash wears out, so that what a gateway takes at once is never written: only numbers are, in blocks ahead, so that none
is used twice. Sectors are taken in turn, and each is erased as often as the others.

Power may go at any write. A record counts when its CRC is right; after a torn one nothing more is written to its
sector. A header makes a sector the newest and says which is the oldest from then on: what is older is gone with it, and
counted, if it had to give way.
"""

import struct
from binascii import crc32

from vicinal.errors import LimitError, LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Flash(Protocol):
        sectors: int
        size: int

        def read(self, sector: int, offset: int, length: int) -> bytes: ...
        def program(self, sector: int, offset: int, data: bytes) -> None: ...
        def erase(self, sector: int) -> None: ...


__all__ = ["Journal"]

_HEADER = "<2sBBIIQQI"
_HEADER_SIZE = 36  # with its CRC
_EVENT, _DONE, _RESERVE = 1, 2, 3
_OVERHEAD = 16  # of an event: length, kind, seq, CRC
_NUMBER_RECORD = 16
# Events that the gateway has, and flash does not know of: so many come again after a power cut, at most.
_DONE_EVERY = 64


class Journal:
    def __init__(self, flash: "Flash", memory: int = 2048, linger: int = 2000, reserve: int = 256) -> None:
        """`memory` bytes of events before they are written, `linger` ms that the gateway has for each before, numbers
        reserved at a time."""
        if flash.sectors < 3 or not 256 <= flash.size <= 65280 or flash.size % 256:
            what = f"{flash.sectors} of {flash.size} bytes"
            raise LimitError("sectors of the journal", what, "3 or more of 256 to 65280, in steps of 256")
        self.flash = flash
        self.memory = memory
        self.linger = linger
        self.reserve = reserve
        self.max_event = flash.size - _HEADER_SIZE - _OVERHEAD - 3
        self.appended = self.delivered = self.dropped = self.damaged = self.faults = 0
        """events since the start, but `dropped`, which is of all time; damaged sectors; writes that failed"""
        self._serial = self._acked = 0
        self._next = self._reserved = 1
        self._order: list[tuple[int, int, int]] = []  # oldest first: sector, serial, its last seq
        self._offset = flash.size  # where the newest goes on; at its end there is no room
        self._held = 0  # events on flash that are not done
        self._unsaved = 0
        self._bad: list[int] = []  # sectors that failed since the start
        self._ram: list[tuple[int, bytes, int]] = []
        self._ram_bytes = 0
        self._at = _HEADER_SIZE  # where the oldest event is, in the oldest sector
        self._first: tuple[int, bytes] | None = None
        self._load()

    # What an agent calls

    @property
    def stored(self) -> int:
        """Events that are not done."""
        return self._held + len(self._ram)

    def take_seq(self) -> int:
        """LocalProtocolError: the flash takes no more, so that nobody would know that the number was used."""
        if self._next >= self._reserved:
            ahead = struct.pack("<Q", self._reserved + self.reserve)
            while not self._write(_RESERVE, ahead):
                if len(self._bad) >= self.flash.sectors:
                    raise LocalProtocolError(f"number {self._next} is not to be had: all sectors of the journal fail")
            self._reserved += self.reserve
        self._next += 1
        return self._next - 1

    def append(self, seq: int, data: bytes, now: int) -> None:
        if len(data) > self.max_event:
            raise LimitError("bytes of an event for the journal", len(data), self.max_event)
        self.appended += 1
        self._ram.append((seq, data, now))
        self._ram_bytes += len(data) + _OVERHEAD
        if self._ram_bytes > self.memory:
            self.flush()

    def first(self) -> "tuple[int, bytes] | None":
        if self._held:
            if self._first is None:
                self._first = self._seek()
            if self._first is not None:
                return self._first
        return self._ram[0][:2] if self._ram else None

    def done(self, seq: int) -> bool:
        """This one is with the gateway, or will never be. False: it is not the first any more, as it gave way."""
        found = self.first()
        if found is None or found[0] != seq:
            return False
        self.delivered += 1
        if not self._held:
            self._ram_bytes -= len(self._ram.pop(0)[1]) + _OVERHEAD
            return True
        self._acked, self._first = found[0], None
        self._at += _padded(_OVERHEAD + len(found[1]))
        self._held -= 1
        self._unsaved += 1
        if not self._held or self._unsaved >= _DONE_EVERY:
            self._write(_DONE, struct.pack("<Q", self._acked))
            self._unsaved = 0
        return True

    def next_timeout(self) -> "int | None":
        return self._ram[0][2] + self.linger if self._ram else None

    def handle_timeout(self, now: int) -> None:
        due = self.next_timeout()
        if due is not None and now >= due:
            self.flush()

    def flush(self) -> None:
        """What is in memory goes to flash. What flash does not take stays, and the oldest give way to the memory."""
        while self._ram:
            seq, data, _ = self._ram[0]
            written = False
            while not written and len(self._bad) < self.flash.sectors:
                written = self._write(_EVENT, struct.pack("<Q", seq) + data, seq)
            if not written:
                break
            self._ram.pop(0)
            self._ram_bytes -= len(data) + _OVERHEAD
            self._held += 1
        while self._ram_bytes > self.memory:
            self._ram_bytes -= len(self._ram.pop(0)[1]) + _OVERHEAD
            self.dropped += 1

    # Writing

    def _write(self, kind: int, payload: bytes, seq: int = -1) -> bool:
        """False: this sector fails; the next try goes to another."""
        size, sector = _padded(8 + len(payload)), -1
        try:
            if self._offset + size > self.flash.size:
                sector = self._next_sector()
                self._begin_sector(sector)
            record = struct.pack("<HBB", len(payload), kind, 0) + payload
            record += struct.pack("<I", crc32(record, self._serial) & 0xFFFFFFFF)
            sector, serial, last = self._order[-1]
            at, self._offset = self._offset, self.flash.size
            self.flash.program(sector, at, record + bytes(size - len(record)))
        except OSError:
            self.faults += 1
            self._offset = self.flash.size
            if sector not in self._bad:
                self._bad.append(sector)
            return False
        self._offset = at + size
        self._order[-1] = (sector, serial, max(last, seq))
        return True

    def _next_sector(self) -> int:
        """The next of the ring; the oldest gives way if all others are in use, so that one is always free."""
        order = self._order
        while len(order) > 1 and order[0][2] <= self._acked:
            self._leave_oldest()
        used = [each[0] for each in order]
        if len(order) + len([each for each in self._bad if each not in used]) >= self.flash.sectors - 1 and order:
            kept = self._held
            if order[0][2] > self._acked:
                self._skip_oldest()
            self._leave_oldest()
            self.dropped += kept - self._held
        sector = used[-1] if used else -1
        for _ in range(self.flash.sectors):
            sector = (sector + 1) % self.flash.sectors
            if sector not in self._bad and sector not in [each[0] for each in order]:
                break
        return sector

    def _begin_sector(self, sector: int) -> None:
        order = self._order
        serial = self._serial + 1
        oldest = order[0][1] if order else serial
        head = struct.pack(
            _HEADER, b"VJ", 1, self.flash.size >> 8, serial, oldest, self._acked, self._reserved, self.dropped
        )
        self._unsaved = 0
        self.flash.erase(sector)
        self.flash.program(sector, 0, head + struct.pack("<I", crc32(head) & 0xFFFFFFFF))
        self._serial = serial
        order.append((sector, serial, -1))
        self._offset = _HEADER_SIZE
        if len(order) == 1:
            self._at = _HEADER_SIZE

    def _leave_oldest(self) -> None:
        self._order.pop(0)
        self._at = _HEADER_SIZE

    def _skip_oldest(self) -> None:
        """Its events that are not done are not held any more."""
        self._first = None
        sector, serial, last = self._order[0]
        at = self._at
        while True:
            record = self._read(sector, serial, at)
            if record is None:
                break
            at, kind, payload = record
            if kind == _EVENT and _number(payload) > self._acked:
                self._held -= 1
        self._acked = max(self._acked, last)

    # Reading

    def _read(self, sector: int, serial: int, at: int) -> "tuple[int, int, bytes] | None":
        """The record there: where the next is, kind, payload."""
        if at + 8 > self.flash.size:
            return None
        length = struct.unpack("<H", self.flash.read(sector, at, 2))[0]
        size = _padded(8 + length)
        if length < 8 or at + size > self.flash.size:
            return None
        record = self.flash.read(sector, at, 8 + length)
        if struct.unpack("<I", record[-4:])[0] != crc32(record[:-4], serial) & 0xFFFFFFFF:
            return None
        return at + size, record[2], record[4:-4]

    def _seek(self) -> "tuple[int, bytes] | None":
        """The oldest event on flash that is not done."""
        while self._order:
            sector, serial, _ = self._order[0]
            record = self._read(sector, serial, self._at)
            if record is not None:
                if record[1] == _EVENT and _number(record[2]) > self._acked:
                    return _number(record[2]), record[2][8:]
                self._at = record[0]
            elif len(self._order) == 1:
                break
            else:
                self._leave_oldest()
        self.damaged += 1  # what was there at the start is not there any more
        self.dropped += self._held
        self._held = 0
        return None

    def _load(self) -> None:
        size, found, strange = self.flash.size, [], 0
        for sector in range(self.flash.sectors):
            head = self.flash.read(sector, 0, _HEADER_SIZE)
            fields = struct.unpack(_HEADER, head[:-4])
            good = struct.unpack("<I", head[-4:])[0] == crc32(head[:-4]) & 0xFFFFFFFF
            if good and fields[:3] == (b"VJ", 1, size >> 8):
                found.append((fields[3], sector, fields))
            elif head != b"\xff" * _HEADER_SIZE:
                strange += 1
        found.sort()
        if found:
            fields = found[-1][2]
            self._serial, self._acked, self._reserved, self.dropped = fields[3], fields[5], fields[6], fields[7]
            for serial, sector, _ in found:
                if serial >= fields[4]:
                    self._order.append((sector, serial, -1))
            self._scan()
        if strange:
            # Headers that were never finished, or went bad: their sectors may have numbers that we know nothing of, and
            # there is room for so many in each.
            self._reserved += strange * (size // _NUMBER_RECORD + 1) * self.reserve
        self._next = self._reserved

    def _scan(self) -> None:
        newest, end = len(self._order) - 1, _HEADER_SIZE
        pending: list[int] = []
        for place, (sector, serial, _) in enumerate(self._order):
            at, last, count = _HEADER_SIZE, -1, 0
            while True:
                record = self._read(sector, serial, at)
                if record is None:
                    break
                at, kind, payload = record
                number = _number(payload)
                if kind == _EVENT:
                    last = max(last, number)
                    if number > self._acked:
                        count += 1
                elif place == newest and kind == _RESERVE:
                    self._reserved = max(self._reserved, number)
                elif place == newest and kind == _DONE:
                    self._acked = max(self._acked, number)
            self._order[place] = (sector, serial, last)
            pending.append(count)
            end = at
        # `done` may have been said after events that it is about: they are counted when all is read.
        self._held = self._count(pending)
        rest = self.flash.size - end
        while rest > 0:
            piece = self.flash.read(self._order[-1][0], self.flash.size - rest, min(rest, 64))
            if piece != b"\xff" * len(piece):
                return  # torn: nothing more is written to this one
            rest -= len(piece)
        self._offset = end

    def _count(self, pending: "list[int]") -> int:
        total = 0
        for place, (sector, serial, last) in enumerate(self._order):
            if last <= self._acked or not pending[place]:
                continue
            at = _HEADER_SIZE
            while True:
                record = self._read(sector, serial, at)
                if record is None:
                    break
                at = record[0]
                if record[1] == _EVENT and _number(record[2]) > self._acked:
                    total += 1
        return total


def _padded(size: int) -> int:
    return (size + 3) & ~3


def _number(payload: bytes) -> int:
    number: int = struct.unpack("<Q", payload[:8])[0]
    return number
