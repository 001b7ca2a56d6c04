"""Any two kinds of event services federate, in both directions: seed 001's six and what is ours, all real.

For each two services X and Y: a client on X publishes, and a client on Y hears it through one gateway, after somebody
has asked for it: the gateway's configuration (transparent), or the client itself by a control event (opaque). What has
another rate or another licence does not arrive, and nothing does after it was taken back.

All pairs run at once, each with subjects of its own, when the first test asks for them; each test looks at one pair.
"""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from edge.gateway.unlike import NAMES, PLACE, Unlike, unlike
from edge.gateway.within import balanced

from vicinal.control import Announcement, Subscription, Unannouncement, Unsubscription
from vicinal.event import Event
from vicinal.proximity import Proximity

# All of it is in one gateway: one process runs it.
pytestmark = [pytest.mark.xdist_group("activemq"), pytest.mark.slow]

Results = dict[tuple[str, ...], BaseException | None]
PAIRS = [(x, y) for x in NAMES for y in NAMES if x != y]
OPAQUE = [(x, y) for x, y in PAIRS if y != "car"]  # control events are no frames of a car
LOSSY = ("steam", "cosmic")
"""what is said there may never come: on CAN, control events go last, and not at all where their time is over"""
GONE = "refused: there is no such subscription"
LICENCE = "00D1234"
"""seven letters, as the frame in 5.8.2 has room for"""
MORE: dict[str, Any] = {
    "share": -2.5,
    "wet": True,
    "raw": b"\x00\xff",
    "name": "Straße ☃",
    "far": -(2**63),
    "Inner": Event("In", [("x", 1)]),
}


def subject(kind: str, x: str, y: str) -> str:
    return f"{kind}.{x}.{y}"


def frames() -> list[str]:
    """The subjects that a car needs messages of."""
    kinds = ("seen", "asked", "announced", "refused")
    return [subject(kind, x, y) for kind in kinds for x, y in PAIRS if "car" in (x, y)]


