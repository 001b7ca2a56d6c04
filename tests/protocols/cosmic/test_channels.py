"""Soft and non real-time channels from event to event, the node's books, and strangers on the bus."""

from typing import Any

import pytest
from cosmic_bus import TinyBus
from hypothesis import given
from hypothesis import strategies as st

from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import pack
from vicinal.cosmic.node import Node
from vicinal.errors import LimitError, LocalProtocolError, RemoteProtocolError
from vicinal.event import Event

spec = pytest.mark.spec
SPEED = Event("Speed", [("license_no", "00D12345"), ("rate", 57.2)], {"Priority": 3}, producer="car-7", seq=12)


class Told:
    def __init__(self) -> None:
        self.all: list[tuple[Any, Any, int]] = []

    def __call__(self, what: Any, detail: Any, now: int) -> None:
        self.all.append((what, detail, now))


def balanced(node: Node) -> bool:
    count = node.counters.get
    dropped = sum(value for name, value in node.counters.items() if name.startswith("out dropped"))
    refused = sum(value for name, value in node.counters.items() if name.startswith("in dropped"))
    got = count("in delivered", 0) + node.held + count("in fragments", 0) + count("in system", 0) + refused
    return (
        count("out accepted", 0) == count("out sent", 0) + node.stored + dropped
        and count("in received", 0) + count("in reassembled", 0) == got
    )


@spec("COSMIC-4", "COSMIC-31")
def test_an_event_in_one_node_is_an_event_in_the_others() -> None:
    nodes = [Node(number, 500000) for number in range(3)]
    got, lost = [Told(), Told()], Told()
    for node, told in zip(nodes[1:], got, strict=True):
        SrtChannel(node, 200, 20000).subscribe(told, 0, lost)
        NrtChannel(node, 201).subscribe(told, 0, lost)
    soft, slow = SrtChannel(nodes[0], 200, 20000), NrtChannel(nodes[0], 201)
    soft.announce(0)
    slow.announce(0)
    slow.publish(SPEED.replace(seq=13), 0)
    soft.publish(SPEED, 0)
    TinyBus(500000, nodes).run(50000)
    for told in got:
        assert [(event, tx_node) for event, tx_node, _ in told.all] == [(SPEED, 0), (SPEED.replace(seq=13), 0)]
    assert lost.all == []
    assert nodes[0].counters == {"out accepted": 2, "out sent": 2}
    assert all(balanced(node) for node in nodes)


class Rate:
    """A codec of a mapping: one byte."""

    @staticmethod
    def encode(event: Event) -> bytes:
        return bytes([int(event["rate"])])  # type: ignore[arg-type]

    @staticmethod
    def decode(data: bytes) -> Event:
        if len(data) != 1:
            raise RemoteProtocolError(f"{len(data)} bytes, want 1")
        return Event("Speed", [("rate", data[0])])


@spec("COSMIC-4")
def test_a_codec_of_ones_own() -> None:
    a, b = Node(1, 500000), Node(2, 500000)
    got, lost = Told(), Told()
    SrtChannel(b, 200, 20000, codec=Rate).subscribe(got, 0, lost)
    channel = SrtChannel(a, 200, 20000, codec=Rate)
    channel.announce(0)
    channel.publish(SPEED, 0)
    frame = a.frame_to_send(0)
    assert frame is not None
    assert frame.data == b"\x39"
    b.receive_frame(frame, 300)
    b.receive_frame(Frame(frame.id, b"xy"), 600)
    assert got.all == [(Event("Speed", [("rate", 57)]), 1, 300)]
    assert lost.all == [("undecodable: 2 bytes, want 1 (at byte 0)", b"xy", 600)]
    assert b.counters["in dropped: undecodable"] == 1
    assert balanced(b)


@spec("COSMIC-3", "COSMIC-5")
def test_what_is_not_ours_is_counted_and_left_alone() -> None:
    node = Node(5, 500000)
    got = Told()
    NrtChannel(node, 200, codec=Raw).subscribe(got, 0)
    system: list[Frame] = []
    node.listen(4, lambda frame, now: system.append(frame))
    binding = Frame(pack(253, 127, 4), b"12345678")
    for frame in (
        Frame(0x123, b"x", extended=False),
        Frame(pack(251, 6, 200), b"", remote=True),
        Frame(pack(251, 5, 200), b"x"),
        Frame(pack(251, 6, 201), b"x"),
        binding,
        Frame(pack(251, 6, 200), b"x"),
    ):
        node.receive_frame(frame, 0)
    assert node.counters == {
        "in received": 6,
        "in dropped: foreign": 2,
        "in dropped: own TxNode": 1,
        "in dropped: no channel": 1,
        "in system": 1,
        "in delivered": 1,
    }
    assert system == [binding]
    assert got.all == [(b"x", 6, 0)]
    assert balanced(node)


