"""What happens to an event on its way through scopes, one step at a time, for those who ask why.

in         it is in a scope                     (published there, or come up)
up, down   it crosses from `at` to `to` through an interface (`why`), and is `event` there
stopped    it does not cross, or a component does not take it: `why`
refused    its producer may not publish in `to`: `why`
held       the publishing policy of `at` keeps it back: `why`
dropped    it waited for nothing: `why`
skipped    `to` would have taken it, and a policy of `at` gave it to another: `why`
delivered  `to` gets it through `at`
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..event import Event

__all__ = ["Note"]


class Note:
    __slots__ = ("at", "event", "kind", "to", "why")

    def __init__(self, kind: str, at: str, to: str, why: str, event: "Event") -> None:
        self.kind = kind
        self.at = at
        self.to = to
        self.why = why
        self.event = event

    def __repr__(self) -> str:
        return f"Note({self.kind!r}, {self.at!r}, {self.to!r}, {self.why!r}, {self.event!r})"