class Pair:
    """One way between two services."""

    def __init__(self, kind: str, x: str, y: str, between: Unlike) -> None:
        self.between, self.x, self.y = between, x, y
        self.publisher, self.consumer = between.clients[x], between.clients[y]
        self.subject = subject(kind, x, y)
        self.fast = f"subject = '{self.subject}' AND rate > 30 AND license_no LIKE '00D%'"
        self.fence = f"subject = '{self.subject}' AND rate = 7"
        self.lossy = x in LOSSY or y in LOSSY

    def event(self, rate: int, licence: str = LICENCE) -> Event:
        params = {"license_no": licence, "rate": rate, **({} if "car" in (self.x, self.y) else MORE)}
        now = self.publisher.port.now()
        attrs = {
            "Priority": 7,
            "Time": now,
            "Deadline": now + 60_000,
            "Expires": now + 90_000,
            "Proximity": Proximity.circle(*PLACE, 500),
        }
        return Event(self.subject, list(params.items()), attrs)

    def heard(self) -> list[Event]:
        return self.consumer.heard(self.subject)

    async def seen(self, rate: int) -> tuple[Event, Event]:
        """Published until it is heard: a radio may lose it, what waits too long for a bus is not said, and at first
        nobody may know that it will be. As published, and as heard."""
        said: list[Event] = []
        while True:
            said.append(await self.publisher.publish(self.event(rate)))
            for _ in range(150 if self.lossy else 3000):
                for found in self.heard():
                    if found["rate"] == rate:
                        same = [one for one in said if one.identity == found.identity]
                        return (same or said)[-1], found
                await asyncio.sleep(0.02)
            assert len(said) < (20 if self.lossy else 1), f"{rate} never came: {self.heard()}"

    def same(self, sent: Event, found: Event) -> None:
        assert found.params == sent.params
        assert list(found.params) == list(sent.params)
        able = [client.adapter.capabilities for client in (self.publisher, self.consumer)]
        carried = {name for name in sent.attrs if all(one.carries(name) for one in able)}
        assert {name: found.attrs.get(name) for name in carried} == {name: sent.attrs[name] for name in carried}
        assert bool(carried) == ("car" not in (self.x, self.y))
        if "car" not in (self.x, self.y):
            assert found.identity == sent.identity
        if self.y != "car":
            assert found.attrs["Source"] == self.x

    async def hears(self) -> None:
        """What it has asked for, and nothing else: of one producer order is kept, so that what should not come would
        have come before."""
        await self.publisher.publish(self.event(20))
        await self.publisher.publish(self.event(57, "99X1234"))
        self.same(*await self.seen(57))
        assert {(event["rate"], event["license_no"]) for event in self.heard()} == {(57, LICENCE)}
        note = self.between.node.engine.services[self.y].announced[self.subject]
        assert note.state == "applied", "no announcement was made up before the first event"
        await self.seen(7)

    async def hears_no_more(self) -> None:
        await self.publisher.publish(self.event(58))
        self.consumer.port.events = [one for one in self.consumer.port.events if one.subject != self.subject]
        await self.seen(7)
        assert {event["rate"] for event in self.heard()} == {7}

    async def transparent(self) -> None:
        engine, between = self.between.node.engine, self.between
        await self.consumer.subscribe(f"subject = '{self.subject}'")
        for text in (self.fast, self.fence):
            engine.ask(Subscription(self.x, self.y, text), self.consumer.port.now())
        between.node.turn()
        await between.settled(lambda: self.goal(self.fast) == self.goal(self.fence) == "applied")
        await self.hears()
        engine.ask(Unsubscription(self.x, self.y, self.fast), self.consumer.port.now())
        between.node.turn()
        await between.settled(lambda: self.goal(self.fast) is None)
        await self.hears_no_more()

    def goal(self, text: str) -> str | None:
        found = self.between.goal(self.y, text, self.x)
        return None if found is None else found["state"]

    async def opaque(self) -> None:
        await self.consumer.subscribe(f"subject = '{self.subject}'")
        for text in (self.fast, self.fence):
            assert await self.asks(Subscription(self.x, "", text)) == ""
        await self.hears()
        assert await self.asks(Unsubscription(self.x, "", self.fast)) == ""
        await self.hears_no_more()
        assert await self.asks(Unsubscription(self.x, "", self.fence)) == ""

    async def asks(self, message: Any) -> str:
        """The reason why not, or nothing. The same request is said again where it or its answer may be lost: what
        was taken back by the first is no longer there for the second."""
        requests = [await self.consumer.publish(message.to_event())]
        for _ in range(10 if self.y in LOSSY else 0):
            for _ in range(150):
                if any(map(self.consumer.answers, requests)):
                    break
                await asyncio.sleep(0.02)
            else:
                requests.append(await self.consumer.publish(message.to_event()))
        answered = [request for request in requests if self.consumer.answers(request)]
        answer = await self.consumer.answer((answered or requests)[0])
        assert answer.source == self.x
        if isinstance(message, Unsubscription) and len(requests) > 1 and answer.reason == GONE:
            return ""
        return answer.reason

    async def announced(self) -> None:
        """Asked for beforehand, and taken back: the adapter is told both."""
        engine, node = self.between.node.engine, self.between.node
        known = engine.services[self.y].announced
        engine.ask(Announcement(self.y, self.x, self.event(1)), self.consumer.port.now())
        node.turn()
        await self.between.settled(lambda: self.subject in known and known[self.subject].state == "applied")
        engine.ask(Unannouncement(self.y, self.x, self.event(1)), self.consumer.port.now())
        node.turn()
        await self.between.settled(lambda: self.subject not in known)


SPEED = subject("refused", "mqtt", "car")
REFUSED: list[tuple[Any, str]] = [
    (Announcement("car", "mqtt", Event(SPEED, [("license_no", b"00D1234"), ("rate", 57)])), "is a bytes"),
    (Announcement("car", "mqtt", Event(SPEED, [("license_no", "00D1234")])), "lacks 'rate'"),
    (Announcement("car", "mqtt", Event("Nothing", [("rate", 57)])), "neither a message nor an event channel"),
    (Announcement("steam", "mqtt", Event("Large", [("v", "x" * 4000)])), "the largest of this service has 3597"),
    (Announcement("cosmic", "mqtt", Event("Larger", [("v", "x" * 5000)])), "the largest of this service has 4096"),
    (Subscription("steam", "mqtt", "rate > 30"), "names no subject"),
    (Subscription("cosmic", "mqtt", "rate > 31"), "names no subject"),
    (Subscription("car", "mqtt", "subject = 'Nothing'"), "no subject of car can meet"),
    (Subscription("steam", "mqtt", "subject = 'A' AND subject = 'B'"), "no event can meet"),
]


