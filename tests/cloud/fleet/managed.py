"""A gateway as far as its fleet sees it: the state machine with a real folder and a real client.

Its configuration says what it is like: `sick = true` is never healthy, `unusable = true` cannot be used.
"""

import asyncio
import json
import os
import time
import tomllib
from pathlib import Path
from typing import Any

from vicinal.federation.provisioning import CONFIG, HELLO, Provisioning
from vicinal_cloud.broker.client import Client, connect

TIMES = {"hello_ms": 300, "trial_ms": 400, "patience_ms": 2500}


class Managed:
    def __init__(self, uid: str, folder: Path, address: str) -> None:
        self.uid = uid
        self.folder = folder
        self.address = address
        self.config: dict[str, Any] = {}
        self.runs: list[int] = []
        folder.mkdir(exist_ok=True)
        saved = folder / "state.json"
        self.machine = Provisioning(uid, json.loads(saved.read_text()) if saved.exists() else None, **TIMES)
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None

    async def __aenter__(self) -> "Managed":
        self._client = await connect(self.address, f"{self.uid}-client")
        hellos = await self._client.advertise(f"subject = '{HELLO}'")
        configs = await self._client.subscribe(f"subject = '{CONFIG}' AND Uid = '{self.uid}'")
        self.machine.start(self.now())

        async def work() -> None:
            waiting = asyncio.ensure_future(anext(configs))
            try:
                while True:
                    done, _ = await asyncio.wait([waiting], timeout=0.05)
                    if done:
                        self.machine.receive(waiting.result().event, self.now())
                        waiting = asyncio.ensure_future(anext(configs))
                    self.machine.health(self.now(), "sick" if self.config.get("sick") else "")
                    self.machine.handle_timeout(self.now())
                    await act()
            finally:
                waiting.cancel()

        async def act() -> None:
            assert self._client is not None
            while (action := self.machine.next_action()) is not None:
                if action[0] == "send":
                    await self._client.submit(action[1], hellos)
                else:
                    self._do(*action)

        self._task = asyncio.create_task(work())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        assert self._client is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    def now(self) -> int:
        return int(time.monotonic() * 1000)

    @property
    def settled(self) -> tuple[str, int] | None:
        """Name and version, once it is."""
        machine = self.machine
        return (machine.name, machine.running) if machine.state == "settled" else None

    def failed(self) -> None:
        """What `work` ended with, if it did."""
        if self._task is not None and self._task.done():
            self._task.result()

    def _do(self, kind: str, *rest: Any) -> None:
        if kind == "write":
            self._write(self.folder / f"{rest[0]}.toml", rest[1])
        elif kind == "save":
            self._write(self.folder / "state.json", json.dumps(rest[0]).encode())
        elif kind == "remove":
            (self.folder / f"{rest[0]}.toml").unlink(missing_ok=True)
        elif kind == "run":
            self.runs.append(rest[0])
            self.config = tomllib.loads((self.folder / f"{rest[0]}.toml").read_text()) if rest[0] else {}
            if self.config.get("unusable"):
                self.machine.unusable(self.now(), "it says so itself")
            else:
                self.machine.started(self.now())

    def _write(self, file: Path, data: bytes) -> None:
        new = file.with_suffix(".new")
        with new.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        new.replace(file)
