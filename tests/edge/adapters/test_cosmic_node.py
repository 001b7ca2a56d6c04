"""The node of a gateway: what goes next is what the bus would let through, and everybody is told once what became of
what he gave."""

from functools import partial
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.hrt import HrtChannel
from vicinal.cosmic.slot import Slot
from vicinal_edge.adapters._cosmic_frames import packet_of, unpack_packet
from vicinal_edge.adapters._cosmic_node import GatewayNode, rank_of

BITRATE = 500_000
SECOND = 1_000_000

frames = st.one_of(
    st.builds(Frame, st.integers(0, 0x7FF), st.binary(max_size=8), st.just(False), st.booleans()),
    st.builds(Frame, st.integers(0, 0x1FFFFFFF), st.binary(max_size=8), st.just(True), st.booleans()),
)


def bits_of(frame: Frame) -> list[int]:
    """The arbitration field of ISO 11898-1 as it is on the wire, with RTR, SRR and IDE."""
    number = f"{frame.id:029b}" if frame.extended else f"{frame.id:011b}"
    base = [int(bit) for bit in number[:11]]
    if not frame.extended:
        return [*base, int(frame.remote), 0]
    return [*base, 1, 1, *[int(bit) for bit in number[11:]]]


@given(frames, frames)
def test_rank_is_the_order_of_arbitration(one: Frame, other: Frame) -> None:
    if not one.remote and not other.remote:
        assert (rank_of(one) < rank_of(other)) is (bits_of(one) < bits_of(other))


@given(frames)
def test_a_frame_passes_a_tunnel_unchanged(frame: Frame) -> None:
    assert unpack_packet(packet_of(frame)) == frame


class Told(list[str]):
    """What one who waits was told."""

    def __call__(self, reason: str) -> None:
        self.append(reason)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.integers(0, 0x7FF), st.integers(1, 3000)),
        st.tuples(st.just("srt"), st.integers(1, 60), st.integers(1, 3000)),
        st.tuples(st.just("nrt"), st.integers(1, 60), st.integers(1, 3000)),
        st.tuples(st.just("send"), st.integers(1, 9), st.just(0)),
        st.tuples(st.just("error"), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.integers(1, 2000), st.just(0)),
    ),
    max_size=40,
)


@given(steps)
def test_all_are_told_once_and_the_books_are_even(given_steps: list[tuple[str, int, int]]) -> None:
    node = GatewayNode(5, BITRATE)
    now = 0
    srt = SrtChannel(node, 300, 20_000, codec=Raw, fragmented=True)
    nrt = NrtChannel(node, 301, codec=Raw, fragmented=True)
    srt.announce(now, node.on_failed)
    nrt.announce(now, node.on_failed)
    asked: list[Told] = []
    for number, (what, size, life) in enumerate(given_steps):
        told = Told()
        data = bytes([number, *[0] * (size - 1)]) if what in ("srt", "nrt") else b""
        if what == "plain":
            node.send_plain(Frame(size, bytes([number]), False), now, now + life * 1000, told)
            asked.append(told)
        elif what == "srt":
            assert node.publish(partial(srt.publish, data, now, None, now + life * 1000), told)
            asked.append(told)
        elif what == "nrt":
            assert node.publish(partial(nrt.publish, data, now), told)
            asked.append(told)
        elif what == "wait":
            now += size * 1000
        for _ in range(size if what == "send" else 0):
            frame = node.frame_to_send(now)
            if frame is None:
                break
            now += 300
            node.frame_sent(frame, now)
        frame = node.frame_to_send(now)
        if what == "error" and frame is not None:
            node.transmit_error(now, frame)
        if node.plain:
            assert frame is not None
            assert rank_of(frame) <= node.plain[0].rank
            assert all(one.rank <= other.rank for one, other in pairwise(node.plain))
        dropped = sum(count for name, count in node.counters.items() if name.startswith("out dropped"))
        assert node.counters.get("out accepted", 0) == node.counters.get("out sent", 0) + node.stored + dropped
        assert sum(len(one) for one in asked) == len(asked) - node.stored
    node.abandon("over")
    assert [len(one) for one in asked] == [1] * len(asked)
    sent = sum(one == [""] for one in asked)
    assert sent == node.counters.get("out sent", 0)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_frames_of_one_identifier_go_in_order_and_lower_ones_first(numbers: list[int]) -> None:
    node = GatewayNode(5, BITRATE, limit=100)
    for place, number in enumerate(numbers):
        node.send_plain(Frame(number, bytes([place]), False), 0, SECOND, Told())
    found: list[tuple[int, int]] = []
    while (frame := node.frame_to_send(0)) is not None:
        node.frame_sent(frame, 0)
        found.append((frame.id, frame.data[0]))
    assert found == sorted((number, place) for place, number in enumerate(numbers))


def test_between_a_channel_and_a_plain_frame_the_identifier_decides() -> None:
    """Soft real time far from its deadline lets a frame of the car go first, and near to it does not."""
    for deadline, want in ((SECOND, 0x100), (500, 300)):
        node = GatewayNode(5, BITRATE)
        srt = SrtChannel(node, 300, deadline, codec=Raw, fragmented=False)
        srt.announce(0, node.on_failed)
        node.send_plain(Frame(0x100, b"car", False), 0, SECOND, Told())
        srt.publish(b"soft", 0)
        frame = node.frame_to_send(0)
        assert frame is not None
        assert frame.id & 0x3FFF == want


def test_a_slot_waits_for_no_plain_frame() -> None:
    node = GatewayNode(5, BITRATE)
    slot = Slot("Brake", 0, 10_000, 8, 0, BITRATE, 100, 500)
    brake = HrtChannel(node, 400, slot, Raw)
    brake.announce(1, node.on_failed)
    brake.publish(b"stop", 2)
    node.send_plain(Frame(0, b"x", False), 2, SECOND, Told())  # nothing is lower on the wire
    first = node.frame_to_send(5)
    assert first is not None
    assert first.id == 0
    assert node.next_timeout() == 10_000
    second = node.frame_to_send(10_000)
    assert second is not None
    assert second.data == b"stop"


def test_what_is_in_the_controller_has_a_second_more() -> None:
    """It may be on the wire: to say that it was dropped, and then send it, would be wrong twice."""
    node = GatewayNode(5, BITRATE)
    offered, waiting = Told(), Told()
    node.send_plain(Frame(1, b"", False), 0, 1000, offered)
    node.send_plain(Frame(2, b"", False), 0, 1000, waiting)
    assert node.frame_to_send(10) is not None
    node.handle_timeout(1000)
    assert (offered, waiting) == ([], ["expired"])
    node.frame_sent(Frame(1, b"", False), 2000)
    assert offered == [""]
    late: Any = Told()
    node.send_plain(Frame(3, b"", False), 3000, 4000, late)
    node.frame_to_send(3001)
    node.handle_timeout(4000 + SECOND)
    assert late == ["expired"]
    destroyed = Told()
    node.send_plain(Frame(4, b"", False), 2 * SECOND, 2 * SECOND + 1000, destroyed)
    node.transmit_error(2 * SECOND + 500, node.frame_to_send(2 * SECOND))
    node.handle_timeout(2 * SECOND + 1000)
    assert destroyed == ["expired"]
