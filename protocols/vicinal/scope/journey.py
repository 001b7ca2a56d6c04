"""One publication on its way through scopes, and what came of it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..event import Event

__all__ = ["Delivered", "Journey"]


class Delivered:
    """`scope` is through which it came, None for a component in no scope of the advanced dimension. `chain` says who
    chose it: scopes with a delivery policy, and the member of each."""

    __slots__ = ("chain", "component", "event", "scope")

    def __init__(
        self, component: str, event: "Event", scope: "str | None", chain: "tuple[tuple[str, str], ...]"
    ) -> None:
        self.component = component
        self.event = event
        self.scope = scope
        self.chain = chain

    def __repr__(self) -> str:
        return f"Delivered({self.component!r}, {self.event!r}, {self.scope!r})"


class Journey:
    """With the scopes and components that have taken it: shared by all that is held back of it."""

    __slots__ = ("came", "component", "event", "received", "starts", "taken", "visible")

    def __init__(self, component: str, event: "Event", starts: "list[str]") -> None:
        self.component = component
        self.event = event
        self.starts = starts
        self.taken: set[str] = set()
        self.received: set[str] = set()
        self.came: dict[str, str] = {}
        """of a scope the one from which the event came into it"""
        self.visible: dict[str, str] = {}
        """of a consumer why it is not visible to it in the other dimensions, as far as it was asked"""

    def path(self, scope: str) -> "tuple[str, ...]":
        """From where it was published, or was held back, to a scope that has taken it."""
        found = [scope]
        while found[-1] in self.came and found[-1] not in self.starts:
            found.append(self.came[found[-1]])
        found.reverse()
        return tuple(found)

    def item(self) -> "list[Any]":
        """As values of the wire but for the event, to be kept with what is held back."""
        return [self.component, list(self.starts), sorted(self.taken), sorted(self.received)]

    @staticmethod
    def of(item: "list[Any]", event: "Event") -> "Journey":
        made = Journey(item[0], event, list(item[1]))
        made.taken = set(item[2])
        made.received = set(item[3])
        return made
