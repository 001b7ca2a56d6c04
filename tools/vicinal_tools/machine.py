"""What Vicinal uses of the machine beside Python packages: each a finding with what to do about it.

Nothing here is needed for the base; each finding says what goes without it.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

__all__ = ["Finding", "findings"]


class Finding(NamedTuple):
    name: str
    ok: bool
    detail: str
    advice: str
    """empty where nothing is to be done"""


def findings(tree: Path | None) -> list[Finding]:
    """`tree` is the source tree if there is one: MicroPython matters to who works in it."""
    found = [_java()]
    if tree is not None:
        found.append(_micropython(tree))
    if sys.platform == "linux":
        found += [_socketcan(Path("/sys/class/net"), Path("/proc/modules")), _bluetooth(Path("/sys/class/bluetooth"))]
    return found


def _output(command: list[str]) -> str | None:
    """What a program says, or None if it cannot be run. Java says its version on stderr."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr if done.returncode == 0 else None


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = "Spark needs Java 17 or later: apt-get install -y --no-install-recommends default-jre-headless"
    said = _output([program, "-version"]) if program else None
    version = re.search(r'version "((\d+)[^"]*)"', said or "")
    if version is None:
        detail = f"JAVA_HOME is {home}, but no Java runs there" if home else "not found"
        return Finding("java", False, detail, advice)
    ok = int(version[2]) >= 17
    return Finding("java", ok, version[1], "" if ok else advice)


def _micropython(tree: Path) -> Finding:
    program = tree / ".tools" / "micropython" / "micropython"
    said = _output([str(program), "-c", "import sys; print(sys.version)"])
    if said is None:
        return Finding(
            "micropython",
            False,
            "not found",
            f"the tests of the device's side need it: {tree}/tools/get_micropython.sh",
        )
    return Finding("micropython", True, said.strip().partition("; ")[2] or said.strip(), "")


def _socketcan(interfaces: Path, modules: Path) -> Finding:
    # ARPHRD_CAN, whatever the interface is called.
    names = sorted(path.parent.name for path in interfaces.glob("*/type") if path.read_text().strip() == "280")
    if names:
        return Finding("socketcan", True, ", ".join(names), "")
    loaded = modules.exists() and any(line.startswith("can ") for line in modules.read_text().splitlines())
    return Finding(
        "socketcan",
        False,
        "no CAN interface" + (" (the kernel has CAN)" if loaded else ""),
        "a CAN bus needs one: modprobe vcan && ip link add dev vcan0 type vcan && ip link set up vcan0",
    )


def _bluetooth(adapters: Path) -> Finding:
    names = sorted(path.name for path in adapters.glob("hci*"))
    if names:
        return Finding("bluetooth", True, ", ".join(names), "")
    return Finding(
        "bluetooth",
        False,
        "no adapter",
        "BLE needs an adapter and BlueZ: apt-get install -y bluez, then bluetoothctl list",
    )
