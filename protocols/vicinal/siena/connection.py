"""One connection between a client and a broker, or two brokers: a state machine between bytes and messages.

    dialler                                     acceptor
      hello(version, role, name)      ──▶         ("hello", ...) to the shell, which admits or refuses
      ("welcome", ...)                ◀──       welcome()            or bye(code, reason)
      requests, publishes, credit     ◀─▶       answers, deliveries
      ping after silence              ◀─▶       pong; after three pings into silence the other end is dead

    receive_data(data, now), receive_eof()   next_events()     messages; at the end ("closed", code, reason), once
                                                               publishes in a row may come as ("run", Run)
    send(message)                            data_to_send()
    next_timeout(), handle_timeout(now)

What breaks the protocol is answered with a bye that says why, and nothing after it is read. Deliveries wait here until
the client has given credit for them; `waiting` says how many bytes. Time is integer milliseconds.
"""

from .._compat import MICROPYTHON, const
from ..errors import LocalProtocolError, RemoteProtocolError
from ..stream import FrameReader
from .messages import (
    BROKER,
    CLIENT,
    MAX_BYTES_BROKER,
    MAX_BYTES_CLIENT,
    MAX_REASON_CHARS,
    VERSION,
    encode,
    framed,
    split,
)
from .messages_read import decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .messages import Message

__all__ = ["BYE_NAMES", "Connection"]

# Why a connection ends.
NORMAL = const(0)
PROTOCOL = const(1)
WRONG_VERSION = const(2)
NOT_ADMITTED = const(3)
TOO_SLOW = const(4)
SILENT = const(5)
DRAINING = const(6)
TAKEN_OVER = const(7)
TOO_MUCH = const(8)
LOST = const(9)
RENEW = const(10)
BYE_NAMES = (
    "normal",
    "protocol error",
    "wrong version",
    "not admitted",
    "too slow",
    "silent",
    "draining",
    "taken over",
    "too much",
    "lost",
    "come again",
)

# Milliseconds. Who connects speaks at once; a phone that changes cells is silent for some seconds.
HELLO_WITHIN = const(10000)
PING_AFTER = const(15000)
MAX_PINGS = const(3)
# Nobody has said yet who it is: a name, and a token with its claims and signature.
MAX_HELLO_BYTES = const(5120)
# Messages given at once: some 20 ms of work.
MAX_AT_ONCE = const(1024)
# A client that leaves so many frames in one read sends fast.
WORTH_LEARNING = const(8)
# Of credit: more cannot be meant.
MAX_CREDIT = const(1 << 30)

_BOTH = ("bye", "ping", "pong")
_FROM_CLIENT = _BOTH + ("credit", "advertise", "unadvertise", "subscribe", "unsubscribe", "publish", "administer")
_TO_CLIENT = _BOTH + ("answer", "deliver", "ended", "told")
_BETWEEN_BROKERS = _BOTH + ("record", "packets", "ack", "leave", "left", "change")


