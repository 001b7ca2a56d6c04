"""The commands against a real broker, as people and scripts meet them."""

import asyncio
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from cloud.broker.brokers import COMMAND, PATIENCE, Brokers, Process, free_port, until
from cloud.broker.test_pubsub import SCOPES, rates, speed

from vicinal_cloud.broker.client import Closed, connect


def run(*arguments: str, stdin: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [*COMMAND, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=os.environ | environment,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def subscriber(process: Process, *arguments: str) -> "subprocess.Popen[str]":
    """One that is there."""
    command = [*COMMAND, "sub", "--verbose", "--broker", process.address, *arguments]
    found = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert found.stderr is not None
    assert found.stderr.readline() == f"subscribed at {process.name} ({process.address})\n"
    return found


def test_pub_and_sub(brokers: Brokers) -> None:
    b1 = brokers.start("b1")
    sub = subscriber(b1, "rate > 30", "--count", "4")
    assert run("pub", "Speed", "rate=57.2", "license_no=00D12345", "--broker", b1.address).returncode == 0
    lines = '{"subject": "Speed", "params": {"rate": 20}}\n{"subject": "Speed", "params": {"rate": 40}}\n'
    done = run("pub", "--json", "--rate", "1000", stdin=lines, VICINAL_BROKER=b1.address)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"published": 2})
    file = brokers.folder / "events.jsonl"
    file.write_text('{"subject": "Speed", "params": {"rate": 41}, "producer": "x", "seq": 1}\n' * 2)
    assert run("pub", "--file", str(file), "--name", "car-7", "-b", b1.address).returncode == 0
    out, _ = sub.communicate(timeout=PATIENCE)
    assert sub.returncode == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["params"]["rate"] for one in found] == [57.2, 40, 41, 41]
    assert found[0]["params"]["license_no"] == "00D12345"
    assert [one["producer"] for one in found[2:]] == ["car-7"] * 2
    assert found[2]["seq"] < found[3]["seq"]


def test_a_bad_line_says_what_was_published_before_it(brokers: Brokers) -> None:
    b1 = brokers.start("b1")
    sub = subscriber(b1, "--count", "2")
    lines = '{"subject": "Speed", "params": {"rate": 20}}\n' * 2 + '{"subject": 7}\n'
    done = run("pub", "-b", b1.address, stdin=lines)
    assert done.returncode == 2
    assert "stdin:3:" in done.stderr
    assert "The 2 events before it were published." in done.stderr
    assert len(sub.communicate(timeout=PATIENCE)[0].splitlines()) == 2


def test_a_subscriber_is_told_of_a_gap(brokers: Brokers) -> None:
    where = f"tcp://127.0.0.1:{free_port()}"
    b1 = brokers.start("b1", listen=where)
    sub = subscriber(b1)
    assert sub.stderr is not None
    b1.kill()
    assert sub.stderr.readline().startswith(f"Note: the connection to {where} is lost")
    brokers.start("b1", listen=where)
    assert sub.stderr.readline().startswith("Note: connected again to b1; what came meanwhile is not known")
    sub.send_signal(signal.SIGINT)
    sub.communicate(timeout=PATIENCE)


def test_what_is_asked_for_its_status_and_is_something_else(brokers: Brokers) -> None:
    b1 = brokers.start("b1")
    http = b1.address.replace("tcp://", "http://")
    for arguments, said in (
        (("gateway", "status", b1.status_address), "is a broker, and no gateway: vicinal top"),
        (("gateway", "status", http), "speaks no HTTP: is it the port for events?"),
        (("top", "--once", http), "speaks no HTTP: is it the port for events?"),
        (("top", "--once", b1.address), "is an address for events; the status of a broker has one with http://"),
        (("ping", b1.status_address.replace("http://", "tcp://")), "is that a broker's address for events?"),
        (("ping", b1.address.replace("tcp://", "tls://")), "speaks no TLS; perhaps tcp://"),
    ):
        done = run(*arguments)
        assert done.returncode == 1, (arguments, done)
        assert said in done.stderr, (arguments, done.stderr)


