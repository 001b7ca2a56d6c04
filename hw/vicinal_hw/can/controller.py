"""A CAN controller on the virtual bus: one transmit mailbox, acceptance filters, and the error counters of ISO 11898-1.

    counter                          state        what it means
    TEC and REC under 96             ACTIVE       an error it sees, it tells everybody (active error flag)
    TEC or REC from 96               WARNING      the same, and the host is told
    TEC or REC from 128              PASSIVE      tells nobody, and waits 8 bits after each own transmission
    TEC from 256                     BUS_OFF      silent and deaf, until recover() and 128 x 11 recessive bits

The mailbox is what our one-frame rule needs: it holds one frame, which can be taken back until it is on the wire. The
controller repeats it until it is sent, unless it is a one-shot.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from vicinal.cosmic.frame import EXTENDED_MAX, STANDARD_MAX, Frame
from vicinal.errors import LocalProtocolError

if TYPE_CHECKING:
    from .bus import Bus

__all__ = ["ACCEPT_ALL", "BUS_OFF_FROM", "PASSIVE_FROM", "WARNING_FROM", "Controller", "Mask", "State", "arbitration"]

WARNING_FROM, PASSIVE_FROM, BUS_OFF_FROM = 96, 128, 256

Mask: TypeAlias = tuple[int, int, bool]
"""identifier, mask, extended: a frame passes that agrees with the identifier where the mask is 1"""
ACCEPT_ALL: tuple[Mask, ...] = ((0, 0, False), (0, 0, True))

Heard: TypeAlias = Callable[[Frame, int], None]
"""a frame, and when (nanoseconds)"""


class State(IntEnum):
    ACTIVE = 1
    WARNING = 2
    PASSIVE = 3
    BUS_OFF = 4


def arbitration(frame: Frame) -> int:
    """The arbitration field as a number: the lowest wins, as a dominant bit is a 0.

        standard   base 11 | RTR | IDE=0 | 0 ...
        extended   base 11 | SRR=1 | IDE=1 | 18 bits | RTR

    So with the same base a standard frame beats an extended one, and data beat a request for them.
    """
    if frame.extended:
        number = frame.id
        return (number >> 18) << 21 | 3 << 19 | (number & 0x3FFFF) << 1 | frame.remote
    return frame.id << 21 | frame.remote << 20


class Controller:
    """Made by Bus.controller(). What happens is told by the callbacks, which may load() and abort() at once:

    on_receive(frame, now)    a frame that passed the filters, sent by another
    on_sent(frame, now)       the mailbox's frame was sent and acknowledged; the mailbox is empty
    on_error(frame, now)      an error frame was on the bus; the frame is ours if it was our transmission, else None
    on_abort(frame, now)      the mailbox was emptied without success: one-shot, taken back too late, bus-off
    on_state(state, now)      the state changed
    """

    __slots__ = (
        "_aborting",
        "_one_shot",
        "_suspended_until",
        "attempts",
        "bus",
        "filters",
        "key",
        "listen_only",
        "lost",
        "mailbox",
        "name",
        "on_abort",
        "on_error",
        "on_receive",
        "on_sent",
        "on_state",
        "rec",
        "received",
        "sent",
        "state",
        "tec",
    )

    def __init__(self, bus: "Bus", name: str, listen_only: bool) -> None:
        self.bus = bus
        self.name = name
        self.listen_only = listen_only
        """neither acknowledges nor reports errors"""
        self.state = State.ACTIVE
        self.tec = 0
        self.rec = 0
        self.filters: tuple[Mask, ...] = ACCEPT_ALL
        self.mailbox: Frame | None = None
        self.key = 0
        self.attempts = 0
        """how often the mailbox's frame was begun and destroyed"""
        self._one_shot = False
        self._aborting = False
        self._suspended_until = 0
        self.on_receive: Heard | None = None
        self.on_sent: Heard | None = None
        self.on_error: Callable[[Frame | None, int], None] | None = None
        self.on_abort: Heard | None = None
        self.on_state: Callable[[State, int], None] | None = None
        self.sent = 0
        self.received = 0
        """frames that passed the filters"""
        self.lost = 0
        """frames that left the mailbox unsent"""

    def __repr__(self) -> str:
        return f"<Controller {self.name} {self.state.name} tec={self.tec} rec={self.rec} mailbox={self.mailbox}>"

    # The mailbox

    def load(self, frame: Frame, one_shot: bool = False) -> None:
        """Puts a frame into the empty mailbox, at the bus's `now`. It takes part in the next arbitration."""
        if self.mailbox is not None:
            raise LocalProtocolError(f"the mailbox of {self.name} holds {self.mailbox}: abort() it first")
        if self.state is State.BUS_OFF:
            raise LocalProtocolError(f"{self.name} is bus-off (TEC {self.tec}): recover() first")
        if self.listen_only:
            raise LocalProtocolError(f"{self.name} only listens")
        self.mailbox = frame
        self.key = arbitration(frame)
        self._one_shot = one_shot
        self.bus._wants(self)

    def abort(self) -> bool:
        """Takes the frame back. False if there is none, or if it is on the wire: then it is sent, or, if that fails,
        given back by on_abort."""
        if self.mailbox is None:
            return False
        if self.bus.is_on_wire(self):
            self._aborting = True
            return False
        self.bus._wants_no_more(self)
        self._empty()
        return True

    @property
    def on_wire(self) -> bool:
        """whether the mailbox's frame is being sent right now"""
        return self.bus.is_on_wire(self)

    # Filters

    def accept(self, filters: Iterable[Mask] | None) -> None:
        """None accepts every frame, an empty list none."""
        masks = ACCEPT_ALL if filters is None else tuple(filters)
        for number, mask, extended in masks:
            most = EXTENDED_MAX if extended else STANDARD_MAX
            if not (0 <= number <= most and 0 <= mask <= most):
                raise LocalProtocolError(f"filter {number:#x} with mask {mask:#x} is not in 0 .. {most:#x}")
        self.filters = masks
        self.bus._forget_listeners()

    def accepts(self, frame: Frame) -> bool:
        for number, mask, extended in self.filters:
            if extended is frame.extended and (frame.id ^ number) & mask == 0:
                return True
        return False

    # Errors

    def recover(self) -> None:
        """Asks for the way back from bus-off. It takes 128 times 11 recessive bits: an idle bus has them in 1,408 bit
        times, a full one at the end of each frame."""
        if self.state is not State.BUS_OFF:
            raise LocalProtocolError(f"{self.name} is {self.state.name}, only BUS_OFF recovers")
        self.bus._recovers(self)

    def detach(self) -> None:
        """Leaves the bus for good. A frame on the wire is cut off, which the others see as an error."""
        self.bus._detach(self)

    def _error_state(self) -> State:
        """What the counters say."""
        if self.tec >= BUS_OFF_FROM:
            return State.BUS_OFF
        most = self.tec if self.tec > self.rec else self.rec
        if most >= PASSIVE_FROM:
            return State.PASSIVE
        return State.WARNING if most >= WARNING_FROM else State.ACTIVE

    def _empty(self) -> None:
        self.mailbox = None
        self.attempts = 0
        self._aborting = False
