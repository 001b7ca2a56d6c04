"""A gateway between a bus and a broker, as real processes, and everything that may happen to them.

    producers ──▶ mosquitto ──▶ gateway ──▶ Link (faults) ──▶ broker ──▶ its log
                  the bus       its store

    async with Rig(folder) as rig:
        await rig.load.run(2000, rate=500)       events of several producers; what the bus has acknowledged is noted
        await rig.kill()                         SIGKILL of the gateway
        await rig.start()
        await rig.check()                        after healing: what the bus has taken is in the broker's log, once,
                                                 in the order of its producer, and the books of the gateway agree

The bus is at QoS 1, with a session: what it has acknowledged to a producer is the gateway's to lose.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from cloud.broker.brokers import COMMAND, PATIENCE
from cloud.broker.kills.nursery import Nursery
from cloud.broker.kills.overlay import Overlay
from edge.gateway.outages.link import Link
from edge.servers import Mosquitto
from edge.store.sink import Identity, Sink, Verdict, judge

from vicinal.event import Event
from vicinal_cloud.log import LogReader, event_of
from vicinal_edge.adapters.mqtt import MqttAdapter
from vicinal_edge.contract import RecordingPort, settings

__all__ = ["Load", "Rig", "balanced", "until"]

CONFIG = """
[gateway]
name = "g1"
hello_s = 1
state = "{state}"
[status]
address = "http://127.0.0.1:0"
[[service]]
name = "bus"
{bus}
[[service]]
name = "office"
type = "siena"
address = "{office}"
[[request]]
type = "subscribe"
source = "office"
to = "bus"
filter = "subject = 'Speed'"
"""
QUIET = 15.0
"""seconds in which nothing has come before the rest counts as lost"""
CATCH_UP = 0.1
"""seconds by which a load may be late and still catch up"""
MAX_BEHIND = 2000
"""events that the bus has taken and the log does not have, before a load waits for them"""


class Load:
    """Producers on the bus, each numbering its events from 1 on."""

    def __init__(self, address: str, folder: Path, producers: int = 6) -> None:
        self.names = [f"car-{number}" for number in range(producers)]
        self.attempted: dict[str, int] = dict.fromkeys(self.names, 0)
        self.accepted: set[Identity] = set()
        """by the bus"""
        self.go = asyncio.Event()
        """cleared, nothing is said until it is set again"""
        self.go.set()
        self.make: Callable[[str, int], Event] = event_of_load
        keys = {"address": address, "prefix": "bus/", "session": 0, "keepalive": 3600}
        self._adapter = MqttAdapter("bus", settings(keys))
        self._port = RecordingPort("bus", folder)
        self._waiting: set[asyncio.Future[None]] = set()

    async def open(self) -> None:
        await self._adapter.connect(self._port)

    async def close(self) -> None:
        await self._adapter.disconnect()

    async def say(self, producer: str | None = None) -> None:
        producer = producer or min(self.names, key=lambda name: self.attempted[name])
        seq = self.attempted[producer] = self.attempted[producer] + 1
        done = await self._adapter.publish(self.make(producer, seq))
        assert done is not None
        self._waiting.add(done)
        done.add_done_callback(lambda done: self._answered(done, (producer, seq)))

    def _answered(self, done: "asyncio.Future[None]", identity: Identity) -> None:
        self._waiting.discard(done)
        if not done.cancelled() and done.exception() is None:
            self.accepted.add(identity)

    async def run(self, count: int, rate: float = 0) -> None:
        """So many, so many a second (0: as fast as it goes) or less; returns when the bus has all.

        What a slow machine has missed is not made up for, and all others have their turn after each: the link is in
        this loop, and while it stands still nothing gets through.
        """
        due = time.monotonic()
        for _ in range(count):
            await self.go.wait()
            await self.say()
            now = time.monotonic()
            due = max(due + 1 / rate, now - CATCH_UP) if rate else now
            await asyncio.sleep(due - now if due - now > 0.005 else 0)
        while self._waiting:
            await asyncio.wait(self._waiting, timeout=PATIENCE)

    async def forever(self, rate: float) -> None:
        """Until cancelled."""
        with contextlib.suppress(asyncio.CancelledError):
            await self.run(10**9, rate)


def event_of_load(producer: str, seq: int) -> Event:
    return Event("Speed", [("rate", seq), ("pad", "x" * (seq % 50))], {"Priority": 100 * (seq % 3)}, producer, seq)


class Rig:
    def __init__(
        self,
        folder: Path,
        more: str = "",
        mutant: str | None = None,
        env: dict[str, str] | None = None,
        seed: int = 0,
        disk: str | None = None,
        way: Callable[[int], Any] = Link,
    ) -> None:
        """`env`: of the gateway, which then is a process of its own instead of a fork. `more` of its configuration.
        `disk`: its state is on one of that size, which lives as long as the process and is seen by nobody else.
        `way`: what is between it and the port of the broker."""
        self.folder = folder
        self.more = more
        self.mutant = mutant
        self.env = env if disk is None else env or {}
        self.disk = disk
        self.way = way
        self.state = folder / "state"
        self.chance = random.Random(seed)
        self.starts = 0
        self.kills = 0
        self.polls = 0
        self.wrong: list[str] = []
        """what the books said"""
        self.sink = Sink()
        self._reader: LogReader | None = None
        self._offset = 0
        self._read: set[Identity] = set()
        self._config = folder / "g1.toml"
        self._pid = 0
        self._process: subprocess.Popen[str] | None = None
        self._status: str | None = None
        self._stack = contextlib.AsyncExitStack()
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._enter()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def _enter(self) -> None:
        enter = self._stack.enter_async_context
        self.bus = self._stack.enter_context(
            Mosquitto(self.folder / "bus", lines=("max_queued_messages 0", "max_inflight_messages 0"))
        )
        self.broker = Overlay(self.folder, await enter(Nursery()), "alone", False, None)
        self.link = await enter(self.way(int(self.broker.addresses["b1"].rpartition(":")[2])))
        self._nursery = await enter(Nursery("gateway"))
        await self.broker.start("b1")
        self.state.mkdir(exist_ok=True)
        values = {"state": self.state, "bus": self.bus_settings(), "office": self.link.address}
        self._config.write_text(CONFIG.format(**values) + self.more)
        self.load = self.make_load()
        await self.load.open()
        self._stack.push_async_callback(self.load.close)
        await self.start()
        await self.until(lambda status: applied(status), "the office is subscribed to the bus")
        self._watching = asyncio.create_task(self._watch())

    def bus_settings(self) -> str:
        return f'type = "mqtt"\naddress = "{self.bus.address}"\nprefix = "bus/"\nstore = false'

    def make_load(self) -> Load:
        return Load(self.bus.address, self.folder)

    async def __aexit__(self, *_: object) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        if self._reader is not None:
            self._reader.close()
        await self._stack.aclose()

    # The gateway

    async def start(self) -> None:
        self.starts += 1
        if self.env is None:
            self._pid, said = await self._nursery.start(self._config, self.mutant)
        else:
            said = await asyncio.to_thread(self._popen)
        self._status = said["status"]

    def _popen(self) -> dict[str, Any]:
        with self._config.with_suffix(".err").open("ab") as errors:
            command = [*COMMAND, "gateway", "run", str(self._config), "--json"]
            if self.disk is not None:
                mount = f'mount -t tmpfs -o size={self.disk} none "$0" && exec "$@"'
                command = ["unshare", "--mount", "sh", "-c", mount, str(self.state), *command]
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **(self.env or {})},
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the gateway did not start: {self.errors()}"
        found: dict[str, Any] = json.loads(line)
        return found

    async def kill(self) -> None:
        self._status = None
        self.kills += 1
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.communicate)
            return
        code = await self._nursery.signal(self._pid, signal.SIGKILL)
        assert code == -signal.SIGKILL, f"the gateway had ended by itself with {code}: {self.errors()}"

    async def interrupt(self, seconds: float) -> None:
        """A start that is killed after so long."""
        self.kills += 1
        await self._nursery.interrupt(self._config, seconds, self.mutant)

    async def terminate(self) -> int:
        """Of a gateway with an environment of its own."""
        assert self._process is not None
        self._status = None
        self._process.terminate()
        await asyncio.to_thread(self._process.communicate, timeout=PATIENCE)
        return self._process.returncode

    def errors(self) -> str:
        file = self._config.with_suffix(".err")
        return file.read_text()[-4000:] if file.exists() else ""

    @property
    def seen_state(self) -> Path:
        """The folder of its state as the gateway sees it."""
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/root{self.state}")

    async def status(self) -> dict[str, Any]:
        """Of a gateway that runs."""

        def get() -> dict[str, Any]:
            with urllib.request.urlopen(f"{self._status}/status", timeout=PATIENCE) as answer:
                found: dict[str, Any] = json.load(answer)
                return found

        return await asyncio.to_thread(get)

    async def until(self, condition: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        """The status of the gateway, once it is so."""
        end = time.monotonic() + PATIENCE
        while True:
            found = await self.status()
            if condition(found):
                return found
            assert time.monotonic() < end, f"never came true: {what}\n{json.dumps(found)[:3000]}\n{self.errors()}"
            await asyncio.sleep(0.05)

    async def _watch(self) -> None:
        """The books, as often as it goes."""
        while True:
            await asyncio.sleep(0.1)
            if self._status is None:
                continue
            with contextlib.suppress(OSError):  # it is killed
                found = await self.status()
                self.polls += 1
                if not balanced(found):
                    self.wrong.append(json.dumps(found))

    # The log

    def read_log(self) -> Sink:
        """What the broker has: under which numbers of the store, and who it is of."""
        if self._reader is None:
            self._reader = LogReader(self.folder / "b1.log" / "published")
            self._offset = self._reader.first
        while self._offset < self._reader.next:
            records, self._offset = self._reader.read(self._offset, 10_000)
            for record in records:
                event = event_of(record)
                if event.subject == "Speed":
                    identity = self.identity(event)
                    self.sink.hear(record.seq, identity)
                    self._read.add(identity)
        return self.sink

    def identity(self, event: Event) -> Identity:
        """Of an event in the log: what its producer has given it."""
        return event.attrs["OriginProducer"], event.attrs["OriginSeq"]

    async def all_logged(self) -> Sink:
        """When all that the bus has taken is there, or nothing comes any more."""
        count, end = -1, 0.0
        while True:
            found = await asyncio.to_thread(self.read_log)
            if len(found.order) != count:
                count, end = len(found.order), time.monotonic() + QUIET
            if self.load.accepted <= self._read or time.monotonic() > end:
                return found
            await asyncio.sleep(0.1)

    async def keep_up(self) -> None:
        """On a slow machine what the bus says again at each start would become more and more, and each start longer."""
        await asyncio.to_thread(self.read_log)
        if len(self.load.accepted) - len(self._read) > MAX_BEHIND:
            self.load.go.clear()
            await self.all_logged()
            self.load.go.set()

    async def verdict(self) -> Verdict:
        sink = await self.all_logged()
        attempted = [(name, seq) for name, last in self.load.attempted.items() for seq in range(1, last + 1)]
        return judge(sink, self.load.accepted, attempted)

    async def check(self) -> None:
        await self.until(is_up, "the uplink is back")  # after a long cut it is tried every half minute
        found = await self.verdict()
        assert not found, self.story(found)
        status = await self.until(lambda status: out(status)["stored"] == 0, "the store is empty")
        assert not self.wrong, self.wrong[0]
        if self.kills == 0:
            # Of one life the books are those of all that was said.
            said = len(self.load.accepted)
            assert (out(status)["accepted"], out(status)["delivered"]) == (said, said), json.dumps(out(status))
            assert not out(status)["dropped"], json.dumps(out(status))

    def story(self, found: Verdict) -> str:
        counts = {name: len(value) for name, value in vars(found).items()}
        some = {name: value[:5] for name, value in vars(found).items() if value}
        return f"{counts} of {len(self.load.accepted)}: {some}\n{self.errors()}"


def is_up(status: dict[str, Any]) -> bool:
    return all(one["state"] == "up" for one in status["services"])


def out(status: dict[str, Any], name: str = "office") -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in status["services"] if one["name"] == name)["out"]
    return found


def applied(status: dict[str, Any]) -> bool:
    goals = [goal for one in status["requests"] for goal in one["services"].values()]
    return bool(goals) and all(goal["state"] == "applied" for goal in goals)


def balanced(status: dict[str, Any]) -> bool:
    sums = [status, *(one[part] for one in status["services"] for part in ("out", "talk"))]
    return all(one["accepted"] == one["delivered"] + one["stored"] + sum(one["dropped"].values()) for one in sums)


async def until(condition: Callable[[], Any], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"never came true: {what}"
        await asyncio.sleep(0.02)


if __name__ == "__main__":  # python -m edge.gateway.outages.rig FOLDER EVENTS: how fast it is without any fault

    async def main() -> None:
        async with Rig(Path(sys.argv[1])) as rig:
            start = time.monotonic()
            await rig.load.run(int(sys.argv[2]))
            said = time.monotonic()
            await rig.check()
            print(f"said in {said - start:.2f} s, logged in {time.monotonic() - start:.2f} s, {rig.polls} polls")

    asyncio.run(main())
