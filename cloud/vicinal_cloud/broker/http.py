"""GET /status and GET /metrics, and nothing else: less than a web framework would need to be told."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from vicinal.pages_cpython import MAX_HEAD, METRICS_TYPE, answer

from .status import metrics

__all__ = ["serve"]

_TIMEOUT = 5.0


async def serve(status: Callable[[], dict[str, Any]], host: str, port: int) -> asyncio.Server:
    pages = {
        "/metrics": lambda: (METRICS_TYPE, metrics(status())),
        "/status": lambda: ("application/json", json.dumps(status()) + "\n"),
    }

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                writer.write(answer(await reader.readuntil(b"\r\n\r\n"), pages))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # whoever asked has gone, or never meant to ask
        finally:
            writer.close()

    return await asyncio.start_server(handle, host, port, limit=MAX_HEAD)
