"""GET /status and GET /metrics, and nothing else: less than a web framework would need to be told."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from .status import metrics

__all__ = ["serve"]

_TIMEOUT = 5.0
_MAX_HEAD = 8192


async def serve(status: Callable[[], dict[str, Any]], host: str, port: int) -> asyncio.Server:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_answer(head, status))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # whoever asked has gone, or never meant to ask
        finally:
            writer.close()

    return await asyncio.start_server(handle, host, port, limit=_MAX_HEAD)


def _answer(head: bytes, status: Callable[[], dict[str, Any]]) -> bytes:
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or words[0] != b"GET":
        return _response("405 Method Not Allowed", "text/plain", "only GET\n")
    path = words[1].split(b"?")[0]
    if path == b"/metrics":
        return _response("200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics(status()))
    if path == b"/status":
        return _response("200 OK", "application/json", json.dumps(status()) + "\n")
    return _response("404 Not Found", "text/plain", "there is /status and /metrics\n")


def _response(line: str, kind: str, text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {line}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
