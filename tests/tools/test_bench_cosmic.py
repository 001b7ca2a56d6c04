"""The benchmark of COSMIC finds what it looks for: in short runs nothing is missed, and where more is destroyed than
was declared, misses are seen and said."""

import pytest

from vicinal.cosmic.frame import Frame
from vicinal.cosmic.slot import Slot
from vicinal_hw.can.bus import INTACT, LAST_BIT
from vicinal_tools.bench import cosmic
from vicinal_tools.bench.cosmic import faults, hard, soft


@pytest.mark.parametrize("bitrate", hard.BITRATES)
def test_no_slot_is_missed(bitrate: int) -> None:
    found = hard.run(bitrate, 500, seed=1)
    assert found.slots >= 500
    assert (found.missed, found.above, found.misses) == (0, 0, [])
    assert 0 < found.worst <= found.bound
    assert found.destroyed > 0
    assert found.babbled > 0
    assert found.reserved > 0.94
    assert found.load > 0.99


def test_more_omissions_than_declared_are_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    class Worse:
        destroyed = 0

        def __init__(self, seed: int, slots: dict[int, Slot]) -> None:
            self.slots = slots

        def __call__(self, frame: Frame, attempts: int, start: int) -> int:
            """Now and then a frame once more than its slot has room for."""
            slot = self.slots.get(frame.id)
            if slot is None or start // 1000 // slot.period % 20 != 3:
                return INTACT
            return LAST_BIT if attempts <= slot.omissions else INTACT

    monkeypatch.setattr(hard, "Disturbance", Worse)
    found = hard.run(1_000_000, 1_000, seed=1)
    assert found.missed > 0
    assert "omissions" in " ".join(found.misses)
    row = next(cosmic._hard_rows(1_000, [found._replace(bitrate=each) for each in hard.BITRATES]))
    assert row.met is False


def test_a_window_too_short_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is what is measured against: a calendar that reckons too little is found out."""
    real = hard.calendar_of(1_000_000)
    for slot in real.slots:
        slot.window = slot.window * 3 // 5
    monkeypatch.setattr(hard, "calendar_of", lambda bitrate: real)
    found = hard.run(1_000_000, 1_000, seed=1)
    assert found.missed > 0


def test_soft_real_time_beside_the_ideal() -> None:
    found = soft.late(500_000, soft.BURSTS, 0.9, 300, seed=1)
    assert found.events == 600
    assert found.ideal > 0
    shares = soft.shares(1_000_000, 1)
    assert shares.speaking < shares.silent <= shares.without
    row = cosmic._late_row(0.5, {"bursts": [soft.Late(1000, 106, 100)]})
    assert (row.ratio, row.met) == ("1.06 x", False)


def test_bus_off_told_and_asked() -> None:
    told, asked = faults.bus_off(500_000, True), faults.bus_off(500_000, False)
    assert told.detected == 0 < asked.detected <= 10_000
    assert told.back < asked.back <= 50_000
    assert told.lost == asked.lost == 0
