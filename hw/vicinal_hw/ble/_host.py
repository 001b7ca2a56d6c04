"""The virtual radio of several processes, in the process that holds it (server.py).

In real time the air follows the clock; in stepped time it stands still until a client says advance. Each client is one
radio. After hello and welcome (_holder.py) it asks on one socket, a JSON line each, and is answered with one:

    {"do": "advertise", "data": hex or null, "interval": us, "extended": true, false or null}
    {"do": "move", "lat": 1e-7 degrees, "lon": ...}          the first position of all is the plane's centre
    {"do": "scan", "window": us, "interval": us}             window 0: stop
    {"do": "loss", "probability": 0.1}                       for everybody
    {"do": "advance", "by": us}                              stepped time only
    {"do": "status"}
                                     {"now": us, "counters": {...}}   or   {"refused": why}

With "quiet": true it is answered only if it is refused, by {"refused": why, "quiet": true}: who has other things to do
than to wait until this process has its turn need not.

On the other socket, which keeps the borders of packets, it is told what its radio heard:

    now 8 │ rssi 1, signed │ dropped before this one 4 │ advertisement        little-endian

What a client does not fetch is dropped and counted, in `dropped` and in its counters.

In real time each advertisement is sent once at least before the next one takes its place, also where this process was
kept from its turn: then those that came meanwhile go out one after the other.

With a record, what radios with a label have heard is written down, in the order in which they are told it: what was
in the air, for those who have to know that exactly:

    {"to": "m1", "radio": 7, "time": Unix ms, "data": hex}
"""

import contextlib
import json
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import Any

from vicinal.errors import VicinalError

from .._holder import receive_hello
from .air import DEFAULT_POWER, Air
from .physics import LEGACY_MAX, Model, check_data, check_interval
from .positions import Plane

__all__ = ["HEARD", "PROTOCOL", "Host"]

PROTOCOL = 2
HEARD = Struct("<QbI")
CLIENTS_MAX = 200
"""two sockets each, and select() sees 1,024"""
REQUEST_MAX = 1024
"""bytes; 254 of data are 508 in hex"""
UNFETCHED_MAX = 20_000
"""packets kept for a client that does not fetch them: seconds of a crowded air"""
UNSENT_MAX = 64
"""advertisements that wait for their turn, of a host that is far behind: seconds of one radio"""
LATITUDE_MAX, LONGITUDE_MAX = 900_000_000, 1_800_000_000
LONGEST_WAIT = 3600.0


class Host:
    """The air and its clients; `clock` None is stepped time."""

    def __init__(self, seed: int, model: Model, clock: Callable[[], int] | None, record: Path | None = None) -> None:
        self.air = Air(seed, model)
        self.record = None if record is None else record.open("a", buffering=1)
        self.joined = 0
        self.clock = clock
        self._start = clock() if clock else 0
        self.clients: list[_Client] = []
        self.selector: selectors.BaseSelector = selectors.DefaultSelector()
        self.plane: Plane | None = None

    def _present(self) -> int:
        assert self.clock
        return (self.clock() - self._start) // 1000

    def follow(self) -> None:
        """Brings the air to the present."""
        if self.clock:
            self.air.advance(max(self.air.now, self._present()))

    def turn(self, patience: float | None) -> None:
        """Waits for clients or the air, at most so long, and does what there is to do."""
        event = self.air.next_event() if self.clock else None
        if event is not None:
            own = min(LONGEST_WAIT, max(0.0, (event - self._present()) / 1e6))
            patience = own if patience is None else min(own, patience)
        ready = self.selector.select(patience)
        self.follow()
        for key, events in ready:
            if self.selector.get_map().get(key.fd) is key:  # it may have gone with the one before
                key.data(events)

    def join(self, connection: socket.socket) -> None:
        receive_hello(self.selector, connection, self._admit)

    def _admit(self, hello: dict[str, Any], connection: socket.socket, happenings: socket.socket) -> str:
        """Why not; '' is welcome."""
        stepped = self.clock is None
        if hello["protocol"] != PROTOCOL:
            return f"protocol {hello['protocol']}, this radio speaks {PROTOCOL}: another version of Vicinal holds it"
        if hello["stepped"] not in (None, stepped):
            return f"the radio runs in {'stepped' if stepped else 'real'} time"
        if len(self.clients) >= CLIENTS_MAX:
            return f"{CLIENTS_MAX} clients are on the air, which is the limit"
        try:
            power, label = int(hello.get("power", DEFAULT_POWER)), str(hello.get("label", ""))
            self.joined += 1
            self.clients.append(_Client(self, connection, happenings, power, label))
        except VicinalError as error:
            return str(error)
        welcome = {"stepped": stepped, "pid": os.getpid(), "loss": self.air.model.loss}
        connection.send(json.dumps(welcome).encode() + b"\n")
        return ""


