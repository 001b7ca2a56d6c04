"""A queue whose events are on disk before they count as accepted. What is written when, and why that is exactly once,
is told in store.py.

An event here is in one of these:

    new         accepted in memory, its insert not yet begun
    writing     in the transaction that is under way
    on disk     known here by the index of its outbox alone; a few MB of them are cached

and beside that, once it has a number, it is `held`: with its event, until the service has it.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from vicinal import wire
from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.federation.outbox import NEVER, Flight

from ._store_database import Heard, Row, Saved, Transaction, checksum
from ._store_held import Held, New
from ._store_queue import OVERHEAD, TOO_LARGE, Dropped, Position, Queue, QueueOptions

if TYPE_CHECKING:
    from .store import Store

__all__ = ["StoredQueue"]

DAMAGED = "damaged on the disk"
TOO_SLOW = "the disk is too slow"


class StoredQueue(Queue):
    durable = True

    def __init__(
        self,
        store: "Store",
        key: int,
        service: str,
        options: QueueOptions,
        clock: Callable[[], int],
        position: Callable[[], Position],
    ) -> None:
        super().__init__(service, options, clock, position)
        self.key = key
        self.skipped = 0
        """delivered before they were written, and so never written"""
        self.max_bytes = options.max_bytes or store.options.max_bytes
        self.outbox.max_count = options.max_count or 2_000_000
        self._store = store
        self._new: dict[int, New] = {}
        self._writing: dict[int, New] = {}
        self._cache: dict[int, bytes] = {}
        self._held: dict[int, Held] = {}  # by id
        self._staged: deque[Held] = deque()
        self._to_record: list[Held] = []
        self._to_read: list[Held] = []
        self._deletes: list[int] = []
        self._unhanded: list[int] = []
        self._active = False
        self._high = 0  # numbers below it are reserved, on disk
        self._asked_high = 0
        # Of the transaction that is under way, beside what is `_writing`.
        self._recording: list[Held] = []
        self._reading: list[Held] = []
        self._deleting: list[int] = []
        self._unhanding: list[int] = []

    def begin_restore(self, high: int, totals: dict[str, Any]) -> None:
        """`high` is above all numbers that were ever given."""
        outbox = self.outbox
        self._high = outbox.number = outbox.number_limit = high
        outbox.delivered = totals.get("delivered", 0)
        outbox.dropped.update(totals.get("dropped", {}))
        outbox.accepted = outbox.delivered + sum(outbox.dropped.values())

    def restore(self, rows: list[Row], read: dict[int, bytes]) -> None:
        """What an earlier life has left. `read`: the events, if the service is located."""
        for row in rows:
            event = _decoded(read[row.id]) if row.id in read else None
            area = None if event is None else event.attrs.get("Proximity")
            flight = self.outbox.restore(
                row.id, row.producer, row.priority, row.expires, row.size + OVERHEAD, row.number, area
            )
            if flight is not None:
                self._held[row.id] = held = Held(flight, None, False)
                held.handed = True  # or is not; to delete what is not there does no harm

    def end_restore(self, totals: dict[str, Any]) -> None:
        """The books: those of the last commit, of which the rows are a part. What is missing was damaged."""
        outbox = self.outbox
        lost = totals.get("accepted", 0) - outbox.accepted
        for _ in range(max(0, lost)):
            outbox.turn_away(DAMAGED)
        self._store.touch(self)

    # Accepting

    def accept(self, event: Event, source: str = "") -> "asyncio.Future[int]":
        """Done when the event is on disk, or the service has it: with its id, which rises with every event and is never
        given again. Fails with Dropped. `source` is where it came from, if it comes from there again when we die before
        this is done: then it is not sent before it is on disk, and how far its producer has come is known after a crash
        (`heard` of the store)."""
        done: asyncio.Future[int] = self._store.loop.create_future()
        reason = self._accept(event, source, done)
        if reason and not done.done():
            done.set_exception(Dropped(reason))
            done.exception()  # it is counted
        return done

    def _accept(self, event: Event, source: str, done: "asyncio.Future[int] | None") -> str:
        """ "" or why it was dropped at once."""
        store, outbox = self._store, self.outbox
        try:
            data = wire.encode(event)
        except LocalProtocolError:
            return outbox.turn_away(TOO_LARGE)
        attrs = event.attrs
        priority, expires, area = 0, NEVER, None
        if attrs:
            priority, expires, area = attrs.get("Priority", 0), attrs.get("Expires", NEVER), attrs.get("Proximity")
        producer, size = event.producer or "", len(data) + OVERHEAD
        id = store.next_id()
        busy = store.why_not(len(data))
        if busy:
            return outbox.turn_away(busy)
        outbox.max_bytes = min(self.max_bytes, store.options.max_bytes - store.bytes_but(self))
        reason = ""
        if expires != NEVER or area is not None or not outbox.accept_alike(id, producer, priority, size):
            reason = outbox.accept(id, producer, priority, expires, size, self._clock(), area)
        if not reason:
            self._new[id] = New(id, producer, priority, expires, event, data, done, source)
            store.new_bytes += len(data)
        if outbox.gone:
            self._forget()
        if priority >= self.options.free_from:
            store.touch(self)
        else:
            store.gather(self)
        return reason

    def offer(self, event: Event) -> str:
        """As `accept`, for who does not wait; "" says that it is on its way to the disk."""
        return self._accept(event, "", None)

    # Handing out

    async def take(self, most: int) -> list[tuple[int, Event]]:
        self._active = True
        return await super().take(most)

    def _take(self, most: int) -> list[tuple[int, Event]]:
        self.stage()
        if self.urgent:
            self._store.touch(self)
        found: list[tuple[int, Event]] = []
        staged, outbox = self._staged, self.outbox
        if not staged:
            return found
        now, position = self._clock(), self._position()
        while staged and staged[0].ready and len(found) < most:
            held = staged.popleft()
            reason = outbox.worthless(held.flight, now, position)
            if reason:
                outbox.refused(held.flight.number, reason)
                continue
            assert held.event is not None
            held.sent = True
            found.append((held.flight.number, numbered(held.event, held.flight.number)))
        if outbox.gone:
            self._forget()
        return found

    def stage(self) -> None:
        """Gives numbers to what goes next, before its insert begins, so that they need not be written on their own."""
        outbox = self.outbox
        room = self.options.window - outbox.under_way
        if not self._active or room <= 0 or not outbox.waiting:
            return
        flights = outbox.take(room, self._clock(), self._position(), self._bucket)
        if outbox.gone:
            self._forget()
        for flight in flights:
            held = self._held.get(flight.id)
            if held is None:
                held = self._hold(flight)
            elif not held.ready and held.event is None:
                self._to_read.append(held)
            self._staged.append(held)

    def _hold(self, flight: Flight) -> Held:
        id = flight.id
        new = self._new.get(id)
        if new is not None:
            new.number = flight.number
            held = Held(flight, new.event, not new.source or bool(self._store.broken))
        else:
            # It is on disk without a number, or will be: it may go when the number is there, too.
            written = self._writing.get(id)
            data = self._uncache(id)
            event = written.event if written is not None else None if data is None else _decoded(data)
            held = Held(flight, event, False)
            held.handed = True
            self._to_record.append(held)
            if event is None:
                self._to_read.append(held)
        self._held[id] = held
        return held

    # What became of it

    def done(self, numbers: Iterable[int]) -> None:
        new, held, deletes = self._new, self._held, self._deletes
        for id in self.outbox.done(numbers):
            one = held.pop(id, None)
            early = new.pop(id, None)
            if early is not None:
                self._store.new_bytes -= len(early.data)
                early.settle()
                if not early.begun:
                    self.skipped += 1
                    continue
            written = self._writing.get(id)
            if written is not None:
                written.settle()
            deletes.append(id)
            if one is not None and one.handed:
                self._unhanded.append(id)
        if self.outbox.waiting:
            self._store.touch(self)
        else:
            self._store.touch_later(self)

    def failed(self, numbers: Iterable[int] | None = None) -> None:
        """They go again, before all others; None: all that were handed out. What was made ready behind them waits for
        them."""
        outbox = self.outbox
        staged = [held.flight.number for held in self._staged] + [number for number, _ in self._given]
        self._staged.clear()
        self._given = []
        if numbers is None:
            numbers = outbox.numbers_under_way()
        outbox.failed([*numbers, *staged])
        self._active = self._taker is not None
        if self._store.broken:
            self._drop_unwritten(self._store.broken)
        self._store.touch(self)

    def refused(self, number: int, reason: str) -> None:
        super().refused(number, reason)
        self._store.touch(self)

    def _forget(self) -> None:
        for id, reason in self.outbox.gone:
            held = self._held.pop(id, None)
            self._uncache(id)
            new = self._new.pop(id, None)
            if new is not None:
                self._store.new_bytes -= len(new.data)
                new.fail(reason)
                if not new.begun:
                    continue
            self._deletes.append(id)
            if held is not None and held.handed:
                self._unhanded.append(id)
        self.outbox.gone.clear()

    # Called by the store

    def offer_staged(self) -> bool:
        """Whether somebody has been woken, who may take some."""
        staged = self._staged
        if not staged or not staged[0].ready:
            if self._bucket is not None:
                self._wake_when_allowed()
            return False
        if self.at_once is not None and self._taker is not None and not self._taker.done():
            found = self._take(self._most)
            if found and not self.at_once(found):
                self._given = found
            elif not staged or not staged[0].ready:
                if self._bucket is not None:
                    self._wake_when_allowed()
                return False
        self._wake()
        return True

    def abandon(self, reason: str) -> None:
        """The store is closed: what is not on disk by now will not be."""
        for new in [*self._new.values(), *self._writing.values()]:
            new.fail(reason)
        self._active = False

    @property
    def urgent(self) -> bool:
        """The service could be sent more, if the disk had done this."""
        return bool(self._to_record or self._to_read) or self.wants_numbers

    @property
    def is_new(self) -> bool:
        return bool(self._new)

    @property
    def deletes(self) -> int:
        return len(self._deletes)

    @property
    def wants_numbers(self) -> bool:
        return self.outbox.number + self._store.options.block // 2 > self._high

    def begin(self, work: Transaction) -> None:
        """Puts what is to be written into the transaction."""
        self._writing, self._new = self._new, {}
        key, inserts = self.key, work.inserts
        for new in self._writing.values():
            self._store.new_bytes -= len(new.data)
            crc = checksum(new.id, new.number, new.data)
            inserts.append((new.id, key, new.producer, new.priority, new.expires, new.number, crc, new.data))
            if new.source and new.event.seq is not None:
                self._note(work, new, new.event.seq)
        held = self._held
        self._recording = [one for one in self._to_record if held.get(one.flight.id) is one]
        self._reading = [one for one in self._to_read if held.get(one.flight.id) is one]
        self._to_record, self._to_read = [], []
        work.handed += [(one.flight.id, one.flight.number) for one in self._recording]
        work.reads += [one.flight.id for one in self._reading]
        self._deleting, self._deletes = self._deletes, []
        self._unhanding, self._unhanded = self._unhanded, []
        work.deletes += self._deleting
        work.unhanded += self._unhanding
        self._asked_high = self._high
        if self.wants_numbers:
            self._asked_high = max(self._high, self.outbox.number) + self._store.options.block
        work.services.append(Saved(self.service, self.key, self._asked_high, self._totals()))

    def _note(self, work: Transaction, new: New, seq: int) -> None:
        key = (new.source, new.producer)
        known = work.heard.get(key) or self._store.heard.get(key)
        if known is None or seq > known.seq:
            work.heard[key] = Heard(new.source, new.producer, seq, new.id)

    def _totals(self) -> str:
        outbox = self.outbox
        dropped = json.dumps(outbox.dropped) if outbox.dropped else "{}"
        return f'{{"accepted": {outbox.accepted}, "delivered": {outbox.delivered}, "dropped": {dropped}}}'

    def committed(self, read: dict[int, bytes], refused: str) -> None:
        """It is on disk; if `refused`, all but the inserts and the reserved numbers."""
        if refused:
            self._not_inserted(refused)
        else:
            self._high = self.outbox.number_limit = self._asked_high
            for new in self._writing.values():
                new.settle()
                if new.source:
                    self._let_go(new)
            self._keep_some()
        self._writing = {}
        for held in self._recording:
            held.ready = held.event is not None
        for held in self._reading:
            self._was_read(held, read.get(held.flight.id))
        if self.outbox.gone:
            self._forget()

    def _let_go(self, new: New) -> None:
        """It is on disk, with the number that it has by now, or that is to be recorded."""
        held = self._held.get(new.id)
        if held is not None and not held.handed:
            held.ready = True

    def _was_read(self, held: Held, data: bytes | None) -> None:
        if self._held.get(held.flight.id) is not held:
            return
        held.event = None if data is None else _decoded(data)
        held.ready = held.event is not None
        if not held.ready:
            if held in self._staged:
                self._staged.remove(held)
            self.outbox.refused(held.flight.number, DAMAGED)

    def not_committed(self, reason: str) -> None:
        """Nothing of it is."""
        self._deletes += self._deleting
        self._unhanded += self._unhanding
        self._to_record += self._recording
        self._to_read += self._reading
        self._not_inserted(reason)
        self._writing = {}
        if self.outbox.gone:
            self._forget()

    def _not_inserted(self, reason: str) -> None:
        """What is under way may still arrive: it is written the next time, with its number. The rest is dropped."""
        back: dict[int, New] = {}
        for new in self._writing.values():
            held = self._held.get(new.id)
            if held is not None:
                new.number = held.flight.number
                new.begun = True
                held.ready = True
                back[new.id] = new
                self._store.new_bytes += len(new.data)
        dropped = [new for new in self._writing.values() if new.id not in back]
        self._new = {**back, **self._new}
        for new in dropped:
            self.outbox.withdraw(new.id, new.producer, reason)
            new.fail(reason)
        self._drop_unwritten(reason)

    def _drop_unwritten(self, reason: str) -> None:
        """What came while the disk did not take anything, and was not sent. Else it would wait for nobody knows how
        long, and who gave it does not know. What was sent, the service may have: to count it as dropped would be wrong,
        and as a window's worth at most it stays in memory and goes again."""
        for new in list(self._new.values()):
            if new.number == 0:
                self.outbox.withdraw(new.id, new.producer, reason)
            elif not self._held[new.id].sent and self.outbox.again(new.number) is not None:
                self.outbox.refused(new.number, reason)
        self._forget()

    def _keep_some(self) -> None:
        """Of what was written, and goes soon."""
        store, held, gone = self._store, self._held, set(self._deletes)
        for new in self._writing.values():
            if store.cached_bytes >= store.options.cache_bytes:
                break
            if new.id not in held and new.id not in gone:
                self._cache[new.id] = new.data
                store.cached_bytes += len(new.data)

    def _uncache(self, id: int) -> bytes | None:
        data = self._cache.pop(id, None)
        if data is not None:
            self._store.cached_bytes -= len(data)
        return data

    def counters(self) -> dict[str, Any]:
        found = super().counters()
        found["not_yet_on_disk"] = len(self._new) + len(self._writing)
        found["never_written"] = self.skipped
        return found


def numbered(event: Event, number: int) -> Event:
    """With the attribute StoreSeq. Not checked again: only this is new, and it may be one attribute too many."""
    new = Event.__new__(Event)
    new.subject, new.params, new.producer, new.seq = event.subject, event.params, event.producer, event.seq
    new.attrs = dict(event.attrs)
    new.attrs["StoreSeq"] = number
    new._nesting = event._nesting
    new._wire = None
    return new


def _decoded(data: bytes) -> Event | None:
    try:
        return wire.decode(data)
    except VicinalError:
        return None
