"""Processes that start in a moment: one that has imported everything forks another for each start.

    with nursery("cloud.log.writer") as children:
        pid = children.start(log, shared)        runs cloud.log.writer.main(log, shared)
        children.signal(pid, signal.SIGKILL)     -9, or what it had ended with by itself

Nearly all that a process of ours needs to start are imports: without them hundreds of kills fit into a test run. The
nursery is the parent: it alone sends signals, to children it has not yet waited for, and so never to a process of
somebody else that got the same id. Lines of JSON on both sides; when the pipe to it closes, it kills what still runs
and ends. (For the `vicinal` command: cloud/broker/kills/nursery.py.)
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["Nursery", "environment", "nursery"]


class Nursery:
    """The other end of the pipe."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def start(self, *arguments: Any) -> int:
        pid: int = self._ask(["start", *arguments])
        return pid

    def signal(self, pid: int, number: int) -> int | None:
        """The exit code, or None if it lives on. 0 only asks."""
        code: int | None = self._ask(["signal", pid, int(number)])
        return code

    def _ask(self, question: list[Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question, default=str) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def nursery(module: str) -> Iterator[Nursery]:
    process = subprocess.Popen(
        [sys.executable, __file__, module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        yield Nursery(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def environment() -> dict[str, str]:
    """In which a process finds the modules of the tests."""
    path = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


# The process itself


def _main(module: ModuleType) -> None:
    children: set[int] = set()
    for line in iter(sys.stdin.readline, ""):
        kind, *fields = json.loads(line)
        answer = _start(children, module, fields) if kind == "start" else _signal(children, *fields)
        print(json.dumps(answer), flush=True)
    for pid in list(children):
        _signal(children, pid, signal.SIGKILL)


def _start(children: set[int], module: ModuleType, arguments: list[Any]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            module.main(*arguments)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(1)
    children.add(pid)
    return pid


def _signal(children: set[int], pid: int, number: int) -> int | None:
    if pid not in children:
        return None
    if number:
        os.kill(pid, number)
    ended, status = os.waitpid(pid, 0 if number == signal.SIGKILL else os.WNOHANG)
    if not ended:
        return None
    children.discard(pid)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    _main(import_module(sys.argv[1]))
