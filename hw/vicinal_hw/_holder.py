"""The process that holds a virtual bus or radio for all processes of one user, and how it begins and ends.

    client                                       holder, found by the name of its socket
      │ hello, a JSON line, and with it one end    │
      │ of a socket pair, for what it receives     │
      ├───────────────────────────────────────────▶│
      │◀───────────────────────────────────────────┤ welcome or refusal, a JSON line

Who comes first starts it in the background; it ends with its last client, unless it was told to stay. So no client's
death takes the bus away, and the death of the holder is a clear error to all: who then comes again starts a new one.
One process holds a name: the one that has the lock on NAME.lock. It listens before it says that it is ready.
"""

import contextlib
import fcntl
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

__all__ = ["ALREADY", "HELLO_MAX", "Host", "folder", "receive_hello", "run", "socket_of"]

HELLO_MAX = 1024
"""bytes; a hello is some hundred"""
NAME_MAX = 64
"""characters of a name: a Unix socket's path has room for 107 bytes in all"""
LINGER = 0.2
"""seconds without clients before the process ends: who closes and opens again finds the same one"""
FIRST_CLIENT = 10.0
"""seconds for the first client to come: who started the process is on its way, or was killed on it"""
BACKLOG = 64
ALREADY = 3
"""exit code: another process holds this name"""


class Host(Protocol):
    """What is held, and its clients."""

    clients: list[Any]
    selector: selectors.BaseSelector

    def join(self, connection: socket.socket) -> None: ...
    def turn(self, patience: float | None) -> None: ...


def folder(kind: str) -> Path:
    """Where the sockets of this user's buses ("can") or radios ("ble") are. Nobody else may look into it."""
    base = os.environ.get(f"VICINAL_{kind.upper()}_DIR") or os.environ.get("XDG_RUNTIME_DIR")
    name = f"vicinal-{kind}"
    path = Path(base, name) if base else Path(tempfile.gettempdir(), f"{name}-{os.getuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{path} must belong to this user alone: it has the sockets of virtual buses and radios")
    return path


def socket_of(kind: str, name: str) -> Path:
    if not 1 <= len(name) <= NAME_MAX or not all(sign.isalnum() or sign in "_.-" for sign in name):
        raise ValueError(f"channel {name!r}: 1 to {NAME_MAX} letters, digits, '_', '.', '-'")
    return folder(kind) / f"{name}.sock"


def run(label: str, path: Path, host: Host, stay: bool, detach: bool) -> int:
    """Holds it until the last client left; the exit code. `label` says to people what it is."""
    lock = _hold(path)
    if lock is None:
        print(f"{label}: another process holds it", file=sys.stderr)
        return ALREADY
    listener = _listen(path)
    if detach and not _detach(path.with_suffix(".log")):
        os._exit(0)  # neither lock nor socket are ours any more
    if detach:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal that another started us from
    try:
        _serve(listener, host, stay)
    except KeyboardInterrupt:
        pass
    finally:
        # Nobody can come once the name is gone; who is in the listener's backlog sees the end of file, and tries again.
        path.unlink(missing_ok=True)
        listener.close()
        os.close(lock)
    return 0


def receive_hello(
    selector: selectors.BaseSelector,
    connection: socket.socket,
    admit: Callable[[dict[str, Any], socket.socket, socket.socket], str],
) -> None:
    """A connection was made. Its hello is answered when it is complete: `admit` has the hello, the connection and the
    socket that came with it, and says why not; '' is welcome, and then both sockets are its own."""
    connection.setblocking(False)
    octets = b""
    descriptors: list[int] = []

    def read(events: int) -> None:
        nonlocal octets
        try:
            more, came, _, _ = socket.recv_fds(connection, HELLO_MAX, 4)
        except OSError:
            more, came = b"", []
        octets += more
        descriptors.extend(came)
        if b"\n" not in octets and more and len(octets) < HELLO_MAX:
            return
        selector.unregister(connection)
        reason = f"{len(descriptors)} sockets came with the hello, not one"
        if len(descriptors) == 1:
            happenings = socket.socket(fileno=descriptors.pop())
            happenings.setblocking(False)
            try:
                reason = admit(json.loads(octets), connection, happenings)
            except (ValueError, KeyError, TypeError) as error:
                reason = f"not a hello: {error}"
            if reason:
                happenings.close()
        if reason:
            with contextlib.suppress(OSError):
                connection.send(json.dumps({"refused": reason}).encode() + b"\n")
            connection.close()
            for descriptor in descriptors:
                os.close(descriptor)

    selector.register(connection, selectors.EVENT_READ, read)


def _serve(listener: socket.socket, host: Host, stay: bool) -> None:
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
