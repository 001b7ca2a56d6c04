"""The raw REPL of a board, by mpremote's transport, and the few functions that run there while it is flashed.

    with Link(port) as link:
        link.hold()                    from now on a watchdog starts the agent again if we go away
        link.about()                   chip, heap, room
        link.slots("other")            what vicinal_edge.agent.slots says there
        link.put(path, data)           written in pieces
        link.restart()                 and then link.lines() is what its console says

Nothing here decides. A board that runs an agent has its watchdog on, which nobody feeds while we are here: another
takes its place, with time enough, fed with every call. When the cable is pulled it bites, and the agent starts again.
"""

import base64
import contextlib
import json
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .errors import DeviceFull, FlashError, NotMicroPython, Unplugged

__all__ = ["Link"]

BAUD = 115_200
# Bytes of a file in one call: as base64 and source text it is three times as much of the device's memory.
CHUNK = 2048
# ms that the device waits for the next call, before it starts its agent again.
HOLD = 120_000
# Seconds for an answer: hashing a slot takes a while on a slow flash; and for each step into the raw REPL.
PATIENCE = 20.0
ENTER = 4.0
_RAW = b"raw REPL; CTRL-B to exit\r\n"

_GONE: tuple[type[Exception], ...] = (OSError, struct.error)
if sys.platform != "win32":
    import termios

    _GONE = (*_GONE, termios.error)

_HOLD = """
import sys, os, gc, json
try:
    import machine
    _dog = machine.WDT(timeout=HOLD)
except (ImportError, AttributeError):
    _dog = None
def _fed(value=None):
    if _dog: _dog.feed()
    if value is not None: print(json.dumps(value))
def _open(path):
    global _file
    parts = path.split("/")
    for n in range(1, len(parts)):
        try: os.mkdir("/".join(parts[:n]))
        except OSError as error:
            if error.errno != 17: raise  # it is there
    _file = open(path, "wb")
def _copy(old, new):
    _open(new)
    piece = bytearray(512)
    with open(old, "rb") as file:
        while True:
            n = file.readinto(piece)
            if not n: break
            _file.write(memoryview(piece)[:n])
    _file.close()
from binascii import a2b_base64 as _a
"""
_DIGEST = """
from hashlib import sha256
from binascii import hexlify
def _digest(path):
    digest, size, piece = sha256(), 0, bytearray(512)
    try:
        with open(path, "rb") as file:
            while True:
                n = file.readinto(piece)
                if not n: break
                digest.update(memoryview(piece)[:n])
                size += n
    except OSError: return None
    return [size, str(hexlify(digest.digest()), "ascii")]
"""
_ABOUT = """
_v = os.statvfs("/")
try:
    import vfs
    _m = vfs.rom_ioctl(2, 0)
    _m = _m.ioctl(4, 0) * _m.ioctl(5, 0)
except (ImportError, AttributeError): _m = 0
gc.collect()
_fed({"platform": sys.platform, "machine": getattr(sys.implementation, "_machine", ""),
  "version": ".".join([str(n) for n in sys.implementation[1][:3]]), "heap": gc.mem_free(),
  "rom": _m, "room": _v[1] * _v[3], "block": _v[1], "size": _v[1] * _v[2]})
"""


class _NoAnswer(Exception):
    pass


