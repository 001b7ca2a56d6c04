"""Fragments: what is cut comes back, and what the bus did to it on the way never makes another event of it."""

import tracemalloc
import zlib
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vicinal import limits
from vicinal.cosmic.fragments import (
    EVENT_BYTES,
    NUMBERS,
    SENDER_EVENTS,
    TIMEOUT,
    TOTAL_BYTES,
    Reassembly,
    fragment_count,
    fragments,
)
from vicinal.errors import LimitError, LocalProtocolError

spec = pytest.mark.spec
numbers = st.none() | st.integers(0, NUMBERS - 1)


def balanced(found: Reassembly) -> bool:
    return found.received == found.delivered + found.pending + sum(found.dropped.values())


def feed(found: Reassembly, payloads: list[bytes], tx_node: int = 5, etag: int = 200, now: int = 0) -> list[bytes]:
    events = [found.receive(tx_node, etag, payload, now) for payload in payloads]
    return [event for event in events if event is not None]


@spec("CBIND-1", "CBIND-2", "CBIND-5", "CBIND-7", "CBIND-9")
@given(st.binary(max_size=300), numbers)
@example(bytes(limits.MAX_EVENT_BYTES), None)
@example(bytes(4096 * 6), 7)
def test_what_is_cut_comes_back(data: bytes, number: int | None) -> None:
    payloads = list(fragments(data, number))
    assert len(payloads) == fragment_count(len(data), number is not None)
    assert all(len(payload) == 8 for payload in payloads[:-1])
    assert 1 <= len(payloads[-1]) <= 8
    found = Reassembly(max_event=limits.MAX_EVENT_BYTES)
    assert feed(found, payloads) == [data]
    assert (found.delivered, found.events, found.pending, found.used) == (len(payloads), 1, 0, 0)
    assert found.dropped == {}
    assert found._senders == {}


@spec("CBIND-1", "CBIND-2", "CBIND-3")
@pytest.mark.parametrize(
    ("size", "number", "head", "count"),
    [
        (0, None, 1, 1),
        (7, None, 1, 1),
        (8, None, 1, 2),
        (220, None, 1, 32),
        (221, None, 2, 38),
        (4096 * 6 - 4, None, 2, 4096),
        (4096 * 6 - 3, None, 3, 4916),
        (65536, None, 3, 13108),
        (2, 0, 1, 1),
        (3, 0, 1, 2),
        (215, 0, 1, 32),
        (216, 0, 2, 38),
        (65536, 0, 3, 13109),
    ],
)
def test_the_header_is_as_short_as_the_count_allows(size: int, number: int | None, head: int, count: int) -> None:
    payloads = list(fragments(bytes(size), number))
    assert len(payloads) == count
    lead = (0, 0b0, 0b10, 0b110)[head]
    assert all(payload[0] >> 8 - head == lead for payload in payloads)
    left = [int.from_bytes(payload[:head], "big") & (1 << 7 * head - 2) - 1 for payload in payloads]
    assert left == list(range(count - 1, -1, -1))


@spec("CBIND-1", "CBIND-4", "CBIND-5")
def test_bytes_by_hand() -> None:
    assert list(fragments(b"")) == [b"\x20"]
    assert list(fragments(b"1234567")) == [b"\x201234567"]
    assert list(fragments(b"123456789")) == [b"\x211234567", b"\x0089\xcb\xf4\x39\x26"]
    assert list(fragments(b"", 7)) == [b"\x60\0\0\0\0\7"]
    check = zlib.crc32(b"\0\0\x01\x02" + b"123456789").to_bytes(4, "big")
    assert list(fragments(b"123456789", 258)) == [b"\x62\0\0\0\1\x0212", b"\x013456789", b"\0" + check]


@spec("CBIND-3", "CBIND-4")
def test_what_a_sender_must_not_ask() -> None:
    with pytest.raises(LimitError, match=r"65537.*65536"):
        fragments(bytes(65537))
    with pytest.raises(LimitError, match=r"65537.*65536"):
        Reassembly(max_event=65537)
    for number in (-1, NUMBERS):
        with pytest.raises(LocalProtocolError, match="event number"):
            fragments(b"", number)


# A lossy, repeating bus. The law: every event that comes out was sent by that sender on that channel, they come in
# the order they were sent in, and none comes twice that the bus repeated (of short unnumbered ones nobody can tell).


