"""Updates over the air, as far as an agent always has them: when it asks, what it was told, how the last one ended.

    updater = Updater(agent, settings, slots, record, keep, files, mpy, now)
    updater.service(now, works)       with every turn of the loop; gives when it wants the next
    updater.restart                   not "": the machine is to start again, and why
    updater.report()                  for the agent's health: what was tried last, how it ended, why

    idle ── every_s, or AgentUpdate ──▶ fetching (update.py) ──▶ switched, restart ──▶ on trial ──▶ confirmed
     ▲ interrupted: again later              │ refused                                    │ not healthy
     └───────────────────────────────────────┘                                           └─▶ restart; the slots go back

A release is healthy when it has reached the gateway and has worked for `healthy_s`, all within `patience_s`. One that
went back is not tried again, unless somebody says so with another AgentUpdate.

What does the work is loaded when there is something to fetch, and forgotten. Where the agent leaves no room for it the
machine starts again to update and do nothing else (over_the_air.py), and then as the agent.
"""

import gc
import sys as _sys

from vicinal._compat import MICROPYTHON
from vicinal.coap import events
from vicinal.coap.client import Request
from vicinal.coap.message import GET
from vicinal.errors import LocalProtocolError

from .kept import is_lean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from vicinal._table import Table
    from vicinal.coap.client import Answer
    from vicinal.event import Event

    from .core import Agent

# MicroPython's modules are no ModuleType that type checkers know.
sys: "Any" = _sys

__all__ = ["Settings", "Updater", "forget"]

UPDATE = "AgentUpdate"
# ms between two attempts that were interrupted, at most; and until the gateway is asked again to be observed.
_RETRY_MOST = 3600000
_OBSERVE_AGAIN = 60000
_REFRESH = 120000
# ms after the start: the network comes first, and events that waited.
_SETTLE = 5000
# ms until something is looked at that waits for others.
_LOOK = 500
_MAX_WHY = 160
# Four numbers, as releases have; no query is longer than CoAP takes.
_MAX_VERSION = 27
# Boots for an update alone: what does not end then is left alone until somebody asks for it.
_MAX_LEAN = 3
_LOADED = (
    "vicinal_edge.agent.update",
    "vicinal_edge.agent.update_files",
    "vicinal_edge.agent.update_rom",
    "vicinal_hw.flash.romfs",
    "vicinal.release",
)
_ON_A_PI = "on this machine the agent is updated with pip or apt, and not over the air"
# Bytes: what is loaded for an update and what it works with, and as much again, as memory comes in pieces and nobody
# else may fail for it.
_ROOM = 28672
_NO_ROOM = "it has no room in memory"
_NO_KEY = "its configuration has no [update] with a key"


class Settings:
    """[update] of a configuration (config.py)."""

    def __init__(self, table: "Table") -> None:
        self.key: str = table.take("key", str, required=True)
        try:
            if not MICROPYTHON:
                from vicinal.p256 import key_of

                key_of(self.key)
            elif len(self.key) != 66:
                raise LocalProtocolError(f"a key of {len(self.key)} characters, want 66 hex digits")
        except LocalProtocolError as error:
            raise table.error("key", f"is no key: {error}; `vicinal release key` shows it")
        self.board: str = table.take("board", str, "any")
        self.every: int = 1000 * table.integer("every_s", 0, 2592000, 3600)
        self.healthy: int = 1000 * table.integer("healthy_s", 1, 3600, 60)
        self.patience: int = 1000 * table.integer("patience_s", 1, 86400, 300)
        self.retry: int = 1000 * table.integer("retry_s", 1, 3600, 10)
        if self.patience <= self.healthy:
            raise table.error("patience_s", f"is {self.patience // 1000}, want more than healthy_s")
        table.done()


