"""One connection (protocols/spec/overlay.md): two state machines joined by a fake wire, and one alone with a liar."""

from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.scope.graph import Tags
from vicinal.siena import connection as c
from vicinal.siena.connection import Connection
from vicinal.siena.messages import BROKER, CLIENT, encode, framed

spec = pytest.mark.spec
SPEED = Event("Speed", {"rate": 57.5}, (), "car-7", 12)


def drain(connection: Connection) -> list[tuple[Any, ...]]:
    found = []
    while events := connection.next_events():
        found.extend(events)
    return found


class Pair:
    """A dialler and an acceptor, in whatever slices the wire makes."""

    def __init__(self, role: int = CLIENT, slices: int = 1 << 20) -> None:
        self.slices = slices
        self.now = 1000
        self.dialler = Connection(self.now, ("hello", 1, role, "car-7"))
        self.acceptor = Connection(self.now)

    def move(self) -> tuple[list[Any], list[Any]]:
        """What each end hears until both are silent."""
        heard: tuple[list[Any], list[Any]] = ([], [])
        while True:
            moved = False
            for one, other, found in ((self.dialler, self.acceptor, heard[1]), (self.acceptor, self.dialler, heard[0])):
                data = one.data_to_send()
                for at in range(0, len(data), self.slices):
                    other.receive_data(data[at : at + self.slices], self.now)
                    found.extend(drain(other))
                moved = moved or bool(data)
            if not moved:
                return heard

    def open(self, last: int = -1) -> "Pair":
        ((), ((_, _, _, name),)) = self.move()
        assert name == "car-7"
        self.acceptor.welcome("b1", last)
        assert self.move() == ([("welcome", 1, "b1", last)], [])
        return self


def said(connection: Connection) -> list[Any]:
    """The messages in what it wants to send."""
    data, found = connection.data_to_send(), []
    frames = c.Frames(1 << 20)
    frames.receive_data(data)
    while (frame := frames.next_frame()) is not None:
        found.append(cbor2.loads(frame))
    return found


@spec("OVER-2", "OVER-7", "OVER-8")
@pytest.mark.parametrize("slices", [1, 7, 1 << 20])
def test_hello_and_welcome(slices: int) -> None:
    pair = Pair(slices=slices).open(41)
    assert (pair.acceptor.peer, pair.dialler.peer) == ("car-7", "b1")
    assert (pair.acceptor.role, pair.acceptor.open, pair.dialler.open) == (CLIENT, True, True)
    pair.dialler.send(("publish", 1, 1, SPEED))
    pair.acceptor.send(("answer", 1, True, 0))
    assert pair.move() == ([("answer", 1, True, 0)], [("publish", 1, 1, SPEED)])


@spec("OVER-9")
def test_before_hello_frames_are_short() -> None:
    lone = Connection(0)
    lone.receive_data(b"\x59\x14\x01", 0)  # the head of 5,121 bytes is enough
    assert drain(lone) == [("closed", c.PROTOCOL, "a frame of 5121 bytes, the limit is 5120 (at byte 0)")]
    lone = Connection(0)
    lone.receive_data(b"\x59\x04\x00", 0)
    assert drain(lone) == []
    pair = Pair().open()
    pair.acceptor.receive_data(b"\x5a\x00\x02\x00\x01", 0)
    assert "a frame of 131073 bytes, the limit is 131072" in drain(pair.acceptor)[0][2]


@spec("OVER-9", "OVER-12")
@pytest.mark.parametrize("message", [("ping", 1), ("welcome", 1, "b", -1), ("publish", 1, 1, SPEED), ("leave", "s")])
def test_before_hello_nothing_else(message: tuple[Any, ...]) -> None:
    lone = Connection(0)
    lone.receive_data(framed(encode(message)), 0)
    ((kind, code, reason),) = drain(lone)
    assert (kind, code) == ("closed", c.PROTOCOL)
    assert reason == f"{message[0]} is not for here and now: want hello"
    assert said(lone) == [[2, 1, reason]]


@spec("OVER-9")
def test_who_says_nothing_is_cut() -> None:
    lone = Connection(1000)
    assert lone.next_timeout() == 11000
    lone.receive_data(b"\x45", 5000)  # to begin is not enough
    lone.handle_timeout(10999)
    assert drain(lone) == []
    lone.handle_timeout(11000)
    assert drain(lone)[0][:2] == ("closed", c.SILENT)
    assert lone.next_timeout() is None


@spec("OVER-10")
@pytest.mark.parametrize("rest", [[], [0, "x"], [7, {"more": [1]}]])
def test_another_version(rest: list[Any]) -> None:
    lone = Connection(0)
    lone.receive_data(framed(cbor2.dumps([0, 2, *rest], canonical=True)), 0)
    reason = "version 2 is not spoken here, version 1 is"
    assert drain(lone) == [("closed", c.WRONG_VERSION, reason)]
    assert said(lone) == [[2, 2, reason]]


FOR_CLIENT = ["answer", "deliver", "ended", "told"]
FOR_BROKER = ["advertise", "unadvertise", "subscribe", "unsubscribe", "publish", "administer"]
BETWEEN = ["leave", "left", "ack", "change"]
EXAMPLES = {
    "hello": ("hello", 1, 0, "x"),
    "welcome": ("welcome", 1, "b", -1),
    "answer": ("answer", 1, True, 1),
    "deliver": ("deliver", (1,), SPEED, None, ()),
    "advertise": ("advertise", 1, "TRUE", Tags()),
    "unadvertise": ("unadvertise", 1, 1),
    "subscribe": ("subscribe", 1, "TRUE", Tags(), None, None),
    "unsubscribe": ("unsubscribe", 1, 1),
    "publish": ("publish", 1, 1, SPEED),
    "ended": ("ended", 1, "gone"),
    "told": ("told", 1, "{}"),
    "administer": ("administer", 1, ("deny", "ann", "s")),
    "change": ("change", ("deny", (5, "b1"), "ann", "s")),
    "leave": ("leave", "s"),
    "left": ("left", "s"),
    "ack": ("ack", 1, "b1", 5, "b2", (6, 1), 7),
}


