"""The peer benchmark, tiny, with each broker: nothing is lost, and what is counted is what was sent."""

from pathlib import Path

import pytest

from vicinal.filter import Filter
from vicinal.wire import decode
from vicinal_tools.bench.peers import events, figures, scenarios, systems, workers


def tiny(name: str) -> scenarios.Scenario:
    """10 filters each would be another test of the same."""
    one = scenarios.SCENARIOS[name]
    return one._replace(
        most=min(one.most, 20_000 if one.publishers > 1 else 1_000), filters=min(one.filters, 1), seconds=60
    )


@pytest.mark.parametrize("system", systems.SYSTEMS)
@pytest.mark.parametrize(
    "name",
    ["1to1", "1to1-mixed", "fanin", "fanin-mixed", "fanout", "fanout-mixed", "content", "content-mixed", "latency"],
)
def test_nothing_is_lost(name: str, system: str, tmp_path: Path) -> None:
    if scenarios.SCENARIOS[name].is_ours and system != "vicinal":
        pytest.skip("Vicinal alone")
    if systems.missing((system,)):
        pytest.skip(f"{system} is not installed: tools/setup.sh installs it on Debian")
    scenario = tiny(name)
    if scenario.pace:
        scenario = scenario._replace(most=100)
    done = scenarios.run(scenario, system, tmp_path, keep=True)
    assert done.events == scenario.most
    assert done.deliveries == done.events * (scenario.filters or scenario.subscribers)
    assert len(done.late) == (done.events if scenario.timed else 0)
    assert all(late > 0 for late in done.late)
    assert done.broker_cpu > 0
    assert done.clients_cpu > 0
    assert done.memory > 1 << 20
    sent = [plain(producer, scenario) for producer in range(scenario.publishers)]
    for number, came in enumerate(done.kept):
        if scenario.filters and system == "vicinal":
            check([[data for data in sent[0] if step(data) == number]], came)
        else:
            check(sent, came)


def step(data: bytes) -> int:
    is_short = len(data) < events.SIZE
    return events.SHORT_STEP if is_short else data[events.STEP_AT]


def plain(producer: int, scenario: scenarios.Scenario) -> list[bytes]:
    """What a publisher sends, with nothing around it."""
    count = scenario.most // scenario.publishers
    return events.packets(events.producer(producer), lambda _: (b"", b""), count, scenario.mixed)


def check(sent: list[list[bytes]], came: bytes) -> None:
    """Every event came once, as it was sent, in the order of its producer; between them is little, and no event."""
    waiting = {decode(some[0]).producer: iter(some) for some in sent}
    at = 0
    for _ in range(sum(map(len, sent))):
        start = came.index(b"\x85\x65Speed", at, at + 40)
        producer = came[start + 8 : start + 20].decode()
        event = next(waiting[producer])
        assert came[start : start + len(event)] == event
        at = start + len(event)
    assert len(came) - at < 5


def test_durable(tmp_path: Path) -> None:
    done = scenarios.run(tiny("durable"), "vicinal", tmp_path)
    assert (done.events, done.deliveries, len(done.late)) == (1_000, 1_000, 1_000)
    assert done.late == sorted(done.late)


def test_events_have_one_size_and_their_own_numbers() -> None:
    made = events.packets(events.producer(7), lambda size: (b"<", b">"), 300)
    assert {len(data) for data in made} == {events.SIZE + 2}
    read = [decode(data[1:-1]) for data in made]
    assert [event.seq for event in read] == [events.FIRST_SEQ + number for number in range(300)]
    assert {event.producer for event in read} == {events.producer(7)}


def test_mixed_events_are_as_short_as_is_said() -> None:
    made = events.packets(events.producer(7), lambda size: (size.to_bytes(1, "big"), b""), 1_000, mixed=True)
    short = [data[0] == events.SIZE - events.SHORTER for data in made]
    assert [len(data) - 1 for data in made] == [data[0] for data in made]
    assert short == events.are_short(1_000)
    assert 150 < sum(short) < 250
    assert [decode(data[1:]).seq for data in made] == [events.FIRST_SEQ + number for number in range(1_000)]


@pytest.mark.parametrize("connections", [1, 7])
def test_how_many_were_short(connections: int) -> None:
    """However far the publishers came, in turns."""
    plan = workers.Publishing("vicinal", 0, connections, 700, 10, 0, 0, 0, True)
    each = plan.most // connections
    flags = [events.are_short(each)[at : at + 10] for at in range(0, each, 10) for _ in range(connections)]
    for writes in range(len(flags) + 1):
        assert plan.count_short(10 * writes) == sum(map(sum, flags[:writes]))


def test_short_events_are_for_who_wants_their_step() -> None:
    made = [decode(data) for data in events.packets(events.producer(0), lambda _: (b"", b""), 1_000, mixed=True)]
    for variant in range(10):
        for other in (events.SHORT_STEP - 1, events.SHORT_STEP, events.SHORT_STEP + 1):
            condition = Filter(events.condition(other, variant))
            found = [condition.matches(event) for event, is_short in zip(made, events.are_short(1_000)) if is_short]
            assert set(found) == {other == events.SHORT_STEP}


def test_the_byte_says_what_the_filters_say() -> None:
    """Who looks at the byte wants the same events as who subscribes."""
    made = events.packets(events.producer(0), lambda _: (b"", b""), events.STEPS)
    read = [decode(data) for data in made]
    assert sorted(data[events.STEP_AT] for data in made) == list(range(events.STEPS))
    for step in range(0, events.STEPS, 9):
        for variant in (0, 9):
            condition = Filter(events.condition(step, variant))
            assert [condition.matches(event) for event in read] == [data[events.STEP_AT] == step for data in made]


def test_a_thousand_filters_are_a_thousand() -> None:
    assert len({events.condition(step, variant) for step in range(events.STEPS) for variant in range(10)}) == 1_000


def test_loss_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a broker had swallowed the last event, and delivered one twice."""
    run = scenarios._run
    for wrong in (-1, 1):

        def other(*arguments: object, wrong: int = wrong) -> tuple[workers.Published, workers.Received, float]:
            published, received, cpu = run(*arguments)  # type: ignore[arg-type]
            return published, received._replace(deliveries=[received.deliveries[0] + wrong]), cpu

        monkeypatch.setattr(scenarios, "_run", other)
        outcome = scenarios.rounds(tiny("1to1"), ("vicinal",), 1, tmp_path)["vicinal"]
        assert outcome.runs == []
        assert "deliveries to connection 0, want 1,000" in outcome.lost[0]


@pytest.mark.parametrize(
    ("name", "ours", "peers", "met"),
    [
        ("1to1", 30.0, (10.0, 99.0), True),
        ("1to1", 29.0, (10.0, 1.0), False),
        ("content", 120.0, (10.0, 24.0), True),
        ("content", 120.0, (10.0, 25.0), False),
        ("fanout-paced", 1.0, (1.01, 9.0), True),
        ("fanout-paced", 1.0, (0.99, 9.0), False),
    ],
)
def test_goals(name: str, ours: float, peers: tuple[float, float], met: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliveries a second in floods, and their CPU when paced."""

    def outcome(figure: float) -> scenarios.Outcome:
        return scenarios.Outcome([scenarios.Run(1, 1, 1 / figure, figure * 1e-6, 0, 1 << 20, [], [])], [])

    found = dict(zip(systems.SYSTEMS, map(outcome, (ours, *peers))))
    monkeypatch.setattr(figures, "rounds", lambda *_: found)
    judged = {one[0]: one for one in figures.JUDGED}
    row = figures._beside(*judged[name], 1)
    assert row.met is met
