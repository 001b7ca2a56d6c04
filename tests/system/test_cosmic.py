"""All parts of COSMIC together on one bus: names, time, three classes of channels, a mapping, and everything that can
go wrong, one after the other. In stepped time, so that every run is the same run; only the last test is in real time,
and asserts nothing of it."""

from spec_helpers import spec
from system.cosmic_host import BrokerHost, Host

from vicinal.cosmic.binding_standby import ACTIVE
from vicinal.cosmic.calendar import Calendar
from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.faults import BUS_OFF, Budgets
from vicinal.cosmic.frame import Frame
from vicinal.cosmic.hrt import HrtChannel
from vicinal.cosmic.identifier import unpack
from vicinal.cosmic.mapping import Mapping
from vicinal.cosmic.mapping_toml_cpython import loads
from vicinal.cosmic.node import Node
from vicinal.event import Event
from vicinal_hw.can.bus import INTACT, LAST_BIT, Bus
from vicinal_hw.can.stepped import Simulation

BITRATE = 500_000
SECOND = 1_000_000
SUBJECTS = ["Brake", "Steering angle of the front axle", "Speed", "Notes"]
MAPPING = """
[[message]]
id = 12345
subject = "Speed"
fields = [
    { name = "license_no", bytes = "0..6", type = "string" },
    { name = "rate", bytes = 7, type = "double", unit = "km/h" },
]
"""


def mapping() -> Mapping:
    return loads(MAPPING)


def balanced(node: Node) -> bool:
    count = node.counters
    out = sum(number for what, number in count.items() if what.startswith("out dropped: "))
    dropped = sum(number for what, number in count.items() if what.startswith("in dropped: "))
    heard = count.get("in delivered", 0) + node.held + count.get("in fragments", 0) + count.get("in system", 0)
    return (
        count.get("out accepted", 0) == count.get("out sent", 0) + node.stored + out
        and count.get("in received", 0) + count.get("in reassembled", 0) == heard + dropped
    )


class Town:
    """Two brokers, a clock master, five hosts."""

    def __init__(self) -> None:
        self.victim: int | None = None  # TxNode whose frames are destroyed
        self.simulation = Simulation(Bus(BITRATE, self._omit))
        self.brokers = [BrokerHost(self.simulation, rank) for rank in (0, 1)]
        self.master = Host(self.simulation, 1, [], master=True)
        self.hosts = [Host(self.simulation, number, SUBJECTS) for number in range(2, 7)]
        self.published: dict[str, list[object]] = {subject: [] for subject in SUBJECTS}

    def _omit(self, frame: Frame, attempts: int, start: int) -> int:
        return LAST_BIT if self.victim is not None and unpack(frame.id)[1] == self.victim else INTACT

    def run(self, duration: int) -> None:
        self.simulation.run(self.simulation.now + duration)

    def every(self, period: int, times: int, action) -> None:  # type: ignore[no-untyped-def]
        for turn in range(times):
            self.simulation.call_at(self.simulation.now + turn * period, lambda turn=turn: action(turn))

    def open(self) -> None:
        """Hosts 0 and 1 have slots, 1 and 2 speed, 2 and 3 long notes; everybody hears everything."""
        calendar = Calendar(BITRATE, precision=200)
        brake = calendar.reserve("Brake", 20_000, 8, 1, tx_node=self.hosts[0].node.tx_node)
        steering = calendar.reserve("Steering", 40_000, 20, 1, tx_node=self.hosts[1].node.tx_node)
        message = mapping().of_subject("Speed")
        self.channels = []
        for place, host in enumerate(self.hosts):
            names = [host.etags[subject] for subject in SUBJECTS]
            made = [
                HrtChannel(host.node, names[0], brake, Raw),
                HrtChannel(host.node, names[1], steering, Raw),
                SrtChannel(host.node, names[2], 20_000, codec=message, fragmented=False),
                NrtChannel(host.node, names[3]),
            ]
            for subject, channel, speakers in zip(SUBJECTS, made, [(0,), (1,), (1, 2), (2, 3, 4)]):
                if place in speakers:
                    channel.announce(*host.fails(subject))
                if channel.slot is None or place not in speakers:
                    channel.subscribe(*host.hears(subject))
            host.node.budgets = Budgets(2_000, 500)
            host.station.update()
            self.channels.append(made)

    def say(self, place: int, subject: str, event: object) -> None:
        channel = self.channels[place][SUBJECTS.index(subject)]
        self.published[subject].append(event)
        self.hosts[place].publish(channel, event)

    def heard(self, place: int, subject: str) -> list[object]:
        return [event for about, event, _ in self.hosts[place].received if about == subject]

    def speed(self, place: int, turn: int) -> None:
        self.say(place, "Speed", Event("Speed", [("license_no", f"{place}D{turn:05}"), ("rate", float(turn % 200))]))

    def note(self, place: int, turn: int) -> None:
        event = Event("Notes", [("text", f"{turn} {'long enough ' * 60}")], producer=f"host-{place}", seq=turn)
        self.say(place, "Notes", event)


@spec("COSMIC-31", "COSMIC-34", "COSMIC-35")
def test_a_town() -> None:
    """One story: each step finds what the steps before have left."""
    town = Town()
    town.run(8 * SECOND)
    town.open()
    for step in (
        names_are_unique_and_the_same_for_all,
        one_time_on_clocks_that_drift,
        all_classes_of_channels_at_once,
        a_babbling_node_is_not_heard,
        the_standby_takes_over_and_gives_no_name_twice,
        a_node_that_was_bus_off_has_lost_nothing,
        the_books_balance_and_nothing_came_twice,
    ):
        step(town)


