"""The tree that goes onto a device."""

import subprocess
import sys
from pathlib import Path

import pytest

from vicinal_tools.stage import CompileError, device_files, stage


def test_every_device_file_is_staged_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "lib/vicinal").mkdir(parents=True)
    (tmp_path / "lib/vicinal/gone.mpy").write_bytes(b"of an earlier version")
    (tmp_path / "main.py").write_text("the user's own")
    staged = stage(tmp_path)
    files = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.mpy")}
    assert files == {file.path for file in staged}
    assert len(staged) == len(device_files())
    assert Path("lib/vicinal/event.mpy") in files
    assert Path("lib/vicinal/_cbor2.mpy") not in files
    assert not [path for path in files if path.stem.endswith("_fast")]
    assert (tmp_path / "main.py").exists()
    for file in staged:
        assert (tmp_path / file.path).read_bytes()[:1] == b"M"
        assert file.staged_bytes == (tmp_path / file.path).stat().st_size > 0


def test_a_file_that_does_not_compile_is_named(tmp_path: Path) -> None:
    source = tmp_path / "vicinal"
    source.mkdir()
    (source / "bad.py").write_text("def f(:\n")
    with pytest.raises(CompileError, match=r"bad\.py"):
        stage(tmp_path / "out", source)


def test_as_a_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vicinal_tools.stage"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lib/vicinal/event.mpy" in done.stdout
    assert "total" in done.stdout
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    (tmp_path / "file").write_text("")
    done = subprocess.run([*command, str(tmp_path / "file")], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
