"""The adapter to the overlay: the contract, and exactly once whoever dies. Brokers are real processes."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from cloud.broker.brokers import Brokers, Process, free_port, until
from cloud.broker.inside import server
from cloud.broker.test_pubsub import SCOPES

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_cloud.broker.client import connect
from vicinal_cloud.log import Log, event_of
from vicinal_edge.adapter import Adapter, Refused, Unavailable
from vicinal_edge.adapters import _numbers
from vicinal_edge.adapters._numbers import Numbers
from vicinal_edge.adapters._recent import Recent
from vicinal_edge.adapters.siena import SienaAdapter
from vicinal_edge.contract import AdapterContract, RecordingPort, settings

SPEED = Filter("subject = 'Speed'")
NO_SPACE = "cannot write b1.log: No space left on device"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    found = Brokers(tmp_path_factory.mktemp("shared"))
    yield found.start("b1")
    found.stop()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    found = Brokers(tmp_path)
    yield found
    found.stop()


def adapter(address: Any, name: str = "wide", **more: Any) -> SienaAdapter:
    return SienaAdapter(name, settings({"address": address, **more}))


def port(folder: Path, name: str = "g1") -> RecordingPort:
    folder.mkdir(exist_ok=True)
    found = RecordingPort("wide", folder)
    found.gateway = name
    return found


def speed(seq: int, rate: float = 57.0, **attrs: Any) -> Event:
    return Event("Speed", [("rate", rate)], attrs, "car-7", seq)


async def acknowledged(one: Adapter, event: Event) -> None:
    done = await one.publish(event)
    if done is not None:
        await asyncio.wait_for(done, 30)


def in_log(folder: Path, name: str = "b1") -> list[Event]:
    log = Log(folder / f"{name}.log" / "published")
    try:
        return [event_of(record) for record in log.read(0, 1_000_000)[0]]
    finally:
        log.close()


class TestSiena(AdapterContract):
    @pytest.fixture(autouse=True)
    def _broker(self, shared: Process) -> None:
        self.address = shared.address

    @asynccontextmanager
    async def service(self, folder: Path) -> AsyncIterator[Callable[[str], Adapter]]:
        yield lambda name: SienaAdapter(name, settings({"address": self.address, "client": f"{name}-{folder.name}"}))


# Identity


def test_an_ordinary_client_keeps_its_identity_and_hears_ours(shared: Process, tmp_path: Path) -> None:
    async def work() -> None:
        one, said = adapter(shared.address), port(tmp_path / "g1")
        await one.connect(said)
        await one.subscribe(SPEED)
        async with await connect(shared.address, "phone") as phone:
            heard = await phone.subscribe("subject = 'Speed'")
            await acknowledged(one, speed(5, Priority=3))
            event = (await anext(heard)).event
            assert (event.producer, event.attrs) == (
                "g1.wide",
                {"Priority": 3, "OriginProducer": "car-7", "OriginSeq": 5},
            )
            mine = await phone.advertise("subject = 'Speed'")
            await phone.publish(Event("Speed", {"rate": 1}, (), "phone", 2**40), mine)
            await said.until(lambda: said.events, "the phone's")
            assert said.events[0].identity == ("phone", 2**40)
            for wrong in ({"OriginProducer": "x"}, {"OriginSeq": 1}, {"OriginProducer": 7, "OriginSeq": -1}):
                await phone.publish(Event("Speed", {"rate": 2}, wrong), mine)
            await phone.publish(Event("Speed", {"rate": 3}), mine)
            await said.until(lambda: len(said.events) > 1, "the last")
            assert [event["rate"] for event in said.events] == [1, 3]
            assert len(said.wrong) == 3
        await one.disconnect()

    asyncio.run(work())


def test_what_came_through_it_does_not_go_back(shared: Process, tmp_path: Path) -> None:
    async def work() -> None:
        one, two = adapter(shared.address), adapter(shared.address)
        said, other = port(tmp_path / "g1"), port(tmp_path / "g2", "g2")
        await one.connect(said)
        await two.connect(other)
        for each in (one, two):
            await each.subscribe(SPEED)
            await each.subscribe(Filter("rate > 30"))
        await acknowledged(one, Event("Stop", [("rate", 99.0)], {"StoreSeq": 1}))  # by another connection, unnamed
        await acknowledged(one, speed(1))
        await other.until(lambda: len(other.events) == 2, "the events")
        other.events.pop(0)
        assert await two.publish(other.events[0]) is None  # round a loop of gateways
        await acknowledged(two, speed(1).replace(producer="car-8"))
        await said.until(lambda: said.events, "car-8's")
        assert [event.producer for event in said.events] == ["car-8"]
        assert [event.producer for event in other.events] == ["car-7"]  # once, though two filters want it
        assert two.returned == 1
        for each in (one, two):
            await each.disconnect()

    asyncio.run(work())


def test_order_of_overlapping_filters(shared: Process, tmp_path: Path) -> None:
    async def work() -> None:
        one, two = adapter(shared.address), adapter(shared.address)
        said, other = port(tmp_path / "g1"), port(tmp_path / "g2", "g2")
        await one.connect(said)
        await two.connect(other)
        for text in ("rate > 30", "subject = 'Speed' AND rate < 40", "subject LIKE 'S%'", "rate = 35"):
            await two.subscribe(Filter(text))
        chance = random.Random(4)
        for n in range(400):
            await one.publish(speed(n, float(chance.randint(20, 50))))
        await other.until(lambda: len(other.events) >= 400, "all")
        assert [event.seq for event in other.events] == list(range(400))
        await one.disconnect()
        await two.disconnect()

    asyncio.run(work())


def test_nothing_is_taken_while_there_is_no_room(shared: Process, tmp_path: Path) -> None:
    async def work() -> None:
        one, two = adapter(shared.address), adapter(shared.address)
        said, other = port(tmp_path / "g1"), port(tmp_path / "g2", "g2")
        gate = asyncio.Event()
        other.room = gate.wait  # type: ignore[assignment,method-assign]
        await one.connect(said)
        await two.connect(other)
        await two.subscribe(SPEED)
        for n in range(3000):
            await one.publish(speed(n))
        await acknowledged(one, speed(3000))
        client = shared.status()["deliveries"]
        assert client["waiting"] >= 3001 - 1024  # of credit: the rest waits at the broker
        assert other.events == []
        gate.set()
        await other.until(lambda: len(other.events) == 3001, "all")
        await one.disconnect()
        await two.disconnect()

    asyncio.run(work())


# Exactly once


def test_stored_events_keep_their_number(brokers: Brokers, tmp_path: Path) -> None:
    broker = brokers.start("b1", log=True)

    async def work() -> None:
        for _ in range(2):  # as after a crash: another adapter, the same folder, the same events again
            one = adapter(broker.address)
            await one.connect(port(tmp_path / "g1"))
            for n in range(1, 51):
                await acknowledged(one, speed(100 + n, StoreSeq=n))
            await one.disconnect()
        one = adapter(broker.address)  # with a new disk it counts from 1 again, and these are others
        await one.connect(port(tmp_path / "new"))
        await acknowledged(one, speed(1, StoreSeq=1))
        await one.disconnect()

    asyncio.run(work())
    broker.terminate()
    found = in_log(tmp_path)
    assert [event.attrs["OriginSeq"] for event in found] == [*range(101, 151), 1]
    assert {name for event in found for name in event.attrs} == {"OriginProducer", "OriginSeq"}
    assert len({event.producer for event in found}) == 2


def test_numbers_of_a_lane_rise(shared: Process, tmp_path: Path) -> None:
    async def work() -> None:
        one = adapter(shared.address)
        await one.connect(port(tmp_path / "g1"))
        waiting = await one.publish(speed(2, StoreSeq=2))
        again = await one.publish(speed(2, StoreSeq=2))
        assert waiting is not None
        assert again is not None
        await asyncio.gather(waiting, again)
        with pytest.raises(Refused, match="number 1 comes after 2"):
            await one.publish(speed(1, StoreSeq=1))
        with pytest.raises(Refused, match="StoreSeq is '1'"):
            await one.publish(speed(1, StoreSeq="1"))
        await one.disconnect()

    asyncio.run(work())


def test_what_a_full_disk_refused_and_later_ones_passed_is_not_lost(tmp_path: Path) -> None:
    """The broker could not take 1 and 2; 3 came through. 1 and 2 are published again, and again after a crash."""

    async def work() -> None:
        async with server(tmp_path, log=True) as broker:
            storage: Any = broker.node.storage
            real, full = storage.submit, {1, 2}

            def submit(entries: list[Any]) -> Any:
                found = asyncio.get_running_loop().create_future()

                def stored(done: Any) -> None:
                    good = iter(done.result())
                    found.set_result([NO_SPACE if one.seq in full else next(good) for one in entries])
                    full.difference_update([one.seq for one in entries])

                real([one for one in entries if one.seq not in full]).add_done_callback(stored)
                return found

            storage.submit = submit
            address = str(broker.addresses[0])
            one, said = adapter(address), port(tmp_path / "g1")
            await one.connect(said)
            done = [await one.publish(speed(n, StoreSeq=n)) for n in (1, 2, 3)]
            results = await asyncio.gather(*[one for one in done if one is not None], return_exceptions=True)
            assert [type(result) for result in results] == [Unavailable, Unavailable, type(None)]
            assert said.lost_because == [NO_SPACE]
            with pytest.raises(Unavailable, match="No space"):
                await one.publish(speed(4, StoreSeq=4))
            for _ in range(2):
                await one.disconnect()
                one = adapter(address)
                await one.connect(said)
                waiting = [await one.publish(speed(n, StoreSeq=n)) for n in (1, 2, 3, 4)]
                await asyncio.gather(*[one for one in waiting if one is not None])
                assert one.out_of_order == 2
            await one.disconnect()

    asyncio.run(work())
    assert [event.attrs["OriginSeq"] for event in in_log(tmp_path)] in ([3, 1, 2, 4], [3, 4, 1, 2], [3, 1, 4, 2])


PUBLISHER = """
import asyncio, sys
from pathlib import Path
from edge.adapters.test_siena import adapter, port, speed