class Link:
    def __init__(self, port: str, hold: int = HOLD) -> None:
        self.port = port
        self.sent = 0
        """bytes of files"""
        self._hold = hold
        self._transport: Any = None

    def __enter__(self) -> "Link":
        from mpremote.transport_serial import SerialTransport

        with _translated(self.port):
            # Not by a link's name: of a pty it waits without looking again and again.
            self._transport = SerialTransport(str(Path(self.port).resolve()), BAUD, timeout=5)
        try:
            for attempt in (1, 2, 3):
                try:
                    self._enter()
                    break
                except _NoAnswer as error:
                    if attempt == 3:
                        raise NotMicroPython(
                            f"{self.port}: what is there does not answer as MicroPython. Write that with --firmware "
                            "IMAGE (of micropython.org/download), or press its reset button and try again"
                        ) from error
        except BaseException:
            self.close()
            raise
        return self

    def _enter(self) -> None:
        """A soft reset into the raw REPL: an agent leaves no memory to be flashed with. Not mpremote's own, which reads
        as long as something comes: of a board without firmware that is for ever."""
        serial = self._transport.serial
        with _translated(self.port):
            serial.write(b"\r\x03")
            time.sleep(0.1)
            serial.reset_input_buffer()
            serial.write(b"\r\x01")
            self._expect(_RAW + b">")
            serial.write(b"\x04")
            self._expect(b"soft reboot\r\n")
            self._expect(_RAW)

    def _expect(self, ending: bytes) -> None:
        serial, said, end = self._transport.serial, b"", time.monotonic() + ENTER
        serial.timeout = 0.2
        while not said.endswith(ending):
            if time.monotonic() > end:
                raise _NoAnswer
            said = (said + serial.read(1))[-100:]
        serial.timeout = 5

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._transport is not None:
            with contextlib.suppress(OSError):  # of a cable that was pulled
                self._transport.close()
            self._transport = None

    # Calls

    def run(self, text: str) -> str:
        from mpremote.transport import TransportExecError

        with _translated(self.port):
            try:
                self._transport.exec_raw_no_follow(text)
                said, wrong = self._transport.follow(PATIENCE)
                if wrong:
                    raise TransportExecError(said, wrong.decode(errors="replace"))
            except TransportExecError as error:
                raise _failed(str(error.error_output)) from error
        found: str = said.decode()
        return found

    def ask(self, expression: str) -> Any:
        return json.loads(self.run(f"_fed({expression})"))

    def hold(self) -> None:
        self.run(_HOLD.replace("HOLD", str(self._hold)))
        self.run(_DIGEST)

    def about(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(_ABOUT))
        return found

    def slots(self) -> dict[str, Any]:
        """Loads what is on the device, which put() has brought if need be."""
        self.run("import slots; _s = slots.Slots()")
        found: dict[str, Any] = self.ask(
            '{"good": _s.good, "trying": _s.trying, "other": _s.other, "a": _s.version("a"), "b": _s.version("b"), '
            '"rom": _s.rom.size if _s.rom else 0, "block": _s.rom.block if _s.rom else 0, '
            '"boot": _s.rom.boot if _s.rom else 0}'
        )
        return found

    def digests(self, folder: str) -> dict[str, tuple[int, str]]:
        """Of all files of a slot."""
        each = f"_d = _digest({folder + '/'!r} + _n); print(_n, _d[0], _d[1]); _fed()"
        said = self.run(f"for _n in _s.disk.files({folder!r}):\n {each}")
        found = (line.split() for line in said.splitlines())
        return {name: (int(size), digest) for name, size, digest in found}

    def digest(self, path: str) -> tuple[int, str] | None:
        found = self.ask(f"_digest({path!r}) or []")
        return (found[0], found[1]) if found else None

    def put(self, path: str, data: bytes, told: Callable[[int], None] | None = None) -> None:
        text = f"_open({path!r})"
        for at in range(0, len(data), CHUNK):
            piece = data[at : at + CHUNK]
            close = "_file.close()" if at + CHUNK >= len(data) else ""
            self.run(f"{text}\n_file.write(_a({base64.b64encode(piece).decode()!r})); _fed(); {close}")
            self.sent += len(piece)
            if told is not None:
                told(len(piece))
            text = ""
        if not data:
            self.run(f"{text}; _file.close()")

    def copy(self, old: str, new: str, names: list[str], told: Callable[[str], None]) -> None:
        """Between two folders of the device, several at a time: a call takes longer than a small file."""
        for at in range(0, len(names), 8):
            some = names[at : at + 8]
            self.run(f"for _n in {some!r}: _copy({old + '/'!r} + _n, {new + '/'!r} + _n); _fed()")
            for name in some:
                told(name)

    def restart(self) -> None:
        with _translated(self.port):
            self._transport.exec_raw_no_follow("import machine; machine.reset()")

    def interrupt(self) -> None:
        """Ctrl-C here, in the middle of a call: the old agent starts now, and not when the watchdog bites."""
        with contextlib.suppress(FlashError, _NoAnswer, *_GONE):
            self._enter()
            self.restart()

    def lines(self, patience: float) -> Iterator[str]:
        """What the console says, line by line, for so many seconds."""
        end, line = time.monotonic() + patience, b""
        serial = self._transport.serial
        while time.monotonic() < end:
            with _translated(self.port):
                serial.timeout = 0.1
                octets = serial.read(1)
                octets += serial.read(serial.in_waiting) if octets else b""
            line += octets
            *whole, line = line.split(b"\n")
            for each in whole:
                yield each.decode(errors="replace").strip("\r\x04>")


def _failed(said: str) -> FlashError:
    """An exception on the device."""
    last = said.strip().splitlines()[-1] if said.strip() else "nothing was said"
    if "OSError: 28" in last or "ENOSPC" in last:
        return DeviceFull("the file system of the device is full")
    return FlashError(f"the device says: {last}")


@contextlib.contextmanager
def _translated(port: str) -> Iterator[None]:
    """A port that is gone shows as many kinds of errors, of the system, pyserial, and mpremote's reading."""
    from mpremote.transport import TransportError, TransportExecError

    try:
        yield
    except TransportExecError:
        raise
    except _GONE as error:
        raise Unplugged(f"{port} is gone: {error}") from error
    except TransportError as error:
        raise Unplugged(f"{port} does not answer any more: {error}") from error
