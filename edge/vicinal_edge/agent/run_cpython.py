"""The agent on CPython, as on a Pi: CAN by python-can, BLE by BlueZ or the virtual radio, sensors by Linux's own files.

    run(load(Path("agent.toml")), ready)          until SIGTERM or Ctrl-C

The loop is the board's (loop.py). Radios want an event loop: theirs runs in a thread, and hands over what is heard.
"""

import asyncio
import contextlib
import os
import signal
import threading
import time
import tomllib
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import vicinal
from vicinal.cosmic.frame import Frame
from vicinal.errors import LocalProtocolError
from vicinal_hw import sensors
from vicinal_hw.flash.file import FileFlash

from .config import Config
from .kept import keep, kept
from .link import link_of
from .loop import Loop
from .parts import BlePart, CanPart, SensorPart
from .updater import Updater

__all__ = ["Pi", "load", "run", "tables"]

# Seconds: a turn comes at least so often, as radios and buses only fill queues.
LONGEST = 0.02
QUEUE = 256


def tables(path: Path) -> dict[str, Any]:
    """A configuration as a device reads it: mappings in files of their own are put in."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LocalProtocolError(f"{path}: not TOML: {error}") from error
    except OSError as error:
        raise LocalProtocolError(f"{path}: {error.strerror}") from error
    for number, port in enumerate(found.get("can", []) if isinstance(found.get("can"), list) else []):
        if isinstance(port, dict) and ("mapping" in port or "dbc" in port):
            where = f"{path}: [[can]] {number + 1}"
            port["message"] = _messages(path, where, port)
    return found


def _messages(path: Path, where: str, port: dict[str, Any]) -> list[Any]:
    only, text = port.pop("messages", []), port.pop("mapping", None)
    dbc = port.pop("dbc", None)
    if text is not None and dbc is not None:
        raise LocalProtocolError(f"{where}: mapping and dbc are both given, want one of them")
    if not isinstance(text if dbc is None else dbc, str):
        raise LocalProtocolError(f"{where}: mapping and dbc are names of files")
    if text is not None:
        from vicinal.cosmic.mapping_toml_cpython import loads

        file = path.parent / text
        try:
            mapping = loads(file.read_text(encoding="utf-8"), str(file))
        except OSError as error:
            raise LocalProtocolError(f"{where}: mapping {file}: {error.strerror}") from error
    else:
        from vicinal_hw.can import dbc as reader

        mapping = reader.load(path.parent / str(dbc), only=only)
    found: list[Any] = mapping.tables()["message"]
    return found


def load(path: Path) -> Config:
    return Config(tables(path), str(path))


class Bus:
    """A python-can bus, with the methods of a board's controller. What the kernel has no room for waits here: a bus
    that is gone is noticed by who receives."""

    def __init__(self, bus: Any) -> None:
        self._bus = bus
        self._sent = False
        self._waiting: Any = None

    def receive(self) -> Frame | None:
        import can

        try:
            message = self._bus.recv(0)
        except can.CanError as error:
            raise OSError(str(error)) from error
        if message is None or message.is_error_frame or message.is_fd or not message.is_rx:
            return None
        return Frame(message.arbitration_id, bytes(message.data), message.is_extended_id, message.is_remote_frame)

    def load(self, frame: Frame) -> None:
        import can

        self._waiting = can.Message(
            arbitration_id=frame.id, data=frame.data, is_extended_id=frame.extended, is_remote_frame=frame.remote
        )
        self._try()

    def _try(self) -> None:
        import can

        with contextlib.suppress(can.CanError):
            self._bus.send(self._waiting, timeout=0)
            self._waiting, self._sent = None, True

    def sent(self) -> bool:
        if self._waiting is not None:
            self._try()
        found, self._sent = self._sent, False
        return found

    def abort(self) -> bool:
        found, self._waiting = self._waiting is not None, None
        return found

    def state(self) -> str:
        return "active"

    def recover(self) -> None:
        """A SocketCAN interface restarts by itself (shell.py)."""

    def close(self) -> None:
        self._bus.shutdown()


class ThreadedRadio:
    """A radio of an event loop, with the methods of a board's."""

    def __init__(self, radio: Any) -> None:
        self._radio = radio
        self._heard: deque[tuple[bytes, int]] = deque(maxlen=QUEUE)
        self._lost: Exception | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._do(radio.open(lambda data, rssi: self._heard.append((data, rssi)), self._lose))
        except Exception as error:
            self._stop()
            raise OSError(str(error)) from error

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def _lose(self, error: Exception) -> None:
        self._lost = error

    def receive(self) -> tuple[bytes, int] | None:
        if self._lost is not None:
            raise OSError(str(self._lost))
        return self._heard.popleft() if self._heard else None

    def advertise(self, advertisement: bytes | None) -> None:
        self._loop.call_soon_threadsafe(self._radio.advertise, advertisement)

    def close(self) -> None:
        self._do(self._radio.close())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Pi:
    """Opens what a configuration names. `folder` is where the journal lies, if its name is relative."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def flash(self, config: Config) -> FileFlash:
        if config.partition is not None:
            raise LocalProtocolError(f"{config.file}: [journal] partition is for boards, a Pi has `file`")
        path = self.folder / config.journal
        return FileFlash(str(path), config.sectors, config.sector_bytes, lambda file: os.fsync(file.fileno()))

    def open(self, ports: Any, loop: Loop, now: int) -> Any:
        port, offer = ports[0], loop.offer_of(ports[0])
        if port.kind == "can":
            return CanPart(port, self.controller(port), offer, now)
        if port.kind == "ble":
            radio = ThreadedRadio(_radio(port, loop.config))
            position = loop.config.position or (None, None)
            return BlePart(ports, radio, loop.sender, loop.config.name, position, offer, now)
        return SensorPart(port, self.driver(port), offer, now)

    def controller(self, port: Any, **more: Any) -> Bus:
        """`more` is for python-can."""
        if port.controller != "python-can":
            raise LocalProtocolError(f"[[can]] controller {port.controller!r} is for boards; a Pi has python-can")
        import can

        try:
            return Bus(can.Bus(interface=port.interface, channel=port.channel, bitrate=port.bitrate, **more))
        except can.CanError as error:
            raise OSError(f"{port.interface} {port.channel}: {error}") from error

    def driver(self, port: Any) -> Any:
        """Programs with sensors of their own have another."""
        if port.type == "file":
            return sensors.NumberFile(port.path)
        if port.type == "own":
            raise LocalProtocolError(f'[[sensor]] {port.subject!r}: "own" is for programs with drivers of their own')
        raise LocalProtocolError(
            f'[[sensor]] {port.subject!r}: type "{port.type}" is for boards; on a Pi use type = "file" with a path '
            "below /sys, as /sys/bus/iio/devices/iio:device0/in_voltage0_raw"
        )


def _radio(port: Any, config: Config) -> Any:
    if port.virtual is not None:
        from vicinal_hw.ble.virtual import VirtualRadio

        lat, lon = config.position or (0, 0)
        return VirtualRadio(port.virtual, lat, lon)
    from vicinal_hw.ble.bluez import BluezRadio

    return BluezRadio(port.adapter)


def run(config: Config, folder: Path, ready: Callable[[Loop], None], stop: threading.Event | None = None) -> None:
    """Until `stop`, SIGTERM or Ctrl-C."""
    ended = stop or threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    if stop is None:
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
    start = time.monotonic_ns()
    loop = Loop(config, Pi(folder), link_of(config), vicinal.__version__, os.urandom(8), 0, str(folder))
    record = str(folder / "update.json")
    if loop.agent.client is not None:  # who asks for an update is told how it is done here
        loop.updater = Updater(loop.agent, config.update, None, kept(record), partial(keep, record), dict, None, 0)
    ready(loop)
    try:
        while not ended.is_set():
            now = (time.monotonic_ns() - start) // 1_000_000
            due = loop.turn(now)
            ended.wait(max(0.0, min(LONGEST, (due - now) / 1000)))
    except Exception as error:
        loop.give_up(f"{type(error).__name__}: {error}")
        raise
    finally:
        loop.close()
