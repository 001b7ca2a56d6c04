"""A broker's log over the network, for programs that wait: Spark's driver and its workers.

Each call is one question to the broker (vicinal_cloud.broker.reading). The client lives in a thread of its own; a
broker that is away is waited for, `timeout` seconds, and asked again: reading changes nothing.
"""

import asyncio
import json
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import TimeoutError as Waited
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from vicinal.errors import VicinalError
from vicinal.filter import Filter
from vicinal.siena.messages import MAX_REASON_CHARS

from ..broker.address import Tls
from ..broker.client import Client, Closed, connect
from ..broker.dial import CannotConnect
from ..broker.reading import TOPIC, unpack_records
from ..broker.tokens import read_token
from ..log import Record
from .logs import PIECE, Asked, Found, Lost, Piece, found_in, name_of, sample

__all__ = ["BrokerLog", "Link", "Unreachable"]

T = TypeVar("T")
TIMEOUT = 60.0
_AGAIN = 0.2


class Unreachable(VicinalError):
    """A broker has been away for longer than we were told to wait."""


class Link:
    """A client of a broker for a program without a loop."""

    def __init__(self, address: str, options: Mapping[str, str], name: str | None = None) -> None:
        self.address = address
        self.timeout = _seconds(options.get("timeout"))
        self._name = name
        self._options = options
        self._loop = asyncio.new_event_loop()
        self._client: Client | None = None
        threading.Thread(target=self._loop.run_forever, name=f"vicinal {address}", daemon=True).start()

    def call(self, what: "Coroutine[Any, Any, T]") -> T:
        future = asyncio.run_coroutine_threadsafe(what, self._loop)
        try:
            return future.result(self.timeout)
        except Waited:
            future.cancel()
            raise ConnectionResetError(f"no answer within {self.timeout:g} s") from None

    def client(self) -> Client:
        """Connected, or connecting again. Raises Unreachable, or Closed when the broker does not want us."""
        deadline = time.monotonic() + self.timeout
        while self._client is None:
            try:
                self._client = self.call(self._connect())
            except (CannotConnect, ConnectionError) as error:
                if time.monotonic() > deadline:
                    raise Unreachable(f"{self.address}: {error} (waited {self.timeout:g} s)") from error
                time.sleep(_AGAIN)
        return self._client

    async def _connect(self) -> Client:
        options = self._options
        file = options.get("tokenfile")
        token = options.get("token") or (partial(read_token, Path(file)) if file else None)
        tls = Tls(*[Path(options[name]) if options.get(name) else None for name in ("cert", "key", "ca")])
        return await connect(self.address, self._name, tls, token=token)

    def forget(self) -> None:
        """The connection; the next call makes another."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(ConnectionError, VicinalError):
                self.call(client.close())

    def close(self) -> None:
        if self._loop.is_running():
            self.forget()
            self._loop.call_soon_threadsafe(self._loop.stop)


def _seconds(text: str | None) -> float:
    try:
        found = TIMEOUT if text is None else float(text)
    except ValueError:
        found = -1.0
    if found <= 0:
        raise VicinalError(f"option timeout is {text!r}, want seconds")
    return found


class BrokerLog:
    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        self.name = address
        self.hidden = 0
        """events in scopes, which we may not read"""
        self._link = Link(address, options)

    def _ask(self, text: str) -> dict[str, Any]:
        deadline = time.monotonic() + self._link.timeout
        while True:
            client = self._link.client()
            try:
                found: dict[str, Any] = json.loads(
                    self._link.call(client.administer("tell", f"{TOPIC} {text}".strip()))
                )
                return found
            except (ConnectionError, Closed) as error:
                if time.monotonic() > deadline:
                    raise Unreachable(f"{self.name}: {error} (waited {self._link.timeout:g} s)") from error
                self._link.forget()
                time.sleep(_AGAIN)

    def ends(self) -> tuple[int, int]:
        found = self._ask("")
        return found["first"], found["next"]

    def sample(self, oldest: int, newest: int) -> list[Record]:
        first, following = self.ends()
        return sample(lambda low, count: self._records(low, low + count, None)[:2], first, following, oldest, newest)

    def name_at(self, offset: int) -> str | None:
        return name_of(self._records(offset, offset + 1, None)[0], offset)

    def plan(self, start: int, end: int, sidecars: bool = True, piece: int = PIECE) -> list[Piece]:
        return [Piece(self.name, one, min(one + piece, end)) for one in range(start, end, piece)]

    def _records(self, start: int, end: int, condition: Filter | None) -> tuple[list[Record], int, int, int]:
        """Records, the offset to go on with, the first there is, and how many were hidden."""
        asked: dict[str, Any] = {"from": start, "to": end}
        if condition is not None:
            asked["filter"] = str(condition)
            if len(json.dumps(asked)) + len(TOPIC) + 1 > MAX_REASON_CHARS:
                del asked["filter"]  # more comes then, and is selected here
        found = self._ask(json.dumps(asked))
        return unpack_records(found["records"]), found["at"], found["first"], found["hidden"]

    def records(self, start: int, end: int) -> tuple[list[Record], int]:
        """As Log.read: those that we may see, and the offset to go on with."""
        return self._records(start, end, None)[:2]

    def blocks(self, piece: Piece, asked: Asked) -> Iterator[Found]:
        at = piece.first
        while at < piece.end:
            records, following, first, hidden = self._records(at, piece.end, asked.condition)
            if first > at:
                last = min(first, piece.end) - 1
                yield Lost(at, last, "removed by retention")
                at = last + 1
                continue
            self.hidden += hidden
            if following <= at:
                raise VicinalError(f"{self.name}: offset {at} is not there, {piece.end} was planned: another log?")
            for found in found_in(records, at, following, asked):
                # Between records there is also what we may not see: of holes only the broker knows the reason.
                if not isinstance(found, Lost):
                    yield found
            at = following

    def close(self) -> None:
        self._link.close()
