"""What is larger than a datagram, block by block (RFC 7959).

aiocoap has this too, for whole resources: without a limit of size when it puts a request together, and with the newest
representation when blocks are asked for. Events are none: the blocks of a notification are those of that event, and the
next notification waits for them (`Outgoing.fetched`).
"""

import asyncio
import hashlib
from typing import Any

from aiocoap import Message
from aiocoap.numbers import codes
from aiocoap.optiontypes import BlockOption

__all__ = ["Answer", "Bodies", "Outgoing", "key_of"]

# Requests that are put together at once, and seconds that the next block of one may take (MAX_TRANSMIT_WAIT).
MAX_INCOMING = 32
PATIENCE = 93.0
# Bodies that are being fetched: 64 KiB at most each.
MAX_OUTGOING = 64
# 1,024 bytes: what passes everywhere in one datagram.
LARGEST = 6

Key = tuple[Any, ...]


class Answer(Exception):
    """Not what was asked for; the text goes with it."""

    def __init__(self, code: Any, text: str = "", **options: Any) -> None:
        super().__init__(text)
        self.code = code
        self.options = options

    def message(self) -> Message:
        found = Message(code=self.code, payload=str(self).encode()[:100].decode(errors="ignore").encode())
        for name, value in self.options.items():
            setattr(found.opt, name, value)
        return found


class Outgoing:
    def __init__(self, form: int, payload: bytes) -> None:
        self.form = form
        self.payload = payload
        self.etag = hashlib.sha256(payload).digest()[:8]
        self.fetched = asyncio.Event()
        """to the last block"""

    def block(self, number: int, exponent: int) -> Message:
        size = 16 << exponent
        if number * size >= len(self.payload) > 0:
            raise Answer(codes.BAD_OPTION, f"block {number} of {size} bytes is past the end, at {len(self.payload)}")
        piece = self.payload[number * size : (number + 1) * size]
        more = (number + 1) * size < len(self.payload)
        found = Message(code=codes.CONTENT, payload=piece)
        found.opt.content_format = self.form
        if number or more:
            found.opt.block2 = BlockOption.BlockwiseTuple(number, more, exponent)
            found.opt.etag = self.etag
            if number == 0:
                found.opt.size2 = len(self.payload)
        if not more:
            self.fetched.set()
        return found


class Bodies:
    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._incoming: dict[Key, tuple[float, bytearray]] = {}
        self._outgoing: dict[Key, Outgoing] = {}

    def whole(self, request: Message) -> bytes:
        """The body of a request. Raises Answer: 2.31 where more has to come, 4.08 and 4.13."""
        block = request.opt.block1
        if block is None:
            self._check(len(request.payload), None)
            body: bytes = request.payload
            return body
        key, now = key_of(request), asyncio.get_running_loop().time()
        for old in [one for one, (until, _) in self._incoming.items() if until <= now]:
            del self._incoming[old]
        start = block.block_number * (16 << min(block.size_exponent, LARGEST))
        size = request.opt.size1 or 0
        if max(size, start + len(request.payload)) > self.max_bytes:
            self._incoming.pop(key, None)
        self._check(max(size, start + len(request.payload)), block)
        if start == 0:
            self._incoming.pop(key, None)
            if len(self._incoming) >= MAX_INCOMING:
                raise Answer(codes.SERVICE_UNAVAILABLE, f"{MAX_INCOMING} large requests are under way", max_age=5)
            found = bytearray()
        else:
            found = self._incoming.get(key, (0.0, bytearray()))[1]
        if start + len(request.payload) == len(found) and start:
            pass  # that block came before: the answer was lost
        elif start != len(found):
            self._incoming.pop(key, None)
            raise Answer(codes.REQUEST_ENTITY_INCOMPLETE, f"a block at byte {start}, want {len(found)}")
        else:
            found += request.payload
        if block.more:
            self._incoming[key] = (now + PATIENCE, found)
            raise Answer(codes.CONTINUE, block1=block)
        self._incoming.pop(key, None)
        return bytes(found)

    def _check(self, size: int, block: Any) -> None:
        if size > self.max_bytes:
            options = {"size1": self.max_bytes} | ({"block1": block} if block is not None else {})
            raise Answer(
                codes.REQUEST_ENTITY_TOO_LARGE, f"it has {size} bytes, the limit is {self.max_bytes}", **options
            )

    def answer(self, request: Message, form: int, payload: bytes) -> tuple[Message, Outgoing]:
        """The first block of it, or all. The rest is kept for who asks for it."""
        block = request.opt.block2
        exponent = LARGEST if block is None else min(block.size_exponent, LARGEST)
        found = Outgoing(form, payload)
        message = found.block(0, exponent)
        if not found.fetched.is_set():
            key = key_of(request)
            self._outgoing.pop(key, None)
            if len(self._outgoing) >= MAX_OUTGOING:
                del self._outgoing[next(iter(self._outgoing))]
            self._outgoing[key] = found
        return message, found

    def later_block(self, request: Message) -> Message | None:
        """Of something that was answered before; None if the request asks for no such thing."""
        block = request.opt.block2
        if block is None or block.block_number == 0:
            return None
        found = self._outgoing.get(key_of(request))
        if found is None:
            raise Answer(codes.REQUEST_ENTITY_INCOMPLETE, "this is not known any more: begin again at block 0")
        message = found.block(block.block_number, min(block.size_exponent, LARGEST))
        if found.fetched.is_set() and len(self._outgoing) > MAX_OUTGOING // 2:
            self._outgoing.pop(key_of(request), None)
        return message


def key_of(request: Message) -> Key:
    """Who asks for what: the same for all blocks of it."""
    options = request.opt
    return (request.remote, request.code, options.uri_path, options.uri_query, options.accept)
