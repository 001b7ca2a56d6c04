"""What is kept beside the events: their scopes, and how far a broker has come in the logs of others."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import LimitError, RemoteProtocolError
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.limits import MAX_EVENT_BYTES
from vicinal.scope.graph import Tags
from vicinal.wire import encode
from vicinal_cloud.broker.cursors import Cursors
from vicinal_cloud.log import Log, event_of
from vicinal_cloud.log.scoped import entry_with, unpack

NAMES = st.text(min_size=1, max_size=8)


@given(st.dictionaries(NAMES, NAMES, max_size=3), st.booleans(), NAMES)
def test_an_event_and_its_scopes_come_back(scopes: dict[str, str], rest: bool, text: str) -> None:
    event, tags = Event("Speed", {"rate": text}, (), "car-7", 12), Tags(scopes, rest)
    stored = entry_with(event, tags)
    assert unpack(stored.event) == (event, tags)
    assert (stored.producer, stored.seq) == ("car-7", 12)
    assert (stored.event == encode(event)) == (rest and not scopes)


def test_an_event_that_is_too_large_with_its_scopes() -> None:
    event = Event("Picture", {"data": bytes(MAX_EVENT_BYTES - 60)}, (), "car-7", 12)
    assert unpack(entry_with(event, Tags()).event) == (event, Tags())
    with pytest.raises(LimitError, match="bytes of an event with its scopes"):
        entry_with(event, Tags({"geography": "london" * 20}))


def test_the_log_is_read_as_events_whatever_their_scopes(tmp_path: Path) -> None:
    log = Log(tmp_path)
    events = [Event(subject, {"rate": seq}, (), "car-7", seq) for seq, subject in enumerate(["Speed", "Stop"] * 2)]
    tags = [Tags(), Tags(), Tags({"geography": "uk"}), Tags({}, False)]
    log.append_batch([entry_with(*one) for one in zip(events, tags)], 0)
    assert [event_of(record) for record in log.read(0, 10)[0]] == events
    for condition in ("subject = 'Speed'", "rate > 0", "subject = 'Stop' AND rate = 3"):
        asked = Filter(condition)
        found = [event_of(record) for record in log.read(0, 10, asked)[0]]
        assert found == [event for event in events if asked.matches(event)]
    log.close()


@given(st.binary(max_size=40))
def test_what_is_no_event_with_scopes_is_refused(data: bytes) -> None:
    for bad in (data, b"\xd7T" + data, b"\xd7T\x00\x02[]" + data):
        with suppress(RemoteProtocolError):
            unpack(bad)


def test_a_cursor_moves_when_all_before_it_is_on_disk(tmp_path: Path) -> None:
    async def move() -> None:
        loop = asyncio.get_running_loop()
        found: dict[str, int] = {}
        cursors = Cursors(tmp_path / "cursors.json", found)
        first, second, third = loop.create_future(), loop.create_future(), loop.create_future()
        cursors.putting(first)
        cursors.putting(second)
        cursors.mark("b2", 10)
        cursors.putting(third)  # after the mark: it does not wait for this one
        second.set_result(None)
        await asyncio.sleep(0)
        assert found == {}
        first.set_result(None)
        await asyncio.sleep(0)
        assert found == {"b2": 10}
        cursors.mark("b3", 5)
        cursors.freeze()  # the third could not be written
        third.set_result(None)
        await asyncio.sleep(0)
        assert found == {"b2": 10}
        await asyncio.sleep(0.1)
        await cursors.close()
        assert json.loads((tmp_path / "cursors.json").read_text()) == {"b2": 10}
        again: dict[str, int] = {}
        Cursors(tmp_path / "cursors.json", again)
        assert again == {"b2": 10}

    asyncio.run(move())
