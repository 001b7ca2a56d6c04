"""Who an event is of, hidden from the services beyond: a gateway's own doing, before it publishes.

    [service.pseudonyms]
    key = "pseudonyms.key"             # a file with at least 32 hexadecimal digits, which nobody else reads
    scope = "old-town"                 # whose pseudonyms they are: other scopes have others

The producer becomes a name of the scope and the day on which the event happened (vicinal.pseudonyms_cpython), in its
identity and in the attribute `Trace`. So the same vehicle is the same for a day, also where another gateway with that
key and scope hears it, and tomorrow it is another. Numbers stay, so that duplicates are known. Parameters are left as
they are: what must not leave is not asked for.
"""

from pathlib import Path

from vicinal.event import Event
from vicinal.pseudonyms_cpython import MIN_KEY, day_key, day_of, pseudonym
from vicinal.tables_cpython import Table

__all__ = ["Pseudonyms"]

MOST = 100_000
"""names of a day that are remembered: a big town's"""


class Pseudonyms:
    def __init__(self, master: bytes, scope: str) -> None:
        self._master = master
        self._scope = scope
        self._day = -1
        self._key = b""
        self._known: dict[str, str] = {}

    @classmethod
    def read(cls, table: Table) -> "Pseudonyms | None":
        """None where there is no such table. What is wrong with it is said with file, table and key."""
        if not table.values:
            return None
        file: Path | None = table.path("key", required=True)
        assert file is not None
        scope: str = table.take("scope", str, required=True)
        table.done()
        try:
            master = bytes.fromhex(file.read_text().strip())
        except OSError as error:
            raise table.error("key", f"is {str(file)!r}: {error.strerror}") from error
        except ValueError:
            raise table.error("key", f"is {str(file)!r}, which does not hold hexadecimal digits") from None
        if len(master) < MIN_KEY:
            table.fail("key", f"is {str(file)!r} with {len(master)} bytes, want at least {MIN_KEY}")
        return cls(master, scope)

    def hide(self, event: Event, now: int) -> Event:
        if event.producer is None:
            return event
        time = event.attrs.get("Time", now)
        hidden = self._name(event.producer, day_of(time if type(time) is int else now))
        attrs = event.attrs
        trace = attrs.get("Trace")
        if type(trace) is str and event.producer in trace:
            hops = [hop.rpartition(" ") for hop in trace.split(", ")]
            attrs = dict(attrs)
            attrs["Trace"] = ", ".join([f"{hidden if who == event.producer else who} {at}" for who, _, at in hops])
        return event.remade(attrs, hidden, event.seq)

    def _name(self, producer: str, day: int) -> str:
        if day != self._day or len(self._known) >= MOST:
            self._day, self._known = day, {}
            self._key = day_key(self._master, self._scope, day)
        found = self._known.get(producer)
        if found is None:
            found = self._known[producer] = pseudonym(self._key, producer)
        return found
