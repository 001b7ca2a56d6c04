"""The two processes around a broker: one has all the publishers, the other all the subscribers.

    publishers ──── events ────▶ broker ──── deliveries ────▶ subscribers
        ▲                                                          │
        └──────────────── tickets (a pipe): so many came ──────────┘

A flood is as fast as the broker, and no faster: the publishers are at most a window of events ahead of what the subscribers
have received, the same for all systems, so that no broker is made to drop what it cannot queue. Each ticket, one byte,
stands for a quarter of the window.
"""

import os
import select
import socket
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

from .clients import PROTOCOLS, Subscriber
from .events import STEPS, packets, producer

__all__ = ["Published", "Received", "publish", "subscribe"]

# Without anything for so long, something was lost.
_PATIENCE = 5.0
_BUFFER = 256 << 10


class Published(NamedTuple):
    events: int
    began: float
    cpu: float
    sent: list[float]
    """when each was sent, if it was paced"""


class Received(NamedTuple):
    deliveries: int
    useful: int
    ended: float
    cpu: float
    wrong: str
    """what is wrong with what came, or nothing"""
    came: list[tuple[float, int]]
    """when how many had come, if that was asked for"""


def publish(
    system: str,
    port: int,
    connections: int,
    most: int,
    a_write: int,
    window: int,
    pace: float,
    seconds: float,
    control: Connection,
    tickets: Connection,
) -> None:
    """The process of the publishers. They take turns, `a_write` events each time, until `most` were sent or the time
    is over. With a `pace`, so many writes a second."""
    writes: list[tuple[socket.socket, bytes]] = []
    protocol = PROTOCOLS[system]
    turns = most // (connections * a_write)
    by_connection = []
    for number in range(connections):
        name = producer(number)
        one, prefix, suffix = protocol.publisher(port, name)
        made = packets(name, prefix, suffix, 0, turns * a_write)
        joined = [b"".join(made[at : at + a_write]) for at in range(0, len(made), a_write)]
        by_connection.append([(one, data) for data in joined])
    for turn in zip(*by_connection):
        writes.extend(turn)
    control.send("ready")
    control.recv()
    cpu = time.process_time()
    began = time.monotonic()
    if pace:
        sent = _paced(writes, pace, began + seconds)
        events = len(sent)
    else:
        sent = []
        events = _flood(writes, a_write, window, began + seconds, tickets.fileno())
    control.send(Published(events, began, time.process_time() - cpu, sent))
    control.recv()  # connections stay until everything has come


def _flood(writes: list[tuple[socket.socket, bytes]], a_write: int, window: int, end: float, tickets: int) -> int:
    sent = 0
    allowed = window
    for one, data in writes:
        if sent + a_write > allowed:
            if time.monotonic() >= end or not select.select([tickets], [], [], _PATIENCE)[0]:
                break
            allowed += len(os.read(tickets, 64)) * (window // 4)
        one.sendall(data)
        sent += a_write
    return sent


def _paced(writes: list[tuple[socket.socket, bytes]], pace: float, end: float) -> list[float]:
    sent = []
    due = time.monotonic()
    for one, data in writes:
        now = time.monotonic()
        if now < due:
            time.sleep(due - now)
            now = time.monotonic()
        if now >= end:
            break
        sent.append(now)
        one.sendall(data)
        due += 1 / pace
    return sent


def subscribe(
    system: str,
    port: int,
    filters: list[list[str]],
    wanted: list[list[int]],
    an_event: int,
    window: int,
    timed: bool,
    control: Connection,
    tickets: Connection,
) -> None:
    """The process of the subscribers: a connection for each list of filters. `wanted` has the steps that each is
    interested in, for those that get everything and must look, or nothing. An event is `an_event` deliveries."""
    found = PROTOCOLS[system].subscribers(port, filters)
    by_event = sum([one.size for one in found]) * an_event // len(found)
    reader = _Reader(found, wanted, by_event, window // 4, tickets.fileno(), control, timed)
    control.send("ready")
    control.recv()
    cpu = time.process_time()
    wrong = reader.read()
    counts = [divmod(came, one.size) for came, one in zip(reader.came, found)]
    if any([rest for _, rest in counts]):
        wrong = "the last delivery of a connection is not whole"
    deliveries = sum([count for count, _ in counts])
    useful = reader.useful if wanted else deliveries
    control.send(Received(deliveries, useful, reader.ended, time.process_time() - cpu, wrong, reader.times))


class _Reader:
    def __init__(
        self,
        subscribers: list[Subscriber],
        wanted: list[list[int]],
        by_event: int,
        a_ticket: int,
        tickets: int,
        control: Connection,
        timed: bool,
    ) -> None:
        self.sockets = [one.socket for one in subscribers]
        self.sizes = [one.size for one in subscribers]
        self.step_at = [one.step_at for one in subscribers]
        self.unwanted = [bytes(set(range(STEPS)) - set(steps)) for steps in wanted]
        self.by_event = by_event
        self.a_ticket = a_ticket
        self.tickets = tickets
        self.control = control
        self.timed = timed
        self.came = [0] * len(subscribers)
        """bytes by connection"""
        self.useful = 0
        self.ended = 0.0
        self.times: list[tuple[float, int]] = []

    def read(self) -> str:
        """Until as much has come as the control says, or nothing more comes."""
        poll = select.epoll()
        poll.register(self.control.fileno(), select.EPOLLIN)
        numbers = {}
        for number, one in enumerate(self.sockets):
            one.setblocking(False)
            poll.register(one.fileno(), select.EPOLLIN)
            numbers[one.fileno()] = number
        control = self.control.fileno()
        came, unwanted = self.came, self.unwanted
        receive = [one.recv_into for one in self.sockets]
        buffer = bytearray(_BUFFER)
        total = 0
        expected = -1
        a_ticket = self.by_event * self.a_ticket
        next_ticket = a_ticket
        while total != expected:
            ready = poll.poll(_PATIENCE)
            if not ready and expected >= 0:
                return f"{(expected - total) / self.by_event:,.1f} events did not arrive"
            for descriptor, _ in ready:
                if descriptor == control:
                    expected = self.control.recv() * self.by_event
                    poll.unregister(control)
                    continue
                number = numbers[descriptor]
                size = receive[number](buffer)
                if not size:
                    return f"the broker closed connection {number}"
                if unwanted:
                    first = (self.step_at[number] - came[number]) % self.sizes[number]
                    self.useful += len(buffer[first : size : self.sizes[number]].translate(None, unwanted[number]))
                came[number] += size
                total += size
            if total >= next_ticket:
                new = (total - next_ticket) // a_ticket + 1
                os.write(self.tickets, b"." * new)
                next_ticket += new * a_ticket
            if self.timed:
                self.times.append((time.monotonic(), total // self.by_event))
        self.ended = time.monotonic()
        return ""
