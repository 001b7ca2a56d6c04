"""How a node learns the etags of its subjects (spec/cosmic_binding.md, CBIND-16 and CBIND-25 to CBIND-31): its side.

    want(subject) ─▶ queued ─▶ asked ─▶ on probation ─▶ bound
                        ▲        │ no answer: again, later each time    │ somebody holds another etag for it: that
                        │        ▼ etag 0: refused                      │ somebody holds the etag for another subject
                        └───────────────────────────────────────────────┘

One request is on the bus at a time; probations run beside it. An etag is used only after a probation in which whoever
holds it for another subject, or holds another for this subject, may object: a broker that has lost its table, or a
second one, must not come between those who are bound already.

    receive(frame, now)   frames_to_send(tx_node, now)   next_event()   next_timeout(), handle_timeout(now)

Events: ("bound", subject, etag), ("refused", subject, 0), ("waiting", subject, tries) once when the broker seems to be
away, and ("conflict", subject, etag) when another node uses what we use, differently: the channel must say so.
"""

from .._compat import Ordered, const
from ..errors import LimitError, LocalProtocolError
from .binding_frames import (
    BROKER,
    CCP_SSI,
    FIRST_ETAG,
    GET_ETAG,
    HOLD_ETAG,
    PRIORITY,
    RESTART,
    SUPPLY_ETAG,
    URGENT,
    WHO,
    Halves,
    backoff,
    halves,
    subject_uid,
)
from .frame import Frame
from .identifier import MAX_ETAG, MAX_TX_NODE, pack

__all__ = ["Etags"]

# Microseconds; as for node ids.
ANSWER_WITHIN = const(100000)
MAX_BACKOFF = const(3200000)
PROBATION = const(100000)
# A node that objects has said it; every half second is enough.
OBJECT_EVERY = const(500000)
# Pairs of frames that go out together, and when the next do: urgent ones must not fill the bus.
AT_ONCE = const(8)
MORE_AFTER = const(10000)
# Then the channel is told that nobody answers; asking goes on.
TELL_AFTER = const(5)
# Subjects of one node: each is a channel, and a bus has 16,284 of them.
MAX_SUBJECTS = const(1024)

QUEUED = const(0)
ON_PROBATION = const(1)
BOUND = const(2)


class _Wanted:
    __slots__ = ("etag", "objected", "state", "subject", "until")

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.state = QUEUED
        self.etag = 0
        self.until = 0
        self.objected: int | None = None