class Updater:
    def __init__(
        self,
        agent: "Agent",
        settings: "Settings | None",
        slots: "Any",
        record: "Any",
        keep: "Callable[[dict[str, Any]], None]",
        files: "Callable[[], Any]",
        mpy: "int | None",
        now: int,
        lean: bool = False,
    ) -> None:
        """`record` is what was kept last, `files` makes update_files.py's for an attempt; `lean`: this boot is for it
        alone. Without settings or slots there are no updates, and whoever asks for one is told why."""
        self.restart = ""
        self._agent = agent
        self._settings = settings
        self._slots = slots
        self._files = files
        self._mpy = mpy
        self._keep = keep
        self._record: dict[str, Any] = record if isinstance(record, dict) else {}
        self._update: Any = None
        self._observed: Any = None
        self._observe_at = now
        self._started = now
        self._retry = 0 if settings is None else settings.retry
        self._ask_at: int | None = None
        self._trial = False
        self._asked = False
        self._lean = lean
        self._kept = True
        """whether there was room on flash for what has changed"""
        if not _is_version(self._record.get("want") or ""):
            self._record["want"] = None
        if is_lean(self._record):
            self._change(lean=False)  # of a boot that did not come to it
        if slots is not None:
            self._look_back(slots.outcome or {})
            if settings is not None and (settings.every or self._record.get("want") is not None):
                # After a boot without the agent there is one with it, for as long as one may wait.
                self._ask_at = now + ((settings.every or _RETRY_MOST) if self._record.get("rest") else _SETTLE)
            if self._record.get("rest"):
                self._change(rest=False)
        agent.extra = self.report

    def _look_back(self, outcome: "dict[str, Any]") -> None:
        """What the slots have decided since our record was written. Power may have gone between the two."""
        result = self._record.get("result")
        if result not in ("fetching", "switched") or outcome.get("version") != self._record.get("version"):
            return
        if self._slots.trying is not None:
            self._trial = True
            self._change(result="switched", want=None, tried=self._record.get("id", ""))
        elif result == "switched":
            self._change(result=outcome.get("result"), why=outcome.get("why"))

    @property
    def judges(self) -> bool:
        """Whether a release is on trial that came over the air: then it is for us to say that it works."""
        return self._trial

    def report(self) -> "list[tuple[str, Any]]":
        found = self._record
        version, result, why = found.get("version"), found.get("result"), found.get("why")
        if type(version) is not str or type(result) is not str:
            return []
        said = [("update", version), ("update_result", "on trial" if result == "switched" else result)]
        for name, value in (("update_why", why), ("update_order", found.get("of"))):
            if type(value) is str and value:
                said.append((name, value))
        return said

    def service(self, now: int, works: bool) -> int:
        """`works`: every part of the agent does, lately."""
        agent = self._agent
        free = agent.client.waiting < 2  # else others have their turn first, and we look again
        due = now + (_REFRESH if free else _LOOK)
        if self._observed is None and now >= self._observe_at and free:
            self._observed = events.observe(
                agent.client, UPDATE, f"agent = '{agent.name}'", self._told, now, self._unobserved, _REFRESH
            )
        if self._trial:
            return self._judge(now, works)
        if self._slots is not None and self._slots.trying is not None and self._slots.good is not None:
            return now + _LOOK  # one that came by cable is on trial, in the place where the next would go
        if self._update is not None:
            try:
                more = self._update.service(now)
            except MemoryError:
                return self._no_room(now)
            if self._update.is_good and self._update.result is None:
                self._change(result="fetching", why="", version=self._update.version, id=self._update.id, of=self._of())
            if more:
                return now
            if self._update.result is not None:
                self._ended(now)
        elif self._ask_at is not None and now >= self._ask_at and free:
            if not self._reached():
                return now + _LOOK
            self._ask(now)
        for at in (self._ask_at, self._observe_at if self._observed is None else None):
            if at is not None and (free or at > now):
                due = min(due, at)
        return max(now, due)

    # A release on trial

    def _judge(self, now: int, works: bool) -> int:
        settings = self._settings
        if settings is None:
            return now + _REFRESH
        age, reached = now - self._started, self._reached()
        if age >= settings.healthy and works and reached:
            try:
                self._slots.confirm()
            except OSError:
                return now + _LOOK  # no room to say so: it is tried again
            self._trial = False
            self._change(result="confirmed", why="")
            self._agent.say_health(now)
        elif age >= settings.patience and not self.restart:
            why = "it did not reach the gateway" if not reached else "not all of its parts work"
            self.restart = f"{why} within {settings.patience // 1000} s"
            try:
                self._slots.failed(self.restart)
            except OSError:
                pass  # then nobody says why; it goes back all the same
        return now + _LOOK

    def _reached(self) -> bool:
        """The gateway has answered to an event, since the start."""
        counters = self._agent.counters
        return counters.get("delivered", 0) + counters.get("refused", 0) > 0

    # Being told

    def _told(self, event: "Event", now: int) -> None:
        if event.subject != UPDATE or event.get("agent") != self._agent.name:
            return
        order = f"{event.producer} {event.seq}"
        if event.identity is not None and order == self._record.get("order"):
            return  # the gateway tells its last one again, as when it is observed anew
        version = event.get("version")
        want = version if type(version) is str else ""
        if not _is_version(want):
            self._change(order=order, want=want[:_MAX_VERSION])
            self._say("refused", "that is no version, as 0.2.0 is", now, want[:_MAX_VERSION])
            self._change(want=None)
            return
        self._change(order=order, want=want, leans=0)
        if self._settings is None or self._slots is None:
            self._say("refused", _ON_A_PI if self._slots is None else _NO_KEY, now, want)
            self._change(want=None)
            return
        self._retry = self._settings.retry
        self._ask_at = now
        if not self._trial and self._update is None and not self._asked:
            self._say("asking", "", now, want)

    def _unobserved(self, answer: "Answer", now: int) -> None:
        self._observed = None
        self._observe_at = now + _OBSERVE_AGAIN

    # An attempt

    def _ask(self, now: int) -> None:
        """Whether there is anything, with nothing loaded: what is too long to be taken in one piece is a release."""
        settings, want = self._settings, self._record.get("want")
        self._ask_at, self._asked = None, True
        if settings is not None:
            which = f"want={want}" if want else f"version={self._agent.version}"
            queries = [f"board={settings.board}", which]
            self._agent.client.request(Request(GET, ["release"], self._answered, b"", None, None, queries), now)

    def _answered(self, answer: "Answer", now: int) -> None:
        self._asked = False
        if answer.code in (0x80, 0x84):
            self._over("refused" if self._record.get("want") else "nothing", answer.reason, now)
        elif answer.reason.startswith("timeout"):
            self._over("interrupted", answer.reason, now)
        elif not self._lean and self._record.get("leans", 0) >= _MAX_LEAN:
            # How it ended then is what is said, unless somebody asks.
            self._over("refused" if self._record.get("want") is not None else "nothing", _NO_ROOM, now)
        else:
            try:
                self._begin()
            except MemoryError:
                self._no_room(now)

    def _begin(self) -> None:
        gc.collect()  # what is loaded now stays for a while: it is to lie low, and not among what goes
        if not self._lean and self._agent.free is not None and self._agent.free() < _ROOM:
            raise MemoryError
        from .update import Update

        settings, want = self._settings, self._record.get("want")
        if settings is None:
            return
        self._ask_at = None
        tried = self._record.get("tried", "") if want is None else ""
        running = self._agent.version
        self._update = Update(
            self._agent.client, self._files(), settings.key, running, settings.board, self._mpy, want or None, tried
        )

    def _no_room(self, now: int) -> int:
        self._update = None
        forget(*_LOADED)
        if self._lean:
            self._over("interrupted", _NO_ROOM, now)
        else:
            self._change(lean=True, leans=self._record.get("leans", 0) + 1)
            if not self._kept:
                self._over("interrupted", _NO_ROOM + ", nor on flash", now)
                return now + _LOOK
            self.restart = "to update alone, as the agent leaves no room in memory"
        return now + _LOOK

    def _ended(self, now: int) -> None:
        update, self._update = self._update, None
        result, why, version = update.result, update.why, update.version
        if result == "ready":
            # From here on it is for the slots to decide; what they have decided is told by who runs then.
            try:
                self._files().switch()
            except OSError as error:
                self._over("interrupted", f"flash: {error}", now, version)
                del update
                forget(*_LOADED)
                return
            self._change(result="switched", why="", version=version, tried=update.id, leans=0)
            if self._ask_at is None:
                self._change(want=None)
            self.restart = f"update to {version}"
        else:
            self._over(result, why, now, version)
        del update
        forget(*_LOADED)

    def _over(self, result: str, why: str, now: int, version: "str | None" = None) -> None:
        """An attempt has ended with nothing to switch to."""
        settings, want = self._settings, self._record.get("want")
        if settings is None:
            return
        anew = self._ask_at is not None  # somebody has asked for something else meanwhile
        if version is None:
            version = want or ""
        if result == "interrupted":
            self._ask_at = self._ask_at if anew else now + self._retry
            self._retry = min(2 * self._retry, _RETRY_MOST)
            self._say(result, why, now, version)
        else:
            self._retry = settings.retry
            if result == "refused" or want is not None:
                self._say("refused", why, now, version)
            if not anew:
                self._change(want=None)
                self._ask_at = now + settings.every if settings.every else None
        if self._lean:
            self._change(rest=True)
            self.restart = "as the agent, after an update that came to nothing"

    def _say(self, result: str, why: str, now: int, version: str) -> None:
        if self._change(result=result, why=why, version=version, of=self._of()):
            self._agent.say_health(now)

    def _of(self) -> str:
        """The order that an attempt is made on; "": none, it is time to look."""
        return "" if self._record.get("want") is None else self._record.get("order", "")

    def _change(self, **values: "Any") -> bool:
        """Flash is written when something is new."""
        changed = False
        for key in values:
            value = values[key]
            if type(value) is str:
                value = value[:_MAX_WHY]
            if self._record.get(key) != value:
                self._record[key] = value
                changed = True
        if changed:
            try:
                self._keep(self._record)
                self._kept = True
            except OSError:
                self._kept = False
        return changed


def _is_version(text: "Any") -> bool:
    """Or nothing: the newest."""
    return type(text) is str and len(text) <= _MAX_VERSION and not [one for one in text if one not in "0123456789."]


def forget(*names: str) -> None:
    """What is not loaded takes no memory. On CPython there is enough, and others may have the module."""
    for name in names if MICROPYTHON else ():
        package, _, last = name.rpartition(".")
        sys.modules.pop(name, None)
        holder = sys.modules.get(package)
        if hasattr(holder, last):
            delattr(holder, last)
    gc.collect()
