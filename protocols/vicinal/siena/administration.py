"""What administrators say at run time, and how all brokers of an overlay come to know it (spec/overlay.md, OVER-34 on).

    ("approve", stamp, name, scope, actions, until or None)      in spite of the scope's rule
    ("deny", stamp, name, scope)
    ("revoke", stamp, name, before)             whatever was issued to that name before, everywhere
    ("deploy", stamp, text)                     all scopes, edges and components, as a file has them
    ("join", stamp, broker, scope)              where the scope's events may be
    ("leave", stamp, broker, scope)

A statement has a stamp, (time, broker), that is later than every one its broker has seen. It goes to all brokers. Each
keeps of every matter the last statement: of what may be said of the same at two places while they are apart, the later
counts everywhere, in whatever order it comes. A revocation is never weakened: of several the greatest `before` counts,
and each ends approvals that were said before it.
"""

from .._compat import const
from ..errors import LimitError, LocalProtocolError
from ..scope.membership import ACTIONS, JOIN
from .messages import MAX_DEPLOYMENT_CHARS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from ..scope.membership import Memberships

    Stamp: TypeAlias = "tuple[int, str]"
    Statement: TypeAlias = "tuple[Any, ...]"

__all__ = ["Administration"]

# Of all matters together: each some 200 bytes in every broker, and in the file that is written at each change.
MAX_STATEMENTS = const(65536)

_NEVER = (-1, "")


class Administration:
    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], Statement] = {}
        self._latest = 0

    def __len__(self) -> int:
        return len(self._last)

    def make(self, what: "tuple[Any, ...]", broker: str, now: int) -> "Statement":
        """A statement of an administrator: its kind and fields, with a stamp. Raises for what cannot be one."""
        kind = what[0]
        if kind == "approve":
            for action in what[3]:
                if action not in ACTIONS:
                    raise LocalProtocolError(f"action is {action!r}, want one of {', '.join(ACTIONS)}")
        elif kind == "deploy" and len(what[1]) > MAX_DEPLOYMENT_CHARS:
            raise LimitError("characters of a deployment", len(what[1]), MAX_DEPLOYMENT_CHARS)
        if len(self._last) >= MAX_STATEMENTS:
            raise LimitError("statements of administrators", len(self._last) + 1, MAX_STATEMENTS)
        return (kind, (max(now, self._latest + 1), broker)) + tuple(what[1:])

    def put(self, statement: "Statement") -> bool:
        """Whether it said something new."""
        self._latest = max(self._latest, statement[1][0])
        changed = False
        for matter in _matters(statement):
            known = self._last.get(matter)
            if known is None or _rank(matter, statement) > _rank(matter, known):
                self._last[matter] = statement
                changed = True
        return changed

    def statements(self) -> "list[Statement]":
        """All that count, the earliest first."""
        return sorted(set(self._last.values()), key=_by_stamp)

    def apply(self, statement: "Statement", memberships: "Memberships") -> None:
        """What now holds of those whom a statement is about."""
        kind = statement[0]
        if kind == "approve" or kind == "deny":
            self._judge(statement[2], statement[3], memberships)
        elif kind == "revoke":
            name = statement[2]
            memberships.revoke(name, self._last[("revoke", name)][3])
            for matter in list(self._last):
                if matter[0] == "approve" and matter[1] == name:
                    self._judge(name, matter[2], memberships)

    def _judge(self, name: str, scope: str, memberships: "Memberships") -> None:
        approved = self._last.get(("approve", name, scope))
        denied = self._stamp(("deny", name, scope))
        found = None
        if approved is not None and approved[1] > max(denied, self._stamp(("end", name))):
            actions = [str(action) for action in approved[4]]
            found = (actions if JOIN in actions else actions + [JOIN], approved[5])
        # An approval without an end ends a denial for good, whatever is approved after it.
        memberships.judge(name, scope, found, denied > self._stamp(("clear", name, scope)))

    def _stamp(self, matter: "tuple[str, ...]") -> "Stamp":
        known = self._last.get(matter)
        return _NEVER if known is None else known[1]

    def deployment(self) -> "tuple[Stamp, str] | None":
        found = self._last.get(("deploy",))
        return None if found is None else (found[1], found[2])

    def places(self, broker: str) -> "dict[str, bool]":
        """Scopes that a broker was told to join (true) or to leave."""
        return {
            matter[2]: found[0] == "join"
            for matter, found in self._last.items()
            if matter[0] == "place" and matter[1] == broker
        }


def _matters(statement: "Statement") -> "list[tuple[str, ...]]":
    """What a statement may be the last word on."""
    kind = statement[0]
    if kind == "approve":
        key = (statement[2], statement[3])
        return [("approve",) + key, ("clear",) + key] if statement[5] is None else [("approve",) + key]
    if kind == "deny":
        return [("deny", statement[2], statement[3])]
    if kind == "revoke":
        return [("revoke", statement[2]), ("end", statement[2])]
    if kind == "deploy":
        return [("deploy",)]
    return [("place", statement[2], statement[3])]


def _rank(matter: "tuple[str, ...]", statement: "Statement") -> "tuple[Any, ...]":
    """Two that differ are never equal: a broker that lost its memory and its clock may use a stamp twice."""
    first = statement[3] if matter[0] == "revoke" else 0
    return (first, statement[1], repr(statement))


def _by_stamp(statement: "Statement") -> "tuple[Any, ...]":
    return (statement[1], repr(statement))
