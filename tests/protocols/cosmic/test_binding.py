"""Node numbers and etags: everybody gets one, nobody two, and no two the same."""

import pytest
from binding_bus import Bus
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.cosmic import binding_frames as frames
from vicinal.cosmic.binding import Binding, is_binding
from vicinal.cosmic.binding_broker import BindingBroker
from vicinal.cosmic.binding_frames import Halves, halves, nibble, stage_of, stage_request, subject_uid
from vicinal.cosmic.etags import MAX_SUBJECTS, Etags
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import pack, unpack
from vicinal.cosmic.node_ids import NodeId
from vicinal.errors import LimitError, LocalProtocolError

spec = pytest.mark.spec
uids = st.binary(min_size=8, max_size=8).filter(any)
SECOND = 1_000_000


def uid_of(number: int) -> bytes:
    """As boards of one maker have them: the beginning is the same."""
    return (0x240AC4000000_0000 + number * 7919).to_bytes(8, "big")


def etag_of(frame: Frame) -> int:
    return unpack(frame.id)[2]


def supply(asker: int, uid: bytes, etag: int) -> list[Frame]:
    return halves(frames.PRIORITY, frames.BROKER, frames.SUPPLY_ETAG, asker, uid, etag)


def hold(holder: int, uid: bytes, etag: int) -> list[Frame]:
    return halves(frames.URGENT, holder, frames.HOLD_ETAG, 0, uid, etag)


def ready_broker(stored: bytes = b"", persistent: bool = False) -> tuple[BindingBroker, int]:
    """A broker that has become active alone, and when."""
    broker = BindingBroker(0, 0, stored, persistent)
    now = 0
    while broker.standby.state != 2 or broker._who_at is not None:
        now = broker.next_timeout()
        broker.handle_timeout(now)
        broker.frames_to_send(now)
    return broker, now


# UIDs and frames


@spec("CBIND-16", "CBIND-17")
@given(st.text(max_size=12))
def test_short_names_are_their_own_uid_and_hashes_are_nobodys_name(subject: str) -> None:
    try:
        data = subject.encode()
    except UnicodeEncodeError:
        data = b""
    if not data:
        with pytest.raises(LocalProtocolError, match="no UID"):
            subject_uid(subject)
        return
    uid = subject_uid(subject)
    assert len(uid) == 8
    if len(data) <= 8 and data[-1]:
        assert uid == data.ljust(8, b"\0")
        assert uid[0] & 0xC0 != 0x80
    else:
        assert uid[0] & 0xC0 == 0x80


@spec("CBIND-17")
def test_the_hash_is_fnv_1a() -> None:
    # The published value of "foobar" is 85944171f73967e8; by hand for what is hashed here.
    found = 0xCBF29CE484222325
    for byte in b"Speed/Dublin":
        found = ((found ^ byte) * 0x100000001B3) % 2**64
    assert subject_uid("Speed/Dublin") == (found & ~(0xC0 << 56) | 0x80 << 56).to_bytes(8, "big")


@spec("CBIND-14", "CBIND-15")
@given(uids, st.integers(0, 15))
def test_stage_requests_are_non_real_time_and_say_all_in_the_identifier(uid: bytes, stage: int) -> None:
    frame = stage_request(uid, stage)
    priority, _, etag = unpack(frame.id)
    assert (priority, etag, frame.data) == (253 if stage > 7 else 252, 1, b"")
    assert stage_of(frame) == (stage, int(uid.hex()[15 - stage], 16))
    assert nibble(uid, stage) == int(uid.hex()[15 - stage], 16)
    assert is_binding(frame)
    # Who has come further goes first.
    assert stage == 0 or stage_request(uid, stage - 1).id < frame.id


@spec("CBIND-14", "CBIND-27")
@given(st.integers(0, 126), uids, st.integers(0, 16383))
def test_halves_make_a_whole_in_order_only(asker: int, uid: bytes, etag: int) -> None:
    first, second = supply(asker, uid, etag)
    found = Halves()
    assert found.receive(127, first.data) is None
    assert found.receive(127, second.data) == (asker, uid, etag)
    assert found.receive(127, second.data) is None
    assert found.receive(127, first.data) is None
    assert found.receive(127, bytes([asker ^ 1]) + second.data[1:]) is None
    assert found.receive(127, second.data) is None
    found.receive(1, first.data)
    assert found.receive(2, second.data) is None


# Nodes and a broker on a bus


