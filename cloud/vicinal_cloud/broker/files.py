"""A small file that is whole, the old or the new, whatever happens."""

import os
from pathlib import Path

__all__ = ["replace"]


def replace(file: Path, content: str | bytes) -> None:
    new = file.with_suffix(".new")
    with new.open("wb") as out:
        out.write(content.encode() if isinstance(content, str) else content)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
