"""Which of several brokers speaks, and how the others come by its table (spec/cosmic_binding.md, CBIND-35 to CBIND-43).

                   1 s without an active broker           0.4 s, and nobody better claims
    standby ────────────────────────────────▶ claiming ────────────────────────────────▶ active
       ▲                                         │ an active one, or a better claim         │ a better active one
       └─────────────────────────────────────────┴──────────────────────────────────────────┘

Each broker has a rank, 0 to 7, its own. All say ALIVE: state, length and checksum of their table. Better is the longer
table, then the lower rank. The active broker sends entries that a standby lacks as RECORDs, and the standby's next
ALIVE is the acknowledgement. A standby that has had all is *current*, until it takes nothing for a second; the active
broker's ALIVE says who is. What is new is given to a node only when

    every current standby has it, and
    nobody else has claimed, or called itself active, for half a second.

So a current standby that takes over knows all that was ever given out. One that is not waits a second longer, and asks
the nodes what they hold before it gives anything (binding_broker.py).
"""

from .._compat import const
from .binding_frames import ALIVE, BROKER, RECORD, URGENT
from .binding_table import BindingTable, valid
from .frame import Frame
from .identifier import MAX_ETAG, MAX_TX_NODE, pack

__all__ = ["Standby"]

STANDBY = const(0)
CLAIMING = const(1)
ACTIVE = const(2)
MAX_RANK = const(7)

# Microseconds.
ALIVE_EVERY = const(200000)
CLAIM_EVERY = const(50000)
# Five ALIVEs lost in a row are not chance.
SILENT_AFTER = const(1000000)
PER_RANK = const(100000)
CLAIM_FOR = const(400000)
NOT_KNOWING = const(1000000)
SUSPEND_FOR = const(500000)
# A standby says what it has when no more records come for so long.
ACKNOWLEDGE_AFTER = const(5000)
RESEND_AFTER = const(100000)
# Records under way to one standby: what a small receive buffer can take.
WINDOW = const(8)
RESET = const(0)


class _Peer:
    __slots__ = ("check", "current", "heard", "length", "progress", "sent", "sent_at", "state")

    def __init__(self, now: int) -> None:
        self.state = STANDBY
        self.length = 0
        self.check = 0
        self.heard = now
        self.current = False
        self.progress = now  # when it last took something, or had all
        self.sent = 0
        self.sent_at = now


