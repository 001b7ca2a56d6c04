"""Short ways for what is published: many at once (runs), and one that is like those before it (singles).

Both are for events that only clients of this broker get, and both do exactly what `publish` does with each event. What
they cannot do they leave alone: None, and nothing has happened.
"""

from .._compat import MICROPYTHON
from ..filter.index import Index
from .delivering import Delivering
from .interest import Interest

RunMatcher: "Any" = None
SingleMatcher: "Any" = None
if not MICROPYTHON:
    try:
        from .run_matching_cpython import RunMatcher
        from .single_matching_cpython import SingleMatcher
    except ImportError:  # numpy is not installed: one by one
        pass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..event import Event
    from ..filter import Filter
    from ..scope.graph import ScopeGraph, Tags
    from .delivering import Taker
    from .kinds import Kind

__all__ = ["Advert", "Quick"]


class Advert:
    """`kinds`: one for each of the tags' alternatives."""

    __slots__ = ("filter", "kinds", "tags")

    def __init__(self, filter: "Filter", tags: "Tags", kinds: "list[Kind]") -> None:
        self.filter = filter
        self.tags = tags
        self.kinds = kinds


class Quick(Delivering):
    def __init__(
        self, name: str, incarnation: int, graph: "ScopeGraph", trace: bool, pruning: "tuple[str, ...]"
    ) -> None:
        super().__init__(name, incarnation, graph, trace, pruning)
        self.interest = Interest(self._asked)
        self._adverts: dict[str, dict[int, Advert]] = {}  # client -> its numbers -> what it advertises
        self._local = Index()
        self._runs: Any = None
        self._singles: Any = None
        if RunMatcher is not None:
            self._runs = RunMatcher()
            self._singles = SingleMatcher(self._runs.cuts)

    def _asked(self, condition: "Filter", is_new: bool) -> None:
        """A filter decides where events go, or no longer does."""
        self._forget_audiences()
        if self._runs is not None:
            if is_new:
                self._runs.add(condition)
            else:
                self._runs.remove(condition)
            self._singles.forget()

    def _forget_answers(self) -> None:
        """Who gets what is to be found anew, by the same filters."""
        self._forget_audiences()
        if self._runs is not None:
            self._runs.forget()
            self._singles.forget()

    def publish_run(self, client: str, run: "Any") -> "list[tuple[str, bytes | memoryview, int, int]] | None":
        """For each client that gets some the frames of the deliveries, how many, and the last seq."""
        seqs = run.seqs
        known = self._producers.recent.get(client) or self._producers.recall(client)
        newest = max(known.published, known.newest)
        if run.producer != client or seqs[0] <= newest or not run.rises:
            return None

        def takers(event: "Event") -> "list[Taker] | None":
            return self._takers(client, run.advert, event)

        found: list[tuple[str, bytes | memoryview, int, int]] | None = None
        if self._is_here_only(client, run.advert):
            found = self._runs.match(run, takers)
        if found is None:
            return None
        known.published = known.newest = int(seqs[-1])
        given = known.given
        before = len(given)
        total = 0
        for name, _, count, last in found:
            given[name] = last
            total += count
        if len(given) > before:
            self._producers.gave(client, before, [one[0] for one in found])
        self._count("published", len(run))
        if total:
            self._count("delivered", total)
        return found

    def publish_single(self, client: str, single: "Any", values: "tuple[Any, ...]", data: bytes) -> "Any":
        """A frame and what was read of it. Who gets it: an Audience."""
        seq = values[0]
        known = self._producers.recent.get(client)
        if known is None or seq <= known.published or seq <= known.newest:
            return None
        if self._out and not self._is_here_only(client, single.advert):
            return None
        audience = self._singles.match(single, values, data, client, self._takers)
        if audience is None:
            return None
        known.published = known.newest = seq
        counts = self.counts
        counts["published"] = counts.get("published", 0) + 1
        clients = audience.clients
        if clients:
            given = known.given
            before = len(given)
            given.update(dict.fromkeys(clients, seq))
            if len(given) > before:
                self._producers.gave(client, before, clients)
            counts["delivered"] = counts.get("delivered", 0) + len(clients)
        return audience

    def _is_here_only(self, client: str, advert: int) -> bool:
        """Whether what a client publishes can go to this broker's clients at once, as far as its tags say."""
        held = self._adverts.get(client, {}).get(advert)
        return held is not None and not self.trace and not held.tags.scopes and self._is_for_here()

    def _takers(self, client: str, advert: int, event: "Event") -> "list[Taker] | None":
        """Who gets an event; None if it may not be published, or others want it too."""
        held = self._adverts.get(client, {}).get(advert)
        if held is None or self.trace or held.tags.scopes or event.producer != client:
            return None
        if self.graph.advanced is not None:
            return None
        if not held.filter.matches(event) or (len(self.interest) and self.interest.match(event)):
            return None
        tags = self.rights.outgoing(client, held.tags)
        return [one for one in self._audience(self._local.match(event), tags, (), event) if one[0] != client]

    def _is_for_here(self) -> bool:
        """Whether the broker's own clients can have an event at once: none before it is still on a way out of a scope
        and back."""
        stream = self._out.get(self.name)
        if stream is None or not stream.packets:
            return True
        arrived = self._in.get(self.name)
        return arrived is not None and arrived.expected == stream.next
