"""The machine in a few words, for figures that mean nothing without it."""

import os
import platform
import re
from pathlib import Path

__all__ = ["describe"]


def describe() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    model = _first(Path("/proc/cpuinfo"), r"model name\s*:\s*(.+)") or platform.machine()
    kib = _first(Path("/proc/meminfo"), r"MemTotal:\s*(\d+)")
    memory = f", {int(kib) / 2**20:.0f} GiB" if kib else ""
    return f"{cores} core{'s' * (cores != 1)} ({model}){memory}, CPython {platform.python_version()}"


def _first(path: Path, pattern: str) -> str | None:
    try:
        found = re.search(pattern, path.read_text())
    except OSError:
        return None
    return found[1].strip() if found else None