async def main(address, folder, first, last):
    one = adapter(address)
    await one.connect(port(Path(folder)))
    print("go", flush=True)
    waiting = []
    for n in range(first, last + 1):
        done = await one.publish(speed(n, StoreSeq=n))
        done.add_done_callback(lambda done, n=n: done.exception() or print(n, flush=True))
        waiting.append(done)
        if n % 3 == 0:
            await one.publish(speed(n, Live=True).replace(producer="live"))
        if n % 20 == 0:
            await asyncio.sleep(0.005)
    await asyncio.gather(*waiting)
    await one.disconnect()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
"""


KILLS = int(os.environ.get("VICINAL_KILLS", "8"))


def test_each_once_and_in_order_whenever_the_gateway_dies(brokers: Brokers, tmp_path: Path) -> None:
    """kill -9 at random points, of the publisher and now and then of the broker. What has no acknowledgement is
    published again; the broker's log has each once, in order. Live events may be lost, and never come twice."""
    where = f"tcp://127.0.0.1:{free_port()}"
    broker = brokers.start("b1", listen=where, log=True)
    chance = random.Random(int(os.environ.get("VICINAL_SEED", "7")))
    total, first, kills = 250 * KILLS, 1, 0
    while first <= total:
        last = total if kills >= KILLS else min(total, first + 2000)
        command = [sys.executable, "-c", PUBLISHER, where, str(tmp_path / "g1"), str(first), str(last)]
        path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        broker_too = kills < KILLS and kills % 4 == 3
        if kills < KILLS:
            time.sleep(chance.choice([0.0, 0.01, 0.05, 0.1, 0.3]) * chance.random())
            if broker_too:
                broker.kill()
                broker = brokers.start("b1", listen=where, log=True)
            process.send_signal(signal.SIGKILL)
            kills += 1
        numbers = [int(line) for line in process.stdout.read().split()]
        process.wait()
        process.stdout.close()
        # The gateway has noted some acknowledgements, and lost the note of others.
        if numbers:
            first = max(numbers[-1] + 1 - chance.choice([0, 0, 50]), first)
        if process.returncode == 0 and last == total:
            break
        assert process.returncode == -signal.SIGKILL or broker_too
    broker.terminate()
    events = in_log(tmp_path)
    stored = [event for event in events if event.attrs["OriginProducer"] == "car-7"]
    assert [event.attrs["OriginSeq"] for event in stored] == list(range(1, total + 1))
    assert {event.seq == event.attrs["OriginSeq"] for event in stored} == {True}
    live = [event.seq for event in events if event.attrs["OriginProducer"] == "live"]
    assert live == sorted(set(live))
    assert len(live) >= total // 3  # published again with the stored, under other numbers
    assert kills == KILLS