@spec("COSMIC-31")
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("frame"), st.integers(0, 0x1FFFFFFF), st.binary(max_size=8)),
            st.tuples(st.just("ours"), st.sampled_from([200, 201, 202]), st.binary(max_size=8)),
            st.tuples(st.just("publish"), st.sampled_from([200, 201, 202]), st.binary(max_size=12)),
            st.tuples(st.just("sent"), st.booleans(), st.none()),
            st.tuples(st.just("error"), st.none(), st.none()),
            st.tuples(st.just("wait"), st.integers(0, 3000), st.none()),
            st.tuples(st.just("silent"), st.booleans(), st.none()),
        ),
        max_size=60,
    )
)
def test_the_books_balance_whatever_happens(steps: "list[tuple[str, Any, Any]]") -> None:
    node = Node(5, 500000, max_messages=4)
    channels = {
        200: SrtChannel(node, 200, 2000, 5000, codec=Raw),
        201: SrtChannel(node, 201, 1000, codec=Raw, fragmented=True),
        202: NrtChannel(node, 202, codec=Raw, fragmented=True, validity=10000),
    }
    told = Told()
    for channel in channels.values():
        channel.announce(0, told)
        channel.subscribe(told, 0, told)
    now = 0
    offered: Frame | None = None
    for what, one, two in steps:
        if what == "frame":
            node.receive_frame(Frame(one, two), now)
        elif what == "ours":
            node.receive_frame(Frame(pack(250, 6, one), two), now)
        elif what == "publish":
            channel = channels[one]
            channel.publish(two[:8] if one == 200 else two, now)
        elif what == "sent":
            frame = offered if one else node.frame_to_send(now)  # the controller may have had an older one
            if frame is not None:
                node.frame_sent(frame, now)
            offered = None
        elif what == "error":
            offered = node.frame_to_send(now)
            if offered is not None:
                node.transmit_error(now, offered)
        elif what == "wait":
            now += one
            node.handle_timeout(now)
        else:
            node.set_silent(one, now)
        due = node.next_timeout()
        assert due is None or due > now
        if node.silent:
            assert node.frame_to_send(now) is None
        assert balanced(node)
        assert node.stored <= 8
    for channel in channels.values():
        channel.unannounce(now)
        channel.unsubscribe(now)
    assert node.stored == 0
    assert balanced(node)
    assert node.channels == {}
    assert node.frame_to_send(now) is None


@spec("COSMIC-22")
def test_unannouncing_drops_and_tells() -> None:
    node = Node(5, 500000)
    told = Told()
    channel = NrtChannel(node, 200, codec=Raw)
    channel.announce(0, told)
    channel.publish(b"a", 0)
    channel.publish(b"b", 0)
    channel.unannounce(10)
    assert told.all == [("unannounced", b"a", 10), ("unannounced", b"b", 10)]
    assert node.frame_to_send(10) is None
    assert balanced(node)


def test_a_handler_may_publish_and_may_fail() -> None:
    node, got = Node(5, 500000), []
    echo = NrtChannel(node, 201, codec=Raw)
    echo.announce(0)

    def on_event(event: bytes, tx_node: int, now: int) -> None:
        got.append(event)
        if event == b"bad":
            raise RuntimeError("the application's own")
        echo.publish(event, now)

    NrtChannel(node, 200, codec=Raw).subscribe(on_event, 0)
    node.receive_frame(Frame(pack(251, 6, 200), b"good"), 0)
    offered = node.frame_to_send(0)
    assert offered is not None
    assert offered.data == b"good"
    with pytest.raises(RuntimeError, match="own"):
        node.receive_frame(Frame(pack(251, 6, 200), b"bad"), 0)
    node.receive_frame(Frame(pack(251, 6, 200), b"more"), 0)
    assert got == [b"good", b"bad", b"more"]
    assert balanced(node)


def test_one_channel_for_each_etag() -> None:
    node = Node(5, 500000)
    NrtChannel(node, 200).announce(0)
    second = SrtChannel(node, 200, 1000)
    with pytest.raises(LocalProtocolError, match="etag 200 is in use already"):
        second.announce(0)
    with pytest.raises(LocalProtocolError, match="etag 200 is in use already"):
        second.subscribe(Told(), 0)
    with pytest.raises(LocalProtocolError, match="not announced"):
        second.publish(SPEED, 0)
    node.listen(2, lambda frame, now: None)
    with pytest.raises(LocalProtocolError, match="etag 2 is in use already"):
        NrtChannel(node, 2).announce(0)
    for etag in (-1, 16384):
        with pytest.raises(LimitError, match="etag"):
            NrtChannel(node, etag)
    with pytest.raises(LimitError, match="TxNode is 128"):
        Node(128, 500000)
