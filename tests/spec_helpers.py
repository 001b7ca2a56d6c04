"""What the tests of the specification share (tests/protocols/spec, one file for each page)."""

import json
from pathlib import Path
from typing import Any

import cbor2
import pytest
from geographiclib.geodesic import Geodesic
from hypothesis import strategies as st

from vicinal import wire
from vicinal.errors import RemoteProtocolError
from vicinal.event import Event
from vicinal.proximity import Proximity

VECTORS = Path(__file__).parent.parent / "protocols" / "vectors"
spec = pytest.mark.spec

lats, lons = st.integers(-900000000, 900000000), st.integers(-1800000000, 1800000000)
sizes = st.integers(1, 20037508)
areas = st.builds(Proximity.circle, lats, lons, sizes, st.booleans()) | st.builds(
    Proximity.rectangle, lats, lons, sizes, sizes, st.booleans()
)


def vectors(name: str) -> Any:
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def not_an_event(item: object, match: str) -> None:
    with pytest.raises(RemoteProtocolError, match=match):
        wire.decode(cbor2.dumps(item, canonical=True))


def item_of(event: Event) -> Any:
    return cbor2.loads(wire.encode(event))


def move(lat: int, lon: int, azimuth: float, metres: float) -> tuple[int, int]:
    end = Geodesic.WGS84.Direct(lat / 1e7, lon / 1e7, azimuth, metres)
    return round(end["lat2"] * 1e7), round(end["lon2"] * 1e7)
