"""The language on both interpreters: the same vectors with the same results, and what a device has room for.

MicroPython is the 32-bit one, as on an ESP32, with the tree as it would be staged onto one.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vicinal_tools.bench import device
from vicinal_tools.stage import device_files

ROOT = Path(__file__).parent.parent
SUITE = ROOT / "tests" / "vectors" / "suite.py"
VECTORS = ROOT / "protocols" / "vectors"
MICROPYTHON = ROOT / ".tools" / "micropython" / "micropython"

Run = Callable[..., str]


def on_cpython(folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(SUITE), str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "protocols"), "PYTHONUTF8": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


def test_vectors_on_cpython() -> None:
    done = on_cpython(VECTORS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" passed, 0 failed\n")


def test_no_vector_file_is_forgotten() -> None:
    suite = SUITE.read_text(encoding="utf-8")
    assert [file.name for file in VECTORS.iterdir() if f'"{file.name}"' not in suite] == []


@pytest.fixture(scope="module")
def clean() -> set[str]:
    """What the suite says of the vectors as they are."""
    return set(on_cpython(VECTORS).stdout.splitlines())


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("events.json", "856161f6f68080", "856162f6f68080"),
        ("bad_events.json", "9f6161f6f68080ff", "856161f6f68080"),
        ("bad_events.json", '"indefinite length"', '"indefinite depth"'),
        ("rfc8949_appendix_a.json", '"tag"', '"inside"'),
        ("rfc8949_appendix_f.hex", "41\n", "4100\n"),
        ("streams.json", '"offset": 8', '"offset": 9'),
        ("filters.json", '"result": null', '"result": false'),
        ("bad_filters.json", '"column": 7', '"column": 6'),
        ("covers.json", '"covers": true', '"covers": false'),
        ("simplified.json", "x IN (1, 2)", "x IN (2, 1)"),
        ("translations.json", '"exact": true', '"exact": false'),
        ("mappings.json", '["v", 92]', '["v", 93]'),
        ("mappings.json", "v >= 49", "v >= 48"),
        ("distlists.json", '"selected": ["ES10"]', '"selected": ["ES11"]'),
        ("proximity.json", '"inside": true', '"inside": false'),
        ("proximity.json", '"tolerance_mm": 500', '"tolerance_mm": -500'),
        ("controls.json", '"Type", 1]', '"Type", 5]'),
        ("json_forms.json", "57.5", "57.25"),
        ("cosmic_binding.json", '"checksum": 4', '"gap": 4'),
        ("cosmic_binding.json", '"in_sync": true', '"in_sync": false'),
        ("p256.json", '"good": true', '"good": false'),
        ("steam.json", '"frames": 2', '"frames": 1'),
        ("steam.json", '"every": 25500', '"every": 25400'),
        ("steam.json", '"velocity": [8128, -8128]', '"velocity": [8128, -8064]'),
        ("steam.json", '"then": [900000000, 0]', '"then": [900016246, 0]'),
    ],
)
def test_the_suite_can_fail(tmp_path: Path, clean: set[str], file: str, old: str, new: str) -> None:
    for source in VECTORS.iterdir():
        text = source.read_text(encoding="utf-8")
        if source.name == file:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / source.name).write_text(text, encoding="utf-8")
    done = on_cpython(tmp_path)
    assert done.returncode == 1
    failures = [line for line in set(done.stdout.splitlines()) - clean if not line.startswith("vectors: ")]
    assert [line.split()[0] for line in failures] == [file]


@pytest.mark.micropython
def test_vectors_on_micropython_give_what_they_give_on_cpython(micropython: Run) -> None:
    said = micropython(SUITE, VECTORS)
    assert said.splitlines()[-1] == on_cpython(VECTORS).stdout.splitlines()[-1]
    assert said.endswith(" passed, 0 failed\n")


@pytest.mark.micropython
def test_every_device_module_loads_alone(micropython: Run, tmp_path: Path) -> None:
    """Each in a new interpreter: a module that leans on another's import fails here."""
    for file in device_files():
        parts = file.relative_to(ROOT / "protocols").with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        assert micropython("-c", f"import sys, {module}; print(sys.modules[{module!r}].__name__)") == module + "\n"


@pytest.mark.micropython
def test_the_language_leaves_a_device_60_of_96_kib() -> None:
    assert device.measure(MICROPYTHON, device.ROOM) >= device.ROOM_LIMIT


@pytest.mark.micropython
def test_one_speed_event_takes_less_than_1_kib() -> None:
    assert 0 < device.measure(MICROPYTHON, device.ONE_EVENT) < device.ONE_EVENT_LIMIT
