"""Real brokers for tests: processes on free ports, each with its configuration, all ended at the end."""

import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

# What a condition may take. A machine under load is slow; a test that waits longer has found something.
PATIENCE = 60.0
COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()"]


class Process:
    def __init__(self, name: str, process: "subprocess.Popen[str]") -> None:
        self.name = name
        self.process = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"broker {name} did not start: {process.stderr.read() if process.stderr else ''}"
        said = json.loads(line)
        self.addresses: list[str] = said["listen"]
        self.status_address: str = said["status"]

    @property
    def address(self) -> str:
        return self.addresses[0]

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.status_address}/status", timeout=PATIENCE) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def metrics(self) -> str:
        with urllib.request.urlopen(f"{self.status_address}/metrics", timeout=PATIENCE) as answer:
            return str(answer.read(), "utf-8")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> tuple[int, str]:
        """Exit code, and what was said on stderr."""
        self.process.terminate()
        _, said = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said


class Brokers:
    """Starts them, and ends those that still run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[Process] = []

    def start(
        self,
        name: str,
        neighbours: dict[str, str | None] | None = None,
        listen: str | list[str] = "tcp://127.0.0.1:0",
        join: tuple[str, ...] = (),
        scopes: str = "",
        more: str = "",
        log: bool = False,
    ) -> Process:
        """`neighbours` are names and addresses, None for those that dial; `scopes` tables, or the name of a file."""
        file = self.write(name, neighbours, listen, join, scopes, more, log)
        process = subprocess.Popen(
            [*COMMAND, "broker", "run", str(file), "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ,
        )
        self.running.append(Process(name, process))
        return self.running[-1]

    def write(
        self,
        name: str,
        neighbours: dict[str, str | None] | None = None,
        listen: str | list[str] = "tcp://127.0.0.1:0",
        join: tuple[str, ...] = (),
        scopes: str = "",
        more: str = "",
        log: bool = False,
    ) -> Path:
        lines = ["[broker]", f'name = "{name}"', f"join = {json.dumps(list(join))}"]
        if scopes.endswith(".toml"):
            lines, scopes = [*lines, f'scopes = "{scopes}"'], ""
        for address in [listen] if isinstance(listen, str) else listen:
            lines += ["[[listen]]", address if "\n" in address else f'address = "{address}"']
        for neighbour, where in (neighbours or {}).items():
            lines += ["[[neighbour]]", f'name = "{neighbour}"', *([f'address = "{where}"'] if where else [])]
        lines += ["[status]", 'address = "http://127.0.0.1:0"', scopes, more]
        if log:
            lines += ["[log]", f'directory = "{name}.log"']
        file = self.folder / f"{name}.toml"
        file.write_text("\n".join(lines))
        return file

    def stop(self) -> None:
        for one in self.running:
            if one.process.poll() is None:
                one.process.kill()
            one.process.communicate()


def free_port() -> int:
    """One that the system gives nobody by itself: who was killed there finds it free when it is started again."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


async def until(condition: Callable[[], Any] | Callable[[], Awaitable[Any]], what: str = "") -> Any:
    """What the condition gives, once it is true."""
    end = time.monotonic() + PATIENCE
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < end, f"never came true: {what or condition}"
        await asyncio.sleep(0.02)


def balanced(status: dict[str, Any]) -> bool:
    """The two sums of counters.py."""
    publishes, deliveries = status["publishes"], status["deliveries"]
    received = publishes["accepted"] + publishes["repeated"] + sum(publishes["refused"].values()) + publishes["storing"]
    handed = deliveries["delivered"] + deliveries["waiting"] + deliveries["stored"]
    handed += sum(deliveries["dropped"].values())
    return bool(publishes["received"] == received and deliveries["handed"] == handed)
