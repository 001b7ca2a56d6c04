"""How each protocol connects, publishes and subscribes, with nothing but a socket.

All three put an event between a prefix and a suffix that depend on its size alone, both ways:

                 publish                                    delivery
    Vicinal      58 69 [10, null, advertisement, event]     58 70 [12, [subscription], event, null, []]
    mosquitto    30 64 0005 Speed event                     the same; QoS 0
    nats         PUB Speed 93 CRLF event CRLF               MSG Speed 1 93 CRLF event CRLF

so that a client sends what was put together before, and who receives knows how long each delivery is.
"""

import socket
import time
from typing import Any, NamedTuple, Protocol

import cbor2

from .events import SIZE, STEP_AT, Wrap

__all__ = ["PROTOCOLS", "Publisher", "Subscriber", "frame"]


class Publisher(NamedTuple):
    socket: socket.socket
    wrap: Wrap


class Subscriber(NamedTuple):
    socket: socket.socket
    size: int
    """of one delivery"""
    step_at: int
    """where in it the byte of the rate is (events.STEP_AT)"""


class Client(Protocol):
    filters: bool
    """whether subscriptions have content: then what comes need not be looked at"""

    def publisher(self, port: int, name: str) -> Publisher: ...

    def subscribers(self, port: int, filters: list[list[str]]) -> list[Subscriber]:
        """A connection for each list, with those subscriptions; who cannot subscribe to content gets everything."""


def _connect(port: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port), timeout=20)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


def _exactly(one: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = one.recv(size - len(data))
        if not more:
            raise ConnectionError("the broker has closed the connection")
        data += more
    return data


def _until(one: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        data += _exactly(one, 1)
    return data


def frame(*message: object) -> bytes:
    return cbor2.dumps(cbor2.dumps(message))


class _Vicinal:
    filters = True

    def publisher(self, port: int, name: str) -> Publisher:
        one = self._hello(port, name)
        one.sendall(frame(6, 1, "subject = 'Speed'", [True]))
        advertisement = self._answer(one)
        return Publisher(one, lambda size: (frame(10, None, advertisement, bytes(size))[:-size], b""))

    def subscribers(self, port: int, filters: list[list[str]]) -> list[Subscriber]:
        found = []
        event = bytes(SIZE)
        for number, texts in enumerate(filters):
            one = self._hello(port, f"s{number}")
            one.sendall(b"".join([frame(8, 1, text, [True], None, None) for text in texts]))
            keys = [self._answer(one) for _ in texts]
            frames = [frame(12, [key], event, None, []) for key in keys]
            if len({len(one) for one in frames}) > 1:
                raise ValueError(f"deliveries to subscriptions {keys} have several sizes")
            one.sendall(frame(5, 1 << 40))
            found.append(Subscriber(one, len(frames[0]), frames[0].index(event) + STEP_AT))
        for subscriber in found:
            self._be_heard(subscriber.socket)
        return found

    def _be_heard(self, one: socket.socket) -> None:
        """A broker pings who was silent for 15 seconds: begin them anew, so that nothing but deliveries comes."""
        one.sendall(frame(3, 1))
        while (message := self._read(one))[0] != 4:
            if message[0] != 3:
                raise ConnectionError(f"instead of a pong: {message}")
            one.sendall(frame(4, message[1]))

    def _hello(self, port: int, name: str) -> socket.socket:
        one = _connect(port)
        one.sendall(frame(0, 1, 0, name))
        welcome = self._read(one)
        if welcome[0] != 1:
            raise ConnectionError(f"no welcome: {welcome}")
        return one

    def _answer(self, one: socket.socket) -> int:
        answer = self._read(one)
        if answer[0] != 11 or answer[2] is not True:
            raise ConnectionError(f"refused: {answer}")
        return int(answer[3])

    def _read(self, one: socket.socket) -> list[Any]:
        size = _exactly(one, 1)[0] - 0x40
        if size >= 24:
            size = int.from_bytes(_exactly(one, 1 << (size - 24)), "big")
        found: list[Any] = cbor2.loads(_exactly(one, size))
        return found


class _Mosquitto:
    filters = False

    def publisher(self, port: int, name: str) -> Publisher:
        return Publisher(self._hello(port, name), lambda size: (self._message(size)[:-size], b""))

    def subscribers(self, port: int, filters: list[list[str]]) -> list[Subscriber]:
        found = []
        head = len(self._message(SIZE)) - SIZE
        for number in range(len(filters)):
            one = self._hello(port, f"s{number}")
            one.sendall(self._packet(b"\x82", b"\x00\x01\x00\x05Speed\x00"))
            answer = _exactly(one, 5)
            if answer != b"\x90\x03\x00\x01\x00":
                raise ConnectionError(f"no SUBACK: {answer.hex()}")
            found.append(Subscriber(one, head + SIZE, head + STEP_AT))
        return found

    def _hello(self, port: int, name: str) -> socket.socket:
        one = _connect(port)
        # Clean session, and no keep-alive: nothing but messages passes.
        text = name.encode()
        one.sendall(self._packet(b"\x10", b"\x00\x04MQTT\x04\x02\x00\x00" + len(text).to_bytes(2, "big") + text))
        answer = _exactly(one, 4)
        if answer != b"\x20\x02\x00\x00":
            raise ConnectionError(f"no CONNACK: {answer.hex()}")
        return one

    def _message(self, size: int) -> bytes:
        return self._packet(b"\x30", b"\x00\x05Speed" + bytes(size))

    def _packet(self, kind: bytes, body: bytes) -> bytes:
        size = len(body)
        if size > 127:
            return kind + bytes([size & 0x7F | 0x80, size >> 7]) + body
        return kind + bytes([size]) + body


class _Nats:
    filters = False

    def publisher(self, port: int, name: str) -> Publisher:
        return Publisher(self._hello(port), lambda size: (f"PUB Speed {size}\r\n".encode(), b"\r\n"))

    def subscribers(self, port: int, filters: list[list[str]]) -> list[Subscriber]:
        head = len(f"MSG Speed 1 {SIZE}\r\n")
        found = []
        for _ in filters:
            one = self._hello(port)
            one.sendall(b"SUB Speed 1\r\nPING\r\n")
            _until(one, b"PONG\r\n")
            found.append(Subscriber(one, head + SIZE + 2, head + STEP_AT))
        # A second after a connection was made the server asks for a round trip, and then for none in two minutes: it
        # gets it before anything is measured, so that nothing but messages comes.
        end = time.monotonic() + 10
        for subscriber in found:
            subscriber.socket.settimeout(max(end - time.monotonic(), 0.01))
            _until(subscriber.socket, b"PING\r\n")
            subscriber.socket.sendall(b"PONG\r\n")
        return found

    def _hello(self, port: int) -> socket.socket:
        one = _connect(port)
        _until(one, b"\r\n")  # INFO {...}
        one.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n')
        _until(one, b"PONG\r\n")
        return one


PROTOCOLS: dict[str, Client] = {"vicinal": _Vicinal(), "mosquitto": _Mosquitto(), "nats": _Nats()}
