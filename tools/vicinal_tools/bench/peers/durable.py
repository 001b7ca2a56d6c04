"""Publishes that are on disk before they are acknowledged, through the real broker.

One publisher sends with request numbers and reads the answers, at most WINDOW without one; a subscriber gets the
events. How long an answer takes is counted from the write that had its event.
"""

import socket
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

import cbor2

from .clients import PROTOCOLS, frame
from .events import SIZE, packets, producer
from .workers import Published

__all__ = ["WINDOW", "PublishingDurably"]

WINDOW = 500
_A_WRITE = 50
# All requests, and so all answers, have one size.
_FIRST_REQUEST = 1 << 16
_ANSWER = len(frame(11, _FIRST_REQUEST, True, 0))


class PublishingDurably(NamedTuple):
    port: int
    most: int
    seconds: float

    def work(self, control: Connection, tickets: Connection) -> None:
        one, writes = self._prepare()
        control.send("ready")
        control.recv()
        cpu = time.process_time()
        began = time.monotonic()
        answers = _Answers(one)
        for data in writes:
            while answers.missing + _A_WRITE > WINDOW:
                answers.read()
            now = time.monotonic()
            if now >= began + self.seconds:
                break
            answers.sent.extend([now] * _A_WRITE)
            one.sendall(data)
        while answers.missing:
            answers.read()
        ended = time.monotonic()
        answers.check()
        control.send(Published(len(answers.sent), began, ended, 0, False, time.process_time() - cpu, answers.late))
        control.recv()  # connections stay until everything has come

    def _prepare(self) -> tuple[socket.socket, list[bytes]]:
        name = producer(0)
        one, wrap = PROTOCOLS["vicinal"].publisher(self.port, name)
        advertisement = cbor2.loads(cbor2.loads(wrap(SIZE)[0] + bytes(SIZE)))[2]
        head = frame(10, _FIRST_REQUEST, advertisement, bytes(SIZE))[:-SIZE]
        at = head.index(_FIRST_REQUEST.to_bytes(4, "big"))
        made = [
            head[:at] + (_FIRST_REQUEST + number).to_bytes(4, "big") + head[at + 4 :] + event
            for number, event in enumerate(packets(name, lambda _: (b"", b""), self.most))
        ]
        return one, [b"".join(made[at : at + _A_WRITE]) for at in range(0, len(made), _A_WRITE)]


class _Answers:
    def __init__(self, one: socket.socket) -> None:
        self.socket = one
        self.sent: list[float] = []
        self.late: list[float] = []
        self._bytes = 0
        self._last = b""

    @property
    def missing(self) -> int:
        return len(self.sent) - len(self.late)

    def read(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the broker has closed the connection")
        now = time.monotonic()
        self._bytes += len(data)
        self._last = (self._last + data)[-_ANSWER:]
        self.late.extend([now - sent for sent in self.sent[len(self.late) : self._bytes // _ANSWER]])

    def check(self) -> None:
        """The last answer is that to the last request, and in order."""
        wanted = [11, _FIRST_REQUEST + len(self.sent) - 1, True]
        if self._bytes % _ANSWER or cbor2.loads(cbor2.loads(self._last))[:3] != wanted:
            raise ConnectionError(f"the last answer is {self._last.hex()}, want one of {wanted}")
