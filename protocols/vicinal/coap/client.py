"""A client of one CoAP server, as a state machine: the shell brings datagrams and time, and sends what it is given.

    client = Client(seed)                     8 bytes drawn by chance at each start
    client.request(Request(...), now)         see _request.py; on_answer(answer, now) is called once
    client.observe(Request(...), now)         on_answer is called for every notification; unobserve() ends it
    receive_data(datagram, now), data_to_send(), next_timeout(), handle_timeout(now)

    request() ──▶ waiting ──▶ under way ──▶ answered
                                 │  ▲ ACK_TIMEOUT, doubled each time      └─ timeout, reset, refused: an Answer says why
                                 └──┘

One exchange is under way at a time (NSTART, RFC 7252, 4.7): what a gateway has answered is what it has, and order is
kept. Handlers are called last in each call, when everything is in order, and may ask for more. Whatever a server sends,
nothing is raised; it is counted.
"""

from .._compat import const
from ..errors import LimitError, LocalProtocolError, RemoteProtocolError
from ._request import AGAIN, Answer, Request
from .message import ACK, BLOCK2, CON, EMPTY, GET, MAX_DATAGRAM, NON, OBSERVE, RST, Message, decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Answer", "Client", "Request"]

# RFC 7252, 4.8, in ms.
ACK_TIMEOUT = const(2000)
MAX_RETRANSMIT = const(4)
EXCHANGE_LIFETIME = const(247000)
# For an answer after its acknowledgement, and for one to a request that is not confirmable.
PATIENCE = const(30000)
# Requests that wait for the one under way: an agent's events wait in its journal, not here.
MAX_WAITING = const(8)
MAX_OBSERVATIONS = const(8)
# Messages of the server that are remembered, to acknowledge again what it repeats: it has one under way, too.
_MAX_RECENT = const(8)
# RFC 7641, 3.4: after so long a lower number is newer.
_REORDERED = const(128000)
# Bytes of header, token, payload marker and of all options but path and queries, at most.
_OTHER_OPTIONS = const(90)
# Message ids are taken back by sixteenths, when nobody can remember them any more.
_PART = const(4096)


