"""A CAN frame, as everything here sees it: identifier, data, and what kind it is."""

from ..errors import LocalProtocolError

__all__ = ["EXTENDED_MAX", "STANDARD_MAX", "Frame"]

STANDARD_MAX = 0x7FF
EXTENDED_MAX = 0x1FFFFFFF
MAX_DATA = 8


class Frame:
    """A classic data frame, or a remote frame (no data, a length asked for)."""

    __slots__ = ("data", "extended", "id", "remote")

    def __init__(self, id: int, data: bytes = b"", extended: bool = True, remote: bool = False) -> None:
        most = EXTENDED_MAX if extended else STANDARD_MAX
        if not 0 <= id <= most:
            raise LocalProtocolError(f"identifier {id:#x} is not in 0 .. {most:#x}")
        if len(data) > MAX_DATA:
            raise LocalProtocolError(f"{len(data)} bytes of data, a frame has at most {MAX_DATA}")
        self.id = id
        self.data = data
        self.extended = extended
        self.remote = remote

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frame):
            return False
        return (self.id, self.data, self.extended, self.remote) == (other.id, other.data, other.extended, other.remote)

    def __hash__(self) -> int:
        return hash((self.id, self.data, self.extended, self.remote))

    def __repr__(self) -> str:
        kind = "" if self.extended else ", extended=False"
        return f"Frame({self.id:#x}, {self.data!r}{kind}{', remote=True' if self.remote else ''})"
