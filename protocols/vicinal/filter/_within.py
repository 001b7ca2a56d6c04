"""within(lat, lon, metres): its text, its test, and the box around it. Loaded by the filters that use it.

Positions are whole 1e-7 degrees, as in events, or degrees with a decimal point. 53, -6 without one would be a point off
Africa, so that is asked about.
"""

from .. import limits
from .._areas import bounding_box, parse_degrees
from ..errors import LimitError
from ..proximity import Proximity, distance
from ._ast import PARAM, Compare, IsNull, Name, Node, Not, Within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..event import Event
    from ._match import Test
    from ._parser import Parser


LAT, LON = Name(PARAM, "lat"), Name(PARAM, "lon")


def within(parser: "Parser") -> Node:
    parser.next()
    parser.next()
    column = parser.column
    numbers = []
    for mark in (",", ",", ")"):
        numbers.append(parser.digits())
        if not parser.take(mark):
            parser.fail("within(lat, lon, metres)")
    lat, lon, metres = numbers
    degrees = "." in lat or "." in lon
    try:
        if degrees:
            place = (parse_degrees(lat), parse_degrees(lon))
        else:
            place = (int(lat), int(lon))
        area = Proximity.circle(place[0], place[1], int(metres))
    except ValueError:
        parser.error(f"{lat}, {lon}, {metres} are not a position and whole metres", column)
    except LimitError as error:
        parser.error(str(error), column)
    if not degrees and place != (0, 0) and abs(place[0]) <= 180 and abs(place[1]) <= 180:
        parser.error(f"positions are whole 1e-7 degrees; for degrees write {lat}.0, {lon}.0", column)
    return Within(area.lat, area.lon, area.dimx)


def place_literals(node: Within, negated: bool = False) -> "list[Node]":
    """What it says of lat and lon alone: a box around the circle, or where there is none that they are there."""
    box = None if negated else bounding_box(node.lat, node.lon, node.metres)
    if box is None:
        return [Not(IsNull(LAT)), Not(IsNull(LON))]
    south, west, north, east = box
    return [
        Compare(">=", LAT, south),
        Compare("<=", LAT, north),
        Compare(">=", LON, west),
        Compare("<=", LON, east),
    ]


def compile_within(node: Within) -> "Test":
    lat, lon, metres = node.lat, node.lon, node.metres

    def test(event: "Event") -> "bool | None":
        here, there = event.params.get("lat"), event.params.get("lon")
        if type(here) is not int or type(there) is not int:
            return None
        if not -limits.MAX_LAT <= here <= limits.MAX_LAT or not -limits.MAX_LON <= there <= limits.MAX_LON:
            return None  # no place on Earth
        return distance(lat, lon, here, there) <= metres

    return test
