"""A client's side of the virtual bus: finds the process that holds it, or starts it, and asks it things."""

import contextlib
import json
import select
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from ._records import HELLO_MAX, PROTOCOL, RECORD, Kind, Record, socket_of
from .server import ALREADY, DEFAULT_BITRATE

__all__ = ["BusGone", "Link", "Refused"]

PATIENCE = 15.0
"""seconds for a bus to be found or started: a Pi that starts Python under load takes a few"""
ANSWER_PATIENCE = 30.0
"""seconds for an answer, beside what the request itself may wait: a process that is stopped, not gone"""


class BusGone(Exception):
    """The process that held the bus ended."""


class Refused(Exception):
    """The bus does not take this client, and why."""


class Link:
    """Two sockets: on one, requests and their answers; on the other, what happens on the bus."""

    def __init__(self, channel: str, bitrate: int | None, stepped: bool | None, options: dict[str, Any]) -> None:
        self.channel = channel
        self._lock = threading.Lock()
        self._partly_read = b""
        hello = {"protocol": PROTOCOL, "bitrate": bitrate, "stepped": stepped, **options}
        deadline = time.monotonic() + PATIENCE
        reason = ""
        while not (welcome := self._greet(hello)):
            if time.monotonic() > deadline:
                raise Refused(f"no process that holds it could be reached in {PATIENCE:.0f} s {reason}".rstrip())
            reason = self._start(bitrate or DEFAULT_BITRATE, bool(stepped))
        self.bitrate: int = welcome["bitrate"]
        self.stepped: bool = welcome["stepped"]
        self.pid: int = welcome["pid"]
        self.epoch: int = welcome["epoch"]
        """nanoseconds, to be added to the bus's times"""

    def _greet(self, hello: dict[str, Any]) -> dict[str, Any] | None:
        """None: nobody is there, or somebody just goes."""
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        control.settimeout(PATIENCE)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        welcome = b""
        try:
            control.connect(str(socket_of(self.channel)))
            socket.send_fds(control, [json.dumps(hello).encode() + b"\n"], [theirs.fileno()])
            while not welcome.endswith(b"\n") and (octets := control.recv(HELLO_MAX)):
                welcome += octets
        except OSError:
            welcome = b""
        finally:
            theirs.close()
        answer: dict[str, Any] = json.loads(welcome) if welcome.endswith(b"\n") else {}
        if not answer or "refused" in answer:
            control.close()
            ours.close()
            if answer:
                raise Refused(answer["refused"])
            return None
        self._control = control
        self._happenings = ours
        ours.setblocking(False)
        return answer

    def _start(self, bitrate: int, stepped: bool) -> str:
        """Starts the process, unless another does at this moment. What it had to say comes back."""
        command = [sys.executable, "-m", "vicinal_hw.can.server", self.channel, "--detach", "--bitrate", str(bitrate)]
        done = subprocess.run(
            command + ["--stepped"] * stepped,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        if done.returncode == ALREADY:
            time.sleep(0.02)  # it is about to listen, or to end
        elif done.returncode:
            raise Refused(done.stderr.strip())
        return done.stderr.strip()

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
