"""A fleet in a real broker, or alone beside one, and gateways that it names and configures (spec/provisioning.md)."""

import asyncio
import json
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from cloud.broker.brokers import COMMAND, PATIENCE, Brokers, free_port, until
from cloud.broker.test_commands import run
from cloud.fleet.managed import Managed
from spec_helpers import spec

from vicinal.event import Event
from vicinal_cloud.broker.client import connect
from vicinal_cloud.broker.config import ConfigError, load
from vicinal_cloud.fleet.directory import put, report

FLEET = '[fleet]\ndirectory = "fleet"'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "fleet"
    made.mkdir()
    (made / "default.toml").write_text("name = '{name}'\n")
    return made


@spec("PROV-5", "PROV-12", "PROV-13", "PROV-15")
def test_a_gateway_gets_name_and_configuration_and_changes(brokers: Brokers, folder: Path, tmp_path: Path) -> None:
    b1 = brokers.start("b1", more=FLEET)

    async def go() -> None:
        async with Managed("uid-1", tmp_path / "g1", b1.address) as gateway:
            await until(lambda: gateway.failed() or gateway.settled == ("gw-1", 1))
            assert gateway.config == {"name": "gw-1"}
            put(folder, "gw-1", b"name = 'gw-1'\nmore = true\n")
            await until(lambda: gateway.failed() or gateway.settled == ("gw-1", 2))
            assert gateway.config["more"]
        async with Managed("uid-1", tmp_path / "g1", b1.address) as gateway:
            await until(lambda: gateway.failed() or gateway.settled == ("gw-1", 2))
            assert gateway.runs == [2]
            await until(lambda: report(folder)[0]["health"] == "ok")

    asyncio.run(go())
    code, said = b1.terminate()
    assert (code, "Traceback" in said) == (0, False), said
    (one,) = report(folder)
    assert (one["name"], one["uid"], one["version"], one["health"]) == ("gw-1", "uid-1", 2, "ok")


@spec("PROV-8", "PROV-14")
@pytest.mark.parametrize("evil", [b"sick = true\n", b"unusable = true\n"])
def test_what_fails_its_trial_is_taken_back(brokers: Brokers, folder: Path, tmp_path: Path, evil: bytes) -> None:
    b1 = brokers.start("b1", more=FLEET)

    async def go() -> None:
        async with Managed("uid-1", tmp_path / "g1", b1.address) as gateway:
            await until(lambda: gateway.failed() or gateway.settled == ("gw-1", 1))
            put(folder, "gw-1", evil)
            await until(lambda: gateway.failed() or 2 in gateway.runs)
            await until(lambda: gateway.failed() or (gateway.settled == ("gw-1", 1) and not gateway.machine.failed))
            assert gateway.runs == [0, 1, 2, 1]
            await until(lambda: report(folder)[0]["bad"] == [2])
            put(folder, "gw-1", b"better = true\n")
            await until(lambda: gateway.failed() or gateway.settled == ("gw-1", 3))
            assert gateway.runs == [0, 1, 2, 1, 3]

    asyncio.run(go())


@spec("PROV-12")
def test_the_broker_is_killed_while_it_gives_names(brokers: Brokers, folder: Path, tmp_path: Path) -> None:
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    count = 12

    async def go() -> dict[str, str]:
        process = brokers.start("b1", listen=address, more=FLEET)
        async with AsyncExitStack() as stack:
            gateways = [
                await stack.enter_async_context(Managed(f"uid-{at}", tmp_path / f"g{at}", address))
                for at in range(count)
            ]
            for _ in range(3):
                before = sum(bool(gateway.machine.name) for gateway in gateways)
                await until(
                    lambda before=before: sum(bool(one.machine.name) for one in gateways) > min(before, count - 1)
                )  # type: ignore[misc]
                process.kill()
                process = brokers.start("b1", listen=address, more=FLEET)
            await until(lambda: all(one.failed() or one.settled for one in gateways))
            return {gateway.uid: gateway.machine.name for gateway in gateways}

    names = asyncio.run(go())
    assert len(set(names.values())) == count
    assert {one["uid"]: one["name"] for one in report(folder)} == names


def test_alone_beside_a_broker(brokers: Brokers, folder: Path, tmp_path: Path) -> None:
    b1 = brokers.start("b1")
    command = [*COMMAND, "fleet", "serve", str(folder), "-b", b1.address]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"fleet {folder} is served at b1\n"

        async def go() -> None:
            async with Managed("uid-1", tmp_path / "g1", b1.address) as gateway:
                await until(lambda: gateway.failed() or gateway.settled == ("gw-1", 1))

        asyncio.run(go())
        second = run("fleet", "serve", str(folder), "-b", b1.address)
        assert second.returncode == 2
        assert "another process serves this fleet" in second.stderr
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, said
        assert "version 1 went to gw-1" in said
        assert "Traceback" not in said
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    nobody = run("fleet", "serve", str(folder), "-b", f"tcp://127.0.0.1:{free_port()}")
    assert nobody.returncode == 1
    assert "nothing listens" in nobody.stderr


