"""Datagrams between a CoAP client and its server: a UDP socket that never blocks, on MicroPython and on CPython.

    link = UdpLink("192.168.4.1", 5683)
    link.service(client, now)             what came goes in, what is to go goes out

A network that is away is no error here: what cannot be sent is lost like any datagram, and the client sends it again.
"""

import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from vicinal.coap.client import Client

    from .config import Config

__all__ = ["UdpLink", "link_of"]

# A little more than a message may have: a longer one is seen to be too long.
_ROOM = 1300
# Datagrams taken in one turn: others must have theirs.
_AT_ONCE = 16


class UdpLink:
    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.counters = {"in": 0, "out": 0, "lost": 0}
        self.socket: Any = None

    def open(self) -> bool:
        """Whether there is a socket, and an address of the host; tried again with the next datagram."""
        try:
            found = socket.getaddrinfo(self.host, self.port, 0, socket.SOCK_DGRAM)[0]
            made = socket.socket(found[0], socket.SOCK_DGRAM)
            made.setblocking(False)
            made.connect(found[-1])
        except OSError:
            return False
        self.socket = made
        return True

    def service(self, client: "Client", now: int) -> None:
        for _ in range(_AT_ONCE):
            data = self.receive()
            if data is None:
                break
            client.receive_data(data, now)
        due = client.next_timeout()
        if due is not None and now >= due:
            client.handle_timeout(now)
        while True:
            out = client.data_to_send()
            if out is None:
                return
            self.send(out)

    def receive(self) -> "bytes | None":
        if self.socket is None:
            return None
        try:
            data: bytes | None = self.socket.recv(_ROOM)
        except OSError:
            return None  # nothing there, or word that nobody listens: the client will notice
        if data:
            self.counters["in"] += 1
        return data or None

    def send(self, data: bytes) -> None:
        try:
            if self.socket is None and not self.open():
                raise OSError("no network")
            self.socket.send(data)
            self.counters["out"] += 1
        except OSError:
            self.counters["lost"] += 1

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def link_of(config: "Config") -> "UdpLink | None":
    return None if config.host is None else UdpLink(config.host, config.port)