def test_a_broker_that_dies_is_told_and_nothing_is_lost_or_twice(brokers: Brokers, tmp_path: Path) -> None:
    where = f"tcp://127.0.0.1:{free_port()}"

    async def work() -> None:
        broker = brokers.start("b1", listen=where, log=True)
        one, said = adapter([f"tcp://127.0.0.1:{free_port()}", where]), port(tmp_path / "g1")
        unacknowledged: dict[int, Event] = {}
        for turn in range(3):
            await one.connect(said)
            for n in sorted(unacknowledged) + list(range(turn * 200 + 1, turn * 200 + 201)):
                unacknowledged[n] = event = speed(n, StoreSeq=n)
                try:
                    done = await one.publish(event)
                except Unavailable:
                    continue
                assert done is not None
                done.add_done_callback(lambda done, n=n: done.exception() or unacknowledged.pop(n))
                if turn < 2 and n == turn * 200 + 100:
                    broker.kill()
            if turn < 2:
                await said.until(lambda: said.lost_because, "that the broker is gone")
                with pytest.raises(Unavailable, match="not connected"):
                    await one.publish(speed(9999, StoreSeq=9999))
                with pytest.raises(Unavailable):
                    await one.subscribe(SPEED)
                assert unacknowledged
                await one.disconnect()
                with pytest.raises(Unavailable, match=r"nothing listens on .*; nothing listens on"):
                    await one.connect(said)
                broker = await asyncio.to_thread(brokers.start, "b1", listen=where, log=True)
                said.lost_because.clear()
        await until(lambda: not unacknowledged, "all acknowledged")
        await one.disconnect()
        assert said.lost_because == []
        await asyncio.to_thread(broker.terminate)

    asyncio.run(work())
    assert [event.attrs["OriginSeq"] for event in in_log(tmp_path)] == list(range(1, 601))


