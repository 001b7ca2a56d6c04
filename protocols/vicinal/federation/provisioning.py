"""How a gateway gets its name and its configuration, and never ends without one that works (seed 001, 8.2.3 and 8.2.4;
spec/provisioning.md).

    unnamed ──▶ asking ──▶ settled ──▶ applying ──▶ on trial ──▶ settled
                             ▲            │            │
                             └─ rolled back ◀──────────┘   it fails, says so, and is on the last good one again

The gateway says hello, the fleet answers with a name and a version of the configuration. A new version is on trial: it
must start, be healthy for a while and reach the fleet, or the last good one comes back. That one stays on disk until
another has passed. Version 0 is what the gateway was installed with.

No clock and no disk here. What is to be done comes from `next_action`, in the order in which it must be done:

    ("write", version, text)   a file of its own, fsync, rename
    ("save", state)            a dict for JSON, likewise: given again at the next start
    ("run", version)           use that configuration; then say `started`, or `unusable` with the reason
    ("name", name)             the gateway's name is this from now on
    ("remove", version)        its file is no longer needed
    ("send", event)            to the fleet

Whoever is killed between two of them finds its way at the next start.
"""

from .. import limits
from .._compat import utf8_len
from .._table import shown
from ..errors import LocalProtocolError, RemoteProtocolError
from ..event import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "APPLYING",
    "ASKING",
    "CONFIG",
    "HELLO",
    "MAX_CONFIG_BYTES",
    "ROLLED_BACK",
    "SETTLED",
    "TRIAL",
    "UNNAMED",
    "GatewayConfig",
    "GatewayHello",
    "Provisioning",
    "good_name",
]

HELLO = "FES_GatewayHello"
CONFIG = "FES_GatewayConfig"

UNNAMED = "unnamed"
ASKING = "asking"
APPLYING = "applying"
TRIAL = "on trial"
SETTLED = "settled"
ROLLED_BACK = "rolled back"

# With its envelope it must fit into one event.
MAX_CONFIG_BYTES = 49152
# A name is a client's and a producer's, too.
MAX_NAME_BYTES = limits.MAX_PRODUCER_BYTES
# Milliseconds between hellos; until there is an answer they begin at the shorter and double.
HELLO_MS = 60000
FIRST_HELLO_MS = 2000
# And at least between two that tell of an illness.
SICK_HELLO_MS = 10000
# How long a new configuration must be healthy without a break, and how long it may take to get there.
TRIAL_MS = 60000
PATIENCE_MS = 600000
# Starts of a configuration on trial: one that takes the gateway down each time is not tried for ever.
MAX_STARTS = 3
# Versions that failed here and are not tried again; a fleet has forgotten older ones long ago.
MAX_BAD = 16


def good_name(name: "Any") -> bool:
    """A name is part of file names, of TOML strings and of distribution lists."""
    if type(name) is not str or not 0 < utf8_len(name) <= MAX_NAME_BYTES or name[0] in ".-":
        return False
    return all([char > " " and char not in "\"'\\/{},*?\x7f" for char in name])


def _take(event: Event, subject: str, fields: "tuple[tuple[str, Any], ...]") -> "list[Any]":
    if event.subject != subject:
        raise RemoteProtocolError(f"{subject}: subject is {shown(event.subject)}")
    for name, kind in fields:
        value = event.get(name)
        if type(value) is not kind or (kind is int and value < 0):
            raise RemoteProtocolError(f"{subject}: {name} is {shown(value)}, want {kind.__name__}")
    return [event.get(name) for name, _ in fields]


def _check_uid(subject: str, uid: str) -> None:
    if not 0 < utf8_len(uid) <= MAX_NAME_BYTES:
        raise RemoteProtocolError(f"{subject}: Uid is {shown(uid)}, want 1 to {MAX_NAME_BYTES} bytes")


class GatewayHello:
    """Of the gateway `uid`, which calls itself `name` or "", and runs `version`. `health` is "ok", "starting", "trial",
    or "failed: " and why; `failed` is the version that was tried and failed, 0 for none."""

    __slots__ = ("failed", "health", "name", "uid", "version")

    def __init__(self, uid: str, name: str, version: int, health: str, failed: int = 0) -> None:
        self.uid = uid
        self.name = name
        self.version = version
        self.health = health
        self.failed = failed

    def to_event(self) -> Event:
        head = [("Uid", self.uid), ("Name", self.name), ("Version", self.version)]
        return Event(HELLO, head + [("Health", self.health), ("Failed", self.failed)])

    @staticmethod
    def from_event(event: Event) -> "GatewayHello":
        """Raises RemoteProtocolError."""
        fields = (("Uid", str), ("Name", str), ("Version", int), ("Health", str), ("Failed", int))
        uid, name, version, health, failed = _take(event, HELLO, fields)
        _check_uid(HELLO, uid)
        return GatewayHello(uid, name, version, health[:200], failed)


