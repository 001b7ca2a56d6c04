"""Ten thousand TLS connections on one broker: how much memory they take, how fast they come, and that all are served.

A broker process (`vicinal broker run`) with a TLS listener that wants certificates; lean clients in processes of their
own, each of which makes its connections one after the other: TLS handshake with a certificate, hello, credit,
subscribe, and the answer. When all are there, one event is published, and each of them must get it.

    memory       resident, of the broker's process alone, at most until the event has reached all
    handshakes   client and broker share the machine, so that half of the work is the client's

Memory for each connection is the difference to the broker without any. All clients show the same certificate, which has
no common name; a broker that checks names does no more work for it.
"""

import asyncio
import json
import os
import resource
import selectors
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

from vicinal.event import Event
from vicinal.scope.graph import Tags
from vicinal.siena.messages import CLIENT, VERSION, encode
from vicinal_cloud.broker.address import Tls, parse
from vicinal_cloud.broker.client import connect

from . import Row

__all__ = ["Measured", "measure", "rows"]

GOAL_CONNECTIONS = 10_000
GOAL_MB = 1000
# They come at a hundred or two a second. Memory grows with their number and nothing else, so that fewer tell as much;
# VICINAL_CONNECTIONS=10000 makes them all.
_CONNECTIONS = 2000
_PROCESSES = 2
# A connection that has not answered by then never will.
_PATIENCE = 60.0
_FILES = 256
"""open besides connections"""


class Measured(NamedTuple):
    connections: int
    mb_before: float
    mb: float
    seconds: float
    """until all were there"""
    broker_cpu: float
    """seconds of it that the broker worked"""
    delivered: int
    last_ms: float
    """from the publish until all had it"""
    idle: float
    """of a core, that the broker takes when nothing happens"""

    @property
    def kb_each(self) -> float:
        return (self.mb - self.mb_before) * 1000 / self.connections


def rows(connections: int = 0) -> Iterator[Row]:
    count = connections or int(os.environ.get("VICINAL_CONNECTIONS", _CONNECTIONS))
    found = measure(count)
    most = (GOAL_MB - found.mb_before) * 1000 / GOAL_CONNECTIONS
    yield Row(
        f"broker: memory with {count:,} TLS connections",
        f"{found.mb:,.0f} MB, {found.kb_each:.0f} KB each",
        f"without any {found.mb_before:,.0f} MB; limit {GOAL_MB:,} MB with {GOAL_CONNECTIONS:,}, so {most:.0f} KB each",
        f"{found.kb_each / most:.2f} of it",
        "under the limit",
        found.kb_each < most,
    )
    yield Row(
        "broker: mutual TLS, hello and subscription",
        f"{count / found.seconds:,.0f} connections/s",
        f"the broker's part {found.broker_cpu * 1000 / count:.1f} ms of CPU each",
    )
    yield Row(
        f"broker: one event to {count:,} TLS connections",
        f"{found.last_ms:,.0f} ms until the last has it",
        f"{found.delivered:,} of {count:,} got it",
        "",
        "all",
        found.delivered == count,
    )
    yield Row(f"broker: {count:,} connections that say nothing", f"{found.idle * 100:.1f} % of a core")


def measure(count: int, own_filters: bool = False) -> Measured:
    """With `own_filters` each subscribes to something else besides, so that none covers another."""
    _room_for(count + _FILES)
    with tempfile.TemporaryDirectory(prefix="bench-connections-") as place:
        folder = Path(place)
        trust = _certificates(folder)
        with subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from vicinal_tools.main import main; main()",
                "broker",
                "run",
                str(_config(folder)),
                "--json",
                "--quiet",
            ],
            stdout=subprocess.PIPE,
            text=True,
        ) as broker:
            try:
                return _measure(count, own_filters, broker, trust)
            finally:
                broker.kill()


def _measure(count: int, own_filters: bool, broker: "subprocess.Popen[str]", trust: Tls) -> Measured:
    assert broker.stdout is not None
    address: str = json.loads(broker.stdout.readline())["listen"][0]
    before, cpu = _memory(broker.pid), _cpu(broker.pid)
    clients = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, address, *map(str, trust), str(first), str(last), str(int(own_filters))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first, last in _shares(count)
    ]
    try:
        begin = time.monotonic()
        for one in clients:
            _expect(one.stdout, "ready")
        seconds = time.monotonic() - begin
        worked = _cpu(broker.pid) - cpu
        cpu, quiet = _cpu(broker.pid), time.monotonic()
        time.sleep(3)
        idle = (_cpu(broker.pid) - cpu) / (time.monotonic() - quiet)
        begin = asyncio.run(_publish(address, trust))
        delivered = sum([int(_expect(one.stdout, "got")) for one in clients])
        last = time.monotonic() - begin
        return Measured(count, before, _memory(broker.pid), seconds, worked, delivered, last * 1000, idle)
    finally:
        for one in clients:
            one.kill()
            one.communicate()


