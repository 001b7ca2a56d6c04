"""What came or went lately, so that what comes round a loop is known."""

from collections import OrderedDict

__all__ = ["Recent"]


class Recent:
    """The last so many of what was added."""

    def __init__(self, most: int) -> None:
        self._most = most
        # Of a dict the first is found behind all places of those that went before it.
        self._found: OrderedDict[tuple[str, int], None] = OrderedDict()

    def add(self, identity: tuple[str, int]) -> None:
        found = self._found
        found[identity] = None
        if len(found) > self._most:
            found.popitem(last=False)

    def __contains__(self, identity: tuple[str, int]) -> bool:
        return identity in self._found
