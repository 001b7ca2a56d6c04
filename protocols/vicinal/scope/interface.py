"""What crosses the boundary of a scope: its interfaces and the mapping on one edge (seed 004, 3.2 and 3.4).

              superscope            events as they are told outside
        ──── input ── output ────   the interface speaks of these
           outward   inward         the mapping
                scope               events as they are told inside

Going up an event is mapped first and must then meet the output; going down it must meet the input and is mapped then:
an interface is what others see of a scope, and a mapping is part of how it is made. What has no interface is closed.
A mapping says Unmappable, which is caught as what it is a kind of: a graph without mappings loads none.
"""

from ..errors import LocalProtocolError
from .session import keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from ..event import Event
    from ..filter import Filter
    from ..mapping.mapping import Mapped

    class EdgeMapping(Protocol):
        """vicinal.mapping.Mapping, or a plug-in (plugin_cpython.py). Here is the superscope, there the scope."""

        def outward(self, event: Event) -> Event: ...
        def inward(self, event: Event) -> Event: ...
        def map_filter(self, condition: Filter, direction: str) -> Mapped: ...


__all__ = ["Edge"]


class Edge:
    """`output` and `input` of None are those of the scope itself; write FALSE to close one."""

    __slots__ = ("above", "input", "mapping", "output")

    def __init__(
        self,
        above: str,
        output: "Filter | None" = None,
        input: "Filter | None" = None,
        mapping: "EdgeMapping | None" = None,
    ) -> None:
        self.above = above
        self.output = output
        self.input = input
        self.mapping = mapping

    def over(self, output: "Filter | None", input: "Filter | None") -> "Edge":
        """With a scope's own interfaces where it has none itself."""
        return Edge(
            self.above,
            output if self.output is None else self.output,
            input if self.input is None else self.input,
            self.mapping,
        )

    def up(self, event: "Event") -> "tuple[Event | None, str]":
        """As it is in the superscope; or None, and why."""
        if self.output is None:
            return None, "it has no output interface"
        if self.mapping is not None:
            before = event
            try:
                event = keep(before, self.mapping.inward(before))
            except LocalProtocolError as error:
                return None, f"the mapping refuses it: {error}"
        if not self.output.matches(event):
            return None, f"it does not meet the output {self.output.text}"
        return event, ""

    def down(self, event: "Event") -> "tuple[Event | None, str]":
        """As it is in the scope; or None, and why."""
        if self.input is None:
            return None, "it has no input interface"
        if not self.input.matches(event):
            return None, f"it does not meet the input {self.input.text}"
        if self.mapping is not None:
            try:
                return keep(event, self.mapping.outward(event)), ""
            except LocalProtocolError as error:
                return None, f"the mapping refuses it: {error}"
        return event, ""
