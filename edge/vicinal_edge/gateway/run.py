"""A gateway, from start to end: `vicinal gateway run CONFIG`, or a systemd unit.

SIGTERM and SIGINT end it: it says goodbye to other gateways, and what is stored stays stored. Under systemd it says
when it is ready, and after that, as often as the unit's WatchdogSec wants, that it lives: one that hangs is restarted.
"""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from .config import Config
from .managed import Managed
from .server import CannotListen, Server

__all__ = ["CannotListen", "Server", "at_rest", "run"]

_log = logging.getLogger("vicinal.gateway")


async def run(config: Config, ready: Callable[[Server], None]) -> None:
    """Until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        if not stop.is_set():
            notify("STOPPING=1")  # before it takes its time
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    beat = loop.create_task(_beat())

    def is_ready(server: Server) -> None:
        ready(server)
        notify("READY=1")
        at_rest()

    try:
        if config.fleet:
            await Managed(config, is_ready).run(stop)
        else:
            server = await Server.start(config)
            is_ready(server)
            await stop.wait()
            await server.stop()
    finally:
        beat.cancel()
    _log.info("gateway %s has ended", config.name)


def at_rest() -> None:
    """What is there by now stays. To look through it whenever memory is cleaned up takes 40 ms, in which nothing else
    is done."""
    gc.unfreeze()  # of a configuration before this one
    gc.collect()
    gc.freeze()


async def _beat() -> None:
    """The watchdog of systemd is told twice in its time, by the loop that does the work."""
    microseconds = int(os.environ.get("WATCHDOG_USEC", "0"))
    while microseconds:
        notify("WATCHDOG=1")
        await asyncio.sleep(microseconds / 2e6)


def notify(text: str, environment: Any = os.environ) -> bool:
    """systemd's sd_notify: a datagram to the socket that it names. Whether there is one."""
    name = environment.get("NOTIFY_SOCKET", "")
    if not name:
        return False
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(text.encode(), "\0" + name[1:] if name.startswith("@") else name)
        return True
    return False
