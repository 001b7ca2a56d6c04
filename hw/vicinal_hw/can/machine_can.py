"""MicroPython's own machine.CAN, with the methods that MCP2515 has: where a port has a controller, this one is used.

    from machine import CAN
    controller = MachineCAN(CAN(1, 500_000))

The controller's queue is a priority queue of several frames; we give it one at a time all the same, as one that is out
of our hands cannot be promoted. Ports without it (the ESP32 among them, so far) use mcp2515.py.
"""

from vicinal.cosmic.frame import Frame
from vicinal.errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["MachineCAN"]


class MachineCAN:
    """`can` is a machine.CAN that is initialised. `filters`: (identifier, mask, extended), None for every frame."""

    def __init__(self, can: "Any", filters: "Iterable[tuple[int, int, bool]] | None" = None) -> None:
        self._can = can
        self._index: int | None = None
        self._sent = False
        self.refused = 0
        """frames that the controller let in and the filters did not"""
        self._filters = None if filters is None else [(number & mask, mask, wide) for number, mask, wide in filters]
        few = self._filters is not None and len(self._filters) <= can.FILTERS_MAX
        can.set_filters(
            [(number, mask, can.FLAG_EXT_ID if wide else 0) for number, mask, wide in self._filters or []]
            if few
            else None
        )
        can.irq(self._on_irq, can.IRQ_TX)

    def _on_irq(self, can: "Any") -> None:
        while True:
            flags = can.irq().flags()
            if not flags:
                return
            index = flags >> can.IRQ_TX_IDX_SHIFT & can.IRQ_TX_IDX_MASK
            if flags & can.IRQ_TX and not flags & can.IRQ_TX_FAILED and index == self._index:
                self._sent = True

    def load(self, frame: Frame) -> None:
        if self._index is not None:
            raise LocalProtocolError("the controller still has a frame to send: abort() it first")
        flags = (self._can.FLAG_EXT_ID if frame.extended else 0) | (self._can.FLAG_RTR if frame.remote else 0)
        self._sent = False
        self._index = self._can.send(frame.id, frame.data, flags)
        if self._index is None:
            raise LocalProtocolError("the controller took no frame though none of ours is in it")

    def sent(self) -> bool:
        """Whether the frame was sent and acknowledged; says so once."""
        if not self._sent:
            return False
        self._sent = False
        self._index = None
        return True

    def abort(self) -> bool:
        """False: it is on the wire, or was sent (see sent()), or there was none."""
        if self._index is None or not self._can.cancel_send(self._index):
            return False
        self._index = None
        return True

    def receive(self) -> "Frame | None":
        while True:
            found = self._can.recv()
            if found is None:
                return None
            number, data, flags = found[0], bytes(found[1]), found[2]
            frame = Frame(number, data, bool(flags & self._can.FLAG_EXT_ID), bool(flags & self._can.FLAG_RTR))
            if self._filters is None or any(
                wide == frame.extended and not (number ^ wanted) & mask for wanted, mask, wide in self._filters
            ):
                return frame
            self.refused += 1

    def state(self) -> str:
        """As in vicinal.cosmic.faults."""
        state = self._can.state()
        if state == self._can.STATE_BUS_OFF:
            return "bus-off"
        if state == self._can.STATE_PASSIVE:
            return "passive"
        return "warning" if state == self._can.STATE_WARNING else "active"

    def counters(self) -> "tuple[int, int]":
        counts = self._can.get_counters()
        return counts[0], counts[1]

    def recover(self) -> None:
        """restart() takes the frame out, too."""
        self._can.restart()
        self._index = None
        self._sent = False