class Standby:
    def __init__(self, rank: int, table: BindingTable, now: int) -> None:
        self.rank = rank
        self.table = table
        self.state = STANDBY
        self.complete = False  # the active broker has called us current, and what it has we have
        self.takeovers = 0
        self.forks = 0  # a table that was not the beginning of the active one's, and was given up
        self.same_rank = 0  # another broker was given our rank: one of them must be given another
        self._peers: dict[int, _Peer] = {}
        self._heard_active = now
        self._claimed = now
        self._suspended = now
        self._say_at = now
        self._half: bytes | None = None
        self._out: list[Frame] = []

    # From other brokers

    def receive(self, frame: Frame, now: int) -> None:
        kind = frame.id & MAX_ETAG
        sender = frame.id >> 14 & MAX_TX_NODE
        if len(frame.data) != 8:
            return
        if kind == ALIVE and sender == self.rank:
            self.same_rank += 1
        elif kind == ALIVE and sender <= MAX_RANK and frame.data[0] <= ACTIVE:
            self._alive(sender, frame.data, now)
        elif kind == RECORD and sender == BROKER and self.state == STANDBY:
            self._record(frame.data, now)

    def _alive(self, rank: int, data: bytes, now: int) -> None:
        peer = self._peers.get(rank)
        if peer is None:
            peer = self._peers[rank] = _Peer(now)
        length = int.from_bytes(data[2:4], "big")
        check = int.from_bytes(data[4:], "big")
        same = length == len(self.table) and check == self.table.check()
        if same or length != peer.length:
            peer.progress = now
        if same or data[0] != STANDBY:
            peer.current = data[0] == STANDBY
        peer.state, peer.length, peer.check, peer.heard = data[0], length, check, now
        better = (-length, rank) < (-len(self.table), self.rank)
        if peer.state == ACTIVE:
            self._heard_active = now
            if self.state == CLAIMING or (self.state == ACTIVE and better):
                self._step_back(now)
            if self.state == STANDBY:
                self.complete = same and data[1] >> self.rank & 1 == 1
        elif peer.state == CLAIMING and self.state == CLAIMING and better:
            self._step_back(now)
        if self.state == ACTIVE:
            if peer.state != STANDBY:
                self._suspended = now + SUSPEND_FOR
                self._say_at = now
            else:
                self._replicate(peer, now)

    def _step_back(self, now: int) -> None:
        self.state = STANDBY
        self.complete = False
        self._heard_active = now
        self._say_at = now

    def _record(self, data: bytes, now: int) -> None:
        kind = data[0] >> 1
        if kind == RESET:
            if len(self.table):
                self.forks += 1
                self.table.clear()
            self._say_at = now
        elif not data[0] & 1:
            self._half = data
        elif self._half is not None and self._half[0] == data[0] - 1 and self._half[1:3] == data[6:]:
            index = int.from_bytes(data[6:], "big")
            uid, number = self._half[3:] + data[1:4], int.from_bytes(data[4:6], "big")
            if index == len(self.table) and valid(kind, uid, number):
                self.table.put(kind, uid, number)
            self._say_at = min(self._say_at, now + ACKNOWLEDGE_AFTER)
        if data[0] & 1:
            self._half = None

    # To other brokers

    def _replicate(self, peer: _Peer, now: int) -> None:
        if self.table.check(peer.length) != peer.check:
            if now - peer.sent_at >= RESEND_AFTER or peer.sent:
                self._out.append(Frame(pack(URGENT, BROKER, RECORD), bytes(8)))
                peer.sent, peer.sent_at = 0, now
            return
        if peer.length < peer.sent and now - peer.sent_at < RESEND_AFTER:
            return  # they are under way
        for index in range(peer.length, min(peer.length + WINDOW, len(self.table))):
            self._send_record(index)
            peer.sent, peer.sent_at = index + 1, now

    def _send_record(self, index: int) -> None:
        kind, uid, number = self.table[index]
        place = index.to_bytes(2, "big")
        head = pack(URGENT, BROKER, RECORD)
        self._out.append(Frame(head, bytes([kind << 1]) + place + uid[:5]))
        self._out.append(Frame(head, bytes([kind << 1 | 1]) + uid[5:] + number.to_bytes(2, "big") + place))

    def spread(self, now: int) -> None:
        """The table has grown: to those who had all of it."""
        for peer in self._peers.values():
            if now - peer.heard < SILENT_AFTER:
                self._replicate(peer, now)

    def known_to_all(self, length: int, now: int) -> bool:
        """Whether what is among the first `length` entries may be given out."""
        if not self.may_speak(now):
            return False
        self._retire(now)
        for peer in self._peers.values():
            if peer.current and (peer.length < length or peer.check != self.table.check(peer.length)):
                return False
        return True

    def _retire(self, now: int) -> None:
        for peer in self._peers.values():
            if now - peer.heard >= SILENT_AFTER or now - peer.progress >= SILENT_AFTER:
                peer.current = False

    def may_speak(self, now: int) -> bool:
        return self.state == ACTIVE and now >= self._suspended

    def frames_to_send(self, now: int) -> "list[Frame]":
        found, self._out = self._out, []
        if now >= self._say_at:
            self._say_at = now + (CLAIM_EVERY if self.state == CLAIMING else ALIVE_EVERY)
            self._retire(now)
            current = sum([1 << rank for rank, peer in self._peers.items() if peer.current and self.state == ACTIVE])
            data = bytes([self.state, current]) + len(self.table).to_bytes(2, "big")
            data += self.table.check().to_bytes(4, "big")
            found.append(Frame(pack(URGENT, self.rank, ALIVE), data))
        return found

    # Time

    def _claim_at(self) -> int:
        wait = SILENT_AFTER + self.rank * PER_RANK
        return self._heard_active + (wait if self.complete else wait + NOT_KNOWING)

    def _outdone(self, now: int) -> bool:
        """Whether a better one is there to claim."""
        for rank, peer in self._peers.items():
            if now - peer.heard < SILENT_AFTER and (-peer.length, rank) < (-len(self.table), self.rank):
                return True
        return False

    def next_timeout(self) -> int:
        if self.state == STANDBY:
            return min(self._say_at, self._claim_at())
        if self.state == CLAIMING:
            return min(self._say_at, self._claimed + CLAIM_FOR)
        return self._say_at

    def handle_timeout(self, now: int) -> None:
        if self.state == STANDBY and now >= self._claim_at():
            if self._outdone(now):
                self._heard_active = now - (SILENT_AFTER >> 1)  # it has its turn first
            else:
                self.state = CLAIMING
                self._claimed = self._say_at = now
        elif self.state == CLAIMING and now >= self._claimed + CLAIM_FOR:
            self.state = ACTIVE
            self.takeovers += 1
            self._say_at = now
            for peer in self._peers.values():
                peer.current = False
                peer.progress = now
                peer.sent = 0
