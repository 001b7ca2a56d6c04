"""The prompt of a virtual device: a board's REPL, spoken by a program, as MicroPython's unix build has no raw one.

    >>> line                    one line, or a block up to an empty line
    Ctrl-A                      raw: text up to Ctrl-D is run; OK, what it says, 4, its error, 4, >
    Ctrl-E A Ctrl-A             in raw: the text comes in windows, as fast as it is read (raw paste)
    Ctrl-B, Ctrl-C, Ctrl-D      friendly again; interrupt; soft reset

As in MicroPython's docs/reference/repl.rst. While a program runs, Ctrl-C comes by fake_host; here it is what it is.
"""

import sys as _sys

import fake_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

sys: "Any" = _sys

BANNER = "MicroPython; virtual device with fakes of machine, bluetooth, network and esp32\n>>> "
RAW = "raw REPL; CTRL-B to exit\n>"
WINDOW = 128


class Repl:
    def __init__(self, names: "dict[str, Any]") -> None:
        self._names = names
        self._in = sys.stdin.buffer
        self._raw = False

    def run(self, raw: bool) -> None:
        self._raw = raw
        greeting = RAW if raw else BANNER
        while True:
            try:
                while True:
                    greeting = self._turns(greeting)
            except KeyboardInterrupt:
                pass  # it came between two of the lines below

    def _turns(self, greeting: str) -> str:
        try:
            self._say(greeting)
            while True:
                if self._raw:
                    self._raw_turn()
                else:
                    self._friendly_turn()
        except KeyboardInterrupt:
            return ">" if self._raw else "\n>>> "

    def _say(self, text: str) -> None:
        sys.stdout.write(text)

    def _get(self) -> int:
        found = self._in.read(1)
        if not found:
            raise SystemExit  # nobody holds the other end
        octet: int = found[0]
        return octet

    def _soft_reset(self) -> None:
        fake_host.tell(b"D", b"\x01" if self._raw else b"\x00")
        while True:
            fake_host.serve(1000)

    # Friendly

    def _friendly_turn(self) -> None:
        text, block = "", False
        while True:
            line = self._line(bool(text))
            if line is None:
                return
            text += line + "\n"
            block = block or line.rstrip().endswith(":")
            if not block or not line.strip():
                break
            self._say("... ")
        if text.strip():
            self._execute(text, "single")
        self._say(">>> ")

    def _line(self, inside: bool) -> "str | None":
        line = bytearray()
        while True:
            octet = self._get()
            if octet == 1 and not line:
                self._raw = True
                self._say("\n" + RAW)
                return None
            if octet == 2 and not line:
                self._say("\n" + BANNER)
                return None
            if octet == 3:
                self._say("\n>>> ")
                return None
            if octet == 4 and not line:
                self._soft_reset()
            elif octet in (10, 13):
                self._say("\n")
                return str(line, "utf-8")
            elif octet in (8, 127):
                if line:
                    line = line[:-1]
                    self._say("\b \b")
            elif octet >= 32 or octet == 9:
                line.append(octet)
                sys.stdout.buffer.write(bytes([octet]))

    # Raw

    def _raw_turn(self) -> None:
        text = bytearray()
        while True:
            octet = self._get()
            if octet == 1:
                return self._say(RAW)
            if octet == 2:
                self._raw = False
                return self._say("\n" + BANNER)
            if octet == 5 and not text:
                if self._get() == 65 and self._get() == 1:
                    return self._paste()
            elif octet == 3:
                text = bytearray()
            elif octet == 4:
                break
            else:
                text.append(octet)
        if not text:
            self._soft_reset()
        self._say("OK")
        return self._finish(text)

    def _paste(self) -> None:
        text, out = bytearray(), sys.stdout.buffer
        out.write(b"R\x01" + bytes([WINDOW & 255, WINDOW >> 8]) + b"\x01")
        left = WINDOW
        while True:
            octet = self._get()
            if octet == 4:
                break
            text.append(octet)
            left -= 1
            if not left:
                left = WINDOW
                out.write(b"\x01")
        out.write(b"\x04")
        return self._finish(text)

    def _finish(self, text: bytearray) -> None:
        error = self._execute(text, "exec", True)
        sys.stdout.buffer.write(b"\x04")
        if error is not None:
            sys.print_exception(error)
        sys.stdout.buffer.write(b"\x04>")

    def _execute(self, text: "Any", mode: str, quiet: bool = False) -> "BaseException | None":
        fake_host.begin()
        try:
            code = compile(text if isinstance(text, str) else str(text, "utf-8"), "<stdin>", mode)
            del text
            exec(code, self._names)
        except SystemExit:
            self._soft_reset()
        except BaseException as error:
            if not quiet:
                sys.print_exception(error)
            return error
        finally:
            fake_host.end()
        return None
