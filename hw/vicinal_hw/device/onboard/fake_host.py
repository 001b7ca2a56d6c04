"""The device's end of the wire to what stands for its chips: packets, which the host's end (wires.py) answers.

    ask(kind, data)         sends, and waits for the answer with the same number
    tell(kind, data)        sends
    serve(ms)               waits so long, and hands over what comes by itself: advertisements that were heard
    on_event                who takes it

A packet to the host is its kind, a number and data. One to us has always 64 bytes, with the length of its data behind
the number: it is read in one piece, so that Ctrl-C comes before it or after it. An answer that nobody waits for any
longer has an old number, and is passed over.

Ctrl-C is a packet, too, and comes when a program sleeps or asks: as a signal it would tear the collector of the PC's
MicroPython in the middle, and leave the heap locked. The host sends one if a program does neither.
"""

import select as _select
import time as _time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# MicroPython's have more than CPython's, which is what type checkers know.
select: "Any" = _select
time: "Any" = _time

FD = 3
EVENT = 101  # e
INTERRUPT = 75  # K

_wire: "Any" = open(FD, "r+b")  # noqa: SIM115 - a socket of packets, open as long as the device is on
_poll = select.poll()
_poll.register(_wire, select.POLLIN)
_packet = bytearray(64)
_number = 0
on_event: "Any" = None


def tell(kind: bytes, data: "bytes | bytearray" = b"") -> int:
    global _number
    _number = (_number + 1) & 255
    _wire.write(kind + bytes([_number]) + data)
    return _number


def ask(kind: bytes, data: "bytes | bytearray" = b"") -> bytes:
    number = tell(kind, data)
    while True:
        _receive()
        if _packet[0] != EVENT and _packet[1] == number:
            return bytes(memoryview(_packet)[3 : 3 + _packet[2]])


def serve(ms: int) -> None:
    end = time.ticks_add(time.ticks_ms(), ms)
    while _poll.poll(max(0, time.ticks_diff(end, time.ticks_ms()))):
        _receive()


def begin() -> None:
    """A program is run from here on; what was for the one before is not for this one."""
    while _poll.poll(0):
        try:
            _receive()
        except KeyboardInterrupt:
            pass
    tell(b"G")


def end() -> None:
    tell(b"Q")


def _receive() -> None:
    if _wire.readinto(_packet) != 64:
        raise OSError(19)  # ENODEV: the host is gone
    if _packet[0] == INTERRUPT:
        tell(b"k")
        raise KeyboardInterrupt
    if _packet[0] == EVENT and on_event is not None:
        on_event(bytes(memoryview(_packet)[3 : 3 + _packet[2]]))
