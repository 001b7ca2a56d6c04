"""A client's side of what another process holds (_holder.py): finds it, or starts it."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from ._holder import ALREADY, HELLO_MAX

__all__ = ["PATIENCE", "Connection", "Refused", "call"]

PATIENCE = 15.0
"""seconds for the holder to be found or started: a Pi that starts Python under load takes a few"""


class Refused(Exception):
    """The holder does not take this client, and why."""


class Connection(NamedTuple):
    control: socket.socket
    """requests and their answers"""
    happenings: socket.socket
    """what happens there; not blocking"""
    welcome: dict[str, Any]


def call(path: Path, hello: dict[str, Any], start: list[str], kind: int = socket.SOCK_STREAM) -> Connection:
    """`start` are the arguments of the Python that holds it, if nobody does yet; `kind` is that of the happenings."""
    deadline = time.monotonic() + PATIENCE
    reason = ""
    while not (connection := _greet(path, hello, kind)):
        if time.monotonic() > deadline:
            raise Refused(f"no process that holds it could be reached in {PATIENCE:.0f} s {reason}".rstrip())
        reason = _start(start)
    return connection


def _greet(path: Path, hello: dict[str, Any], kind: int) -> Connection | None:
    """None: nobody is there, or somebody just goes."""
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    control.settimeout(PATIENCE)
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    welcome = b""
    try:
        control.connect(str(path))
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
    ours.setblocking(False)
    return Connection(control, ours, answer)


def _start(arguments: list[str]) -> str:
    """Starts the process, unless another does at this moment. What it had to say comes back."""
    done = subprocess.run(
        [sys.executable, *arguments],
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
