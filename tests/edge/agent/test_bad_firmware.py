"""Updates over the air, end to end: MicroPython of 32 bits with 128 KiB on littlefs, a real gateway, a real broker, and
firmware that is bad in more than twenty ways. The device comes back on the old version and says why.

`make test` has a few of them, VICINAL_SOAK all."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from cloud.broker.brokers import Brokers
from edge.agent.air import Air
from edge.agent.bad_firmware import WAYS, run
from edge.gateways import Gateways

pytestmark = pytest.mark.micropython
SOAK = bool(os.environ.get("VICINAL_SOAK"))
FEW = ["crash_at_import", "hang_in_the_loop", "tampered_file", "power_cut_while_it_is_fetched"]
FEW += ["rom_beside_a_bus", "rom_crash_at_import", "rom_power_cut_while_it_is_fetched", "rom_from_files"]


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Air]:
    folder = tmp_path_factory.mktemp("air")
    brokers, gateways = Brokers(folder), Gateways(folder)
    try:
        yield Air(folder, brokers, gateways)
    finally:
        gateways.stop()
        brokers.stop()


def all_of(air: Air, names: list[str]) -> None:
    """Several devices at once, each with a release of its own: mostly they wait."""
    with ThreadPoolExecutor(4) as pool:
        done = {name: pool.submit(run, air, name, number) for number, name in enumerate(names, 1)}
    wrong = {name: one.exception() for name, one in done.items() if one.exception() is not None}
    assert not wrong, "\n".join(f"{name}: {error!r}" for name, error in wrong.items())


@pytest.mark.spec(
    "AGENT-19", "AGENT-20", "AGENT-21", "AGENT-23", "AGENT-24", "AGENT-26", "AGENT-27", "AGENT-29", "AGENT-30"
)
def test_bad_firmware(air: Air) -> None:
    assert len(WAYS) > 20
    all_of(air, list(WAYS) if SOAK else FEW)
