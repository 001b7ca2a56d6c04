"""NOR flash in memory, which can lose power at any write: for tests of what must survive that.

    flash = EmulatedFlash(sectors=8, size=4096)
    flash.cut(17, chance)                 at the 17th program or erase from now on, PowerCut; what was written is torn
    flash.power_on()                      and the same memory again

Programming clears bits and never sets one; erasing sets all bits of a sector. A torn program has reached some bytes and
of one more some bits; or any bits of all; a torn erase has set any bits of the sector, or left it as it was.
"""

from vicinal.errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EmulatedFlash", "PowerCut"]


class PowerCut(Exception):
    pass


class EmulatedFlash:
    def __init__(self, sectors: int, size: int) -> None:
        self.sectors = sectors
        self.size = size
        self.memory = [bytearray(b"\xff" * size) for _ in range(sectors)]
        self.erases = [0] * sectors
        self.writes = 0
        self.programmed = 0
        """bytes"""
        self._left: int | None = None
        self._chance: Callable[[int], int] | None = None
        self._off = False

    def cut(self, writes: int, chance: "Callable[[int], int]") -> None:
        """`chance(n)` gives a number below n, by which what is torn is torn."""
        self._left, self._chance = writes, chance

    def power_on(self) -> None:
        self._left = None
        self._off = False

    def read(self, sector: int, offset: int, length: int) -> bytes:
        self._check(sector, offset, length)
        return bytes(self.memory[sector][offset : offset + length])

    def program(self, sector: int, offset: int, data: bytes) -> None:
        self._check(sector, offset, len(data))
        where = self.memory[sector]
        for at in range(len(data)):
            if where[offset + at] & data[at] != data[at]:
                raise LocalProtocolError(f"byte {offset + at} of sector {sector} is programmed, and not erased before")
        torn = self._counted()
        if torn is not None:
            kind = torn(3)
            reached = torn(len(data) + 1) if kind < 2 else len(data)
            for at in range(reached):
                where[offset + at] &= data[at] if kind < 2 else data[at] | torn(256)
            if kind == 1 and reached < len(data):
                where[offset + reached] &= data[reached] | torn(256)
            self._end()
        for at in range(len(data)):
            where[offset + at] &= data[at]
        self.programmed += len(data)

    def erase(self, sector: int) -> None:
        self._check(sector, 0, self.size)
        torn = self._counted()
        where = self.memory[sector]
        if torn is not None:
            kind = torn(3)
            reached = torn(self.size + 1)
            for at in range(self.size):
                if kind == 0 and at < reached:
                    where[at] = 0xFF
                elif kind == 1:
                    where[at] |= torn(256)
            self._end()
        self.erases[sector] += 1
        for at in range(self.size):
            where[at] = 0xFF

    def _check(self, sector: int, offset: int, length: int) -> None:
        if self._off:
            raise PowerCut("there is no power")
        if not 0 <= sector < self.sectors or not 0 <= offset <= offset + length <= self.size:
            raise LocalProtocolError(
                f"bytes {offset} .. {offset + length} of sector {sector}: there are {self.sectors} of {self.size} bytes"
            )

    def _counted(self) -> "Callable[[int], int] | None":
        """Gives the chance if this write is the one that is torn."""
        self.writes += 1
        if self._left is None:
            return None
        self._left -= 1
        return self._chance if self._left < 0 else None

    def _end(self) -> None:
        self._off = True
        raise PowerCut(f"at write {self.writes}")
