"""What goes onto a device: the staged tree for a slot, and the boot part beside the slots (vicinal_edge.agent.slots).

release = build()
release.files            {"lib/vicinal/event.mpy": bytes}
release.boot             {"slots.mpy": bytes, "main.py": bytes}
release.manifest         {"version", "files": {path: [bytes, sha256]}}
release.image            the same files as a ROMFS image
release.boot_image       the boot part as one
"""

import hashlib
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import vicinal

from ..romfs import image_of
from ..stage import CompileError, compile_file, stage_agent
from .errors import FlashError

__all__ = ["Release", "build", "digest"]

MAIN = b"""# Written by `vicinal flash`: runs the release of a slot, see slots.mpy.
import sys

sys.path.insert(0, "/rom")  # there it lies in flash, where there is a ROMFS, and else in memory
import slots

slots.boot()
"""


def digest(data: bytes) -> tuple[int, str]:
    return len(data), hashlib.sha256(data).hexdigest()


class Release:
    def __init__(self, version: str, files: Mapping[str, bytes], boot: Mapping[str, bytes]) -> None:
        self.version = version
        self.files = dict(sorted(files.items()))
        self.boot = dict(boot)

    @cached_property
    def digests(self) -> dict[str, tuple[int, str]]:
        return {name: digest(data) for name, data in self.files.items()}

    @property
    def manifest(self) -> dict[str, Any]:
        return {"version": self.version, "files": {name: list(found) for name, found in self.digests.items()}}

    @cached_property
    def image(self) -> bytes:
        return image_of(self.files)

    @cached_property
    def boot_image(self) -> bytes:
        return image_of({name: data for name, data in self.boot.items() if name != "main.py"})

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))


def build() -> Release:
    """Compiled from what is installed here, for any board: bytecode knows no chip."""
    from vicinal_edge.agent import slots

    with tempfile.TemporaryDirectory() as folder:
        tree, boot = Path(folder) / "tree", Path(folder) / "slots.mpy"
        try:
            staged = stage_agent(tree)
            compile_file(Path(slots.__file__), boot, "slots.py")
        except CompileError as error:
            raise FlashError(str(error)) from error
        files = {file.path.as_posix(): (tree / file.path).read_bytes() for file in staged}
        return Release(vicinal.__version__, files, {"slots.mpy": boot.read_bytes(), "main.py": MAIN})
