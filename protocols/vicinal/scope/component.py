"""A component: a producer or consumer that an administrator puts into scopes, without its knowing (seed 004, 3).

It may be in several scopes, of one dimension too. What it advertises is its output interface, what it subscribes to its
input interface (seed 004, 3.2).
"""

from .membership import Identity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..event import Event
    from ..filter import Filter

__all__ = ["Component"]


class Component:
    """`publishes` None: it publishes nothing, `subscribes` None: it takes nothing. `rest`: in dimensions of which it is
    in no scope it is heard everywhere and hears everything (bottom and top of seed 003, 3.5)."""

    __slots__ = ("identity", "name", "publishes", "rest", "scopes", "subscribes")

    def __init__(
        self,
        name: str,
        scopes: "Iterable[str]" = (),
        publishes: "Filter | None" = None,
        subscribes: "Filter | None" = None,
        rest: bool = True,
        identity: "Identity | None" = None,
    ) -> None:
        self.name = name
        self.scopes = tuple(sorted(set(scopes)))
        self.publishes = publishes
        self.subscribes = subscribes
        self.rest = rest
        self.identity = Identity(name) if identity is None else identity

    def may_say(self, event: "Event") -> bool:
        return self.publishes is not None and self.publishes.matches(event)

    def takes(self, event: "Event") -> bool:
        return self.subscribes is not None and self.subscribes.matches(event)

    def __repr__(self) -> str:
        return f"Component({self.name!r}, {self.scopes!r})"
