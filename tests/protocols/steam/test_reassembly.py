"""Events as bytes, and pieces put together: against a model, within limits, with every piece accounted for."""

from pathlib import Path

import cbor2
import pycddl
import pytest
import strategies
from cddl import Schema
from hypothesis import given
from hypothesis import strategies as st
from steam_air import NAMES, speed

from vicinal import wire
from vicinal.errors import LocalProtocolError, RemoteProtocolError
from vicinal.event import Event
from vicinal.steam._bodies import decode, encode, seed_of
from vicinal.steam.frames import Cut, Piece, check_of
from vicinal.steam.reassembly import Reassembly

spec = pytest.mark.spec
SPEC = Path(__file__).parent.parent.parent.parent / "protocols" / "spec"
CDDL = (SPEC / "steam.cddl").read_text() + (SPEC / "wire.cddl").read_text()
TYPED = Schema(CDDL)
SUBJECT, A, B = b"sub", b"aaa", b"bbb"


@spec("STEAM-21", "STEAM-22", "STEAM-24")
@given(strategies.events(), st.booleans())
def test_both_forms_bring_the_event_back(event: Event, stamped: bool) -> None:
    if event.producer is None and stamped:
        event = event.stamp("car-7", 12)
    names = list(event.params)
    assert encode(event, None) == wire.encode(event)
    assert decode(encode(event, None), event.subject, None) == event
    data = encode(event, names)
    found = decode(data, event.subject, names)
    assert found == event
    assert found.identity == event.identity
    assert list(found.params) == names
    full, typed = cbor2.loads(wire.encode(event)), cbor2.loads(data)
    assert str(typed) == str([full[1], full[2], full[4], *full[3][1::2]])


@spec("STEAM-22")
def test_the_page_says_how_short_it_is() -> None:
    event = speed(attrs={"Priority": 3}, producer="car-7", seq=12)
    assert (len(encode(event, None)), len(encode(event, NAMES))) == (52, 29)
    for names in ((), ("license_no",), ("rate", "license_no"), (*NAMES, "x")):
        with pytest.raises(LocalProtocolError, match="announced were"):
            encode(event, names)


@spec("STEAM-23")
def test_the_seed_tells_types_apart() -> None:
    assert seed_of("Speed", None) == b""
    assert seed_of("Speed", NAMES) == b"Speed\0license_no\0rate"
    seeds = {seed_of("a", ["b", "c"]), seed_of("ab", ["c"]), seed_of("a", ["bc"]), seed_of("a", []), seed_of("b", [])}
    assert len(seeds) == 5


@spec("STEAM-25")
def test_another_subject_is_not_taken_for_ours() -> None:
    with pytest.raises(RemoteProtocolError, match="subject 'Speed' has the hash of 'Other'"):
        decode(wire.encode(speed()), "Other", None)


@spec("STEAM-22", "STEAM-32")
@pytest.mark.parametrize(
    ("item", "error"),
    [
        ([None, 5, [], "x", 1], "an identity is both"),
        (["car", 5, [1, 99999], "x", 1], "the limit is -32767"),
        (["car", 5, {}, "x", 1], "an event is an array of subject"),
        (["car", 5, [], "x"], "an event of 2 values is an array of 5"),
        ({}, "an event of 2 values is an array of 5"),
    ],
)
def test_what_no_event_can_be_is_the_senders_fault(item: object, error: str) -> None:
    with pytest.raises(RemoteProtocolError, match=error):
        decode(cbor2.dumps(item, canonical=True), "Speed", NAMES)


@spec("STEAM-22")
@given(st.binary(max_size=40) | strategies.events().map(lambda event: encode(event, list(event.params))))
def test_bytes_that_are_no_event_are_refused(data: bytes) -> None:
    try:
        event = decode(data, "s", NAMES)
    except RemoteProtocolError:
        return
    assert list(event.params) == list(NAMES)
    assert encode(event, NAMES) == data


@spec("STEAM-22")
@given(strategies.events())
def test_cddl_has_every_typed_event(event: Event) -> None:
    item = cbor2.loads(encode(event, list(event.params)))
    assert TYPED.accepts(item)
    assert not TYPED.accepts([*item[:2], None, *item[3:]])
    assert not TYPED.accepts([item[0], "0", *item[2:]])
    assert not TYPED.accepts([*item, None])


def test_cddl_is_cddl() -> None:
    """By another parser than ours."""
    pycddl.Schema(CDDL)


class Books(Reassembly):
    def __init__(self) -> None:
        self.dropped: dict[str, int] = {}
        super().__init__(self.drop)

    def drop(self, reason: str, count: int) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def check(self) -> None:
        assert self.received == self.used + self.pending + sum(self.dropped.values())
        assert self.events <= self.max_events
        assert 0 <= self.bytes <= self.max_bytes
        assert (self.pending == 0) == (self.events == 0) == (self.bytes == 0)
        assert all(self._of.values())  # nothing is left of a sender that is done


def pieces(data: bytes, number: int = 0, sender: bytes = A, room: int = 28, typed: bool = False) -> list[Piece]:
    cut = Cut(data, b"", room)
    return [Piece(typed, SUBJECT, sender, number, i, cut.count, cut.chunk(i)) for i in range(cut.pieces)]


