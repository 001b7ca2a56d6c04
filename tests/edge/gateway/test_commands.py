"""vicinal gateway, and ping and trace through gateways, as a person would type them."""

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import COMMAND, PATIENCE, Brokers, until
from edge.gateways import Gateways
from edge.servers import Mosquitto


def vicinal(*args: str, code: int | None = 0) -> str:
    """`code` None: any."""
    done = subprocess.run([*COMMAND, *args], capture_output=True, text=True, timeout=PATIENCE, env=os.environ)
    assert code in (None, done.returncode), (done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


def siena(address: str, name: str = "B") -> str:
    return f'[[service]]\nname = "{name}"\ntype = "siena"\naddress = "{address}"\n'


def mqtt(address: str, name: str) -> str:
    return f'[[service]]\nname = "{name}"\ntype = "mqtt"\naddress = "{address}"\nprefix = "{name}/"\n'


def test_ping_and_trace_name_the_hop_that_failed(gateways: Gateways, brokers: Brokers, tmp_path: Path) -> None:
    broker = brokers.start("b1")
    with Mosquitto(tmp_path / "mosquitto") as mosquitto:
        gateways.start("G1", siena(broker.address) + mqtt(mosquitto.address, "C"))
        gateways.start("G2", mqtt(mosquitto.address, "C") + mqtt(mosquitto.address, "D"))
        asyncio.run(until(lambda: len(gateways.made[0].status()["gateways"]) == 2, "they know each other"))

        found = json.loads(vicinal("ping", broker.address, "--service", "*", "--json"))
        assert {one["service"]: (one["gateway"], one["hops"]) for one in found["services"]} == {
            "C": ("G1", 1),
            "D": ("G2", 2),
        }
        assert found["services"][1]["capabilities"]["filter"] == "subject"
        missed = json.loads(vicinal("ping", broker.address, "--service", "Q,D", "--wait", "1", "--json", code=1))
        reasons = {one["service"]: one.get("reason", "") for one in missed["services"]}
        assert reasons == {"D": "", "Q": "unreachable: no gateway is connected to 'Q'"}

        shown = json.loads(vicinal("trace", "--service", "D", "--broker", broker.address, "--json"))
        assert [(one["hop"], one["gateway"], one["through"]) for one in shown["hops"]] == [
            (1, "G1", "C"),
            (2, "G2", "-"),
        ]
        assert shown["reached"]
        assert "unreachable: no gateway is connected to 'Q'" in vicinal(
            "trace", "--service", "Q", "--broker", broker.address, code=1
        )
        gateways.made[1].kill()
        said = vicinal("trace", "--service", "D", "--broker", broker.address, "--wait", "1", code=1)
        assert (
            "gateway 'G1' (hop 1) passed it on through 'C', and nobody answered there" in said or "unreachable" in said
        )
        gateways.made[0].kill()
        assert "no gateway has answered" in vicinal(
            "trace", "--service", "D", "--broker", broker.address, "--wait", "1", code=1
        )


def test_check_run_and_status(gateways: Gateways, brokers: Brokers, tmp_path: Path) -> None:
    broker = brokers.start("b1")
    made = gateways.start("G1", siena(broker.address) + '[[service]]\nname = "M"\ntype = "memory"\n')
    asyncio.run(until(lambda: made.up, "up"))
    checked_text = vicinal("gateway", "check", str(made.file))
    assert "Note: there is no [[request]]" in checked_text
    assert "in order: gateway 'G1'" in checked_text
    checked: dict[str, Any] = json.loads(vicinal("gateway", "check", str(made.file), "--json"))
    assert [(one["name"], one["store"]) for one in checked["services"]] == [("B", True), ("M", False)]
    shown = vicinal("gateway", "status", made.status_address)
    assert "0 accepted = 0 delivered + 0 stored + 0 dropped" in shown
    assert json.loads(vicinal("gateway", "status", made.status_address, "--json"))["name"] == "G1"
    broker.kill()
    asyncio.run(until(lambda: not made.up, "the uplink is away"))
    vicinal("gateway", "status", made.status_address, code=1)
    assert made.terminate() == 0
    assert "nothing answers on" in vicinal("gateway", "status", made.status_address, code=1)
    assert all(json.loads(line)["message"] for line in made.log().splitlines())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gateway]\nname = 'x'\n[[service]]\nname = 'a'\ntype = 'mqtt'\n", "[service a] address is missing"),
        ("[gateway]\nname = 'x'\n[[service]]\nname = 'a'\ntype = 'nothing'\n", "there is no adapter: there are"),
        ("[gateway]\nname = 'x'\n[[service]]\nname = 'a'\ntype = 'mqqt'\n", "[service a] type is 'mqqt', for which"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "g.toml"
    file.write_text(text)
    for verb in ("run", "check"):
        assert said in vicinal("gateway", verb, str(file), code=2)
    assert "No such file" in vicinal("gateway", "run", str(tmp_path / "none.toml"), code=2)


def test_two_gateways_do_not_share_a_state_folder(gateways: Gateways, tmp_path: Path) -> None:
    made = gateways.start("G1", '[[service]]\nname = "M"\ntype = "memory"\n')
    said = vicinal("gateway", "run", str(made.file), code=1)
    assert "store.sqlite" in said