def traffic(random: Random, numbered: bool) -> tuple[list[list[bytes]], list[tuple[int, bytes]]]:
    """Events of up to three senders, and the frames that got through, interleaved, some lost and some repeated. Few
    different bytes and lengths, so that heads and tails of different events fit together as often as can be."""
    blocks = random.randint(2, 4)  # and the checksum in a last fragment
    sent = [
        [
            b"".join(random.choices([b"A" * 7, b"B" * 7, b"C" * 7], k=random.choice([0, 1, blocks - 1] + [blocks] * 9)))
            for _ in range(random.randint(1, 6))
        ]
        for _ in range(random.randint(1, 3))
    ]
    queues = []
    for sender, events in enumerate(sent):
        frames = [
            (sender, payload)
            for number, event in enumerate(events)
            for payload in fragments(event, number if numbered else None)
        ]
        # A receiver that was deaf for a while loses a run of frames: that is what fools AFP.
        for _ in range(random.randint(0, 2)):
            start = random.randint(0, len(frames))
            del frames[start : start + random.choice([1, random.randint(1, 8), blocks + 1])]
        queues.append([frame for frame in frames for _ in range(random.choice([1, 1, 1, 1, 2]))])
    arrived = []
    while any(queues):
        arrived.append(random.choice([queue for queue in queues if queue]).pop(0))
    return sent, arrived


def is_subsequence(some: list[bytes], of: list[bytes]) -> bool:
    rest = iter(of)
    return all(event in rest for event in some)


@spec("CBIND-5", "CBIND-6", "CBIND-8", "CBIND-9", "CBIND-10")
@settings(max_examples=1000)
@given(st.integers(0, 1 << 32).map(Random), st.booleans())
def test_a_lost_fragment_never_makes_a_wrong_event(random: Random, numbered: bool) -> None:
    sent, arrived = traffic(random, numbered)
    found = Reassembly()
    got: list[list[bytes]] = [[] for _ in sent]
    for sender, payload in arrived:
        event = found.receive(sender, 300, payload, 0)
        if event is not None:
            got[sender].append(event)
        assert balanced(found)
    for events, of in zip(got, sent, strict=True):
        if not numbered:  # repeated ones of one frame may come twice
            events, of = ([event for event in some if len(event) > 7] for some in (events, of))
        assert is_subsequence(events, of)


@spec("CBIND-5")
def test_without_the_checksum_it_would_be_another_event() -> None:
    """The case that AFP alone cannot tell, so that the test above is known to have met it."""
    first, second = list(fragments(b"A" * 24)), list(fragments(b"B" * 24))
    assert len(first) == len(second) == 4
    found = Reassembly()
    assert feed(found, first[:2] + second[2:]) == []
    assert found.dropped == {"checksum": 4}
    assert feed(found, second) == [b"B" * 24]


@spec("CBIND-8")
@pytest.mark.parametrize(
    ("arrived", "events", "dropped"),
    [
        ([1, 2, 3], 0, {"stray": 3}),
        ([0, 2, 3], 0, {"gap": 2, "stray": 1}),
        ([0, 1, 2], 0, {}),
        ([0, 1, 2, 0, 1, 2, 3], 1, {"superseded": 3}),
        ([0, 0, 1, 1, 2, 2, 3, 3], 1, {"duplicate": 3, "stray": 1}),
        ([0, 1, 0, 1, 2, 3], 1, {"superseded": 2}),
        ([0, 1, 2, 1, 2, 3], 0, {"gap": 4, "stray": 2}),
        ([3, 2, 1, 0], 0, {"stray": 3}),
    ],
)
def test_what_is_lost_or_repeated_is_counted_with_its_reason(
    arrived: list[int], events: int, dropped: dict[str, int]
) -> None:
    data = bytes(range(24))
    payloads = list(fragments(data))
    found = Reassembly()
    assert feed(found, [payloads[i] for i in arrived]) == [data] * events
    assert found.dropped == dropped
    assert balanced(found)


@spec("CBIND-9")
def test_senders_and_channels_do_not_mix() -> None:
    found = Reassembly()
    keys = [(tx_node, etag) for tx_node in (1, 2, 126) for etag in (100, 101, 16383)]
    data = {key: bytes([key[0], key[1] & 255]) * 20 for key in keys}
    streams = {key: fragments(data[key]) for key in keys}
    got = {}
    for _ in range(fragment_count(40)):
        for key in keys:
            event = found.receive(*key, next(streams[key]), 0)
            if event is not None:
                got[key] = event
    assert got == data
    assert found.dropped == {}


