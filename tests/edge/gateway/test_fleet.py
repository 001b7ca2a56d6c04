"""A real gateway gets its name and its configuration from a real broker's fleet, and goes back when it is bad."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cloud.broker.brokers import Brokers, until
from edge.gateway.test_commands import siena, vicinal
from edge.gateways import GatewayProcess

FLEET = '[fleet]\nservice = "B"\ntrial_s = 1\n'


def configuration(address: str, more: str = "") -> str:
    status = '[status]\naddress = "http://127.0.0.1:0"\n'
    return f"[gateway]\n{status}{siena(address)}{FLEET}{more}"


async def in_some_minutes(condition: Callable[[], Any], what: str) -> None:
    """A hello that is lost is said again after a minute."""
    for _ in range(3):
        with contextlib.suppress(AssertionError):
            await until(condition, what)
            return
    raise AssertionError(f"never came true: {what}")


def test_named_configured_and_rolled_back(brokers: Brokers, tmp_path: Path) -> None:
    async def work() -> None:
        directory = tmp_path / "fleet"
        (directory / "gateways").mkdir(parents=True)
        broker = brokers.start("b1", more=f'[fleet]\ndirectory = "{directory}"\n')
        folder = tmp_path / "pi"
        folder.mkdir()
        file = folder / "gateway.toml"
        file.write_text(configuration(broker.address))
        state = folder / "state" / "fleet" / "state.json"

        def saved() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(state.read_text()) if state.exists() else {}
            return found

        def listed() -> dict[str, Any]:
            found: list[dict[str, Any]] = json.loads(
                vicinal("fleet", "list", "-d", str(directory), "--json", code=None)
            )
            return found[0]

        pi = GatewayProcess("pi", file, {})
        try:
            await in_some_minutes(lambda: saved().get("name"), "it has a name")
            name = saved()["name"]
            good = configuration(broker.address, '[[service]]\nname = "M"\ntype = "memory"\n')
            (directory / "gateways" / f"{name}.toml").write_text(good)
            pi.terminate()
            pi.start()
            await in_some_minutes(lambda: saved().get("good"), "the served configuration has passed its trial")
            assert saved()["name"] == name
            version = saved()["good"]
            (directory / "gateways" / f"{name}.toml").write_text(good.replace('"memory"', '"nothing"'))
            await in_some_minutes(lambda: saved().get("bad"), "the bad one is rolled back")
            assert (saved()["good"], saved()["name"]) == (version, name)
            await in_some_minutes(lambda: listed()["bad"], "the fleet knows that it is bad")
            row = listed()
            assert (row["name"], row["version"], len(row["bad"])) == (name, version, 1)
            assert pi.process.poll() is None
        finally:
            pi.kill()

    asyncio.run(work())
