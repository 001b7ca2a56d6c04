"""What a gateway has in memory with every adapter that we have, all connected and nothing to do.

Brokers are real, but for ActiveMQ: a Java program is no part of a figure of ours, and a gateway at rest says no more to
it than a connection takes, which is answered here.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..peers.systems import started
from .configs import gateway

__all__ = ["resident"]

_COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()", "gateway", "run"]
_SETTLE = 3.0
_PATIENCE = 60.0


def resident(folder: Path) -> tuple[float, int]:
    """MB, and of how many services."""
    with (
        tempfile.TemporaryDirectory(dir=folder, prefix="bench-gateway-") as place,
        started("vicinal") as broker,
        started("mosquitto") as mosquitto,
        _stomp() as stomp,
    ):
        channel = f"bench-{os.getpid()}"
        services: list[dict[str, object]] = [
            {"name": "car", "type": "cosmic", "interface": "vicinal", "channel": channel, "tx_node": 5, "bind": True},
            {"name": "air", "type": "steam", "virtual": channel},
            {"name": "wide", "type": "siena", "address": f"tcp://127.0.0.1:{broker.port}"},
            {"name": "field", "type": "coap", "bind": "127.0.0.1:0"},
            {"name": "home", "type": "mqtt", "address": f"mqtt://127.0.0.1:{mosquitto.port}"},
            {"name": "office", "type": "jms", "address": f"stomp://127.0.0.1:{stomp}"},
        ]
        file = Path(place, "gateway.toml")
        file.write_text(gateway(*services, more='\n[status]\naddress = "http://127.0.0.1:0"\n'))
        with Path(place, "messages").open("wb") as said:
            process = subprocess.Popen([*_COMMAND, str(file), "--json"], stdout=subprocess.PIPE, stderr=said, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"the gateway did not start: {Path(place, 'messages').read_text()}")
            _wait_until_up(json.loads(line)["status"])
            time.sleep(_SETTLE)
            return _resident(process.pid), len(services)
        finally:
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def _wait_until_up(address: str) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        with urllib.request.urlopen(f"{address}/status", timeout=_PATIENCE) as answer:
            states = {one["name"]: (one["state"], one["reason"]) for one in json.load(answer)["services"]}
        if all(state == "up" for state, _ in states.values()):
            return
        if time.monotonic() > end:
            raise TimeoutError(f"not all services are up: {states}")
        time.sleep(0.05)


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/{pid}/status has no VmRSS")


@contextmanager
def _stomp() -> Iterator[int]:
    """Says CONNECTED, and a receipt for all that want one."""
    listening = socket.create_server(("127.0.0.1", 0))
    connected: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                one, _ = listening.accept()
            except OSError:
                return
            connected.append(one)
            threading.Thread(target=_answer, args=(one,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        for each in (listening, *connected):
            each.close()


def _answer(one: socket.socket) -> None:
    waiting = b""
    while True:
        try:
            data = one.recv(65536)
        except OSError:
            return
        if not data:
            return
        *frames, waiting = (waiting + data).split(b"\0")
        for frame in frames:
            head = frame.strip(b"\r\n").replace(b"\r", b"").partition(b"\n\n")[0].split(b"\n")
            receipts = [line.partition(b":")[2] for line in head if line.startswith(b"receipt:")]
            if head[0] in (b"CONNECT", b"STOMP"):
                one.sendall(b"CONNECTED\nversion:1.2\nheart-beat:0,0\nserver:bench\nsession:1\n\n\0")
            for receipt in receipts:
                one.sendall(b"RECEIPT\nreceipt-id:" + receipt + b"\n\n\0")
