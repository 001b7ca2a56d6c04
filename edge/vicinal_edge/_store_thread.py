"""The one thread that touches the store's file. What it is asked is done one after the other; the answer comes into the
event loop."""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["Worker"]

Answer = Callable[[Any, BaseException | None], None]


class Worker:
    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Answer] | None] = queue.SimpleQueue()
        # A daemon: a program that is told to end does not wait for a disk that hangs.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], Any], answer: Answer) -> None:
        self._jobs.put((work, answer))

    async def call(self, work: Callable[[], Any]) -> Any:
        done: asyncio.Future[Any] = self._loop.create_future()

        def answer(result: Any, error: BaseException | None) -> None:
            if not done.done():
                if error is None:
                    done.set_result(result)
                else:
                    done.set_exception(error)

        self.submit(work, answer)
        return await done

    def stop(self) -> None:
        """After what was submitted."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, answer = job
            result, failure = None, None
            try:
                result = work()
            except BaseException as error:
                failure = error
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(answer, result, failure)
            del job, work, answer, result, failure  # or the last answer is kept until the next
