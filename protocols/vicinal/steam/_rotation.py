"""What an advertiser sends next (spec/steam.md, STEAM-43 to STEAM-50).

Nobody answers, so everything is said several times, and one radio says one thing at a time. In this order:

    1  beacons that are due, but never two in a row while events wait
    2  events, `rounds` rounds each: that with the fewest so far first, then by Priority, then by deadline
    3  the last event of each announcement, one round after each beacon, for those who have come since

So a new event is out at once, old ones do not starve, and the air is free again when all is said.

    published ──▶ fresh ── `rounds` rounds, or its time is over ──▶ sent, or expired when not even once
                    └─ also the last of its announcement until there is a newer one
"""

from .._compat import MICROPYTHON
from .frames import Piece, structure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .frames import Cut


class Outgoing:
    """An event under way out. `owner` is its announcement."""

    def __init__(
        self,
        owner: "Any",
        event: "Any",
        cut: "Cut",
        typed: bool,
        number: int,
        priority: int,
        deadline: int,
        expires: int,
    ) -> None:
        self.owner = owner
        self.event = event
        self.cut = cut
        self.typed = typed
        self.number = number
        self.priority = priority
        self.deadline = deadline
        self.expires = expires
        self.fresh = True
        self.rounds = 0
        self.place = 0
        self.order = 0

    @property
    def said(self) -> bool:
        """Whether who heard everything has it."""
        return self.rounds > 0 or self.place >= self.cut.count

    def next_piece(self, subject: bytes, sender: bytes) -> bytes:
        """Each round begins one piece later: what disturbs a rhythm must not hit the same piece each time."""
        cut = self.cut
        index = (self.place + self.rounds) % cut.pieces
        self.place += 1
        if self.place == cut.pieces:
            self.place = 0
            self.rounds += 1
        return structure(Piece(self.typed, subject, sender, self.number, index, cut.count, cut.chunk(index)).encode())


class Rotation:
    """Which event speaks next. Beacons are the announcer's, which asks here in between."""

    # At 10 % loss a piece is missed three times once in 1,000, and two of 16 pieces once in 8,000.
    rounds = 3
    # At ten advertisements a second, more would only wait until they expire.
    max_fresh = 4 if MICROPYTHON else 16

    def __init__(self) -> None:
        self.fresh: list[Outgoing] = []
        self._current: Outgoing | None = None
        self._order = 0

    def put(self, event: Outgoing) -> "Outgoing | None":
        """Gives back what had to go for it: one that has been said already, or itself."""
        gone = None
        if len(self.fresh) >= self.max_fresh:
            said = [(-other.rounds, other.order, other) for other in self.fresh if other.said]
            if not said:
                return event
            gone = min(said)[2]
            self.remove(gone)
        event.order = self._order
        self._order += 1
        self.fresh.append(event)
        return gone

    def remove(self, event: Outgoing) -> None:
        self.fresh.remove(event)
        event.fresh = False
        if self._current is event:
            self._current = None

    def pick(self) -> "Outgoing | None":
        """The event whose piece is to go out now; a round that has begun is finished."""
        if self._current is None and self.fresh:
            _, _, _, _, self._current = min(
                [(event.rounds, -event.priority, event.deadline, event.order, event) for event in self.fresh]
            )
        return self._current

    def spoken(self, event: Outgoing) -> bool:
        """After each piece; whether that was the last."""
        if event.place == 0:
            self._current = None
        return event.rounds >= self.rounds
