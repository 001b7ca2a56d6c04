"""Real gateways for tests: processes, each with its configuration and state in a folder, all ended at the end."""

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from cloud.broker.brokers import COMMAND, PATIENCE

__all__ = ["GatewayProcess", "Gateways"]


class GatewayProcess:
    def __init__(self, name: str, file: Path, env: dict[str, str]) -> None:
        self.name = name
        self.file = file
        self.env = env
        self.start()

    def start(self) -> None:
        """Again, after a kill: with the state that is there."""
        with (self.file.parent / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "gateway", "run", str(self.file), "--json"],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **self.env},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"gateway {self.name} did not start: {self.log()}"
        self.status_address: str = json.loads(line)["status"]

    def log(self) -> str:
        return (self.file.parent / f"{self.name}.log").read_text()

    def status(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.status_address}/status", timeout=PATIENCE) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def get(self, page: str) -> str:
        with urllib.request.urlopen(f"{self.status_address}{page}", timeout=PATIENCE) as answer:
            return str(answer.read(), "utf-8")

    @property
    def up(self) -> bool:
        return all(one["state"] == "up" for one in self.status()["services"])

    @property
    def applied(self) -> bool:
        """All requests, and there are some."""
        goals = [goal for one in self.status()["requests"] for goal in one["services"].values()]
        return bool(goals) and all(goal["state"] == "applied" for goal in goals)

    def kill(self) -> None:
        self.process.kill()
        self._wait()

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self) -> int:
        code = self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


class Gateways:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: list[GatewayProcess] = []

    def start(self, name: str, text: str, env: dict[str, str] | None = None, hello: int = 1) -> GatewayProcess:
        """`text` is all but [gateway] and [status]."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        file = folder / "gateway.toml"
        head = f'[gateway]\nname = "{name}"\nhello_s = {hello}\n[status]\naddress = "http://127.0.0.1:0"\n'
        file.write_text(head + text)
        self.made.append(GatewayProcess(name, file, env or {}))
        return self.made[-1]

    def stop(self) -> None:
        for one in self.made:
            if one.process.poll() is None:
                one.process.kill()
                one._wait()
