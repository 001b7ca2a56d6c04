from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest
from edge.servers import ActiveMq

from vicinal_edge.adapter import Adapter
from vicinal_edge.adapters.jms import JmsAdapter
from vicinal_edge.contract import AdapterContract, settings

fresh = count(1)
pytestmark = pytest.mark.xdist_group("activemq")

class TestJms(AdapterContract):
    @pytest.fixture(autouse=True)
    def _server(self, activemq: ActiveMq) -> None:
        self.server = activemq

    @asynccontextmanager
    async def service(self, folder: Path) -> AsyncIterator[Callable[[str], Adapter]]:
        given = {"address": self.server.address, "destination": f"v{next(fresh)}."}
        yield lambda name: JmsAdapter(name, settings(given))
