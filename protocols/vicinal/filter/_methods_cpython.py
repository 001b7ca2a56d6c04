"""What a filter can do beside matching. A device asks for none of it and loads none of it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .. import limits

if TYPE_CHECKING:
    from . import Filter
    from ._ast import Node
    from .translate import Translation
    from .translate.can import CanTranslation


class Methods:
    __slots__ = ()

    text: str
    node: "Node"

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
        from . import Filter
        from ._match import compile_node
        from ._simplify import simplify
        from ._text import text_of

        made = Filter.__new__(Filter)
        made.node = simplify(self.node)
        made.text = text_of(made.node)
        if len(made.text) > limits.MAX_FILTER_CHARS:
            return Filter(self.text)  # fewer conditions, but nobody could read them again
        made.test = compile_node(made.node)
        return made

    def __reduce__(self) -> "tuple[type[Methods], tuple[str]]":
        """By its text: the compiled test does not travel to another process, as Spark's executors are."""
        return type(self), (self.text,)

    def to_jms(self) -> "Translation":
        """A JMS message selector."""
        from .translate.jms import to_jms

        return to_jms(self.node)

    def to_etcl(self) -> "Translation":
        """A constraint of the CORBA Notification Service."""
        from .translate.etcl import to_etcl

        return to_etcl(self.node)

    def to_siena(self) -> "Translation":
        """SIENA filters, one a line: subscribe to each."""
        from .translate.siena import to_siena

        return to_siena(self.node)

    def to_spark(self, schema: Mapping[str, str] | None = None) -> "Translation":
        """A Spark SQL condition; `schema` gives the columns' types."""
        from .translate.spark import to_spark

        return to_spark(self.node, schema)

    def to_mqtt(self, prefix: str = "vicinal/") -> "Translation":
        """MQTT topic filters, one a line: subscribe to each."""
        from .translate.mqtt import to_mqtt

        return to_mqtt(self.node, prefix)

    def to_can(self, mapping: Mapping[str, Iterable[int]], most: int = 0) -> "CanTranslation":
        """CAN acceptance filters, given under which identifiers each subject is sent; at `most` so many, 0 for any."""
        from .translate.can import to_can

        return to_can(self.node, mapping, most)
