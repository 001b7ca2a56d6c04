"""What a device runs: main.py there is `import slots; slots.boot()`, which calls main() of the slot's release.

It reads agent.json (what `vicinal agent json` makes of a configuration), says hello on the console, and serves for
ever. Whatever it cannot go on after is kept for the next boot to tell, and the machine starts again. A release on trial
is confirmed when its boot counts as healthy (guard.py).
"""

import gc as _gc
import json
import os
import sys as _sys
import time as _time

from vicinal import __version__

from .kept import UPDATE, take_lean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .loop import Loop
    from .slots import Slots

# MicroPython's have more than CPython's, which is what type checkers know.
gc: "Any" = _gc
sys: "Any" = _sys
time: "Any" = _time

__all__ = ["main"]

# ms: a turn comes at least so often, as interrupts only fill queues.
_LONGEST = 20
# Bytes that are taken between two collections.
_COLLECT = 16384
# ms: a release on trial is watched, whatever its configuration says.
_TRIAL_WATCHDOG = 30000


def main(file: str = "agent.json", folder: str = ".", turns: "int | None" = None, slots: "Slots | None" = None) -> None:
    """`turns` of the loop, then it ends; None: never."""
    # Collected early and often, what stays lies close together; a heap that is left to fill up ends in pieces.
    gc.threshold(_COLLECT)
    if slots is not None and slots.trying is None and take_lean(folder + UPDATE):
        from .over_the_air import update_alone

        update_alone(file, folder, slots)
        _restart()
        return
    # Not before: an update alone has the memory for itself.
    from .board import Board
    from .clock import Ticks
    from .config import Config
    from .link import link_of
    from .loop import Loop

    with open(file) as opened:  # noqa: PTH123 - MicroPython has no pathlib
        config = Config(json.loads(opened.read()), file)
    board = Board()
    ticks = Ticks(time.ticks_ms())
    board.connect(config)
    loop = Loop(config, board, link_of(config), __version__, os.urandom(8), 0, folder)
    loop.agent.free = gc.mem_free
    slot, trial = (None, False) if slots is None else (slots.active, slots.trying is not None)
    hello = {"agent": config.name, "version": __version__, "safe": loop.guard.safe, "slot": slot, "trial": trial}
    print("hello", json.dumps(hello))
    if config.update is not None and slots is not None:
        from .over_the_air import updater_of

        loop.updater = updater_of(loop.agent, config.update, slots, folder)
    watched = config.watchdog or (_TRIAL_WATCHDOG if trial else 0)
    dog = board.watchdog(watched) if watched else None
    try:
        while turns is None or turns > 0:
            if turns is not None:
                turns -= 1
            now = ticks.now(time.ticks_ms())
            due = loop.turn(now)
            if dog is not None and loop.watchdog.may_feed(now):
                dog.feed()
            if loop.updater is not None and loop.updater.restart:
                _leave(loop)
                return
            if trial and slots is not None and not _judged(loop) and loop.guard.is_healthy and not loop.guard.safe:
                trial = not _confirmed(slots)
            time.sleep_ms(max(0, min(_LONGEST, due - now)))
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        sys.print_exception(error)
        loop.give_up(why)
        try:
            loop.agent.journal.flush()
            if slots is not None:
                slots.failed(why)
        except Exception as another:  # a full or broken flash: what else there is to do is to start again
            sys.print_exception(another)
        _restart()
    loop.close()


def _leave(loop: "Loop") -> None:
    print("restart:", loop.updater.restart)
    if loop.updater.judges:
        loop.give_up(loop.updater.restart)
    else:
        loop.give_way()
    loop.close()
    _restart()


def _confirmed(slots: "Slots") -> bool:
    """False: there is no room on flash to say so, and it is tried again."""
    try:
        slots.confirm()
    except OSError:
        return False
    return True


def _judged(loop: "Loop") -> bool:
    """A release that came over the air is confirmed by the updater, when it has reached the gateway too."""
    return loop.updater is not None and loop.updater.judges


def _restart() -> None:
    try:
        from machine import reset
    except ImportError:
        sys.exit(1)
    time.sleep_ms(1000)  # for who reads the console
    reset()