@spec("STEAM-9", "STEAM-26")
@given(st.binary(min_size=1, max_size=200), st.data())
def test_any_order_with_one_missing_and_repetitions(data: bytes, draw: st.DataObject) -> None:
    whole = pieces(data)
    order = draw.draw(st.permutations(whole))[: whole[0].count]
    heard = [piece for piece in order for _ in range(draw.draw(st.integers(1, 2)))]
    found, books = [], Books()
    for piece in heard:
        got = books.receive(piece, 0, 100)
        books.check()
        found += [] if got is None else [got]
        if got is not None:
            break
    assert found == [(check_of(b"", data), data)]
    assert books.used == whole[0].count
    assert books.events == 0


steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([A, B]), st.integers(0, 15), st.booleans(), st.integers(0, 40)),
    max_size=60,
)


@spec("STEAM-26", "STEAM-27", "STEAM-28", "STEAM-29", "STEAM-32")
@given(steps, st.integers(1, 3), st.integers(1, 2), st.integers(100, 900))
def test_against_a_model(
    steps: list[tuple[int, bytes, int, bool, int]], max_events: int, sender_events: int, max_bytes: int
) -> None:
    """Events of many lengths from two senders, interleaved. The model is the page's rules over a list."""
    books, now = Books(), 0
    books.max_events, books.sender_events, books.max_bytes = max_events, sender_events, max_bytes
    model: list[tuple[tuple[bytes, int], int, list[Piece]]] = []  # whose, until, what is there; oldest first
    dropped: dict[str, int] = {}

    def drop(reason: str, count: int = 1) -> None:
        dropped[reason] = dropped.get(reason, 0) + count

    def give_up(event: tuple[tuple[bytes, int], int, list[Piece]], reason: str) -> None:
        model.remove(event)
        drop(reason, len(event[2]))

    def cost(pieces: list[Piece]) -> int:
        return sum(64 + len(piece.chunk) for piece in pieces)

    for number, sender, index, typed, wait in steps:
        now += wait
        data = bytes([number]) * (20 + 30 * number)
        whole = pieces(data, number, sender)
        piece = whole[index % len(whole)]
        piece.typed = typed and number == 3
        got = books.receive(piece, now, 100)
        books.check()

        for event in [event for event in model if now >= event[1]]:
            give_up(event, "timeout")
        room = cost([piece]) + sum(cost(event[2]) for event in model)
        mine = [event for event in model if event[0] == (sender, number)]
        if not mine:
            others = [event for event in model if event[0][0] == sender]
            if len(others) == sender_events:
                room -= cost(others[0][2])
                give_up(others[0], "superseded")
            if len(model) == max_events or room > max_bytes:
                drop("no room")
            else:
                model.append(((sender, number), now + 100, [piece]))
        elif piece.typed != mine[0][2][0].typed:
            drop("mismatch")
        elif piece.index in [other.index for other in mine[0][2]]:
            drop("repeated")
        elif room > max_bytes:
            drop("no room")
        else:
            mine[0][2].append(piece)
        full = [event for event in model if len(event[2]) == event[2][0].count]
        assert got == ((check_of(b"", data), data) if full else None)
        for event in full:
            model.remove(event)
        assert books.dropped == dropped
        assert books.pending == sum(len(event[2]) for event in model)
        due = books.next_timeout()
        assert not model or (due is not None and due <= min(event[1] for event in model))


@spec("STEAM-27")
def test_what_does_not_become_whole_is_given_up() -> None:
    books = Books()
    first, second, third, _ = pieces(bytes(30))
    assert books.next_timeout() is None
    books.receive(first, 0, 400)
    books.receive(second, 300, 400)
    assert books.next_timeout() == 400
    books.handle_timeout(399)
    assert (books.pending, books.dropped) == (2, {})
    books.handle_timeout(400)
    assert (books.pending, books.dropped, books.next_timeout()) == (0, {"timeout": 2}, None)
    books.receive(first, 500, 400)
    assert books.receive(third, 900, 400) is None  # without anybody's help
    assert books.dropped == {"timeout": 3}
    books.check()


@spec("STEAM-28", "STEAM-29")
def test_limits_are_each_senders_and_everybodys() -> None:
    books = Books()
    books.max_events = 4
    for number in range(3):
        books.receive(pieces(bytes(30), number)[0], number, 100)
    books.sender_events = 3
    books.receive(pieces(bytes(30), 7)[0], 3, 100)
    assert books.dropped == {"superseded": 1}
    assert list(books._of[SUBJECT + A]) == [1, 2, 7]
    books.receive(pieces(bytes(30), 0, B)[0], 3, 100)
    books.receive(pieces(bytes(30), 0, b"ccc")[0], 3, 100)
    assert books.dropped == {"superseded": 1, "no room": 1}
    books.receive(pieces(bytes(30), 0, b"ccc")[0], 101, 100)  # now one is over
    assert books.dropped == {"superseded": 1, "no room": 1, "timeout": 1}
    books.check()


@spec("STEAM-26")
@pytest.mark.parametrize("change", ["count", "typed", "chunk"])
def test_a_piece_that_does_not_fit_the_first(change: str) -> None:
    books = Books()
    first, second, third, _ = pieces(bytes(30))
    setattr(second, change, {"count": 4, "typed": True, "chunk": second.chunk[1:]}[change])
    assert [books.receive(piece, 0, 100) for piece in (first, second, third)] == [None] * 3
    assert books.dropped == {"mismatch": 1}
