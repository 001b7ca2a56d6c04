"""How long an advertisement is on the air, on which channels, and how far it reaches. Time is integer microseconds.

Legacy, 1 Mbit/s, so 8 us a byte; one event sends the same PDU on the three primary channels, one after the other:

    preamble 1 │ access address 4 │ header 2 │ AdvA 6 │ data 0..31 │ CRC 3        16 + n bytes: 376 us with 31

    37 ├─PDU─┤ gap
    38          ├─PDU─┤ gap
    39                   ├─PDU─┤            and again after the interval and 0 to 10 ms of chance (advDelay)

Extended (Bluetooth 5): the primary channels carry only a pointer (ADV_EXT_IND, 17 bytes), the data follow once on one
of the 37 secondary channels (AUX_ADV_IND, 20 + n bytes; more than 245 bytes of data go on in an AUX_CHAIN_IND):

    37 ├ptr┤  38 ├ptr┤  39 ├ptr┤  300 us  11 ├──────data──────┤

Reach is the log-distance model, the usual one where nothing better is known:

    rssi = power - 40 dB - 10 n log10(metres)          40 dB: the first metre at 2.44 GHz; n = 2 is free space

With n = 2.7 (streets), 8 dBm (an ESP32) and receivers that hear down to -95 dBm that is 216 m. Obstacles, fading and
antennas are not modelled; what they cost on average is `loss`.
"""

import math
from typing import NamedTuple

from vicinal.errors import LimitError, LocalProtocolError

__all__ = ["EXTENDED_MAX", "LEGACY_MAX", "Model", "aux_duration", "legacy_duration", "pointer_duration"]

LEGACY_MAX = 31
EXTENDED_MAX = 254
"""bytes of data in one extended advertisement: what one HCI command sets at most, and what STEAM's frames use"""

BYTE = 8
_LEGACY_OVERHEAD = 16
_POINTER_BYTES = 17
_AUX_OVERHEAD = 20
_AUX_DATA_MAX = 245
_CHAIN_OVERHEAD = 14

GAP = 150
"""between the PDUs of one event: up to 10 ms between their starts are allowed, controllers take about this"""
AUX_OFFSET = 300
"""T_MAFS: the least time between a PDU with a pointer and the PDU it points to"""
ADV_DELAY_MAX = 10_000
INTERVAL_MIN, INTERVAL_MAX = 20_000, 10_240_000
PRIMARY, SECONDARY = 3, 37

FIRST_METRE = 40.0
POWER_MIN, POWER_MAX = -40, 20


def legacy_duration(size: int) -> int:
    return BYTE * (_LEGACY_OVERHEAD + size)


def pointer_duration() -> int:
    return BYTE * _POINTER_BYTES


def aux_duration(size: int) -> int:
    """With the chained PDU, where one is needed, and the time between the two."""
    if size <= _AUX_DATA_MAX:
        return BYTE * (_AUX_OVERHEAD + size)
    rest = size - _AUX_DATA_MAX
    return BYTE * (_AUX_OVERHEAD + _AUX_DATA_MAX) + AUX_OFFSET + BYTE * (_CHAIN_OVERHEAD + rest)


class Model(NamedTuple):
    exponent: float = 2.7
    """n: 2 in the open, 2.7 in streets, 3.5 between buildings"""
    sensitivity: int = -95
    """dBm; what is weaker is not heard"""
    capture: int = 8
    """dB by which a PDU must be stronger than the strongest one that it overlaps, to be heard all the same"""
    loss: float = 0.0
    """of the PDUs that would be heard: the probability that one is not, for each receiver by itself"""

    def check(self) -> None:
        if not 1.0 <= self.exponent <= 6.0:
            raise LimitError("path loss exponent", self.exponent, "1 .. 6")
        if not 0.0 <= self.loss <= 1.0:
            raise LimitError("loss", self.loss, "0 .. 1")
        if not 0 <= self.capture <= 60:
            raise LimitError("capture", self.capture, "0 .. 60 dB")
        if not -120 <= self.sensitivity <= -20:
            raise LimitError("sensitivity", self.sensitivity, "-120 .. -20 dBm")

    def rssi(self, metres: float, power: float) -> float:
        if metres <= 1.0:
            return power - FIRST_METRE
        return power - FIRST_METRE - 10.0 * self.exponent * math.log10(metres)

    def reach(self, power: float) -> float:
        """Metres at which it is as weak as can be heard."""
        return float(10.0 ** ((power - FIRST_METRE - self.sensitivity) / (10.0 * self.exponent)))


def check_interval(interval: int) -> None:
    if not INTERVAL_MIN <= interval <= INTERVAL_MAX:
        raise LimitError("advertising interval", f"{interval} us", f"{INTERVAL_MIN} .. {INTERVAL_MAX}")


def check_data(data: bytes, extended: bool) -> None:
    most = EXTENDED_MAX if extended else LEGACY_MAX
    if len(data) > most:
        raise LimitError(f"{'extended' if extended else 'legacy'} advertisement", f"{len(data)} bytes", most)


def check_scan(window: int, interval: int) -> None:
    """Bluetooth counts both in 0.625 ms, from 4 to 16,384 of them."""
    if not 2_500 <= window <= interval <= 10_240_000:
        raise LocalProtocolError(f"scan window {window} us, interval {interval} us: want 2500 <= window <= interval")
