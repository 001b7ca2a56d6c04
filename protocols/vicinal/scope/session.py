"""Session scopes: reactions stay in the session they came from (seed 004, 3.6).

    S and T are session scopes, Y is in both

    an event is published in S        it gets the tag S             the attribute Session, which brokers pass on
    Y gets it, and reacts             its context is S
    what Y publishes then             goes to S and not to T; scopes that are no sessions are not affected

In a session scope every event has that scope's tag; elsewhere it keeps the one it came with. Upwards, an event with a
tag enters a session scope only if the tag is of that scope or of one within it: an inner session is part of an outer
one. Downwards the input interface alone decides. A Session attribute that names no session scope is not a tag.

On CPython `session_cpython` keeps the context for a consumer; elsewhere `reaction` gives a publication its context.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..event import Event
    from .graph import ScopeGraph

__all__ = ["enters", "keep", "reaction", "tag_of", "tagged"]

_NAME = "Session"


def tag_of(graph: "ScopeGraph", event: "Event") -> "str | None":
    """The session scope whose tag it has."""
    name = event.attrs.get(_NAME)
    if name is None:
        return None
    scope = graph.scopes.get(name)
    return name if scope is not None and scope.session else None


def enters(graph: "ScopeGraph", event: "Event", scope: str) -> bool:
    """Whether it may go up into a scope, or be published in it."""
    if not graph.scopes[scope].session:
        return True
    tag = tag_of(graph, event)
    return tag is None or tag == scope or scope in graph.above(tag)


def tagged(graph: "ScopeGraph", event: "Event", scope: str) -> "Event":
    """As it is in a scope."""
    return _with(event, scope) if graph.scopes[scope].session else event


def keep(before: "Event", after: "Event") -> "Event":
    """A mapping does not touch what is hidden from components."""
    return after if after is before else _with(after, before.attrs.get(_NAME))


def reaction(cause: "Event", event: "Event") -> "Event":
    """What a consumer publishes because of `cause`, in its context."""
    tag = cause.attrs.get(_NAME)
    return event if tag is None else _with(event, tag)


def _with(event: "Event", tag: "str | None") -> "Event":
    if event.attrs.get(_NAME) == tag:
        return event
    attrs = [(name, value) for name, value in event.attrs.items() if name != _NAME]
    if tag is not None:
        attrs.append((_NAME, tag))
    return event.replace(attrs=attrs)
