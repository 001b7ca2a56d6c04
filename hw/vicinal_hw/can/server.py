"""The process that holds a virtual bus, so that others can come and go.

    python -m vicinal_hw.can.server NAME [--bitrate 500000] [--stepped] [--stay]

Who opens `can.Bus(interface="vicinal", channel=NAME)` first starts it in the background (--detach); it ends with its
last client, unless it was told to stay. So no client's death takes the bus away, and the death of the bus is a clear
error to all: who then opens it again starts a new one.

One process holds a name: the one that has the lock on NAME.lock. It listens before it says that it is ready.
"""

import argparse
import contextlib
import fcntl
import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path

from vicinal.errors import VicinalError

from ._host import Host
from ._records import socket_of

__all__ = ["ALREADY", "DEFAULT_BITRATE", "main"]

DEFAULT_BITRATE = 500_000
LINGER = 0.2
"""seconds without clients before the process ends: who closes and opens again finds the same bus"""
FIRST_CLIENT = 10.0
"""seconds for the first client to come: who started the process is on its way, or was killed on it"""
BACKLOG = 64
ALREADY = 3
"""exit code: another process holds this bus"""


def serve(listener: socket.socket, host: Host, stay: bool) -> None:
    """Until the last client left."""
    listener.setblocking(False)

    def accept(events: int) -> None:
        with contextlib.suppress(OSError):
            host.join(listener.accept()[0])

    host.selector.register(listener, selectors.EVENT_READ, accept)
    alone_until = time.monotonic() + FIRST_CLIENT
    while stay or host.clients or time.monotonic() < alone_until:
        had = bool(host.clients)
        host.turn(None if host.clients or stay else max(0.0, alone_until - time.monotonic()))
        if had and not host.clients:
            alone_until = time.monotonic() + LINGER


def _hold(path: Path) -> int | None:
    """The lock on the name, or None. It goes with the process, however that ends."""
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _detach(log: Path) -> bool:
    """Goes on in the background. True in the process that does. What it says goes to the log: it says why it failed."""
    if os.fork():
        return False
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for descriptor, goal in ((0, nothing), (1, said), (2, said)):  # else whoever reads our output waits for our end
        os.dup2(goal, descriptor)
    os.close(nothing)
    os.close(said)
    return True


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()  # left by one that was killed: we have the lock
    listener.bind(str(path))
    listener.listen(BACKLOG)
    return listener


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="vicinal_hw.can.server", description="holds a virtual CAN bus")
    parser.add_argument("name")
    parser.add_argument("--bitrate", type=int, default=DEFAULT_BITRATE)
    parser.add_argument("--stepped", action="store_true", help="time moves only when a client says so")
    parser.add_argument("--stay", action="store_true", help="do not end with the last client")
    parser.add_argument("--detach", action="store_true", help="go on in the background when ready")
    options = parser.parse_args(arguments)
    try:
        path = socket_of(options.name)
        host = Host(options.bitrate, None if options.stepped else time.monotonic_ns)
    except (ValueError, OSError, VicinalError) as error:
        print(f"can bus {options.name!r}: {error}", file=sys.stderr)
        return 2
    lock = _hold(path)
    if lock is None:
        print(f"can bus {options.name!r}: another process holds it", file=sys.stderr)
        return ALREADY
    listener = _listen(path)
    if options.detach and not _detach(path.with_suffix(".log")):
        os._exit(0)  # neither lock nor socket are ours any more
    if options.detach:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal that another started us from
    try:
        serve(listener, host, options.stay)
    except KeyboardInterrupt:
        pass
    finally:
        # Nobody can come once the name is gone; who is in the listener's backlog sees the end of file, and tries again.
        path.unlink(missing_ok=True)
        listener.close()
        if options.detach and sys.exc_info()[0] is None:
            path.with_suffix(".log").unlink(missing_ok=True)
        os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
