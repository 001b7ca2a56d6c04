"""A virtual bus and its clients, in the process that holds it (server.py).

In real time the bus follows the clock: a frame takes as long as its bits. In stepped time it stands still until a
client says advance. Each client has a controller and before it a queue, first in first out, as the kernel has one:
short, and lost with the controller's mailbox when it goes bus-off. A client that leaves has its queue sent first, as
the kernel would. What a client does not fetch is dropped, counted, and told.
"""

import contextlib
import json
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from vicinal.cosmic.frame import Frame
from vicinal.errors import VicinalError

from .._holder import receive_hello
from ._records import FOREVER, OWN, PROTOCOL, RECORD, Kind, Record, Refusal, frame_of, record_of
from .bus import INTACT, Bus
from .controller import Controller, State
from .omissions import Omissions

__all__ = ["Host"]

LONGEST_WAIT = 3600.0  # seconds; select() refuses what a client's timeout may say
CLIENTS_MAX = 200  # two sockets each, and select() sees 1,024
TX_QUEUE_MAX = 10_000
UNFETCHED_MAX = 20_000
"""happenings kept for a client that does not fetch them: four seconds of a full bus"""

# SocketCAN's error frames (linux/can/error.h): the class is in the identifier, the details in the data.
ERR_CRTL, ERR_PROT, ERR_ACK, ERR_BUSOFF, ERR_BUSERROR, ERR_RESTARTED, ERR_CNT = 0x4, 0x8, 0x20, 0x40, 0x80, 0x100, 0x200
CRTL_RX_OVERFLOW, CRTL_RX_WARNING, CRTL_TX_WARNING, CRTL_RX_PASSIVE, CRTL_TX_PASSIVE, CRTL_ACTIVE = 1, 4, 8, 16, 32, 64


class Host:
    """The bus and its clients; `clock` None is stepped time."""

    def __init__(self, bitrate: int, clock: Callable[[], int] | None) -> None:
        self.bus = Bus(bitrate, self._omit)
        self.clock = clock
        self._start = clock() if clock else 0
        # In wall-clock time, which is what a receiver compares with its own; stepped time starts at 0.
        self.epoch = time.time_ns() if clock else 0
        self.clients: list[_Client] = []
        self.selector: selectors.BaseSelector = (
            selectors.SelectSelector()
        )  # epoll rounds to milliseconds, which are several frames
        self._disturbance: tuple[Omissions, _Client | None] | None = None

    def follow(self) -> None:
        """Brings the bus to the present."""
        if self.clock:
            self.bus.advance(max(self.bus.now, self.clock() - self._start))

    def patience(self) -> float | None:
        """How long nothing will happen by itself, seconds."""
        if not self.clock:
            return None
        times = [client.waiting_until for client in self.clients if client.waiting_until is not None]
        event = self.bus.next_event()
        if event is not None:
            times.append(event)
        return min(LONGEST_WAIT, max(0.0, (min(times) - (self.clock() - self._start)) / 1e9)) if times else None

    def turn(self, patience: float | None) -> None:
        """Waits for clients or the bus, at most so long, and does what there is to do."""
        own = self.patience()
        if own is not None:
            patience = own if patience is None else min(own, patience)
        ready = self.selector.select(patience)
        self.follow()
        for key, events in ready:
            if self.selector.get_map().get(key.fd) is key:  # it may have gone with the one before
                key.data(events)
        for client in self.clients:
            client.give_up_waiting()

    def join(self, connection: socket.socket) -> None:
        receive_hello(self.selector, connection, self._admit)

    def _admit(self, hello: dict[str, Any], connection: socket.socket, happenings: socket.socket) -> str:
        """Why not; '' is welcome."""
        stepped = self.clock is None
        if hello["protocol"] != PROTOCOL:
            return f"protocol {hello['protocol']}, this bus speaks {PROTOCOL}: another version of Vicinal holds it"
        if hello["bitrate"] not in (None, self.bus.bitrate):
            return f"the bus runs at {self.bus.bitrate} bit/s, not at {hello['bitrate']}"
        if hello["stepped"] not in (None, stepped):
            return f"the bus runs in {'stepped' if stepped else 'real'} time"
        if len(self.clients) >= CLIENTS_MAX:
            return f"{CLIENTS_MAX} clients are on the bus, which is the limit"
        self.clients.append(_Client(self, connection, happenings, hello))
        welcome = {"bitrate": self.bus.bitrate, "stepped": stepped, "pid": os.getpid(), "epoch": self.epoch}
        connection.send(json.dumps(welcome).encode() + b"\n")
        return ""

    def disturb(self, omissions: Omissions | None, only: "_Client | None") -> None:
        self._disturbance = (omissions, only) if omissions else None

    def _omit(self, frame: Frame, attempts: int, start: int) -> int:
        if self._disturbance is None:
            return INTACT
        omissions, only = self._disturbance
        if only is not None and only.controller.mailbox is not frame:
            return INTACT
        return omissions(frame, attempts, start)


