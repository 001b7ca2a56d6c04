"""JMS selectors evaluated by SQLite, one table of events, all of them at once.

Where the two agree: three-valued logic, =, <>, order of numbers, IN, LIKE with ESCAPE (made case-sensitive), IS NULL.
Where they do not, and what is done about it:

    types     SQLite orders all values, unlike types are not false: events and filters must be typed by column
    $name     is a parameter there: written as a quoted name
    numbers   int with double exactly, JMS as doubles: the same below 2^53, past it the translation does not compare
    NUL       ends a text: no such strings
"""

import re
import sqlite3

from vicinal.event import Event

_TOKEN = re.compile(r"'(?:[^']|'')*'|(?P<name>\$\w+)")


def matching(selectors: list[str], events: list[Event]) -> list[list[bool]]:
    """For each selector, which events it accepts."""
    names = sorted({name for event in events for name in properties(event)})
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("PRAGMA case_sensitive_like = ON")
        # No column types: SQLite would convert what is stored.
        connection.execute(f"CREATE TABLE events ({', '.join(_quoted(name) for name in names)})")
        for event in events:
            found = properties(event)
            connection.execute(
                f"INSERT INTO events VALUES ({', '.join('?' * len(names))})", [found.get(name) for name in names]
            )
        return [_ask(connection, selector) for selector in selectors]
    finally:
        connection.close()


def properties(event: Event) -> dict[str, object]:
    found: dict[str, object] = {"subject": event.subject}
    found.update({name: value for name, value in event.params.items() if name != "subject"})
    found.update({"$" + name: value for name, value in event.attrs.items()})
    return found


def _ask(connection: sqlite3.Connection, selector: str) -> list[bool]:
    condition = _TOKEN.sub(lambda found: _quoted(found["name"]) if found["name"] else found.group(), selector)
    return [row[0] == 1 for row in connection.execute(f"SELECT ({condition}) FROM events ORDER BY rowid")]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
