"""The agent on both interpreters, with laws of its rules, and everything broken once on purpose."""

import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import run_suite
from broken import broken_copy
from edge.agent import core_suite, journal_suite, rom_suite, slots_suite, update_suite, ways_suite
from hypothesis import given
from hypothesis import strategies as st

from vicinal.event import Event
from vicinal_edge.agent.rules import Rule
from vicinal_tools.stage import compile_file, stage_agent

ROOT = Path(__file__).parents[3]
MICROPYTHON = ROOT / ".tools" / "micropython" / "micropython"
SENTENCES = {
    "test_events_go_up_in_order_with_identity_and_time": ["AGENT-1", "AGENT-2", "AGENT-3"],
    "test_an_outage_and_a_power_cut_lose_nothing": ["AGENT-1", "AGENT-3"],
    "test_a_full_gateway_is_asked_again_and_an_unwilling_one_is_not": ["AGENT-3"],
    "test_rules": ["AGENT-4", "AGENT-5"],
    "test_sets_of_rules": ["AGENT-6"],
    "test_rules_are_pushed_down": ["AGENT-7"],
    "test_health": ["AGENT-8"],
    "test_clock": ["AGENT-9"],
    "test_power_cut_at_every_write": ["AGENT-1"],
    "test_images_are_tried_confirmed_and_replaced": ["AGENT-29"],
    "test_files_become_an_image": ["AGENT-30"],
    "test_an_image_that_is_cut_off_goes_on": ["AGENT-30", "AGENT-23"],
    "test_names_and_sizes_that_no_image_has": ["AGENT-30", "AGENT-20"],
    "test_an_image_counts_only_with_its_hash": ["AGENT-29"],
    "test_power_cut_at_every_write_of_an_image": ["AGENT-29"],
    "test_only_what_is_wanted_goes_up": ["AGENT-15"],
    "test_what_is_wanted_is_known_after_an_outage_and_of_a_gateway_without": ["AGENT-15", "AGENT-16"],
    "test_a_sensor_on_a_bus_and_in_the_air": ["AGENT-10", "AGENT-11"],
    "test_what_is_heard_goes_on_but_not_back": ["AGENT-12"],
    "test_a_bus_that_is_away_or_full_or_gone": ["AGENT-13"],
    "test_a_release_comes_runs_and_is_confirmed": ["AGENT-19", "AGENT-21", "AGENT-24", "AGENT-27"],
    "test_what_is_signed_and_not_in_order": ["AGENT-17"],
    "test_signatures": ["AGENT-18"],
    "test_wrong_key": ["AGENT-18"],
    "test_tampered_manifest": ["AGENT-18"],
    "test_wrong_board_and_bytecode": ["AGENT-20"],
    "test_older_versions_and_going_back": ["AGENT-20"],
    "test_too_large": ["AGENT-17", "AGENT-20"],
    "test_tampered_file": ["AGENT-21"],
    "test_truncated_and_lengthened_files": ["AGENT-21"],
    "test_events_go_first": ["AGENT-22", "COAP-3"],
    "test_what_is_there_is_not_fetched_again": ["AGENT-21", "AGENT-23"],
    "test_the_gateway_goes_half_way": ["AGENT-23"],
    "test_a_full_file_system": ["AGENT-23"],
    "test_ports_that_leave_no_room_in_memory": ["AGENT-28"],
    "test_it_never_reaches_the_network": ["AGENT-24", "AGENT-25"],
    "test_a_part_of_it_never_works": ["AGENT-24"],
    "test_hang_before_the_loop": ["AGENT-24", "AGENT-25"],
    "test_an_order_that_is_no_version": ["AGENT-26"],
    "test_a_release_by_cable_that_is_on_trial_is_left_alone": ["AGENT-21"],
    "test_it_is_told": ["AGENT-26", "AGENT-27"],
    "test_without_slots_or_key_it_says_why": ["AGENT-18", "AGENT-26"],
}
if os.environ.get("VICINAL_SOAK"):
    update_suite.EVERY = 1
SUITES = (core_suite, journal_suite, rom_suite, slots_suite, update_suite, ways_suite)
TESTS = [
    pytest.param(suite, name, marks=[pytest.mark.spec(*SENTENCES.get(name, []))], id=name)
    for suite in SUITES
    for name in sorted(vars(suite))
    if name.startswith("test_")
]


