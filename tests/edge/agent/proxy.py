"""A network that does what it likes with datagrams: between a device and the CoAP service of its gateway."""

import select
import socket
import threading
from collections.abc import Callable

from vicinal.coap.message import Message, decode, encode

__all__ = ["Proxy"]


class Proxy:
    """`ask(path, request)` and `answer(path, response)` see what is below /release, and give what goes on, None:
    nothing does. While `cut` nothing goes at all."""

    def __init__(self, port: int) -> None:
        self.ask: Callable[[str, Message], Message | None] = lambda path, message: message
        self.answer: Callable[[str, Message], Message | None] = lambda path, message: message
        self.cut = False
        self._inner = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._inner.bind(("127.0.0.1", 0))
        self.port: int = self._inner.getsockname()[1]
        self._outer: dict[tuple[str, int], socket.socket] = {}
        self._gateway = ("127.0.0.1", port)
        self._paths: dict[bytes, str] = {}
        self._stopped = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stopped = True
        self._thread.join(10)
        for one in (self._inner, *self._outer.values()):
            one.close()

    def _serve(self) -> None:
        while not self._stopped:
            ready = select.select([self._inner, *self._outer.values()], [], [], 0.1)[0]
            for one in ready:
                try:
                    data, who = one.recvfrom(2000)
                except OSError:
                    continue  # nobody listens there now
                if self.cut:
                    continue
                if one is self._inner:
                    # A port for each boot of the device, as the gateway must tell them apart.
                    if who not in self._outer:
                        self._outer[who] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                        self._outer[who].connect(self._gateway)
                    self._pass(data, True, self._outer[who].send)
                else:
                    device = next(who for who, sock in self._outer.items() if sock is one)
                    self._pass(data, False, lambda out, device=device: self._inner.sendto(out, device))  # type: ignore[misc]

    def _pass(self, data: bytes, up: bool, send: Callable[[bytes], object]) -> None:
        message: Message | None = decode(data)
        assert message is not None
        path = "/".join(str(value, "utf-8") for number, value in message.options if number == 11)
        if up and path.startswith("release"):
            self._paths[message.token] = path
        path = self._paths.get(message.token, "") if message.token else ""
        if path:
            message = (self.ask if up else self.answer)(path, message)
        try:
            if message is not None:
                send(encode(message))
        except OSError:
            pass  # nobody listens there now