def test_top_fits_a_narrow_terminal(brokers: Brokers) -> None:
    b1 = brokers.start("b1")
    for width, last in (("80", "dropped"), ("140", "scopes")):
        done = run("top", "--once", b1.status_address, COLUMNS=width)
        head = next(line for line in done.stdout.splitlines() if "broker" in line)
        assert last in head
        assert "\N{HORIZONTAL ELLIPSIS}" not in done.stdout


def test_sub_ends_as_it_is_told(brokers: Brokers) -> None:
    b1 = brokers.start("b1")
    assert run("sub", "--for", "0.1", "-b", b1.address).returncode == 0
    assert run("sub", "--for", "0.1", "-n", "1", "-b", b1.address).returncode == 1
    sub = subscriber(b1, "--pretty")
    assert run("pub", "Speed", "rate=1", "-b", b1.address).returncode == 0
    assert sub.stdout is not None
    assert sub.stdout.readline().endswith("Speed  rate=1\n")
    sub.send_signal(signal.SIGINT)
    out, said = sub.communicate(timeout=PATIENCE)
    assert (sub.returncode, out, said) == (130, "", "")


NOWHERE = "tcp://127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["ping", NOWHERE], 1, "nothing listens on tcp://127.0.0.1:1: Connection refused\nStart one with: vicinal"),
        (["pub", "Speed", "-b", NOWHERE], 1, "nothing listens"),
        (["sub", "-b", NOWHERE], 1, "nothing listens"),
        (["trace", "Speed", "-b", NOWHERE], 1, "nothing listens"),
        (["top", "--once", "http://127.0.0.1:1"], 1, "nothing answers on http://127.0.0.1:1: Connection refused"),
        (["ping", "udp://x"], 2, "'udp' is none of tcp, tls, ws, wss"),
        (["pub", "Speed", "rate"], 2, "'rate': want NAME=VALUE"),
        (["pub", "Speed", "--file", "x"], 2, "either SUBJECT or --file"),
        (["pub", "--file", "nothing.jsonl"], 2, "nothing.jsonl: No such file"),
        (["sub", "rate >"], 2, "rate >\n        ^"),
        (["sub", "--durable", "x"], 2, "--durable needs --name"),
        (["sub", "--scope", "london"], 2, "want DIMENSION=SCOPE"),
        (["top", "--json"], 2, "--json goes with --once"),
        (["broker", "run", "nothing.toml"], 2, "nothing.toml: No such file"),
    ],
)
def test_what_goes_wrong_is_said(arguments: list[str], code: int, said: str, brokers: Brokers) -> None:
    if "nothing.jsonl" in arguments:
        arguments = [*arguments, "-b", brokers.start("b1").address]
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_broker_run(brokers: Brokers) -> None:
    file = brokers.write("b1", {"b2": None}, f"tcp://127.0.0.1:{free_port()}", scopes=SCOPES, join=("uk",), log=True)
    done = run("broker", "run", str(file), "--check")
    assert done.returncode == 0
    assert done.stdout == f"{file}: in order: broker 'b1', 1 listeners, 1 neighbours, 3 scopes, 1 joined\n"
    b1 = brokers.start("b1", listen=re.findall('tcp://[^"]*', file.read_text())[0], log=True)
    done = run("broker", "run", str(brokers.folder / "b1.toml"))
    assert done.returncode == 1
    assert "is already written by" in done.stderr
    other = brokers.write("b2", listen=b1.address)
    done = run("broker", "run", str(other))
    assert (done.returncode, "address already in use" in done.stderr.lower()) == (1, True), done.stderr
    code, said = b1.terminate()
    assert code == 0
    assert "broker b1 drains" in said


