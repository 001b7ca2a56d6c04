"""Whatever a plug-in raises, as something that who looks after it can catch.

Two things that it may raise would pass by everybody: SystemExit ends the program, and a CancelledError that is the
adapter's own, of a task of its that it has ended and waited for, looks as if whoever called it was to end.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

__all__ = ["Misbehaved", "guarded"]

T = TypeVar("T")


class Misbehaved(Exception):
    """Of an adapter."""


async def guarded(work: Awaitable[T]) -> T:
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # it is us
        raise Misbehaved("its adapter was cancelled, by itself") from None
    except SystemExit as error:
        raise Misbehaved(f"its adapter wanted to end the program: {error!r}") from None