def test_durable_subscriptions_go_on_where_they_were(brokers: Brokers, tmp_path: Path) -> None:
    broker = brokers.start("b1", log=True)

    async def work() -> None:
        sender = adapter(broker.address)
        await sender.connect(port(tmp_path / "g1"))
        heard: list[int | None] = []
        for turn in range(4):
            one, said = adapter(broker.address, durable=True), port(tmp_path / "g2", "g2")
            if turn == 3:
                (tmp_path / "g2" / "durable.json").write_text("{")  # then all that is kept comes again
            await one.connect(said)
            await one.subscribe(SPEED)
            await acknowledged(sender, speed(10 * turn + 1))
            await said.until(lambda: any(event.seq == 10 * turn + 1 for event in said.events), "live")  # noqa: B023
            await one.disconnect()
            await acknowledged(sender, speed(10 * turn + 2))
            heard += [event.seq for event in said.events]
        assert heard == [1, 2, 11, 12, 21, 1, 2, 11, 12, 21, 22, 31]
        one, said = adapter(broker.address, durable=True), port(tmp_path / "g2", "g2")
        await one.connect(said)
        await one.subscribe(SPEED)
        await one.unsubscribe(SPEED)
        assert broker.status()["log"]["durable"] == []
        await one.disconnect()
        await sender.disconnect()

    asyncio.run(work())


def test_scopes_and_two_brokers(brokers: Brokers, tmp_path: Path) -> None:
    async def work() -> None:
        b1 = brokers.start("b1", {"b2": None}, join=("london",), scopes=SCOPES)
        b2 = brokers.start("b2", {"b1": b1.address}, join=("london",), scopes=SCOPES)
        await until(lambda: b1.status()["neighbours"] and b2.status()["neighbours"])
        one = adapter(b1.address, scopes={"geography": "london"}, only=True)
        two = adapter(b2.address, scopes={"geography": "london"}, only=True)
        await one.connect(port(tmp_path / "g1"))
        said = port(tmp_path / "g2", "g2")
        await two.connect(said)
        await two.subscribe(SPEED)
        n = 0
        while not said.events:
            n += 1
            await acknowledged(one, speed(n))
            await asyncio.sleep(0.05)
            assert n < 200
        assert said.events[0].producer == "car-7"
        wrong = adapter(b1.address, "other", scopes={"geography": "cork"})
        await wrong.connect(port(tmp_path / "g3", "g3"))
        with pytest.raises(Refused, match="cork"):
            await wrong.publish(speed(1))
        for each in (one, two, wrong):
            await each.disconnect()

    asyncio.run(work())


