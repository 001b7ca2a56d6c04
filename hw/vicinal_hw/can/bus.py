"""The physics of a CAN bus in stepped time: who may send, how long it takes, and what errors do (ISO 11898-1).

        load()      load()                on_sent, on_receive          the next start of frame
          │           │                            │                           │
    ──────┴───────────┴────┬───────────────────────┴───────────────────────────┴──
           (bus is busy)   │ frame, with stuffing  │ intermission: 3 bits
                           arbitration: the lowest

No bit is simulated: a frame's length is counted (vicinal.cosmic.bits), its outcome decided when it starts, and told
when it ends. Time is integer nanoseconds and moves only when asked, in advance() and step(). A contest for the bus at
time t is decided when time moves past t: everything loaded at t takes part, whoever was called first.

Left out: overload frames, propagation delay (two that start in the same nanosecond compete, else the later one waits),
and errors that only some receivers see. An error frame is as long as it can get, 12 bits of flag and 8 of delimiter, so
that a bound that holds here holds on a wire.
"""

from collections.abc import Callable
from typing import TypeAlias

from vicinal.cosmic.bits import frame_bits
from vicinal.cosmic.frame import Frame
from vicinal.errors import LimitError, LocalProtocolError

from ._collision import Collision, collide
from .controller import PASSIVE_FROM, Controller, State

__all__ = ["INTACT", "LAST_BIT", "Bus", "Omit"]

SECOND = 1_000_000_000
BITRATE_MAX = 1_000_000  # classic CAN; faster bits come with FD frames only
CONTROLLERS_MAX = 1024  # COSMIC names 127 nodes; a guard against a loop that opens controllers

INTERMISSION = 3
AFTER_ACK = 8  # ACK delimiter and end of frame
FLAG, LONGEST_FLAG, DELIMITER = 6, 12, 8
SUSPEND = 8
RECESSIVE_RUN, RUNS_TO_RECOVER = 11, 128
STEP_TRANSMIT_ERROR = 8

LISTENERS_KEPT = 1 << 16  # identifiers whose listeners are remembered: 65,536 of some 100 bytes
LENGTHS_KEPT = 1 << 16

INTACT, LAST_BIT = 0, -1
Omit: TypeAlias = Callable[[Frame, int, int], int]
"""(frame, how often this frame was destroyed before, start) -> INTACT, or the bit at which it is destroyed, counted
from 1 at the start of frame, or LAST_BIT, the latest and dearest"""


