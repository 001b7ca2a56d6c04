"""Hard real time: the firewall, the guard, retries, held delivery; and a full bus on which no slot is missed."""

from random import Random
from typing import Any

import pytest
from cosmic_bus import TinyBus

from vicinal.cosmic.bits import worst_bits
from vicinal.cosmic.calendar import Calendar
from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.hrt import HrtChannel
from vicinal.cosmic.identifier import HRT, pack, unpack
from vicinal.cosmic.node import Clock, Node
from vicinal.cosmic.slot import Slot
from vicinal.errors import LimitError, LocalProtocolError

spec = pytest.mark.spec
BITRATE = 500000


class Told:
    def __init__(self) -> None:
        self.all: list[tuple[Any, Any, int]] = []

    def __call__(self, what: Any, detail: Any, now: int) -> None:
        self.all.append((what, detail, now))


class Skewed(Clock):
    """The bus's time is ours and `offset`; in sync or not."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self.good = True

    def in_sync(self, now: int) -> bool:
        return self.good

    def to_global(self, now: int) -> int:
        return now + self.offset

    def to_local(self, time: int) -> int:
        return time - self.offset


def slot(phase: int = 1000, period: int = 10000, size: int = 8, omissions: int = 1) -> Slot:
    return Slot("Brake", phase, period, size, omissions, BITRATE, 20, tx_node=1)


def pair(offset: int = 0, **wanted: int) -> "tuple[HrtChannel, Told, HrtChannel, Told, Told]":
    """Publisher and what its handler was told; subscriber, its events and exceptions."""
    reserved = slot(**wanted)
    sender = HrtChannel(Node(1, BITRATE, Skewed()), 200, reserved, Raw)
    receiver = HrtChannel(Node(2, BITRATE, Skewed(offset)), 200, reserved, Raw)
    failed, events, lost = Told(), Told(), Told()
    sender.announce(0, failed)
    receiver.subscribe(events, 0, lost)
    return sender, failed, receiver, events, lost


def balanced(node: Node) -> bool:
    """COSMIC-31."""
    count = node.counters.get
    dropped = sum(value for name, value in node.counters.items() if name.startswith("out dropped"))
    refused = sum(value for name, value in node.counters.items() if name.startswith("in dropped"))
    got = count("in delivered", 0) + node.held + count("in fragments", 0) + count("in system", 0) + refused
    return (
        count("out accepted", 0) == count("out sent", 0) + node.stored + dropped
        and count("in received", 0) + count("in reassembled", 0) == got
    )


def carry(sender: HrtChannel, receiver: HrtChannel, now: int, end: int) -> None:
    """What the sender offers at `now` is on the bus until `end`."""
    frame = sender.node.frame_to_send(now)
    assert frame is not None
    sender.node.frame_sent(frame, end)
    receiver.node.receive_frame(frame, end)


@spec("COSMIC-25", "COSMIC-28")
@pytest.mark.parametrize("offset", [0, 20, -20])
def test_sent_in_the_slot_and_delivered_at_its_end(offset: int) -> None:
    sender, failed, receiver, events, lost = pair(offset)
    sender.publish(b"old", 100)
    sender.publish(b"new", 900)
    assert sender.node.frame_to_send(999) is None
    frame = sender.node.frame_to_send(1000)
    assert frame == Frame(pack(HRT, 1, 200), b"new")
    sender.publish(b"next", 1001)  # the firewall: what is being sent is not touched
    assert sender.node.frame_to_send(1100) is frame
    carry(sender, receiver, 1100, 1300)
    assert receiver.node.held == 1
    delivery = 1000 + sender.slot.length - offset
    assert receiver.node.next_timeout() == delivery
    receiver.node.handle_timeout(delivery - 1)
    assert events.all == []
    receiver.node.handle_timeout(delivery)
    assert events.all == [(b"new", 1, delivery)]
    assert (failed.all, lost.all) == ([], [])
    assert sender.node.counters == {"out accepted": 3, "out dropped: overwritten": 1, "out sent": 1}
    assert sender.node.stored == 1
    assert balanced(sender.node)
    assert balanced(receiver.node)


@spec("COSMIC-25", "COSMIC-26", "COSMIC-28")
def test_nothing_fresh_is_told_at_both_ends() -> None:
    sender, failed, receiver, events, lost = pair()
    sender.publish(b"x", 100)
    carry(sender, receiver, 1000, 1200)
    receiver.node.handle_timeout(3000)
    for time in (11000, 13000, 21000, 23000):
        sender.node.handle_timeout(time)
        receiver.node.handle_timeout(time)
    assert failed.all == [("stale", None, 11000), ("stale", None, 21000)]
    assert events.all == [(b"x", 1, 3000)]
    assert lost.all == [("missing", None, 13000), ("missing", None, 23000)]
    assert receiver.node.counters["in missing"] == 2


@spec("COSMIC-25", "COSMIC-26")
def test_what_is_older_than_a_period_is_stale() -> None:
    sender, failed, *_ = pair(period=10000)
    sender.node.handle_timeout(1000)
    failed.all.clear()
    sender.publish(b"exactly", 1000)
    assert sender.node.frame_to_send(11000) is not None
    sender, failed, *_ = pair(phase=9000, period=10000)
    sender.publish(b"x", -1500)  # before it was announced: the slot at 9000 is more than a period later
    assert sender.node.frame_to_send(9000) is None
    assert failed.all == [("stale", b"x", 9000)]
    assert sender.node.counters["out dropped: stale"] == 1
    assert balanced(sender.node)


@spec("COSMIC-26")
def test_without_the_time_nothing_is_sent() -> None:
    sender, failed, *_ = pair()
    sender.publish(b"x", 100)
    sender.node.clock.good = False
    assert sender.node.frame_to_send(1000) is None
    assert failed.all == [("out of sync", b"x", 1000)]
    assert sender.node.counters["out dropped: out of sync"] == 1


@spec("COSMIC-26")
def test_a_node_that_wakes_up_too_late_keeps_out_of_the_next_slot() -> None:
    sender, failed, *_ = pair()
    last = 1000 + sender.slot.window - 2 * 160
    sender.publish(b"12345678", 100)
    assert sender.node.frame_to_send(last) is not None
    sender, failed, *_ = pair()
    sender.publish(b"12345678", 100)
    assert sender.node.frame_to_send(last + 1) is None
    assert failed.all == [("window over", b"12345678", last + 1)]
    sender.publish(b"12345678", 44000)
    assert sender.node.frame_to_send(51000) is not None  # slots slept through: counted, not made good
    assert sender.node.counters["out slots slept through"] == 4
    assert balanced(sender.node)


@spec("COSMIC-27")
def test_destroyed_frames_are_sent_again_up_to_the_omission_degree() -> None:
    sender, failed, *_ = pair(omissions=2)
    sender.publish(b"x", 100)
    for time in (1000, 1300):
        frame = sender.node.frame_to_send(time)
        assert frame is not None
        sender.node.transmit_error(time, frame)
    other = Frame(pack(9, 1, 201), b"ours, but not hard real time"[:8])
    sender.node.transmit_error(1350, other)
    sender.node.transmit_error(1360)  # the shell does not know which
    frame = sender.node.frame_to_send(1400)
    assert frame is not None
    sender.node.transmit_error(1600, frame)
    assert sender.node.frame_to_send(1600) is None
    assert failed.all == [("omissions", b"x", 1600)]
    assert sender.node.counters["out dropped: omissions"] == 1
    assert balanced(sender.node)


@spec("COSMIC-27")
def test_after_the_last_moment_it_is_not_offered_but_may_still_arrive() -> None:
    for arrives in (True, False):
        sender, failed, *_ = pair()
        sender.publish(b"12345678", 100)
        frame = sender.node.frame_to_send(1000)
        assert frame is not None
        end = 1000 + sender.slot.window
        assert sender.node.next_timeout() == end - 320 + 1
        assert sender.node.frame_to_send(end - 320) is frame
        assert sender.node.frame_to_send(end - 319) is None
        if arrives:  # it was on the wire
            sender.node.frame_sent(frame, end)
        sender.node.handle_timeout(end + 1)
        assert failed.all == ([] if arrives else [("window over", b"12345678", end + 1)])
        assert balanced(sender.node)
        if not arrives:  # on the wire after all: the books are put right
            sender.node.frame_sent(frame, end + 2)
            assert sender.node.counters["out sent"] == 1
            assert balanced(sender.node)


@spec("COSMIC-28")
def test_a_duplicate_is_counted_and_delivered_once() -> None:
    sender, _, receiver, events, _ = pair()
    frame = Frame(pack(HRT, 1, 200), b"x")
    receiver.node.receive_frame(frame, 1300)
    receiver.node.receive_frame(frame, 1600)  # the sender saw an error in the last bit, and the others did not
    receiver.node.handle_timeout(1000 + sender.slot.length)
    assert [event for event, _, _ in events.all] == [b"x"]
    assert receiver.node.counters["in dropped: duplicate"] == 1
    assert balanced(receiver.node)


@spec("COSMIC-29")
def test_only_the_slots_sender_is_heard_and_only_in_the_slot() -> None:
    sender, _, receiver, events, _ = pair()
    length = sender.slot.length
    for tx_node, now in ((3, 1100), (1, 1000 + length + 1), (1, 10979)):
        receiver.node.receive_frame(Frame(pack(HRT, tx_node, 200), b"x"), now)
    assert receiver.node.counters == {
        "in received": 3,
        "in dropped: not the slot's sender": 1,
        "in dropped: outside its slot": 2,
    }
    receiver.node.receive_frame(Frame(pack(HRT, 1, 200), b"x"), 10980)  # its clock may be 20 us ahead of ours
    assert receiver.node.held == 1
    assert events.all == []
    _, _, receiver, *_ = pair()
    receiver.node.receive_frame(Frame(pack(HRT, 1, 200), b"x"), 1000 + length)  # or behind
    assert receiver.node.held == 1


class Drifting(Clock):
    """Faster or slower than the bus; every conversion rounds down."""

    def __init__(self, ppm: int) -> None:
        self.ppm = ppm

    def to_global(self, now: int) -> int:
        return now * (1000000 + self.ppm) // 1000000

    def to_local(self, time: int) -> int:
        return time * 1000000 // (1000000 + self.ppm)


@spec("COSMIC-8", "COSMIC-28")
@pytest.mark.parametrize("ppm", [-137, 137])
def test_one_event_in_each_slot_with_clocks_that_round(ppm: int) -> None:
    reserved = slot()
    sender = HrtChannel(Node(1, BITRATE, Drifting(ppm)), 200, reserved, Raw)
    receiver = HrtChannel(Node(2, BITRATE, Drifting(-ppm)), 200, reserved, Raw)
    failed, events, lost = Told(), Told(), Told()
    sender.announce(0, failed)
    receiver.subscribe(events, 0, lost)
    for number in range(500):
        data = number.to_bytes(2, "big")
        due = sender.node.next_timeout()
        assert due is not None
        assert abs(sender.node.clock.to_global(due) - (1000 + 10000 * number)) <= 1
        sender.publish(data, due - 5000)
        assert sender.node.frame_to_send(due - 1) is None
        frame = sender.node.frame_to_send(due)
        assert frame is not None
        assert frame.data == data
        sender.node.frame_sent(frame, due + 300)
        at = receiver.node.clock.to_local(1000 + 10000 * number + 300)
        receiver.node.receive_frame(frame, at)
        delivery = receiver.node.next_timeout()
        assert delivery is not None
        receiver.node.handle_timeout(delivery)
        assert events.all[number][0] == data
        assert len(events.all) == number + 1
    assert (failed.all, lost.all) == ([], [])


@spec("COSMIC-8", "COSMIC-30")
@pytest.mark.parametrize("offset", [10**9, -(10**9)])
def test_a_node_that_learns_the_time_goes_by_it_from_then_on(offset: int) -> None:
    clock = Skewed()
    clock.good = False
    node = Node(1, BITRATE, clock)
    sender, receiver = HrtChannel(node, 200, slot(), Raw), HrtChannel(node, 201, slot(phase=5000), Raw)
    failed, lost = Told(), Told()
    sender.announce(0, failed)
    receiver.subscribe(Told(), 0, lost)
    node.handle_timeout(1000)
    assert [reason for reason, _, _ in failed.all] == ["out of sync"]
    clock.good, clock.offset = True, offset
    node.listen(2, lambda frame, now: None)
    node.receive_frame(Frame(pack(251, 9, 2)), 2000)  # the master's, say
    sender.publish(b"x", 2000)
    due = []
    for _ in range(4):
        time = node.next_timeout()
        assert time is not None
        due.append(time)
        node.handle_timeout(time)
    end = 5000 + sender.slot.length
    window = 11000 + sender.slot.window
    assert due == [end, 11000, window - 2 * worst_bits(1) + 1, window + 1]  # that slot, and ours with nobody to send
    assert [reason for reason, _, _ in failed.all] == ["out of sync", "window over"]
    assert lost.all == [("missing", None, end)]
    assert "out slots slept through" not in node.counters


@spec("COSMIC-8")
def test_ready_times_are_the_buss() -> None:
    node = Node(1, BITRATE, Skewed(20))
    channel = HrtChannel(node, 200, slot(), Raw)
    channel.announce(985)  # 1005 for the bus: this slot is past
    channel.publish(b"x", 990)
    assert node.next_timeout() == 10980
    assert node.frame_to_send(10979) is None
    assert node.frame_to_send(10980) is not None


@spec("COSMIC-30")
def test_a_receiver_without_the_time_delivers_at_once() -> None:
    _, _, receiver, events, lost = pair()
    receiver.node.clock.good = False
    receiver.node.receive_frame(Frame(pack(HRT, 1, 200), b"x"), 5000)
    assert events.all == [(b"x", 1, 5000)]
    assert receiver.node.counters["in not held"] == 1
    assert lost.all == []
    receiver.node.handle_timeout(13000)
    assert lost.all == [("out of sync", None, 13000)]
    assert balanced(receiver.node)


@spec("COSMIC-34", "COSMIC-26")
def test_bus_off_in_the_slot_is_told() -> None:
    sender, failed, *_ = pair()
    sender.publish(b"x", 100)
    sender.node.set_silent(True, 200)
    assert sender.node.frame_to_send(1000) is None
    assert failed.all == [("bus-off", b"x", 1000)]
    sender.node.set_silent(False, 5000)
    sender.publish(b"y", 5000)
    assert sender.node.frame_to_send(11000) is not None


@spec("COSMIC-11")
def test_a_longer_event_goes_in_fragments_in_one_slot() -> None:
    sender, failed, receiver, events, _ = pair(size=20, period=20000)
    sender.publish(b"twenty bytes of data", 100)
    now = 1000
    while sender.node.frame_to_send(now) is not None:
        carry(sender, receiver, now, now + 320)
        now += 320
    assert now == 1000 + 4 * 320
    receiver.node.handle_timeout(1000 + sender.slot.length)
    assert [event for event, _, _ in events.all] == [b"twenty bytes of data"]
    assert failed.all == []
    with pytest.raises(LimitError, match="is 21, the limit is 20"):
        sender.publish(bytes(21), 5000)
    assert balanced(sender.node)
    assert balanced(receiver.node)


def test_unannounced_and_unsubscribed_leave_nothing_behind() -> None:
    sender, failed, receiver, _, _ = pair()
    sender.publish(b"x", 100)
    receiver.node.receive_frame(Frame(pack(HRT, 1, 200), b"x"), 1300)
    sender.unannounce(500)
    receiver.unsubscribe(1400)
    assert failed.all == [("unannounced", b"x", 500)]
    assert sender.node.next_timeout() is None
    assert receiver.node.next_timeout() is None
    assert balanced(sender.node)
    assert balanced(receiver.node)
    with pytest.raises(LocalProtocolError, match="not announced"):
        sender.publish(b"x", 600)
    sender, failed, *_ = pair()
    sender.publish(b"x", 100)
    assert sender.node.frame_to_send(1000) is not None
    sender.unannounce(1001)
    assert sender.node.frame_to_send(1001) is None
    assert failed.all == [("unannounced", b"x", 1001)]


def test_a_slot_is_its_senders() -> None:
    with pytest.raises(LocalProtocolError, match="TxNode 1's, this is 2"):
        HrtChannel(Node(2, BITRATE), 200, slot(), Raw).announce(0)


@spec("COSMIC-9", "COSMIC-16", "COSMIC-25", "COSMIC-27", "COSMIC-28")
@pytest.mark.parametrize(("bitrate", "omissions"), [(125000, 0), (500000, 1), (1000000, 2)])
def test_no_slot_is_missed_on_a_full_bus(bitrate: int, omissions: int) -> None:
    """A calendar that is nearly full, soft real time for what it leaves, a node that babbles, transmissions destroyed
    at random, clocks apart by as much as was promised: every event is there, within the bound."""
    random = Random(omissions)
    precision = 20
    calendar = Calendar(bitrate, precision)
    nodes = [Node(number, bitrate, Skewed(random.randint(0, precision))) for number in range(16)]
    unit = 10 * 160 * 1000000 // bitrate
    period = 10 * Slot("?", 0, 10**6, 8, omissions, bitrate, precision).length  # 6 + 6 / 2 slots fill it
    failed, lost = Told(), Told()
    ready: dict[int, int] = {}
    worst: dict[int, int] = {}
    senders = []
    for node in nodes[:12]:  # the short periods first: first fit wastes least then
        wanted = random.choice([0, 4, 8])
        reserved = calendar.reserve(str(node.tx_node), period * (1 + node.tx_node // 6), wanted, omissions)
        channel = HrtChannel(node, 200 + node.tx_node, reserved, Raw)
        channel.announce(0, failed)
        senders.append(channel)
    heard = Told()
    for channel in senders:
        HrtChannel(nodes[15], channel.etag, channel.slot, Raw).subscribe(heard, 0, lost)

    def omit(frame: Frame, attempts: int) -> bool:
        return attempts < omissions and random.random() < 0.2

    bus = TinyBus(bitrate, nodes, omit)

    def publish(channel: HrtChannel, time: int) -> None:
        channel.publish(bytes([random.randrange(256) for _ in range(channel.slot.size)]), time)
        bus.at(time + channel.slot.period, lambda: publish(channel, time + channel.slot.period))

    for channel in senders:
        start = channel.slot.phase - channel.node.clock.offset - random.randint(1, channel.slot.period // 2)
        publish(channel, start)
    babbler = NrtChannel(nodes[12], 300, codec=Raw)
    babbler.announce(0)
    soft = SrtChannel(nodes[13], 301, 20 * unit, codec=Raw)
    soft.announce(0)

    def babble(time: int) -> None:
        while nodes[12].stored < 4:
            babbler.publish(random.randbytes(8), time)
        if nodes[13].stored < 2:
            soft.publish(random.randbytes(8), time)
        bus.at(time + unit // 20, lambda: babble(time + unit // 20))

    babble(0)
    assert calendar.reserved() > 0.8 * calendar.cycle
    end = calendar.cycle * 60
    bus.run(end)
    assert bus.busy / end > 0.95
    assert failed.all == []
    assert lost.all == []
    for time, frame in bus.log:
        priority, tx_node, _ = unpack(frame.id)
        if priority == HRT:
            channel = senders[tx_node]
            since = (channel.node.clock.to_global(time) - channel.slot.phase) % channel.slot.period
            worst[tx_node] = max(worst.get(tx_node, 0), since)
            ready[tx_node] = ready.get(tx_node, 0) + 1
    for channel in senders:
        assert ready[channel.node.tx_node] >= 59 * calendar.cycle // channel.slot.period
        assert worst[channel.node.tx_node] <= channel.slot.window
    assert sum(unpack(frame.id)[0] != HRT for _, frame in bus.log) > len(bus.log) // 3  # what slots do not need is used
    assert all(balanced(node) for node in nodes)
