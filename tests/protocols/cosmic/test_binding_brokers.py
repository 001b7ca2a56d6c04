"""Several brokers, crashes and lost tables: no name is ever given twice."""

from random import Random

import pytest
from binding_bus import Bus
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.cosmic import binding_frames as frames
from vicinal.cosmic.binding import Binding
from vicinal.cosmic.binding_broker import BindingBroker
from vicinal.cosmic.binding_standby import ACTIVE, CLAIMING, STANDBY
from vicinal.cosmic.binding_table import ENTRY_BYTES, MAX_ENTRIES, BindingTable
from vicinal.cosmic.etags import BOUND
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.identifier import pack, unpack
from vicinal.errors import LimitError

spec = pytest.mark.spec
SECOND = 1_000_000
SUBJECTS = [f"subject number {i}" for i in range(12)]


def uid_of(number: int) -> bytes:
    return (0x240AC4000000_0000 + number * 7919).to_bytes(8, "big")


class Host:
    """A broker with a disk, which outlives it."""

    def __init__(self, rank: int, now: int, file: bytes = b"") -> None:
        self.broker = BindingBroker(rank, now, file, persistent=True)
        self.file = file[: self.broker.restored]

    def receive(self, frame: Frame, now: int) -> None:
        self.broker.receive(frame, now)

    def frames_to_send(self, now: int) -> list[Frame]:
        lacking = self.broker.to_store()
        if lacking is not None:
            start, data = lacking
            self.file = self.file[: start * ENTRY_BYTES] + data
            self.broker.stored(len(self.file) // ENTRY_BYTES)
        return self.broker.frames_to_send(now)

    def next_timeout(self) -> int | None:
        return self.broker.next_timeout()

    def handle_timeout(self, now: int) -> None:
        self.broker.handle_timeout(now)


class World:
    def __init__(self, seed: int, loss: float, repeat: float, count: int) -> None:
        self.bus = Bus(seed, loss, repeat)
        self.bus.watch = self.check
        self.hosts: dict[int, Host] = {}
        self.files = dict.fromkeys(range(count), b"")
        self.nodes: list[Binding] = []
        for rank in self.files:
            self.start(rank)

    def start(self, rank: int) -> None:
        self.hosts[rank] = Host(rank, self.bus.now, self.files[rank])
        self.bus.join(self.hosts[rank])

    def crash(self, rank: int, keeps_its_file: bool = True) -> None:
        host = self.hosts.pop(rank)
        self.bus.leave(host)
        self.files[rank] = host.file if keeps_its_file else b""

    def add_nodes(self, random: Random, count: int) -> None:
        for _ in range(count):
            node = Binding(uid_of(len(self.nodes)), self.bus.now)
            for subject in random.sample(SUBJECTS, 4):
                node.want(subject)
            self.nodes.append(node)
            self.bus.join(node)

    def active(self) -> list[int]:
        return [rank for rank, host in self.hosts.items() if host.broker.standby.state == ACTIVE]

    def check(self) -> None:
        """The law, after every frame: nobody uses what another uses otherwise."""
        numbers: dict[int, Binding] = {}
        etags: dict[str, int] = {}
        subjects: dict[int, str] = {}
        for node in self.nodes:
            if node.tx_node is not None:
                assert numbers.setdefault(node.tx_node, node) is node
            for wanted in node.etags._wanted.values():
                if wanted.state == BOUND:
                    assert etags.setdefault(wanted.subject, wanted.etag) == wanted.etag
                    assert subjects.setdefault(wanted.etag, wanted.subject) == wanted.subject

    def settle(self) -> None:
        for rank in self.files:
            if rank not in self.hosts:
                self.start(rank)
        self.bus.loss = 0
        self.bus.run(14 * SECOND)
        assert len(self.active()) == 1
        for node in self.nodes:
            assert node.tx_node is not None
            assert all(wanted.state == BOUND for wanted in node.etags._wanted.values())
            assert node.node.conflicts == node.etags.conflicts == 0
        tables = {(len(host.broker.table), host.broker.table.check()) for host in self.hosts.values()}
        assert len(tables) == 1
        assert {host.file for host in self.hosts.values()} == {
            host.broker.table.to_bytes() for host in self.hosts.values()
        }
        assert self.bus.collisions == 0


@spec("CBIND-36", "CBIND-39", "CBIND-41")
@settings(max_examples=30)
@given(st.integers(0, 1 << 32).map(Random), st.sampled_from([0.0, 0.05, 0.2]), st.integers(2, 3))
def test_a_current_standby_knows_all(random: Random, loss: float, count: int) -> None:
    """The active broker dies again and again, at any moment, but only while a standby is current."""
    world = World(random.getrandbits(32), loss, 0.05, count)
    world.bus.run(4 * SECOND)
    for _ in range(4):
        world.add_nodes(random, random.randint(1, 3))
        world.bus.run(random.randint(100_000, 2 * SECOND))
        for _ in range(200):
            active = world.active()
            if len(active) == 1 and any(
                host.broker.standby.complete for rank, host in world.hosts.items() if rank != active[0]
            ):
                world.crash(active[0])
                break
            world.bus.run(50_000)
        world.bus.run(random.randint(SECOND, 4 * SECOND))
        for rank in world.files:
            if rank not in world.hosts:
                world.start(rank)
    world.settle()


@spec("CBIND-34", "CBIND-41", "CBIND-42", "CBIND-43")
@settings(max_examples=30)
@given(st.integers(0, 1 << 32).map(Random), st.sampled_from([0.0, 0.02]), st.integers(1, 3), st.booleans())
def test_brokers_that_missed_all_learn_it_from_the_nodes(
    random: Random, loss: float, count: int, keep_files: bool
) -> None:
    """Any broker dies at any time, and comes back with an old table, or with none."""
    world = World(random.getrandbits(32), loss, 0.05, count)
    for _ in range(8):
        world.add_nodes(random, random.randint(0, 2))
        world.bus.run(random.randint(100_000, 4 * SECOND))
        rank = random.randrange(count)
        if rank not in world.hosts:
            world.start(rank)
        elif random.random() < 0.7:
            world.crash(rank, keep_files)
    world.settle()


@spec("CBIND-42", "CBIND-44")
def test_a_lost_table_comes_back_from_the_nodes() -> None:
    world = World(5, 0, 0, 1)
    world.add_nodes(Random(1), 4)
    world.bus.run(6 * SECOND)
    before = {(number, world.hosts[0].broker.table.owner(1, number)) for number in range(4)}
    assert len(world.hosts[0].broker.table) > 8
    world.crash(0, keeps_its_file=False)
    world.start(0)
    world.bus.sent.clear()
    world.bus.run(6 * SECOND)
    table = world.hosts[0].broker.table
    assert {(number, table.owner(1, number)) for number in range(4)} == before
    etags = {(w.subject, w.etag) for node in world.nodes for w in node.etags._wanted.values()}
    assert {(subject, table.number(2, frames.subject_uid(subject))) for subject, _ in etags} == etags
    assert len([1 for frame in world.bus.sent if frame.id == pack(251, 127, frames.WHO)]) == 5
    assert world.bus.sent[-1] != Frame(pack(253, 127, 0), bytes(8))
    assert Frame(pack(253, 127, 0), bytes(8)) in world.bus.sent


@spec("CBIND-36", "CBIND-44")
def test_how_long_a_takeover_takes() -> None:
    world = World(6, 0, 0, 2)
    world.bus.run(5 * SECOND)
    assert world.active() == [0]
    assert world.hosts[1].broker.standby.complete
    world.crash(0)
    died = world.bus.now
    while not world.active():
        world.bus.run(10_000)
    assert 1_200_000 < world.bus.now - died < 1_700_000
    # Who comes back does not take it away.
    world.start(0)
    world.bus.run(5 * SECOND)
    assert world.active() == [1]
    assert world.hosts[0].broker.standby.complete


def alive(rank: int, state: int, table: BindingTable, current: int = 0) -> Frame:
    data = bytes([state, current]) + len(table).to_bytes(2, "big") + table.check().to_bytes(4, "big")
    return Frame(pack(251, rank, frames.ALIVE), data)


def make_active(rank: int = 1) -> tuple[BindingBroker, int]:
    broker = BindingBroker(rank, 0)
    now = 0
    while broker.standby.state != ACTIVE or broker._who_at is not None:
        now = broker.next_timeout()
        broker.handle_timeout(now)
        broker.frames_to_send(now)
    return broker, now


GET = Frame(pack(253, 3, frames.GET_ETAG), b"Speed\0\0\0")


def supplied(broker: BindingBroker, now: int) -> bool:
    return any(unpack(frame.id)[2] == frames.SUPPLY_ETAG for frame in broker.frames_to_send(now))


@spec("CBIND-35", "CBIND-39", "CBIND-40")
def test_nothing_new_is_given_before_the_current_standby_has_it() -> None:
    broker, now = make_active(0)
    other = BindingBroker(1, now)
    broker.receive(alive(1, STANDBY, other.table), now)
    broker.receive(GET, now)
    sent = broker.frames_to_send(now)
    assert all(unpack(frame.id)[2] in (frames.RECORD, frames.ALIVE) for frame in sent)
    for frame in sent:
        other.receive(frame, now)
    assert other.table.number(2, b"Speed\0\0\0") == 16383
    assert not supplied(broker, now)
    for frame in other.frames_to_send(now + 5000):
        broker.receive(frame, now + 5000)
    assert supplied(broker, now + 5000)
    # One that takes nothing is waited for a second and no longer.
    broker.receive(Frame(GET.id, b"Limit\0\0\0"), now + 10000)
    late = now + 10000
    while late < now + 900_000:
        broker.receive(alive(1, STANDBY, other.table), late)
        assert not supplied(broker, late)
        late += 200_000
    broker.receive(alive(1, STANDBY, other.table), now + 1_010_000)
    assert supplied(broker, now + 1_010_000)
    said = [frame for frame in broker.frames_to_send(now + 1_300_000) if unpack(frame.id)[2] == frames.ALIVE]
    assert said[0].data[:2] == bytes([ACTIVE, 0])


@spec("CBIND-34")
def test_nothing_new_is_given_before_it_is_stored() -> None:
    broker = BindingBroker(0, 0, persistent=True)
    now = 0
    while broker.standby.state != ACTIVE or broker._who_at is not None:
        now = broker.next_timeout()
        broker.handle_timeout(now)
        broker.frames_to_send(now)
    broker.receive(GET, now)
    assert not supplied(broker, now)
    assert broker.to_store() == (0, broker.table.to_bytes())
    broker.stored(1)
    assert broker.to_store() is None
    assert supplied(broker, now)


@spec("CBIND-37", "CBIND-38")
def test_two_active_brokers() -> None:
    empty, longer = BindingTable(), BindingTable()
    longer.give(2, b"x" * 8)
    for rank, state, table, gives_way in (
        (0, ACTIVE, empty, True),
        (2, ACTIVE, empty, False),
        (2, ACTIVE, longer, True),
        (0, CLAIMING, longer, False),
        (0, STANDBY, longer, False),
    ):
        broker, now = make_active(1)
        broker.receive(alive(rank, state, table), now)
        assert (broker.standby.state == STANDBY) == gives_way
        said = [frame for frame in broker.frames_to_send(now) if unpack(frame.id)[2] == frames.ALIVE]
        assert len(said) == (1 if state != STANDBY else 0)
        broker.receive(GET, now + 499_999)
        assert supplied(broker, now + 499_999) == (state == STANDBY)
        broker.receive(GET, now + 500_000)
        assert supplied(broker, now + 500_000) == (not gives_way)


@spec("CBIND-37")
def test_who_claims_gives_way() -> None:
    longer = BindingTable()
    longer.give(2, b"x" * 8)
    for rank, state, table, gives_way in (
        (7, ACTIVE, BindingTable(), True),
        (0, CLAIMING, BindingTable(), True),
        (2, CLAIMING, BindingTable(), False),
        (2, CLAIMING, longer, True),
    ):
        broker = BindingBroker(1, 0)
        now = 0
        while broker.standby.state != CLAIMING:
            now = broker.next_timeout()
            broker.handle_timeout(now)
            broker.frames_to_send(now)
        broker.receive(alive(rank, state, table), now)
        assert (broker.standby.state == STANDBY) == gives_way


@spec("CBIND-40")
def test_a_table_that_is_another_is_given_up() -> None:
    broker, now = make_active(0)
    for uid in (b"a" * 8, b"b" * 8):
        broker.receive(Frame(GET.id, uid), now)
    broker.frames_to_send(now)
    other = BindingBroker(1, now)
    other.table.give(2, b"c" * 8)
    for _ in range(20):
        now += 60_000
        for frame in other.frames_to_send(now):
            broker.receive(frame, now)
        for frame in broker.frames_to_send(now):
            other.receive(frame, now)
        broker.handle_timeout(now)
    assert other.standby.forks == 1
    assert other.table.to_bytes() == broker.table.to_bytes()
    assert other.to_store() == (0, broker.table.to_bytes())


@spec("CBIND-35")
def test_two_with_one_rank_are_noticed() -> None:
    broker, now = make_active(1)
    broker.receive(alive(1, ACTIVE, BindingTable()), now)
    assert broker.standby.same_rank == 1
    with pytest.raises(LimitError, match=r"rank is 8.*0 \.\. 7"):
        BindingBroker(8, 0)


# The table


entries = st.lists(
    st.tuples(st.just(1), st.integers(1, 9), st.integers(0, 126))
    | st.tuples(st.just(2), st.integers(1, 9), st.integers(100, 16383)),
    max_size=30,
)


@spec("CBIND-32", "CBIND-33")
@given(entries, st.data())
def test_the_table_against_a_plain_one(found: list[tuple[int, int, int]], data: st.DataObject) -> None:
    table = BindingTable()
    plain: dict[tuple[int, bytes], int] = {}
    for kind, name, number in found:
        uid = name.to_bytes(8, "big")
        plain = {key: value for key, value in plain.items() if key[0] != kind or (value != number and key[1] != uid)}
        plain[kind, uid] = number
        table.put(kind, uid, number)
        for (k, u), n in plain.items():
            assert table.number(k, u) == n
            assert table.owner(k, n) == u
    assert sum(map(len, table._numbers)) == sum(map(len, table._owners)) == len(plain)
    stored = table.to_bytes()
    assert len(stored) == ENTRY_BYTES * len(found)
    # Cut anywhere or damaged anywhere: what comes before it is restored.
    cut = data.draw(st.integers(0, len(stored)))
    again = BindingTable()
    assert again.restore(stored[:cut]) == cut - cut % ENTRY_BYTES
    assert again.check() == table.check(cut // ENTRY_BYTES)
    if stored:
        place = data.draw(st.integers(0, len(stored) - 1))
        bad = stored[:place] + bytes([stored[place] ^ data.draw(st.integers(1, 255))]) + stored[place + 1 :]
        assert again.restore(bad) == place - place % ENTRY_BYTES
    assert again.restore(stored) == len(stored)
    assert again.to_bytes(len(found) // 2) == stored[len(found) // 2 * ENTRY_BYTES :]


@spec("CBIND-21", "CBIND-26", "CBIND-32")
def test_numbers_are_given_in_order_and_once() -> None:
    table = BindingTable()
    table.put(1, b"n" * 8, 1)
    assert [table.give(1, uid_of(i)) for i in range(3)] == [0, 2, 3]
    table.put(1, uid_of(0), 50)  # 0 is free again
    assert table.give(1, uid_of(9)) == 0
    given = [table.give(2, uid_of(i)) for i in range(16284)]
    assert given == list(range(16383, 99, -1))
    assert table.give(2, uid_of(20000)) is None


@spec("CBIND-32")
def test_the_table_has_an_end() -> None:
    table = BindingTable()
    for i in range(MAX_ENTRIES):
        table.put(1, b"n" * 8, i % 2)
    assert table.give(1, b"m" * 8) is None
    with pytest.raises(LimitError, match=r"32769.*32768"):
        table.put(1, b"m" * 8, 5)
