"""The shell that carries a COSMIC node's frames over any python-can bus: SocketCAN on a Pi, a virtual bus elsewhere.

    bus, confirms = open_bus(interface="socketcan", channel="can0")
    async with Shell(bus, node, confirms) as shell:
        channel.publish(event, shell.now())
        shell.update()
        await shell.failed                        never, unless the bus is lost

The node's queue decides what goes next, and at most one frame is in the kernel's hands: its queue is first in, first
out, short (txqueuelen 10), and refuses with ENOBUFS. The next is handed over when the one before comes back as our own
message, which means: sent and acknowledged. A bus that cannot say so (`confirms` False) is given as long as the frame's
bits take.

What is handed over cannot be taken back: on a Pi, a frame waits for at most one less urgent frame of its own node in
addition to the one on the wire. And Python does not keep slots of 100 us: what is late is reported by the node, not
prevented here.

Bus-off comes as an error frame. The frame in the controller is lost there and stays in the node's queue, as all others:
nothing is counted as sent that was not confirmed. Who can recover() is asked to; a SocketCAN interface restarts by
itself: `ip link set can0 type can bitrate 500000 restart-ms 5`.

A frame that nobody acknowledges stays with an error passive controller, which repeats it: it is not handed over again,
or all of its copies would be sent when somebody wakes up.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import can

from vicinal.cosmic.bits import duration, frame_bits
from vicinal.cosmic.faults import ACTIVE, BUS_OFF, PASSIVE, WARNING, Recovery
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import unpack
from vicinal.cosmic.node import Node

__all__ = ["Shell", "open_bus"]

# Of linux/can/error.h; python-can gives the class as the identifier of an error frame.
ERR_CRTL, ERR_BUSOFF, ERR_RESTARTED = 0x4, 0x40, 0x100
CRTL_WARNING, CRTL_PASSIVE, CRTL_ACTIVE = 0xC, 0x30, 0x40

RETRY = 1_000
"""microseconds until a frame that the kernel refused is offered again: its queue moves on in less"""
UNCONFIRMED = 1_000_000
"""microseconds after which a confirmation is no longer waited for: it was lost, or the frame was"""
DRAIN = 64
"""frames taken at once before the loop may do something else"""


def open_bus(**config: Any) -> tuple[can.BusABC, bool]:
    """Opens a python-can bus with confirmations where it has them, and says whether it has."""
    try:
        return can.Bus(**config, receive_own_messages=True), True
    except NotImplementedError:
        return can.Bus(**config), False


def monotonic() -> int:
    return time.monotonic_ns() // 1000


class Shell:
    """One node on one bus, in a running event loop. `restart` replaces how a bus is brought back from bus-off; `poll`
    is for buses that say bus-off by their `state` only."""

    def __init__(
        self,
        bus: can.BusABC,
        node: Node,
        confirms: bool = True,
        restart: Callable[[], None] | None = None,
        poll: bool = False,
    ) -> None:
        self.bus = bus
        self.node = node
        self.recovery = Recovery(node)
        self.counters = {"handed over": 0, "confirmed": 0, "refused": 0, "unconfirmed": 0, "error frames": 0}
        self.tap: Callable[[can.Message], bool] | None = None
        """sees each message first, in its own form; True: the node need not see it"""
        self._confirms = confirms
        self._restart = restart
        self._poll = poll
        self._handed: Frame | None = None
        self._handed_until = 0
        self._retry_at: int | None = None
        self._latest = 0
        self._timer: asyncio.TimerHandle | None = None
        self._notifier: can.Notifier | None = None
        self._reader: int | None = None

    async def __aenter__(self) -> "Shell":
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        try:
            self._reader = self.bus.fileno()
        except NotImplementedError:
            self._notifier = can.Notifier(self.bus, [self._on_message], timeout=0.1, loop=self._loop)
        else:
            self._loop.add_reader(self._reader, self._readable)
        self.update()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The bus stays open: who opened it closes it."""
        self._stop()
        if self._notifier:
            await asyncio.to_thread(self._notifier.stop)
        self.failed.cancel()

    def now(self) -> int:
        """Microseconds, never backwards."""
        self._latest = max(self._latest, monotonic())
        return self._latest

    def update(self) -> None:
        """Hands over what the node wants sent, if nothing is underway. To be called after a publish."""
        if self.failed.done():
            return
        now = self.now()
        if self._handed is not None and now >= self._handed_until:
            if self._confirms and self.recovery.state == PASSIVE:
                self._handed_until = now + UNCONFIRMED
            else:
                self._give_up(now)
        if self._handed is None and self.recovery.state != BUS_OFF and (self._retry_at or 0) <= now:
            frame = self.node.frame_to_send(now)
            if frame is not None:
                self._hand_over(frame, now)
        self._set_timer(now)

    # Sending

    def _hand_over(self, frame: Frame, now: int) -> None:
        try:
            self.bus.send(_message_of(frame), timeout=0)
        except can.CanError as error:
            if getattr(error, "error_code", None) is None and self._is_lost():
                self._fail(error)
                return
            self.counters["refused"] += 1
            self._retry_at = now + RETRY
            return
        self.counters["handed over"] += 1
        self._retry_at = None
        self._handed = frame
        self._handed_until = now + (UNCONFIRMED if self._confirms else duration(frame_bits(frame), self.node.bitrate))

    def _is_lost(self) -> bool:
        """A bus whose descriptor is closed, or at its end, will not come back."""
        try:
            _ = self.bus.state
        except (can.CanError, OSError):
            return True
        return False

    def _give_up(self, now: int) -> None:
        frame, self._handed = self._handed, None
        assert frame is not None
        if self._confirms:
            self.counters["unconfirmed"] += 1
            self.node.transmit_error(now, frame)
        else:
            self.node.frame_sent(frame, now)

    def _set_timer(self, now: int) -> None:
        times = [self._handed_until] if self._handed is not None else []
        times += [at for at in (self.node.next_timeout(), self._retry_at) if at is not None]
        if self._poll or self.recovery.state == BUS_OFF:
            times.append(self.recovery.next_timeout())
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if times:
            self._timer = self._loop.call_later(max(0, min(times) - now) / 1e6, self._expire)

    def _expire(self) -> None:
        now = self.now()
        if self._poll:
            with contextlib.suppress(can.CanError):
                self._report({can.BusState.ERROR: BUS_OFF}.get(self.bus.state, ACTIVE), now)
        elif self.recovery.state == BUS_OFF:
            self._report(BUS_OFF, now)
        due = self.node.next_timeout()
        if due is not None and due <= now:
            self.node.handle_timeout(now)
        self.update()

    # Receiving

    def _readable(self) -> None:
        try:
            for _ in range(DRAIN):
                message = self.bus.recv(0)
                if message is None:
                    return
                self._on_message(message)
        except (can.CanError, OSError) as error:
            self._fail(error)

    def _on_message(self, message: can.Message) -> None:
        if self.tap is not None and self.tap(message):
            return
        if self.failed.done() or message.is_fd:
            return
        if message.is_error_frame:
            self._on_error_frame(message)
            return
        data = bytes(message.dlc) if message.is_remote_frame else bytes(message.data)
        frame = Frame(message.arbitration_id, data, message.is_extended_id, message.is_remote_frame)
        if message.is_rx or not self._is_ours(frame):
            self.node.receive_frame(frame, self._heard_at(message))
        else:
            if frame == self._handed:
                self._handed = None
            self.counters["confirmed"] += 1
            self.node.frame_sent(frame, self._heard_at(message))
        self.update()

    def _is_ours(self, frame: Frame) -> bool:
        """SocketCAN gives back what other processes of this host sent, too."""
        return frame == self._handed or (frame.extended and unpack(frame.id)[1] == self.node.tx_node)

    def _heard_at(self, message: can.Message) -> int:
        """The driver's time of it, which does not know how busy this process was. Clocks are set by it."""
        before, now = self._latest, monotonic()
        age = int((time.time() - message.timestamp) * 1_000_000)
        self._latest = max(before, now - age if 0 <= age < 1_000_000 else now)
        return self._latest

    # Errors

    def _on_error_frame(self, message: can.Message) -> None:
        self.counters["error frames"] += 1
        number, now = message.arbitration_id, self.now()
        control = message.data[1] if number & ERR_CRTL and len(message.data) > 1 else 0
        if number & ERR_BUSOFF:
            frame, self._handed = self._handed, None
            if frame is not None:
                self.node.transmit_error(now, frame)
            self._report(BUS_OFF, now)
        elif number & ERR_RESTARTED or control & CRTL_ACTIVE:
            self._report(ACTIVE, now)
        elif control & CRTL_PASSIVE:
            self._report(PASSIVE, now)
        elif control & CRTL_WARNING:
            self._report(WARNING, now)
        self.update()

    def _report(self, state: str, now: int) -> None:
        if not self.recovery.report(state, now):
            return
        with contextlib.suppress(NotImplementedError, can.CanError):
            if self._restart is not None:
                self._restart()
            else:
                self.bus.state = can.BusState.ACTIVE

    def _fail(self, error: Exception) -> None:
        self._stop()
        if not self.failed.done():
            self.failed.set_exception(error)

    def _stop(self) -> None:
        if self._reader is not None:
            self._loop.remove_reader(self._reader)
            self._reader = None
        if self._timer:
            self._timer.cancel()
            self._timer = None


def _message_of(frame: Frame) -> can.Message:
    return can.Message(
        arbitration_id=frame.id,
        is_extended_id=frame.extended,
        is_remote_frame=frame.remote,
        dlc=len(frame.data),
        data=None if frame.remote else frame.data,
    )
