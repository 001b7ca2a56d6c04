"""A small file that is whole, the old or the new, whatever happens."""

import os
from pathlib import Path

__all__ = ["replace"]


def replace(file: Path, text: str) -> None:
    new = file.with_suffix(".new")
    with new.open("w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
