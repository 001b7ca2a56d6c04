"""The tree that goes onto a device."""

import subprocess
import sys
from pathlib import Path

import pytest

from vicinal_tools import romfs
from vicinal_tools.stage import CompileError, device_files, lean, stage

MICROPYTHON = Path(__file__).parents[2] / ".tools" / "micropython" / "micropython"


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


def test_what_is_for_type_checkers_is_left_out() -> None:
    source = """from a import b
__all__ = [
    "C",
]
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

class C:
    "Kept."
    __slots__ = ("x",)
    y: int

    def f(self) -> "Any":
        if TYPE_CHECKING:
            pass
        return b

if TYPE_CHECKING:
    pass
else:
    z = 1
"""
    found = lean(source)
    assert [line for line in found.split("\n") if line.strip()] == [
        "from a import b",
        "class C:",
        '    "Kept."',
        "    y: int",
        '    def f(self) -> "Any":',
        "        if TYPE_CHECKING:",
        "            pass",
        "        return b",
        "if TYPE_CHECKING:",
        "    pass",
        "else:",
        "    z = 1",
    ]
    assert len(found.split("\n")) == len(source.split("\n"))
    assert lean("def f(:\n") == "def f(:\n"


@pytest.mark.micropython
def test_an_image_is_what_micropython_mounts(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "lib" / "deep").mkdir(parents=True)
    sizes = [0, 1, 127, 128, 20_000]
    for size in sizes:
        (tree / "lib" / "deep" / f"{size}.bin").write_bytes(bytes(number * 7 % 256 for number in range(size)))
    (tree / "top.py").write_text("print('ran')\n")
    command = [sys.executable, "-m", "vicinal_tools.romfs"]
    target = tmp_path / "image"
    done = subprocess.run([*command, str(tree), str(target)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert target.read_bytes() == romfs.image(tree)
    assert target.stat().st_size % 2 == 0
    program = f"""
import os, sys, vfs
vfs.mount(vfs.VfsRom(open({str(target)!r}, "rb").read()), "/rom")
for size in {sizes}:
    with open("/rom/lib/deep/%d.bin" % size, "rb") as file:
        print(file.read() == bytes([number * 7 % 256 for number in range(size)]))
print(sorted(os.listdir("/rom")), len(os.listdir("/rom/lib/deep")))
sys.path.append("/rom")
import top
"""
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([MICROPYTHON, str(tmp_path / "program.py")], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n" * 5 + "['lib', 'top.py'] 5\nran\n", done.stderr
    assert subprocess.run(command, capture_output=True, check=False).returncode == 2
    done = subprocess.run([*command, str(tmp_path / "none"), "x"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
