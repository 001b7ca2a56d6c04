"""What a broker remembers of producers, so that what they publish goes out once, and in their order.

    published    the highest seq that was published here
    newest       the highest that came here, from wherever
    given        the highest that each client was given

Producers come and go under ever new names, so memory has two generations. Who publishes is in the recent one; when that
is full it becomes the older one, and those who are still in the older one, and so have not published since, are
forgotten: a repetition of theirs would not be known. Of clients that are here all stays but what was given.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Producer", "Producers"]

# Of both generations together: some 40 MB, and some 200.
MAX_PRODUCERS = 100000
MAX_GIVEN = 1000000  # pairs of a producer and a client


class Producer:
    __slots__ = ("given", "newest", "published")

    def __init__(self) -> None:
        self.published = -1
        self.newest = -1
        self.given: dict[str, int] = {}


class Producers:
    def __init__(self, is_here: "Callable[[str], bool]", count: "Callable[[str, int], None]") -> None:
        """`is_here` tells clients of this broker; `count` is told how many are forgotten."""
        self.recent: dict[str, Producer] = {}
        self._older: dict[str, Producer] = {}
        self._pairs = 0  # in the recent generation
        self._givers: dict[str, set[str]] = {}  # clients, and who has given to them
        self._is_here = is_here
        self._count = count

    def __len__(self) -> int:
        return len(self.recent) + len(self._older)

    def get(self, name: str) -> "Producer | None":
        return self.recent.get(name) or self._older.get(name)

    def recall(self, name: str) -> Producer:
        """One that is not in `recent`, and then is."""
        if 2 * len(self.recent) >= MAX_PRODUCERS:
            self._turn()
        one = self._older.pop(name, None) or Producer()
        self.recent[name] = one
        self._pairs += len(one.given)
        return one

    def gave(self, name: str, before: int, clients: "list[str]") -> None:
        """One of `recent` has given to these, and to some of them for the first time: to `before` until now."""
        self._pairs += len(self.recent[name].given) - before
        for client in clients:
            if client not in self._givers:
                self._givers[client] = set()
            self._givers[client].add(name)
        if 2 * self._pairs >= MAX_GIVEN:
            self._turn()

    def forget_client(self, client: str) -> None:
        """What it was given."""
        for name in self._givers.pop(client, ()):
            if name in self.recent:
                self._pairs -= 1
                del self.recent[name].given[client]
            else:
                del self._older[name].given[client]

    def _turn(self) -> None:
        kept: dict[str, Producer] = {}
        for name, one in self._older.items():
            for client in one.given:
                givers = self._givers[client]
                givers.discard(name)
                if not givers:
                    del self._givers[client]
            if self._is_here(name):
                one.given = {}
                kept[name] = one
        forgotten = len(self._older) - len(kept)
        if forgotten:
            self._count("producers forgotten", forgotten)
        self._older = self.recent
        self.recent = kept
        self._pairs = 0
