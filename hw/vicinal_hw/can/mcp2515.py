"""The MCP2515, a CAN controller on SPI, for boards without one. Runs on MicroPython (and on CPython, for its tests).

    from machine import SPI, Pin
    controller = MCP2515(SPI(1, 10_000_000), Pin(5, Pin.OUT), crystal=8_000_000, bitrate=500_000)

Of the three transmit buffers only TXB0 is used: our one-frame rule needs one mailbox that can be emptied again. The two
receive buffers are used as a queue of two (rollover). Six acceptance filters share two masks: what does not fit into
them is let in by the chip and held back here. Register numbers are those of the data sheet, DS20001801.

The chip leaves bus-off by itself after 128 times 11 recessive bits, and would then send on: recover() takes that frame
out, as the node decides what is sent first after such a time.
"""

from vicinal.cosmic.frame import EXTENDED_MAX, STANDARD_MAX, Frame
from vicinal.errors import LimitError, LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    class Spi(Protocol):
        """machine.SPI, as far as we use it."""

        def write_readinto(self, out: "bytes | bytearray", into: bytearray) -> None: ...


__all__ = ["MCP2515", "bit_timing"]

_RESET, _READ, _WRITE, _MODIFY, _STATUS = 0xC0, 0x03, 0x02, 0x05, 0xA0
_LOAD_TXB0, _SEND_TXB0 = 0x40, 0x81
_READ_RXB = (0x90, 0x94)

_CANSTAT, _CANCTRL, _TEC, _CNF3, _CANINTE, _CANINTF, _EFLG = 0x0E, 0x0F, 0x1C, 0x28, 0x2B, 0x2C, 0x2D
_TXB0CTRL, _RXB0CTRL, _RXB1CTRL = 0x30, 0x60, 0x70
_FILTERS = (0x00, 0x04, 0x08, 0x10, 0x14, 0x18)
_MASKS = (0x20, 0x24)

_MODE, _NORMAL, _LISTEN_ONLY, _CONFIGURATION = 0xE0, 0x00, 0x60, 0x80
_TXREQ = 0x08
_TX0IF, _RX0IF, _RX1IF = 0x04, 0x01, 0x02
_ROLLOVER, _ANY = 0x04, 0x60
_RX_OVERFLOW, _TXBO, _PASSIVE, _WARNING = 0xC0, 0x20, 0x18, 0x01
# In the answer to READ STATUS
_STATUS_RX0, _STATUS_RX1, _STATUS_TXREQ, _STATUS_SENT = 0x01, 0x02, 0x04, 0x08
_EXIDE, _SRR, _RTR = 0x08, 0x10, 0x40

# A mode changes after the frame on the wire at the latest: 160 bits at the slowest, 20 reads of the register a bit.
_MODE_POLLS = 20000


def bit_timing(crystal: int, bitrate: int) -> "tuple[int, int, int]":
    """CNF1, CNF2, CNF3: 8 to 16 quanta a bit, the sample point at three quarters."""
    for prescaler in range(1, 65):
        quanta, rest = divmod(crystal, 2 * prescaler * bitrate)
        if rest or not 8 <= quanta <= 16:
            continue
        phase2 = quanta // 4
        phase1 = (quanta - 1 - phase2) // 2
        propagation = quanta - 1 - phase2 - phase1
        return prescaler - 1, 0x80 | phase1 - 1 << 3 | propagation - 1, phase2 - 1
    raise LocalProtocolError(
        f"{bitrate} bit/s cannot be had from a crystal of {crystal} Hz: a bit takes 8 to 16 quanta of two to 128 cycles"
    )


