"""A simulated MCP2515, register by register: what the driver's SPI talks to where there is no chip. It is not the chip.

    chip = SimulatedMcp2515(on_request)       on_request(frame): TXREQ was set; then chip.transmitted() or chip.errors()
    MCP2515(chip, chip.select, ...)           it is its own SPI and its own chip select
    chip.received(frame)                      a frame was on the bus

Simulated: the SPI instructions, modes, the layout of identifiers, masks and filters, both receive buffers with
rollover and overflow, TXB0, the flags. Not simulated: time, the other transmit buffers, sleep, the pins, and the
filters on the first data bytes of standard frames. Runs on MicroPython too.
"""

from vicinal.cosmic.frame import Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SimulatedMcp2515"]

_READ_LENGTHS = {0x90: 0x61, 0x94: 0x71}


class SimulatedMcp2515:
    def __init__(self, on_request: "Callable[[Frame], None] | None" = None) -> None:
        self.registers = bytearray(128)
        self.on_request = on_request
        self.on_wire = False
        """a frame on the wire cannot be aborted: the test says when it is there"""
        self._selected = False
        self._used = False
        self._reset()

    def _reset(self) -> None:
        for index in range(128):
            self.registers[index] = 0
        self.registers[0x0F] = 0x87
        self.registers[0x0E] = 0x80

    # SPI

    def select(self, level: int) -> None:
        self._selected = not level
        self._used = False

    def write_readinto(self, out: "bytes | bytearray", into: bytearray) -> None:
        assert self._selected, "SPI without chip select"
        assert not self._used, "an instruction ends with chip select"
        assert len(out) == len(into)
        self._used = True
        code = out[0]
        if code == 0xC0:
            self._reset()
        elif code == 0x03:
            for index in range(2, len(out)):
                into[index] = self.registers[(out[1] + index - 2) & 127]
        elif code == 0x02:
            for index in range(2, len(out)):
                self._set((out[1] + index - 2) & 127, 0xFF, out[index])
        elif code == 0x05:
            self._set(out[1], out[2], out[3])
        elif code == 0xA0:
            flags, request = self.registers[0x2C], self.registers[0x30] >> 3 & 1
            into[1] = flags & 3 | request << 2 | (flags >> 2 & 1) << 3
        elif code in _READ_LENGTHS:
            for index in range(1, len(out)):
                into[index] = self.registers[_READ_LENGTHS[code] + index - 1]
            self.registers[0x2C] &= ~(1 if code == 0x90 else 2) & 255
        elif code == 0x40:
            for index in range(1, len(out)):
                self.registers[0x31 + index - 1] = out[index]
        elif code == 0x81:
            self._set(0x30, 0x08, 0x08)
        else:
            raise AssertionError(f"instruction {code:#x} is not one of those that are simulated")

    def _set(self, register: int, mask: int, octet: int) -> None:
        if register in (0x0E, 0x1C, 0x1D):
            return  # read only
        configuration = self.registers[0x0E] >> 5 == 4
        if not configuration and ((register < 0x28 and register & 15 < 12) or 0x28 <= register <= 0x2A):
            return  # filters, masks and bit timing are writable in configuration mode only
        before = self.registers[register]
        if register == 0x2D:
            mask &= 0xC0  # only the overflow flags can be cleared
        after = before & ~mask | octet & mask
        if register == 0x30 and before & 8 and not after & 8 and self.on_wire:
            return  # too late: it stays requested until the wire has decided
        self.registers[register] = after
        if register == 0x0F:
            self.registers[0x0E] = after & 0xE0
        elif register == 0x30 and after & 8 and not before & 8 and self.registers[0x0E] >> 5 == 0 and self.on_request:
            self.on_request(self._frame(0x31))

    # The bus

    def transmitted(self) -> None:
        self.on_wire = False
        self.registers[0x30] &= ~8 & 255
        self.registers[0x2C] |= 4

    def errors(self, tec: int, rec: int) -> None:
        """The counters are so now. From 256 on the chip is bus-off; back at 0 it goes on with what is requested."""
        was_off = self.registers[0x2D] & 0x20
        self.on_wire = False
        self.registers[0x1C], self.registers[0x1D] = tec & 255, rec & 255
        most = max(tec, rec)
        flags = 0x20 if tec >= 256 else 0
        flags |= (0x10 if tec >= 128 else 0) | (0x08 if rec >= 128 else 0)
        flags |= (0x04 if tec >= 96 else 0) | (0x02 if rec >= 96 else 0) | (1 if most >= 96 else 0)
        self.registers[0x2D] = self.registers[0x2D] & 0xC0 | flags
        self.registers[0x2C] |= 0x20
        if was_off and tec < 256 and self.registers[0x30] & 8 and self.on_request:
            self.on_request(self._frame(0x31))

    def received(self, frame: Frame) -> None:
        if self.registers[0x0E] >> 5 not in (0, 3) or self.registers[0x2D] & 0x20:
            return  # configuring, or bus-off
        for buffer, control, filters in ((0, 0x60, (0x00, 0x04)), (1, 0x70, (0x08, 0x10, 0x14, 0x18))):
            if self.registers[control] & 0x60 == 0x60 or any(self._passes(frame, buffer, each) for each in filters):
                if not self.registers[0x2C] & 1 << buffer:
                    self._store(frame, buffer)
                elif buffer == 0 and self.registers[control] & 4 and not self.registers[0x2C] & 2:
                    self._store(frame, 1)
                else:
                    self.registers[0x2D] |= 0x80 if buffer or self.registers[control] & 4 else 0x40
                return

    def _passes(self, frame: Frame, buffer: int, register: int) -> bool:
        wanted = bytes(self.registers[register : register + 4])
        mask = bytes(self.registers[0x20 + 4 * buffer : 0x24 + 4 * buffer])
        if bool(wanted[1] & 8) != frame.extended:
            return False
        found = self._head(frame)
        care = bytes([mask[0], mask[1] & (0xE3 if frame.extended else 0xE0), mask[2], mask[3]])
        octets = 4 if frame.extended else 2
        return all(not (found[i] ^ wanted[i]) & care[i] for i in range(octets))

    def _store(self, frame: Frame, buffer: int) -> None:
        start = 0x61 + 16 * buffer
        head = bytearray(self._head(frame))
        if frame.remote and not frame.extended:
            head[1] |= 0x10
        size = len(frame.data) | (0x40 if frame.remote and frame.extended else 0)
        octets = bytes(head) + bytes([size]) + (b"" if frame.remote else frame.data)
        for index in range(len(octets)):
            self.registers[start + index] = octets[index]
        self.registers[0x2C] |= 1 << buffer

    @staticmethod
    def _head(frame: Frame) -> bytes:
        number = frame.id if frame.extended else frame.id << 18
        low = (number >> 18 & 7) << 5 | (8 if frame.extended else 0) | number >> 16 & 3
        return bytes([number >> 21, low, number >> 8 & 255, number & 255])

    def _frame(self, start: int) -> Frame:
        high, low, eid8, eid0, size = self.registers[start : start + 5]
        number = high << 3 | low >> 5
        extended = bool(low & 8)
        if extended:
            number = number << 18 | (low & 3) << 16 | eid8 << 8 | eid0
        data = bytes(self.registers[start + 5 : start + 5 + (size & 15)])
        remote = bool(size & 0x40)
        return Frame(number, bytes(len(data)) if remote else data, extended, remote)
