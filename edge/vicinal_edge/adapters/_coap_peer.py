"""Another CoAP server, of which the gateway is a client: it publishes to its topics, and observes them.

A server of ours is asked for all events that meet a filter, at once. Others know topics only: those that the filter
names are observed, or if it names none, those that the server lists.

Observe tells nobody that a server was started anew and has forgotten its observers: what has been silent for `refresh`
seconds is asked for again (RFC 7641, 3.3.1).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from aiocoap import Context, Message
from aiocoap.error import Error
from aiocoap.numbers import codes
from aiocoap.optiontypes import BlockOption

from vicinal import limits, wire
from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.filter import Filter

from ..adapter import Refused, Unavailable
from ._coap_formats import CBOR, event_of

__all__ = ["Inbox", "Peer", "Watch"]

# Of a filter in one option, which has 255: "filter=" is before it.
PIECE = 200
# Notifications that wait for the gateway; beyond it the oldest are dropped and counted.
QUEUE = 4096


class Peer:
    def __init__(self, text: str) -> None:
        """coap://HOST:PORT/PATH, under which its topics are."""
        parts = urlsplit(text)
        try:
            port = parts.port
        except ValueError as error:
            raise LocalProtocolError(f"{text!r}: {error}") from error
        if parts.scheme != "coap" or not parts.hostname or parts.query or parts.fragment:
            raise LocalProtocolError(f"{text!r}: want coap://HOST:PORT/PATH")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.origin = f"coap://{host}" + (f":{port}" if port else "")
        self.path = tuple([unquote(one) for one in parts.path.split("/") if one])
        self.text = text
        self._echo: bytes | None = None

    def message(self, code: Any, path: Sequence[str] = (), queries: Sequence[str] = (), **options: Any) -> Message:
        found = Message(code=code, uri=self.origin)
        found.opt.uri_path = (*self.path, *path)
        found.opt.uri_query = tuple(queries)
        found.opt.echo = self._echo
        for name, value in options.items():
            setattr(found.opt, name, value)
        return found

    async def ask(
        self, context: Context, make: Callable[[], Message], begun: Callable[[Any], None] | None = None, **more: Any
    ) -> tuple[Any, Message]:
        """The request and its answer. Once more with an Echo where that is asked for. Raises Unavailable. `begun` is
        told of each request before anything can come of it."""
        for attempt in range(2):
            request = context.request(make(), **more)
            if begun is not None:
                begun(request)
            try:
                answer = await request.response
            except (Error, OSError) as error:
                raise Unavailable(f"{self.text}: {type(error).__name__}: {error}") from error
            if answer.code != codes.UNAUTHORIZED or answer.opt.echo is None or attempt:
                return request, answer
            self._echo = answer.opt.echo
        raise AssertionError

    async def publish(self, context: Context, event: Event) -> None:
        payload = wire.encode(event)

        def make() -> Message:
            found = self.message(codes.PUT, event.subject.split("/"), content_format=CBOR)
            found.payload = payload
            return found

        _, answer = await self.ask(context, make)
        if answer.code.is_successful():
            return
        said = f"{self.text}: {answer.code.dotted} {answer.payload[:200].decode(errors='replace')}"
        raise Unavailable(said) if answer.code.class_ == 5 or answer.code == codes.TOO_MANY_REQUESTS else Refused(said)

    async def topics(self, context: Context) -> list[str]:
        """That it lists, in whatever way."""
        _, answer = await self.ask(context, lambda: self.message(codes.GET))
        if not answer.code.is_successful():
            return []
        found, start = [], "/" + "".join([f"{one}/" for one in self.path])
        for link in answer.payload.decode(errors="replace").split(","):
            href = link.strip().partition(">")[0].lstrip("<")
            if href.startswith(start) and len(href) > len(start):
                found.append(unquote(href[len(start) :]))
        return found


class Inbox:
    """What all peers have notified, in the order in which it came; large events are fetched to the end one by one."""

    def __init__(
        self,
        context: Context,
        take: Callable[[Event], Awaitable[None]],
        malformed: Callable[[str], None],
        lost: Callable[[str], None],
    ) -> None:
        self.context = context
        self.malformed = malformed
        self.lost = lost
        self.dropped = 0
        self._take = take
        self._queue: deque[tuple[_Stream, Message]] = deque()
        self._news = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def put(self, stream: "_Stream", message: Message) -> None:
        if len(self._queue) >= QUEUE:
            self._queue.popleft()
            self.dropped += 1
        self._queue.append((stream, message))
        self._news.set()

    async def _run(self) -> None:
        while True:
            while not self._queue:
                self._news.clear()
                await self._news.wait()
            stream, message = self._queue.popleft()
            try:
                event = await stream.event(message)
            except VicinalError as error:
                self.lost(str(error))
                return
            if event is not None:
                await self._take(event)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Watch:
    """One subscription at one peer: tasks that observe, from `start` to `stop`."""

    def __init__(self, peer: Peer, inbox: Inbox, condition: Filter, refresh: float) -> None:
        self.peer = peer
        self.inbox = inbox
        self.refresh = refresh
        self._condition = condition
        self._tasks: list[asyncio.Task[None]] = []
        self._streams: list[_Stream] = []

    async def start(self) -> None:
        """Raises Unavailable or Refused."""
        text = self._condition.text
        queries = [f"filter={piece}" for piece in _pieces(text)] + ["own=no"]
        whole = _Stream(self, (), queries)
        answer = await whole.open()
        if answer.opt.observe is not None and answer.code.is_successful():
            self._follow(whole)
            return
        whole.close()
        if answer.code == codes.BAD_REQUEST or answer.code == codes.TOO_MANY_REQUESTS:
            raise Refused(f"{self.peer.text}: {answer.code.dotted} {answer.payload.decode(errors='replace')}")
        for subject in await self._subjects():
            stream = _Stream(self, subject.split("/"), ())
            answer = await stream.open()
            if answer.opt.observe is None or not answer.code.is_successful():
                stream.close()
                self.stop()
                said = f"{answer.code.dotted} {answer.payload[:200].decode(errors='replace')}"
                raise Refused(f"{self.peer.text}: {subject!r} cannot be observed: {said}")
            self._follow(stream)

    async def _subjects(self) -> list[str]:
        found = self._condition.to_mqtt("").text.split("\n")
        if any("#" in one or "+" in one for one in found):
            found = await self.peer.topics(self.inbox.context)
        return [one for one in found if one]

    def _follow(self, stream: "_Stream") -> None:
        self._streams.append(stream)
        self._tasks.append(asyncio.get_running_loop().create_task(stream.run()))

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for stream in self._streams:
            stream.close()

    async def stopped(self, tell: bool) -> None:
        """`tell`: the peer, so that it need not find out."""
        self.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams if tell else ():
            try:
                await stream.tell()
            except Unavailable:
                return


