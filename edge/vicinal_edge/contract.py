"""What every adapter must do, as tests. To test one of your own, with pytest and a real service:

    class TestMine(AdapterContract):
        @asynccontextmanager
        async def service(self, folder):
            async with started_server() as address:
                yield lambda name: MineAdapter(name, settings({"address": address}))

`service` starts the service and gives a function that makes an adapter to it; each call is another client of the same
service. Attributes of the class say what the service is about (see below). A test that does not apply is skipped.
"""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from vicinal.control import SUBJECT as CONTROL
from vicinal.control import Subscription
from vicinal.errors import LocalProtocolError
from vicinal.event import Event
from vicinal.federation.capabilities import type_name
from vicinal.filter import Filter
from vicinal.tables_cpython import Table

from .adapter import Adapter, Refused, Unavailable

__all__ = ["AdapterContract", "RecordingPort", "settings"]

PATIENCE = 30.0
"""seconds that something may take which must happen; a machine under load is slow"""
SAMPLES: tuple[Any, ...] = (
    "", "00D12345", "Straße ☃", 0, -1, 2**31, -(2**63), 2**63 - 1, 0.0, -2.5, 1e300, True, False, b"", b"\x00\xff",
    Event("Inner", [("x", 1)]),
)  # fmt: skip


def settings(values: dict[str, Any], file: str = "gateway.toml") -> Table:
    """As from a [[service]] table."""
    return Table(Path(file), "service", values)


class RecordingPort:
    """A gateway that writes down what it is told."""

    def __init__(self, service: str, folder: Path, place: tuple[int, int] | None = (533498000, -62603000)) -> None:
        self.gateway = "contract"
        self.service = service
        self.folder = folder
        self.events: list[Event] = []
        self.packets: list[bytes] = []
        self.wrong: list[str] = []
        self.lost_because: list[str] = []
        self.place = place

    def received(self, event: Event, taken: Callable[[], None] | None = None) -> bool:
        self.events.append(event)
        if taken is not None:
            taken()
        return True

    async def room(self) -> None:
        return

    def packet(self, data: bytes) -> None:
        self.packets.append(data)

    def malformed(self, reason: str) -> None:
        self.wrong.append(reason)

    def lost(self, reason: str) -> None:
        self.lost_because.append(reason)

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def position(self) -> tuple[int, int] | None:
        return self.place

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what}: never came; there are {self.events!r}, {self.wrong!r}"
            await asyncio.sleep(0.01)


