"""What came or went lately, so that what comes round a loop is known."""

__all__ = ["Recent"]


class Recent:
    """The last so many of what was added."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[tuple[str, int], None] = {}

    def add(self, identity: tuple[str, int]) -> None:
        found = self._found
        found[identity] = None
        if len(found) > self._most:
            del found[next(iter(found))]

    def __contains__(self, identity: tuple[str, int]) -> bool:
        return identity in self._found
