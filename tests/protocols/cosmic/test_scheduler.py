"""Deadlines as priorities: the mapping's laws, the queue, and the whole bus against ideal earliest deadline first."""

from heapq import heappop, heappush
from itertools import pairwise
from random import Random

import pytest
from cosmic_bus import TinyBus
from hypothesis import given
from hypothesis import strategies as st

from vicinal.cosmic.bits import duration, frame_bits
from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import pack, unpack
from vicinal.cosmic.node import Node
from vicinal.cosmic.scheduler import priority_of, promoted_at
from vicinal.errors import LimitError, LocalProtocolError

spec = pytest.mark.spec
units = st.sampled_from([40, 80, 160, 320])
times = st.integers(-(10**6), 10**7)


@spec("COSMIC-17")
def test_the_mapping_is_that_of_the_page() -> None:
    unit = 40
    found = [priority_of(x * unit, 0, unit) for x in range(-2, 5000)]
    assert found[:2] == [1, 1]
    assert found[2:66] == list(range(1, 65))
    widths = [found[2:].count(priority) for priority in range(1, 250)]
    assert widths == [1] * 64 + [2] * 32 + [4] * 32 + [8] * 32 + [16] * 32 + [32] * 32 + [64] * 25
    assert found[2 + 3648 - 1] == 249
    assert found[2 + 3648] == 250
    assert priority_of(10**9, 0, unit) == 250


@spec("COSMIC-17")
@given(times, times, times, units)
def test_what_must_start_earlier_is_never_less_urgent(a: int, b: int, now: int, unit: int) -> None:
    first, second = sorted((a, b))
    assert 1 <= priority_of(first, now, unit) <= priority_of(second, now, unit) <= 250


@spec("COSMIC-18")
@given(times, times, units)
def test_a_promotion_comes_at_its_time_and_not_before(latest: int, now: int, unit: int) -> None:
    priority = priority_of(latest, now, unit)
    at = promoted_at(latest, priority, unit)
    if at is None:
        assert priority == 1
        return
    assert at > now
    assert priority_of(latest, at - 1, unit) == priority
    assert priority_of(latest, at, unit) == priority - 1


class Recorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, object, int]] = []

    def __call__(self, reason: str, event: object, now: int) -> None:
        self.told.append((reason, event, now))


def balanced(node: Node) -> bool:
    counters = node.counters
    dropped = sum(count for name, count in counters.items() if name.startswith("out dropped"))
    return counters.get("out accepted", 0) == counters.get("out sent", 0) + node.stored + dropped


def srt(
    node: Node, etag: int = 200, deadline: int = 20000, validity: "int | None" = None
) -> tuple[SrtChannel, Recorder]:
    told = Recorder()
    channel = SrtChannel(node, etag, deadline, validity, codec=Raw)
    channel.announce(0, told)
    return channel, told


