"""Brokers as processes: started fresh with their stock configuration on a free port, measured, stopped."""

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["SYSTEMS", "Process", "missing", "started"]

SYSTEMS = ("vicinal", "mosquitto", "nats")
_PROGRAMS = {"mosquitto": "mosquitto", "nats": "nats-server"}
_START_SECONDS = 20.0
_VICINAL = [sys.executable, "-c", "from vicinal_tools.main import main; main()", "broker", "run"]


def _program(system: str) -> str | None:
    # Debian puts servers where only root's PATH looks.
    name = _PROGRAMS[system]
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")


def missing(systems: tuple[str, ...] = SYSTEMS) -> list[str]:
    """Debian packages to install."""
    return [_PROGRAMS[one] for one in systems if one in _PROGRAMS and _program(one) is None]


class Process:
    """A broker that runs."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid = pid
        self.port = port

    def cpu(self) -> float:
        """Seconds of CPU so far, of all threads: the process's own clock (clock_getcpuclockid(3)), because the ticks
        of /proc are 10 ms and a paced run has five of them."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def peak_memory(self) -> int:
        """Bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise ValueError(f"/proc/{self.pid}/status has no VmHWM")


@contextmanager
def started(system: str, durable: Path | None = None) -> Iterator[Process]:
    """`durable` is for Vicinal: a directory for its log."""
    with tempfile.TemporaryDirectory(prefix="bench-peers-") as folder:
        if system == "vicinal":
            config = Path(folder, "broker.toml")
            text = '[broker]\nname = "b1"\n[[listen]]\naddress = "tcp://127.0.0.1:0"\n'
            if durable is not None:
                text += f"[log]\ndirectory = {json.dumps(str(durable.resolve()))}\n"
            config.write_text(text)
            command = [*_VICINAL, str(config), "--json", "--quiet"]
        else:
            program = _program(system)
            if program is None:
                raise FileNotFoundError(f"{_PROGRAMS[system]} is not installed")
            port = _free_port()
            command = [program, "-p", str(port)]
            if system == "nats":
                command += ["-a", "127.0.0.1"]
        with Path(folder, "log").open("w+") as log:
            running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
            try:
                if system == "vicinal":
                    assert running.stdout is not None
                    line = running.stdout.readline()
                    if not line:
                        log.seek(0)
                        raise RuntimeError(f"the broker did not start: {log.read()}")
                    port = int(json.loads(line)["listen"][0].rpartition(":")[2])
                else:
                    _wait_for(port, running)
                yield Process(running.pid, port)
            finally:
                running.kill()
                running.communicate()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _wait_for(port: int, running: "subprocess.Popen[str]") -> None:
    end = time.monotonic() + _START_SECONDS
    while running.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.01)
    raise RuntimeError(f"{running.args!r} does not listen on port {port}")
