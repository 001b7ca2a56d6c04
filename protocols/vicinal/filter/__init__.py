"""One filter language (DESIGN 3, spec/filter.md): SQL-92 conditions over an event.

f = Filter("subject = 'Speed' AND rate > 30")

    f.matches(event)                    the one question a device asks; it has no other method
    f.covers(g), f.overlaps(g)          on CPython, see _methods_cpython.py
    f.simplify()
    f.to_jms(), f.to_spark(), ...       a Translation: the text, and whether it is exact or wider
"""

from .._compat import MICROPYTHON
from ._ast import Node
from ._match import compile_node
from ._parser import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..event import Event

if not MICROPYTHON:
    from ._methods_cpython import Methods
else:
    Methods = object  # type: ignore[assignment,misc]

__all__ = ["Filter"]


class Filter(Methods):
    """A condition, compiled once. Filters are equal when their trees are; `covers` both ways is equivalence."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.node: Node = parse(text)
        self.test = compile_node(self.node)

    def matches(self, event: "Event") -> bool:
        """Whether the condition is true of the event; unknown is not true."""
        return self.test(event) is True

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.node == other.node

    def __hash__(self) -> int:
        return hash(self.node)