@spec("COSMIC-18", "COSMIC-19")
def test_the_mailbox_follows_deadlines_and_promotions() -> None:
    node = Node(5, 1000000)
    far, _ = srt(node, 200, deadline=10000)
    near, _ = srt(node, 201, deadline=2000)
    far.publish(b"far", 0)
    frame = node.frame_to_send(0)
    assert frame is not None
    assert unpack(frame.id) == (1 + 64 + (10000 - 160) // 40 // 4, 5, 200)
    assert node.frame_to_send(1) is frame  # not a new one for nothing
    near.publish(b"near", 100)
    urgent = node.frame_to_send(100)
    assert urgent is not None
    assert urgent.data == b"near"
    timer = node.next_timeout()
    assert timer is not None
    before, after = node.frame_to_send(timer - 1), node.frame_to_send(timer)
    assert before is not None
    assert after is not None
    assert unpack(after.id)[0] == unpack(before.id)[0] - 1
    node.frame_sent(before, timer)  # it was on the wire when it was promoted: the same message
    left = node.frame_to_send(timer)
    assert left is not None
    assert left.data == b"far"
    assert node.counters["out sent"] == 1
    assert balanced(node)


@spec("COSMIC-20")
def test_late_is_told_once_and_sent_first() -> None:
    node = Node(5, 1000000)
    channel, told = srt(node, deadline=1000)
    channel.publish(b"x", 0)
    node.handle_timeout(1000)
    assert told.told == []
    node.handle_timeout(1001)
    node.handle_timeout(5000)
    assert told.told == [("late", b"x", 1001)]
    frame = node.frame_to_send(5000)
    assert frame is not None
    assert unpack(frame.id)[0] == 1
    node.frame_sent(frame, 5100)
    assert told.told == [("late", b"x", 1001)]
    assert node.counters["out late"] == 1
    assert node.counters["out sent"] == 1


@spec("COSMIC-20")
def test_sent_after_its_deadline_is_late_too() -> None:
    node = Node(5, 1000000)
    channel, told = srt(node, deadline=1000)
    channel.publish(b"x", 0)
    frame = node.frame_to_send(990)
    assert frame is not None
    node.frame_sent(frame, 1120)
    assert told.told == [("late", b"x", 1120)]


@spec("COSMIC-21")
def test_expired_is_gone_and_told() -> None:
    node = Node(5, 1000000)
    channel, told = srt(node, deadline=1000, validity=3000)
    channel.publish(b"x", 0)
    assert node.frame_to_send(2999) is not None
    assert node.frame_to_send(3000) is None
    assert told.told == [("late", b"x", 2999), ("expired", b"x", 3000)]
    assert node.counters == {"out accepted": 1, "out late": 1, "out dropped: expired": 1}
    assert node.next_timeout() is None


@spec("COSMIC-21")
def test_what_expires_on_the_wire_was_sent() -> None:
    node = Node(5, 1000000)
    channel, told = srt(node, deadline=1000, validity=1000)
    channel.publish(b"x", 0)
    frame = node.frame_to_send(900)
    assert frame is not None
    node.handle_timeout(1000)
    node.frame_sent(frame, 1020)
    assert [reason for reason, _, _ in told.told] == ["expired"]
    assert node.counters["out sent"] == 1
    assert balanced(node)
    node.frame_sent(frame, 1030)
    assert node.counters["sent unknown"] == 1


@spec("COSMIC-22")
def test_a_full_queue_gives_up_what_has_most_time() -> None:
    node = Node(5, 1000000, max_messages=2)
    channel, told = srt(node)
    assert channel.publish(b"a", 0, deadline=5000)
    assert channel.publish(b"b", 0, deadline=9000)
    assert not channel.publish(b"c", 0, deadline=9000)
    assert channel.publish(b"d", 0, deadline=2000)
    assert told.told == [("queue full", b"c", 0), ("queue full", b"b", 0)]
    assert [message.event for message in node.queue.srt] == [b"d", b"a"]
    assert balanced(node)


@spec("COSMIC-22")
def test_what_is_begun_does_not_give_way() -> None:
    node = Node(5, 1000000, max_messages=1)
    told = Recorder()
    channel = SrtChannel(node, 200, 20000, codec=Raw, fragmented=True)
    channel.announce(0, told)
    channel.publish(b"long enough for fragments", 0)
    frame = node.frame_to_send(0)
    assert frame is not None
    node.frame_sent(frame, 160)
    assert not channel.publish(b"near", 160, deadline=1000)
    assert told.told == [("queue full", b"near", 160)]


@spec("COSMIC-19")
def test_what_was_on_the_wire_is_not_mistaken_for_what_came_since() -> None:
    node = Node(5, 1000000)
    channel, told = srt(node)
    channel.publish(b"far", 0, deadline=9000)
    frame = node.frame_to_send(0)
    assert frame is not None
    channel.publish(b"near", 10, deadline=1000)
    node.frame_sent(frame, 100)
    assert [message.event for message in node.queue.srt] == [b"near"]
    assert node.counters == {"out accepted": 2, "out sent": 1}
    assert told.told == []


@spec("COSMIC-22", "COSMIC-31")
def test_what_gives_way_on_the_wire_was_sent() -> None:
    node = Node(5, 1000000, max_messages=1)
    channel, told = srt(node)
    channel.publish(b"far", 0, deadline=9000)
    frame = node.frame_to_send(0)
    assert frame is not None
    channel.publish(b"near", 10, deadline=1000)
    assert told.told == [("queue full", b"far", 10)]
    node.frame_sent(frame, 100)
    assert node.counters == {"out accepted": 2, "out dropped: queue full": 0, "out sent": 1}
    assert balanced(node)


@spec("COSMIC-22")
def test_a_queue_is_full_by_bytes_too() -> None:
    node = Node(5, 1000000, max_bytes=10)
    told = Recorder()
    bulk = NrtChannel(node, 300, codec=Raw, fragmented=True)
    bulk.announce(0, told)
    assert bulk.publish(b"123456", 0)
    assert not bulk.publish(b"12345", 0)
    assert bulk.publish(b"1234", 0)
    assert told.told == [("queue full", b"12345", 0)]
    assert balanced(node)


@spec("COSMIC-23")
def test_nothing_of_non_real_time_comes_before_soft_real_time() -> None:
    node = Node(5, 1000000)
    low, high = NrtChannel(node, 300, 255, codec=Raw), NrtChannel(node, 301, 251, codec=Raw)
    low.announce(0)
    high.announce(0)
    channel, _ = srt(node, deadline=10**7)
    for number in range(3):
        low.publish(bytes([number]), 0)
        high.publish(bytes([number]), 0)
    channel.publish(b"s", 0)
    sent = []
    while (frame := node.frame_to_send(0)) is not None:
        sent.append((unpack(frame.id)[0], frame.data))
        node.frame_sent(frame, 0)
    assert sent == [(250, b"s")] + [(priority, bytes([n])) for priority in (251, 255) for n in range(3)]
    with pytest.raises(LimitError, match="251"):
        NrtChannel(node, 302, 250)


@spec("COSMIC-23")
def test_frames_of_the_bus_itself_do_not_wait_for_events_of_their_priority() -> None:
    node = Node(5, 1000000)
    channel = NrtChannel(node, 300, 253, codec=Raw, fragmented=True)
    channel.announce(0)
    for number in range(2):
        channel.publish(bytes([number]) * 10, 0)
    first = node.frame_to_send(0)
    assert first is not None
    node.frame_sent(first, 0)  # the first event is begun
    asked = [Frame(pack(253, 5, 2), bytes([number]) * 8) for number in range(2)]
    late = Frame(pack(254, 5, 3), bytes(8))
    for frame in [late, *asked]:
        node.send_frame(frame, 0)
    sent = []
    while (found := node.frame_to_send(0)) is not None:
        sent.append(found)
        node.frame_sent(found, 0)
    assert sent[:2] == asked
    assert [unpack(one.id)[2] for one in sent[2:-1]] == [300] * (len(sent) - 3)
    assert sent[-1] == late
    assert balanced(node)


@spec("COSMIC-24")
def test_fragments_of_two_events_of_a_channel_do_not_mingle() -> None:
    node, other = Node(5, 1000000), Node(6, 1000000)
    channel = SrtChannel(node, 200, 20000, codec=Raw, fragmented=True)
    channel.announce(0)
    got: list[bytes] = []
    ear = SrtChannel(other, 200, 20000, codec=Raw, fragmented=True)
    ear.subscribe(lambda event, tx_node, now: got.append(event), 0)
    channel.publish(b"a" * 30, 0)
    first = node.frame_to_send(0)
    assert first is not None
    node.frame_sent(first, 160)
    other.receive_frame(first, 160)
    channel.publish(b"b" * 30, 160, deadline=1500)  # more urgent than what is begun
    now = 160
    while (frame := node.frame_to_send(now)) is not None:
        now += 160
        if not got:
            assert unpack(frame.id)[0] == max(1, 1 + (1500 - 5 * 160 - (now - 160)) // 40)
        node.frame_sent(frame, now)
        other.receive_frame(frame, now)
    assert got == [b"a" * 30, b"b" * 30]
    assert channel.begun is None


def test_raw_frames_are_non_real_time_and_say_when_they_are_sent() -> None:
    node = Node(5, 1000000)
    sent: list[tuple[Frame, int]] = []
    node.listen(2, lambda frame, now: None, lambda frame, now: sent.append((frame, now)))
    frame = Frame(pack(253, 77, 2), b"12345678")
    assert node.send_frame(frame, 0, expires=5000)
    offered = node.frame_to_send(0)
    assert offered == frame
    node.frame_sent(frame, 150)
    assert sent == [(frame, 150)]
    with pytest.raises(LocalProtocolError, match="priority 250"):
        node.send_frame(Frame(pack(250, 5, 2)), 0)


def test_an_event_that_is_too_long_is_refused() -> None:
    node = Node(5, 1000000)
    channel, _ = srt(node)
    with pytest.raises(LimitError, match="is 9, the limit is 8"):
        channel.publish(b"123456789", 0)
    with pytest.raises(LocalProtocolError, match="not announced"):
        SrtChannel(node, 201, 1000, codec=Raw).publish(b"", 0)
    assert node.counters == {}


# Against ideal earliest deadline first

Arrival = tuple[int, int, int, bytes]  # time, node, deadline, data


def arrivals(seed: int, count: int, load: float, bitrate: int, relative: "list[int]") -> "list[Arrival]":
    """Bursts over 64 nodes; `relative` deadlines in longest frames."""
    random = Random(seed)
    frame = 160 * 1000000 // bitrate
    sizes = (2, 4, 8, 8)
    mean = sum(frame_bits(Frame(pack(20, 33, 233), bytes(size))) for size in sizes) / 4 * 1000000 / bitrate
    found: list[Arrival] = []
    time = 0.0
    while len(found) < count:
        burst = random.choice([1, 1, 1, 2, 4, 8, 20])
        time += random.expovariate(1.0) * mean * burst / load
        for _ in range(burst):
            at = int(time + random.random() * frame)
            size = random.choice(sizes)
            deadline = at + random.choice(relative) * frame
            found.append((at, random.randrange(64), deadline, len(found).to_bytes(2, "big") + bytes(size - 2)))
    return sorted(found)


def ideal(arrived: "list[Arrival]", bitrate: int) -> int:
    """Misses of non-preemptive earliest deadline first, which knows all deadlines exactly."""
    queue: list[tuple[int, int, int]] = []
    now = missed = place = 0
    while place < len(arrived) or queue:
        if not queue:
            now = max(now, arrived[place][0])
        while place < len(arrived) and arrived[place][0] <= now:
            _, node, deadline, data = arrived[place]
            bits = frame_bits(Frame(pack(20, node, 200 + node), data))
            heappush(queue, (deadline, place, duration(bits, bitrate)))
            place += 1
        deadline, _, took = heappop(queue)
        now += took
        missed += now > deadline
    return missed


def ours(arrived: "list[Arrival]", bitrate: int) -> int:
    nodes = [Node(number, bitrate) for number in range(64)]
    channels = []
    for node in nodes:
        channel = SrtChannel(node, 200 + node.tx_node, 1, codec=Raw)
        channel.announce(0)
        channels.append(channel)
    bus = TinyBus(bitrate, nodes, timers=False)
    for at, node_number, deadline, data in arrived:
        bus.at(at, lambda n=node_number, d=deadline, b=data, t=at: channels[n].publish(b, t, deadline=d))
    for node in nodes:
        node.channels = {}  # deaf: nobody subscribes
    bus.run(arrived[-1][2] + 10**6)
    assert sum(node.counters.get("out sent", 0) for node in nodes) == len(arrived)
    assert all(balanced(node) for node in nodes)
    return sum(node.counters.get("out late", 0) for node in nodes)


@spec("COSMIC-17", "COSMIC-18", "COSMIC-19")
@pytest.mark.parametrize("load", [0.5, 0.8, 0.95, 1.0])
@pytest.mark.parametrize("relative", [[3, 6, 12, 25, 60], [5, 30, 300, 1000, 3000]], ids=["near", "far"])
def test_misses_are_those_of_ideal_earliest_deadline_first(load: float, relative: "list[int]") -> None:
    bitrate = 1000000
    best = found = 0
    for seed in range(2):
        arrived = arrivals(seed, 2500, load, bitrate, relative)
        best += ideal(arrived, bitrate)
        found += ours(arrived, bitrate)
    assert found <= 1.05 * best


@spec("COSMIC-19")
def test_the_order_on_the_bus_is_that_of_deadlines() -> None:
    """All at once, one in each of many nodes, deadlines a frame apart: exactly in order."""
    order = list(range(40))
    Random(7).shuffle(order)
    nodes = [Node(number, 500000) for number in range(40)]
    bus = TinyBus(500000, nodes)
    for node, place in zip(nodes, order, strict=True):
        channel, _ = srt(node, 300)
        channel.publish(bytes([place]), 0, deadline=2000 + 320 * place)
        node.channels = {}
    bus.run(60000)
    assert [frame.data[0] for _, frame in bus.log] == sorted(order)
    assert all(a < b for (a, _), (b, _) in pairwise(bus.log))
