"""One gateway with all kinds of services, each real, and a client on each: another adapter of the same kind, used as a
library (seed 001, 5.3.5).

    cosmic   event channels on a virtual CAN bus          car    frames of a mapping, on another bus
    steam    a virtual radio, which may lose what it says siena  a broker
    mqtt     mosquitto                                    jms    ActiveMQ
    coap     the gateway serves, the client is its peer
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cloud.broker.brokers import Brokers
from edge.gateway.within import gateway
from edge.servers import ActiveMq, Mosquitto, free_port

from vicinal.control import SUBJECT as CONTROL
from vicinal.control import Answer, from_event
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_edge.adapter import Adapter, Refused
from vicinal_edge.contract import RecordingPort, settings
from vicinal_edge.gateway.node import Node

PATIENCE = 60.0
PLACE = (533498000, -62603000)
KINDS = {"cosmic": "cosmic", "car": "cosmic", "steam": "steam", "siena": "siena", "mqtt": "mqtt", "jms": "jms"}
KINDS["coap"] = "coap"
NAMES = tuple(KINDS)
MESSAGE = """
[[message]]
id = {id}
subject = "{subject}"
fields = [
    {{ name = "license_no", bytes = "0..6", type = "string" }},
    {{ name = "rate", bytes = 7, type = "int" }},
]
"""


class Client:
    """On one service, and hears what it has asked for there."""

    def __init__(self, name: str, adapter: Adapter, port: RecordingPort) -> None:
        self.name = name
        self.adapter = adapter
        self.port = port
        self._seq = 0
        self._turn = asyncio.Lock()  # an adapter is asked one thing at a time

    async def publish(self, event: Event) -> Event:
        """As the client's own, with a number unless it has one; returned when the service has it."""
        async with self._turn:
            if event.identity is None:
                self._seq += 1
                event = event.stamp(f"client-{self.name}", self._seq)
            await self.adapter.announce(event)
            acknowledged = await self.adapter.publish(event)
        if acknowledged is not None:
            try:
                await asyncio.wait_for(acknowledged, PATIENCE)
            except Refused as error:
                if "expired" not in str(error):
                    raise  # else it was not said, as on a bus where it is best effort: who wants an answer asks again
        return event

    async def subscribe(self, text: str) -> None:
        async with self._turn:
            await self.adapter.subscribe(Filter(text))

    def heard(self, subject: str) -> list[Event]:
        return [event for event in self.port.events if event.subject == subject]

    def answers(self, request: Event) -> list[Answer]:
        """To a control event that was published here."""
        found = [from_event(event) for event in self.heard(CONTROL) if event["Type"] == Answer.type]
        return [one for one in found if isinstance(one, Answer) and one.request == request.identity]

    async def answer(self, request: Event) -> Answer:
        await self.until(lambda: self.answers(request), f"an answer to {request!r}")
        return self.answers(request)[-1]

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{self.name}: never came: {what}; {self.port.wrong!r}"
            await asyncio.sleep(0.02)


