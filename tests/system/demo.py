"""`vicinal demo` as somebody starts it, and ends it by Ctrl-C."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from cloud.broker.brokers import COMMAND, PATIENCE

__all__ = ["Demo"]


class Demo:
    def __init__(self, *options: str) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="v-"))  # short: there are sockets in it
        self.folder = self.base / "d"
        with self._said.open("w") as said:
            self.process = subprocess.Popen(
                [*COMMAND, "demo", "--no-browser", "--port", "0", "--keep", str(self.folder), *options],
                stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True,
            )  # fmt: skip
        self.address = ""
        self._out: str | None = None

    @property
    def _said(self) -> Path:
        return self.base / "err"

    @property
    def said(self) -> str:
        return self._said.read_text()

    def wait_for_address(self) -> None:
        end = time.monotonic() + PATIENCE
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", self.said)):
            assert self.process.poll() is None, self.said
            assert time.monotonic() < end, self.said
            time.sleep(0.1)
        self.address = found[0]

    def wait_for_cars(self) -> None:
        """They drive, and have said something."""
        end, truth = time.monotonic() + PATIENCE, self.folder / "truth.jsonl"
        while not (truth.exists() and truth.stat().st_size):
            assert self.process.poll() is None, self.said
            assert time.monotonic() < end, self.said
            time.sleep(0.1)

    def ctrl_c(self, presses: int = 1) -> str:
        """What it has printed when it has ended, whoever asks."""
        if self._out is None:
            for press in range(presses):
                time.sleep(0.5 * bool(press))
                self.process.send_signal(signal.SIGINT)
            self._out, _ = self.process.communicate(timeout=2 * PATIENCE)
        return self._out

    def left(self) -> list[str]:
        """Processes whose environment or command line names the folder: also those that hold buses and radios."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                text = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            except OSError:
                continue
            if str(self.folder).encode() in text and process.name != str(os.getpid()):
                found.append((process / "cmdline").read_text().replace("\0", " "))
        return found

    def remove(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        shutil.rmtree(self.base, ignore_errors=True)
