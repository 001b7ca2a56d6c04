"""Which members of a scope get an event: delivery and traverse policies (seed 004, 3.5).

    traverse   broadcast        components and subscopes alike
               top-down         the scope's own components; its subscopes only when none of those takes it
               bottom-up        the subscopes first; the scope's own components only when nobody below takes it

    delivery   all
               one-of-n         one after the other
               least-loaded     who has the fewest that are not done; one after the other among equals
               by-key           who its key says: the same key to the same member, whoever else comes or goes

Members are components and subscopes alike: a subscope takes an event when somebody in it does. `Delivery` is what a
person wrote, `Chooser` the state; what it is asked is always about members that would take the event.
"""

from .._cbor import dumps
from ..errors import LocalProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..event import Event

__all__ = [
    "ALL",
    "BROADCAST",
    "BY_KEY",
    "DELIVERIES",
    "LEAST_LOADED",
    "ONE_OF_N",
    "TRAVERSES",
    "Chooser",
    "Delivery",
    "hashed",
    "tiers",
]

BROADCAST, TOP_DOWN, BOTTOM_UP = "broadcast", "top-down", "bottom-up"
TRAVERSES = (BROADCAST, TOP_DOWN, BOTTOM_UP)
ALL, ONE_OF_N, LEAST_LOADED, BY_KEY = "all", "one-of-n", "least-loaded", "by-key"
DELIVERIES = (ALL, ONE_OF_N, LEAST_LOADED, BY_KEY)

_MASK = 0xFFFFFFFFFFFFFFFF


class Delivery:
    """`key` is the name of a parameter, or `$` and that of an attribute."""

    __slots__ = ("key", "kind")

    def __init__(self, kind: str = ALL, key: str = "") -> None:
        if kind not in DELIVERIES:
            raise LocalProtocolError(f"delivery is {kind!r}, want one of {', '.join(DELIVERIES)}")
        if (kind == BY_KEY) != bool(key):
            raise LocalProtocolError(f"delivery {kind!r} has key {key!r}: {BY_KEY} has one, the others have none")
        self.kind = kind
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Delivery) and (self.kind, self.key) == (other.kind, other.key)

    def __hash__(self) -> int:
        return hash((self.kind, self.key))

    def __repr__(self) -> str:
        return f"Delivery({self.kind!r}, {self.key!r})"


class Chooser:
    def __init__(self, delivery: Delivery) -> None:
        self.delivery = delivery
        self.last = ""
        self.load: dict[str, int] = {}
        """events that were given to a member and are not done; only of least-loaded"""

    def choose(self, members: "list[str]", event: "Event") -> "list[str]":
        """Of members that would take it, in the order of their names, those that get it: none only of none."""
        kind = self.delivery.kind
        if kind == ALL or not members:
            return members
        if kind == BY_KEY:
            return [_by_key(_key(event, self.delivery.key), members)]
        if kind == LEAST_LOADED:
            least = min([self.load.get(name, 0) for name in members])
            members = [name for name in members if self.load.get(name, 0) == least]
        after = [name for name in members if name > self.last]
        self.last = after[0] if after else members[0]
        if kind == LEAST_LOADED:
            self.load[self.last] = self.load.get(self.last, 0) + 1
        return [self.last]

    def done(self, member: str) -> None:
        """One that was given to it, is."""
        left = self.load.pop(member, 0) - 1
        if left > 0:
            self.load[member] = left

    def gone(self, member: str) -> None:
        """It left, or its connection did: whoever comes under its name has done nothing and has nothing to do."""
        self.load.pop(member, 0)


def tiers(traverse: str, components: "list[str]", subscopes: "list[str]") -> "list[str]":
    """Of those that would take an event, those among whom it is delivered."""
    if traverse == TOP_DOWN:
        return components or subscopes
    if traverse == BOTTOM_UP:
        return subscopes or components
    return sorted(components + subscopes)


def _key(event: "Event", name: str) -> bytes:
    """Of an event without the key it is empty: those too go to one member."""
    value = event.attrs.get(name[1:]) if name.startswith("$") else event.params.get(name)
    return dumps(value) if type(value) in (str, int, float, bool, bytes) else b""


def _by_key(key: bytes, members: "list[str]") -> str:
    """The highest of a score for each: when a member goes only its own keys move, and they spread over the others."""
    best, found = -1, ""
    for name in members:
        score = hashed(key + b"\x00" + name.encode())
        if score > best:
            best, found = score, name
    return found


def hashed(data: bytes) -> int:
    """FNV-1a, and a stir at the end: names that differ in their last letter must not be neighbours."""
    found = 0xCBF29CE484222325
    for byte in data:
        found = (found ^ byte) * 0x100000001B3 & _MASK
    found = (found ^ found >> 33) * 0xFF51AFD7ED558CCD & _MASK
    found = (found ^ found >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return found ^ found >> 33
