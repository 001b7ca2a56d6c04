"""A gateway that gets its name and its configuration from the fleet (seed 001, 8.2.3 and 8.2.4; spec/provisioning.md).

    [fleet]
    service = "office"                   # a [[service]]: the overlay that reaches the fleet
    trial_s = 60                         # how long a new configuration must be healthy before the old one is forgotten

What decides is vicinal.federation.provisioning; here its actions are carried out: files are written, a server is ended
and another started, hellos are said. In the state folder:

    uid                 made once: by it the fleet knows this gateway for ever
    fleet/state.json    what must be known after a restart
    fleet/3.toml        a configuration that was served; its paths are relative to the file that was installed
"""

import asyncio
import contextlib
import json
import logging
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vicinal.errors import LocalProtocolError, RemoteProtocolError
from vicinal.event import Event
from vicinal.federation.provisioning import CONFIG, Provisioning

from ..adapters._numbers import kept_text, replace
from ..store import StoreInUse
from .config import Config, loads
from .server import Server

__all__ = ["Managed"]

_log = logging.getLogger("vicinal.gateway")
_LOOK = 1.0


class Managed:
    """`config` is what the gateway was installed with: version 0."""

    def __init__(self, config: Config, ready: Callable[[Server], None]) -> None:
        self.installed = config
        self.folder = config.state / "fleet"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.uid = kept_text(config.state / "uid", secrets.token_hex(8))
        self.provisioning = Provisioning(self.uid, self._saved(), config.name, trial_ms=config.trial_ms)
        self.server: Server | None = None
        self._version = 0
        self._ready = ready
        self._is_ready = False
        self._away: frozenset[str] = frozenset()
        self._said: list[Event] = []
        self._wake = asyncio.Event()

    def _saved(self) -> dict[str, Any] | None:
        try:
            found = json.loads((self.folder / "state.json").read_text())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.error("what the fleet has said is lost, and is asked for again: %s", error)
            return None
        return found if isinstance(found, dict) else None

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`; then the server is ended."""
        loop = asyncio.get_running_loop()
        self.provisioning.start(self._now())
        ended = loop.create_task(stop.wait())
        try:
            while not stop.is_set():
                await self._act()
                self._wake.clear()
                waiting = loop.create_task(self._wake.wait())
                await asyncio.wait([waiting, ended], timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                self._look()
        finally:
            ended.cancel()
            if self.server is not None:
                await self.server.stop()

    def _look(self) -> None:
        now = self._now()
        for event in self._said:
            try:
                self.provisioning.receive(event, now)
            except RemoteProtocolError as error:
                _log.warning("what came from the fleet is no configuration: %s", error)
        self._said.clear()
        self.provisioning.health(now, self._problem())
        due = self.provisioning.next_timeout()
        if due is not None and now >= due:
            self.provisioning.handle_timeout(now)

    def _now(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    # Health

    def _problem(self) -> str:
        """What is wrong with the gateway as it runs. A service that was away before is not held against it."""
        if self.server is None:
            return "it does not run"
        for service in self.server.node.services.values():
            if service.state != "up" and service.service not in self._away:
                return f"{service.service} is {service.state}: {service.reason}"
        for one in self.server.node.engine.requests.report():
            for name, goal in one["services"].items():
                if goal["state"] == "refused":
                    return f"{one['request']} {one['what']} at {name}: {goal['reason']}"
        return ""

    # Actions

    async def _act(self) -> None:
        while (action := self.provisioning.next_action()) is not None:
            verb = action[0]
            if verb == "write":
                self._keep(self._file(action[1]), action[2].decode("utf-8", "replace"))
            elif verb == "save":
                self._keep(self.folder / "state.json", json.dumps(action[1]))
            elif verb == "remove":
                with contextlib.suppress(FileNotFoundError):
                    self._file(action[1]).unlink()
            elif verb == "send":
                self._send(action[1])
            elif verb == "run":
                await self._run(action[1])
            elif self.server is not None:  # to all others it is a new gateway
                await self._run(self._version)

    def _keep(self, file: Path, text: str) -> None:
        """A disk that takes nothing must not end the gateway: a configuration that is not there is unusable, and said
        to be; what is not known after a restart is asked for again."""
        try:
            replace(file, text)
        except OSError as error:
            _log.error("%s cannot be written: %s", file, error)

    def _file(self, version: int) -> Path:
        return self.folder / f"{version}.toml"

    def _send(self, event: Event) -> None:
        if self.server is not None:
            self.server.node.say(self.server.node.config.fleet, event)

    async def _run(self, version: int) -> None:
        self._version = version
        if self.server is not None:
            services = self.server.node.services.values()
            self._away = frozenset(one.service for one in services if one.state != "up")
            server, self.server = self.server, None
            await server.stop()
        try:
            config = self._config(version)
            self.server = await Server.start(config)
        except (LocalProtocolError, StoreInUse, sqlite3.Error, OSError) as error:
            _log.error("version %d of the configuration cannot be used: %s", version, error)
            if not version and not self._is_ready:
                raise  # what a person has installed is wrong: say so
            self.provisioning.unusable(self._now(), str(error))
            return
        _log.info("gateway %s runs version %d of its configuration", config.name, version)
        self.server.node.listen_for(CONFIG, f"subject = '{CONFIG}' AND Uid = '{self.uid}'", config.fleet, self._heard)
        if version == self.provisioning.running:  # else another is next
            self.provisioning.started(self._now())
        if not self._is_ready:
            self._is_ready = True
            self._ready(self.server)

    def _config(self, version: int) -> Config:
        found = self.installed
        if version:
            found = loads(self._file(version).read_bytes(), self.installed.file)
            if not found.fleet:
                raise LocalProtocolError("it has no [fleet]: the gateway could not be reached any more")
        name = self.provisioning.name or found.name or f"new-{self.uid}"
        return found._replace(name=name, state=self.installed.state)

    def _heard(self, event: Event) -> None:
        self._said.append(event)
        self._wake.set()
