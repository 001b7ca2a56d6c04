"""A mapping that is a program: `plugin = "package.module:name"` on an edge (seed 004, 3.4: other transformations).

    class Fixml:                            here is the superscope, there the scope
        def outward(self, event): ...       an Event, or None: it does not pass
        def inward(self, event): ...
        def map_filter(self, condition, direction): ...         optional; without it whatever may come is asked for

The named object is used as it is, a class is called first. Whatever a plug-in does, an event keeps its identity, and
one that it fails on is refused: a fault in one mapping is no way past a boundary.
"""

from importlib import import_module
from typing import Any

from ..errors import LocalProtocolError, VicinalError
from ..event import Event
from ..filter import Filter
from ..mapping.mapping import Mapped, Unmappable

__all__ = ["Plugin", "load"]


def load(name: str) -> "Plugin":
    module, found, attribute = name.partition(":")
    if not found or not module or not attribute:
        raise LocalProtocolError(f"{name!r} is no plug-in, want package.module:name")
    try:
        loaded: Any = import_module(module)
        for part in attribute.split("."):
            loaded = getattr(loaded, part)
        if isinstance(loaded, type):
            loaded = loaded()
    except Exception as error:
        raise LocalProtocolError(f"{name!r} does not load: {type(error).__name__}: {error}") from error
    return Plugin(name, loaded)


class Plugin:
    def __init__(self, name: str, loaded: Any) -> None:
        for method in ("outward", "inward"):
            if not callable(getattr(loaded, method, None)):
                raise LocalProtocolError(f"{name!r} has no method {method}")
        self.name = name
        self._loaded = loaded

    def outward(self, event: Event) -> Event:
        return self._map("outward", event)

    def inward(self, event: Event) -> Event:
        return self._map("inward", event)

    def map_filter(self, condition: Filter, direction: str) -> Mapped:
        method = getattr(self._loaded, "map_filter", None)
        reason = f"{self.name} maps no filters"
        if callable(method):
            try:
                made = method(condition, direction)
                if isinstance(made, Filter):
                    return Mapped(made, [], "")
                reason = f"{self.name} gave {type(made).__name__} for a filter"
            except Exception as error:
                reason = f"{self.name} failed on a filter: {type(error).__name__}: {error}"
        return Mapped(Filter("TRUE"), [reason], "")

    def _map(self, method: str, event: Event) -> Event:
        try:
            made = getattr(self._loaded, method)(event)
        except VicinalError as error:
            raise Unmappable(str(error)) from error
        except Exception as error:
            raise Unmappable(f"{self.name} failed: {type(error).__name__}: {error}") from error
        if made is None:
            raise Unmappable(f"{self.name} lets it not pass")
        if type(made) is not Event:
            raise Unmappable(f"{self.name} gave {type(made).__name__} for an event")
        return made.replace(producer=event.producer, seq=event.seq) if made.identity != event.identity else made
