"""`vicinal can plan`: the calendar of a bus as a table and a picture, and what does not fit."""

from pathlib import Path

import pytest
from can_helpers import call, lines, refused

from vicinal.cosmic.calendar import Calendar
from vicinal_tools.can.plan import picture

PLAN = """
[bus]
bitrate = 500_000
precision = 20
[[channel]]
name = "Slow"
period = 20_000
size = 8
omissions = 1
[[channel]]
name = "Brake"
period = 5_000
size = 4
omissions = 2
node = 3
"""


def test_plan_draws_the_calendar(tmp_path: Path) -> None:
    file = tmp_path / "channels.toml"
    file.write_text(PLAN)
    result = call("plan", str(file))
    assert result.exit_code == 0, result.output
    assert "500,000 bit/s" in result.stdout
    found = lines(call("plan", str(file), "--json"))[0]
    calendar = Calendar(500_000, 20)
    slots = [calendar.reserve("Slow", 20_000, 8, 1), calendar.reserve("Brake", 5_000, 4, 2, 3)]
    assert [(one["phase"], one["length"], one["latency"]) for one in found["channels"]] == [
        (slot.phase, slot.length, slot.latency) for slot in slots
    ]
    assert (found["cycle"], found["reserved"], found["refused"]) == (20_000, calendar.reserved(), [])
    assert found["slots"] == [[start, slot.channel] for start, slot in calendar.entries()]


@pytest.mark.parametrize("end", [None, 5000, 777])
def test_the_picture_has_a_mark_where_a_slot_is(end: int | None) -> None:
    calendar = Calendar(500_000, 20)
    slots = [calendar.reserve("Slow", 20_000, 8, 1), calendar.reserve("Brake", 5_000, 4, 2)]
    rows = picture(calendar, 117, end)
    shown = end or calendar.cycle
    for slot, row in zip(slots, rows):
        marks = row[17:]
        assert row.startswith(slot.channel)
        assert len(marks) == 100
        for at, mark in enumerate(marks):
            middle = (at + 0.5) * shown / 100
            inside = (middle - slot.phase) % slot.period < slot.length
            edge = min((middle - slot.phase) % slot.period, (middle - slot.phase - slot.length) % slot.period)
            if edge > shown / 100:
                assert (mark == "█") == inside, (at, row)
    assert rows[-1].endswith(f"{shown:,} us")


def test_plan_says_which_channel_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "channels.toml"
    file.write_text(PLAN + '[[channel]]\nname = "[bold]"\nperiod = 5_000\nsize = 8\nomissions = 3\n')
    result = call("plan", str(file))
    assert result.exit_code == 1
    assert "[bold]" in result.stdout
    assert result.stderr.startswith(f"{file}: channel '[bold]' does not fit: ")
    found = lines(call("plan", str(file), "--json"), code=1)[0]
    assert [one["name"] for one in found["refused"]] == ["[bold]"]
    assert [one["name"] for one in found["channels"]] == ["Slow", "Brake"]


def test_plan_finds_a_better_order(tmp_path: Path) -> None:
    """The slow channel takes the only phase that the other can have."""
    file = tmp_path / "channels.toml"
    file.write_text(PLAN.replace("node = 3", "latest = 0"))
    result = call("plan", str(file))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "In another order all of them fit: Brake, Slow"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "[bus]: bitrate is missing"),
        ("[bus]\nbitrate = 500_000\n", "want at least one [[channel]]"),
        (PLAN.replace("500_000", "2_000_000"), "[bus]: bitrate is 2000000, want 1 .. 1000000"),
        (PLAN.replace("node = 3", "node = 200"), "[[channel]] 2 'Brake': node is 200, want 0 .. 127"),
        (PLAN.replace("size = 4", "size = 99"), "size is 99, want 0 .. 56"),
        (
            PLAN.replace("omissions = 2", "omission = 2"),
            "[[channel]] 2 'Brake': omission is not known here: want name, ",
        ),
        (PLAN.replace("[bus]", "[buss]"), "[buss] is not known: want [bus] and [[channel]]"),
        ("nonsense", "not TOML"),
    ],
)
def test_plan_refuses_kindly(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "channels.toml"
    file.write_text(text)
    assert said in refused("plan", str(file))
    assert "No such file" in refused("plan", str(file) + "x")
