"""The shell that carries a STEAM node's advertisements over a radio, in a running event loop.

    radio = BluezRadio("hci0")                     or VirtualRadio("town", lat=..., lon=...)
    async with Shell(node, radio) as shell:
        node.announce("Speed", area, shell.now())
        shell.update()                             after anything that the node was told
        await shell.failed                         never, unless the radio is lost

`now` is Unix milliseconds, as events carry them, and never goes back: where the clock is set back, it goes on from
where it was.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from vicinal.steam.node import Node

from ..location.fix import Fix
from .turns import Turns

__all__ = ["Radio", "RadioError", "Shell"]


class RadioError(Exception):
    """There is no such radio, or it is gone, and what to do."""


class Radio(Protocol):
    """What a shell needs of one."""

    @property
    def counters(self) -> dict[str, int]: ...

    async def open(self, on_heard: Callable[[bytes, int], None], on_lost: Callable[[Exception], None]) -> None:
        """Scans from now on: on_heard(advertisement, rssi). RadioError: it cannot."""

    def advertise(self, advertisement: bytes | None) -> None:
        """Sends this about once in an interval, until told otherwise; None: nothing more. It does not wait."""

    def move(self, lat: int, lon: int) -> None:
        """A virtual radio is told where it is; a real one knows."""

    async def close(self) -> None: ...


class Shell:
    def __init__(self, node: Node, radio: Radio) -> None:
        self.node = node
        self.radio = radio
        self._turns = Turns(node, radio.advertise, node.interval)
        self._timer: asyncio.TimerHandle | None = None
        self._offset = 0
        self._open = False

    async def __aenter__(self) -> "Shell":
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        await self.radio.open(self._on_heard, self._fail)
        self._open = True
        self.update()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        await self.radio.close()
        self.failed.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await self.failed  # seen by whoever waited for it; asyncio need not say it again

    def now(self) -> int:
        monotonic = time.monotonic_ns()
        self._offset = max(self._offset, time.time_ns() - monotonic)
        return (monotonic + self._offset) // 1_000_000

    def set_fix(self, fix: Fix | None) -> None:
        """What a Location gives: with its speed and heading, where the receiver knows them."""
        if fix is None:
            self.set_position(None, None)
        else:
            self.set_position(fix.lat, fix.lon, fix.velocity)

    def set_position(self, lat: int | None, lon: int | None, velocity: tuple[int, int] | None = None) -> None:
        self.node.set_position(lat, lon, self.now(), velocity)
        if lat is not None and lon is not None:
            self.radio.move(lat, lon)
        self.update()

    def update(self) -> None:
        """Hands over what the node wants sent, and sets the timer. To be called after a publish."""
        if not self._open:
            return
        now = self.now()
        try:
            again = self._turns.service(now)
        except RadioError as error:
            self._fail(error)
            return
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if again is not None:
            self._timer = self._loop.call_later(max(0, again - now) / 1000, self.update)

    def _on_heard(self, advertisement: bytes, rssi: int) -> None:
        self.node.receive(advertisement, rssi, self.now())
        self.update()

    def _fail(self, error: Exception) -> None:
        self._stop()
        if not self.failed.done():
            self.failed.set_exception(error)

    def _stop(self) -> None:
        self._open = False
        if self._timer:
            self._timer.cancel()
            self._timer = None