def test_hellos_that_are_none_are_counted_and_harm_nobody(brokers: Brokers, folder: Path, tmp_path: Path) -> None:
    b1 = brokers.start("b1", more=FLEET)

    async def go() -> None:
        async with await connect(b1.address, "stranger") as client:
            anything = await client.advertise("TRUE")
            for params in ({}, {"Uid": 5}, {"Uid": "", "Name": "", "Version": 0, "Health": "ok", "Failed": 0}):
                await client.publish(Event("FES_GatewayHello", params), anything)
            bad = {"Uid": "../../x", "Name": "../../etc/passwd", "Version": 1 << 62, "Health": "ok", "Failed": 0}
            await client.publish(Event("FES_GatewayHello", bad), anything)
        async with Managed("uid-1", tmp_path / "g1", b1.address) as gateway:
            await until(lambda: gateway.failed() or gateway.settled is not None)
            assert gateway.machine.name == "gw-2"

    asyncio.run(go())
    code, said = b1.terminate()
    assert code == 0
    assert said.count("a hello that is none") == 3
    assert [one["name"] for one in report(folder)] == ["gw-1", "gw-2"]
    assert sorted(path.name for path in (folder / "versions").iterdir()) == ["gw-1", "gw-2"]


def test_a_broker_says_what_is_wrong_with_its_fleet(brokers: Brokers, folder: Path) -> None:
    for text, why in (("[fleet]", "directory is missing"), (FLEET + "\nx = 1", "x is not known here")):
        file = brokers.write("b1", more=text)
        with pytest.raises(ConfigError, match=rf"\[fleet\] {why}"):
            load(file)
    (folder / "names.json").write_text("damaged")
    done = run("broker", "run", str(brokers.write("b1", more=FLEET)))
    assert done.returncode == 2
    assert "names.json: is no list of names any more" in done.stderr


GATEWAY = """
[gateway]
name = "{name}"
[[service]]
name = "local"
type = "memory"
"""


def test_commands(tmp_path: Path) -> None:
    folder = tmp_path / "fleet"
    assert run("fleet", "list", "-d", str(folder)).returncode == 2
    (folder / "gateways").mkdir(parents=True)
    assert "no gateway has said hello yet" in run("fleet", "list", "-d", str(folder)).stdout
    file = tmp_path / "gateway.toml"
    file.write_text(GATEWAY)
    assert run("fleet", "push", str(file), "-d", str(folder)).returncode == 2
    assert run("fleet", "push", str(file), "gw-1", "--default", "-d", str(folder)).returncode == 2
    done = run("fleet", "push", str(file), "--default", VICINAL_FLEET=str(folder))
    assert (done.returncode, done.stdout) == (0, f"{folder / 'default.toml'}: written\n"), done.stderr
    file.write_text(GATEWAY.replace("{name}", "gw-1"))
    assert run("fleet", "push", str(file), "gw-1", "-d", str(folder)).returncode == 0
    assert (folder / "gateways" / "gw-1.toml").read_text() == GATEWAY.replace("{name}", "gw-1")
    done = run("fleet", "check", str(folder))
    assert (done.returncode, done.stdout) == (0, f"{folder}: in order: 2 configurations\n")
    file.write_text(GATEWAY.replace("memory", "telepathy"))
    done = run("fleet", "push", str(file), "gw-1", "-d", str(folder))
    assert done.returncode == 2
    assert "telepathy" in done.stderr
    assert "telepathy" not in (folder / "gateways" / "gw-1.toml").read_text()
    done = run("fleet", "push", str(file), "../x", "-d", str(folder))
    assert done.returncode == 2
    (folder / "gateways" / "gw-2.toml").write_text(GATEWAY.replace("memory", "telepathy"))
    (folder / "gateways" / "gw-3.toml").write_text("x")
    done = run("fleet", "check", str(folder))
    assert done.returncode == 1
    assert [line.partition(".toml")[0][-4:] for line in done.stdout.splitlines()] == ["gw-3", "gw-2"]
    assert run("fleet", "check", str(tmp_path / "nowhere")).returncode == 2


def test_list(tmp_path: Path) -> None:
    from vicinal.federation.provisioning import GatewayHello
    from vicinal_cloud.fleet.directory import Fleet

    fleet = Fleet(tmp_path)
    put(tmp_path, None, b"a = 1")
    fleet.answer(GatewayHello("u1", "", 1, "ok"), 5000)
    fleet.save_status()
    done = run("fleet", "list", "-d", str(tmp_path), COLUMNS="160")
    assert done.returncode == 0
    assert "gw-1" in done.stdout
    fleet.answer(GatewayHello("u1", "", 1, "failed: nonsense", 2), 5000)
    fleet.close()
    done = run("fleet", "list", "--json", "-d", str(tmp_path))
    assert done.returncode == 1
    (one,) = json.loads(done.stdout)
    assert (one["name"], one["bad"], one["health"]) == ("gw-1", [2], "failed: nonsense")
