"""Who may see plates in the running demo (town.py): the police, and nobody else, whoever they say they are."""

import pytest
from system.town import Town

from vicinal_tools.demo.files import OFFICE, broker_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traffic")]


def test_a_planner_hears_where_vehicles_are_and_never_a_plate(town: Town) -> None:
    subjects = {one.event.subject for one in town.heard["planner"]}
    assert subjects == {"Location", "Flow"}
    plates = {one.params["license_no"] for one in town.truth if one.subject == "Speed"}
    text = repr([one.event for one in town.heard["planner"]])
    assert "license_no" not in text
    assert not [plate for plate in plates if plate in text]
    assert "/can" not in text  # names of vehicles: there are pseudonyms in their place
    # There were plates to be heard while it listened.
    assert [one for one in town.office if one["subject"] == "Speed" and "license_no" in one["params"]]


def test_citizens_hear_how_traffic_flows_and_strangers_nothing(town: Town) -> None:
    flows = [one.event for one in town.heard["citizen"]]
    assert {event.subject for event in flows} == {"Flow"}
    roads = {road.name for road in town.plan.network.roads}
    plates = {one.params["license_no"] for one in town.truth if one.subject == "Speed"}
    for event in flows:
        assert list(event.params) == ["road", "since", "seconds", "vehicles", "reports", "mean_kmh"]
        assert event["road"] in roads
        assert not [plate for plate in plates if plate in repr(event)]
    # All cars together have said so much in its time, and not more.
    for since in {event["since"] for event in flows}:
        own = [event for event in flows if event["since"] == since]
        assert sum(int(event["vehicles"]) for event in own) <= town.plan.vehicles * len(own)
    for name in ("stranger", "another stranger"):
        assert town.heard[name] == [], name


def test_a_name_alone_is_nobody(town: Town) -> None:
    assert set(town.refused) == {
        "m1 without a token", "office without a token", "stranger in police", "planner in police"
    }  # fmt: skip
    for name in ("m1 without a token", "office without a token", "stranger in police"):
        assert "'police': its rule for join is role IN ('police', 'monitor')" in town.refused[name]
    assert "component 'planner' is not in 'police'" in town.refused["planner in police"]


def test_explain_says_who_may_see_plates_and_why(town: Town) -> None:
    for broker in ("b-west", "b-office"):
        code, said = town.explained[broker, "m1", "planner", "Speed"]
        assert (code, said["visible"], said["broker"]) == (1, False, broker)
        assert "no way from police to planning" in said["verdict"]
        (membership,) = [one for one in said["dimensions"] if one["dimension"] == "membership"]
        assert not membership["visible"]
        assert any(
            "police → planning: stopped" in step and "subject IN ('Location', 'Flow')" in step
            for step in membership["steps"]
        )
        code, said = town.explained[broker, "m1", OFFICE, "Speed"]
        assert (code, said["visible"]) == (0, True)
        assert all(one["visible"] for one in said["dimensions"])
    assert town.explained["b-office", "m1", "planner", "Location"][0] == 0
    for subject in ("Speed", "Location"):
        assert town.explained["b-office", "m1", "citizen", subject][0] == 1


def test_explain_knows_the_clients_as_they_are(town: Town) -> None:
    """At its broker the monitor is a client."""
    code, said = town.explained[broker_of(town.plan, town.speaker), town.speaker, "planner", "Location"]
    assert (code, said["visible"]) == (0, True)
    assert said["as"][0].startswith(town.speaker)
    assert "publishes subject = 'Location' in geography=" in said["as"][0]
    assert "membership=police, network=field" in said["as"][0]
    assert said["as"][1] == "planner is declared, and not connected here"


def test_the_accounts_hold_with_others_listening(town: Town) -> None:
    assert town.summary.holds
    assert town.summary.accounts.lost == 0


def test_secrets_are_for_nobody_else(town: Town) -> None:
    secret = {name: mode for name, mode in town.modes.items() if name.endswith((".token", ".key"))}
    assert len(secret) == 2 + 7
    assert set(secret.values()) == {0o600}
