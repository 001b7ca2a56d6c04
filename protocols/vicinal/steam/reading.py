"""A frame by itself, for those who only look: scanners, tests, people with a line of hex.

A node asks cheaper questions first and never takes apart what it does not want; see node.py and _listening.py.
"""

from ..errors import RemoteProtocolError
from .beacon import read_beacon
from .frames import FULL, TAGGED, TYPED, VERSION, read_piece

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .beacon import Beacon
    from .frames import Piece

__all__ = ["read"]


def read(payload: bytes) -> "Beacon | Piece":
    """A frame, or a RemoteProtocolError that says what is wrong with it, and where."""
    if not payload or payload[0] >> 5 != VERSION:
        raise RemoteProtocolError(f"no frame of version {VERSION}")
    if payload[0] & TAGGED:
        raise RemoteProtocolError("tagged: this version cannot check who sent it")
    kind = payload[0] & 15
    if kind < FULL:
        return read_beacon(payload)
    if kind > TYPED:
        raise RemoteProtocolError(f"kind {kind} is not known")
    return read_piece(payload)
