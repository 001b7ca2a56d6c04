"""Who gets a publish that came alone: found once for each class of its values, and remembered.

Values that lie between the same numbers of all filters (filter/_cuts_cpython.py) are for the same clients. So for a
shape that is known (singles_cpython.py) to match is to look up where its values lie, until a subscription or an
advertisement changes: then everything is forgotten.
"""

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

from ..wire import decode
from .singles_cpython import Single

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..event import Event
    from ..filter._cuts_cpython import Cuts

    Taker = tuple[str, tuple[int, ...]]

__all__ = ["Audience", "SingleMatcher"]

# Answers remembered, and clients in them, in all: some 10 and 60 MB.
_MAX_ANSWERS = 65_536
_MAX_TAKERS = 1_000_000
# Before the first of a shape is looked up.
_UNKNOWN: Any = object()


class Audience:
    """Who gets an event. `prepared` is for the shell, which knows where they are."""

    __slots__ = ("clients", "prepared", "takers")

    def __init__(self, takers: "tuple[Taker, ...]") -> None:
        self.takers = takers
        self.clients = tuple([client for client, _ in takers])
        self.prepared: Any = None


class SingleMatcher:
    def __init__(self, cuts: "Cuts") -> None:
        self._cuts = cuts
        self._used: list[Single] = []
        self._audiences: dict[tuple[Taker, ...], Audience] = {}
        self._answers = 0
        self._takers = 0

    def forget(self) -> None:
        for single in self._used:
            single.is_fresh = False
            single.looks = None
            single.answers = {}
        self._used = []
        self._audiences = {}
        self._answers = self._takers = 0

    def match(
        self,
        single: Single,
        values: "tuple[Any, ...]",
        data: bytes,
        client: str,
        takers: "Callable[[str, int, Event], list[Taker] | None]",
    ) -> Audience | None:
        """Of a frame that was read; None if it is not for here. `takers` says for one event who gets it, or None."""
        if not single.is_fresh:
            self._begin(single)
        looks = single.looks
        if looks is None:
            return None
        key = 0
        for place, cuts in looks:
            value = values[place]
            key = key * (2 * len(cuts) + 1) + bisect_left(cuts, value) + bisect_right(cuts, value)
        found = single.answers.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            return self._find(single, key, takers(client, single.advert, decode(data[single.event_at :])))
        audience: Audience | None = found
        return audience

    def _begin(self, single: Single) -> None:
        single.is_fresh = True
        self._used.append(single)
        if any([place is not None and place in self._cuts for place in single.others]):
            return  # text and the like have no classes
        looks = []
        for number, place in enumerate(single.places):
            if place is not None and place in self._cuts:
                cuts = self._cuts.sorted(place)
                if cuts is None:
                    return
                looks.append((number, cuts))
        single.looks = looks

    def _find(self, single: Single, key: int, takers: "list[Taker] | None") -> Audience | None:
        audience: Audience | None = None
        if takers is not None:
            known = tuple(takers)
            audience = self._audiences.get(known)
            if audience is None:
                audience = Audience(known)
                if self._takers + len(known) > _MAX_TAKERS:
                    self.forget()
                self._audiences[known] = audience
                self._takers += len(known)
        if self._answers >= _MAX_ANSWERS:
            self.forget()
        if single.is_fresh:  # else it begins anew
            single.answers[key] = audience
            self._answers += 1
        return audience