class AdapterContract:
    subject = "Speed"
    """of the events that are published"""
    params: tuple[tuple[str, Any], ...] = (("license_no", "00D1234"), ("rate", 57.0))
    """of an event that the service can carry, however narrow it is; the parameter `number` below is among them, or
    can be added"""
    number = "rate"
    keeps_identity = True
    loses = False
    """the service may lose events by its nature (a radio): order is looked at, completeness is not"""
    order_count = 100

    def service(self, folder: Path) -> AbstractAsyncContextManager[Callable[[str], Adapter]]:
        raise NotImplementedError("start the service and give a function that makes an adapter to it")

    def event(self, number: Any = None, seq: int | None = None) -> Event:
        params = dict(self.params)
        if number is not None:
            params[self.number] = number
        return Event(self.subject, list(params.items()), producer=None if seq is None else "car-7", seq=seq)

    # What holds of every adapter

    def test_what_one_publishes_another_receives(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            await receiver.subscribe(Filter(f"subject = '{self.subject}'"))
            sent = self.event(seq=1)
            await self.say(sender, [sent], port)
            self.same(port.events[0], sent)

        self.run(check)

    def test_it_does_not_hear_itself(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            own = self.port_of(sender)
            await sender.subscribe(Filter(f"subject = '{self.subject}'"))
            await receiver.subscribe(Filter(f"subject = '{self.subject}'"))
            await self.say(sender, [self.event(seq=1)], port)
            await receiver.announce(self.event())
            await self.deliver(receiver, self.event(50.0, 2))
            await own.until(lambda: own.events, "what the other has published")
            assert [one[self.number] for one in own.events] == [50.0]

        self.run(check)

    def test_order_is_kept(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            await receiver.subscribe(Filter(f"subject = '{self.subject}'"))
            await self.say(sender, [self.event(float(n), n + 1) for n in range(self.order_count)], port)
            numbers: list[Any] = [one[self.number] for one in port.events]
            assert numbers == sorted(numbers)
            if not self.loses:
                assert numbers == [float(n) for n in range(self.order_count)]

        self.run(check)

    def test_no_event_that_a_filter_matches_is_missing(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            await receiver.subscribe(Filter(f"subject = '{self.subject}' AND {self.number} > 30"))
            values = [10.0, 31.0, 30.0, 57.0]
            await self.say(sender, [self.event(value, n + 1) for n, value in enumerate(values)], port, 2)
            above = Filter(f"{self.number} > 30")
            await port.until(lambda: len([one for one in port.events if above.matches(one)]) >= 2, "what is above 30")
            found: list[Any] = [one[self.number] for one in port.events]
            assert [value for value in found if value > 30] == [31.0, 57.0]
            if receiver.capabilities.filter == "content":
                assert found == [31.0, 57.0]

        self.run(check)

    def test_after_unsubscribing_nothing_comes(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            condition = Filter(f"subject = '{self.subject}'")
            other = Filter(f"subject = '{self.subject}' AND {self.number} > 40")
            await receiver.subscribe(condition)
            await self.say(sender, [self.event(10.0, 1)], port)
            await receiver.unsubscribe(condition)
            port.events.clear()
            await self.deliver(sender, self.event(20.0, 2))
            await receiver.subscribe(condition)
            await receiver.subscribe(other)
            await receiver.unsubscribe(other)
            await self.say(sender, [self.event(30.0, 3)], port)
            assert [one[self.number] for one in port.events] == [30.0]

        self.run(check)

    def test_every_type_that_it_says_it_carries(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            if sender.capabilities.types == () or not self.free:
                pytest.skip("its events have a fixed form")
            await receiver.subscribe(Filter(f"subject = '{self.subject}'"))
            carried = [value for value in SAMPLES if type_name(value) in sender.capabilities.types]
            for n, value in enumerate(carried):
                sent = Event(self.subject, [("v", value)], producer="car-7", seq=n + 1)
                port.events.clear()
                await self.say(sender, [sent], port)
                self.same(port.events[0], sent)

        self.run(check)

    free = True
    """events of any parameters can be published under `subject`"""

    def test_attributes_that_it_says_it_carries(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            now = port.now()
            given = {"Priority": 7, "Time": now, "Deadline": now + 60_000, "Expires": now + 90_000, "Source": "es1"}
            carried = {name: value for name, value in given.items() if sender.capabilities.carries(name)}
            if not carried:
                pytest.skip("it carries no attributes")
            await receiver.subscribe(Filter(f"subject = '{self.subject}'"))
            await self.say(sender, [self.event(seq=1).replace(attrs=carried)], port)
            found = port.events[0].attrs
            assert {name: found.get(name) for name in carried} == carried

        self.run(check)

    def test_what_is_too_large_is_refused_and_the_rest_goes_on(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            if not self.free:
                pytest.skip("its events have a fixed form")
            most = sender.capabilities.max_bytes
            await receiver.subscribe(Filter(f"subject = '{self.subject}'"))
            await sender.announce(self.event())
            with pytest.raises(LocalProtocolError):
                await self.deliver(sender, Event(self.subject, [("v", "x" * most)], producer="car-7", seq=1))
            await self.say(sender, [self.event(seq=2)], port)
            assert [one[self.number] for one in port.events] == [dict(self.params)[self.number]]

        self.run(check)

    def test_control_events_pass(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            if not sender.capabilities.control:
                pytest.skip("it does not lie between gateways")
            await receiver.subscribe(Filter(f"subject = '{CONTROL}'"))
            sent = Subscription("es9", "es1", "subject = 'Speed' AND rate > 30").to_event().stamp("g1", 5)
            await self.say(sender, [sent], port)
            assert port.events[0].params == sent.params
            assert port.events[0].identity == sent.identity

        self.run(check)

    def test_what_is_tunnelled_arrives_unchanged(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            if not sender.capabilities.tunnels:
                pytest.skip("it does not tunnel")
            await receiver.tunnel(True)
            await sender.announce(self.event())
            await self.deliver(sender, self.event(seq=1))
            await port.until(lambda: port.packets, "the packet")
            packet = port.packets[0]
            own = self.port_of(sender)
            await sender.subscribe(Filter(f"subject = '{self.subject}'"))
            await self.settle()
            await receiver.inject(packet)
            await own.until(lambda: own.events, "what was injected")
            self.same(own.events[0], self.event(seq=1))

        self.run(check)

    def test_it_ends_and_begins_again(self) -> None:
        async def check(sender: Adapter, receiver: Adapter, port: RecordingPort) -> None:
            await receiver.subscribe(Filter(f"subject = '{self.subject}'"))
            await receiver.disconnect()
            await receiver.disconnect()
            with pytest.raises((Unavailable, Refused)):
                await self.deliver(receiver, self.event(seq=9))
            await receiver.connect(port)
            await receiver.subscribe(Filter(f"subject = '{self.subject}'"))
            await self.say(sender, [self.event(seq=1)], port)
            assert len(port.events) == 1

        self.run(check)

    # How it is done

    def run(self, check: Callable[[Adapter, Adapter, RecordingPort], Awaitable[None]]) -> None:
        async def work() -> None:
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place)
                async with self.service(folder) as make:
                    self._ports: dict[Adapter, RecordingPort] = {}
                    adapters = [make("one"), make("two")]
                    try:
                        for number, adapter in enumerate(adapters):
                            (folder / str(number)).mkdir()
                            port = self._ports[adapter] = RecordingPort(adapter.service, folder / str(number))
                            await adapter.connect(port)
                        async with asyncio.TaskGroup() as asking:
                            polls = [asking.create_task(self._poll(one)) for one in adapters if one.capabilities.poll]
                            await check(adapters[0], adapters[1], self._ports[adapters[1]])
                            for task in polls:
                                task.cancel()
                    finally:
                        for adapter in adapters:
                            await adapter.disconnect()

        try:
            asyncio.run(work())
        except BaseExceptionGroup as several:  # what has failed first is what failed
            raise several.exceptions[0] from None

    async def _poll(self, adapter: Adapter) -> None:
        """As the gateway does while the service is connected."""
        while True:
            await asyncio.sleep(adapter.capabilities.poll / 1000)
            with contextlib.suppress(Unavailable):
                await adapter.poll()

    def port_of(self, adapter: Adapter) -> RecordingPort:
        return self._ports[adapter]

    async def say(self, sender: Adapter, events: list[Event], port: RecordingPort, want: int | None = None) -> None:
        """Announced, published, and waited for."""
        await sender.announce(events[0])
        await self.settle()
        for event in events:
            await self.deliver(sender, event)
        least = 1 if self.loses else len(events) if want is None else want
        await port.until(lambda: len(port.events) >= least, f"{least} events")
        await self.settle()

    async def deliver(self, sender: Adapter, event: Event) -> None:
        acknowledged = await sender.publish(event)
        if acknowledged is not None:
            await asyncio.wait_for(acknowledged, PATIENCE)

    async def settle(self) -> None:
        """Services where a subscription or an announcement takes time to be known wait for it here."""

    def same(self, found: Event, sent: Event) -> None:
        assert found.subject == sent.subject
        assert found.replace(attrs={}, producer=None, seq=None) == sent.replace(attrs={}, producer=None, seq=None)
        if self.keeps_identity:
            assert found.identity == sent.identity
