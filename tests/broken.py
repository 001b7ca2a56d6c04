"""A package with one thing in it broken on purpose, to see that its tests notice."""

import shutil
from pathlib import Path

__all__ = ["broken_copy"]


def broken_copy(package: Path, into: Path, file: str, old: str, new: str) -> None:
    """A copy of the package below `into`, in whose `file` the first `old` is `new`."""
    shutil.copytree(package, into / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    broken = into / package.name / file
    text = broken.read_text()
    assert old in text
    broken.write_text(text.replace(old, new, 1))
