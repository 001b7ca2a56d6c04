"""The broker of names: numbers for nodes, etags for subjects (spec/cosmic_binding.md). The nodes' side is in
node_ids.py and etags.py, which broker of several speaks is decided in binding_standby.py.

    receive(frame, now)   frames_to_send(now)   next_timeout(), handle_timeout(now)
    to_store(), stored(length)                  the table, for a file that is restored at the next start

What a node was told must survive the broker. So an entry is appended, sent to the standbys and given to the shell to
store, and only when all have it the node is told; until then its request is under way and may be repeated.

    GET_ETAG ─▶ known? ── yes ─▶ SUPPLY_ETAG × 2
                  │ no: the next free etag from 16383 down
                  └──▶ entry ─▶ RECORD, to_store() ─▶ all have it ─▶ SUPPLY_ETAG × 2

A broker that takes over and may not know all (it was down while another gave out names, or its file was lost) asks WHO,
five times, and takes the answers into its table before it gives anything; what it misses even so, a node that hears
its number or etag given to another objects to.

What is ignored is counted in `ignored`, by reason.
"""

from .._compat import const
from ..errors import LimitError
from .binding_frames import (
    BROKER,
    CCP_RSI,
    CCP_SSI,
    FIRST_ETAG,
    GET_ETAG,
    HOLD_ETAG,
    HOLD_NODE,
    PRIORITY,
    RESTART,
    STAGES,
    SUPPLY_ETAG,
    URGENT,
    WHO,
    Halves,
    halves,
    stage_of,
)
from .binding_standby import ACTIVE, MAX_RANK, Standby
from .binding_table import NODE, SUBJECT, BindingTable, valid
from .frame import Frame
from .identifier import MAX_ETAG, MAX_TX_NODE, pack

__all__ = ["BindingBroker"]

# Microseconds. A node repeats after 100 ms; a round without progress for five of them has no node any more.
ROUND_WITHIN = const(500000)
# An answer that was lost is asked for again after 100 ms; what comes sooner is another node with the same nibbles.
REPEAT_AFTER = const(50000)
# WHO, and how often: each time every node may miss it, and the broker the answer.
WHO_EVERY = const(100000)
WHO_TIMES = const(5)
# The answers of many nodes take their time: asking ends when none has come for so long, or after all.
QUIET = const(200000)
WHO_WITHIN = const(5000000)
# Answers that wait for standbys or the disk: one for each node and some subjects; who finds it full asks again.
MAX_WAITING = const(256)


