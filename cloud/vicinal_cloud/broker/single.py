"""The short way through a broker, for one event that comes alone and is like those before it.

    read ──▶ one frame, of a known shape? ──▶ who gets it: known too? ──▶ written to each socket at once

It does what the long way does (Link, Connection, Session, Publishing, Broker, Node, Connection, Link), in the same
order, with the same counts; but with no object for the event, and nothing put aside for the end of the turn: for that
it must be the last that the loop has to do, with nothing else waiting to be written. Whenever something is unusual it
declines before anything has happened.
"""

import asyncio
import os
from typing import TYPE_CHECKING, Any

from vicinal.siena.messages import AFTER_EVENT, before_event

from .loop import DONE, FOR_THE_LOOP, FOR_THE_TRANSPORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from .link import Link
    from .node import Node
    from .session import Session

__all__ = ["lane_of"]

# Of events for the same clients: for each size there is a list of their links.
_MAX_SIZES = 4


def lane_of(node: "Node", session: "Session") -> "Callable[[bytes], int] | None":
    """For a client's link: it deals with what was read and says so, in the words of loop.py. None where there is a log:
    what is published is stored first, and that takes its time."""
    ready: Any = getattr(asyncio.get_running_loop(), "_ready", None)  # a loop that does not show it has no lanes
    if ready is None or node.storage is not None:
        return None
    link, name, owed = session.link, session.name, node.publishing.owed
    connection = link.connection
    engine, counters, sessions = node.engine, node.counters, node.sessions
    read_single, publish_single, write = connection.read_single, engine.publish_single, os.write

    def prepare(audience: Any, size: int) -> Any:
        """For events of so many bytes: what stands before them, and for whom, as those with the same subscriptions get
        the same bytes. And how many are not here."""
        groups: dict[tuple[int, ...], list[Link]] = {}
        gone = 0
        for client, numbers in audience.takers:
            if client in sessions:
                groups.setdefault(numbers, []).append(sessions[client].link)
            else:
                gone += 1
        found = ([(before_event(numbers, size), links) for numbers, links in groups.items()], gone)
        if audience.prepared is None or len(audience.prepared) >= _MAX_SIZES:
            audience.prepared = {}
        audience.prepared[size] = found
        return found

    def lane(data: bytes) -> int:
        if ready or owed or node.dirty:
            return FOR_THE_TRANSPORT
        found = read_single(data)
        if found is None:
            return FOR_THE_TRANSPORT
        single, values = found
        audience = publish_single(name, single, values, data)
        if audience is None:
            return FOR_THE_TRANSPORT
        event = data[single.event_at :] + AFTER_EVENT
        said = DONE
        size = len(data) - single.event_at
        prepared = audience.prepared
        groups, gone = prepared[size] if prepared is not None and size in prepared else prepare(audience, size)
        for before, links in groups:
            frame = before + event
            size = len(frame)
            for one in links:
                to = one.connection
                if to.credit and not one.batches and one.descriptor >= 0:
                    try:
                        taken = write(one.descriptor, frame)
                    except OSError:  # it is full, or broken: the transport finds out
                        taken = 0
                    if taken == size:
                        to.credit -= 1
                        one.bytes_out += size
                        continue
                    if taken:
                        to.credit -= 1
                        one.put_rest(frame, taken, 1)
                        said = FOR_THE_LOOP
                        continue
                to.deliver(frame)
                node.dirty.add(one)
        connection.took_single(len(data), node.now())
        session.published += 1
        counters.received += 1
        counters.accepted += 1
        counters.handed += len(audience.clients)
        if gone:
            counters.dropped["client gone"] += gone
        if node.dirty:
            node.flush()
            said = FOR_THE_LOOP
        return said

    return lane