@spec("CBIND-10")
def test_numbers_find_what_is_lost_and_what_is_repeated() -> None:
    found = Reassembly()
    for number, now in ((NUMBERS - 2, 0), (NUMBERS - 2, 5), (NUMBERS - 1, 10), (0, 20), (3, 30)):
        feed(found, list(fragments(b"x", number)), now=now)
    assert (found.events, found.lost, found.dropped) == (4, 2, {"duplicate": 1})
    # It has started again: nothing is known to be lost.
    assert feed(found, list(fragments(b"y", 0)), now=40) == [b"y"]
    assert found.lost == 2
    # And once more, later than the bus repeats a frame.
    assert feed(found, list(fragments(b"z", 0)), now=40 + TIMEOUT) == [b"z"]
    # A long one, repeated as a whole: by a gateway, say.
    assert feed(found, list(fragments(bytes(50), 1)) * 2, now=60 + TIMEOUT) == [bytes(50)]
    assert found.dropped == {"duplicate": 1 + fragment_count(50, True)}
    assert balanced(found)


@spec("CBIND-10")
def test_numbers_are_remembered_of_the_channels_heard_last() -> None:
    found = Reassembly(max_numbered=2)
    for now, etag in enumerate((100, 101, 100, 102)):
        feed(found, list(fragments(b"x", 0 if etag != 100 else now)), etag=etag, now=now)
    assert found.lost == 1
    assert sorted(found._numbers) == [(5, 100), (5, 102)]


@spec("CBIND-6")
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xf8" + bytes(7),  # no length
        b"\xff" * 8,
        b"\x80",  # the header is longer than the payload
        b"\xf0\0\0\0",
        b"\x21short",  # not the last, and not full
        b"\x00",  # not the first, and without data
        b"\x40\0\0\0\0\1data"[:8],  # a number, and not the first
        b"\x60\0\0\0\1",  # a number cut short
        b"\x60\x19\0\0\0\0\0\0",  # forward error correction
        b"\x60\x40\0\0\0\0\0\0",  # a second extension
        b"\x90\x1f" + bytes(6),  # 31 fits into one byte
        b"\xf2\0\0\0\0abc",
        b"\x20" + bytes(8),  # no frame of CAN
    ],
)
def test_malformed(payload: bytes) -> None:
    found = Reassembly()
    assert found.receive(1, 100, payload, 0) is None
    assert found.dropped == {"malformed": 1}
    assert found._pending == {}


