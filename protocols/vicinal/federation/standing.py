"""The requests that a gateway stands for until they are taken back: those of its configuration (transparent, seed 001
5.3.4) and those that clients of its services have published (opaque, 5.3.5).

    asking ──▶ applied                              asked again now and then: the other end may have forgotten
      │ ├────▶ refused: reason                      asked again when that gateway was started anew
      │ ├────▶ unavailable: reason                  it is noted there, and applied when the service is back
      │ └────▶ timed out                            asked again, less often
      └──────▶ unreachable                          asked when there is a way
    leaving                                         taken back; gone when that is answered

Each service that the distribution list names is a goal of its own; one that appears later is another.
"""

from ..distlist import DistList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..event import Event

__all__ = ["Goal", "Standing"]

# Milliseconds. A request crosses a federation in less, unless something on the way is not there.
ASK_AGAIN = 2000
TIME_OUT = 15000
# Less than a third of what a note is kept.
REFRESH = 60000
KEEP = 200000
# Asking to forget: then it is left to time.
MAX_LEAVING = 4


class Goal:
    """One request at one event service."""

    __slots__ = ("asked", "at", "due", "gateway", "numbers", "reason", "since", "state", "tries")

    def __init__(self, now: int) -> None:
        self.state = "asking"
        self.reason = ""
        self.gateway: tuple[str, int] | None = None  # who serves it, and in which of its lives
        self.since = now
        self.due: int | None = now
        self.tries = 0
        self.at = ""
        self.asked = False
        self.numbers: list[int] = []  # of the control events under way for it

    def ask_again(self, now: int, gateway: "tuple[str, int] | None") -> None:
        self.state, self.reason, self.gateway = "asking", "", gateway
        self.since, self.due, self.tries = now, now, 0

    def tried(self, now: int) -> None:
        """It was asked; when next?"""
        self.tries += 1
        if self.state in ("asking", "leaving") and now - self.since < TIME_OUT:
            self.due = min(now + ASK_AGAIN * (1 << min(self.tries - 1, 3)), self.since + TIME_OUT)
        else:
            self.due = now + REFRESH

    def settle(self, reason: str, now: int) -> bool:
        """An answer has come. Whether it says something new."""
        state = "applied"
        if reason:
            state = "unavailable" if reason.startswith("unavailable") else "refused"
        news = (self.state, self.reason) != (state, reason)
        self.state, self.reason = state, reason
        self.due = None if state == "refused" else now + REFRESH
        return news


class Standing:
    __slots__ = ("goals", "kind", "lists", "origin", "source", "until", "what")

    def __init__(self, kind: "Any", source: str, what: "Any", origin: "tuple[str, int] | None") -> None:
        """`kind` is Subscription or Announcement, `what` its filter or its event; `origin` the identity of a client's
        request, None of one from the configuration."""
        self.kind = kind
        self.source = source
        self.what = what
        self.origin = origin
        self.until: int | None = None
        self.lists: list[tuple[bool, DistList]] = []
        self.goals: dict[str, Goal] = {}

    @property
    def key(self) -> "tuple[int, str, str]":
        return key_of(self.kind, self.source, self.what)

    def say(self, wanted: bool, to: DistList) -> None:
        """Asked for, or taken back, at these: what was said last counts."""
        self.lists = [(said, known) for said, known in self.lists if known != to]
        if wanted or self.lists:
            self.lists.append((wanted, to))
        while self.lists and not self.lists[0][0]:
            self.lists.pop(0)  # to take back what nobody has asked for says nothing

    def wants(self, service: str) -> bool:
        for wanted, to in reversed(self.lists):
            if service in to:
                return wanted and service != self.source
        return False

    def literal(self) -> "list[str]":
        """The services named without wildcards, which may be missed."""
        found = []
        for _, to in self.lists:
            for name in to.text.split(","):
                name = name.strip(" \t\r\n")
                if name and "*" not in name and "?" not in name and self.wants(name):
                    found.append(name)
        return found

    def events(self) -> "list[Event]":
        """As control events, in the order that makes the same again."""
        return [self.message(wanted, to).to_event() for wanted, to in self.lists]

    def message(self, wanted: bool, to: "DistList | str") -> "Any":
        return (self.kind if wanted else self.kind.undo)(to, self.source, self.what)


def key_of(kind: "Any", source: str, what: "Any") -> "tuple[int, str, str]":
    return (kind.type, source, what.text if kind.type == 2 else what.subject)
