"""Events on the CoAP server of a gateway: publish them, and observe those of others (spec/coap.md).

    publish(client, event, now, on_answer)            PUT /ps/SUBJECT, the event as on our wire
    observe(client, "Limit", condition, on_event, now)   GET /ps/SUBJECT?filter=..., with Observe

What comes twice, as after an observation was asked for anew, is for whoever looks at identities.
"""

from .. import wire
from ..errors import VicinalError
from ._request import Request
from .message import GET, PUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..event import Event
    from ._request import Answer
    from .client import Client

__all__ = ["CBOR", "filter_queries", "observe", "path_of", "publish"]

CBOR = 60
# Of a query option, less "filter=".
_PIECE = 248


def path_of(subject: "str | None") -> "list[str]":
    return ["ps"] if subject is None else ["ps"] + subject.split("/")


def publish(
    client: "Client",
    event: "Event",
    now: int,
    on_answer: "Callable[[Answer, int], None] | None" = None,
    confirmable: bool = True,
) -> None:
    client.request(
        Request(PUT, path_of(event.subject), on_answer, wire.encode(event), CBOR, None, (), confirmable), now
    )


def observe(
    client: "Client",
    subject: "str | None",
    condition: "str | None",
    on_event: "Callable[[Event, int], None]",
    now: int,
    on_end: "Callable[[Answer, int], None] | None" = None,
    refresh: int = 0,
) -> Request:
    """`subject` None: of all subjects. `on_end` is told once, when the observation could not begin or is over."""

    def answered(answer: "Answer", at: int) -> None:
        if answer.ok and answer.payload:
            try:
                event = wire.decode(answer.payload)
            except VicinalError:
                client.count("no event")
            else:
                on_event(event, at)
        if not answer.observed and on_end is not None:
            on_end(answer, at)

    queries = filter_queries(condition) + ["own=no"]
    request = Request(GET, path_of(subject), answered, b"", None, CBOR, queries)
    client.observe(request, now, refresh)
    return request


def filter_queries(condition: "str | None") -> "list[str]":
    """A long condition goes in several options, none of which cuts a character."""
    found: list[str] = []
    if condition is None:
        return found
    start = size = 0
    for at, sign in enumerate(condition):
        length = len(sign.encode())
        if size + length > _PIECE:
            found.append("filter=" + condition[start:at])
            start, size = at, 0
        size += length
    found.append("filter=" + condition[start:])
    return found
