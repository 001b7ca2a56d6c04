"""Brokers that start in a moment: a process that has imported everything forks one for each start. Gateways, too.

`vicinal broker run` takes half a second of CPU to start, nearly all of it for imports. A fork of a process that has
them runs the same command with the same arguments, is killed by the same SIGKILL, and starts in a tenth of the time, so
that hundreds of kills fit into a test run. The nursery is the parent: it alone sends signals, to children it has not
yet waited for, and so never to a process of somebody else that got the same id.

    start COMMAND CONFIG ERRORS [MUTANT] [S] ->  PID and what `vicinal COMMAND run` says when it listens; if it does not
                                                 within S seconds, it is killed, and null
    signal PID NUMBER                        ->  what has become of it: -9 after SIGKILL, - if it lives

Lines of JSON on both sides. When the pipe to it closes, it kills what still runs and ends.
"""

import asyncio
import json
import os
import select
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["Nursery"]


class Nursery:
    """The other end of the pipe, for asyncio."""

    def __init__(self, command: str = "broker") -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> "Nursery":
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(Path(__file__)),
            self._command,
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
        pid, said = await self._ask(["start", self._command, str(config), str(config.with_suffix(".err")), mutant])
        assert said is not None, (
            f"{self._command} {config.stem} did not start: {config.with_suffix('.err').read_text()[-2000:]}"
        )
        return pid, said

    async def interrupt(self, config: Path, seconds: float, mutant: str | None = None) -> None:
        """Starts it and kills it so many seconds later: it does not get to the end of starting, perhaps."""
        pid, said = await self._ask(
            ["start", self._command, str(config), str(config.with_suffix(".err")), mutant, seconds]
        )
        if said is not None:
            await self.signal(pid, signal.SIGKILL)

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


# What is imported before the first start, and where the mutants are.
COMMANDS = {
    "broker": (["vicinal_cloud.broker.server", "vicinal_tools.commands.broker"], "cloud.broker.kills.mutants"),
    "gateway": (
        ["vicinal_edge.gateway.run", "vicinal_edge.adapters.mqtt", "vicinal_edge.adapters.siena"],
        "edge.gateway.outages.mutants",
    ),
}


def _main(command: str) -> None:
    for module in COMMANDS[command][0]:
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


def _start(
    children: set[int], command: str, config: str, errors: str, mutant: str | None, seconds: float | None = None
) -> tuple[int, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _become(command, config, errors, writing, mutant)
    os.close(writing)
    if seconds is not None and not select.select([reading], [], [], seconds)[0]:
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading) as said:
        line = said.readline()
    if not line:
        os.waitpid(pid, 0)
        return pid, None
    children.add(pid)
    return pid, json.loads(line)


def _become(command: str, config: str, errors: str, writing: int, mutant: str | None) -> None:
    """Never returns."""
    from vicinal_tools.main import main

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(writing, 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), 2)
    if mutant is not None:
        import_module(COMMANDS[command][1]).MUTANTS[mutant]()
    sys.argv = ["vicinal", command, "run", config, "--json", "--quiet"]
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
    _main(sys.argv[1])