def names_are_unique_and_the_same_for_all(town: Town) -> None:
    everybody = [town.master, *town.hosts]
    assert all(host.ready for host in everybody)
    assert len({host.node.tx_node for host in everybody}) == 6
    for subject in ["TimeSync", *SUBJECTS]:
        assert len({host.etags[subject] for host in town.hosts}) == 1
    assert len(set(town.hosts[0].etags.values())) == 5
    assert town.brokers[0].broker.standby.state == ACTIVE
    assert len(town.brokers[0].broker.table) == len(town.brokers[1].broker.table) == 6 + 5


def one_time_on_clocks_that_drift(town: Town) -> None:
    now = town.simulation.now
    assert town.master.clock.leading
    assert {host.drifting.ppm for host in town.hosts} != {0}
    times = [host.clock.local_to_bus(host.now) for host in [town.master, *town.hosts]]
    assert all(host.clock.in_sync(host.now) for host in town.hosts)
    assert max(times) - min(times) <= 200
    assert abs(times[0] - now) > SECOND  # the master's time, not the simulation's


def all_classes_of_channels_at_once(town: Town) -> None:
    for host in town.hosts:
        host.lost.clear()
        host.failed.clear()
    town.every(20_000, 50, lambda turn: town.say(0, "Brake", turn.to_bytes(8, "big")))
    town.every(40_000, 25, lambda turn: town.say(1, "Steering angle of the front axle", turn.to_bytes(20, "big")))
    town.every(7_000, 140, lambda turn: town.speed(1 + turn % 2, turn))
    town.every(120_000, 8, lambda turn: town.note(2 + turn % 2, turn))
    town.run(SECOND)
    town.run(200_000)
    for place in range(1, 5):
        assert town.heard(place, "Brake") == town.published["Brake"]
    for place in (0, 2, 3, 4):
        assert town.heard(place, SUBJECTS[1]) == town.published[SUBJECTS[1]]
    for subject in ("Speed", "Notes"):
        for place, channels in enumerate(town.channels):
            own = [] if not channels[SUBJECTS.index(subject)].announced else [place]
            wanted = [event for event in town.published[subject] if not _is_of(event, own)]
            assert sorted(map(repr, town.heard(place, subject))) == sorted(map(repr, wanted))
    assert town.heard(4, "Speed")[0]["rate"] == 0
    assert all(reason == "stale" for host in town.hosts for _, reason, _ in host.failed)
    assert all(reason == "missing" for host in town.hosts for _, reason in host.lost)


def _is_of(event: object, places: list[int]) -> bool:
    assert isinstance(event, Event)
    return any(event.producer == f"host-{place}" or event.get("license_no", "-")[0] == str(place) for place in places)


def a_babbling_node_is_not_heard(town: Town) -> None:
    before = len(town.heard(0, "Notes"))
    channel = town.channels[4][3]

    def babble(turn: int) -> None:
        while town.hosts[4].node.stored < 3:
            town.hosts[4].publish(channel, Event("Notes", [("noise", 1)], producer="babbler", seq=turn))

    town.every(300, 3_000, babble)
    town.every(20_000, 45, lambda turn: town.say(0, "Brake", (1000 + turn).to_bytes(8, "big")))
    town.run(SECOND)
    counted = town.hosts[0].node.counters["in dropped: over budget"]
    assert counted > 1_000
    assert len(town.heard(0, "Notes")) - before < 500
    assert [(1000 + turn).to_bytes(8, "big") for turn in range(45)] == town.heard(1, "Brake")[-45:]


def the_standby_takes_over_and_gives_no_name_twice(town: Town) -> None:
    old = {host.node.tx_node for host in [town.master, *town.hosts]}
    town.brokers[0].kill()
    late = Host(town.simulation, 9, ["Speed", "Brand new"])
    town.run(6 * SECOND)
    assert town.brokers[1].broker.standby.state == ACTIVE
    assert late.ready
    assert late.node.tx_node not in old
    assert late.etags["Speed"] == town.hosts[0].etags["Speed"]
    assert late.etags["Brand new"] not in town.hosts[0].etags.values()
    town.hosts.append(late)
    town.channels.append([])


def a_node_that_was_bus_off_has_lost_nothing(town: Town) -> None:
    host = town.hosts[2]
    states: list[str] = []

    def changed(state: str, now: int) -> None:
        states.append(state)
        if state == BUS_OFF:
            town.victim = None

    host.station.recovery.on_change = changed
    before = len(town.heard(0, "Speed"))
    town.victim = host.node.tx_node
    for turn in range(1000, 1040):
        town.speed(2, turn)
    town.run(SECOND)
    assert states[-2:] == [BUS_OFF, "active"]
    speeds = [event["license_no"] for event in town.heard(0, "Speed")[before:]]
    assert speeds == [f"2D{turn:05}" for turn in range(1000, 1040)]


def the_books_balance_and_nothing_came_twice(town: Town) -> None:
    town.run(2 * SECOND)
    for host in [town.master, *town.hosts, *town.brokers]:
        assert balanced(host.node), host.node.counters
        assert host.node.stored == 0 or not getattr(host, "alive", True)
        assert "sent unknown" not in host.node.counters
    for place in range(5):
        for subject in SUBJECTS:
            heard = [repr(event) for event in town.heard(place, subject) if "babbler" not in repr(event)]
            assert len(heard) == len(set(heard))
