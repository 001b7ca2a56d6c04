"""The shell of a COSMIC node on a board: a controller (mcp2515.py, machine_can.py) served from the main loop.

    shell = DeviceShell(node, MCP2515(...))
    while True:
        shell.service(time.ticks_us())        or when the controller's interrupt pin says so, and at node.next_timeout()

The mailbox always has what the node wants sent now, as far as the wire lets it. `now` is microseconds that do not go
back; a board's ticks wrap around, and whoever reads them counts the rounds.
"""

from vicinal.cosmic.faults import ACTIVE, BUS_OFF, Recovery

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from vicinal.cosmic.frame import Frame
    from vicinal.cosmic.node import Node

    class Controller(Protocol):
        def load(self, frame: Frame) -> None: ...
        def sent(self) -> bool: ...
        def abort(self) -> bool: ...
        def receive(self) -> "Frame | None": ...
        def state(self) -> str: ...
        def recover(self) -> None: ...


__all__ = ["DeviceShell"]

# Frames taken in one turn: a full bus at 1 Mbit/s brings one in 60 us at least, and sending must have its turn too.
_AT_ONCE = 8


class DeviceShell:
    def __init__(self, node: "Node", controller: "Controller") -> None:
        self.node = node
        self.controller = controller
        self.recovery = Recovery(node)
        self._held: Frame | None = None

    def service(self, now: int) -> "int | None":
        """Everything there is to do now; gives when it must be called again at the latest."""
        node, controller = self.node, self.controller
        for _ in range(_AT_ONCE):
            frame = controller.receive()
            if frame is None:
                break
            node.receive_frame(frame, now)
        self._look_whether_sent(now)
        if now >= self.recovery.next_timeout():
            self._look_at_state(now)
        timeout = node.next_timeout()
        if timeout is not None and timeout <= now:
            node.handle_timeout(now)
        self.exchange(now)
        timeout = node.next_timeout()
        poll = self.recovery.next_timeout()
        return poll if timeout is None else min(timeout, poll)

    def _look_whether_sent(self, now: int) -> None:
        if self._held is not None and self.controller.sent():
            frame, self._held = self._held, None
            self.node.frame_sent(frame, now)

    def _look_at_state(self, now: int) -> None:
        state = self.controller.state()
        if state == BUS_OFF and self.recovery.state != BUS_OFF:
            # What is in the controller is not sent any more; the node still has it.
            if self._held is not None:
                self.node.transmit_error(now, self._held)
                self._held = None
        if self.recovery.report(state if state == BUS_OFF else ACTIVE, now):
            self.controller.recover()

    def exchange(self, now: int) -> None:
        """What the node wants sent goes into the mailbox, where the wire lets it: also right after a publish."""
        if self.recovery.state == BUS_OFF:
            return
        wanted = self.node.frame_to_send(now)
        if self._held is not None and wanted != self._held and self.controller.abort():
            self._held = None
        self._look_whether_sent(now)
        if self._held is None:
            wanted = self.node.frame_to_send(now)
            if wanted is not None:
                self.controller.load(wanted)
                self._held = wanted
