"""Who may see plates in the running demo: the police, and nobody else, whoever they say they are."""

import asyncio
import json
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cloud.broker.brokers import COMMAND, PATIENCE

from vicinal_cloud.broker.client import Client, Delivery, Refused, Subscription, connect
from vicinal_cloud.traffic.office import monitor_of
from vicinal_tools.demo.city import City
from vicinal_tools.demo.files import ADMINISTRATOR, OFFICE, Plan, broker_of, write
from vicinal_tools.demo.judge import Said, read_truth
from vicinal_tools.demo.show import Show, Summary
from vicinal_tools.traffic.tracks import shipped

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traffic")]

ALL = "subject IN ('Speed', 'Location', 'FES_ControlEvent')"
SPEED = {"subject": "Speed", "params": {"license_no": "00D1234", "rate": 57.0}}
LOCATION = {"subject": "Location", "params": {"lat": 532039000, "lon": -75120477, "heading": 90.0, "braking": False}}


class Run(NamedTuple):
    plan: Plan
    summary: Summary
    heard: dict[str, list[Delivery]]
    """by who heard it"""
    refused: dict[str, str]
    speaker: str
    """a monitor that the planner has heard"""
    explained: dict[tuple[str, str, str, str], tuple[int, dict[str, Any]]]
    """by broker, producer, consumer and subject"""
    truth: list[Said]
    office: list[dict[str, Any]]
    modes: dict[str, int]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    folder = Path(tempfile.mkdtemp(prefix="vicinal-"))  # short: there are sockets in it
    plan = write(folder, shipped(), vehicles=6, speeders=0.5, seed=189, port=0, database=None)
    city = City(plan)
    show = Show(city)
    try:
        show.start()
        listening = asyncio.run(listen(plan, show))
        speaker = monitor_of(listening[0]["planner"][-1].event.producer)
        explained = {
            (broker, producer, consumer, event["subject"]): explain(plan, broker, producer, consumer, event)
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
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
        truth = read_truth(folder / "truth.jsonl")
        yield Run(plan, summary, *listening, speaker, explained, truth, show.heard, modes)
    finally:
        city.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def listen(plan: Plan, show: Show) -> tuple[dict[str, list[Delivery]], dict[str, str]]:
    """Until a planner has heard enough of both old and new."""
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
    end = time.monotonic() + PATIENCE
    while hears["planner"].unread < 30 or not [one for one in show.heard if one["subject"] == "Speed"]:
        assert time.monotonic() < end, hears["planner"].unread
        await asyncio.to_thread(show.look)
        await asyncio.sleep(0.5)
    await asyncio.to_thread(show.run, 5)
    heard = {name: [await anext(one) for _ in range(one.unread)] for name, one in hears.items()}
    await asyncio.gather(*[client.close() for client in clients.values()])
    return heard, refused


def explain(plan: Plan, broker: str, producer: str, consumer: str, event: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [
            *COMMAND, "scope", "explain", f"tcp://127.0.0.1:{plan.brokers[broker]}", "--from", producer,
            "--to", consumer, "--event", json.dumps(event), "--json",
            "--token-file", str(plan.folder / f"{ADMINISTRATOR}.token"),
        ],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_planner_hears_where_vehicles_are_and_never_a_plate(run: Run) -> None:
    subjects = {one.event.subject for one in run.heard["planner"]}
    assert subjects == {"Location"}
    plates = {one.params["license_no"] for one in run.truth if one.subject == "Speed"}
    text = repr([one.event for one in run.heard["planner"]])
    assert "license_no" not in text
    assert not [plate for plate in plates if plate in text]
    assert "car-" not in text  # names of vehicles: there are pseudonyms in their place
    # There were plates to be heard while it listened.
    assert [one for one in run.office if one["subject"] == "Speed" and "license_no" in one["params"]]


def test_citizens_and_strangers_hear_nothing_of_it(run: Run) -> None:
    for name in ("citizen", "stranger", "another stranger"):
        assert run.heard[name] == [], name


def test_a_name_alone_is_nobody(run: Run) -> None:
    assert set(run.refused) == {
        "m1 without a token", "office without a token", "stranger in police", "planner in police"
    }  # fmt: skip
    for name in ("m1 without a token", "office without a token", "stranger in police"):
        assert "'police': its rule for join is role IN ('police', 'monitor')" in run.refused[name]
    assert "component 'planner' is not in 'police'" in run.refused["planner in police"]


def test_explain_says_who_may_see_plates_and_why(run: Run) -> None:
    for broker in ("b-west", "b-office"):
        code, said = run.explained[broker, "m1", "planner", "Speed"]
        assert (code, said["visible"], said["broker"]) == (1, False, broker)
        assert "no way from police to planning" in said["verdict"]
        (membership,) = [one for one in said["dimensions"] if one["dimension"] == "membership"]
        assert not membership["visible"]
        assert any(
            "police → planning: stopped" in step and "subject = 'Location'" in step for step in membership["steps"]
        )
        code, said = run.explained[broker, "m1", OFFICE, "Speed"]
        assert (code, said["visible"]) == (0, True)
        assert all(one["visible"] for one in said["dimensions"])
    assert run.explained["b-office", "m1", "planner", "Location"][0] == 0
    for subject in ("Speed", "Location"):
        assert run.explained["b-office", "m1", "citizen", subject][0] == 1


def test_explain_knows_the_clients_as_they_are(run: Run) -> None:
    """At its broker the monitor is a client."""
    code, said = run.explained[broker_of(run.plan, run.speaker), run.speaker, "planner", "Location"]
    assert (code, said["visible"]) == (0, True)
    assert said["as"][0].startswith(run.speaker)
    assert "publishes subject = 'Location' in geography=" in said["as"][0]
    assert "membership=police, network=field" in said["as"][0]
    assert said["as"][1] == "planner is declared, and not connected here"


def test_the_accounts_hold_with_others_listening(run: Run) -> None:
    assert run.summary.holds
    assert run.summary.accounts.lost == 0


def test_secrets_are_for_nobody_else(run: Run) -> None:
    secret = {name: mode for name, mode in run.modes.items() if name.endswith((".token", ".key"))}
    assert len(secret) == 2 + 7
    assert set(secret.values()) == {0o600}
