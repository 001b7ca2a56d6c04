"""A connection to a STOMP 1.2 server within asyncio. It is opened once: who has lost it makes another.

    request    sends a frame with a receipt: a future, which the server's RECEIPT resolves, or its ERROR
    send       sends one that nobody answers

Heart-beats go both ways. A server that has said nothing for three of its beats is lost.
"""

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress

from vicinal.errors import RemoteProtocolError

from ..adapter import Refused, Unavailable
from ._stomp import Frame, Parser, encode

__all__ = ["Connection"]

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
MOST_UNDER_WAY = 1000
"""frames that wait for their receipts"""


class Connection:
    def __init__(self, shown: str, on_message: Callable[[Frame], None], on_lost: Callable[[str], None]) -> None:
        self.shown = shown
        """the address, for people"""
        self._on_message = on_message
        self._on_lost = on_lost
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._receipts: dict[str, asyncio.Future[None]] = {}
        self._last = 0
        self._places = asyncio.Semaphore(MOST_UNDER_WAY)
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = ""
        self._spoke = self._heard = 0.0

    @property
    def under_way(self) -> int:
        return len(self._receipts)

    # Beginning and end

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None, headers: dict[str, str], beat: int) -> None:
        """`beat` in milliseconds."""
        try:
            self._reader, self._writer = await asyncio.wait_for(
                asyncio.open_connection(host, port, ssl=tls), CONNECT_SECONDS
            )
        except TimeoutError:
            raise Unavailable(f"{self.shown} cannot be reached: no answer in {CONNECT_SECONDS:.0f} s") from None
        except ssl.SSLError as error:
            raise Refused(f"{self.shown}: TLS fails: {error.reason or error}") from error
        except ConnectionRefusedError as error:
            raise Unavailable(f"nothing listens at {self.shown}") from error
        except OSError as error:
            raise Unavailable(f"{self.shown} cannot be reached: {error}") from error
        try:
            asked = {"accept-version": "1.2", "host": host, "heart-beat": f"{beat},{beat}", **headers}
            self._write(encode(Frame("CONNECT", asked)))
            answer, rest = await asyncio.wait_for(self._first(), ANSWER_SECONDS)
        except TimeoutError:
            await self.close()
            raise Unavailable(f"{self.shown} does not answer: is it a STOMP server?") from None
        except BaseException:
            await self.close()
            raise
        ours, theirs = _beats(answer.headers.get("heart-beat", "0,0"), beat)
        self._tasks = [asyncio.create_task(self._read(rest)), asyncio.create_task(self._beat(ours, theirs))]

    async def _first(self) -> "tuple[Frame, tuple[Parser, list[Frame]]]":
        assert self._reader is not None
        parser = Parser()
        while True:
            try:
                data = await self._reader.read(65536)
                frames = parser.feed(data)
            except (OSError, RemoteProtocolError) as error:
                raise Unavailable(f"{self.shown}: it does not speak STOMP 1.2: {error}") from error
            if frames and frames[0].command == "CONNECTED":
                return frames[0], (parser, frames[1:])
            if frames:
                raise self._refusal("refuses the connection", frames[0])
            if not data:
                raise Unavailable(f"{self.shown} has closed the connection at once")

    def _refusal(self, what: str, frame: Frame) -> Refused | Unavailable:
        said = frame.headers.get("message") or frame.body.decode(errors="replace")[:200] or frame.command
        text = f"{self.shown} {what}: {said}"
        if "password is invalid" in said or "not authenticated" in said.lower() or "SecurityException" in said:
            text += ": look at user and password"
        # Who was here before under our name has not yet been missed.
        return Unavailable(text) if "already connected" in said else Refused(text)

    async def close(self) -> None:
        """Whatever the state. The server is told if it listens."""
        self._ended = self._ended or "it was closed here"
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(Exception):
                writer.write(encode(Frame("DISCONNECT", {})))
            writer.close()
        tasks, self._tasks = self._tasks, []
        current = asyncio.current_task()
        for task in tasks:
            if task is not current:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task is not current), return_exceptions=True)
        self._fail()
        if writer is not None:
            writer.transport.abort()

    def _fail(self) -> None:
        waiting, self._receipts = self._receipts, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(Unavailable(f"{self.shown}: {self._ended}"))
                future.exception()  # nobody may be waiting for it

    def _lost(self, reason: str) -> None:
        if self._ended:
            return
        self._ended = reason
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()
        self._fail()
        self._on_lost(reason)

    # What the server says

    async def _read(self, rest: "tuple[Parser, list[Frame]]") -> None:
        assert self._reader is not None
        parser, frames = rest
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        while not self._ended:
            for frame in frames:
                self._take(frame)
            try:
                data = await self._reader.read(65536)
                frames = parser.feed(data)
            except RemoteProtocolError as error:
                self._lost(f"what came is no STOMP: {error}")
                return
            except OSError as error:
                self._lost(f"the connection is lost: {error}")
                return
            if not data:
                self._lost("the connection is lost")
                return
            self._heard = loop.time()

    def _take(self, frame: Frame) -> None:
        if frame.command == "MESSAGE":
            self._on_message(frame)
            return
        receipt = frame.headers.get("receipt-id", "")
        future = self._receipts.pop(receipt, None)
        if future is not None:
            self._places.release()
        if frame.command == "RECEIPT":
            if future is not None and not future.done():
                future.set_result(None)
        elif frame.command == "ERROR":
            if future is None:
                self._lost(str(self._refusal("says", frame)))
            elif not future.done():
                future.set_exception(self._refusal("refuses it", frame))
                future.exception()

    async def _beat(self, ours: float, theirs: float) -> None:
        """In seconds; 0 for none."""
        loop = asyncio.get_running_loop()
        while not self._ended and (ours or theirs):
            await asyncio.sleep(min(beat for beat in (ours / 2, theirs) if beat))
            now = loop.time()
            if ours and now - self._spoke >= ours / 2 - 0.01:
                with suppress(Unavailable):
                    self._write(b"\n")
            if theirs and now - self._heard > 3 * theirs:
                self._lost(f"nothing was heard for {now - self._heard:.0f} s")

    # What is asked of it

    def check(self) -> None:
        """Raises Unavailable where it is no longer there."""
        if self._writer is None:
            raise Unavailable(f"{self.shown}: {self._ended or 'not connected'}")

    def _write(self, data: bytes) -> None:
        self.check()
        assert self._writer is not None
        self._writer.write(data)
        self._spoke = asyncio.get_running_loop().time()

    async def request(self, frame: Frame) -> "asyncio.Future[None]":
        """Waits until the server takes more; the future is its answer."""
        self.check()
        await self._places.acquire()
        self._last += 1
        receipt = str(self._last)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._write(encode(Frame(frame.command, {**frame.headers, "receipt": receipt}, frame.body, frame.text)))
        except BaseException:
            self._places.release()
            raise
        self._receipts[receipt] = future
        writer = self._writer
        if writer is not None:
            try:
                await writer.drain()
            except OSError:
                self._lost("the connection is lost")
        return future

    async def answered(self, frame: Frame) -> None:
        future = await self.request(frame)
        try:
            await asyncio.wait_for(future, ANSWER_SECONDS)
        except TimeoutError:
            raise Unavailable(f"{self.shown} does not answer") from None

    def send(self, frame: Frame) -> None:
        with suppress(Unavailable):
            self._write(encode(frame))


def _beats(said: str, beat: int) -> tuple[float, float]:
    """How often we and how often they speak, by what they can and want (STOMP 1.2, heart-beating)."""
    can, _, want = said.partition(",")
    try:
        they_can, they_want = int(can), int(want)
    except ValueError:
        return 0.0, 0.0
    ours = max(beat, they_want) / 1000 if they_want > 0 and beat else 0.0
    theirs = max(beat, they_can) / 1000 if they_can > 0 and beat else 0.0
    return ours, theirs