@spec("OVER-11", "OVER-12")
@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize(("role", "end"), [(CLIENT, "dialler"), (CLIENT, "acceptor"), (BROKER, "acceptor")])
def test_each_end_takes_what_is_for_it(kind: str, role: int, end: str) -> None:
    allowed = BETWEEN if role == BROKER else FOR_CLIENT if end == "dialler" else FOR_BROKER
    one = getattr(Pair(role).open(), end)
    one.receive_data(framed(encode(EXAMPLES[kind])) + framed(encode(("ping", 1))), 0)
    found = drain(one)
    if kind in allowed:
        assert found == [EXAMPLES[kind]]
        assert said(one) == [[4, 1]]
    else:
        assert found[0][:2] == ("closed", c.PROTOCOL)
        assert [item[:2] for item in said(one)] == [[2, 1]]  # and no pong: nothing more is read
        one.receive_data(framed(encode(("ping", 2))), 0)
        assert drain(one) == []


@spec("OVER-13")
@pytest.mark.parametrize("code", range(9))
def test_bye(code: int) -> None:
    pair = Pair().open()
    pair.acceptor.bye(code, "a reason" * 200)
    pair.acceptor.bye(0, "another")
    heard, own = pair.move()[0], drain(pair.acceptor)
    assert heard == [("closed", code, ("a reason" * 200)[:1024])]
    assert [event[:2] for event in own] == [] or own[0][1] == code
    with pytest.raises(LocalProtocolError, match="not open"):
        pair.acceptor.send(("answer", 1, True, 0))


@spec("OVER-14", "OVER-15")
def test_heartbeats() -> None:
    pair = Pair().open()
    assert pair.acceptor.next_timeout() == 16000
    for number in (1, 2, 3):
        pair.acceptor.handle_timeout(1000 + 15000 * number - 1)
        assert said(pair.acceptor) == []
        pair.acceptor.handle_timeout(1000 + 15000 * number)
        assert said(pair.acceptor) == [[3, number]]
    pair.acceptor.handle_timeout(61000)
    ((kind, code, reason),) = drain(pair.acceptor)
    assert (kind, code) == ("closed", c.SILENT)
    assert "60000 ms" in reason


@spec("OVER-14", "OVER-15")
def test_whatever_is_heard_counts() -> None:
    pair = Pair().open()
    for now in range(16000, 400000, 15000):
        pair.now = now
        pair.acceptor.handle_timeout(now)
        heard = pair.move()
        assert heard == ([], [("pong", 1)])


@spec("OVER-19")
def test_credit() -> None:
    pair = Pair().open()
    deliveries = [("deliver", (1,), SPEED.replace(seq=seq), None, ()) for seq in range(10)]
    for delivery in deliveries[:4]:
        pair.acceptor.send(delivery)
    assert pair.move() == ([], [])
    assert (pair.acceptor.waiting_count, pair.acceptor.released) == (4, 0)
    assert pair.acceptor.waiting == sum(len(framed(encode(delivery))) for delivery in deliveries[:4])
    pair.acceptor.send(("answer", 1, True, 1))  # does not wait
    pair.dialler.send(("credit", 3))
    assert pair.move()[0] == [("answer", 1, True, 1), *deliveries[:3]]
    pair.dialler.send(("credit", 5))
    assert pair.move()[0] == deliveries[3:4]
    for delivery in deliveries[4:]:
        pair.acceptor.send(delivery)
    assert pair.move()[0] == deliveries[4:8]
    assert (pair.acceptor.waiting_count, pair.acceptor.released, pair.acceptor.credit) == (2, 8, 0)


def test_the_end_of_the_stream() -> None:
    pair = Pair().open()
    pair.acceptor.receive_eof()
    pair.acceptor.receive_eof()
    assert drain(pair.acceptor) == [("closed", c.LOST, "the connection was lost")]


def test_what_must_wait_of_a_view_is_no_view() -> None:
    """Deliveries of a run are cut from one table: who is slow must not hold all of it."""
    pair = Pair().open()
    pair.dialler.send(("credit", 2))
    pair.move()
    frames = [framed(encode(("deliver", (1,), Event("Speed", {"rate": n}, (), "p", n), None, ()))) for n in range(5)]
    table = bytearray(b"".join(frames))
    pair.acceptor.deliver_many(memoryview(table), len(frames))
    table[:] = bytes(len(table))
    assert pair.acceptor.waiting_count == 3
    pair.dialler.send(("credit", 5))
    heard, _ = pair.move()
    assert [message[2].seq for message in heard] == [0, 1, 2, 3, 4]


def test_misuse() -> None:
    for wrong in (Connection(0), Connection(0, ("hello", 1, CLIENT, "x")), Pair().open().acceptor):
        with pytest.raises(LocalProtocolError, match="nobody waits"):
            wrong.welcome("b1")
    with pytest.raises(LocalProtocolError, match="not open"):
        Connection(0).send(("ping", 1))


@spec("OVER-12")
@given(st.binary(max_size=300), st.booleans())
def test_arbitrary_bytes_end_a_connection_or_mean_something(data: bytes, opened: bool) -> None:
    one = Pair().open().acceptor if opened else Connection(0)
    for at in range(0, len(data), 3):
        one.receive_data(data[at : at + 3], 0)
        drain(one)
    one.data_to_send()
    assert one.closed == (one.next_timeout() is None)