class MCP2515:
    """`select` is the chip select, called with 0 and 1 as a Pin is. `filters` as everywhere: (identifier, mask,
    extended), None for every frame."""

    def __init__(
        self,
        spi: "Spi",
        select: "Callable[[int], object]",
        crystal: int = 8000000,
        bitrate: int = 500000,
        filters: "Iterable[tuple[int, int, bool]] | None" = None,
        listen_only: bool = False,
    ) -> None:
        self._spi = spi
        self._select = select
        self._mode = _LISTEN_ONLY if listen_only else _NORMAL
        self._second: Frame | None = None
        self.overflows = 0
        """times that the chip had no room for a frame"""
        self.refused = 0
        """frames that the chip let in and the filters did not"""
        cnf1, cnf2, cnf3 = bit_timing(crystal, bitrate)
        select(1)
        self._transfer(bytes([_RESET]))
        self._enter(_CONFIGURATION)
        self._write(_CNF3, bytes([cnf3, cnf2, cnf1]))
        if self._read(_CNF3, 3) != bytes([cnf3, cnf2, cnf1]):
            raise LocalProtocolError("no MCP2515 answers: look at the wiring of SPI and chip select")
        self._write(_CANINTE, bytes([_TX0IF | _RX0IF | _RX1IF | 0x20]))  # and errors; the pin INT says when to look
        self._set_filters(filters)
        self._enter(self._mode)

    # The mailbox

    def load(self, frame: Frame) -> None:
        """The mailbox must be empty."""
        if self._status() & _STATUS_TXREQ:
            raise LocalProtocolError("TXB0 still has a frame to send: abort() it first")
        if self._mode == _LISTEN_ONLY:
            raise LocalProtocolError("this controller only listens")
        size = len(frame.data) | (_RTR if frame.remote else 0)
        head = _identifier(frame.id, frame.extended)
        self._modify(_CANINTF, _TX0IF, 0)
        self._transfer(bytes([_LOAD_TXB0]) + head + bytes([size]) + frame.data)
        self._transfer(bytes([_SEND_TXB0]))

    def sent(self) -> bool:
        """Whether the mailbox's frame was sent and acknowledged; says so once."""
        if not self._status() & _STATUS_SENT:
            return False
        self._modify(_CANINTF, _TX0IF, 0)
        return True

    def abort(self) -> bool:
        """False: it is on the wire, or was sent (see sent()), or there was none."""
        if not self._status() & _STATUS_TXREQ:
            return False
        self._modify(_TXB0CTRL, _TXREQ, 0)
        status = self._status()
        return not status & (_STATUS_TXREQ | _STATUS_SENT)

    # Receiving

    def receive(self) -> "Frame | None":
        """The next frame, or None."""
        while True:
            frame, self._second = self._second, None
            if frame is None:
                status = self._status()
                if status & _STATUS_RX0:
                    frame = self._take(0)
                    # At once, as the next frame goes into the buffer that was just emptied and would be taken first.
                    status = self._status()
                    if status & _STATUS_RX1:
                        self._second = self._take(1)
                elif status & _STATUS_RX1:
                    frame = self._take(1)
                else:
                    return None
            if self._wanted(frame):
                return frame
            self.refused += 1

    def _take(self, buffer: int) -> Frame:
        octets = self._transfer(bytes([_READ_RXB[buffer]]) + bytes(13))
        high, low, data = octets[1], octets[2], octets[6:]
        number = high << 3 | low >> 5
        extended = bool(low & _EXIDE)
        remote = bool(low & _SRR)
        if extended:
            number = number << 18 | (low & 3) << 16 | octets[3] << 8 | octets[4]
            remote = bool(octets[5] & _RTR)
        size = min(8, octets[5] & 15)
        return Frame(number, bytes(size) if remote else bytes(data[:size]), extended, remote)

    def _wanted(self, frame: Frame) -> bool:
        if self._filters is None:
            return True
        for number, mask, extended in self._filters:
            if extended == frame.extended and not (frame.id ^ number) & mask:
                return True
        return False

    def _set_filters(self, filters: "Iterable[tuple[int, int, bool]] | None") -> None:
        self._filters = None if filters is None else [(number & mask, mask, wide) for number, mask, wide in filters]
        for _, mask, wide in self._filters or []:
            if mask > (EXTENDED_MAX if wide else STANDARD_MAX):
                raise LimitError("acceptance mask", hex(mask), hex(EXTENDED_MAX if wide else STANDARD_MAX))
        places = _placed(self._filters) if self._filters else None
        if places is None:
            self._write(_RXB0CTRL, bytes([_ANY | _ROLLOVER]))
            self._write(_RXB1CTRL, bytes([_ANY]))
            return
        for index in (0, 1):
            mask, wide = places[0 if index == 0 else 2][1:]
            self._write(_MASKS[index], _identifier(mask, wide, False))
        for index in range(6):
            number, _, wide = places[index]
            self._write(_FILTERS[index], _identifier(number, wide))
        self._write(_RXB0CTRL, bytes([_ROLLOVER]))
        self._write(_RXB1CTRL, bytes([0]))

    # Errors

    def state(self) -> str:
        """active, warning, passive or bus-off, as in vicinal.cosmic.faults. Overflows are counted on the way."""
        flags = self._read(_EFLG, 1)[0]
        if flags & _RX_OVERFLOW:
            self.overflows += 1
            self._modify(_EFLG, _RX_OVERFLOW, 0)
        if flags & _TXBO:
            return "bus-off"
        if flags & _PASSIVE:
            return "passive"
        return "warning" if flags & _WARNING else "active"

    def counters(self) -> "tuple[int, int]":
        """TEC and REC."""
        octets = self._read(_TEC, 2)
        return octets[0], octets[1]

    def recover(self) -> None:
        """The chip comes back by itself; the frame that was in it does not."""
        self._modify(_TXB0CTRL, _TXREQ, 0)

    # The chip

    def _transfer(self, out: bytes) -> bytearray:
        into = bytearray(len(out))
        self._select(0)
        try:
            self._spi.write_readinto(out, into)
        finally:
            self._select(1)
        return into

    def _read(self, register: int, count: int) -> bytes:
        return bytes(self._transfer(bytes([_READ, register]) + bytes(count))[2:])

    def _write(self, register: int, octets: bytes) -> None:
        self._transfer(bytes([_WRITE, register]) + octets)

    def _modify(self, register: int, mask: int, octet: int) -> None:
        self._transfer(bytes([_MODIFY, register, mask, octet]))

    def _status(self) -> int:
        return self._transfer(bytes([_STATUS, 0]))[1]

    def _enter(self, mode: int) -> None:
        self._modify(_CANCTRL, _MODE, mode)
        for _ in range(_MODE_POLLS):
            if self._read(_CANSTAT, 1)[0] & _MODE == mode:
                return
        raise LocalProtocolError(f"the MCP2515 did not enter mode {mode:#x}: look at its crystal and the wiring")


def _identifier(number: int, extended: bool, flag: bool = True) -> bytes:
    """SIDH, SIDL, EID8, EID0. A mask has no flag for the kind: a filter's always counts."""
    if not extended:
        return bytes([number >> 3, (number & 7) << 5, 0, 0])
    base = number >> 18
    low = (base & 7) << 5 | (_EXIDE if flag else 0) | number >> 16 & 3
    return bytes([base >> 3, low, number >> 8 & 255, number & 255])


def _placed(filters: "list[tuple[int, int, bool]]") -> "list[tuple[int, int, bool]] | None":
    """Six filters, the first two with one mask and the other four with one, or None if that cannot be. The same number
    means another mask to the chip if the kind differs."""
    groups: dict[tuple[int, bool], list[tuple[int, int, bool]]] = {}
    for each in filters:
        groups.setdefault((each[1], each[2]), []).append(each)
    found = sorted(groups.values(), key=len)
    if len(found) == 1:
        if len(found[0]) > 6:
            return None
        first, second = found[0][:2], found[0][2:] or found[0]
    elif len(found) == 2 and len(found[0]) <= 2 and len(found[1]) <= 4:
        first, second = found
    else:
        return None
    return (first * 2)[:2] + (second * 4)[:4]
