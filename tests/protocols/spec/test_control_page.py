"""The sentences of protocols/spec/control.md."""

from typing import Any

import pytest
from spec_helpers import spec

from vicinal import control, wire
from vicinal.errors import LimitError, RemoteProtocolError
from vicinal.event import Event

NAN, INF = float("nan"), float("inf")


SPEED = Event("Speed", {"rate": 57.5}, {"Priority": 3}, "car-7", 12)
REQUESTS = [
    (1, control.Announcement("es1,es2", "es3", SPEED)),
    (2, control.Subscription("es1,es2", "es3", "rate  > 30")),
    (3, control.Publication("es1,es2", "es3", SPEED)),
    (4, control.Unsubscription("es1,es2", "es3", "rate  > 30")),
    (5, control.Unannouncement("es1,es2", "es3", SPEED)),
    (6, control.Answer("es3", "es1", ("gw-1", 7))),
    (7, control.Record("gw-1", 3, 12, ("es1", "es2"), ("can-7",))),
    (8, control.Echo("es*", "es3", True)),
    (6, control.Answer("es3", "es1", ("gw-1", 7), "too many")),
]


@spec("CTRL-1", "CTRL-2", "CTRL-3", "CTRL-4", "CTRL-5")
@pytest.mark.parametrize(("number", "message"), REQUESTS)
def test_control_messages(number: int, message: Any) -> None:
    event = message.to_event()
    assert event.subject == "FES_ControlEvent"
    names = {1: ["Event"], 2: ["Filter"], 6: ["RequestProducer", "RequestSeq", "Accepted", "Reason"]}
    names |= {7: ["Incarnation", "Version", "Transit", "Leaves"], 8: ["Trace"]}
    body = names[{3: 1, 4: 2, 5: 1}.get(number, number)]
    assert list(event.params) == ["Type", "DistList", "Source", *body[: len(event.params) - 3]]
    assert event["Type"] == number
    assert event.get("Event", SPEED) == SPEED
    assert event.get("Filter", "rate  > 30") == "rate  > 30"
    assert control.from_event(wire.decode(wire.encode(event.stamp("gw", 1)))) == message


@spec("CTRL-6", "CTRL-7")
@pytest.mark.parametrize(("number", "message"), REQUESTS)
def test_control_parameters_are_read_by_name(number: int, message: Any) -> None:
    event = message.to_event()
    mixed = [*reversed(event.params.items()), ("Later", 1)]
    assert control.from_event(event.replace(params=mixed)) == message
    for name in event.params:
        rest = [(other, value) for other, value in event.params.items() if other != name]
        for params in (rest, [*rest, (name, 1.5)]):
            with pytest.raises(RemoteProtocolError, match=name):
                control.from_event(event.replace(params=params))


@spec("CTRL-7")
def test_control_refusals() -> None:
    with pytest.raises(RemoteProtocolError, match="subject is 'Speed'"):
        control.from_event(SPEED)
    head = {"DistList": "es1", "Source": "es3", "Filter": "rate >", "Event": SPEED}
    for number in (0, 9, -1):
        with pytest.raises(RemoteProtocolError, match=f"unknown type {number}"):
            control.from_event(Event(control.SUBJECT, {"Type": number, **head}))
    with pytest.raises(RemoteProtocolError, match=r"type 2: .*\(column 7\)"):
        control.from_event(Event(control.SUBJECT, {"Type": 2, **head}))
    with pytest.raises(RemoteProtocolError, match=r"type 3: .*has an empty name"):
        control.from_event(Event(control.SUBJECT, {"Type": 3, **head, "DistList": "es1,"}))


@spec("CTRL-8", "CTRL-9", "CTRL-10")
def test_control_answers() -> None:
    yes, no = REQUESTS[5][1].to_event(), REQUESTS[-1][1].to_event()
    assert (yes["RequestProducer"], yes["RequestSeq"], yes["Accepted"], "Reason" in yes) == ("gw-1", 7, True, False)
    assert (no["Accepted"], no["Reason"]) == (False, "too many")
    silent: Any = control.from_event(no.replace(params=[*list(no.params.items())[:-1], ("Reason", "")]))
    assert (silent.accepted, silent.reason) == (False, "no reason given")


@spec("CTRL-11")
def test_control_nesting() -> None:
    event = Event("1")
    for depth in range(2, 6):
        event = Event(str(depth), {"e": event})
    assert control.from_event(control.Publication("*", "es1", event).to_event())
    with pytest.raises(LimitError, match="7, the limit is 6"):
        control.Publication("*", "es1", Event("6", {"e": event})).to_event()


@spec("CTRL-12")
def test_answers_say_more() -> None:
    full = control.Answer("es3", "es1", ("gw-1", 7), "", "g4", 3, True, "{}").to_event()
    assert list(full.params)[6:] == ["Gateway", "Hop", "Passed", "Detail"]
    assert control.from_event(full) == control.Answer("es3", "es1", ("gw-1", 7), "", "g4", 3, True, "{}")
    for name in ("Gateway", "Hop", "Passed", "Detail"):
        params = [(other, 1.5 if other == name else value) for other, value in full.params.items()]
        with pytest.raises(RemoteProtocolError, match=name):
            control.from_event(full.replace(params=params))


@spec("CTRL-13")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Transit", "es1,,es2"),
        ("Transit", "es*"),
        ("Leaves", "es?"),
        ("Leaves", ",".join(f"es{n}" for n in range(257))),
        ("Version", -1),
        ("Incarnation", -1),
        ("Source", ""),
    ],
)
def test_bad_records(name: str, value: Any) -> None:
    event = control.Record("gw-1", 3, 12, ("es1", "es2"), ()).to_event()
    params = [(other, value if other == name else old) for other, old in event.params.items()]
    with pytest.raises(RemoteProtocolError):
        control.from_event(event.replace(params=params))


@spec("CTRL-14")
def test_an_echo_may_ask_everybody_on_the_way() -> None:
    for trace in (True, False):
        found = control.from_event(control.Echo("es1", "es2", trace).to_event())
        assert isinstance(found, control.Echo)
        assert found.trace is trace
