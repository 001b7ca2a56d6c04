"""The two processes around a broker: one has all the publishers, the other all the subscribers.

    publishers ──── events ────▶ broker ──── deliveries ────▶ subscribers
        ▲                                                          │
        └──────────────── tickets (a pipe): so many came ──────────┘

A flood is as fast as the broker, and no faster: the publishers are at most a window of events ahead of what the
subscribers have received, the same for all systems, so that no broker is made to drop what it cannot queue. Each
ticket, one byte, stands for a quarter of the window.

A worker is told what to do over its control pipe, says when it is ready, is told to go, and says what happened. CPU is
counted from there on: what it takes to connect and to encode is not.
"""

import os
import select
import socket
import sys
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

from .clients import PROTOCOLS, Subscriber
from .events import SHORT_SHARE, SHORTER, STEPS, are_short, packets, producer

__all__ = ["PATIENCE", "Published", "Publishing", "Received", "Subscribing", "main"]

# Without anything for so long, something was lost.
PATIENCE = 5.0
_BUFFER = 256 << 10


class Publishing(NamedTuple):
    """What the publishers do: they take turns, `a_write` events at a time, until `most` were sent or time is over."""

    system: str
    port: int
    connections: int
    most: int
    a_write: int
    window: int
    pace: int
    """writes a second, or 0: as fast as the window lets them"""
    seconds: float
    mixed: bool

    def work(self, control: Connection, tickets: Connection) -> None:
        writes = _writes(self)
        control.send("ready")
        control.recv()
        cpu = time.process_time()
        began = time.monotonic()
        if self.pace:
            sent = _paced(writes, self.pace, began + self.seconds)
            events, stuck = len(sent) * self.a_write, False
        else:
            sent = []
            events, stuck = _flood(writes, self, began + self.seconds, tickets.fileno())
        ended, cpu = time.monotonic(), time.process_time() - cpu
        short = self.count_short(events) if self.mixed else 0
        control.send(Published(events, began, ended, short, stuck, cpu, sent))
        control.recv()  # connections stay until everything has come

    def count_short(self, events: int) -> int:
        """Of so many that were sent. All connections have the same in their turns."""
        a_turn = self.a_write * self.connections
        flags = are_short(self.most // a_turn * self.a_write)
        turns, rest = divmod(events, a_turn)
        at = turns * self.a_write
        return sum(flags[:at]) * self.connections + sum(flags[at : at + self.a_write]) * (rest // self.a_write)


class Published(NamedTuple):
    events: int
    began: float
    ended: float
    short: int
    """how many of them are SHORTER, if they are mixed"""
    stuck: bool
    """whether they waited in vain for the subscribers"""
    cpu: float
    sent: list[float]
    """when each was sent, if they were paced; how long each took, if they were acknowledged"""


class Subscribing(NamedTuple):
    """What the subscribers do: a connection for each list of filters; they read until the control says how many events
    there were, and how many of them were short, and these have come."""

    system: str
    port: int
    filters: list[list[str]]
    wanted: list[list[int]]
    """the steps that each is interested in, for those that get everything and must look; or empty"""
    an_event: int
    """how many deliveries an event is"""
    window: int
    timed: bool
    short: list[bool]
    """whether a connection gets short events; empty if there are none"""
    keep: bool
    """whether to give back what came: for tests"""

    def work(self, control: Connection, tickets: Connection) -> None:
        found = PROTOCOLS[self.system].subscribers(self.port, self.filters)
        reader = _Reader(self, found, control, tickets.fileno())
        control.send("ready")
        control.recv()
        cpu = time.process_time()
        wrong = reader.read()
        cpu = time.process_time() - cpu
        counts = [divmod(came + saved, one.size) for came, saved, one in zip(reader.came, reader.saved, found)]
        if not wrong and any(rest for _, rest in counts):
            wrong = "the last delivery of a connection is not whole"
        deliveries = [count for count, _ in counts]
        useful = reader.useful if self.wanted else deliveries
        control.send(Received(deliveries, useful, reader.ended, cpu, wrong, reader.times, reader.kept))


class Received(NamedTuple):
    deliveries: list[int]
    """by connection"""
    useful: list[int]
    ended: float
    cpu: float
    wrong: str
    """what is wrong with what came, or nothing"""
    times: list[tuple[float, int]]
    """when how many events had come, if that was asked for"""
    kept: list[bytes]
    """all that came, by connection, if that was asked for"""


def _writes(plan: Publishing) -> list[tuple[socket.socket, bytes]]:
    turns = plan.most // (plan.connections * plan.a_write)
    by_connection = []
    for number in range(plan.connections):
        name = producer(number)
        one, wrap = PROTOCOLS[plan.system].publisher(plan.port, name)
        made = packets(name, wrap, turns * plan.a_write, plan.mixed)
        joined = [b"".join(made[at : at + plan.a_write]) for at in range(0, len(made), plan.a_write)]
        by_connection.append([(one, data) for data in joined])
    return [write for turn in zip(*by_connection) for write in turn]


def _flood(writes: list[tuple[socket.socket, bytes]], plan: Publishing, end: float, tickets: int) -> tuple[int, bool]:
    sent = 0
    allowed = plan.window
    for one, data in writes:
        while sent + plan.a_write > allowed:
            if time.monotonic() >= end:
                return sent, False
            if not select.select([tickets], [], [], PATIENCE)[0]:
                return sent, True
            allowed += len(os.read(tickets, 64)) * (plan.window // 4)
        one.sendall(data)
        sent += plan.a_write
    return sent, False


def _paced(writes: list[tuple[socket.socket, bytes]], pace: int, end: float) -> list[float]:
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


class _Reader:
    """Reads from all connections and counts bytes, and no more: all deliveries of a connection have one size. Where the
    subscribers must look, one slice takes the byte that matters out of all deliveries in the buffer, and one call
    throws away those that are not wanted."""

    def __init__(self, plan: Subscribing, found: list[Subscriber], control: Connection, tickets: int) -> None:
        self.sockets = [one.socket for one in found]
        self.sizes = [one.size for one in found]
        self.step_at = [one.step_at for one in found]
        self.unwanted = [bytes(set(range(STEPS)) - set(steps)) for steps in plan.wanted]
        self.by_event = sum(self.sizes) * plan.an_event // len(found)
        self.short = plan.short
        usual = self.by_event - SHORT_SHARE * SHORTER * sum(plan.short)
        self.a_ticket = round(usual * (plan.window // 4))
        self.timed = plan.timed
        self.control = control
        self.tickets = tickets
        self.came = [0] * len(found)
        """bytes by connection"""
        self.saved = [0] * len(found)
        """bytes that each has fewer than if no event were short"""
        self.useful = [0] * len(found)
        self.ended = 0.0
        self.kept = [b""] * len(found) if plan.keep else []
        self.times: list[tuple[float, int]] = []

    def read(self) -> str:
        """What went wrong."""
        poll = select.epoll()
        control = self.control.fileno()
        poll.register(control, select.EPOLLIN)
        numbers = {}
        for number, one in enumerate(self.sockets):
            one.setblocking(False)
            poll.register(one.fileno(), select.EPOLLIN)
            numbers[one.fileno()] = number
        came, unwanted = self.came, self.unwanted
        receive = [one.recv_into for one in self.sockets]
        buffer = bytearray(_BUFFER)
        total = 0
        expected = -1
        next_ticket = self.a_ticket
        while total < expected or expected < 0:
            ready = poll.poll(PATIENCE)
            if not ready and expected >= 0:
                return f"{(expected - total) / self.by_event:,.2f} of them did not arrive"
            for descriptor, _ in ready:
                if descriptor == control:
                    events, short = self.control.recv()
                    self.saved = [short * SHORTER * gets for gets in self.short] or self.saved
                    expected = events * self.by_event - sum(self.saved)
                    poll.unregister(control)
                    continue
                number = numbers[descriptor]
                size = receive[number](buffer)
                if not size:
                    return f"the broker has closed connection {number}"
                if unwanted:
                    first = (self.step_at[number] - came[number]) % self.sizes[number]
                    self.useful[number] += len(
                        buffer[first : size : self.sizes[number]].translate(None, unwanted[number])
                    )
                if self.kept:
                    self.kept[number] += buffer[:size]
                came[number] += size
                total += size
            if total >= next_ticket:
                new = (total - next_ticket) // self.a_ticket + 1
                os.write(self.tickets, b"." * new)
                next_ticket += new * self.a_ticket
            if self.timed:
                self.times.append((time.monotonic(), total // self.by_event))
        self.ended = time.monotonic()
        return f"{total - expected:,} bytes too many came" if total > expected else ""


def main() -> None:
    """The process. Its arguments are the descriptors of the control pipe and of the one for tickets."""
    control, tickets = (Connection(int(one)) for one in sys.argv[1:])
    control.recv().work(control, tickets)
