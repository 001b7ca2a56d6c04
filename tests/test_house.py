"""The rules of the house that a reader of one file cannot see (DESIGN 1): who may import whom.

    tools -> cloud, edge -> hw -> protocols        and protocols imports nothing that MicroPython lacks,
                                                   nor do the drivers of hw that run on boards

Files are parsed, never imported: an arrow counts wherever it stands, in a function or under a condition.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from vicinal_tools.stage import CompileError, compile_file, is_device_file

ROOT = Path(__file__).parent.parent

# Folder and package, and the packages it may import beside itself.
PACKAGES = {
    "protocols": "vicinal",
    "hw": "vicinal_hw",
    "edge": "vicinal_edge",
    "cloud": "vicinal_cloud",
    "tools": "vicinal_tools",
}
MAY_IMPORT = {
    "vicinal": set[str](),
    "vicinal_hw": {"vicinal"},
    # A gateway is a client of the broker, and the client belongs to the broker, with where it connects and what it
    # shows there: of cloud, that and nothing else.
    "vicinal_edge": {
        "vicinal",
        "vicinal_hw",
        "vicinal_cloud.broker.client",
        "vicinal_cloud.broker.address",
        "vicinal_cloud.broker.tokens",
    },
    "vicinal_cloud": {"vicinal", "vicinal_hw"},
    "vicinal_tools": {"vicinal", "vicinal_hw", "vicinal_edge", "vicinal_cloud"},
}
# Of the standard library, what both interpreters have and what neither waits nor reads a clock.
ON_DEVICES = {"sys", "struct", "math", "json", "binascii", "micropython", "gc"}
ON_DEVICES_FROM = {("collections", "OrderedDict")}
# Of hw, what runs on boards: drivers, and the simulated chips that they are tested with there.
DRIVERS = {
    f"hw/vicinal_hw/can/{name}.py" for name in ("device_shell", "machine_can", "mcp2515", "simulated_mcp2515")
} | {"hw/vicinal_hw/__init__.py", "hw/vicinal_hw/can/__init__.py"}
DRIVERS |= {f"hw/vicinal_hw/ble/{name}.py" for name in ("__init__", "device_radio", "turns")}
DRIVERS |= {f"hw/vicinal_hw/flash/{name}.py" for name in ("__init__", "emulated", "file", "partition", "romfs")}
DRIVERS |= {"hw/vicinal_hw/sensors.py"}
DRIVERS |= {
    f"hw/vicinal_hw/location/{name}.py" for name in ("__init__", "_numbers", "fix", "fixed", "nmea", "track", "uart")
}
# Of edge, the agent: all of it runs on boards, but what ends in _cpython.py. Its shells may also have what waits.
AGENT = "edge/vicinal_edge/agent"
SHELLS = {
    f"{AGENT}/{name}.py"
    for name in ("board", "link", "loop", "main", "slots", "update_files", "update_rom", "kept", "over_the_air")
}
IN_SHELLS = {"socket", "select", "time", "os", "hashlib", "machine", "network", "bluetooth", "esp32", "vfs"}


class Import(NamedTuple):
    file: Path
    line: int
    module: str
    """absolute; of `from x import y` it is x.y, as y may be a module"""
    for_types: bool
    """under `if TYPE_CHECKING:`, so never executed"""
    on_cpython: bool
    """under `if not MICROPYTHON:`"""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def imports_of(file: Path, package_root: Path) -> list[Import]:
    """`package_root` is the folder that holds the package: relative imports are resolved from it."""
    parts = file.relative_to(package_root).with_suffix("").parts
    package = parts[:-1]
    found: list[Import] = []

    def add(node: ast.stmt | ast.expr, module: str, for_types: bool, on_cpython: bool) -> None:
        found.append(Import(file, node.lineno, module, for_types, on_cpython))

    def visit(node: ast.AST, for_types: bool, on_cpython: bool) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                add(node, alias.name, for_types, on_cpython)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            if node.level > len(package):
                above = ("..",)  # out of the package: nobody may import that
            base = [*above, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                add(node, ".".join([*base, alias.name]), for_types, on_cpython)
        elif isinstance(node, ast.Call) and _is(node.func, "__import__") and not _below_itself(node):
            add(node, "__import__", for_types, on_cpython)
        if isinstance(node, ast.If):
            for child in node.body:
                visit(child, for_types or _is(node.test, "TYPE_CHECKING"), on_cpython or _is_not_micropython(node.test))
            for child in node.orelse:
                visit(child, for_types, on_cpython or _is(node.test, "MICROPYTHON"))
            return
        for child in ast.iter_child_nodes(node):
            visit(child, for_types, on_cpython)

    visit(ast.parse(file.read_text(encoding="utf-8"), str(file)), False, False)
    return found


def _is(test: ast.expr, name: str) -> bool:
    return isinstance(test, ast.Name) and test.id == name


def _below_itself(call: ast.Call) -> bool:
    """__import__(f"{__name__}.x"): a package that loads its own modules when asked."""
    name = call.args[0] if call.args else None
    first = name.values[0] if isinstance(name, ast.JoinedStr) else None
    return isinstance(first, ast.FormattedValue) and _is(first.value, "__name__")


def _is_not_micropython(test: ast.expr) -> bool:
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _is(test.operand, "MICROPYTHON")


def sources(root: Path) -> Iterator[tuple[str, Path, Path]]:
    """package, the folder that holds it, file"""
    for folder, package in PACKAGES.items():
        for file in sorted((root / folder / package).rglob("*.py")):
            yield package, root / folder, file


def wrong_arrows(root: Path) -> list[str]:
    wrong = []
    for package, holder, file in sources(root):
        for found in imports_of(file, holder):
            goal = found.module.partition(".")[0]
            if not goal or (goal in MAY_IMPORT and goal != package and not _allowed(package, found.module)):
                wrong.append(str(found))
    return wrong


def _allowed(package: str, module: str) -> bool:
    return any(f"{module}.".startswith(f"{whole}.") for whole in MAY_IMPORT[package])


def runs_on_devices(package: str, file: Path, root: Path = ROOT) -> bool:
    if package == "vicinal":
        return is_device_file(file)
    if package == "vicinal_edge" and file.name == "__init__.py" and file.parent.name == "vicinal_edge":
        return (root / AGENT).exists()
    name = file.relative_to(root).as_posix()
    return name in DRIVERS or (name.startswith(f"{AGENT}/") and is_device_file(file))


def not_for_devices(root: Path) -> list[str]:
    """What would fail on MicroPython, or be a second way to be CPython-only."""
    wrong = []
    for package, holder, file in sources(root):
        if not runs_on_devices(package, file, root):
            continue
        for found in imports_of(file, holder):
            if found.for_types:
                continue
            parts = found.module.split(".")
            if parts[0] == "vicinal_hw":
                if not _is_driver(parts):
                    wrong.append(str(found))
            elif parts[0] == "vicinal_edge":
                if parts[1:2] != ["agent"] or (_cpython_only(root / "edge", parts) and not found.on_cpython):
                    wrong.append(str(found))
            elif parts[0] in IN_SHELLS and file.relative_to(root).as_posix() in SHELLS:
                pass
            elif parts[0] in (package, "vicinal"):
                if _cpython_only(root / "protocols", parts) and not found.on_cpython:
                    wrong.append(f"{found} without `if not MICROPYTHON:`")
            elif parts[0] not in ON_DEVICES and tuple(parts) not in ON_DEVICES_FROM:
                wrong.append(str(found))
    return wrong


def _is_driver(parts: list[str]) -> bool:
    """Whether x.y.z names a module of hw that runs on boards, or something inside one."""
    return any(f"hw/{'/'.join(parts[:length])}.py" in DRIVERS for length in range(2, len(parts) + 1))


def _cpython_only(holder: Path, parts: list[str]) -> bool:
    """Whether x.y.z names a CPython-only module, or something inside one."""
    for length in range(1, len(parts) + 1):
        file = holder.joinpath(*parts[:length]).with_suffix(".py")
        if file.exists() and not is_device_file(file):
            return True
    return False


def test_dependencies_point_one_way() -> None:
    assert wrong_arrows(ROOT) == []


def test_the_language_imports_nothing_micropython_lacks() -> None:
    assert not_for_devices(ROOT) == []


def test_every_package_is_known_here_and_built() -> None:
    """A new package folder must be put under these rules, and into the wheel."""
    import tomllib

    folders = {path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("*/vicinal*/__init__.py")}
    assert folders <= {f"{folder}/{package}" for folder, package in PACKAGES.items()}
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert folders == set(built["packages"])


DEVICE_FILES = [file for package, _, file in sources(ROOT) if runs_on_devices(package, file)]


def test_every_driver_is_there() -> None:
    assert {file.relative_to(ROOT).as_posix() for file in DEVICE_FILES} >= DRIVERS


@pytest.mark.parametrize("file", DEVICE_FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_micropython_compiles_it(file: Path, tmp_path: Path) -> None:
    compile_file(file, tmp_path / "out.mpy", file.name)


# The rules must be able to fail: one made-up tree, with one file that breaks one of them.

GOOD = {
    "protocols/vicinal/__init__.py": "",
    "protocols/vicinal/_compat.py": "import sys\nMICROPYTHON = sys.implementation.name == 'micropython'\n",
    "protocols/vicinal/_cbor_cpython.py": "import cbor2\nimport dataclasses\n",
    "protocols/vicinal/wire.py": (
        "import struct\n"
        "from collections import OrderedDict\n"
        "from . import _compat\n"
        "__import__(f'{__name__}.x')\n"
        "from ._compat import MICROPYTHON\n"
        "TYPE_CHECKING = False\n"
        "if TYPE_CHECKING:\n    from typing import Any\n"
        "if MICROPYTHON:\n    import gc\nelse:\n    from ._cbor_cpython import dumps\n"
        "def load():\n    if not MICROPYTHON:\n        from . import _cbor_cpython\n"
    ),
    "hw/vicinal_hw/__init__.py": "",
    "hw/vicinal_hw/can/shell.py": "import socket\nfrom vicinal.wire import encode\nfrom . import mcp2515\n",
    "hw/vicinal_hw/can/mcp2515.py": "import struct\nfrom vicinal.wire import encode\nfrom .device_shell import serve\n",
    "edge/vicinal_edge/__init__.py": "",
    "edge/vicinal_edge/store.py": "import vicinal_hw, asyncio\n",
    "edge/vicinal_edge/agent/core.py": "import json\nfrom vicinal.wire import encode\nfrom . import link\n",
    "edge/vicinal_edge/agent/link.py": "import socket\nfrom vicinal_hw.can import mcp2515\n",
    "edge/vicinal_edge/agent/run_cpython.py": "import asyncio\nfrom vicinal_edge import store\n",
    "cloud/vicinal_cloud/__init__.py": "import asyncio\nimport vicinal, vicinal_hw\n",
    "tools/vicinal_tools/__init__.py": "import vicinal_cloud, vicinal_edge, vicinal_hw, vicinal\n",
}


def build(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_a_good_tree_has_nothing_wrong(tmp_path: Path) -> None:
    build(tmp_path, GOOD)
    assert wrong_arrows(tmp_path) == []
    assert not_for_devices(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("protocols/vicinal/bad.py", "import vicinal_hw"),
        ("protocols/vicinal/bad.py", "def f():\n    from vicinal_tools.stage import stage"),
        ("protocols/vicinal/bad.py", "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from vicinal_edge import agent"),
        ("protocols/vicinal/_cbor_cpython.py", "import vicinal_cloud.broker"),
        ("hw/vicinal_hw/bad.py", "import vicinal_edge"),
        ("edge/vicinal_edge/bad.py", "from vicinal_cloud import broker"),
        ("cloud/vicinal_cloud/bad.py", "from vicinal_edge.agent import Agent"),
        ("edge/vicinal_edge/deep/bad.py", "import sys, vicinal_tools"),
    ],
)
def test_an_arrow_the_wrong_way_is_found(tmp_path: Path, file: str, text: str) -> None:
    build(tmp_path, GOOD | {file: text})
    assert [line.split(":")[0] for line in wrong_arrows(tmp_path)] == [str(tmp_path / file)]


@pytest.mark.parametrize(
    "text",
    [
        "import dataclasses",
        "import typing",
        "import time",
        "from collections import deque",
        "from collections.abc import Mapping",
        "from __future__ import annotations",
        "import os.path",
        "def f():\n    import re",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import enum",
        "if not MICROPYTHON:\n    import operator",
        "from ._cbor_cpython import dumps",
        "from . import _cbor_cpython",
        "import vicinal._cbor_cpython",
        "if MICROPYTHON:\n    from ._cbor_cpython import dumps",
        "if not MICROPYTHON:\n    pass\nelse:\n    from ._cbor_cpython import dumps",
        "from .. import vicinal_hw",
        "__import__('os')",
        "__import__(f'{name}.x')",
    ],
)
def test_what_a_device_cannot_import_is_found(tmp_path: Path, text: str) -> None:
    build(tmp_path, GOOD | {"protocols/vicinal/bad.py": text})
    assert [line.split(":")[0] for line in not_for_devices(tmp_path)] == [str(tmp_path / "protocols/vicinal/bad.py")]


@pytest.mark.parametrize(
    "text",
    [
        "import enum",
        "from .shell import Shell",
        "from . import bus",
        "from vicinal._cbor_cpython import dumps",
        "import can",
    ],
)
def test_what_a_driver_cannot_import_is_found(tmp_path: Path, text: str) -> None:
    build(tmp_path, GOOD | {"hw/vicinal_hw/can/mcp2515.py": text})
    assert [line.split(":")[0] for line in not_for_devices(tmp_path)] == [
        str(tmp_path / "hw/vicinal_hw/can/mcp2515.py")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "import socket",
        "import enum",
        "from . import run_cpython",
        "from vicinal_edge import store",
        "from ..store import Store",
        "from vicinal_hw.can import shell",
        "from vicinal._cbor_cpython import dumps",
    ],
)
def test_what_an_agent_cannot_import_is_found(tmp_path: Path, text: str) -> None:
    build(tmp_path, GOOD | {"edge/vicinal_edge/agent/core.py": text})
    assert [line.split(":")[0] for line in not_for_devices(tmp_path)] == [
        str(tmp_path / "edge/vicinal_edge/agent/core.py")
    ]


def test_what_micropython_does_not_parse_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("match 1:\n    case 1: pass\n")
    with pytest.raises(CompileError, match="SyntaxError"):
        compile_file(bad, tmp_path / "bad.mpy", "bad.py")