class Frames(FrameReader):
    """Frames of messages: larger than those of events, and how large depends on who has said hello."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self.max_bytes = max_bytes


class Connection:
    def __init__(
        self, now: int, hello: "Message | None" = None, ping_after: int = PING_AFTER, hello_within: int = HELLO_WITHIN
    ) -> None:
        """`hello` is what a dialler says first; without it this end accepts."""
        self.peer = ""
        self.role = hello[2] if hello is not None else -1
        self.open = False
        self.closed = False
        self.credit = 0  # how many deliveries the client will still take
        self.waiting = 0  # bytes of deliveries that want credit
        self.waiting_count = 0
        self.unsent = 0  # deliveries that credit was there for, until data_to_send()
        self._dialler = hello is not None
        self._frames = Frames(MAX_BYTES_BROKER if self.role == BROKER else MAX_BYTES_CLIENT)
        if hello is None:
            self._frames.max_bytes = MAX_HELLO_BYTES
        self._max_bytes = self._frames.max_bytes
        self._allowed: tuple[str, ...] = ("welcome", "bye") if hello is not None else ("hello",)
        self._runs: Any = None  # of a client's publishes
        self._singles: Any = None
        self._at_once = MAX_AT_ONCE
        self._in_runs = False
        self._events: list[Message] = []
        self._out: list[bytes | memoryview] = []
        self._held: list[bytes] = []
        self._first_held = 0
        self._given = 0  # credit, in all
        self._ping_after = ping_after
        self._heard = now
        self._pings = 0
        self._hello_by: int | None = now + hello_within
        if hello is not None:
            self._put(encode(hello))

    # What the other end says

    def receive_data(self, data: bytes, now: int) -> None:
        if self.closed:
            return
        self._heard = now
        self._pings = 0
        self._frames.receive_data(data)

    def read_single(self, data: bytes) -> "tuple[Any, Any] | None":
        """If what has come is one publish of a shape that came alone before, and nothing else: its Single, and what
        that reads of it. Who deals with it says took_single, else it is for receive_data."""
        if self._singles is None or self.closed:
            return None
        single = self._singles.by_size.get(len(data))
        if single is None or not self._frames.is_empty:
            return None
        values = single.read(data)
        return None if values is None else (single, values)

    def took_single(self, size: int, now: int) -> None:
        self._heard = now
        self._pings = 0
        self._frames.pass_by(size)

    def receive_eof(self) -> None:
        if not self.closed:
            self._close(LOST, "the connection was lost")

    def next_events(self) -> "list[Message]":
        """The next messages, in order; none until more has come. Pings and credit are dealt with here. Until the
        connection is open they come one by one: what the next may be is for the shell to say."""
        frames_waiting = self._frames.waiting
        while not self._events and not self.closed:
            buffer, start = frames_waiting()
            if start == len(buffer):
                break
            if self._runs is not None:
                run = self._runs.next_run(self._frames)
                if run is not None:
                    self._events.append(("run", run))
                    self._at_once, self._in_runs = 1, True  # what ended it may be a single one
                    break
            try:
                frames = self._frames.next_frames(self._at_once if self.open else 1)
                self._at_once = min(2 * self._at_once, MAX_AT_ONCE)
                self._in_runs = self._in_runs and self._at_once < WORTH_LEARNING
                if not frames:
                    break
                for data in frames:
                    if not self._take(decode(data, self._max_bytes)):
                        break
                else:
                    if self._runs is not None and len(self._events) == len(frames):
                        if start == 0 and len(frames) == 1 and self._frames.is_empty:
                            self._learn_single(frames[0], self._events[0])
                        self._learn(frames)
            except RemoteProtocolError as error:
                self.bye(PROTOCOL, str(error))
        found, self._events = self._events, []
        return found

    def _learn(self, frames: "list[bytes]") -> None:
        """Who leaves many frames in one read, or ends a run, sends fast: what came may come again."""
        if len(frames) < WORTH_LEARNING and not self._in_runs:
            return
        read = len(frames)
        for data, message in {len(data): (data, message) for data, message in zip(frames, self._events)}.values():
            if message[0] == "publish" and message[1] is None:
                self._runs.learn(data, message[3], read)
            read = 0

    def _learn_single(self, data: bytes, message: "Message") -> None:
        """What came alone may come again."""
        if message[0] == "publish" and message[1] is None:
            self._singles.missed(data, message[2], message[3])

    def _take(self, message: "Message") -> bool:
        """Whether more may follow."""
        kind = message[0]
        if kind not in self._allowed:
            self.bye(PROTOCOL, f"{kind} is not for here and now: want {', '.join(self._allowed)}")
        elif kind == "publish":
            self._events.append(message)
        elif kind == "ping":
            self._put(encode(("pong", message[1])))
        elif kind == "credit":
            self._give(message[1])
        elif kind == "bye":
            self._close(message[1], message[2])
        elif kind == "hello":
            self._hello(message)
        else:
            if kind == "welcome":
                self._welcomed(message)
            self._events.append(message)
        return not self.closed

    def _hello(self, message: "Message") -> None:
        version, role, name = message[1:4]
        if version != VERSION:
            self.bye(WRONG_VERSION, f"version {version} is not spoken here, version {VERSION} is")
            return
        self.peer, self.role = name, role
        self._allowed = ()  # until welcome()
        self._events.append(message)

    def welcome(self, name: str, last: int = -1) -> None:
        """The shell has admitted who said hello. `last` is the highest seq known of a client's events."""
        if self._dialler or self.open or self.closed or self.role < 0:
            raise LocalProtocolError("nobody waits to be welcomed")
        self._admit(_FROM_CLIENT if self.role == CLIENT else _BETWEEN_BROKERS)
        if not MICROPYTHON:
            # Here: numpy is half the memory of a small program that only dials.
            try:
                from .runs_cpython import RunReader
                from .singles_cpython import Singles

                if self.role == CLIENT:
                    self._runs, self._singles = RunReader(), Singles()
            except ImportError:  # numpy is not installed: one by one
                pass
        self._put(encode(("welcome", VERSION, name, last)))

    def _welcomed(self, message: "Message") -> None:
        self.peer = message[2]
        self._admit(_TO_CLIENT if self.role == CLIENT else _BETWEEN_BROKERS)

    def _admit(self, allowed: "tuple[str, ...]") -> None:
        self.open = True
        self._hello_by = None
        self._allowed = allowed
        self._max_bytes = self._frames.max_bytes = MAX_BYTES_BROKER if self.role == BROKER else MAX_BYTES_CLIENT

    def take_larger(self) -> None:
        """From an administrator, whose deployments are."""
        self._max_bytes = self._frames.max_bytes = MAX_BYTES_BROKER

    def _give(self, credit: int) -> None:
        credit = min(credit, MAX_CREDIT - self.credit)
        self._given += credit
        self.credit += credit
        start = self._first_held
        ready = self._held[start : start + self.credit]
        self._first_held += len(ready)
        if 2 * self._first_held >= len(self._held):
            # Not at each credit: it would be copied for every few that go.
            self._held = self._held[self._first_held :]
            self._first_held = 0
        self.credit -= len(ready)
        self.unsent += len(ready)
        self.waiting_count -= len(ready)
        for data in ready:
            self.waiting -= len(data)
            self._out.append(data)

    @property
    def released(self) -> int:
        """Deliveries that credit was there for."""
        return self._given - self.credit

    # What this end says

    def send(self, message: "Message") -> None:
        if not self.open or self.closed:
            raise LocalProtocolError(f"{message[0]} on a connection that is not open")
        if message[0] == "packets":
            for part in split(message):
                self._put(encode(part))
        elif message[0] == "deliver":
            self.deliver(framed(encode(message)))
        else:
            self._put(encode(message))

    def put(self, frames: bytes) -> None:
        """Messages that are frames already."""
        if not self.open or self.closed:
            raise LocalProtocolError("frames on a connection that is not open")
        if frames:
            self._out.append(frames)

    def deliver(self, data: bytes) -> None:
        """A delivery that is a frame already."""
        if self.credit:
            self.credit -= 1
            self.unsent += 1
            self._out.append(data)
        else:
            self.waiting += len(data)
            self.waiting_count += 1
            self._held.append(data)

    def deliver_many(self, data: "bytes | memoryview", count: int) -> None:
        """So many deliveries, which are frames already, one behind the other. A view is of more than these, and is to
        be written before more is read: what must wait is copied."""
        if self.credit >= count:
            self.credit -= count
            self.unsent += count
            self._out.append(data)
            return
        frames = Frames(MAX_BYTES_CLIENT)
        frames.receive_data(bytes(data))
        while (content := frames.next_frame()) is not None:
            self.deliver(framed(content))

    def sift(self, keep: "Callable[[bytes], bytes | None]") -> int:
        """Of deliveries that want credit: what is to be there in place of each, or None. How many are gone."""
        kept = [one for one in [keep(data) for data in self._held[self._first_held :]] if one is not None]
        gone = self.waiting_count - len(kept)
        self._held = kept
        self._first_held = 0
        self.waiting_count = len(kept)
        self.waiting = sum([len(data) for data in kept])
        return gone

    def bye(self, code: int, reason: str) -> None:
        """The last that this end says; nothing is read any more."""
        if not self.closed:
            self._put(encode(("bye", code, reason[:MAX_REASON_CHARS])))
            self._close(code, reason)

    def _close(self, code: int, reason: str) -> None:
        self.closed = True
        self._hello_by = None
        self._events.append(("closed", code, reason))

    def data_to_send(self) -> "bytes | memoryview":
        out = self._out
        if not out:
            return b""
        self._out = []
        self.unsent = 0
        return out[0] if len(out) == 1 else b"".join(out)

    def _put(self, data: bytes) -> None:
        self._out.append(framed(data))

    # Time

    def next_timeout(self) -> "int | None":
        if self.closed:
            return None
        silent = self._heard + self._ping_after * (self._pings + 1)
        return silent if self._hello_by is None else min(silent, self._hello_by)

    def handle_timeout(self, now: int) -> None:
        if self.closed:
            return
        if self._hello_by is not None:
            if now >= self._hello_by:
                self.bye(SILENT, "nothing was said in time: no " + ("welcome" if self._dialler else "hello"))
        elif now >= self._heard + self._ping_after * (self._pings + 1):
            if self._pings >= MAX_PINGS:
                self.bye(SILENT, f"nothing was heard for {now - self._heard} ms, and {MAX_PINGS} pings unanswered")
            else:
                self._pings += 1
                self._put(encode(("ping", self._pings)))