class Etags:
    def __init__(self) -> None:
        self._wanted: dict[bytes, _Wanted] = Ordered()
        self._holders: dict[int, bytes] = {}  # etag to UID, of those on probation or bound
        self._events: list[tuple[str, str, int]] = []
        self._objections: list[tuple[bytes, int]] = []
        self._supplied = Halves()
        self._held = Halves()
        self._asked: bytes | None = None
        self._ask_again: int | None = None
        self._more_at = 0
        self.tries = 0
        self.conflicts = 0
        self.objections = 0

    def want(self, subject: str) -> None:
        uid = subject_uid(subject)
        known = self._wanted.get(uid)
        if known is not None:
            if known.subject != subject:
                raise LocalProtocolError(f"subjects {subject!r} and {known.subject!r} have the same UID: rename one")
            return
        if len(self._wanted) >= MAX_SUBJECTS:
            raise LimitError("subjects of a node", len(self._wanted) + 1, MAX_SUBJECTS)
        self._wanted[uid] = _Wanted(subject)

    def drop(self, subject: str) -> None:
        """No channel wants it any more; the broker keeps the etag for it."""
        uid = subject_uid(subject)
        entry = self._wanted.pop(uid, None)
        if entry is not None and self._holders.get(entry.etag) == uid:
            del self._holders[entry.etag]
        if self._asked == uid:
            self._ask_next()

    def etag(self, subject: str) -> "int | None":
        """The etag once it is bound."""
        entry = self._wanted.get(subject_uid(subject))
        return entry.etag if entry is not None and entry.state == BOUND else None

    def next_event(self) -> "tuple[str, str, int] | None":
        return self._events.pop(0) if self._events else None

    # What comes from the bus

    def receive(self, frame: Frame, now: int, tx_node: "int | None") -> None:
        kind = frame.id & MAX_ETAG
        sender = frame.id >> 14 & MAX_TX_NODE
        if kind == SUPPLY_ETAG and sender == BROKER:
            found = self._supplied.receive(sender, frame.data)
            if found is not None:
                self._supply(found[0] == tx_node, found[1], found[2], now)
        elif kind == CCP_SSI and sender == BROKER and frame.data == RESTART and self._ask_again is not None:
            self._ask_again = min(self._ask_again, now + ANSWER_WITHIN)  # there is a broker again
        elif kind == WHO and sender == BROKER:
            self._who(now)
        elif kind == HOLD_ETAG:
            found = self._held.receive(sender, frame.data)
            if found is not None:
                self._hold(found[1], found[2], now)

    def _supply(self, to_us: bool, uid: bytes, etag: int, now: int) -> None:
        entry = self._wanted.get(uid)
        if to_us and uid == self._asked and entry is not None:
            self._ask_next()
            if etag < FIRST_ETAG:
                del self._wanted[uid]
                self._events.append(("refused", entry.subject, 0))
                return
            self._try(entry, uid, etag, now)
        # Said to others, and against what we live by?
        elif entry is not None and entry.state == BOUND and entry.etag != etag:
            self._object(uid, now)
        holder = self._holders.get(etag)
        if holder is not None and holder != uid:
            self._object(holder, now)

    def _hold(self, uid: bytes, etag: int, now: int) -> None:
        entry = self._wanted.get(uid)
        if entry is not None and entry.state != QUEUED and entry.etag != etag:
            if entry.state == BOUND:
                self._conflict(entry)
            else:
                self._holders.pop(entry.etag, None)
                self._try(entry, uid, etag, now)
        holder = self._holders.get(etag)
        if holder is not None and holder != uid:
            entry = self._wanted[holder]
            if entry.state == BOUND:
                self._conflict(entry)
            else:
                self._requeue(entry, now)

    def _try(self, entry: _Wanted, uid: bytes, etag: int, now: int) -> None:
        holder = self._holders.get(etag)
        entry.etag = etag
        if etag < FIRST_ETAG or (holder is not None and holder != uid):
            self._requeue(entry, now)
            return
        self._holders[etag] = uid
        entry.state = ON_PROBATION
        entry.until = now + PROBATION

    def _requeue(self, entry: _Wanted, now: int) -> None:
        """It is asked for again, and after a while: the broker must have heard why."""
        uid = subject_uid(entry.subject)
        if self._holders.get(entry.etag) == uid:
            del self._holders[entry.etag]
        entry.state = QUEUED
        entry.etag = 0
        if self._asked is None:
            self._ask_again = now + ANSWER_WITHIN

    def _object(self, uid: bytes, now: int) -> None:
        entry = self._wanted[uid]
        if entry.state == BOUND and (entry.objected is None or now - entry.objected >= OBJECT_EVERY):
            entry.objected = now
            self.objections += 1
            self._objections.append((uid, entry.etag))

    def _who(self, now: int) -> None:
        busy = len(self._objections) > 0  # with the answer to the last
        for uid, entry in self._wanted.items():
            if entry.state == BOUND and not busy:
                self._objections.append((uid, entry.etag))
            elif entry.state == ON_PROBATION:
                self._requeue(entry, now)  # what one broker has given the other does not know yet

    def _conflict(self, entry: _Wanted) -> None:
        self.conflicts += 1
        self._events.append(("conflict", entry.subject, entry.etag))

    # What goes to the bus

    def _ask_next(self) -> None:
        self._asked = None
        self._ask_again = None
        self.tries = 0

    def frames_to_send(self, tx_node: int, now: int) -> "list[Frame]":
        found = []
        for uid, etag in self._objections[:AT_ONCE]:
            found += halves(URGENT, tx_node, HOLD_ETAG, 0, uid, etag)
        self._objections = self._objections[AT_ONCE:]
        self._more_at = now + MORE_AFTER
        if self._ask_again is not None and now < self._ask_again:
            return found
        if self._asked is None:
            for uid, entry in self._wanted.items():
                if entry.state == QUEUED:
                    self._asked = uid
                    break
        else:
            self.tries += 1
            if self.tries == TELL_AFTER:
                self._events.append(("waiting", self._wanted[self._asked].subject, self.tries))
        if self._asked is None:
            self._ask_again = None
        else:
            self._ask_again = now + backoff(self.tries, ANSWER_WITHIN, MAX_BACKOFF, self._asked + bytes([tx_node]))
            found.append(Frame(pack(PRIORITY, tx_node, GET_ETAG), self._asked))
        return found

    def next_timeout(self) -> "int | None":
        """None when nothing is to be done. While something is queued and nothing asked, call frames_to_send()."""
        times = [entry.until for entry in self._wanted.values() if entry.state == ON_PROBATION]
        if self._ask_again is not None:
            times.append(self._ask_again)
        if self._objections:
            times.append(self._more_at)
        return min(times) if times else None

    def handle_timeout(self, now: int) -> None:
        for entry in self._wanted.values():
            if entry.state == ON_PROBATION and now >= entry.until:
                entry.state = BOUND
                self._events.append(("bound", entry.subject, entry.etag))