def test_a_certificate_is_good_for_the_lanes_too(brokers: Brokers, tmp_path: Path) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    for name, certificate in {
        "broker": ca.issue_cert("127.0.0.1"),
        "pi-17": ca.issue_cert("pi-17", common_name="pi-17"),
    }.items():
        certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / f"{name}.pem"))
    listen = 'address = "tls://127.0.0.1:0"\ncertificate = "broker.pem"\nca = "ca.pem"'
    broker = brokers.start("b1", listen=listen, log=True)

    async def work() -> None:
        files = {"certificate": str(tmp_path / "pi-17.pem"), "ca": str(tmp_path / "ca.pem")}
        one = adapter(broker.address, client="pi-17", **files)
        await one.connect(port(tmp_path / "g1"))
        await acknowledged(one, speed(1))
        await acknowledged(one, speed(1, StoreSeq=1))
        await one.disconnect()
        one = adapter(broker.address, client="pi-18", **files)
        with pytest.raises(Unavailable, match="your certificate says 'pi-17'"):
            await one.connect(port(tmp_path / "g2"))

    asyncio.run(work())


# What is wrong is said


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "address is missing"),
        ({"address": "http://x"}, "'http' is none of tcp, tls, ws, wss"),
        ({"address": []}, "address is empty"),
        ({"address": [7]}, "address has 7, want strings"),
        ({"address": "tcp://x", "ca": "no.pem"}, "ca is 'no.pem', which is no file"),
        ({"address": "tcp://x", "token": "no.token"}, "token is 'no.token', which is no file"),
        ({"address": "tcp://x", "client": "a/b"}, "client is 'a/b', want 1 to 49 bytes without / and ~"),
        ({"address": "tcp://x", "client": "a" * 60}, "want 1 to 49 bytes"),
        ({"address": "tcp://x", "scopes": {"geography": 7}}, "scopes has geography = 7"),
        ({"address": "tcp://x", "only": 1}, "only is 1, want true or false"),
    ],
)
def test_settings(values: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=r"gateway.toml: \[service\] ") as found:
        SienaAdapter("wide", settings(values))
    assert message in str(found.value)


def test_a_name_that_is_made_is_checked_too(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(Refused, match="say `client` in the configuration"):
            await adapter("tcp://127.0.0.1:1").connect(port(tmp_path, "g" * 60))

    asyncio.run(work())


def test_many_subjects(shared: Process, tmp_path: Path) -> None:
    """More than a broker lets a client advertise."""

    async def work() -> None:
        one = adapter(shared.address)
        await one.connect(port(tmp_path / "g1"))
        for n in range(1100):
            await one.publish(Event(f"it's {n}", [("n", n)]))
        await acknowledged(one, Event("last", [("n", 1)]))
        await one.announce(Event("it's 3"))
        await one.unannounce(Event("it's 3"))
        await acknowledged(one, Event("it's 3", [("n", 1)]))
        await one.disconnect()

    asyncio.run(work())


# Numbers


def test_numbers_never_come_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_numbers, "BLOCK", 4)
    chance, given = random.Random(1), []
    for _ in range(50):
        numbers = Numbers(tmp_path / "live.numbers", chance.randrange(30))  # and forgotten, as in a crash
        given += [numbers.next() for _ in range(chance.randrange(9))]
    assert given == sorted(set(given))
    (tmp_path / "live.numbers").write_text("x")
    with pytest.raises(Unavailable, match="holds 'x', want a number"):
        Numbers(tmp_path / "live.numbers")


def test_recent_forgets_the_oldest() -> None:
    recent = Recent(2)
    for n in range(3):
        recent.add(("p", n))
    assert [("p", n) in recent for n in range(3)] == [False, True, True]


def test_a_client_is_small() -> None:
    """A gateway on a Pi has room for little."""
    code = "import sys, vicinal_edge.adapters.siena as s; print({'numpy', 'vicinal_cloud.log'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
