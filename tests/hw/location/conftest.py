"""A real gpsd, started by the test and ended by its process id.

gpsd and gpsfake are Debian packages that tools/setup.sh installs as root. Without them the tests that need them are
skipped and say so; with CI=true they fail.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
ADVICE = "is not there. As root on Debian: apt-get install -y --no-install-recommends gpsd gpsd-tools gpsd-clients"


def program(name: str) -> str:
    found = shutil.which(name, path=SBIN)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{name} {ADVICE}", pytrace=False)
        pytest.skip(f"{name} {ADVICE}")
    return found


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def is_gpsd(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "gpsd"
    except OSError:
        return False


class Process:
    """gpsd, or gpsfake with the gpsd it has started."""

    def __init__(self, command: list[str], folder: str, port: int) -> None:
        # The key of gpsd's shared memory: one for each, or they meet in it.
        env = {**os.environ, "PATH": SBIN, "TMPDIR": folder, "GPSD_SHM_KEY": f"0x4770{port:04X}"}
        self.log = Path(folder) / f"{time.monotonic_ns()}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """At once, as a power cut would. gpsfake does not clean up when it is told to end in the wrong moment."""
        daemons = [pid for pid in children_of(self.process.pid) if is_gpsd(pid)]
        self.process.send_signal(signal.SIGSTOP)  # nobody reaps its child, so the id cannot be somebody else's
        for pid in daemons:
            os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait(timeout=30)


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """start(command, port) runs it until the end of the test."""
    started: list[Process] = []
    # Not pytest's tmp_path: a Unix socket's path may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="gps") as folder:
        Path(folder).chmod(0o755)  # gpsd gives up being root

        def run(command: list[str], port: int) -> Process:
            started.append(Process(command, folder, port))
            return started[-1]

        yield run
        for process in started:
            if process.process.poll() is None:
                process.kill()