class Client:
    def __init__(self, seed: bytes, block: int = 512, max_body: int = 4096) -> None:
        """`block` is the largest block that is asked for and sent, `max_body` what an answer may have at most."""
        if len(seed) < 8:
            raise LimitError("bytes of the seed", len(seed), "8 or more")
        size = 0
        while 16 << size < block:
            size += 1
        if 16 << size != block or size > 6:
            raise LimitError("bytes of a block", block, "16, 32, 64, 128, 256, 512 or 1024")
        self.counters: dict[str, int] = {}
        self.max_body = max_body
        self._size = size
        self._prefix = bytes(seed[:4])
        self._mid = seed[4] << 8 | seed[5]
        self._chance = seed[6] << 8 | seed[7]
        self._tokens = 0
        self._free = [0] * 16  # when each part of the message ids may be used again
        self._waiting: list[Request] = []
        self._current: Request | None = None
        self._data = b""
        self._token = b""
        self._current_mid = -1
        self._acknowledged = False
        self._tries = 0
        self._wait = 0
        self._due: int | None = None
        self._observations: list[Request] = []
        self._recent: list[tuple[int, bool]] = []
        self._out: list[bytes] = []
        self._told: list[tuple[Any, Answer, int]] = []

    # What applications call

    def request(self, request: Request, now: int) -> None:
        if len(self._waiting) >= MAX_WAITING:
            raise LimitError("requests that wait", len(self._waiting) + 1, MAX_WAITING)
        total = _OTHER_OPTIONS + min(len(request.payload), 16 << self._size)
        for text in list(request.path) + list(request.queries):
            length = len(text.encode())
            if length > 255:
                raise LimitError(f"bytes of {text[:20]!r}... in a request", length, 255)
            total += length + 3
        if total > MAX_DATAGRAM:
            raise LimitError("bytes of path, queries and a block of a request", total, MAX_DATAGRAM)
        request.size, request.max_body = self._size, self.max_body
        if not request.answered and (request.confirmable or len(request.payload) > 16 << self._size):
            raise LocalProtocolError("only what is not confirmable and fits into one block can do without an answer")
        self._waiting.append(request)
        self._finish(now)

    def observe(self, request: Request, now: int, refresh: int = 0) -> None:
        """`refresh` ms of silence after which the server is asked again whether it still knows; 0: never."""
        if len(self._observations) >= MAX_OBSERVATIONS:
            raise LimitError("observations", len(self._observations) + 1, MAX_OBSERVATIONS)
        request.observe, request.refresh = 0, refresh
        request.token = self._next_token()
        self.request(request, now)

    def unobserve(self, request: Request, now: int) -> None:
        """Nothing more is delivered; the server is told."""
        if request in self._waiting:
            self._waiting.remove(request)
        if request is self._current:
            self._current = None
        if request in self._observations:
            self._observations.remove(request)
            last = Request(request.code, request.path, None, b"", None, request.accept, request.queries)
            last.observe, last.token = 1, request.token
            last.size, last.max_body = self._size, self.max_body
            self._waiting.append(last)
        self._finish(now)

    @property
    def waiting(self) -> int:
        """Requests without an answer so far."""
        return len(self._waiting) + (self._current is not None)

    @property
    def observing(self) -> int:
        return len(self._observations)

    def count(self, what: str) -> None:
        self.counters[what] = self.counters.get(what, 0) + 1

    # What the shell calls

    def data_to_send(self) -> "bytes | None":
        """The next datagram, until there is none."""
        return self._out.pop(0) if self._out else None

    def next_timeout(self) -> "int | None":
        due = self._due
        for each in self._observations:
            if each.due is not None and (due is None or each.due < due):
                due = each.due
        return due

    def handle_timeout(self, now: int) -> None:
        if self._due is not None and now >= self._due:
            self._due = None
            if self._current is not None:
                self._late(self._current, now)
        for each in self._observations:
            if each.due is not None and now >= each.due:
                each.due = None
                each.restart()
                self._waiting.append(each)
        self._finish(now)

    def receive_data(self, data: bytes, now: int) -> None:
        self.count("received")
        try:
            message = decode(data)
        except RemoteProtocolError:
            return self.count("malformed")
        kind = message.type
        if kind in (ACK, RST):
            self._acknowledge(message, now)
        elif message.code >> 5 == 0:
            # A ping, or a request to what is no server.
            if kind == CON:
                self._say(RST, message.mid)
            self.count("ping" if message.code == EMPTY else "requests refused")
        else:
            self._response(message, now)
        return self._finish(now)

    # Inside: one exchange

    def _acknowledge(self, message: Message, now: int) -> None:
        request = self._current
        if request is None or message.mid != self._current_mid or self._acknowledged:
            return self.count("acknowledged nothing")
        if message.type == RST:
            request.fail("reset: the server knows nothing of it")
            return self._done(request, now)
        if message.code == EMPTY:
            self._acknowledged = True
            self._due = now + PATIENCE
            return None
        if message.token != self._token or message.code >> 5 == 0:
            return self.count("unknown")
        return self._answered(request, message, now)

    def _response(self, message: Message, now: int) -> None:
        confirmable = message.type == CON
        for mid, known in self._recent:
            if mid == message.mid:
                self.count("repeated")
                if confirmable:
                    self._say(ACK if known else RST, mid)
                return None
        request, found = self._current, None
        if request is not None and message.token == self._token:
            found = request
        else:
            for each in self._observations:
                if each.token == message.token:
                    found = each
        self._recent = self._recent[1 - _MAX_RECENT :] + [(message.mid, found is not None)]
        if found is None:
            self.count("unknown")
            return self._say(RST, message.mid)
        if confirmable:
            self._say(ACK, message.mid)
        if found is request and request is not None:
            return self._answered(request, message, now)
        return self._notified(found, message, now)

    def _answered(self, request: Request, message: Message, now: int) -> None:
        if request.observe == 0 and message.code >> 5 == 2 and message.first(OBSERVE, 3) is not None:
            self._end()
            if request not in self._observations:
                self._observations.append(request)
            request.number = None  # a server that was started again counts from anywhere
            return self._notified(request, message, now)
        if request.digest(message) == AGAIN:
            self._end()
            self._waiting.insert(len(self._waiting) if request.gives_way else 0, request)
            return None
        return self._done(request, now)

    def _notified(self, request: Request, message: Message, now: int) -> None:
        number = message.uint(OBSERVE, 3)
        if message.code >> 5 != 2 or number is None:
            self._observations.remove(request)
            request.digest(message)
            return self._tell(request, request.answer, False, now)
        last = request.number
        if last is not None and now - request.heard < _REORDERED and not 0 < (number - last) % 16777216 < 8388608:
            return self.count("stale")
        request.number, request.heard = number, now
        request.due = now + request.refresh if request.refresh else None
        fetch = Request(GET, request.path, None, b"", None, request.accept, request.queries, True, True, request.sink)
        fetch.of, fetch.size, fetch.max_body = request, self._size, self.max_body
        block = message.uint(BLOCK2, 3)
        if block is not None and block & 8:
            self._abandon(request)
            if fetch.begin_fetch(message) == AGAIN:
                self._waiting.insert(0, fetch)
                return None
        else:
            fetch.digest(message)
        return self._tell(request, fetch.answer, True, now)

    def _abandon(self, request: Request) -> None:
        """What is being fetched of an older notification is not to be had any more."""
        for each in self._waiting:
            if each.of is request:
                self._waiting.remove(each)
                self.count("abandoned")
                break
        if self._current is not None and self._current.of is request:
            self._end()
            self.count("abandoned")

    def _done(self, request: Request, now: int) -> None:
        self._end()
        if request.of is not None:
            self._tell(request.of, request.answer, request.of in self._observations, now)
        else:
            if request in self._observations:
                self._observations.remove(request)
            self._tell(request, request.answer, False, now)

    def _end(self) -> None:
        self._current = self._due = None
        self._data = b""

    def _late(self, request: Request, now: int) -> None:
        if not request.confirmable or self._acknowledged or self._tries >= MAX_RETRANSMIT:
            self.count("timeouts")
            request.fail("timeout: the server did not answer")
            return self._done(request, now)
        self.count("retransmitted")
        self._tries += 1
        self._wait *= 2
        self._due = now + self._wait
        self._out.append(self._data)
        return None

    def _begin(self, request: Request, now: int) -> bool:
        """False: no message id may be used now."""
        mid = (self._mid + 1) & 0xFFFF
        part = mid // _PART
        if mid % _PART == 0 and now < self._free[part]:
            self._due = self._free[part]
            return False
        self._free[part] = now + EXCHANGE_LIFETIME
        self._mid = mid
        fixed = request.observe is not None and not request.in_middle
        self._token = request.token if fixed else self._next_token()
        options, payload = request.content()
        self._current_mid = self._mid
        kind = CON if request.confirmable else NON
        self._data = encode(Message(kind, request.code, self._mid, self._token, options, payload))
        self._out.append(self._data)
        self.count("sent")
        if not request.answered:
            request.answer = Answer(0x40)
            self._tell(request, request.answer, False, now)
            return True
        self._current, self._acknowledged, self._tries = request, False, 0
        self._chance = (self._chance * 25173 + 13849) & 0xFFFF
        self._wait = ACK_TIMEOUT + (ACK_TIMEOUT // 2) * (self._chance >> 8) // 256
        self._due = now + (self._wait if request.confirmable else PATIENCE)
        return True

    def _next_token(self) -> bytes:
        self._tokens = (self._tokens + 1) & 0xFFFF
        return self._prefix + bytes((self._tokens >> 8, self._tokens & 0xFF))

    def _say(self, kind: int, mid: int) -> None:
        self._out.append(encode(Message(kind, EMPTY, mid)))

    def _tell(self, request: Request, answer: "Answer | None", observed: bool, now: int) -> None:
        if answer is not None and request.on_answer is not None:
            answer.observed = observed
            self._told.append((request.on_answer, answer, now))

    def _finish(self, now: int) -> None:
        while True:
            while self._current is None and self._waiting:
                if not self._begin(self._waiting[0], now):
                    break
                self._waiting.pop(0)
            if not self._told:
                return
            handler, answer, at = self._told.pop(0)
            handler(answer, at)
