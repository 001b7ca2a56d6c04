"""One filter language (DESIGN 3, spec/filter.md): SQL-92 conditions over an event.

f = Filter("subject = 'Speed' AND rate > 30")
f.matches(event)          the one question a device asks; the modules behind the others load when asked
f.covers(g), f.overlaps(g), f.simplify()
f.to_jms(), f.to_spark(), ...    a Translation: the text, and whether it is exact or wider
"""

from ._ast import Node
from ._match import compile_node
from ._parser import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ..event import Event
    from .translate import Translation

__all__ = ["Filter"]


class Filter:
    """A condition, compiled once. Filters are equal when their trees are; `covers` both ways is equivalence."""

    __slots__ = ("_text", "node", "test")

    def __init__(self, text: str) -> None:
        self._text: str | None = text
        self.node: Node = parse(text)
        self.test = compile_node(self.node)

    @classmethod
    def of(cls, node: Node) -> "Filter":
        made = cls.__new__(cls)
        made._text = None
        made.node = node
        made.test = compile_node(node)
        return made

    def matches(self, event: "Event") -> bool:
        """Whether the condition is true of the event; unknown is not true."""
        return self.test(event) is True

    def covers(self, other: "Filter") -> bool:
        """True only if this matches every event that `other` matches. Complete for conjunctions of constraints
        on one name each; else a False may mean "not proven"."""
        from ._covering import covers

        return covers(self.node, other.node)

    def overlaps(self, other: "Filter") -> bool:
        """False only if no event matches both."""
        from ._covering import overlaps

        return overlaps(self.node, other.node)

    def simplify(self) -> "Filter":
        """A filter that matches the same events, shorter where we see how."""
        from ._simplify import simplify

        return Filter.of(simplify(self.node))

    if TYPE_CHECKING:

        def to_jms(self) -> Translation: ...
        def to_etcl(self) -> Translation: ...
        def to_siena(self) -> Translation: ...
        def to_spark(self, schema: "Mapping[str, str] | None" = None) -> Translation: ...
        def to_mqtt(self, prefix: str = "vicinal/") -> Translation: ...
        def to_can(self, mapping: "Mapping[str, Iterable[int]]", most: int = 0) -> Translation: ...

    else:

        def __getattr__(self, name: str) -> "Any":
            """to_jms and the other translations: a device that asks for none does not load them."""
            from .translate import bind

            return bind(self, name)

    def __str__(self) -> str:
        if self._text is None:
            from ._text import text_of

            self._text = text_of(self.node)
        return self._text

    def __repr__(self) -> str:
        return f"Filter({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.node == other.node

    def __hash__(self) -> int:
        return hash(self.node)
