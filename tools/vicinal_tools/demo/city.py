"""The processes of the demo: started in order, looked at, and ended in order, whatever happens.

    brokers ──▶ office ──▶ monitors ──▶ all signs show their limits ──▶ vehicles ──▶ they may speak

Each is a process of its own in a session of its own, so that Ctrl-C is ours alone to deal with; none outlives us.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .files import BROKERS, Plan

__all__ = ["City", "DemoError", "get", "post"]

COMMAND = (sys.executable, "-c", "from vicinal_tools.main import main; main()")
PATIENCE = 180.0
"""seconds for a part to be there: a machine under load is slow"""
GOODBYE = 15.0
PR_SET_PDEATHSIG = 1


class DemoError(Exception):
    """A part of the demo did not start, or has ended; the message says which, and its last words."""


class Part:
    """One process."""

    def __init__(self, name: str, command: list[str], folder: Path, env: dict[str, str]) -> None:
        self.name = name
        self.command = command
        self.log = folder / f"{name}.txt"
        self._env = env
        self.said: dict[str, Any] = {}
        self.start()

    def start(self) -> None:
        """Again, after a kill: with the state that is there."""
        self._asked = False
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                env=self._env, start_new_session=True, preexec_fn=_end_with_us,
            )  # fmt: skip

    def wait_until_ready(self, until: float) -> None:
        """Its first line is JSON, and says where it is."""
        out = self.process.stdout
        assert out is not None
        while not select.select([out], [], [], 0.2)[0]:
            if time.monotonic() > until:
                raise DemoError(f"{self.name} was not there in time{self.last_words()}")
        line = out.readline()
        if not line:
            raise DemoError(f"{self.name} did not start{self.last_words()}")
        self.said = json.loads(line)

    def last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log.read_text(errors="replace").splitlines()[-5:]
            return ":\n  " + "\n  ".join(lines) if lines else ""
        return ""

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def ask_to_end(self) -> None:
        if self.running and not self._asked:
            self._asked = True
            self.process.terminate()

    def end(self, patience: float = GOODBYE) -> int:
        """As one asks a program to; after a while as one does not."""
        self.ask_to_end()
        if self.running:
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def cpu_and_memory(self) -> tuple[float, int]:
        """Seconds, and bytes that are resident; 0 where the system does not say."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return 0.0, 0
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


def _end_with_us() -> None:
    """Linux: a child whose parent is killed is told to end; so it is when the thread that started it ends."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class City:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.parts: dict[str, Part] = {}
        # Sockets of virtual buses and radios are here alone: two demos do not meet. Paths of sockets are short.
        self.env = {
            **os.environ,
            "VICINAL_CAN_DIR": str(plan.folder),
            "VICINAL_BLE_DIR": str(plan.folder),
            "VICINAL_BLE_RECORD": str(plan.folder / "air.jsonl"),
        }

    def start(self, tell: Callable[[str], None] = lambda text: None) -> None:
        folder, until = self.plan.folder, time.monotonic() + PATIENCE
        tell("brokers")
        for name in BROKERS:
            self._add(name, [*COMMAND, "broker", "run", str(folder / f"{name}.toml"), "--json", "--quiet"])
        for name in BROKERS:
            self.parts[name].wait_until_ready(until)
        if self.plan.scale:  # it holds the air that the monitors listen to
            tell(f"{self.plan.vehicles} vehicles")
            self._add("fleet", [sys.executable, "-m", "vicinal_tools.demo.crowd", str(folder)])
            self.parts["fleet"].wait_until_ready(until)
        tell("traffic control and monitors")
        self._add("office", [*COMMAND, "traffic", "run", str(folder / "office.toml"), "--json"])
        for name in self.plan.network.monitors:
            self._add(name, [*COMMAND, "gateway", "run", str(folder / name / "gateway.toml"), "--json"])
        for name in ("office", *self.plan.network.monitors):
            self.parts[name].wait_until_ready(until)
        tell("limits at the roadside")
        self.wait(lambda: all(one["done"] for one in self.state()["monitors"]), "the limits at the roadside", until)
        self.wait(lambda: all(self.is_set(name) for name in self.plan.network.monitors), "monitors to listen", until)
        if not self.plan.scale:
            tell(f"{self.plan.vehicles} vehicles; the page is there already: {self.address}")
            self._add("fleet", [sys.executable, "-m", "vicinal_tools.demo.fleet", str(folder)])
            self.parts["fleet"].wait_until_ready(until)

    def analyse(self, tables: Path) -> None:
        """Spark follows the brokers to which the monitors publish, and makes tables of what comes."""
        from .files import ADMINISTRATOR

        folder, here = self.plan.folder, [f"tcp://127.0.0.1:{port}" for port in self.plan.brokers.values()]
        token = folder / f"{ADMINISTRATOR}.token"
        source = ["--brokers", ",".join(here), "--token-file", str(token)]
        # As the office: limits that are set in its page hold for the tables too.
        rules = ["--office", str(folder / "office.toml"), "--rules", self.address]
        self._add("spark", [*COMMAND, "spark", "ingest", *source, *rules, "--out", str(tables), "--json"])

    def _add(self, name: str, command: list[str]) -> None:
        self.parts[name] = Part(name, command, self.plan.folder, self.env)

    def wait(self, condition: Callable[[], Any], what: str, until: float) -> None:
        while True:
            self.check()
            with contextlib.suppress(urllib.error.URLError, OSError):
                if condition():
                    return
            if time.monotonic() > until:
                raise DemoError(f"waited in vain for {what}")
            time.sleep(0.1)

    def check(self) -> None:
        for part in self.parts.values():
            if not part.running:
                code = part.process.returncode
                raise DemoError(f"{part.name} has ended by itself, with exit code {code}{part.last_words()}")

    # Looking

    @property
    def address(self) -> str:
        """Of the office."""
        return str(self.parts["office"].said["address"])

    def state(self) -> dict[str, Any]:
        return get(f"{self.address}/api/state")

    def accounts(self) -> dict[str, Any]:
        return get(f"{self.address}/api/accounts")

    def status(self, name: str) -> dict[str, Any]:
        """Of a broker or a monitor."""
        return get(f"{self.parts[name].said['status']}/status")

    def is_set(self, monitor: str) -> bool:
        """Its own requests; those of the office are on its signs."""
        found = [one for one in self.status(monitor)["requests"] if not one["opaque"]]
        goals = [goal for one in found for goal in one["services"].values()]
        return bool(goals) and all(goal["state"] == "applied" for goal in goals)

    # Doing

    def speak(self, aloud: bool) -> None:
        self.parts["fleet"].process.send_signal(signal.SIGUSR1 if aloud else signal.SIGUSR2)

    def set_limit(self, area: str, value: int, who: str = "operator") -> None:
        post(f"{self.address}/api/limits", {"area": area, "value": value, "who": who})

    def stop(self) -> dict[str, int]:
        """Exit codes, in the order in which they ended: from the vehicles to the brokers, those of a kind together."""
        codes = {}
        kinds = (("fleet", "spark"), tuple(self.plan.network.monitors), ("office",), BROKERS)
        for kind in kinds:
            here = {name: self.parts[name] for name in reversed(kind) if name in self.parts}
            for part in here.values():
                part.ask_to_end()
            for name, part in here.items():
                codes[name] = part.end()
        return codes

    def end(self, name: str, patience: float = GOODBYE) -> int:
        """One of them, for good."""
        return self.parts.pop(name).end(patience)


def get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        found: dict[str, Any] = json.load(answer)
        return found