class _Client:
    """A client's controller, the queue before it, and what it has yet to be told."""

    def __init__(self, host: Host, control: socket.socket, happenings: socket.socket, hello: dict[str, int]) -> None:
        self._host = host
        self._control = control
        self._happenings = happenings
        self._tx_queue_max = min(max(1, hello["tx_queue"]), TX_QUEUE_MAX)
        self._own = bool(hello["own"])
        self._bus_errors = bool(hello["bus_errors"])
        self._restart = bool(hello["restart"])
        self._queue: deque[Frame] = deque()
        self._unfetched: deque[bytes] = deque()
        self._partly_sent = b""
        self._watching = False
        self._leaving = False
        self._dropped = 0
        self._request = b""
        self._new_filters: list[tuple[int, int, bool]] = []
        self._waiting: Frame | None = None
        self.waiting_until: int | None = None
        self.controller: Controller = host.bus.controller(f"client {len(host.clients)}", bool(hello["listen_only"]))
        self.controller.on_receive = self._on_receive
        self.controller.on_sent = self._on_sent
        self.controller.on_error = self._on_error if self._bus_errors else None
        self.controller.on_state = self._on_state
        host.selector.register(control, selectors.EVENT_READ, self._read)

    # Requests

    def _read(self, events: int) -> None:
        try:
            octets = self._control.recv(RECORD.size - len(self._request))
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        if not octets:
            self.leave()
            return
        self._request += octets
        if len(self._request) < RECORD.size:
            return
        record, self._request = Record.unpack(self._request), b""
        try:
            self._handle(record)
        except (VicinalError, ValueError):
            self._answer(Kind.REFUSED, Refusal.BAD)

    def _handle(self, record: Record) -> None:
        host, controller = self._host, self.controller
        if record.kind == Kind.SEND:
            self._send(frame_of(record), record.value)
            return
        if record.kind == Kind.ADVANCE:
            if host.clock:
                self._answer(Kind.REFUSED, Refusal.REAL_TIME)
                return
            host.bus.advance(host.bus.now + record.value)
        elif record.kind == Kind.RECOVER:
            if controller.state is State.BUS_OFF:
                controller.recover()
        elif record.kind == Kind.FILTER:
            self._new_filters.append((record.number, record.value, bool(record.flags)))
            if not record.size:
                masks, self._new_filters = self._new_filters, []
                controller.accept(masks)
        elif record.kind == Kind.FILTER_NONE:
            controller.accept(None)
        elif record.kind == Kind.DISTURB:
            probability = record.value / (1 << 32)
            omissions = Omissions(record.number, probability, record.size - 1 if record.size else None)
            host.disturb(omissions if probability else None, self if record.flags & OWN else None)
        elif record.kind != Kind.STATUS:
            raise ValueError(f"request {record.kind}")
        self._answer(Kind.DONE)

    def _answer(self, kind: Kind, refusal: int = 0) -> None:
        controller = self.controller
        queued = len(self._queue) + (controller.mailbox is not None)
        data = b"".join(
            [controller.tec.to_bytes(2, "little"), controller.rec.to_bytes(2, "little"), queued.to_bytes(4, "little")]
        )
        # The client waits for it and reads nothing else there: it always fits.
        with contextlib.suppress(OSError):
            self._control.send(Record(kind, 0, refusal, controller.state, 0, self._host.bus.now, data).pack())

    def _send(self, frame: Frame, patience: int) -> None:
        if self.controller.listen_only:
            self._answer(Kind.REFUSED, Refusal.LISTEN_ONLY)
        elif self.controller.state is State.BUS_OFF:
            self._answer(Kind.REFUSED, Refusal.BUS_OFF)
        elif self._has_room():
            self._queue.append(frame)
            self._fill_mailbox()
            self._answer(Kind.DONE)
        elif self._host.clock is None or not patience:
            # Stepped time stands still while a client waits: there never would be room.
            self._answer(Kind.REFUSED, Refusal.FULL)
        else:
            self._waiting = frame
            self.waiting_until = None if patience == FOREVER else self._host.bus.now + patience

    def _has_room(self) -> bool:
        return len(self._queue) + (self.controller.mailbox is not None) < self._tx_queue_max

    def give_up_waiting(self) -> None:
        if self.waiting_until is not None and self.waiting_until <= self._host.bus.now:
            self._waiting = self.waiting_until = None
            self._answer(Kind.REFUSED, Refusal.FULL)

    def _fill_mailbox(self) -> None:
        if self.controller.mailbox is None and self._queue and self.controller.state is not State.BUS_OFF:
            self.controller.load(self._queue.popleft())
        if self._waiting is not None and self._has_room():
            frame, self._waiting, self.waiting_until = self._waiting, None, None
            self._queue.append(frame)
            self._fill_mailbox()
            self._answer(Kind.DONE)

    # What happens on the bus

    def _on_receive(self, frame: Frame, now: int) -> None:
        self._tell(record_of(Kind.FRAME, frame, now))

    def _on_sent(self, frame: Frame, now: int) -> None:
        if self._own and self.controller.accepts(frame):
            self._tell(record_of(Kind.FRAME, frame, now, own=True))
        self._fill_mailbox()
        if self._leaving:
            self._detach_when_done()

    def _on_error(self, frame: Frame | None, now: int) -> None:
        self._tell_error(ERR_PROT | ERR_BUSERROR, now)

    def _on_state(self, state: State, now: int) -> None:
        if self._leaving:
            self._detach_when_done()
            return
        tx, rx = self.controller.tec >= self.controller.rec, self.controller.rec >= self.controller.tec
        if state is State.BUS_OFF:
            self.controller.lost += len(self._queue)
            self._queue.clear()
            self._tell_error(ERR_BUSOFF, now)
            if self._waiting is not None:
                self._waiting = self.waiting_until = None
                self._answer(Kind.REFUSED, Refusal.BUS_OFF)
            if self._restart:
                self.controller.recover()
        elif state is State.PASSIVE:
            self._tell_error(ERR_CRTL, now, CRTL_TX_PASSIVE * tx | CRTL_RX_PASSIVE * rx)
        elif state is State.WARNING:
            self._tell_error(ERR_CRTL, now, CRTL_TX_WARNING * tx | CRTL_RX_WARNING * rx)
        else:
            restarted = 0 if self.controller.tec or self.controller.rec else ERR_RESTARTED
            self._tell_error(ERR_CRTL | restarted, now, CRTL_ACTIVE)

    def _tell_error(self, number: int, now: int, control: int = 0) -> None:
        counts = [min(255, self.controller.tec), min(255, self.controller.rec)]
        data = bytes([0, control, 0, 0, 0, 0, *counts])
        self._tell(Record(Kind.ERROR, 0, 8, self.controller.state, number | ERR_CNT, now, data))

    def _tell(self, record: Record) -> None:
        if self._leaving:
            return
        if len(self._unfetched) >= UNFETCHED_MAX:
            self._dropped += 1
            return
        if self._dropped:
            # The Linux way to say that frames were lost here, with how many in the last four bytes.
            lost, self._dropped = self._dropped, 0
            data = bytes([0, CRTL_RX_OVERFLOW, 0, 0]) + min(lost, 0xFFFFFFFF).to_bytes(4, "big")
            self._unfetched.append(Record(Kind.ERROR, 0, 8, 0, ERR_CRTL, record.value, data).pack())
        was_empty = not self._unfetched and not self._partly_sent
        self._unfetched.append(record.pack())
        if was_empty:
            self._pour()

    def _pour(self, events: int = 0) -> None:
        """As much as fits into the client's socket. The rest when it has fetched some."""
        while self._partly_sent or self._unfetched:
            octets = self._partly_sent or self._unfetched.popleft()
            try:
                self._partly_sent = octets[self._happenings.send(octets) :]
            except BlockingIOError:
                self._partly_sent = octets
                self._watch(True)
                return
            except OSError:  # the client is gone, which its other socket will say
                self._partly_sent = b""
                self._unfetched.clear()
        if events:
            self._watch(False)

    def _watch(self, on: bool) -> None:
        if on and not self._watching:
            self._host.selector.register(self._happenings, selectors.EVENT_WRITE, self._pour)
        elif self._watching and not on:
            self._host.selector.unregister(self._happenings)
        self._watching = on

    # Leaving

    def leave(self) -> None:
        host = self._host
        self._watch(False)
        host.selector.unregister(self._control)
        self._control.close()
        self._happenings.close()
        host.clients.remove(self)
        if host._disturbance and host._disturbance[1] is self:
            host.disturb(None, None)
        self._leaving = True
        self._waiting = self.waiting_until = None
        self.controller.on_receive = self.controller.on_error = None
        self._detach_when_done()

    def _detach_when_done(self) -> None:
        off = self.controller.state is State.BUS_OFF
        if off or (self.controller.mailbox is None and not self._queue):
            self.controller.detach()