class GatewayConfig:
    """For the gateway `uid`: its `name`, and the `version` it should run. `text` is that configuration (TOML), None
    where it has it, or where there is none. `noted` is the failed version of the hello that this answers."""

    __slots__ = ("name", "noted", "text", "uid", "version")

    def __init__(self, uid: str, name: str, version: int, text: "bytes | None" = None, noted: int = 0) -> None:
        if text is not None and len(text) > MAX_CONFIG_BYTES:
            raise LocalProtocolError(
                f"configuration of {name!r} has {len(text)} bytes, the limit is {MAX_CONFIG_BYTES}"
            )
        self.uid = uid
        self.name = name
        self.version = version
        self.text = text
        self.noted = noted

    def to_event(self) -> Event:
        params: list[tuple[str, Any]] = [("Uid", self.uid), ("Name", self.name), ("Version", self.version)]
        params.append(("Noted", self.noted))
        if self.text is not None:
            params.append(("Text", self.text))
        return Event(CONFIG, params)

    @staticmethod
    def from_event(event: Event) -> "GatewayConfig":
        """Raises RemoteProtocolError."""
        fields = (("Uid", str), ("Name", str), ("Version", int), ("Noted", int))
        uid, name, version, noted = _take(event, CONFIG, fields)
        _check_uid(CONFIG, uid)
        if not good_name(name):
            raise RemoteProtocolError(f"{CONFIG}: Name is {shown(name)}, which is no name of a gateway")
        text = event.get("Text")
        if text is not None and (type(text) is not bytes or len(text) > MAX_CONFIG_BYTES):
            raise RemoteProtocolError(f"{CONFIG}: Text is {shown(text)}, want at most {MAX_CONFIG_BYTES} bytes")
        if text is not None and version == 0:
            raise RemoteProtocolError(f"{CONFIG}: Version is 0, want 1 or more: there is a Text")
        return GatewayConfig(uid, name, version, text, noted)


