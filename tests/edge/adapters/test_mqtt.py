"""The contract of adapters on a real mosquitto, and what is MQTT's own: clients of others, lost connections, sessions."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
from edge.servers import Mosquitto

from vicinal_edge.adapter import Adapter
from vicinal_edge.adapters.mqtt import MqttAdapter
from vicinal_edge.contract import AdapterContract, settings

fresh = count(1)


@pytest.fixture(scope="module")
def mosquitto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto"), lines=("max_queued_messages 0",)) as server:
        yield server


class TestMqtt(AdapterContract):
    payload = "json"

    @pytest.fixture(autouse=True)
    def _server(self, mosquitto: Mosquitto) -> None:
        self.server = mosquitto

    @asynccontextmanager
    async def service(self, folder: Path) -> AsyncIterator[Callable[[str], Adapter]]:
        number = next(fresh)
        values = {"address": self.server.address, "prefix": f"v{number}/", "payload": self.payload}
        yield lambda name: MqttAdapter(name, settings({**values, "client_id": f"{name}-{number}"}))


class TestMqttCbor(TestMqtt):
    payload = "cbor"