class _Stream:
    """One resource that is observed. The first answer is what was before: it is not an event.

    When it is asked for anew, the observation before stays open until the server has ended it: what was on its way
    under the old token is still heard. Servers of others do not know that it is the same, and would say all twice.
    """

    def __init__(self, watch: Watch, path: Sequence[str], queries: Sequence[str]) -> None:
        self._watch = watch
        self._path = tuple(path)
        self._queries = tuple(queries)
        self._request: Any = None
        self._before: Any = None
        self._news = asyncio.Event()
        self._ended = False

    def _make(self, observe: int | None = 0, **more: Any) -> Message:
        accept = {"accept": CBOR} if self._queries else {}
        return self._watch.peer.message(codes.GET, self._path, self._queries, observe=observe, **accept, **more)

    async def _ask(
        self, observe: int | None = 0, begun: Callable[[Any], None] | None = None, **more: Any
    ) -> tuple[Any, Message]:
        peer, context = self._watch.peer, self._watch.inbox.context
        return await peer.ask(context, lambda: self._make(observe, **more), begun, handle_blockwise=False)

    async def open(self) -> Message:
        if self._queries and self._request is not None and not self._ended:
            _cancel(self._before)
            self._before = self._request
        else:
            self.close()
        return (await self._ask(begun=self._begun))[1]

    def _begun(self, request: Any) -> None:
        self._request, self._ended = request, False
        request.observation.register_callback(self._notified, _suppress_deprecation=True)
        request.observation.register_errback(lambda _: self._failed(request), _suppress_deprecation=True)

    def close(self) -> None:
        _cancel(self._before)
        _cancel(self._request)

    async def tell(self) -> None:
        await self._ask(1)

    def _notified(self, message: Message) -> None:
        self._watch.inbox.put(self, message)
        self._news.set()

    def _failed(self, request: Any) -> None:
        if request is self._request:
            self._ended = True
            self._news.set()

    async def run(self) -> None:
        """Asks again when it was silent for long, or has ended."""
        watch = self._watch
        try:
            while True:
                try:
                    async with asyncio.timeout(watch.refresh):
                        self._news.clear()
                        await self._news.wait()
                    if not self._ended:
                        continue
                except TimeoutError:
                    pass
                answer = await self.open()
                if answer.opt.observe is None or not answer.code.is_successful():
                    raise Unavailable(f"{watch.peer.text} does not let itself be observed any more")
        except VicinalError as error:
            watch.inbox.lost(str(error))

    async def event(self, message: Message) -> Event | None:
        """None, and counted, where it is none."""
        payload = message.payload
        if not message.code.is_successful() or not payload:
            return None
        if message.opt.block2 is not None and message.opt.block2.more:
            payload = await self._rest(message)
        try:
            if self._path:
                return event_of("/".join(self._path), message.opt.content_format, payload)
            return wire.decode(payload)
        except VicinalError:
            self._watch.inbox.malformed("content that is no event")
            return None

    async def _rest(self, first: Message) -> bytes:
        """Empty, and so no event, when the server has something else there by now."""
        found, exponent = bytearray(first.payload), first.opt.block2.size_exponent
        while len(found) <= limits.MAX_EVENT_BYTES:
            block = BlockOption.BlockwiseTuple(len(found) // (16 << exponent), False, exponent)
            _, answer = await self._ask(None, block2=block)
            if not answer.code.is_successful() or answer.opt.block2 is None or answer.opt.etag != first.opt.etag:
                break
            found += answer.payload
            if not answer.opt.block2.more:
                return bytes(found)
        return b""


def _cancel(request: Any) -> None:
    if request is not None and not request.observation.cancelled:
        request.observation.cancel()


def _pieces(text: str) -> list[str]:
    """Of PIECE bytes at most, each of whole characters."""
    found, piece, size = [], "", 0
    for char in text:
        more = len(char.encode())
        if size + more > PIECE:
            found.append(piece)
            piece, size = "", 0
        piece += char
        size += more
    return [*found, piece]