class Unlike:
    """What is between: `clients` by name of the service, and the gateway."""

    def __init__(self, node: Node, clients: dict[str, Client]) -> None:
        self.node = node
        self.clients = clients

    async def settled(self, what: Callable[[], Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < end, f"never settled: {self.node.engine.requests.report()}"
            await asyncio.sleep(0.02)

    def goal(self, source: str, what: str, to: str) -> dict[str, str] | None:
        """How a request of the gateway stands at a service."""
        for one in self.node.engine.requests.report():
            if (one["source"], one["what"]) == (source, what):
                return one["services"].get(to)  # type: ignore[no-any-return]
        return None


def _services(folder: Path, stack: ExitStack, subjects: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Of each service the settings of the gateway's adapter and of the client's."""
    broker = Brokers(folder)
    stack.callback(broker.stop)
    siena = broker.start("b1").address
    mqtt = stack.enter_context(Mosquitto(folder / "mosquitto", lines=("max_queued_messages 0",))).address
    jms = stack.enter_context(ActiveMq(folder / "activemq")).address
    coap = f"127.0.0.1:{free_port()}"
    rows = [MESSAGE.format(id=0x100 + n, subject=subject) for n, subject in enumerate(subjects)]
    (folder / "car.toml").write_text("".join(rows))
    own = f"m{os.getpid()}"
    bound = {"interface": "vicinal", "channel": f"{own}b", "bind": True}
    car = {"interface": "vicinal", "channel": f"{own}c", "mapping": "car.toml", "validity_ms": 60_000}
    radio = {"virtual": f"{own}r", "extended": True, "interval_ms": 20}
    return {
        "cosmic": [
            {**bound, "broker": True, "tx_node": 1},
            {**bound, "tx_node": 2, "binding_ms": int(PATIENCE * 1000)},
        ],
        "car": [car, car],
        "steam": [radio, radio],
        "siena": [{"address": siena}, {"address": siena}],
        "mqtt": [{"address": mqtt}, {"address": mqtt}],
        "jms": [{"address": jms}, {"address": jms}],
        "coap": [{"bind": coap}, {"peers": [f"coap://{coap}/ps/"], "refresh": 2.0}],
    }


def _toml(values: dict[str, Any]) -> str:
    rows = [f"{key} = {str(value).lower() if type(value) is bool else repr(value)}" for key, value in values.items()]
    return "\n".join(rows) + "\n"


@asynccontextmanager
async def unlike(folder: Path, subjects: list[str], names: tuple[str, ...] = NAMES) -> AsyncIterator[Unlike]:
    """`subjects` are those that the car has messages of."""
    async with AsyncExitStack() as stack:
        sync = stack.enter_context(ExitStack())
        for variable in ("VICINAL_CAN_DIR", "VICINAL_BLE_DIR"):
            # Not in `folder`: a Unix socket's path may have 107 characters.
            os.environ[variable] = sync.enter_context(TemporaryDirectory(prefix="u"))
            sync.callback(os.environ.pop, variable)
            stack.push_async_callback(_nobody_left, Path(os.environ[variable]))
        given = await asyncio.to_thread(_services, folder, sync, subjects)
        lat, lon = (one / 1e7 for one in PLACE)
        text = f"[location]\nfixed = [{lat}, {lon}]\n" + "".join(
            f'[[service]]\nname = "{name}"\ntype = "{KINDS[name]}"\n{_toml(given[name][0])}' for name in names
        )
        node = await stack.enter_async_context(gateway(folder, text))
        clients: dict[str, Client] = {}
        made = Unlike(node, clients)
        await made.settled(lambda: all(one.state == "up" for one in node.services.values()))
        for name in names:
            clients[name] = await _client(name, given[name][1], folder, stack)
        yield made


async def _nobody_left(folder: Path) -> None:
    """A bus or a radio ends when the last who was on it has gone: whoever forgets to is seen here."""
    end = time.monotonic() + PATIENCE
    while found := list(folder.rglob("*.sock")):
        assert time.monotonic() < end, f"somebody is still on {found[0].stem}"
        await asyncio.sleep(0.05)


async def _client(name: str, values: dict[str, Any], folder: Path, stack: AsyncExitStack) -> Client:
    (kind,) = entry_points(group="vicinal.adapters", name=KINDS[name])
    adapter: Adapter = kind.load()(name, settings(values, str(folder / "client.toml")))
    place = folder / f"client-{name}"
    place.mkdir()
    port = RecordingPort(name, place, PLACE)
    port.gateway = "client"
    await adapter.connect(port)
    stack.push_async_callback(adapter.disconnect)
    found = Client(name, adapter, port)
    if adapter.capabilities.control:
        await found.subscribe(f"subject = '{CONTROL}' AND Type = {Answer.type}")
    return found