class _Client:
    """A client's radio, and what it has yet to be told."""

    def __init__(self, host: Host, control: socket.socket, happenings: socket.socket, power: int, label: str) -> None:
        self.radio = host.air.radio(label or f"client {len(host.clients)}", power=power)
        self.radio.on_heard = self._on_heard
        self.radio.on_sent = self._on_sent
        self.number = host.joined
        self._label = label
        self._unsent: deque[tuple[bytes | None, int, bool | None]] = deque()
        self._fresh = False
        """the radio has data that were not sent yet"""
        self._host = host
        self._control = control
        self._happenings = happenings
        self._request = b""
        self._unfetched: deque[bytes] = deque()
        self._watching = False
        self._dropped = 0
        self.counters = {"heard": 0, "dropped: not fetched": 0, "dropped: not sent": 0}
        host.selector.register(control, selectors.EVENT_READ, self._read)

    # Requests

    def _read(self, events: int) -> None:
        try:
            octets = self._control.recv(REQUEST_MAX)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        self._request += octets
        if not octets or (len(self._request) > REQUEST_MAX and b"\n" not in self._request):
            self._leave()
            return
        *lines, self._request = self._request.split(b"\n")
        for line in lines:
            quiet = False
            try:
                request = json.loads(line)
                quiet = request.get("quiet") is True
                self._handle(request)
                if quiet:
                    continue
                answer: dict[str, Any] = {"now": self._host.air.now, "counters": self._all_counters()}
            except VicinalError as error:
                answer = {"refused": str(error)}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                answer = {"refused": f"not understood: {type(error).__name__}: {error}"}
            if quiet:
                answer["quiet"] = True
            # The client waits for it and reads nothing else there: it always fits.
            with contextlib.suppress(OSError):
                self._control.send(json.dumps(answer).encode() + b"\n")

    def _handle(self, request: dict[str, Any]) -> None:
        host, what = self._host, request["do"]
        if what == "advertise":
            data = None if request["data"] is None else bytes.fromhex(request["data"])
            self._advertise(data, int(request["interval"]), request["extended"])
        elif what == "move":
            lat, lon = int(request["lat"]), int(request["lon"])
            if abs(lat) > LATITUDE_MAX or abs(lon) > LONGITUDE_MAX:
                raise ValueError(f"no place on Earth: {lat}, {lon} (1e-7 degrees)")
            if host.plane is None:
                host.plane = Plane(lat, lon)
            self.radio.move(*host.plane.metres(lat, lon))
        elif what == "scan":
            if request["window"]:
                self.radio.scan(int(request["window"]), int(request["interval"]))
            else:
                self.radio.stop_scan()
        elif what == "loss":
            model = host.air.model._replace(loss=float(request["probability"]))
            model.check()
            host.air.model = model
        elif what == "advance":
            if host.clock:
                raise ValueError("the radio runs in real time: only stepped time is advanced")
            host.air.advance(host.air.now + int(request["by"]))
        elif what != "status":
            raise ValueError(f"do {what!r}")

    def _advertise(self, data: bytes | None, interval: int, extended: bool | None) -> None:
        if self._host.clock and self._fresh:
            if data is not None:
                check_interval(interval)
                check_data(data, len(data) > LEGACY_MAX if extended is None else extended)
            self._unsent.append((data, interval, extended))
            if len(self._unsent) > UNSENT_MAX:
                self._unsent.popleft()
                self.counters["dropped: not sent"] += 1
            return
        self.radio.advertise(data, interval, extended)
        self._fresh = data is not None

    def _on_sent(self) -> None:
        self._fresh = False
        if self._unsent:
            self._advertise(*self._unsent.popleft())

    def _all_counters(self) -> dict[str, int]:
        return {**self.counters, "sent": self.radio.sent}

    # What the radio hears

    def _on_heard(self, data: bytes, rssi: int, now: int) -> None:
        self.counters["heard"] += 1
        if len(self._unfetched) >= UNFETCHED_MAX:
            self._dropped += 1
            self.counters["dropped: not fetched"] += 1
            return
        if self._label and self._host.record is not None:
            self._write_down(data)
        self._unfetched.append(HEARD.pack(now, rssi, min(self._dropped, 0xFFFFFFFF)) + data)
        self._dropped = 0
        if not self._watching:
            self._pour()

    def _write_down(self, data: bytes) -> None:
        line = {"to": self._label, "radio": self.number, "time": time.time_ns() // 1_000_000, "data": data.hex()}
        assert self._host.record is not None
        self._host.record.write(json.dumps(line) + "\n")

    def _pour(self, events: int = 0) -> None:
        """As much as fits into the client's socket. The rest when it has fetched some."""
        while self._unfetched:
            try:
                self._happenings.send(self._unfetched[0])
            except BlockingIOError:
                self._watch(True)
                return
            except OSError:  # the client is gone, which its other socket will say
                self._unfetched.clear()
                break
            self._unfetched.popleft()
        self._watch(False)

    def _watch(self, on: bool) -> None:
        if on and not self._watching:
            self._host.selector.register(self._happenings, selectors.EVENT_WRITE, self._pour)
        elif self._watching and not on:
            self._host.selector.unregister(self._happenings)
        self._watching = on

    def _leave(self) -> None:
        self._watch(False)
        self._host.selector.unregister(self._control)
        self._control.close()
        self._happenings.close()
        self._host.clients.remove(self)
        self._host.air.remove(self.radio)