class Bus:
    """A bus and its controllers. `omit` decides which transmissions are destroyed."""

    def __init__(self, bitrate: int, omit: Omit | None = None) -> None:
        if not 1 <= bitrate <= BITRATE_MAX:
            raise LimitError("bitrate", bitrate, BITRATE_MAX)
        self.bitrate = bitrate
        self.bit = (SECOND + bitrate // 2) // bitrate
        """nanoseconds"""
        self.omit = omit
        self.now = 0
        self.frames = 0
        """transmissions that succeeded"""
        self.errors = 0
        """transmissions that were destroyed"""
        self.busy = 0
        """nanoseconds taken by frames, error frames and their intermissions"""
        self.controllers: list[Controller] = []
        self._acknowledging = 0
        self._waiting: dict[int, list[Controller]] = {}  # arbitration field -> who wants to send with it
        self._first = 0  # when the first of them wanted to; in the past if the bus was busy
        self._suspended: list[Controller] = []
        self._recovering: dict[Controller, _Recovery] = {}
        self._with_rec: dict[Controller, None] = {}  # a set that keeps its order: every run is the same run
        self._free = 0  # when the last intermission ends
        self._sending: list[Controller] = []
        self._collision: Collision | None = None
        self._frame: Frame | None = None
        self._began = 0
        self._ends = 0  # when the transmission's outcome is known
        self._fails = False
        self._no_ack = False
        self._listeners: dict[int, list[Controller]] = {}
        self._lengths: dict[tuple[int, bytes], int] = {}

    def controller(self, name: str = "", listen_only: bool = False) -> Controller:
        if len(self.controllers) >= CONTROLLERS_MAX:
            raise LimitError("controllers on a bus", len(self.controllers) + 1, CONTROLLERS_MAX)
        made = Controller(self, name or f"controller {len(self.controllers)}", listen_only)
        self.controllers.append(made)
        self._acknowledging += not listen_only
        self._forget_listeners()
        return made

    # Time

    def next_event(self) -> int | None:
        """When the bus has something to say, if nobody loads or aborts before; None: never."""
        if self._sending:
            return self._ends
        start = self._start_of_frame()
        due = min([recovery.due for recovery in self._recovering.values()], default=None)
        if start is None or (due is not None and due <= start):
            return due
        # The contest is still open: who is ahead now may lose, and then this is a moment at which nothing happens.
        return start + self.bit

    def advance(self, to: int) -> None:
        """Lets time pass, calling back on the way. What happens at `to` itself happens, contests at `to` stay open."""
        while self.step(to):
            pass

    def step(self, limit: int) -> bool:
        """Lets time pass until something has happened, but not beyond `limit`. False: nothing did, and it is `limit`.

        For a driver with timers of its own, which a callback may set: it looks at them after each step.
        """
        if limit < self.now:
            raise LocalProtocolError(f"time {limit} is before the bus's now {self.now}")
        if not self._sending:
            start = self._start_of_frame()
            if self._recovering and self._recover_first(start, limit):
                return True
            if start is None or start >= limit:
                self.now = limit
                return False
            self.now = start
            self._start(start)
        if self._ends > limit:
            self.now = limit
            return False
        self.now = self._ends
        if self._fails:
            self._destroyed()
        else:
            self._succeeded()
        return True

    def is_on_wire(self, controller: Controller) -> bool:
        return controller in self._sending

    @property
    def idle(self) -> bool:
        """Nothing on the wire and nobody waiting."""
        return not (self._sending or self._waiting or self._suspended)

    def contest_at(self) -> int | None:
        """When it is decided who sends next, as far as is known; None: somebody is sending, or nobody wants to."""
        return None if self._sending else self._start_of_frame()

    # Arbitration

    def _wants(self, controller: Controller) -> None:
        if controller._suspended_until > self.now:
            self._suspended.append(controller)
            return
        if not self._waiting:
            self._first = self.now
        group = self._waiting.get(controller.key)
        if group is None:
            self._waiting[controller.key] = [controller]
        else:
            group.append(controller)

    def _wants_no_more(self, controller: Controller) -> None:
        if controller in self._suspended:
            self._suspended.remove(controller)
            return
        group = self._waiting[controller.key]
        group.remove(controller)
        if not group:
            del self._waiting[controller.key]

    def _start_of_frame(self) -> int | None:
        """When the next contest is, as far as is known."""
        start = None
        if self._waiting:
            start = self._first if self._first > self._free else self._free
        if self._suspended:
            soonest = max(self._free, min([controller._suspended_until for controller in self._suspended]))
            if start is None or soonest < start:
                start = soonest
        return start

    def _start(self, start: int) -> None:
        if self._suspended:
            ready = [controller for controller in self._suspended if controller._suspended_until <= start]
            for controller in ready:
                self._suspended.remove(controller)
                self._wants(controller)
        key = min(self._waiting)
        group = self._waiting.pop(key)
        frame = group[0].mailbox
        assert frame is not None
        for recovery in self._recovering.values():
            recovery.interrupted(start)
        self._collision = None
        fails_at = 0
        if len(group) > 1:
            self._collision = collide(group)
            frame, fails_at = self._collision.frame, self._collision.fails_at
        bits = self._length(key, frame)
        self._no_ack = self._acknowledging <= len(group)
        if not fails_at and self._no_ack:
            fails_at = bits - INTERMISSION - AFTER_ACK
        if self.omit is not None:
            destroyed_at = self.omit(frame, group[0].attempts, start)
            if destroyed_at:
                last = bits - INTERMISSION
                at = last if destroyed_at < 0 or destroyed_at > last else destroyed_at
                if not fails_at or at < fails_at:
                    fails_at, self._no_ack, self._collision = at, False, None
        self._sending = group
        self._frame = frame
        self._began = start
        if fails_at:
            self._fail(start + fails_at * self.bit)
        else:
            self._fails = False
            self._no_ack = False
            self._free = start + bits * self.bit
            self._ends = self._free - INTERMISSION * self.bit

    def _fail(self, at: int) -> None:
        """The transmission ends with an error frame, and who is alone sees only its own flag."""
        self._fails = True
        self._ends = at
        flag = FLAG if self._no_ack else LONGEST_FLAG
        self._free = at + (flag + DELIMITER + INTERMISSION) * self.bit

    def _length(self, key: int, frame: Frame) -> int:
        known = self._lengths.get((key, frame.data))
        if known is None:
            if len(self._lengths) >= LENGTHS_KEPT:
                self._lengths.clear()
            known = self._lengths[key, frame.data] = frame_bits(frame)
        return known

    # Outcomes. First everything changes, then everybody is told: a callback finds the bus as it will stay.

    def _succeeded(self) -> None:
        frame, senders, now = self._frame, self._sending, self.now
        assert frame is not None
        self._sending = []
        self.busy += self._free - self._began
        self.frames += 1
        changed: list[Controller] = []
        dropped_out: list[Controller] = []
        if self._collision is not None:
            dropped_out, senders = self._collision.dropped_out, self._collision.finished
            for controller in dropped_out:
                self._transmit_error(controller, changed)
        for sender in senders:
            if sender.tec:
                sender.tec -= 1
                if sender.state is not State.ACTIVE and sender._error_state() is not sender.state:
                    changed.append(sender)
            if sender.state is State.PASSIVE:
                sender._suspended_until = self._free + SUSPEND * self.bit
            sender.mailbox, sender.attempts, sender._aborting = None, 0, False
            sender.sent += 1
        if self._with_rec:
            self._heard_well(senders + dropped_out, changed)
        if self._recovering:
            self._frame_ended()
        lost = self._settle(dropped_out, changed) if changed or dropped_out else None
        key = senders[0].key  # before a callback loads the next
        for sender in senders:
            if sender.on_sent:
                sender.on_sent(frame, now)
        listeners = self._listeners.get(key)
        if listeners is None:
            listeners = self._remember_listeners(key, frame)
        busy = senders + dropped_out if dropped_out else senders
        for listener in listeners:
            if listener not in busy:
                listener.received += 1
                if listener.on_receive:
                    listener.on_receive(frame, now)
        if changed or lost:
            self._tell(changed, lost or [])

    def _destroyed(self) -> None:
        senders, now = self._sending, self.now
        self._sending = []
        self.busy += self._free - self._began
        self.errors += 1
        changed: list[Controller] = []
        frames = [sender.mailbox for sender in senders]
        for sender in senders:
            # A passive sender that misses only the acknowledgement, and sees nobody object, is alone: it may go on.
            if not (self._no_ack and sender.state is State.PASSIVE):
                self._transmit_error(sender, changed)
            else:
                sender._suspended_until = self._free + SUSPEND * self.bit
            sender.attempts += 1
        for controller in self.controllers:
            if controller not in senders and controller.state is not State.BUS_OFF and not controller.listen_only:
                if controller.rec < PASSIVE_FROM:
                    controller.rec += 1
                    self._with_rec[controller] = None
                    if controller._error_state() is not controller.state:
                        changed.append(controller)
        if self._recovering:
            self._frame_ended()
        lost = self._settle(senders, changed)
        for sender, frame in zip(senders, frames):
            if sender.on_error:
                sender.on_error(frame, now)
        for controller in self.controllers:
            if controller.on_error and controller not in senders and controller.state is not State.BUS_OFF:
                controller.on_error(None, now)
        self._tell(changed, lost)

    def _transmit_error(self, sender: Controller, changed: list[Controller]) -> None:
        sender.tec += STEP_TRANSMIT_ERROR
        if sender._error_state() is not sender.state:
            changed.append(sender)
        if sender.tec >= PASSIVE_FROM:
            sender._suspended_until = self._free + SUSPEND * self.bit

    def _heard_well(self, senders: list[Controller], changed: list[Controller]) -> None:
        for controller in list(self._with_rec):
            if controller in senders:
                continue
            controller.rec -= 1
            if not controller.rec:
                del self._with_rec[controller]
            if controller.state is not State.ACTIVE and controller._error_state() is not controller.state:
                changed.append(controller)

    def _settle(self, again: list[Controller], changed: list[Controller]) -> list[tuple[Controller, Frame]]:
        """New states, and those who try again back into the contest. What left a mailbox unsent is given back."""
        for controller in changed:
            controller.state = controller._error_state()
            if controller.state is State.BUS_OFF:
                self._acknowledging -= 1
                self._with_rec.pop(controller, None)
                self._forget_listeners()
        lost = []
        for sender in again:
            frame = sender.mailbox
            if frame is None:
                continue  # it left the bus
            if sender.state is State.BUS_OFF or sender._one_shot or sender._aborting:
                sender._empty()
                sender.lost += 1
                lost.append((sender, frame))
            else:
                self._wants(sender)
        return lost

    def _tell(self, changed: list[Controller], lost: list[tuple[Controller, Frame]]) -> None:
        for controller, frame in lost:
            if controller.on_abort:
                controller.on_abort(frame, self.now)
        for controller in changed:
            if controller.on_state:
                controller.on_state(controller.state, self.now)

    # Listeners

    def _forget_listeners(self) -> None:
        self._listeners.clear()

    def _remember_listeners(self, key: int, frame: Frame) -> list[Controller]:
        if len(self._listeners) >= LISTENERS_KEPT:
            self._listeners.clear()
        found = [each for each in self.controllers if each.state is not State.BUS_OFF and each.accepts(frame)]
        self._listeners[key] = found
        return found

    # Bus-off

    def _recovers(self, controller: Controller) -> None:
        if controller not in self._recovering:
            self._recovering[controller] = _Recovery(self.now, max(self.now, self._free), RECESSIVE_RUN * self.bit)

    def _frame_ended(self) -> None:
        for recovery in self._recovering.values():
            recovery.resumed(self._free)

    def _recover_first(self, start: int | None, to: int) -> bool:
        """Whether somebody came back before the next frame starts."""
        due, controller = min([(each.due, i) for i, each in enumerate(self._recovering.values())])
        if due > to or (start is not None and due > start):
            return False
        self._recovered(list(self._recovering)[controller], due)
        return True

    def _recovered(self, controller: Controller, due: int) -> None:
        self.now = max(self.now, due)
        del self._recovering[controller]
        controller.tec = controller.rec = 0
        controller.state = State.ACTIVE
        controller._suspended_until = 0
        self._acknowledging += 1
        self._forget_listeners()
        if controller.on_state:
            controller.on_state(State.ACTIVE, self.now)

    def _detach(self, controller: Controller) -> None:
        if controller not in self.controllers:
            return
        if controller in self._sending:
            if len(self._sending) == 1:
                self._no_ack = False
                self._fail(self.now)
            else:  # its twins go on
                self._sending.remove(controller)
                for places in self._collision[2:] if self._collision else ():
                    if controller in places:
                        places.remove(controller)
        elif controller.mailbox is not None:
            self._wants_no_more(controller)
        controller._empty()
        controller.on_receive = controller.on_sent = controller.on_error = controller.on_abort = None
        controller.on_state = None
        self.controllers.remove(controller)
        self._acknowledging -= not (controller.listen_only or controller.state is State.BUS_OFF)
        self._recovering.pop(controller, None)
        self._with_rec.pop(controller, None)
        self._forget_listeners()


class _Recovery:
    """The runs of 11 recessive bits a controller has yet to see. Each frame and error frame ends with one, an idle bus
    has one after the other."""

    __slots__ = ("asked", "left", "run", "since")

    def __init__(self, asked: int, since: int, run: int) -> None:
        self.asked = asked
        self.since = since
        self.left = RUNS_TO_RECOVER
        self.run = run

    @property
    def due(self) -> int:
        """if nobody sends before"""
        return self.since + self.left * self.run

    def interrupted(self, start: int) -> None:
        if start > self.since:
            self.left -= (start - self.since) // self.run

    def resumed(self, free: int) -> None:
        if self.asked <= free - self.run:
            self.left -= 1
        self.since = free
