"""What a broker and a gateway show of themselves over HTTP: GET of a few pages, and nothing else.

No I/O here: the head of a request goes in, the bytes of the answer come out. Counters become what Prometheus reads.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

__all__ = ["MAX_HEAD", "METRICS_TYPE", "Metrics", "Pages", "answer"]

MAX_HEAD = 8192
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Pages: TypeAlias = Mapping[str, Callable[[], tuple[str, str]]]
"""path -> a function that gives content type and text"""


def answer(head: bytes, pages: Pages) -> bytes:
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or words[0] != b"GET":
        return _response("405 Method Not Allowed", "text/plain", "only GET\n")
    page = pages.get(words[1].split(b"?")[0].decode("latin-1"))
    if page is None:
        return _response("404 Not Found", "text/plain", f"there is {' and '.join(sorted(pages))}\n")
    return _response("200 OK", *page())


def _response(line: str, kind: str, text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {line}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


class Metrics:
    """The text format of Prometheus, version 0.0.4."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._lines: list[str] = []

    def add(self, name: str, kind: str, samples: Iterable[tuple[Mapping[str, str], int | float]]) -> None:
        """Counters end in _total. `samples` are labels and values."""
        name = f"{self._prefix}_{name}" + ("_total" if kind == "counter" else "")
        self._lines.append(f"# TYPE {name} {kind}")
        for labels, value in samples:
            inside = ",".join(f'{key}="{_label(text)}"' for key, text in labels.items())
            self._lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
