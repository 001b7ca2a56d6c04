"""How long a frame occupies the bus, in bits (ISO 11898-1, classic frames).

    SOF 1 | identifier and control | data 8 n | CRC 15 | delimiter, ACK, EOF 10 | intermission 3
    '------------- stuffed: after five equal bits an opposite one ------------'

Counted is all of it, the intermission too: the next frame cannot start earlier. An extended frame without stuff bits
has 67 + 8 n bits, a standard one 47 + 8 n. Stuff bits depend on the content, so that `frame_bits` computes the checksum
and counts them, while `worst_bits` takes the most there can be: the first after five bits, then one after every four.

A device plans with the worst case, so that what `frame_bits` needs is loaded when it is first asked for.
"""

from ..errors import LocalProtocolError
from .frame import MAX_DATA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .frame import Frame

__all__ = ["ERROR_BITS", "INTERMISSION", "duration", "frame_bits", "worst_bits"]

INTERMISSION = 3
# What an error costs at most beside the frame it destroys: two flags that just overlap (12), the delimiter (8), the
# intermission (3) and the pause of a sender that is error passive (8).
ERROR_BITS = 31

_exact: "Any" = None


def frame_bits(frame: "Frame") -> int:
    """Bits of this frame on the bus, with its stuff bits and the intermission after it."""
    global _exact
    if _exact is None:
        from .stuffing import frame_bits as _exact
    bits: int = _exact(frame)
    return bits


def worst_bits(data_length: int, extended: bool = True) -> int:
    """Most bits that a frame with so many bytes can have: 160 for an extended one with 8."""
    if not 0 <= data_length <= MAX_DATA:
        raise LocalProtocolError(f"{data_length} bytes of data, a frame has 0 to {MAX_DATA}")
    stuffed = (54 if extended else 34) + 8 * data_length
    return stuffed + (stuffed - 1) // 4 + 10 + INTERMISSION


def duration(bits: int, bitrate: int) -> int:
    """Microseconds, rounded up."""
    return -(-bits * 1000000 // bitrate)
