"""The loop of an agent: its parts, its link and its core, turn by turn, on a board and on a Pi.

    loop = Loop(config, opener, version, seed, now, folder)
    while True:
        due = loop.turn(now)               ms since the start; wait until then, or until something is heard

`opener` knows the machine: flash(config) gives the journal's, open(ports, loop, now) a part, which offers what it hears
to loop.offer_of(port). `link` moves datagrams to the gateway, and is None where there is none. What is kept over a
restart is in `folder`: boot.json, how the last boots went.
"""

from .core import Agent
from .guard import HEALTHY_AFTER, BootGuard, Watchdog
from .journal import Journal
from .kept import keep, kept
from .ports import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vicinal.event import Event

    from .config import Config

__all__ = ["Loop"]

# ms until a part that failed is opened again.
_REOPEN = 10000
# ms that a port may be without a good turn, before the watchdog is left hungry; several times _REOPEN.
_PORT_SILENT = 120000
_LOOP_SILENT = 5000


class Loop:
    def __init__(
        self,
        config: "Config",
        opener: "Any",
        link: "Any",
        version: str,
        seed: bytes,
        now: int,
        folder: str = ".",
    ) -> None:
        self._record = folder + "/boot.json"
        self.guard = BootGuard(kept(self._record))
        self._keep(self.guard.begin())
        self.config = config
        self.opener = opener
        self.link = link
        journal = Journal(opener.flash(config), config.memory, config.linger)
        self.agent = Agent(config, journal, seed, version, now, self.guard)
        self.sender = 1 + int.from_bytes(seed[:3], "big") % 0xFFFFFE
        self.parts: list[Any] = []
        """[what it is called, how to open it, the part or None, when to try again, why it failed]"""
        if not self.guard.safe:
            self._plan()
        limits = {"loop": _LOOP_SILENT}
        for entry in self.parts:
            limits[entry[0]] = _PORT_SILENT
        self.watchdog = Watchdog(limits, now)
        self.updater: Any = None
        self.started = now

    def _plan(self) -> None:
        """All BLE groups share a radio; every bus and sensor is a part. Sensors come last, when there is a way out."""
        groups = [port for port in self.config.ports if port.kind == "ble"]
        for number, port in enumerate(self.config.ports):
            if port.kind == "ble" and port is groups[0]:
                self.parts.append([name_of(port, number), groups, None, 0, ""])
            elif port.kind != "ble":
                self.parts.append([name_of(port, number), (port,), None, 0, ""])

    def _keep(self, record: "Any") -> None:
        """A file system without room is no reason not to work: boots are not counted then, and its health says why."""
        try:
            keep(self._record, record)
        except OSError as error:
            self.guard.why = f"boot.json: {error}"

    def offer_of(self, port: "Any") -> "Any":
        """Where a part offers what it hears. What came by a port does not leave by it."""
        agent = self.agent
        if agent.ways is None:
            return agent.offer
        name = [entry[0] for entry in self.parts if port in entry[1]][0]

        def offer(event: "Event", now: int) -> None:
            agent.offer(event, now, name)

        return offer

    def turn(self, now: int) -> int:
        agent = self.agent
        dues: list[int | None] = []
        for entry in self.parts:
            dues.append(self._serve(entry, now))
        if self.link is not None:
            self.link.service(agent.client, now)
        due = agent.service(now)
        if self.link is not None:
            self.link.service(agent.client, now)
        self.watchdog.report("loop", now)
        if self.updater is not None:
            works = self._works(now) and not self.guard.safe
            due = min(due, self.updater.service(now, works))
            self.link.service(agent.client, now)
        if not self.guard.is_healthy and now - self.started >= HEALTHY_AFTER and self._works(now):
            self._keep(self.guard.healthy())
        for each in dues:
            if each is not None and each < due:
                due = each
        client = None if self.link is None else agent.client.next_timeout()
        return due if client is None else min(due, client)

    def _works(self, now: int) -> bool:
        """A port that is not open does not, though the watchdog is patient with it."""
        return self.watchdog.may_feed(now) and not [entry for entry in self.parts if entry[2] is None]

    def _serve(self, entry: "list[Any]", now: int) -> "int | None":
        name, ports, part, again, _ = entry
        try:
            if part is None:
                if now < again:
                    return int(again)
                part = entry[2] = self.opener.open(ports, self, now)
                entry[4] = ""
                if self.agent.ways is not None:
                    self.agent.ways.opened(name, part, now)
            due: int | None = part.service(now)
        except OSError as error:
            self.failed(entry, str(error) or repr(error), now)
            return int(entry[3])
        self.watchdog.report(name, now)
        return due

    def failed(self, entry: "list[Any]", why: str, now: int) -> None:
        if entry[2] is not None:
            if self.agent.ways is not None:
                self.agent.ways.closed(entry[0])
            try:
                entry[2].close()
            except OSError:
                pass
        entry[2], entry[3], entry[4] = None, now + _REOPEN, why
        self.agent.counters["port failures"] = self.agent.counters.get("port failures", 0) + 1
        self.agent.why = f"{entry[0]}: {why}"

    def give_up(self, why: str) -> None:
        """Before a restart that is asked for: the next boot says why."""
        self._keep(self.guard.failed(why))

    def give_way(self) -> None:
        """Before a restart into another release: this boot has not failed."""
        self._keep(self.guard.none())

    def close(self) -> None:
        self.agent.journal.flush()
        for entry in self.parts:
            if entry[2] is not None:
                entry[2].close()
        if self.link is not None:
            self.link.close()
