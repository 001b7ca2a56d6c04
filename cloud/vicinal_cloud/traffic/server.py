"""The office with its pages, from start to end: `vicinal traffic run CONFIG`. SIGTERM and SIGINT end it."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import uvicorn

from vicinal.errors import LocalProtocolError
from vicinal.listening_cpython import cannot_listen

from .api import make_app
from .config import Config
from .live import Audience
from .office import Office
from .office import run as run_office

__all__ = ["CannotListen", "run"]


class CannotListen(LocalProtocolError):
    pass


async def run(config: Config, ready: Callable[[Office, str | None], None]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    @asynccontextmanager
    async def serve(office: Office) -> AsyncIterator[None]:
        if config.listen is None:
            ready(office, None)
            yield
            return
        listener = _listen(*config.listen)
        audience = Audience(office)
        options = uvicorn.Config(make_app(office, audience), log_level="warning", access_log=False, lifespan="off")
        server = uvicorn.Server(options)
        serving = loop.create_task(server._serve([listener]))
        try:
            while not server.started:
                if serving.done():
                    serving.result()
                    raise CannotListen("the pages cannot be served")
                await asyncio.sleep(0.01)
            host, port = listener.getsockname()[:2]
            ready(office, f"http://{host}:{port}")
            yield
        finally:
            audience.close()
            server.should_exit = True
            await serving
            listener.close()

    await run_office(config, serve, stop)


def _listen(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise CannotListen(cannot_listen(f"http://{host}:{port}", error)) from error
    return made
