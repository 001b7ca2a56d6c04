"""A client's side of the virtual bus: finds the process that holds it, or starts it, and asks it things."""

import contextlib
import select
import socket
import threading
import time
from typing import Any

from .._caller import Refused, call
from ._records import PROTOCOL, RECORD, Kind, Record, socket_of
from .server import DEFAULT_BITRATE

__all__ = ["BusGone", "Link", "Refused"]

ANSWER_PATIENCE = 30.0
"""seconds for an answer, beside what the request itself may wait: a process that is stopped, not gone"""


class BusGone(Exception):
    """The process that held the bus ended."""


class Link:
    """Two sockets: on one, requests and their answers; on the other, what happens on the bus."""

    def __init__(self, channel: str, bitrate: int | None, stepped: bool | None, options: dict[str, Any]) -> None:
        self.channel = channel
        self._lock = threading.Lock()
        self._partly_read = b""
        hello = {"protocol": PROTOCOL, "bitrate": bitrate, "stepped": stepped, **options}
        start = ["-m", "vicinal_hw.can.server", channel, "--detach", "--bitrate", str(bitrate or DEFAULT_BITRATE)]
        start += ["--stepped"] * bool(stepped)
        self._control, self._happenings, welcome = call(
            socket_of(channel), hello, start + ["--stepped"] * bool(stepped)
        )
        self.bitrate: int = welcome["bitrate"]
        self.stepped: bool = welcome["stepped"]
        self.pid: int = welcome["pid"]
        self.epoch: int = welcome["epoch"]
        """nanoseconds, to be added to the bus's times"""

    def ask(self, record: Record, patience: float = 0.0) -> Record:
        """`patience`: seconds that the request itself may take."""
        with self._lock:
            self._control.settimeout(None if patience == float("inf") else ANSWER_PATIENCE + patience)
            try:
                self._control.sendall(record.pack())
                answer = b""
                while len(answer) < RECORD.size:
                    octets = self._control.recv(RECORD.size - len(answer))
                    if not octets:
                        raise BusGone
                    answer += octets
            except OSError as error:
                raise BusGone from error
        return Record.unpack(answer)

    def status(self) -> Record:
        return self.ask(Record(Kind.STATUS))

    def happening(self, timeout: float | None) -> Record | None:
        """The next one, or None when it took too long. It takes no more than one from the socket, so that a selector
        sees the next."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                octets = self._happenings.recv(RECORD.size - len(self._partly_read))
            except BlockingIOError:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                select.select([self._happenings], [], [], left)
                continue
            except OSError as error:
                raise BusGone from error
            if not octets:
                raise BusGone
            self._partly_read += octets
            if len(self._partly_read) == RECORD.size:
                record, self._partly_read = Record.unpack(self._partly_read), b""
                return record

    def fileno(self) -> int:
        return self._happenings.fileno()

    def close(self) -> None:
        for end in (self._control, self._happenings):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in it
            end.close()
