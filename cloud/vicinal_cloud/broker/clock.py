"""The clock of brokers and clients. A module of its own: a client on a gateway loads nothing of the server for it."""

import time
from collections.abc import Callable

__all__ = ["clock"]


def clock() -> Callable[[], int]:
    """Milliseconds that never go back, and are those of the wall clock at the start: timers need the one, the trail of
    an event the other."""
    start = int(time.time() * 1000) - int(time.monotonic() * 1000)
    return lambda: start + int(time.monotonic() * 1000)
