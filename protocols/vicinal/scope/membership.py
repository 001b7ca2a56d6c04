"""Who may join a scope, publish in it and subscribe in it (seed 004, 2.2 and 3.3: security policies of a scope).

    identity   a name and attributes, from the connection: a client certificate, or a signed token
    rule       a filter over an identity: its name is `subject`, its attributes are parameters
                   join        who belongs to the scope; without it nobody does
                   publish     which of those may publish; without it all
                   subscribe   which of those may subscribe; without it all

A scope without a rule is open. With one, even an empty one, what is not allowed is denied; so is what the rule cannot
tell (an attribute that is not there), and everything where a rule does not parse. At run time an administrator
approves, denies and revokes by name. The order in which they count:

    revoked  >  expired  >  approved, until ...  >  denied  >  the rule

Names are compared as they are. A pattern is the administrator's, never a part of somebody's name.
"""

from ..errors import LocalProtocolError
from ..event import Event
from ..filter import Filter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..event import Items
    from .graph import ScopeGraph

__all__ = ["ACTIONS", "JOIN", "PUBLISH", "SUBSCRIBE", "Identity", "Memberships", "Rule"]

JOIN, PUBLISH, SUBSCRIBE = "join", "publish", "subscribe"
ACTIONS = (JOIN, PUBLISH, SUBSCRIBE)


class Identity:
    """`issued` and `expires` are of the certificate or token, in milliseconds."""

    __slots__ = ("event", "expires", "issued", "name")

    def __init__(
        self, name: str, attributes: "Items" = (), issued: "int | None" = None, expires: "int | None" = None
    ) -> None:
        self.name = name
        self.issued = issued
        self.expires = expires
        self.event = Event(name, attributes)  # filters are asked of events

    def __repr__(self) -> str:
        return f"Identity({self.name!r}, {list(self.event.params.items())!r})"


class Rule:
    """`broken` says what is wrong with it: then it denies."""

    __slots__ = ("broken", "join", "publish", "subscribe")

    def __init__(
        self,
        join: "Filter | None" = None,
        publish: "Filter | None" = None,
        subscribe: "Filter | None" = None,
        broken: str = "",
    ) -> None:
        self.join = join
        self.publish = publish
        self.subscribe = subscribe
        self.broken = broken

    @staticmethod
    def parse(texts: "dict[str, Any]") -> "Rule":
        """From texts by action. Never raises: a rule that cannot be read is one that denies."""
        found: dict[str, Filter | None] = {}
        for action in sorted(texts):
            if action not in ACTIONS:
                return Rule(broken=f"{action!r} is none of {', '.join(ACTIONS)}")
            if type(texts[action]) is not str:
                return Rule(broken=f"{action} is {texts[action]!r}, want a filter")
            try:
                found[action] = Filter(texts[action])
            except LocalProtocolError as error:
                return Rule(broken=f"{action}: {error}")
        return Rule(found.get(JOIN), found.get(PUBLISH), found.get(SUBSCRIBE))

    def refusal(self, identity: Identity, action: str) -> str:
        """Why not; empty if it allows it."""
        if self.broken:
            return f"its rule is broken ({self.broken})"
        if self.join is None:
            return "its rule says of nobody that they may join"
        if not self.join.matches(identity.event):
            return f"its rule for join is {self.join.text}"
        narrower = self.publish if action == PUBLISH else self.subscribe if action == SUBSCRIBE else None
        if narrower is not None and not narrower.matches(identity.event):
            return f"its rule for {action} is {narrower.text}"
        return ""