def test_ping_top_and_trace(brokers: Brokers) -> None:
    b1 = brokers.start("b1", {"b2": None})
    b2 = brokers.start("b2", {"b1": b1.address})
    asyncio.run(until(lambda: b1.status()["neighbours"][0]["up"] and b2.status()["neighbours"][0]["up"]))
    done = run("ping", b1.address, "--count", "2", "--interval", "0", "--json")
    found = json.loads(done.stdout)
    assert (found["broker"], len(found["ms"])) == ("b1", 2)
    assert re.fullmatch(r"(b1 at tcp://127.0.0.1:\d+: \d+\.\d\d ms\n){3}", run("ping", b1.address).stdout)

    done = run("trace", "Speed", "rate=1", "-b", b1.address, "--to", b2.address, "--to", b1.address, "--json")
    assert done.returncode == 0, done.stderr
    there, here = json.loads(done.stdout)["arrivals"]
    assert [hop["broker"] for hop in there["hops"]] == ["b1", "b2"]
    assert [hop["broker"] for hop in here["hops"]] == ["b1"]
    assert "b2" in run("trace", "Speed", "-b", b1.address, "--to", b2.address).stdout
    missing = run("trace", "Speed", "-b", b1.address, "--wait", "0.1", "--only", "--to-scope", "geography=mars")
    assert missing.returncode == 2
    assert "'mars' is no scope" in missing.stderr

    found = json.loads(run("top", b1.status_address, b2.status_address, "--once", "--json").stdout)
    assert [one["name"] for one in found.values()] == ["b1", "b2"]
    shown = run("top", b1.status_address, "--once", COLUMNS="160").stdout
    assert "neighbours" in shown
    assert "b2" in shown


def test_scopes_are_read_anew(brokers: Brokers) -> None:
    """SIGHUP: what is joined is open at once, what is left is closed at once, a wrong file changes nothing."""

    async def reload() -> None:
        b1 = brokers.start("b1", join=("uk",), scopes=SCOPES)
        file = brokers.folder / "b1.toml"

        def hang_up(join: tuple[str, ...], scopes: str = SCOPES, text: str | None = None) -> None:
            brokers.write("b1", join=join, scopes=scopes)
            if text is not None:
                file.write_text(text)
            b1.process.send_signal(signal.SIGHUP)

        async with await connect(b1.address, "car") as car, await connect(b1.address, "plain") as plain:
            everything = await plain.subscribe("TRUE")
            in_uk = await car.advertise("TRUE", {"geography": "uk"})
            hang_up((), text="[broker")
            await car.publish(speed(1), in_uk)
            hang_up(("uk", "paris"))
            await until(lambda: b1.status()["scopes"] == ["paris", "uk"])
            paris = await car.advertise("TRUE", {"geography": "paris"})
            await car.publish(speed(2), in_uk)
            await car.publish(speed(3), paris)
            assert await rates(everything, 3) == [1, 2, 3]
            hang_up(("uk",), SCOPES.replace("paris", "lyon"))
            await until(lambda: b1.status()["scopes"] == ["uk"])
            with pytest.raises(Closed, match="the scopes have changed"):
                await car.publish(speed(4), in_uk)
            assert [client["name"] for client in b1.status()["clients"]] == ["plain"]
            assert plain.connections == 1

    asyncio.run(reload())


@pytest.mark.parametrize(
    ("place", "heard", "unheard"),
    [(0, '"rate": 57.2', "Note:"), (1, '"subject": "Quote", "params": {"price": 171}', "Order")],
)
def test_the_page_works_when_pasted(place: int, heard: str, unheard: str, tmp_path: Path) -> None:
    """The shell lines of the README beside the broker, with its port exchanged for a free one."""
    page = (Path(__file__).parents[3] / "cloud" / "vicinal_cloud" / "broker" / "README.md").read_text()
    script = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)[place]
    bin_ = tmp_path / "vicinal"
    bin_.write_text(f'#!/bin/sh\nexec {" ".join(repr(part) for part in COMMAND)} "$@"\n')
    bin_.chmod(0o755)
    script = script.replace("7447", str(free_port())).replace("9447", str(free_port()))
    done = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    assert heard in done.stdout
    assert unheard not in done.stdout
