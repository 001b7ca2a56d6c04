"""Numbers in a file that several processes have mapped: what one of them knew is there after it was killed.

Each is written at once, as one word of the processor. struct.pack_into would fill it with zeros first and then write
byte after byte: who is killed between the two leaves 0, or a part of the number.
"""

import mmap
from pathlib import Path

__all__ = ["WORD", "numbers"]

WORD = 8


def numbers(path: Path) -> "tuple[mmap.mmap, memoryview[int]]":
    """The file's bytes, and the same as numbers of WORD bytes; its size must be a multiple of that."""
    with path.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    return mapped, memoryview(mapped).cast("q")