class Memberships:
    def __init__(self, graph: "ScopeGraph") -> None:
        self.graph = graph
        self._approved: dict[tuple[str, str], tuple[list[str], int | None]] = {}
        self._denied: set[tuple[str, str]] = set()
        self._revoked: dict[str, int] = {}

    def refusal(self, identity: Identity, scope: str, action: str, now: int) -> str:
        """Why not; empty if it may. To be asked again whenever an event is delivered or leaves a queue: an answer is
        good for `now` only."""
        if scope not in self.graph:
            return f"there is no scope {scope!r}"
        name = identity.name
        ended = self.ended(identity, now)
        if ended:
            return ended
        approved = self._approved.get((name, scope))
        if approved is not None and action in approved[0] and (approved[1] is None or now < approved[1]):
            return ""
        if (name, scope) in self._denied:
            return f"{name!r} was denied {scope!r}"
        rule = self.graph.scopes[scope].membership
        why = "" if rule is None else rule.refusal(identity, action)
        return f"{name!r} may not {action} in {scope!r}: {why}" if why else ""

    def approve(self, name: str, scope: str, actions: "Iterable[str]" = ACTIONS, until: "int | None" = None) -> None:
        """Whatever the rule says. It undoes a denial, for its time if it has one; and not a revocation: what was
        revoked is to be issued anew."""
        self._known(scope)
        chosen = list(actions)
        for action in chosen:
            if action not in ACTIONS:
                raise LocalProtocolError(f"action is {action!r}, want one of {', '.join(ACTIONS)}")
        if JOIN not in chosen:
            chosen.append(JOIN)  # who may publish belongs to it
        if until is None:
            self._denied.discard((name, scope))
        self._approved[(name, scope)] = (chosen, until)

    def deny(self, name: str, scope: str) -> None:
        """Whatever the rule says, and whatever was approved."""
        self._known(scope)
        self._approved.pop((name, scope), None)
        self._denied.add((name, scope))

    def revoke(self, name: str, before: int) -> None:
        """Every certificate and token of that name that was issued before, in all scopes, and what was approved."""
        self._revoked[name] = max(before, self._revoked.get(name, before))
        for key in [key for key in self._approved if key[0] == name]:
            del self._approved[key]

    def judge(self, name: str, scope: str, approved: "tuple[list[str], int | None] | None", denied: bool) -> None:
        """All that holds of a name in a scope, in place of what held: actions and until when, and whether it is denied.
        Of a scope that is not there too: it counts when the scope does."""
        if approved is None:
            self._approved.pop((name, scope), None)
        else:
            self._approved[(name, scope)] = approved
        if denied:
            self._denied.add((name, scope))
        else:
            self._denied.discard((name, scope))

    @property
    def is_empty(self) -> bool:
        """Nothing was said at run time."""
        return not (self._approved or self._denied or self._revoked)

    def ended(self, identity: Identity, now: int) -> str:
        """Why it is nobody any more, in whatever scope; empty if it is."""
        before = self._revoked.get(identity.name)
        if before is not None and (identity.issued is None or identity.issued < before):
            return f"{identity.name!r} was revoked"
        if identity.expires is not None and now >= identity.expires:
            return f"what says that it is {identity.name!r} has expired"
        return ""

    def lapsed(self, identity: Identity, now: int) -> bool:
        """Whether it has expired and nothing else: who shows a newer one goes on."""
        before = self._revoked.get(identity.name)
        revoked = before is not None and (identity.issued is None or identity.issued < before)
        return not revoked and identity.expires is not None and now >= identity.expires

    def silenced(self, name: str, scope: str, time: int, now: int) -> str:
        """Why what somebody published at some time is not to be heard in a scope, as far as the name alone tells: who
        it was then is known at the broker where it was published, what was said against the name is known everywhere.
        What was published before the time that a revocation names was of a revoked identity."""
        if time < self._revoked.get(name, time):
            return f"{name!r} was revoked"
        approved = self._approved.get((name, scope))
        if approved is not None and PUBLISH in approved[0] and (approved[1] is None or now < approved[1]):
            return ""
        return f"{name!r} was denied {scope!r}" if (name, scope) in self._denied else ""

    def lasts(self, identity: Identity, scope: str, now: int) -> "int | None":
        """Until when an answer about it is good, if nothing is said in the meantime."""
        approved = self._approved.get((identity.name, scope))
        times = [identity.expires, None if approved is None else approved[1]]
        later = [time for time in times if time is not None and time > now]
        return min(later) if later else None

    def ended_approvals(self, now: int) -> "list[str]":
        """Names of whom one has come to its end."""
        return [key[0] for key, value in self._approved.items() if value[1] is not None and value[1] <= now]

    def next_timeout(self, now: int) -> "int | None":
        """When the next approval ends: what stands by it is to be asked again then."""
        times = [until for _, until in self._approved.values() if until is not None and until > now]
        return min(times) if times else None

    def reload(self, graph: "ScopeGraph") -> None:
        """Other rules; what an administrator said at run time stays, and counts again when its scope does."""
        self.graph = graph

    def item(self) -> "list[Any]":
        """As values of the wire, to be kept: a restart must not forget a revocation."""
        approved = [[key[0], key[1], value[0], value[1]] for key, value in sorted(self._approved.items())]
        denied = [list(key) for key in sorted(self._denied)]
        return [approved, denied, [list(pair) for pair in sorted(self._revoked.items())]]

    def restore(self, item: "Any") -> None:
        approved, denied, revoked = item
        for name, scope, actions, until in approved:
            self._approved[(name, scope)] = (list(actions), until)
        for name, scope in denied:
            self._denied.add((name, scope))
        for name, before in revoked:
            self._revoked[name] = max(before, self._revoked.get(name, before))

    def _known(self, scope: str) -> None:
        if scope not in self.graph:
            raise LocalProtocolError(f"there is no scope {scope!r}")
