"""The scripts behind `make`: what they say when something cannot be had, and what they leave behind."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MICROPYTHON = ROOT / ".tools" / "micropython" / "micropython"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def run(command: list[str], **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | environment
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout without anything fetched."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "get_micropython.sh", tmp_path / "tools")
    return tmp_path


@pytest.mark.skipif(not (shutil.which("apt-get") and KEYRING.exists()), reason="needs apt-get and Debian's keyring")
def test_without_a_network_micropython_is_refused_in_one_line(tree: Path) -> None:
    # Port 9, "discard": nobody listens there.
    done = run([str(tree / "tools" / "get_micropython.sh")], DEBIAN_URI="http://127.0.0.1:9/debian")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("get_micropython: no MicroPython: apt-get update failed")
    assert "run tools/get_micropython.sh again" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list((tree / ".tools").iterdir()) == []


def test_without_apt_micropython_is_refused_in_one_line(tree: Path) -> None:
    tools = tree / "bin"
    tools.mkdir()
    for name in ("bash", "dirname"):
        (tools / name).symlink_to(str(shutil.which(name)))
    done = run([str(tools / "bash"), str(tree / "tools" / "get_micropython.sh")], PATH=str(tools))
    assert done.returncode == 1
    assert done.stderr.startswith("get_micropython: no MicroPython: apt-get is not there")
    assert done.stderr.count("\n") == 1


@pytest.mark.micropython
@pytest.mark.skipif(not MICROPYTHON.exists(), reason="MicroPython is not there: run tools/get_micropython.sh")
def test_micropython_is_the_32_bit_one_with_a_hard_heap_limit(tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(
        "import sys\nprint(sys.argv[1:], sys.maxsize)\n"
        "try:\n    bytearray(200000)\nexcept MemoryError:\n    print('full')\n"
    )
    done = run([str(MICROPYTHON), "-X", "heapsize=96k", str(script), "a b", "*"])
    assert (done.returncode, done.stdout) == (0, "['a b', '*'] 2147483647\nfull\n")
    assert run([str(MICROPYTHON), "-c", "import sys; sys.exit(3)"]).returncode == 3


@pytest.mark.skipif(not MICROPYTHON.exists(), reason="MicroPython is not there: run tools/get_micropython.sh")
def test_what_is_there_is_not_fetched_again() -> None:
    before = MICROPYTHON.stat()
    done = run([str(ROOT / "tools" / "get_micropython.sh")], DEBIAN_URI="http://127.0.0.1:9/debian")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert MICROPYTHON.stat().st_ino == before.st_ino


def test_setup_names_a_python_that_can_make_a_venv() -> None:
    done = run([str(ROOT / "tools" / "setup.sh")], PYTHON="/no/such/python")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert run([done.stdout.strip(), "-c", "import venv, ensurepip"]).returncode == 0


@pytest.mark.parametrize("target", ["help", "test", "check", "bench", "stage", "soak", "clean"])
def test_make_help_lists_every_target(target: str) -> None:
    done = run(["make", "-s", "-C", str(ROOT), "help"])
    assert f"  make {target} " in done.stdout
    assert run(["make", "-n", "-C", str(ROOT), target]).returncode == 0


def test_without_node_the_page_is_refused_in_one_line(tmp_path: Path) -> None:
    """And where it is built and nothing has changed, nobody needs Node.js."""
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "build_page.sh", tmp_path / "tools")
    shutil.copytree(ROOT / "cloud" / "page", tmp_path / "cloud" / "page", ignore=lambda *_: {"node_modules"})
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname", "find"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    done = run([str(tmp_path / "tools" / "build_page.sh")], PATH=str(programs))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("build_page: the page is not built: Node.js is missing")
    assert done.stderr.count("\n") == 1
    page = tmp_path / "cloud" / "vicinal_cloud" / "traffic" / "static" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("")
    assert run([str(tmp_path / "tools" / "build_page.sh")], PATH=str(programs)).returncode == 0
