"""Gateways broken on purpose, in their own process: a harness that lets one of these pass is no evidence."""

from collections.abc import Callable
from typing import Any

__all__ = ["MUTANTS"]


def _done_when_handed_over() -> None:
    """An event counts as delivered before the broker has it."""
    from vicinal_edge.gateway.service import Service

    right = Service._pump

    async def pump(self: Service, queue: Any) -> None:
        take = queue.take

        async def take_and_forget(most: int) -> Any:
            flights = await take(most)
            queue.done([number for number, _ in flights])
            return flights

        queue.take = take_and_forget
        try:
            await right(self, queue)
        finally:
            del queue.take

    Service._pump = pump  # type: ignore[method-assign]


def _nothing_goes_again() -> None:
    """What was under way when the connection was lost is forgotten."""
    from vicinal_edge._store_stored import StoredQueue

    StoredQueue.failed = lambda self, numbers=None: None  # type: ignore[method-assign]


def _numbers_are_not_reserved() -> None:
    """After a restart the store counts from where the last commit was, not from behind what was reserved."""
    from vicinal_edge._store_stored import StoredQueue

    right = StoredQueue.begin_restore

    def begin_restore(self: StoredQueue, high: int, totals: dict[str, Any]) -> None:
        right(self, high - self._store.options.block if totals else high, totals)

    StoredQueue.begin_restore = begin_restore  # type: ignore[method-assign]


def _bus_is_acknowledged_at_once() -> None:
    from vicinal_edge.gateway.service import Service

    def when_kept(self: Service, waits: Any, taken: Callable[[], None]) -> None:
        taken()

    Service._when_kept = when_kept  # type: ignore[method-assign]


def _bus_is_not_remembered() -> None:
    """What it says again after a crash is another event."""
    from vicinal.federation.gateway import Gateway

    Gateway.recall_heard = lambda self, service, producer, seq: None  # type: ignore[method-assign]


def _sent_before_it_is_on_disk() -> None:
    """Though the bus will say it again."""
    from vicinal_edge._store_stored import StoredQueue

    right = StoredQueue._hold

    def hold(self: StoredQueue, flight: Any) -> Any:
        held = right(self, flight)
        if held.event is not None and not held.handed:
            held.ready = True
        return held

    StoredQueue._hold = hold  # type: ignore[method-assign]


def _requests_are_not_remembered() -> None:
    from vicinal_edge.gateway.node import Node

    Node._recall = lambda self, file: None  # type: ignore[method-assign]


def _numbers_of_events_are_not_reserved() -> None:
    """Each life begins with the same."""
    from vicinal_edge.gateway import node

    node.reserve = lambda file, now: 0


MUTANTS: dict[str, Callable[[], None]] = {
    "done when handed over": _done_when_handed_over,
    "nothing goes again": _nothing_goes_again,
    "numbers are not reserved": _numbers_are_not_reserved,
    "the bus is acknowledged at once": _bus_is_acknowledged_at_once,
    "the bus is not remembered": _bus_is_not_remembered,
    "sent before it is on disk": _sent_before_it_is_on_disk,
    "requests are not remembered": _requests_are_not_remembered,
    "numbers of events are not reserved": _numbers_of_events_are_not_reserved,
}