@spec("CBIND-19", "CBIND-20", "CBIND-21", "CBIND-22", "CBIND-25", "CBIND-26", "CBIND-28")
@settings(max_examples=25)
@given(st.integers(0, 1 << 32), st.integers(1, 12), st.sampled_from([0.0, 0.02, 0.15]), st.sampled_from([0.0, 0.1]))
def test_all_start_at_once_and_all_are_bound(seed: int, count: int, loss: float, repeat: float) -> None:
    bus = Bus(seed, loss, repeat)
    broker = BindingBroker(0, 0)
    bus.join(broker)
    nodes = [Binding(uid_of(bus.random.randint(1, 1000)) if i else uid_of(0), 0) for i in range(count)]
    nodes = list({node.node.uid: node for node in nodes}.values())
    subjects = [["Speed", f"number {i}", f"a long name {i % 3}"] for i in range(len(nodes))]
    for node, wanted in zip(nodes, subjects, strict=True):
        for subject in wanted:
            node.want(subject)
        bus.join(node)
    bus.run((6 if loss == 0 else 40) * SECOND)
    numbers = [node.tx_node for node in nodes]
    assert sorted(number for number in numbers if number is not None) == list(range(len(nodes)))
    etags: dict[str, set[int | None]] = {}
    for node, wanted in zip(nodes, subjects, strict=True):
        for subject in wanted:
            etags.setdefault(subject, set()).add(node.etag(subject))
    assert all(len(found) == 1 for found in etags.values())
    assert {etag for found in etags.values() for etag in found} == set(range(16383, 16383 - len(etags), -1))
    assert bus.collisions == 0
    assert all(node.node.conflicts == node.etags.conflicts == 0 for node in nodes)