class Provisioning:
    """One for the life of a process: made with what was saved last, or None; then `start`."""

    def __init__(
        self,
        uid: str,
        saved: "dict[str, Any] | None" = None,
        name: str = "",
        hello_ms: int = HELLO_MS,
        trial_ms: int = TRIAL_MS,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        """`name` is one that a person has given: the fleet is asked for none then, if it is free there."""
        found = saved or {}
        self.uid = uid
        self.name: str = found.get("name") or name
        self.good: int = found.get("good", 0)
        """the last version that has passed"""
        self.candidate: int = found.get("candidate", 0)
        """the version on trial, or 0"""
        self.starts: int = found.get("starts", 0)
        self.bad: list[int] = list(found.get("bad", []))
        self.failed: int = found.get("failed", 0)
        """a version whose failure the fleet has not yet noted"""
        self.reason: str = found.get("reason", "")
        self.heard = False
        self.ignored = 0
        """messages for others, or for nobody"""
        self.hello_ms = hello_ms
        self.trial_ms = trial_ms
        self.patience_ms = patience_ms
        self._actions: list[tuple[Any, ...]] = []
        self._up = False  # the version that runs has started
        self._problem = ""
        self._healthy_since: int | None = None
        self._healthy_until = 0
        self._answered = False  # since the candidate started
        self._deadline = 0  # of the candidate
        self._next_hello: int | None = None
        self._last_hello = -SICK_HELLO_MS
        self._pause = FIRST_HELLO_MS

    @property
    def running(self) -> int:
        return self.candidate or self.good

    @property
    def state(self) -> str:
        if self.candidate:
            return TRIAL if self._up else APPLYING
        if self.failed:
            return ROLLED_BACK
        if not self.name:
            return UNNAMED
        return SETTLED if self.heard else ASKING

    def next_action(self) -> "tuple[Any, ...] | None":
        return self._actions.pop(0) if self._actions else None

    def start(self, now: int) -> None:
        """First, and once."""
        if self.candidate and self.starts >= MAX_STARTS:
            self._roll_back(f"the gateway was started {self.starts} times and did not stay up", now)
        elif self.candidate:
            self._try(now)
        else:
            self._run()
            self._soon(now)

    def started(self, now: int) -> None:
        """The configuration of the last "run" is in use."""
        self._up = True
        self._soon(now)

    def unusable(self, now: int, reason: str) -> None:
        """The configuration of the last "run" is refused, or, on trial, its gateway has ended by itself. (One that has
        passed its trial and ends is started again.)"""
        if self.candidate:
            self._roll_back(reason, now)
        elif self.good:
            # It has worked once and does no longer, as after an update of the software. What came with the gateway is
            # all that is left, and reaches the fleet.
            version = self.good
            self.good = 0
            self._condemn(version, reason)
            self._save()
            self._run()
            self._remove(version)
            self._soon(now)
        else:
            self._problem = reason

    def health(self, now: int, problem: str = "") -> None:
        """What the gateway finds about itself, again and again: "" or what is wrong."""
        if problem and not self._problem and not self.candidate and self._next_hello is not None:
            # Said soon, but of a gateway that comes and goes not every time.
            self._next_hello = min(self._next_hello, max(now, self._last_hello + SICK_HELLO_MS))
        self._problem = problem
        if problem or not self._up:
            self._healthy_since = None
        elif self._healthy_since is None:
            self._healthy_since = now
        self._healthy_until = now
        self._judge(now)

    def receive(self, event: Event, now: int) -> None:
        """Raises RemoteProtocolError of what is no answer; then nothing has changed."""
        message = GatewayConfig.from_event(event)
        if message.uid != self.uid:
            self.ignored += 1
            return
        self.heard = True
        self._pause = FIRST_HELLO_MS
        renamed, noted = message.name != self.name, self.failed and message.noted == self.failed
        self.name = message.name
        if noted:
            self.failed = 0
        if renamed or noted:
            self._save()
        if renamed:
            self._actions.append(("name", self.name))
        if self.candidate:
            self._answered = self._answered or self._up
        if not self.failed and (self._up or not self.candidate):
            self._next_hello = now + self.hello_ms
        if self.candidate:
            self._judge(now)
            return
        if message.text is None or message.version == self.good:
            return
        if message.version in self.bad:
            # The fleet does not know, or not yet.
            if self.failed != message.version:
                self.failed = message.version
                self.reason = self.reason or "it failed before"
                self._save()
            self._next_hello = now + FIRST_HELLO_MS
            return
        self.candidate = message.version
        self.starts = 0
        self._actions.append(("write", message.version, message.text))
        self._try(now)

    def next_timeout(self) -> "int | None":
        times = [] if self._next_hello is None else [self._next_hello]
        if self.candidate:
            times.append(self._deadline)
        return min(times) if times else None

    def handle_timeout(self, now: int) -> None:
        self._judge(now)
        if self._next_hello is not None and now >= self._next_hello:
            self._hello(now)

    # Within

    def _try(self, now: int) -> None:
        """Saved before it is run: a candidate that kills us has been counted."""
        self.starts += 1
        self._save()
        self._run()
        self._answered = False
        self._deadline = now + self.patience_ms
        # It is on trial whether it can reach the fleet: the hello waits until it is up.
        self._next_hello = None

    def _run(self) -> None:
        self._up = False
        self._problem = ""
        self._healthy_since = None
        self._actions.append(("run", self.running))

    def _judge(self, now: int) -> None:
        if not self.candidate:
            return
        since = self._healthy_since
        # As long as it has said so: one that hangs says nothing.
        if self._answered and since is not None and self._healthy_until - since >= self.trial_ms:
            last, self.good = self.good, self.candidate
            self.candidate = self.starts = 0
            self._save()
            self._remove(last)
            self._soon(now)
        elif now >= self._deadline:
            why = self._problem or ("it did not start" if not self._up else "")
            why = why or ("the fleet did not answer" if not self._answered else "it was not healthy for long enough")
            self._roll_back(f"{why} within {self.patience_ms // 1000} s", now)

    def _roll_back(self, reason: str, now: int) -> None:
        version = self.candidate
        self.candidate = self.starts = 0
        self._condemn(version, reason)
        self._save()
        self._run()
        self._remove(version)
        self._soon(now)

    def _condemn(self, version: int, reason: str) -> None:
        if version not in self.bad:
            self.bad = (self.bad + [version])[-MAX_BAD:]
        self.failed = version
        self.reason = reason

    def _remove(self, version: int) -> None:
        if version:
            self._actions.append(("remove", version))

    def _save(self) -> None:
        state = {"name": self.name, "good": self.good, "candidate": self.candidate, "starts": self.starts}
        state["bad"] = list(self.bad)
        state["failed"] = self.failed
        state["reason"] = self.reason
        self._actions.append(("save", state))

    def _soon(self, now: int) -> None:
        self._next_hello = now
        self._pause = FIRST_HELLO_MS

    def _hello(self, now: int) -> None:
        if self.failed:
            health = f"failed: {self.reason}"
        elif self.candidate:
            health = "trial"
        else:
            health = f"failed: {self._problem}" if self._problem else ("ok" if self._up else "starting")
        hello = GatewayHello(self.uid, self.name, self.running, health[:200], self.failed)
        self._actions.append(("send", hello.to_event()))
        self._last_hello = now
        self._next_hello = now + min(self._pause, self.hello_ms)
        self._pause = min(2 * self._pause, self.hello_ms)
