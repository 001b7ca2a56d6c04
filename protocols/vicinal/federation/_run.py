"""What waits while all of it is alike: of one priority, without end and without place. Its order is the order in which
it came, whoever it is of, and so it needs no lanes (_lanes.py). That is what waits for a service most of the time."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .drop_policy import Members

__all__ = ["Run"]


class Run:
    __slots__ = ("_first", "_waiting", "members", "priority")

    def __init__(self, members: "Members") -> None:
        self.members = members
        self.priority = 0
        self._waiting: list[tuple[int, str, int]] = []  # id, producer, size
        self._first = 0

    def __len__(self) -> int:
        return len(self._waiting) - self._first

    def add(self, id: int, producer: str, size: int) -> None:
        self._waiting.append((id, producer, size))
        members = self.members
        members.waiting += 1
        members.waiting_bytes += size

    def next(self, most: int) -> "list[tuple[int, str, int]]":
        """The first so many, which stay."""
        return self._waiting[self._first : self._first + most]

    def remove(self, count: int, size: int) -> None:
        """The first so many, of so many bytes."""
        self.members.waiting -= count
        self.members.waiting_bytes -= size
        self._first += count
        if 2 * self._first >= len(self._waiting):
            self._waiting, self._first = self._waiting[self._first :], 0

    def end(self) -> "list[tuple[int, str, int]]":
        """All of it; nothing waits here any more."""
        found, self._waiting, self._first = self._waiting[self._first :], [], 0
        self.members.waiting -= len(found)
        self.members.waiting_bytes -= sum([size for _, _, size in found])
        return found
