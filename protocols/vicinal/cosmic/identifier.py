"""The 29-bit identifier: how urgent, from whom, about what (spec/cosmic.md, identifier).

    bit 28      21 20     14 13             0
        +---------+---------+----------------+
        | priority|  TxNode |      etag      |
        |    8    |    7    |       14       |
        +---------+---------+----------------+

The bus gives way to the lowest number, so the priority comes first; TxNode makes identifiers unique, as two nodes must
never send the same one at once; the etag is the short name of a channel's subject, bound by the binding protocol.

    priority 0        hard real time: calendar slots only
             1..250   soft real time: by deadline, the nearest lowest
             251..255 non real time
"""

from ..errors import LimitError

__all__ = ["HRT", "MAX_ETAG", "MAX_TX_NODE", "NRT_FIRST", "NRT_LAST", "SRT_FIRST", "SRT_LAST", "band", "pack", "unpack"]

HRT = 0
SRT_FIRST = 1
SRT_LAST = 250
NRT_FIRST = 251
NRT_LAST = 255
MAX_TX_NODE = 0x7F
MAX_ETAG = 0x3FFF


def pack(priority: int, tx_node: int, etag: int) -> int:
    if not 0 <= priority <= NRT_LAST:
        raise LimitError("priority", priority, "0 .. 255")
    if not 0 <= tx_node <= MAX_TX_NODE:
        raise LimitError("TxNode", tx_node, "0 .. 127")
    if not 0 <= etag <= MAX_ETAG:
        raise LimitError("etag", etag, "0 .. 16383")
    return priority << 21 | tx_node << 14 | etag


def unpack(number: int) -> "tuple[int, int, int]":
    """priority, TxNode, etag"""
    if not 0 <= number <= 0x1FFFFFFF:
        raise LimitError("identifier", number, "0 .. 0x1FFFFFFF")
    return number >> 21, number >> 14 & MAX_TX_NODE, number & MAX_ETAG


def band(priority: int) -> str:
    if priority == HRT:
        return "HRT"
    return "SRT" if priority <= SRT_LAST else "NRT"