class BindingBroker:
    def __init__(self, rank: int, now: int, stored: bytes = b"", persistent: bool = False) -> None:
        """`stored` is what the file holds; with `persistent` nothing is given out before stored() says it is there."""
        if not 0 <= rank <= MAX_RANK:
            raise LimitError("rank", rank, f"0 .. {MAX_RANK}")
        self.table = BindingTable()
        self.restored = self.table.restore(stored)  # bytes that were good
        self.standby = Standby(rank, self.table, now)
        self.ignored: dict[str, int] = {}
        self.corrected = 0  # entries that nodes objected to
        self._persistent = persistent
        self._on_disk = (self.table.check(), len(self.table))
        self._waiting: list[tuple[int, list[Frame]]] = []
        self._held = Halves()
        self._out: list[Frame] = []
        self._stage = STAGES - 1  # that is to come next; -1 while a number waits to be given out
        self._prefix = 0
        self._answer: Frame | None = None
        self._answered = now
        self._round_until: int | None = None
        self._who_left = 0
        self._who_at: int | None = None
        self._who_until = now

    def receive(self, frame: Frame, now: int) -> None:
        if not frame.extended or frame.remote:
            return
        kind = frame.id & MAX_ETAG
        if kind >= FIRST_ETAG:
            return
        self.standby.receive(frame, now)
        if kind == HOLD_NODE:
            self._objection(NODE, frame.data, frame.id >> 14 & MAX_TX_NODE, now)
        elif kind == HOLD_ETAG:
            found = self._held.receive(frame.id >> 14 & MAX_TX_NODE, frame.data)
            if found is not None:
                self._objection(SUBJECT, found[1], found[2], now)
        elif kind not in (CCP_RSI, GET_ETAG):
            return
        elif not self.standby.may_speak(now):
            self._ignore("not active")
        elif self._who_at is not None:
            self._ignore("asking who holds what")
        elif kind == CCP_RSI:
            stage, nibble = stage_of(frame)
            self._request(stage, nibble, now)
        else:
            self._get_etag(frame.id >> 14 & MAX_TX_NODE, frame.data, now)

    def _ignore(self, reason: str) -> None:
        self.ignored[reason] = self.ignored.get(reason, 0) + 1

    # Etags

    def _get_etag(self, asker: int, uid: bytes, now: int) -> None:
        if len(uid) != 8 or uid == RESTART:
            self._ignore("malformed")
            return
        etag = self.table.number(SUBJECT, uid)
        if etag is None:
            etag = self._give(SUBJECT, uid, now)
            if etag is None:
                self._out += halves(PRIORITY, BROKER, SUPPLY_ETAG, asker, uid, 0)
                return
        self._when_safe(halves(PRIORITY, BROKER, SUPPLY_ETAG, asker, uid, etag), now)

    # Numbers of nodes

    def _request(self, stage: int, nibble: int, now: int) -> None:
        if stage == self._stage:
            if stage == STAGES - 1:
                self._prefix = 0
            self._prefix |= nibble << 4 * stage
            self._stage -= 1
            self._round_until = now + ROUND_WITHIN
            if stage:
                self._say_stage(Frame(pack(PRIORITY, BROKER, CCP_SSI), (self._prefix | stage).to_bytes(8, "big")), now)
            else:
                self._give_number(self._prefix.to_bytes(8, "big"), now)
        elif self._answer is None or stage != self._repeatable() or nibble != self._prefix >> 4 * stage & 15:
            self._ignore("another round")
        elif now - self._answered >= REPEAT_AFTER:
            self._say_stage(self._answer, now)

    def _repeatable(self) -> int:
        """The stage that was answered last: the last of a round may be asked for until the next begins."""
        return 0 if self._round_until is None else self._stage + 1

    def _say_stage(self, answer: Frame, now: int) -> None:
        self._answer = answer
        self._answered = now
        self._out.append(answer)

    def _give_number(self, uid: bytes, now: int) -> None:
        number = None
        if uid != RESTART:
            number = self.table.number(NODE, uid)
            if number is None:
                number = self._give(NODE, uid, now)
        if number is None:
            self._ignore("no number is free")
            self._end_round(True)
            return
        self._answer = None
        self._when_safe([Frame(pack(PRIORITY, number, CCP_SSI), uid)], now)

    def _end_round(self, restart: bool) -> None:
        self._stage = STAGES - 1
        self._round_until = None
        if restart:
            self._answer = None
            self._out.append(Frame(pack(PRIORITY, BROKER, CCP_SSI), RESTART))

    # Safety

    def _give(self, kind: int, uid: bytes, now: int) -> "int | None":
        if len(self._waiting) >= MAX_WAITING:
            self._ignore("too many wait")
            return None
        number = self.table.give(kind, uid)
        if number is not None:
            self.standby.spread(now)
        return number

    def _when_safe(self, answer: "list[Frame]", now: int) -> None:
        """Also what was in the table already: it may have been put there a moment ago."""
        if len(self._waiting) < MAX_WAITING and (len(self.table), answer) not in self._waiting:
            self._waiting.append((len(self.table), answer))
        self._flush(now)

    def _flush(self, now: int) -> None:
        while self._waiting:
            length, answer = self._waiting[0]
            if self._persistent and length > self._on_disk[1]:
                return
            if not self.standby.known_to_all(length, now):
                return
            self._waiting.pop(0)
            self._out += answer
            if answer[0].id & MAX_ETAG == CCP_SSI:
                self._say_last(answer[0], now)

    def _say_last(self, answer: Frame, now: int) -> None:
        self._answer = answer
        self._answered = now
        self._end_round(False)

    def _objection(self, kind: int, uid: bytes, number: int, now: int) -> None:
        """Every broker hears it, but only the active one writes: the others get it as a record."""
        if self.standby.may_speak(now) and len(uid) == 8 and valid(kind, uid, number):
            if self._who_at is not None and not self._who_left:
                self._who_at = min(now + QUIET, self._who_until)
            if self.table.number(kind, uid) != number:
                try:
                    self.table.put(kind, uid, number)
                except LimitError:
                    self._ignore("the table is full")
                    return
                self.corrected += 1
                self.standby.spread(now)

    # The disk

    def to_store(self) -> "tuple[int, bytes] | None":
        """What the file lacks: cut it to so many entries' bytes, append these, flush, and then call stored()."""
        check, length = self._on_disk
        if self.table.check(length) != check:
            length = 0  # the table was given up for another broker's
        if length == len(self.table) and self._on_disk == (self.table.check(), length):
            return None
        return length, self.table.to_bytes(length)

    def stored(self, length: int) -> None:
        self._on_disk = (self.table.check(length), length)

    # Time, and what goes out

    def frames_to_send(self, now: int) -> "list[Frame]":
        self._flush(now)
        found, self._out = self._out, []
        return self.standby.frames_to_send(now) + found

    def next_timeout(self) -> int:
        times = [self.standby.next_timeout()]
        if self._round_until is not None:
            times.append(self._round_until)
        if self._who_at is not None:
            times.append(self._who_at)
        return min(times)

    def handle_timeout(self, now: int) -> None:
        before, knowing = self.standby.takeovers, self.standby.complete
        self.standby.handle_timeout(now)
        if self.standby.takeovers != before:
            self._who_at = now
            self._who_until = now + WHO_WITHIN
            self._who_left = 0 if knowing else WHO_TIMES
        if not self.standby.may_speak(now):
            self._waiting = []
            self._end_round(False)
            if self.standby.state != ACTIVE:
                self._who_at = None
            elif self._who_at is not None:
                self._who_at = now + WHO_EVERY
            return
        if self._who_at is not None and now >= self._who_at:
            self._ask_who(now)
        if self._round_until is not None and now >= self._round_until:
            self._ignore("a round that stopped")
            self._end_round(True)

    def _ask_who(self, now: int) -> None:
        if self._who_left:
            self._who_left -= 1
            self._who_at = now + (WHO_EVERY if self._who_left else QUIET)
            self._out.append(Frame(pack(URGENT, BROKER, WHO)))
        else:
            self._who_at = None
            self._end_round(True)  # wakes those who have asked in vain
