"""vicinal doctor: true to the metadata, and to the machine it is shown."""

import json
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from vicinal_tools import installed, machine
from vicinal_tools.main import cli


def report() -> "dict[str, object]":
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def pretend(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str | None]) -> None:
    """As if these packages had these versions, or were missing."""
    real = metadata.version

    def version(name: str) -> str:
        found = versions[name] if name in versions else real(name)
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(metadata, "version", version)


def test_the_base_is_in_order_here() -> None:
    found = report()
    assert found["ok"] is True
    assert found["base"]["install"] is None
    assert {package["name"] for package in found["base"]["packages"]} == {"cbor2", "click", "packaging", "rich"}
    assert set(found["extras"]) == {"gateway", "broker", "traffic", "sumo", "spark", "delta", "kafka", "flash"}


def test_a_missing_package_comes_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {"python-can": None, "pandas": "3.0.1"})
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 0
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert "- python-can missing" in lines
    assert any(line.startswith("- pandas 3.0.1, want ") for line in lines)
    assert f"→ {installed.install_command('gateway')}" in lines
    assert f"→ {installed.install_command('spark')}" in lines


def test_a_broken_base_is_not_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {"cbor2": "5.6"})
    assert CliRunner().invoke(cli, ["doctor"]).exit_code == 1


def test_without_an_installation_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "NAME", "vicinal-that-is-not-installed")
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 1
    assert "not installed" in result.stderr


def test_the_command_suits_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "checkout", lambda: Path("/a tree/vicinal"))
    assert installed.install_command("spark").endswith(" -m pip install -e '/a tree/vicinal[spark]'")
    monkeypatch.setattr(installed, "checkout", lambda: None)
    assert installed.install_command("spark").endswith(" -m pip install 'vicinal[spark]'")
    assert installed.install_command(installed.BASE).endswith(" -m pip install vicinal")


def java(tmp_path: Path, says: str, code: int = 0) -> Path:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
    program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("says", "code", "ok", "detail"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0, True, "17.0.15"),
        ('openjdk version "21" 2023-09-19', 0, True, "21"),
        ('java version "1.8.0_392"', 0, False, "1.8.0_392"),
        ("broken", 1, False, "no Java runs there"),
    ],
)
def test_java_is_asked_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, code: int, ok: bool, detail: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, says, code)))
    found = machine.findings(None)[0]
    assert (found.name, found.ok) == ("java", ok)
    assert detail in found.detail
    assert (found.advice == "") == ok


def test_micropython_is_looked_for_in_the_tree(tmp_path: Path) -> None:
    found = {finding.name: finding for finding in machine.findings(tmp_path)}["micropython"]
    assert not found.ok
    assert "tools/get_micropython.sh" in found.advice
    assert "micropython" not in {finding.name for finding in machine.findings(None)}


def test_interfaces_are_found_by_kind(tmp_path: Path) -> None:
    for name, kind in (("lo", "772"), ("drive", "280")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "type").write_text(kind + "\n")
    assert machine._socketcan(tmp_path, tmp_path / "modules").detail == "drive"
    (tmp_path / "drive" / "type").write_text("1\n")
    assert not machine._socketcan(tmp_path, tmp_path / "modules").ok
    assert not machine._bluetooth(tmp_path).ok
    (tmp_path / "hci0").mkdir()
    assert machine._bluetooth(tmp_path).detail == "hci0"
