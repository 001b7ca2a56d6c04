"""One town for all questions that a run of the demo can answer (test_traffic.py, test_traffic_scopes.py and
test_traffic_bad_input.py): starting one costs more than any of them.

Eight cars, three monitors of which two overlap, a limit that is lowered and raised again; at the brokers planners,
citizens and strangers listen. When all is accounted for, a car comes that says what cannot be true.
"""

import asyncio
import json
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner
from cloud.broker.brokers import PATIENCE

from vicinal_cloud.broker.client import Client, Delivery, Refused, Subscription, connect
from vicinal_cloud.traffic.office import monitor_of
from vicinal_tools.demo.city import City, get, post
from vicinal_tools.demo.files import ADMINISTRATOR, OFFICE, Plan, broker_of, write
from vicinal_tools.demo.judge import Said, read_signs, read_truth
from vicinal_tools.demo.show import Show, Summary
from vicinal_tools.main import cli
from vicinal_tools.traffic.tracks import shipped

__all__ = ["Town", "run"]

SEED = 189
"""with which there are speeders in reach of one, of two and of no monitor, and cars that no monitor hears"""
ALL = "subject IN ('Speed', 'Location', 'FES_ControlEvent')"
SPEED = {"subject": "Speed", "params": {"license_no": "00D1234", "rate": 57.0}}
LOCATION = {"subject": "Location", "params": {"lat": 532039000, "lon": -75120477, "heading": 90.0, "braking": False}}


class Town(NamedTuple):
    plan: Plan
    city: City
    """its cars have ended; the rest still runs, and has said all of what follows"""
    summary: Summary
    truth: list[Said]
    signs: list[dict[str, Any]]
    """what drivers have seen"""
    office: list[dict[str, Any]]
    """what traffic control has heard"""
    cases: list[dict[str, Any]]
    pages: dict[str, Any]
    heard: dict[str, list[Delivery]]
    """by who listened at a broker"""
    refused: dict[str, str]
    speaker: str
    """a monitor that the planner has heard"""
    explained: dict[tuple[str, str, str, str], tuple[int, dict[str, Any]]]
    """by broker, producer, consumer and subject"""
    modes: dict[str, int]
    """of the files"""


def run() -> Iterator[Town]:
    folder = Path(tempfile.mkdtemp(prefix="vicinal-"))  # short: there are sockets in it
    plan = write(folder, shipped(), vehicles=8, speeders=0.5, seed=SEED, port=0, database=None, flow_s=5)
    city = City(plan)
    show = Show(city)
    try:
        show.start()
        heard, refused = asyncio.run(_listen(plan, show))
        speaker = monitor_of(heard["planner"][-1].event.producer)
        explained = {
            (broker, producer, consumer, event["subject"]): _explain(plan, broker, producer, consumer, event)
            for broker, producer, consumer, event in (
                ("b-west", "m1", "planner", SPEED),
                ("b-office", "m1", "planner", SPEED),
                ("b-office", "m1", "planner", LOCATION),
                ("b-office", "m1", "citizen", SPEED),
                ("b-office", "m1", "citizen", LOCATION),
                ("b-office", "m1", OFFICE, SPEED),
                ("b-west", "m1", OFFICE, SPEED),
                (broker_of(plan, speaker), speaker, "planner", LOCATION),
            )
        }
        summary = show.finish()
        speed = next(one for one in reversed(show.heard) if one["subject"] == "Speed")
        address = city.address
        pages = {
            name: get(f"{address}/api/{path}")
            for name, path in (
                ("state", "state"),
                ("span", "span"),
                ("limits", "limits"),
                ("path", f"events/{speed['vehicle']}/{speed['seq']}"),
                ("then", f"at?time={speed['hops'][0]['time']}"),
            )
        }
        pages["speed"] = speed
        cases = get(f"{address}/api/cases")["cases"]
        pages["void"] = post(f"{address}/api/cases/{cases[0]['number']}", {"state": "void", "note": "a test"})
        truth, signs = read_truth(folder / "truth.jsonl"), read_signs(folder / "truth.jsonl")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
        yield Town(
            plan, city, summary, truth, signs, show.heard, cases, pages, heard, refused, speaker, explained, modes
        )
    finally:
        city.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def _listen(plan: Plan, show: Show) -> tuple[dict[str, list[Delivery]], dict[str, str]]:
    """The run itself, until a planner has heard enough."""
    office, west = (f"tcp://127.0.0.1:{plan.brokers[name]}" for name in ("b-office", "b-west"))
    clients: dict[str, Client] = {}
    hears: dict[str, Subscription] = {}
    refused: dict[str, str] = {}
    for name in ("planner", "citizen"):
        token = (plan.folder / f"{name}.token").read_text().strip()
        clients[name] = await connect(office, name, token=token)
        hears[name] = await clients[name].subscribe("subject IN ('Speed', 'Location', 'Flow')")
    for name, address in (("stranger", office), ("another stranger", west)):
        clients[name] = await connect(address, name)
        hears[name] = await clients[name].subscribe(ALL)
    # Who knows the name and has no token, and who wants to be where it does not belong.
    for name, who, address, scopes in (
        ("m1 without a token", "m1~1", west, None),
        ("office without a token", f"{OFFICE}~1", office, None),
        ("stranger in police", "stranger", office, {"membership": "police"}),
        ("planner in police", "planner", office, {"membership": "police"}),
    ):
        found = clients.get(who) or await connect(address, who)
        clients.setdefault(who, found)
        try:
            hears[name] = await found.subscribe(ALL, scopes)
        except Refused as error:
            refused[name] = str(error)
    await asyncio.to_thread(_change_limits, show)
    end = time.monotonic() + PATIENCE
    while (
        hears["planner"].unread < 30
        or not hears["citizen"].unread
        or not [one for one in show.heard if one["subject"] == "Speed" and "license_no" in one["params"]]
    ):
        assert time.monotonic() < end, hears["planner"].unread
        await asyncio.to_thread(show.run, 0.5)
    heard = {name: [await anext(one) for _ in range(one.unread)] for name, one in hears.items()}
    await asyncio.gather(*[client.close() for client in clients.values()])
    return heard, refused


def _change_limits(show: Show) -> None:
    show.run(8)
    show.city.set_limit("old-town", 20)
    show.run(5)
    _until_seen(show, "old-town", 20)
    show.city.set_limit("old-town", 35)
    show.run(6)


def _until_seen(show: Show, area: str, limit: int) -> None:
    """By a driver at least: how soon is a matter of the computer."""
    end = time.monotonic() + PATIENCE
    while not [
        one for one in read_signs(show.city.plan.folder / "truth.jsonl") if (one["sign"], one["limit"]) == (area, limit)
    ]:
        assert time.monotonic() < end
        show.run(1)


def _explain(
    plan: Plan, broker: str, producer: str, consumer: str, event: dict[str, Any]
) -> tuple[int, dict[str, Any]]:
    arguments = [
        "scope", "explain", f"tcp://127.0.0.1:{plan.brokers[broker]}", "--from", producer, "--to", consumer,
        "--event", json.dumps(event), "--json", "--token-file", str(plan.folder / f"{ADMINISTRATOR}.token"),
    ]  # fmt: skip
    done = CliRunner().invoke(cli, arguments)
    assert done.stdout, done.output
    return done.exit_code, json.loads(done.stdout)
