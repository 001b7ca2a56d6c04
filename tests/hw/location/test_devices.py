"""Location on a board: the same vectors on CPython and on the 32-bit MicroPython, and thousands of positions."""

import os
import random
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from broken import broken_copy
from hw.location import device_suite
from hw.location.drive import angle, checked

from vicinal_tools.stage import compile_file

ROOT = Path(__file__).parents[3]
HW = ROOT / "hw"
SUITE = Path(device_suite.__file__)
VECTORS = SUITE.with_name("vectors.json")
MICROPYTHON = ROOT / ".tools" / "micropython" / "micropython"
DEVICE_FILES = ["__init__"] + [
    f"location/{name}" for name in ("__init__", "_numbers", "fix", "fixed", "nmea", "track", "uart")
]
PASSED = f"{sum(name.startswith('test_') for name in vars(device_suite))} passed, 0 failed\n"
POSITIONS = 2000


@pytest.fixture
def positions(tmp_path: Path) -> Path:
    """Sentences at random with what they come to, worked out in fractions."""
    chance = random.Random(5)
    lines = []
    for _ in range(POSITIONS):
        decimals = chance.randint(4, 7)
        scale = 10**decimals
        lat = chance.randint(-90 * 60 * scale, 90 * 60 * scale)
        lon = chance.randint(-180 * 60 * scale, 180 * 60 * scale)
        exact = [Fraction(units * 10**7, 60 * scale) for units in (lat, lon)]
        whole = [(1 if value >= 0 else -1) * int(abs(value) + Fraction(1, 2)) for value in exact]
        place = f"{angle(lat, 2, 'NS', decimals)},{angle(lon, 3, 'EW', decimals)}"
        lines.append(f"GNRMC,120000,A,{place},1.0,2.0,010126,,,A {whole[0]} {whole[1]}\n")
    path = tmp_path / "positions"
    path.write_text("".join(lines))
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """What goes onto a board beside the language."""
    for name in DEVICE_FILES:
        compile_file(HW / "vicinal_hw" / f"{name}.py", tmp_path / "vicinal_hw" / f"{name}.mpy", name)
    return tmp_path


def on_micropython(tree: Path, staged: Path, heap: str, *command: object) -> str:
    done = subprocess.run(
        [str(MICROPYTHON), "-X", f"heapsize={heap}", *map(str, command)],
        env={**os.environ, "MICROPYPATH": f".frozen:{tree}:{staged / 'lib'}"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def on_cpython(path: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, str(SUITE), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{path}:{ROOT / 'protocols'}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout + done.stderr


def test_on_cpython(positions: Path) -> None:
    assert on_cpython(str(HW), VECTORS, positions) == f"{POSITIONS} positions right\n{PASSED}"


@pytest.mark.micropython
def test_on_micropython(tree: Path, staged: Path, positions: Path) -> None:
    printed = on_micropython(tree, staged, "1M", SUITE, VECTORS, positions)
    assert printed == f"{POSITIONS} positions right\n{PASSED}"


@pytest.mark.micropython
def test_a_receiver_has_room_on_a_board(tree: Path, staged: Path, tmp_path: Path) -> None:
    """What the code of a receiver on a port takes, with one at work, beside the errors and limits of the language."""
    body = "GPRMC,120000,A,5320.0,N,00615.0,W,1.0,2.0,010126,,,A"
    script = tmp_path / "room.py"
    script.write_text(
        "import gc\nimport vicinal.errors, vicinal.limits\ngc.collect()\nbefore = gc.mem_alloc()\n"
        "from vicinal_hw.location.uart import Uart\nlocation = Uart(None)\n"
        f"location.receive_data({checked(body).encode()!r}, 0)\nassert location.fix(0)\n"
        "gc.collect()\nprint(gc.mem_alloc() - before)\n"
    )
    assert int(on_micropython(tree, staged, "96K", script)) < 11 * 1024


@pytest.mark.parametrize(
    ("file", "old", "new", "red"),
    [
        ("_numbers", "(2 * abs(numerator) + denominator)", "(2 * abs(numerator))", "test_vectors"),
        ("_numbers", "month == 2 and year % 4", "month == 2 and year % 5", "test_vectors"),
        ("nmea", 'address[:1] == b"P"', 'address[:1] == b"Q"', "test_vectors"),
        ("nmea", "self._void = True", "pass", "test_vectors"),
        ("nmea", "self._day += 1", "pass", "test_vectors"),
        ("nmea", "line[star + 1 :].upper() !=", "line[star + 1 :][:2].upper() !=", "test_vectors"),
        ("nmea", "elif size == MAX_SENTENCE:", "elif size == MAX_SENTENCE - 1:", "test_vectors"),
        ("nmea", "len(side) == 1 and ", "", "test_vectors"),
        ("nmea", "if clock != before:", "if True:", "test_what_repeats_itself"),
        ("nmea", "self.epoch += 1", "self.epoch += self._day", "test_epochs"),
        ("nmea", "if now - self._since > DAY // 2:", "if False:", "test_a_day_that_nobody_counted"),
        ("fix", "now - self._heard > self.max_age", "now - self._heard >= self.max_age", "test_a_fix_goes_stale"),
        ("track", "% turn - turn // 2", "- turn // 2", "test_a_track"),
        ("uart", "count or 0", "AT_ONCE", "test_a_receiver_on_a_port"),
    ],
)
def test_the_suite_can_fail(tmp_path: Path, file: str, old: str, new: str, red: str) -> None:
    """One thing broken in a copy, and the test that must notice."""
    broken_copy(HW / "vicinal_hw", tmp_path, f"location/{file}.py", old, new)
    printed = on_cpython(str(tmp_path), VECTORS)
    assert f"FAILED {red}" in printed, printed
