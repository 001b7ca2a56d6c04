"""The frames of the binding protocols, as bytes and back (spec/cosmic_binding.md, CBIND-14 to CBIND-18).

    etag                 TxNode in the identifier         data
    0 CCP_SSI            0x7F, or the id that is given    UID so far, last nibble the stage; all zero: start again
    1 CCP_RSI            stage and nibble, see below      none
    2 GET_ETAG           who asks                         UID of the subject
    4 SUPPLY_ETAG        0x7F                             who asks, half 0 or 1, etag (2), that half of the UID (4)
    5 ALIVE              rank of a broker                 state, who is current, table's length (2), checksum (4)
    6 RECORD             0x7F                             one entry of the table in two frames
    7 HOLD_NODE          who objects                      its UID
    8 HOLD_ETAG          who objects                      as SUPPLY_ETAG, the first byte 0
    9 WHO                0x7F                             none: a broker that may not know all asks who holds what

A node without a number cannot send frames that are only its own, and two that send the same identifier at once with
different data destroy each other's frames. So CCP_RSI has no data, and says all in the identifier:

    28        21 20        14 13         0
    1111 110 s  sss nnnn      1                 s stage, n that nibble of the UID

The stage reaches into the priority, which is 253 for stages 15 to 8 and 252 for 7 to 0: both non real time, and who has
come further goes first.
"""

from binascii import crc32

from .._compat import const, utf8_len
from ..errors import LocalProtocolError
from .frame import Frame
from .identifier import pack

__all__ = ["Halves", "check_uid", "subject_uid"]

PRIORITY = const(0xFD)
# Brokers' own frames and objections: what keeps names unique goes before what asks for them.
URGENT = const(0xFB)

CCP_SSI = const(0)
CCP_RSI = const(1)
GET_ETAG = const(2)
SUPPLY_ETAG = const(4)
ALIVE = const(5)
RECORD = const(6)
HOLD_NODE = const(7)
HOLD_ETAG = const(8)
WHO = const(9)
FIRST_ETAG = const(100)
LAST_ETAG = const(16383)

BROKER = const(0x7F)
UID_BYTES = const(8)
STAGES = const(16)
RESTART = bytes(8)

_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK64 = 0xFFFFFFFFFFFFFFFF


def check_uid(uid: bytes) -> bytes:
    if len(uid) != UID_BYTES or uid == RESTART:
        raise LocalProtocolError(f"UID {uid!r}: want 8 bytes that are not all zero")
    return uid


def subject_uid(subject: str) -> bytes:
    """A name of up to 8 bytes is its own UID. A longer one is hashed (FNV-1a), and the first two bits are 10: with
    these no UTF-8 begins, so that a hash is never somebody's name."""
    size = utf8_len(subject)
    if size < 1:
        raise LocalProtocolError(f"subject {subject!r} has no UID: want text")
    data = subject.encode()
    if size <= UID_BYTES and data[-1]:
        return data + bytes(UID_BYTES - size)
    found = _FNV_BASIS
    for byte in data:
        found = (found ^ byte) * _FNV_PRIME & _MASK64
    uid = found.to_bytes(UID_BYTES, "big")
    return bytes([0x80 | uid[0] & 0x3F]) + uid[1:]


def nibble(uid: bytes, stage: int) -> int:
    return uid[(STAGES - 1 - stage) >> 1] >> (4 if stage & 1 else 0) & 15


def backoff(tries: int, first: int, most: int, salt: bytes) -> int:
    """Microseconds to wait after so many tries in vain: twice as long each time, and up to half more, which differs
    from node to node though nobody throws dice."""
    wait = min(first << min(tries, 16), most)
    return wait + crc32(salt + bytes([tries & 255])) % (wait >> 1)


def stage_request(uid: bytes, stage: int) -> Frame:
    return Frame((PRIORITY & 0xFE) << 21 | stage << 18 | nibble(uid, stage) << 14 | CCP_RSI)


def stage_of(frame: Frame) -> "tuple[int, int]":
    """stage and nibble of a CCP_RSI"""
    return frame.id >> 18 & 15, frame.id >> 14 & 15


def halves(urgency: int, tx_node: int, kind: int, asker: int, uid: bytes, etag: int) -> "list[Frame]":
    """SUPPLY_ETAG or HOLD_ETAG: a subject and its etag in two frames."""
    number = pack(urgency, tx_node, kind)
    head = etag.to_bytes(2, "big")
    return [Frame(number, bytes([asker, half]) + head + uid[4 * half : 4 * half + 4]) for half in (0, 1)]


class Halves:
    """Puts the two frames of a SUPPLY_ETAG or HOLD_ETAG together, for each sender; a sender is seven bits, so there are
    never many. In order and with the same first byte and etag, else nothing comes of them."""

    def __init__(self) -> None:
        self._first: dict[int, bytes] = {}

    def receive(self, tx_node: int, data: bytes) -> "tuple[int, bytes, int] | None":
        """who asked, UID, etag"""
        first = self._first.pop(tx_node, None)
        if len(data) != 8:
            return None
        if data[1] == 0:
            self._first[tx_node] = data
        elif data[1] == 1 and first is not None and first[0] == data[0] and first[2:4] == data[2:4]:
            return data[0], first[4:] + data[4:], int.from_bytes(data[2:4], "big") & LAST_ETAG
        return None
