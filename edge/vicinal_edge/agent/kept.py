"""What a device keeps over a restart, in files of JSON: each is written aside and renamed, and is there whole or as
before."""

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["UPDATE", "is_lean", "keep", "kept", "take_lean"]

# Of the updater.
UPDATE = "/update.json"


def kept(path: str) -> "Any":
    """What a file of JSON has; None if there is none, or it is broken."""
    try:
        with open(path) as file:  # noqa: PTH123 - MicroPython has no pathlib
            return json.loads(file.read())
    except (OSError, ValueError):
        return None


def keep(path: str, value: "Any") -> None:
    with open(path + ".new", "w") as file:  # noqa: PTH123
        file.write(json.dumps(value))
    os.rename(path + ".new", path)  # noqa: PTH104


def is_lean(record: "Any") -> bool:
    """Whether the next boot is to update and nothing else, by the updater's record."""
    return isinstance(record, dict) and record.get("lean") is True


def take_lean(path: str) -> bool:
    """The same of this boot, and once: whatever ends it, the next is the agent's."""
    record = kept(path)
    if not is_lean(record):
        return False
    record["lean"] = False
    try:
        keep(path, record)
    except OSError:
        return False
    return True
