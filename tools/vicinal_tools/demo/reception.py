"""What the radios of the monitors heard, from the record of the air (vicinal_hw.ble._host): which events, and when.

A monitor takes an event when its radio heard it, if it has heard a beacon of that car before (spec/steam.md): after
one it is inside for four intervals of silence, from when it looked at it. By the record that is

    no         no beacon came before, or the event never did
    sure       the monitor looked at the event before `deadline`: it cannot have forgotten the car
    perhaps    it may have looked at it later. When it did the judge knows

So nothing here depends on how fast this computer is: what was not in the air nobody has heard, and a monitor reads what
its radio heard in that order.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from vicinal.errors import RemoteProtocolError
from vicinal.steam._bodies import decode
from vicinal.steam.beacon import Beacon
from vicinal.steam.frames import data_of, payloads
from vicinal.steam.groups import SILENCE, subject_hash
from vicinal.steam.reading import read

from .files import NAMES

__all__ = ["Heard", "Reception", "read_air", "receive"]


class Heard(NamedTuple):
    """A line of the record."""

    to: str
    radio: int
    time: int
    data: bytes


class Reception(NamedTuple):
    """Of one event by one monitor, for the first time."""

    first: int
    """its place in the order of what the monitors' radios heard"""
    last: int
    """the same, of the time when its beacon was the freshest"""
    time: int
    deadline: int
    """until when that beacon counts"""
    again: tuple[tuple[int, int], ...] = ()
    """places and times of the others: who had forgotten the car may have taken it from one of these"""

    def latest(self, until: int) -> int:
        """The last place at which it may have been looked at, if that was done not after this."""
        return max([self.first, *[place for place, time in self.again if time <= until]])


def read_air(file: Path) -> list[Heard]:
    found = []
    for line in file.read_text().splitlines() if file.exists() else ():
        one = json.loads(line)
        found.append(Heard(one["to"], one["radio"], one["time"], bytes.fromhex(one["data"])))
    return found


def receive(record: Iterable[Heard]) -> dict[tuple[str, str, int], Reception]:
    """By monitor and the identity of the event."""
    subjects = {subject_hash(subject): (subject, names) for subject, names in NAMES.items()}
    beacons: dict[tuple[str, int, bytes], int] = {}
    """of a monitor's radio, subject and sender: until when the last one counts"""
    events: dict[bytes, tuple[str, int] | None] = {}
    found: dict[tuple[str, str, int], Reception] = {}
    freshest: dict[tuple[str, str, int], int] = {}
    again: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for place, one in enumerate(record):
        for payload in payloads(one.data):
            frame = read(payload)
            if frame.subject not in subjects:
                continue
            key = (one.to, one.radio, bytes(frame.subject) + bytes(frame.sender))
            if isinstance(frame, Beacon):
                beacons[key] = one.time + SILENCE * frame.every
                continue
            if frame.count != 1:
                raise ValueError(f"an event of {frame.count} pieces: those of the demo fit into one advertisement")
            if key not in beacons:
                continue
            chunk = bytes(frame.chunk)
            if chunk not in events:
                events[chunk] = _identity(chunk, *subjects[frame.subject])
            identity = events[chunk]
            if identity is not None:
                where = (one.to, *identity)
                before = found.get(where)
                if before is None:
                    freshest[where] = beacons[key] - one.time
                    found[where] = Reception(place, place, one.time, beacons[key])
                    continue
                again.setdefault(where, []).append((place, one.time))
                if beacons[key] - one.time > freshest[where]:
                    freshest[where] = beacons[key] - one.time
                    found[where] = before._replace(last=place, deadline=beacons[key])
    return {where: one._replace(again=tuple(again.get(where, ()))) for where, one in found.items()}


def _identity(chunk: bytes, subject: str, names: tuple[str, ...]) -> tuple[str, int] | None:
    whole = data_of([chunk])
    if whole is None:
        return None
    try:
        return decode(whole[1], subject, names).identity
    except RemoteProtocolError:
        return None
