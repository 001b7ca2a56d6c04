"""How far the agents of a broker have come in their logs: what is not yet let go, and all else is done.

    DIRECTORY/held.json     {agent: [up to which offset all was looked at, [offsets that are not done]]}

Written a moment after something has changed. A death in between costs nothing as long as the policies are the same:
what is let go twice has the same number twice.
"""

import asyncio
import json
import logging
from pathlib import Path

from .files import replace

__all__ = ["Checkpoint"]

_log = logging.getLogger("vicinal.broker")
# Seconds.
_SOON = 0.5


class Checkpoint:
    def __init__(self, file: Path | None) -> None:
        """Without a file nothing is kept."""
        self._file = file
        self._to: dict[str, int] = {}
        self._open: dict[str, set[int]] = {}
        self._timer: asyncio.TimerHandle | None = None
        if file is not None and file.exists():
            for agent, (to, waiting) in json.loads(file.read_text()).items():
                self._to[agent], self._open[agent] = to, set(waiting)

    def is_done(self, agent: str, offset: int) -> bool:
        return offset <= self._to.get(agent, -1) and offset not in self._open.get(agent, ())

    def took(self, agent: str, offset: int, waits: bool) -> None:
        self._to[agent] = max(offset, self._to.get(agent, -1))
        if waits:
            self._open.setdefault(agent, set()).add(offset)
        else:
            self.done(agent, offset)
        self._write_soon()

    def done(self, agent: str, offset: int) -> None:
        self._open.get(agent, set()).discard(offset)
        self._write_soon()

    def _write_soon(self) -> None:
        if self._file is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SOON, self.write)

    def write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._file is None or not self._to:
            return
        kept = {agent: [to, sorted(self._open.get(agent, ()))] for agent, to in self._to.items()}
        try:
            replace(self._file, json.dumps(kept))
        except OSError as error:
            _log.warning("%s is not written: %s", self._file, error)
            self._write_soon()
