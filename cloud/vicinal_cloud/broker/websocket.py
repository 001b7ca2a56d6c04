"""A link inside WebSocket (RFC 6455): the same stream of frames, cut into binary messages anywhere.

Browsers speak nothing else. The protocol is the state machine of the `websockets` library; there is no task for each
connection.
"""

import asyncio
import logging

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from vicinal.siena.connection import BYE_NAMES, PROTOCOL, Connection
from vicinal.siena.messages import MAX_BYTES_BROKER

from .address import Address
from .link import Link, Owner

__all__ = ["WebSocketLink"]

# The library tells of every connection; the broker counts them.
_log = logging.getLogger("vicinal.broker.websocket")
_log.setLevel(logging.WARNING)


class WebSocketLink(Link):
    def __init__(self, owner: Owner, connection: Connection, dialled: Address | None = None) -> None:
        """`dialled` is the address that was called; without it this end accepts."""
        super().__init__(owner, connection)
        self._protocol: ClientProtocol | ServerProtocol
        if dialled is None:
            self._protocol = ServerProtocol(max_size=MAX_BYTES_BROKER, logger=_log)
        else:
            self._protocol = ClientProtocol(parse_uri(f"{dialled}/"), max_size=MAX_BYTES_BROKER, logger=_log)

    def started(self) -> None:
        if isinstance(self._protocol, ClientProtocol):
            self._protocol.send_request(self._protocol.connect())
            self._write()

    def arrived(self, data: bytes) -> None:
        protocol = self._protocol
        protocol.receive_data(data)
        now = self.owner.now()
        for event in protocol.events_received():
            if isinstance(event, Request) and isinstance(protocol, ServerProtocol):
                protocol.send_response(protocol.accept(event))
            elif isinstance(event, Frame):
                self._frame(event, now)
        self._write()
        if protocol.handshake_exc is not None:
            self.connection.bye(PROTOCOL, f"no WebSocket: {protocol.handshake_exc}")
        elif protocol.state is State.OPEN:
            self.flush()
        elif protocol.state is not State.CONNECTING:
            self.connection.receive_eof()

    def _frame(self, frame: Frame, now: int) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.CONT):
            self.connection.receive_data(bytes(frame.data), now)
        elif frame.opcode is Opcode.TEXT:
            self.connection.bye(PROTOCOL, "a text message, where messages are binary")

    def put(self, data: bytes) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_binary(data)
            self._write()

    def direct(self, transport: asyncio.Transport) -> int:
        return -1  # there is more around it

    def open_lane(self, lane: object) -> None:
        """What comes is not what was said."""

    def flush(self) -> int:
        # What is said before the handshake is done stays where it is.
        return super().flush() if self._protocol.state is State.OPEN else 0

    def finish(self, code: int) -> None:
        assert self.transport is not None
        if self._protocol.state is State.OPEN and not self.transport.is_closing():
            self._protocol.send_close(1000, BYE_NAMES[code] if code < len(BYE_NAMES) else "")
            self._write()

    def _write(self) -> None:
        assert self.transport is not None
        for data in self._protocol.data_to_send():
            if data:
                self.transport.write(data)
            elif self.transport.can_write_eof():
                self.transport.write_eof()