@spec("CBIND-11")
def test_announced_lengths_are_refused_before_anything_is_held() -> None:
    found = Reassembly()
    longest = b"\xf3\xff\xff\xff\xff\xff\xff\xff"  # f and s of 33 ones: 25 GB
    four_gb = (0b1111001 << 33 | (1 << 32) // 3).to_bytes(5, "big") + bytes(3)
    for payload in (longest, four_gb, next(fragments(bytes(EVENT_BYTES + 7)))):
        assert found.receive(1, 100, payload, 0) is None
    assert found.dropped == {"too long": 3}
    assert found.used == 0
    assert found._pending == {}


@spec("CBIND-11")
@given(st.integers(0, 60), st.integers(0, 200))
def test_the_longest_event_is_the_limit_to_the_byte(most: int, size: int) -> None:
    found = Reassembly(max_event=most)
    got = feed(found, list(fragments(bytes(size))))
    assert got == ([bytes(size)] if size <= most else [])
    assert set(found.dropped) <= {"too long", "stray"}
    assert balanced(found)


@spec("CBIND-12")
def test_one_sender_cannot_take_the_room_of_others() -> None:
    found = Reassembly(max_event=limits.MAX_EVENT_BYTES)
    for etag in range(100, 120):
        found.receive(1, etag, next(fragments(bytes(50000))), 0)
    assert len(found._pending) == SENDER_EVENTS
    assert found.dropped == {"no room": 4}
    assert feed(found, list(fragments(bytes(50000))), tx_node=2) == [bytes(50000)]
    big = [list(fragments(bytes(60000))) for _ in range(3)]
    for parts in zip(*big, strict=True):
        for etag, payload in enumerate(parts):
            found.receive(3, etag, payload, 0)
    assert found._senders.get(3, (0, 0))[1] <= found.sender_bytes
    assert balanced(found)


def traced(found: Reassembly, attack: Callable[[Reassembly], None]) -> int:
    """Bytes that an attack leaves allocated."""
    tracemalloc.start()
    try:
        base = tracemalloc.get_traced_memory()[0]
        attack(found)
        return tracemalloc.get_traced_memory()[0] - base
    finally:
        tracemalloc.stop()


@spec("CBIND-12", "CBIND-13")
def test_openings_that_are_never_finished_cost_less_than_1_mb_for_a_second() -> None:
    def attack(found: Reassembly) -> None:
        """From every sender that can be forged, and the table of numbers is filled too."""
        for tx_node in range(128):
            for etag in range(100, 100 + SENDER_EVENTS + 2):
                found.receive(tx_node, etag + 100, next(fragments(b"1", 5)), 0)
                found.receive(tx_node, etag, next(fragments(bytes(60000))), 0)

    found = Reassembly(max_event=limits.MAX_EVENT_BYTES)
    assert traced(found, attack) < 1_000_000
    assert TOTAL_BYTES * 0.9 < found.used <= TOTAL_BYTES
    assert found.dropped["no room"] > 0
    assert balanced(found)
    event = bytes(3000)
    assert feed(found, list(fragments(event)), tx_node=99, now=TIMEOUT - 1) == []
    assert feed(found, list(fragments(event)), tx_node=99, now=TIMEOUT) == [event]
    assert found.used == 0


@spec("CBIND-12")
def test_events_that_grow_cost_what_is_reckoned() -> None:
    def attack(found: Reassembly) -> None:
        streams = [fragments(bytes(60000)) for _ in range(6)]
        for _ in range(4000):
            for tx_node, stream in enumerate(streams):
                found.receive(tx_node, 100, next(stream), 0)

    found = Reassembly(max_event=limits.MAX_EVENT_BYTES, total_bytes=100000)
    assert traced(found, attack) < 110000
    assert found.used <= 100000
    assert found.dropped["no room"] > 5000
    assert balanced(found)


@spec("CBIND-13")
def test_what_stops_coming_is_given_up() -> None:
    data = bytes(30)
    payloads = list(fragments(data))
    found = Reassembly()
    assert found.next_timeout() is None
    feed(found, payloads[:2], now=10)
    assert found.next_timeout() == 10 + TIMEOUT
    # Slow is not stopped.
    feed(found, payloads[2:3], now=TIMEOUT)
    found.handle_timeout(10 + TIMEOUT)
    assert found.next_timeout() == 2 * TIMEOUT
    found.handle_timeout(2 * TIMEOUT - 1)
    assert found.pending == 3
    found.handle_timeout(2 * TIMEOUT)
    assert (found.pending, found.used, found.next_timeout()) == (0, 0, None)
    assert found.dropped == {"timeout": 3}
    # And without anybody who calls handle_timeout.
    feed(found, payloads[:1], now=3 * TIMEOUT)
    assert feed(found, payloads[1:], now=4 * TIMEOUT) == []
    assert found.dropped == {"timeout": 4, "stray": len(payloads) - 1}


@spec("CBIND-6", "CBIND-12")
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.integers(100, 101),
            st.binary(max_size=9)
            | st.tuples(
                st.sampled_from([0, 1, 2, 3, 32, 33, 34, 35, 96, 97, 98]), st.binary(min_size=7, max_size=7)
            ).map(lambda parts: bytes([parts[0]]) + parts[1]),
            st.integers(0, TIMEOUT // 2),
        ),
        max_size=60,
    )
)
def test_any_bytes_are_counted_and_never_raised(frames: list[tuple[int, int, bytes, int]]) -> None:
    found = Reassembly(max_event=30, total_bytes=4000, sender_bytes=2000, max_numbered=3)
    now = 0
    for tx_node, etag, payload, later in frames:
        now += later
        event = found.receive(tx_node, etag, payload, now)
        assert event is None or len(event) <= 30
        assert balanced(found)
        assert 0 <= found.used <= 4000
        assert found.used == sum(used for _, used in found._senders.values())
    found.handle_timeout(now + TIMEOUT)
    assert (found.pending, found.used, found._senders) == (0, 0, {})