@pytest.mark.parametrize(("suite", "name"), TESTS)
def test_on_cpython(suite: object, name: str) -> None:
    getattr(suite, name)()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What goes onto a device, and the emulated flash."""
    found: Path = tmp_path_factory.mktemp("agent")
    stage_agent(found, [Path(str(vars(suite)["__file__"])) for suite in SUITES])
    for name in ("flash/__init__", "flash/emulated"):
        source = ROOT / "hw" / "vicinal_hw" / f"{name}.py"
        compile_file(source, found / "lib" / "vicinal_hw" / f"{name}.mpy", name)
    return found


@pytest.mark.micropython
@pytest.mark.parametrize("suite", SUITES)
def test_on_micropython(tree: Path, suite: object) -> None:
    file = str(vars(suite)["__file__"])
    done = subprocess.run(
        [str(MICROPYTHON), "-X", "heapsize=4M", run_suite.__file__, file],
        env={**os.environ, "MICROPYPATH": f".frozen:{tree / 'lib'}"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    count = len([name for name in vars(suite) if name.startswith("test_")])
    assert done.stdout.endswith(f"{count} passed, 0 failed\n"), done.stdout + done.stderr


def test_the_tree_of_an_agent_is_small(tree: Path) -> None:
    assert sum(path.stat().st_size for path in tree.rglob("*.mpy")) < 150 * 1024


@pytest.mark.parametrize(
    ("file", "old", "new", "red"),
    [
        ("rules", "self._last is None or (", "(", "test_rules"),
        ("rules", "< self.delta", "<= self.delta", "test_rules"),
        ("rules", "if self.every and", "if False and", "test_rules"),
        ("core", "self._retry_at = now + min(wait, _RETRY_MOST)", "pass", "test_a_full_gateway"),
        (
            "core",
            'self._count("delivered" if self.journal.done(seq)',
            'self._count("delivered" if True',
            "test_events_go_up",
        ),
        ("core", "self.rules.set(rules)", "pass", "test_rules_are_pushed_down"),
        ("core", "self.ways.swap(self.rules.rules, event, stamped)", "pass", "test_a_sensor_on_a_bus"),
        ("core", "self.wanted.by_somebody(event, self.clock, now)", "True", "test_only_what_is_wanted"),
        ("core", "request.due = now", "pass", "test_what_is_wanted_is_known"),
        ("rules", "rule._last = None", "pass", "test_only_what_is_wanted"),
        ("ways", "each.port != port and", "", "test_what_is_heard"),
        ("ways", "identity[0] == name or", "", "test_what_is_heard"),
        ("ways", 'book.get("port failed", 0) + stored', "0", "test_a_bus_that"),
        ("mailbox", "_rank(first) < _rank(inside) and", "False and", "test_a_mailbox"),
        ("guard", "self.boots >= SAFE_AFTER", "False", "test_boots"),
        ("clock", "max(self._last, now + self._offset)", "now + self._offset", "test_clock"),
        ("journal", "self._next = self._reserved\n", "self._next = self._acked + 1\n", "test_power_cut"),
        ("journal", "crc32(record[:-4], serial) & 0xFFFFFFFF", "crc32(record[:-4]) & 0xFFFFFFFF", "test_power_cut"),
        ("journal", "return  # torn", "break  # torn", "test_power_cut"),
        ("journal", "self.dropped += kept - self._held", "pass", "test_the_oldest"),
        ("journal", "self._held = self._count(pending)", "self._held = sum(pending)", "test_power_cut"),
        ("journal", "self.flash.erase(sector)\n", "", "test_power_cut"),
        ("slots", "self.tries >= TRIES and", "self.tries > TRIES and", "test_what_is_never_confirmed"),
        ("slots", "min(self.tries + 1, TRIES)", "self.tries + 1", "test_with_nothing"),
        ("slots", 'or _record(self.disk.read(self._file + ".new"))', "", "test_power_cut_at_every_write"),
        ("slots", 'found.get("sum") != _sum(found)', "False", "test_records"),
        ("slots", "if found != tuple(", "if found[0] < 0 and found != tuple(", "test_the_good_one"),
        ("slots", "self._write(self._file, ", "self.disk.write(self._file, ", "test_power_cut_at_every_write"),
        ("slots", "self.rom.digest(slot, image[0]) == image[1]", "True", "test_an_image_counts"),
        ("update_rom", "self._view[self._start : start] != self._head", "False", "test_an_image_that_is_cut"),
        ("update_rom", "over and not self._is_blank(self._start, (number + 1) * block)", "False", "test_files_become"),
        ("update_rom", "not over and not self._is_blank(self._at, self._at + block)", "False", "test_files_become"),
        ("update_rom", "self.write(held)", "pass", "test_an_image_that_is_cut"),
        ("update", "        if not good:\n", "        if False:\n", "test_wrong_key"),
        ("update", "if digest != file.digest:", "if False:", "test_tampered_file"),
        ("update", "self._size > file.size or size != file.size", "False", "test_truncated"),
        ("update", "if room > free:", "if False:", "test_too_large"),
        ("update", "request.gives_way = True", "pass", "test_events_go_first"),
        ("update", "if files.digest(file.name) == known:", "if False:", "test_what_is_there"),
        ("update", "if self.id == self._tried:", "if False:", "test_hang"),
        ("updater", "and works and reached", "and works", "test_it_never_reaches"),
        ("updater", "and works and reached", "and reached", "test_a_part_of_it"),
        ("updater", "order == self._record.get", "None == self._record.get", "test_it_is_told"),
        ("updater", "self._ask_at if anew else now + self._retry", "None", "test_a_full_file_system"),
        ("updater", "self._change(lean=True, ", "self._change(", "test_ports_that"),
        ("updater", ">= _MAX_LEAN", "> 99", "test_ports_that"),
        ("updater", "record if isinstance(record, dict) else {}", "{}", "test_hang"),
    ],
)
def test_the_suites_can_fail(tmp_path: Path, file: str, old: str, new: str, red: str) -> None:
    """One thing broken in a copy, and the test that must notice."""
    broken_copy(ROOT / "edge/vicinal_edge", tmp_path, f"agent/{file}.py", old, new)
    suites = {"slots": (slots_suite,), "update": (update_suite,), "updater": (update_suite,)}.get(file, SUITES)
    suite = next(one for one in suites if any(name.startswith(red) for name in vars(one)))
    name = next(name for name in vars(suite) if name.startswith(red))
    path = [str(tmp_path), str(Path(__file__).parent)]
    program = f"import sys; sys.path[:0] = {path!r}; import {suite.__name__.rpartition('.')[2]} as s; s.{name}()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" in done.stderr, done.stdout


speeds = st.lists(st.tuples(st.integers(0, 400), st.floats(0, 250, width=32)), min_size=1, max_size=60)


@given(speeds, st.sampled_from([0.1, 0.5, 1.0, 5.0]))
def test_who_holds_the_last_value_is_never_off_by_a_delta(steps: list[tuple[int, float]], delta: float) -> None:
    rule, now, held = Rule("Speed", None, "rate", delta), 0, math.nan
    for wait, value in steps:
        now += wait
        if rule.offer(Event("Speed", [("rate", value)]), now) is not None:
            held = value
        assert abs(held - value) < delta


@given(speeds, st.integers(1, 500), st.sampled_from([None, 1.0]))
def test_the_rate_is_kept_and_the_last_value_arrives(
    steps: list[tuple[int, float]], every: int, delta: float | None
) -> None:
    rule, now, sent = Rule("Speed", None, "rate", delta, False, every), 0, []
    for wait, value in steps:
        end = now + wait
        due = rule.next_timeout()
        if due is not None and due <= end:
            event = rule.handle_timeout(due)
            assert event is not None
            sent.append((due, event["rate"]))
        now = end
        if rule.offer(Event("Speed", [("rate", value)]), now) is not None:
            sent.append((now, value))
    due = rule.next_timeout()
    if due is not None:
        event = rule.handle_timeout(max(now, due))
        assert event is not None
        sent.append((max(now, due), event["rate"]))
    assert sent[0] == (steps[0][0], steps[0][1])
    assert all(later - earlier >= every for (earlier, _), (later, _) in itertools.pairwise(sent))
    last = sent[-1][1]
    assert isinstance(last, float)
    assert last == steps[-1][1] if delta is None else abs(last - steps[-1][1]) < delta
