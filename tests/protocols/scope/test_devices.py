"""Scopes on MicroPython do what they do on CPython."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "on_devices.py"


def on_cpython() -> str:
    return subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=True, timeout=60).stdout


def test_what_it_prints():
    lines = on_cpython().splitlines()
    assert lines[:4] == ["0 a S Kurs 40 S 0", "0 high T Kurs 40 T 0", "0 any None Kurs 40 None 0", "1 b S Kurs 41 S 1"]
    assert "60 far top Quote 20 S 0" in lines


@pytest.mark.micropython
def test_the_same_on_micropython(micropython):
    assert micropython(PROGRAM) == on_cpython()
