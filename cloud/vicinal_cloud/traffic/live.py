"""What pages are told while they look on: GET /api/live, a stream of server-sent events.

    data: {"now": ..., "vehicles": [...], "monitors": [...], "areas": [...], "cases": [...], "gone": [...],
           "events": [...], "skipped": 0, "overlay": [...], "counters": {...}, "latency_ms": {...}, "span": [a, b]}

The first one has all of it, the others what is new: a key that is missing has not changed. Nothing is queued for
anyone: what a page has not been told yet is looked up when it can take more, so who is slow sees fewer steps, never
old ones.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from . import views
from .history import FRESH_MS, began
from .office import Office
from .plain import dumps

__all__ = ["Audience", "Telling"]

EVERY = 0.25
"""seconds: vehicles say where they are once in one"""
ALIVE = 1_000
"""ms after which a page is told that there is nothing new"""
EVENTS = 50
"""at once: a page shows no more; how many were left out is said"""
LATENCIES = 1_000
"""the last so many events, of which a page is told how long they took"""
MOST = 100
"""pages at once"""


class Telling:
    """What one page knows."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._told: dict[str, str] = {}
        """as JSON, what seldom changes"""
        self._seen: dict[str, int] = {}
        self._cases = 0
        self._number: int | None = None
        self._sampled = 0
        self._at = 0

    def news(self, now: int) -> dict[str, Any]:
        """Empty: nothing is new, and it was told so just before."""
        office = self._office
        made: dict[str, Any] = {}
        fresh = [one for one in office.control.whereabouts.latest() if now - one.time <= FRESH_MS]
        moved = [one for one in fresh if self._seen.get(one.vehicle) != one.time]
        if moved or not self._at:
            made["vehicles"] = [views.sighting(one) for one in moved]
        self._seen = {one.vehicle: one.time for one in fresh}
        signs = [{key: value for key, value in one.items() if key != "heard"} for one in views.monitors(office, now)]
        for name, value in (("monitors", signs), ("areas", views.areas(office, now))):
            if self._told.get(name) != (text := dumps(value)):
                self._told[name], made[name] = text, value
        cases, gone, self._cases = office.recent.since(self._cases)
        if cases or gone:
            made["cases"], made["gone"] = [views.case(one) for one in cases], gone
        made |= self._events()
        samples = office.watch.after(self._sampled)
        if samples:
            self._sampled = samples[-1].time
            made["overlay"] = views.overlay(samples)
            made["counters"] = office.control.accounts()
            made["latency_ms"] = office.paths.latency(LATENCIES)
        if not made and now - self._at < ALIVE:
            return {}
        if not self._at:
            made["span"] = [began(office) or now, now]
        self._at = now
        return {"now": now, **made}

    def _events(self) -> dict[str, Any]:
        paths = self._office.paths
        last = paths.last
        after = max(0, last - EVENTS) if self._number is None else self._number
        skipped = max(0, last - EVENTS - after)
        found = paths.after(after + skipped, EVENTS)
        self._number = last
        return {"events": [views.event(one) for one in found], "skipped": skipped} if found else {}


class Audience:
    """All who look on. Who comes when there are too many is told so; at the end every stream ends."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._over = asyncio.Event()
        self.pages = 0

    @property
    def full(self) -> bool:
        return self.pages >= MOST

    def close(self) -> None:
        self._over.set()

    async def stream(self) -> AsyncIterator[str]:
        telling = Telling(self._office)
        self.pages += 1
        try:
            yield "retry: 1000\n\n"
            while not self._over.is_set():
                news = telling.news(self._office.now())
                if news:
                    yield f"data: {dumps(news)}\n\n"
                try:
                    async with asyncio.timeout(EVERY):
                        await self._over.wait()
                except TimeoutError:
                    continue
        finally:
            self.pages -= 1
