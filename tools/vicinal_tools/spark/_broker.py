"""A broker of our own beside a Spark job: a process of its own, on a free port, its log in a folder that is given."""

import ctypes
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..overlay import Failed

__all__ = ["broker"]

_COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()", "broker", "run"]
_ENDS_WITHIN = 30
PR_SET_PDEATHSIG = 1


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """Its address; the log is in `folder`/log, and stays."""
    config, said = folder / "broker.toml", folder / "broker.log"
    config.write_text(
        '[broker]\nname = "beside-spark"\n[[listen]]\naddress = "tcp://127.0.0.1:0"\n[log]\ndirectory = "log"\n'
    )
    with said.open("a") as errors:
        process = subprocess.Popen(
            [*_COMMAND, str(config), "--json", "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=_end_with_us,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            last = said.read_text().strip().splitlines()
            raise Failed(f"the broker did not start: {last[-1] if last else 'it said nothing'} (see {said})")
        yield json.loads(line)["listen"][0]
    finally:
        process.terminate()
        try:
            process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _end_with_us() -> None:
    """Linux: who kills us leaves no broker behind, that would hold the log when we are started again."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
