"""A tree of files as a ROMFS image, from which MicroPython 1.25 and later runs bytecode where it lies, in flash.

    python -m vicinal_tools.romfs TREE IMAGE        then: mpremote romfs deploy IMAGE

What is imported from a file system is copied into the heap; of a ROMFS, bytecode, names and strings stay where they
are. What an image is made of: vicinal_hw/flash/romfs.py.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from vicinal_hw.flash.romfs import Layout

__all__ = ["image", "image_of"]


def image(tree: Path) -> bytes:
    if not tree.is_dir():
        raise NotADirectoryError(f"{tree} is no folder")
    return image_of(
        {path.relative_to(tree).as_posix(): path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    )


def image_of(files: Mapping[str, bytes]) -> bytes:
    """Of names from the root of the image, and what is in them."""
    layout, found = Layout(), b""
    ordered = sorted(files.items())
    for name, data in ordered:
        layout.add(name, len(data))
    for name, data in ordered:
        found += layout.place(name, len(data))[1] + data
    # Flash is written in pairs of bytes at least.
    return found + b"\xff" * (len(found) % 2)


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0].startswith("-"):
        print("usage: python -m vicinal_tools.romfs TREE IMAGE", file=sys.stderr)
        return 2
    try:
        data = image(Path(arguments[0]))
        Path(arguments[1]).write_bytes(data)
    except (OSError, ValueError) as error:
        print(f"romfs: {error}", file=sys.stderr)
        return 1
    print(f"{arguments[1]}: {len(data):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
