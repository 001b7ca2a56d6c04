"""vicinal release: keys that stay secret, releases that say what they are, and mistakes that are told."""

import json
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vicinal_edge.releases import Release
from vicinal_tools import release
from vicinal_tools.main import cli

FILES = {"lib/vicinal/__init__.mpy": b"M\x06\x00\x1f", "lib/vicinal/event.mpy": b"M\x06 event"}


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["release", *words])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree of an agent takes seconds to compile; the real one is built once, below."""
    monkeypatch.setattr(release, "files_of", lambda version: FILES)


def test_the_tree_of_a_release_says_its_version(folder: Path) -> None:
    assert run("keygen").exit_code == 0
    made = run("build", "--version", "7.8.9")
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("agent-7.8.9.release: version 7.8.9 for any board, ")
    found = Release(folder / "agent-7.8.9.release")
    first = next(file for file in found.files if file.name == "lib/vicinal/__init__.mpy")
    assert b"7.8.9" in (found.file(first.digest) or b"")
    names = {file.name for file in found.files}
    assert {"lib/vicinal_edge/agent/main.mpy", "lib/vicinal_edge/agent/update.mpy", "lib/vicinal/p256.mpy"} <= names
    assert found.head.bytes < 150 * 1024


def test_keys(folder: Path, staged: None) -> None:
    made = run("keygen", "mine.key")
    assert made.exit_code == 0
    public = made.stdout.split('key = "')[1][:66]
    assert stat.S_IMODE((folder / "mine.key").stat().st_mode) == 0o600
    assert "PRIVATE" not in made.output
    assert public in run("key", "mine.key").stdout
    again = run("keygen", "mine.key")
    assert again.exit_code == 2
    assert "mine.key is there already" in again.stderr
    assert run("build", "--key", "mine.key", "--out", "x.release").exit_code == 0
    assert "signed by that key" in run("show", "x.release", "--key", public).stdout
    assert run("keygen", "other.key").exit_code == 0
    other = run("key", "other.key").stdout.split('key = "')[1][:66]
    shown = run("show", "x.release", "--key", other)
    assert (shown.exit_code, "NOT signed by that key" in shown.stdout) == (1, True)


def test_show(folder: Path, staged: None) -> None:
    run("keygen")
    assert run("build", "--version", "0.1.9", "--board", "esp32", "--back", "0.2.0").exit_code == 0
    shown = run("show", "agent-0.1.9.release")
    assert "version 0.1.9 for board esp32, bytecode 6" in shown.stdout
    assert "it may replace 0.2.0 and older" in shown.stdout
    found = json.loads(run("show", "agent-0.1.9.release", "--json").stdout)
    assert (found["version"], found["board"], found["back"], found["signed"]) == ("0.1.9", "esp32", "0.2.0", None)
    assert [file["name"] for file in found["files"]] == sorted(FILES)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["build", "--version", "0.2rc1"], "version '0.2rc1': want one to four numbers"),
        (["build", "--board", "esp33"], "esp33"),
        (["build", "--board", "pi4"], "updated with pip or apt"),
        (["build", "--version", "0.2.0", "--back", "0.1.0"], "back 0.1.0: want a version newer than 0.2.0"),
        (["build", "--key", "none.key"], "`vicinal release keygen none.key` makes one"),
        (["build", "--key", "text.key"], "no private key"),
        (["build", "--out", "no/such/folder.release"], "No such file"),
        (["show", "text.key"], "no release: `vicinal release build` makes them"),
        (["show", "none.release"], "No such file"),
    ],
)
def test_mistakes(folder: Path, staged: None, words: list[str], message: str) -> None:
    run("keygen")
    (folder / "text.key").write_text("secret")
    found = run(*words)
    assert found.exit_code == 2, found.output
    assert message in found.stderr
    assert not list(folder.glob("*.release"))


def test_bytecode_is_of_one_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("keygen")
    monkeypatch.setattr(release, "files_of", lambda version: FILES | {"lib/x.mpy": b"M\x05"})
    assert "bytecode of versions [5, 6] in one release" in run("build").stderr
