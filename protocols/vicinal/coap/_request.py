"""One request and what comes of it, block by block (RFC 7959), with Echo (RFC 9175) where a server wants to see an
address answer.

    message(...)  the next message of it             digest(answer)   AGAIN: there is a next one; DONE: see `answer`

A body is sent in blocks where it is longer than one, and smaller ones if the server asks for them. An answer in blocks
is put together up to `max_body`, or given away block by block to a `sink(offset, data)` and kept nowhere.
"""

from .._compat import const
from .message import (
    ACCEPT,
    BLOCK1,
    BLOCK2,
    CONTENT_FORMAT,
    CONTINUE,
    ECHO,
    ETAG,
    MAX_AGE,
    NO_RESPONSE,
    OBSERVE,
    SIZE1,
    SIZE2,
    TOO_LARGE,
    UNAUTHORIZED,
    URI_PATH,
    URI_QUERY,
    dotted,
    uint,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from .message import Message

__all__ = ["AGAIN", "DONE", "Answer", "Request"]

DONE, AGAIN = 0, 1
# Options of an answer that must be understood, and are: If-Match and the Uri ones are for requests (RFC 7252, 5.4.1).
_CRITICAL = (BLOCK2, BLOCK1)
# 2 + 8 + 16: of all classes (RFC 7967).
_NO_ANSWER = const(26)
# Block numbers have 20 bits.
_MAX_BLOCKS = 1 << 20


class Answer:
    """`code` as on the wire, 0 where there was none: `reason` says why. `payload` is the whole body."""

    __slots__ = ("code", "form", "max_age", "observed", "payload", "reason")

    def __init__(self, code: int, payload: bytes = b"", form: "int | None" = None, reason: str = "") -> None:
        self.code = code
        self.payload = payload
        self.form = form
        self.max_age: int | None = None
        self.observed = False
        """whether more will come"""
        self.reason = reason or ("" if self.ok else _said(code, payload))

    @property
    def ok(self) -> bool:
        return self.code >> 5 == 2


def _said(code: int, payload: bytes) -> str:
    """What a server that refuses has to say, as far as it is text."""
    try:
        text = str(payload[:100], "utf-8")
    except UnicodeError:
        text = ""
    return f"{dotted(code)} {text}".rstrip()


class Request:
    def __init__(
        self,
        code: int,
        path: "Sequence[str]",
        on_answer: "Callable[[Answer, int], None] | None" = None,
        payload: bytes = b"",
        form: "int | None" = None,
        accept: "int | None" = None,
        queries: "Sequence[str]" = (),
        confirmable: bool = True,
        answered: bool = True,
        sink: "Callable[[int, bytes], None] | None" = None,
    ) -> None:
        """`answered` False: the server need not say anything (RFC 7967), and nobody waits for it."""
        self.code = code
        self.path = path
        self.on_answer = on_answer
        self.payload = payload
        self.form = form
        self.accept = accept
        self.queries = queries
        self.confirmable = confirmable
        self.answered = answered
        self.sink = sink
        self.gives_way = False
        """what waits goes between two blocks of it"""
        self.token = b""
        self.observe: int | None = None
        """0: from now on; 1: no more"""
        self.refresh = 0
        self.number: int | None = None  # of the last notification, and when it came
        self.heard = 0
        self.due: int | None = None
        self.of: Request | None = None
        """the observation whose notification this fetches the rest of"""
        self.answer: Answer | None = None
        self.size = 0  # exponent of the blocks, 16 << size bytes
        self.max_body = 0
        self._echo: bytes | None = None
        self.restart()

    def restart(self) -> None:
        self._sent = 0  # bytes of the body that the server has
        self._got = 0  # bytes of the answer that are here
        self._body: Any = b""  # a bytearray when there is a second block
        self._form: int | None = None
        self._etag: bytes | None = None
        self._again = 0

    @property
    def in_middle(self) -> bool:
        """Blocks of it have gone or come: the next message has no Observe, and a token of its own."""
        return bool(self._sent or self._got)

    def content(self) -> "tuple[list[tuple[int, bytes]], bytes]":
        """Options and payload of the next message."""
        options: list[tuple[int, bytes]] = []
        step = 16 << self.size
        rest = len(self.payload) - self._sent
        fetching = self._got > 0
        if self.observe is not None and not fetching:
            options.append((OBSERVE, uint(self.observe)))
        for part in self.path:
            options.append((URI_PATH, part.encode()))
        if self.form is not None and not fetching:
            options.append((CONTENT_FORMAT, uint(self.form)))
        for part in self.queries:
            options.append((URI_QUERY, part.encode()))
        if self.accept is not None:
            options.append((ACCEPT, uint(self.accept)))
        if fetching:
            options.append((BLOCK2, uint(self._got // step << 4 | self.size)))
        elif self.code == 1 and self.size < 6:
            options.append((BLOCK2, uint(self.size)))
        in_blocks = not fetching and len(self.payload) > step
        if in_blocks:
            options.append((BLOCK1, uint(self._sent // step << 4 | (rest > step) << 3 | self.size)))
            if not self._sent:
                options.append((SIZE1, uint(len(self.payload))))
        if self._echo is not None:
            options.append((ECHO, self._echo))
        if not self.answered:
            options.append((NO_RESPONSE, uint(_NO_ANSWER)))
        if fetching:
            return options, b""
        return options, self.payload[self._sent : self._sent + step] if in_blocks else self.payload

    def begin_fetch(self, message: "Message") -> int:
        """Of an observation: what the first block of a notification leaves to be done."""
        self.restart()
        return self._block2(message)

    def digest(self, message: "Message") -> int:
        for number, _ in message.options:
            if number & 1 and number not in _CRITICAL:
                return self.fail(f"option {number} of the answer is critical, and not known")
        code = message.code
        if code == UNAUTHORIZED and self._echo is None:
            self._echo = message.first(ECHO, 40)
            if self._echo is not None:
                return AGAIN
        block1 = message.uint(BLOCK1, 3)
        step = 16 << self.size
        if block1 is not None and len(self.payload) > step:
            if code == TOO_LARGE and block1 & 7 < self.size and not self._sent:
                self.size = block1 & 7
                return AGAIN
            if code == CONTINUE:
                if block1 >> 4 != self._sent // step:
                    return self.fail(f"block {block1 >> 4} is acknowledged, {self._sent // step} was sent")
                self._sent += step
                if self._sent >= len(self.payload):
                    return self.fail("more is wanted after the last block")
                self.size = min(self.size, block1 & 7)
                return AGAIN
        if code == CONTINUE:
            return self.fail("2.31 for what was sent whole")
        if code >> 5 == 2 and self.code != 3:
            return self._block2(message)
        return self._finish(message, message.payload)

    def _block2(self, message: "Message") -> int:
        block = message.uint(BLOCK2, 3)
        payload = message.payload
        if block is None:
            if self._got:
                return self.fail(f"no block {self._got >> 4 + self.size}, but a whole answer")
            return self._whole(message, payload)
        size, more = block & 7, block & 8
        at = (block >> 4) << 4 + size
        if size == 7 or (more and len(payload) != 16 << size) or len(payload) > 16 << size:
            return self.fail(f"a block of {len(payload)} bytes that says it has {16 << size}")
        etag = message.first(ETAG, 8)
        if at != self._got or (at and (etag != self._etag or size > self.size)):
            if etag != self._etag and self._again < 2 and self.of is None:
                again = self._again + 1
                self.restart()  # it has changed meanwhile
                self._again = again
                return AGAIN
            return self.fail(f"a block at byte {at} of another body, want byte {self._got}")
        total = max(message.uint(SIZE2) or 0, at + len(payload) + (1 if more else 0))
        if self.sink is None and total > self.max_body:
            return self.fail(f"the answer has {total} bytes or more, the limit is {self.max_body}")
        if at == 0:
            self._etag, self._form = etag, message.uint(CONTENT_FORMAT, 2)
        if not at and not more:
            return self._whole(message, payload)
        if self.sink is not None:
            self.sink(at, payload)
        elif at:
            self._body.extend(payload)
        else:
            self._body = bytearray(payload)
        self._got = at + len(payload)
        self.size = size
        if more:
            if self._got >> 4 + size >= _MAX_BLOCKS:
                return self.fail(f"the answer has more than {_MAX_BLOCKS} blocks")
            return AGAIN
        return self._finish(message, b"" if self.sink is not None else bytes(self._body))

    def _whole(self, message: "Message", payload: bytes) -> int:
        if self.sink is None:
            if len(payload) > self.max_body:
                return self.fail(f"the answer has {len(payload)} bytes, the limit is {self.max_body}")
            return self._finish(message, payload)
        self.sink(0, payload)
        return self._finish(message, b"")

    def _finish(self, message: "Message", payload: bytes) -> int:
        form = message.uint(CONTENT_FORMAT, 2)
        self.answer = Answer(message.code, payload, self._form if form is None else form)
        self.answer.max_age = message.uint(MAX_AGE)
        return DONE

    def fail(self, reason: str) -> int:
        self.answer = Answer(0, reason=reason)
        return DONE
