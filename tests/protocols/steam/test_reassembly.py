"""Events as bytes, and pieces put together: against a model, within limits, with every piece accounted for."""

import cbor2
import pytest
import strategies
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


@spec("STEAM-22")
@given(st.binary(max_size=40) | strategies.events().map(lambda event: encode(event, list(event.params))))
def test_bytes_that_are_no_event_are_refused(data: bytes) -> None:
    try:
        event = decode(data, "s", NAMES)
    except RemoteProtocolError:
        return
    assert list(event.params) == list(NAMES)
    assert encode(event, NAMES) == data


class Books(Reassembly):
    def __init__(self) -> None:
        self.dropped: dict[str, int] = {}
        super().__init__(self.drop)

    def drop(self, reason: str, count: int) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + count

    def check(self) -> None:
        assert self.received == self.used + self.pending + sum(self.dropped.values())
        assert len(self) <= self.max_events
        assert 0 <= self.bytes <= self.max_bytes
        assert (self.pending == 0) == (len(self) == 0) == (self.bytes == 0)


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
    assert len(books) == 0


steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([A, B]), st.integers(0, 15), st.booleans(), st.integers(0, 40)),
    max_size=60,
)


@spec("STEAM-26", "STEAM-27", "STEAM-28", "STEAM-29", "STEAM-32")
@given(steps, st.integers(1, 3), st.integers(1, 2), st.integers(100, 900))
def test_against_a_model(
    steps: list[tuple[int, bytes, int, bool, int]], max_events: int, sender_events: int, max_bytes: int
) -> None:
    """Events of many lengths from two senders, interleaved. The model keeps sets of indexes and nothing else."""
    books, now = Books(), 0
    books.max_events, books.sender_events, books.max_bytes = max_events, sender_events, max_bytes
    model: dict[tuple[bytes, int], tuple[int, set[int]]] = {}  # until, indexes; oldest first
    for number, sender, index, typed, wait in steps:
        now += wait
        whole = pieces(bytes([number]) * (20 + 30 * number), number, sender)
        piece = whole[index % len(whole)]
        piece.typed = typed and number == 3
        before = (books.used, dict(books.dropped))
        got = books.receive(piece, now, 100)
        books.check()
        key = (sender, number)
        if key in model and now >= model[key][0]:
            del model[key]
        if got is not None:
            assert got[1] == bytes([number]) * (20 + 30 * number)
            assert len(model.pop(key)[1] | {piece.index}) == piece.count
            continue
        if (books.dropped.get("no room", 0), books.dropped.get("mismatch", 0)) != (
            before[1].get("no room", 0),
            before[1].get("mismatch", 0),
        ):
            if key not in model and len([1 for other in model if other[0] == sender]) >= sender_events:
                del model[next(other for other in model if other[0] == sender)]
        else:
            if key not in model:
                of_sender = [other for other in model if other[0] == sender]
                if len(of_sender) >= sender_events:
                    del model[of_sender[0]]
                model[key] = (now + 100, set())
            model[key][1].add(piece.index)
        # Those that are over may be swept at any time; the others are the same.
        alive = {key: indexes for key, (until, indexes) in model.items() if now < until}
        held = {(key[0][3:], key[1]): set(event.chunks) for key, event in books._events.items() if now < event.until}
        assert held == alive
        model = {key: value for key, value in model.items() if (SUBJECT + key[0], key[1]) in books._events}


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
    assert [key[1] for key in books._events] == [1, 2, 7]
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


def test_forgetting_one_sender() -> None:
    books = Books()
    for sender in (A, B):
        for piece in pieces(bytes(30), 0, sender)[:2]:
            books.receive(piece, 0, 100)
    books.forget(SUBJECT + A, "left")
    assert (books.dropped, [key[0] for key in books._events]) == ({"left": 2}, [SUBJECT + B])
    books.check()