def _shares(count: int) -> list[tuple[int, int]]:
    bounds = [count * at // _PROCESSES for at in range(_PROCESSES + 1)]
    return [(first, last) for first, last in pairwise(bounds) if last > first]


def _expect(said: "IO[str] | None", word: str) -> str:
    assert said is not None
    line = said.readline().split()
    if not line or line[0] != word:
        raise RuntimeError(f"a client process said {line}, not {word!r}")
    return line[1]


async def _publish(address: str, trust: Tls) -> float:
    """When."""
    async with await connect(address, "publisher", trust) as client:
        alarms = await client.advertise("subject = 'Alarm'")
        begin = time.monotonic()
        await client.publish(Event("Alarm", {"level": 3}), alarms)
        return begin


def _config(folder: Path) -> Path:
    lines = ["[broker]", 'name = "b1"', "[[listen]]", 'address = "tls://127.0.0.1:0"']
    lines += ['certificate = "b1.pem"', 'key = "b1.key"', 'ca = "ca.pem"']
    file = folder / "b1.toml"
    file.write_text("\n".join(lines))
    return file


def _certificates(folder: Path) -> Tls:
    """P-256, of an authority made for this run."""
    import trustme

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    for name in ("b1", "client"):
        found = authority.issue_cert("127.0.0.1", "localhost")
        found.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        for at, blob in enumerate(found.cert_chain_pems):
            blob.write_to_path(str(folder / f"{name}.pem"), append=at > 0)
    return Tls(folder / "client.pem", folder / "client.key", folder / "ca.pem")


def _memory(pid: int) -> float:
    """Resident at most so far, in MB of a million bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _room_for(files: int) -> None:
    """For this process and those it starts."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and files > hard:
        raise RuntimeError(f"{files} files must be open at once, the limit (ulimit -n -H) is {hard}")
    if soft != resource.RLIM_INFINITY and soft < files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))


# A process of clients

_WELCOME, _PING, _PONG, _ANSWER, _DELIVER = 1, 3, 4, 11, 12


class _Client:
    """Knows of the protocol what a frame is, and the type of a message, which is its second byte."""

    def __init__(self, number: int, address: tuple[str, int], context: ssl.SSLContext, own_filters: bool) -> None:
        """Blocks until the broker has answered the subscription."""
        self.socket = context.wrap_socket(socket.create_connection(address, _PATIENCE), server_hostname=address[0])
        self.got = 0
        self._data = b""
        self._ask(_WELCOME, ("hello", VERSION, CLIENT, f"car-{number}"))
        text = f"subject = 'Alarm' OR license_no = '{number}'" if own_filters else "subject = 'Alarm'"
        self._ask(_ANSWER, ("credit", 16), ("subscribe", 1, text, Tags(), None, None))
        self.socket.setblocking(False)

    def _ask(self, kind: int, *messages: tuple[Any, ...]) -> None:
        self.socket.sendall(b"".join([_framed(encode(message)) for message in messages]))
        while not (found := self._messages()):
            continue
        if [message[1] for message in found] != [kind]:
            raise RuntimeError(f"the broker said {found}, not a message of type {kind}")

    def _messages(self) -> list[bytes]:
        data = self.socket.recv(16384)
        if not data:
            raise RuntimeError("the broker closed a connection")
        self._data += data
        found = []
        while (place := _first_frame(self._data)) is not None:
            found.append(self._data[place])
            self._data = self._data[place.stop :]
        return found

    def serve(self) -> None:
        """What has come: the event, or a ping."""
        try:
            found = self._messages()
        except ssl.SSLWantReadError:
            return
        for message in found:
            if message[1] == _PING:
                self.socket.send(_framed(message[:1] + bytes((_PONG,)) + message[2:]))
            elif message[1] == _DELIVER:
                self.got += 1
            else:
                raise RuntimeError(f"the broker said {message!r}")


def _framed(data: bytes) -> bytes:
    """A frame is a CBOR byte string; those of a client here are short."""
    return (bytes((0x40 + len(data),)) if len(data) < 24 else bytes((0x58, len(data)))) + data


def _first_frame(data: bytes) -> slice | None:
    """Where the content of the first frame is, if all of it is there."""
    if not data:
        return None
    extra = {0x58: 1, 0x59: 2, 0x5A: 4}.get(data[0], 0)
    start = 1 + extra
    end = start + (int.from_bytes(data[1:start], "big") if extra else data[0] & 31)
    return slice(start, end) if len(data) >= end else None


def _clients(address: str, certificate: str, key: str, ca: str, first: str, last: str, own_filters: str) -> None:
    where = parse(address)
    context = Tls(Path(certificate), Path(key), Path(ca)).for_dialler()
    waiting = selectors.DefaultSelector()
    clients: list[_Client] = []

    def serve(seconds: float) -> None:
        for found, _ in waiting.select(seconds):
            client: Any = found.data
            client.serve()

    for number in range(int(first), int(last)):
        one = _Client(number, (where.host, where.port), context, bool(int(own_filters)))
        waiting.register(one.socket, selectors.EVENT_READ, one)
        clients.append(one)
        serve(0)
    print("ready", len(clients), flush=True)
    end = time.monotonic() + _PATIENCE
    while sum([one.got for one in clients]) < len(clients) and time.monotonic() < end:
        serve(1.0)
    print("got", len([one for one in clients if one.got == 1]), flush=True)
    sys.stdin.read()  # until the parent has looked at the broker


if __name__ == "__main__":
    _clients(*sys.argv[1:])