@spec("CBIND-15")
def test_nodes_that_say_the_same_at_once_do_not_destroy_it() -> None:
    """All software equally fast: every stage that two share is one frame on the bus."""
    bus = Bus(1, delay=0)
    bus.join(BindingBroker(0, 0))
    nodes = [Binding(uid_of(number), 3 * SECOND + SECOND // 2) for number in (1, 2, 3)]
    for node in nodes:
        bus.join(node)
    bus.run(6 * SECOND)
    assert {node.tx_node for node in nodes} == {0, 1, 2}
    assert bus.collisions == 0


@spec("CBIND-21")
def test_a_uid_gets_the_number_it_had_before() -> None:
    bus = Bus(2)
    broker = BindingBroker(0, 0)
    bus.join(broker)
    nodes = [Binding(uid_of(i), 0) for i in range(3)]
    for node in nodes:
        bus.join(node)
    bus.run(6 * SECOND)
    before = [node.tx_node for node in nodes]
    for node in nodes:
        bus.leave(node)
    again = [Binding(uid_of(i), bus.now) for i in (2, 1, 0)]
    for node in again:
        bus.join(node)
    bus.run(4 * SECOND)
    assert [node.tx_node for node in again] == before[::-1]


@spec("CBIND-21")
def test_the_128th_node_is_told_to_wait() -> None:
    broker, now = ready_broker()
    for number in range(127):
        assert broker.table.give(1, uid_of(number)) == number
    uid = uid_of(200)
    for stage in range(15, -1, -1):
        broker.receive(stage_request(uid, stage), now)
        answers = [frame for frame in broker.frames_to_send(now) if etag_of(frame) == frames.CCP_SSI]
    assert answers == [Frame(pack(253, 127, 0), bytes(8))]
    assert broker.ignored == {"no number is free": 1}


@spec("CBIND-22")
def test_a_round_that_stops_is_over() -> None:
    broker, now = ready_broker()
    for stage in (15, 14, 13):
        broker.receive(stage_request(uid_of(1), stage), now)
    broker.frames_to_send(now)
    # Another one's nibbles do not get into it, a repetition soon after is another node's, a late one is answered.
    broker.receive(stage_request(b"\x00" * 7 + b"\x01", 15), now)
    broker.receive(stage_request(uid_of(1), 13), now + 1000)
    assert broker.ignored == {"another round": 1}
    assert [f for f in broker.frames_to_send(now + 1000) if etag_of(f) == 0] == []
    broker.receive(stage_request(uid_of(1), 13), now + 60000)
    prefix = bytes.fromhex(uid_of(1).hex()[:3] + "0" * 12 + "d")
    assert Frame(pack(253, 127, 0), prefix) in broker.frames_to_send(now + 60000)
    broker.handle_timeout(now + 500000)
    assert Frame(pack(253, 127, 0), bytes(8)) in broker.frames_to_send(now + 500000)
    broker.receive(stage_request(uid_of(2), 15), now + 510000)
    assert broker.ignored == {"another round": 1, "a round that stopped": 1}


@spec("CBIND-22", "CBIND-25")
def test_without_a_broker_they_ask_less_and_less_and_say_so() -> None:
    bus = Bus(3)
    node, fixed = Binding(uid_of(1), 0), Binding(uid_of(2), 0, tx_node=9)
    fixed.want("Speed")
    bus.join(node)
    bus.join(fixed)
    bus.run(60 * SECOND)
    asked = [frame for frame in bus.sent if etag_of(frame) == frames.GET_ETAG]
    stages = [frame for frame in bus.sent if etag_of(frame) == frames.CCP_RSI]
    assert 14 < len(asked) < 25
    assert 14 < len(stages) < 25
    assert fixed.next_event() == ("node", "", 9)
    assert fixed.next_event() == ("waiting", "Speed", 5)
    assert fixed.next_event() is None
    assert node.next_event() is None
    # Then there is one.
    bus.join(BindingBroker(0, bus.now))
    bus.run(6 * SECOND)
    assert node.next_event() == ("node", "", 0)
    assert fixed.next_event() == ("bound", "Speed", 16383)


@spec("CBIND-23", "CBIND-24", "CBIND-42", "CBIND-43")
def test_a_number_that_is_held_is_not_used_by_another() -> None:
    """The broker knows nothing of a number that was given by hand, and misses the answer when it asks."""
    bus = Bus(4)
    broker = BindingBroker(0, 0)
    bus.join(broker)
    bus.run(5 * SECOND)
    fixed = Binding(uid_of(50), bus.now, tx_node=0)
    node = Binding(uid_of(1), bus.now)
    bus.join(fixed)
    bus.join(node)
    bus.run(3 * SECOND)
    assert fixed.node.objections == 1
    assert node.tx_node == 1
    assert broker.corrected == 1
    assert broker.table.owner(1, 0) == uid_of(50)


@spec("CBIND-23")
def test_probation() -> None:
    node = NodeId(uid_of(1), 0)
    given_to = Frame(pack(253, 5, 0), uid_of(1))
    node.receive(given_to, 1000)
    assert (node.tx_node, node.next_timeout()) == (None, 101000)
    node.receive(Frame(pack(251, 5, frames.HOLD_NODE), uid_of(2)), 50000)
    node.handle_timeout(101000)
    assert node.tx_node is None
    node.receive(given_to, 200000)
    node.receive(Frame(pack(251, 6, frames.HOLD_NODE), uid_of(2)), 250000)  # another number
    node.handle_timeout(300000)
    assert node.tx_node == 5
    node.receive(Frame(pack(251, 5, frames.HOLD_NODE), uid_of(2)), 400000)
    assert node.conflicts == 1
    for number, uid in ((5, uid_of(2)), (6, uid_of(1))):
        node.receive(Frame(pack(253, number, 0), uid), 400000)
        assert node.frames_to_send() == [Frame(pack(251, 5, frames.HOLD_NODE), uid_of(1))]


# Etags, frame by frame


@spec("CBIND-25", "CBIND-26", "CBIND-27", "CBIND-28")
def test_an_etag_frame_by_frame() -> None:
    etags = Etags()
    etags.want("Speed")
    etags.want("Limit")
    etags.want("Speed")
    asked = etags.frames_to_send(7, 0)
    assert asked == [Frame(pack(253, 7, 2), b"Speed\0\0\0")]
    assert etags.frames_to_send(7, 50000) == []
    first, second = supply(7, b"Speed\0\0\0", 16383)
    others = [*supply(8, b"Speed\0\0\0", 16383), *supply(7, b"Speedy\0\0", 16383), second, second, first, first]
    for frame in others:
        etags.receive(frame, 60000, 7)
    assert etags.next_timeout() == etags._ask_again
    etags.receive(second, 60000, 7)
    assert etags.frames_to_send(7, 60000) == [Frame(pack(253, 7, 2), b"Limit\0\0\0")]
    assert etags.etag("Speed") is None
    etags.handle_timeout(160000)
    assert etags.etag("Speed") == 16383
    assert etags.next_event() == ("bound", "Speed", 16383)
    for frame in supply(7, b"Limit\0\0\0", 0):
        etags.receive(frame, 170000, 7)
    assert etags.next_event() == ("refused", "Limit", 0)
    assert etags.next_timeout() is None


@spec("CBIND-26")
def test_when_all_etags_are_given() -> None:
    broker, now = ready_broker()
    broker.table._free[1] = 100  # as if
    for uid, etag in ((b"a" * 8, 100), (b"b" * 8, 0)):
        broker.receive(Frame(pack(253, 3, 2), uid), now)
        found = [frame for frame in broker.frames_to_send(now) if etag_of(frame) == 4]
        assert found == supply(3, uid, etag)
    broker.receive(Frame(pack(253, 3, 2), bytes(8)), now)
    broker.receive(Frame(pack(253, 3, 2), b"short"), now)
    assert broker.ignored["malformed"] == 2


@spec("CBIND-29")
def test_who_uses_an_etag_objects() -> None:
    etags = Etags()
    etags.want("Speed")
    etags.frames_to_send(7, 0)
    for frame in supply(7, b"Speed\0\0\0", 500):
        etags.receive(frame, 0, 7)
    etags.handle_timeout(100000)
    for uid, etag in ((b"Speed\0\0\0", 501), (b"Limit\0\0\0", 500)):
        for now in (SECOND, SECOND + 400000):
            for frame in supply(8, uid, etag):
                etags.receive(frame, now, 7)
        assert etags.frames_to_send(7, SECOND) == hold(7, b"Speed\0\0\0", 500)
        etags._wanted[b"Speed\0\0\0"].objected = None
    for frame in supply(8, b"Limit\0\0\0", 501) + supply(8, b"Speed\0\0\0", 500):
        etags.receive(frame, SECOND, 7)
    assert etags.frames_to_send(7, SECOND) == []
    assert etags.objections == 2


@spec("CBIND-30")
def test_what_is_held_by_another_is_given_up_or_taken_over() -> None:
    etags = Etags()
    for subject in ("Speed", "Limit"):
        etags.want(subject)
    for now, uid, etag in ((0, b"Speed\0\0\0", 500), (10, b"Limit\0\0\0", 600)):
        etags.frames_to_send(7, now)
        for frame in supply(7, uid, etag):
            etags.receive(frame, now, 7)
    for frame in hold(9, b"Speed\0\0\0", 400) + hold(9, b"Other\0\0\0", 600):
        etags.receive(frame, 50000, 7)
    etags.handle_timeout(150000)
    assert etags.etag("Speed") == 400
    assert etags.etag("Limit") is None
    assert etags.frames_to_send(7, 150000) == [Frame(pack(253, 7, 2), b"Limit\0\0\0")]
    assert etags.next_event() == ("bound", "Speed", 400)
    for frame in hold(9, b"Speed\0\0\0", 401) + hold(9, b"Third\0\0\0", 400):
        etags.receive(frame, 200000, 7)
    assert [etags.next_event(), etags.next_event(), etags.next_event()] == [("conflict", "Speed", 400)] * 2 + [None]


@spec("CBIND-18")
def test_two_subjects_with_one_uid_are_refused_in_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vicinal.cosmic.etags.subject_uid", lambda subject: b"\x80collide")
    etags = Etags()
    etags.want("a long subject")
    with pytest.raises(LocalProtocolError, match="'another one' and 'a long subject' have the same UID"):
        etags.want("another one")


@spec("CBIND-31")
def test_start_again_wakes_those_who_wait() -> None:
    etags = Etags()
    etags.want("Speed")
    now = 0
    for _ in range(8):
        etags.frames_to_send(7, now)
        now = etags.next_timeout() or 0
    etags.frames_to_send(7, now)
    assert (etags.next_timeout() or 0) - now >= 3_200_000
    etags.receive(Frame(pack(253, 127, 0), bytes(8)), now + 5, 7)
    assert etags.next_timeout() == now + 5 + 100000


def test_what_a_channel_must_not_ask() -> None:
    etags = Etags()
    for number in range(MAX_SUBJECTS):
        etags.want(f"s{number}")
    with pytest.raises(LimitError, match=r"1025.*1024"):
        etags.want("one more")
    etags.drop("s0")
    etags.want("one more")
    for uid in (bytes(8), b"short"):
        with pytest.raises(LocalProtocolError, match="UID"):
            Binding(uid, 0)


def test_dropped_while_asked() -> None:
    etags = Etags()
    etags.want("a")
    etags.want("b")
    etags.frames_to_send(1, 0)
    etags.drop("a")
    etags.drop("never wanted")
    assert etags.frames_to_send(1, 0) == [Frame(pack(253, 1, 2), b"b" + bytes(7))]
    for frame in supply(1, b"b" + bytes(7), 200):
        etags.receive(frame, 0, 1)
    etags.drop("b")
    etags.handle_timeout(SECOND)
    assert etags.next_event() is None
    assert etags._holders == {}


@spec("CBIND-14")
@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.integers(251, 253), st.integers(0, 127), st.integers(0, 10), st.binary(max_size=8) | uids),
        max_size=40,
    )
)
def test_any_frames_raise_nothing(found: list[tuple[int, int, int, bytes]]) -> None:
    broker, now = ready_broker()
    node = Binding(uid_of(1), 0)
    bound = Binding(uid_of(2), 0, tx_node=3)
    for party in (node, bound):
        party.want("Speed")
    for priority, tx_node, etag, data in found:
        now += 20000
        frame = Frame(pack(priority, tx_node, etag), data)
        broker.receive(frame, now)
        broker.handle_timeout(now)
        assert len(broker.frames_to_send(now)) < 200
        for party in (node, bound):
            party.receive(frame, now)
            party.handle_timeout(now)
            assert len(party.frames_to_send(now)) < 40
