"""How a node comes by its number on the bus (CCP; spec/cosmic_binding.md, CBIND-15 and CBIND-19 to CBIND-24): its side.

                 nothing for a while              other nodes' round is over
               ┌───────────────────┐             ┌───────────────────────────┐
               ▼                   │             ▼                           │
    start ─▶ asking, stage 15 ─▶ ... stage 0 ─▶ on probation ─▶ bound        │
               │  the answer has another prefix        │ somebody holds it   │
               └──────────────▶ waiting ◀──────────────┘                     │
                                   └─────────────────────────────────────────┘

The UID goes over the bus a nibble at a time, each in the identifier of an empty frame. Of nodes that start at once the
bus lets the lowest nibble through first, the broker's answer says which prefix goes on, and the others wait until the
number is given. A number is used only after a probation in which whoever holds it may object: a broker that has lost
its table gives out numbers that others live with.

    receive(frame, now)   frames_to_send()   next_timeout(), handle_timeout(now)
    tx_node               the number once it is ours, else None
"""

from .._compat import const
from .binding_frames import (
    BROKER,
    CCP_SSI,
    HOLD_NODE,
    RESTART,
    STAGES,
    URGENT,
    WHO,
    backoff,
    check_uid,
    stage_request,
)
from .frame import Frame
from .identifier import MAX_ETAG, MAX_TX_NODE, pack

__all__ = ["NodeId"]

# Microseconds. An answer comes within a few frames, unless the bus is full of what is more urgent.
ANSWER_WITHIN = const(100000)
MAX_BACKOFF = const(3200000)
# Others' rounds: sixteen stages, each of which may be repeated.
WAIT_FOR_OTHERS = const(1000000)
# For objections, which are urgent frames.
PROBATION = const(100000)
# Of one stage; then from the start, as the broker may have given the round up.
MAX_REPEATS = const(3)

ASKING = const(0)
WAITING = const(1)
ON_PROBATION = const(2)
BOUND = const(3)


class NodeId:
    def __init__(self, uid: bytes, now: int, tx_node: "int | None" = None) -> None:
        """`tx_node`, where the operator has given numbers by hand."""
        self.uid = check_uid(uid)
        self.tx_node = tx_node
        self.tries = 0
        self.objections = 0
        self.conflicts = 0  # somebody else holds the number that we use
        self.state = BOUND if tx_node is not None else WAITING
        self._whole = int.from_bytes(uid, "big")
        self._stage = STAGES - 1
        self._repeats = 0
        self._candidate = -1
        self._request: Frame | None = None
        self._objection: Frame | None = None
        self._timer: int | None = None if tx_node is not None else now

    def receive(self, frame: Frame, now: int) -> None:
        sender = frame.id >> 14 & MAX_TX_NODE
        etag = frame.id & MAX_ETAG
        if etag == WHO and sender == BROKER:
            if self.state == BOUND:
                self._object()
            elif self.state == ON_PROBATION:
                self._later(now)  # what one broker has given the other does not know yet
            return
        if len(frame.data) != 8:
            return
        if etag == HOLD_NODE and frame.data != self.uid:
            if self.state == ON_PROBATION and sender == self._candidate:
                self._later(now)
            elif sender == self.tx_node:
                self.conflicts += 1
        elif etag == CCP_SSI and sender == BROKER:
            if self.state in (ASKING, WAITING):
                self._stage_answer(frame.data, now)
        elif etag == CCP_SSI:
            self._given(sender, frame.data, now)

    def _stage_answer(self, data: bytes, now: int) -> None:
        if data == RESTART:
            self._wait(now, backoff(0, ANSWER_WITHIN >> 4, ANSWER_WITHIN, self.uid))
            return
        stage = data[7] & 15
        if int.from_bytes(data, "big") >> 4 * stage != self._whole >> 4 * stage:
            self._wait(now, WAIT_FOR_OTHERS + backoff(0, ANSWER_WITHIN, ANSWER_WITHIN, self.uid))
        elif 0 < stage <= self._stage:
            self.tries = 0
            self._ask(stage - 1, now)

    def _given(self, number: int, data: bytes, now: int) -> None:
        if data == self.uid:
            if self.state == BOUND:
                if number != self.tx_node:
                    self._object()
            elif self.state != ON_PROBATION or number != self._candidate:
                self.state = ON_PROBATION
                self._candidate = number
                self._request = None
                self._timer = now + PROBATION
        elif self.state == BOUND:
            if number == self.tx_node:
                self._object()
        elif self.state == ON_PROBATION:
            if number == self._candidate:
                self._later(now)
        else:  # the others' round is over
            self._wait(now, backoff(0, ANSWER_WITHIN >> 4, ANSWER_WITHIN, self.uid))

    def _object(self) -> None:
        assert self.tx_node is not None
        self.objections += 1
        self._objection = Frame(pack(URGENT, self.tx_node, HOLD_NODE), self.uid)

    def _ask(self, stage: int, now: int) -> None:
        self._repeats = self._repeats + 1 if self.state == ASKING and stage == self._stage else 0
        self.state = ASKING
        self._stage = stage
        self._request = stage_request(self.uid, stage)
        self._timer = now + backoff(self.tries, ANSWER_WITHIN, MAX_BACKOFF, self.uid)

    def _wait(self, now: int, wait: int) -> None:
        self.state = WAITING
        self._stage = STAGES - 1
        self._request = None
        self._timer = now + wait

    def _later(self, now: int) -> None:
        self._candidate = -1
        self.tries += 1
        self._wait(now, backoff(self.tries, ANSWER_WITHIN, MAX_BACKOFF, self.uid))

    def frames_to_send(self) -> "list[Frame]":
        """A request that an answer has overtaken is not among them."""
        found = [frame for frame in (self._request, self._objection) if frame is not None]
        self._request = self._objection = None
        return found

    def next_timeout(self) -> "int | None":
        return self._timer

    def handle_timeout(self, now: int) -> None:
        if self._timer is None or now < self._timer:
            return
        if self.state == ON_PROBATION:
            self.state = BOUND
            self.tx_node = self._candidate
            self._timer = None
        elif self.state == WAITING:
            self._ask(STAGES - 1, now)
        else:
            self.tries += 1
            self._ask(self._stage if self._repeats < MAX_REPEATS else STAGES - 1, now)
