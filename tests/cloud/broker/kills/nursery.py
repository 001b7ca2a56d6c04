"""Brokers that start in a moment: a process that has imported everything forks one for each start.

`vicinal broker run` takes half a second of CPU to start, nearly all of it for imports. A fork of a process that has
them runs the same command with the same arguments, is killed by the same SIGKILL, and starts in a tenth of the time, so
that hundreds of kills fit into a test run. The nursery is the parent: it alone sends signals, to children it has not
yet waited for, and so never to a process of somebody else that got the same id.

    start CONFIG ERRORS [MUTANT]     ->  PID and what the broker says when it listens
    signal PID NUMBER                ->  what has become of it: -9 after SIGKILL, - if it lives

Lines of JSON on both sides. When the pipe to it closes, it kills what still runs and ends.
"""

import asyncio
import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["Nursery"]


class Nursery:
    """The other end of the pipe, for asyncio."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> "Nursery":
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def start(self, config: Path, mutant: str | None = None) -> tuple[int, dict[str, Any]]:
        """Process id, and what it says when it listens."""
        pid, said = await self._ask(["start", str(config), str(config.with_suffix(".err")), mutant])
        assert said is not None, f"broker {config.stem} did not start: {config.with_suffix('.err').read_text()[-2000:]}"
        return pid, said

    async def signal(self, pid: int, number: int) -> int | None:
        """The exit code, or None if it lives on."""
        code: int | None = await self._ask(["signal", pid, int(number)])
        return code

    async def _ask(self, question: list[Any]) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        async with self._turn:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            await process.stdin.drain()
            return json.loads(await process.stdout.readline())


# The process itself


def _main() -> None:
    for module in ("vicinal_cloud.broker.server", "vicinal_tools.commands.broker"):
        import_module(module)
    children: set[int] = set()
    for line in iter(sys.stdin.readline, ""):
        kind, *fields = json.loads(line)
        if kind == "start":
            answer: Any = _start(children, *fields)
        else:
            answer = _signal(children, *fields)
        print(json.dumps(answer), flush=True)
    for pid in list(children):
        _signal(children, pid, signal.SIGKILL)


def _start(children: set[int], config: str, errors: str, mutant: str | None) -> tuple[int, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _become(config, errors, writing, mutant)
    os.close(writing)
    with os.fdopen(reading) as said:
        line = said.readline()
    if not line:
        os.waitpid(pid, 0)
        return pid, None
    children.add(pid)
    return pid, json.loads(line)


def _become(config: str, errors: str, writing: int, mutant: str | None) -> None:
    """Never returns."""
    from vicinal_tools.main import main

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(writing, 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
    if mutant is not None:
        from cloud.broker.kills.mutants import MUTANTS

        MUTANTS[mutant]()
    sys.argv = ["vicinal", "broker", "run", config, "--json", "--quiet"]
    try:
        main()
    finally:
        os._exit(1)


def _signal(children: set[int], pid: int, number: int) -> int | None:
    os.kill(pid, number)
    if number != signal.SIGKILL:
        return None
    children.discard(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    _main()
