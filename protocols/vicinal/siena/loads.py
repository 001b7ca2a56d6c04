"""What least-loaded scopes go by: how many events their members have that are not done (seed 004, 3.5).

The broker of a member counts what was given to it and comes from each other broker, takes off what still waits for the
client, and tells the other broker now and then; that one knows what it has given, and so what is not done.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Loads"]

# Milliseconds between two reports: a client that is stuck gets no more than what comes in that time.
REPORT_EVERY = 100


class Loads:
    def __init__(self) -> None:
        self.backlog: Callable[[str], int] = _nothing
        """the shell's: how many deliveries wait for a client"""
        self.due: int | None = None
        self._given: dict[tuple[str, str], int] = {}  # source and client
        self._told: dict[tuple[str, str], int] = {}

    def gave(self, source: str, client: str, now: int) -> None:
        key = (source, client)
        self._given[key] = self._given.get(key, 0) + 1
        if self.due is None:
            self.due = now + REPORT_EVERY

    def reports(self, now: int) -> "list[tuple[str, str, int]]":
        """To whom, of which client, how many in all are done: those that have changed."""
        if self.due is None or now < self.due:
            return []
        self.due = None
        found = []
        for key, given in self._given.items():
            done = max(given - self.backlog(key[1]), 0)
            if done != self._told.get(key):
                self._told[key] = done
                found.append((key[0], key[1], done))
            if done < given:
                self.due = now + REPORT_EVERY
        return found

    def forget(self, client: str) -> None:
        for key in [key for key in self._given if key[1] == client]:
            del self._given[key]
            self._told.pop(key, None)


def _nothing(client: str) -> int:
    return 0