async def refused(between: Unlike, message: Any, why: str) -> None:
    """A client is told, and so is who looks at the gateway: when it is asked for, and not when an event comes."""
    client, to = between.clients["mqtt"], message.to.text
    what: Any = message.filter if isinstance(message, Subscription) else message.event
    request = await client.publish(type(message)(to, "", what).to_event())
    answer = await client.answer(request)
    assert (answer.accepted, answer.source) == (False, to)
    assert answer.reason.startswith("refused: ")
    assert why in answer.reason
    between.node.engine.ask(message, client.port.now())
    between.node.turn()
    name = what.text if isinstance(message, Subscription) else what.subject

    def reason() -> str:
        return (between.goal("mqtt", name, to) or {"reason": ""})["reason"]

    await between.settled(lambda: why in reason())


async def none_is_granted(between: Unlike) -> None:
    for message, why in REFUSED:
        await refused(between, message, why)
    await put_right(between)


async def put_right(between: Unlike) -> None:
    """Who was refused asks as it should have, and is granted it."""
    client = between.clients["mqtt"]
    event = Event(SPEED, [("license_no", LICENCE), ("rate", 57)])
    answer = await client.answer(await client.publish(Announcement("car", "", event).to_event()))
    assert answer.accepted, answer.reason


async def too_large_when_it_comes(between: Unlike) -> None:
    """What nobody could know before is counted with its reason, and the rest goes on."""
    pair = Pair("large", "mqtt", "cosmic", between)
    await pair.consumer.subscribe(f"subject = '{pair.subject}'")
    assert await Pair("large", "mqtt", "cosmic", between).asks(Subscription("mqtt", "", pair.fast)) == ""
    out = between.node.services["cosmic"].queue
    before = out.counters()["dropped"].get("refused by the service", 0)
    event = pair.event(57)
    await pair.publisher.publish(event.replace(params={**event.params, "name": "x" * 6000}))
    pair.same(*await pair.seen(58))
    assert [one["rate"] for one in pair.heard()] == [58]
    assert out.counters()["dropped"]["refused by the service"] == before + 1


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return asyncio.run(run(tmp_path_factory.mktemp("matrix")))


async def run(folder: Path) -> Results:
    async with unlike(folder, frames()) as between:
        work: dict[tuple[str, ...], Awaitable[None]] = {}
        for x, y in PAIRS:
            work["seen", x, y] = Pair("seen", x, y, between).transparent()
            work["announced", x, y] = Pair("announced", x, y, between).announced()
        for x, y in OPAQUE:
            work["asked", x, y] = Pair("asked", x, y, between).opaque()
        work["too large",] = too_large_when_it_comes(between)
        work["refused",] = none_is_granted(between)
        found = await asyncio.gather(*work.values(), return_exceptions=True)
        done: Results = dict(zip(work, found))
        done["balanced",] = None if balanced(between.node) else AssertionError("accounting")
        return done


def said(result: BaseException | None) -> None:
    if result is not None:
        raise result


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_what_the_gateway_was_told_to_ask_for(results: Results, x: str, y: str) -> None:
    said(results["seen", x, y])


@pytest.mark.parametrize(("x", "y"), OPAQUE)
def test_what_a_client_has_asked_for(results: Results, x: str, y: str) -> None:
    said(results["asked", x, y])


@pytest.mark.parametrize(("x", "y"), PAIRS)
def test_announcements(results: Results, x: str, y: str) -> None:
    said(results["announced", x, y])


def test_everything_is_accounted_for(results: Results) -> None:
    said(results["balanced",])


def test_what_a_service_cannot_represent_is_refused_when_it_is_asked_for(results: Results) -> None:
    said(results["refused",])


def test_what_is_too_large_when_it_comes_is_counted(results: Results) -> None:
    said(results["too large",])
