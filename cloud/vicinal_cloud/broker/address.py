"""Where a broker listens, or is to be found: tcp://host:port, tls://, ws://, wss://.

host:port is short for tcp://host:port, and 7447 for a port that is not given.
"""

import ssl
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from vicinal.errors import LocalProtocolError

__all__ = ["DEFAULT_PORT", "Address", "Tls", "parse"]

DEFAULT_PORT = 7447
_SCHEMES = ("tcp", "tls", "ws", "wss")


class Address(NamedTuple):
    scheme: str
    host: str
    port: int

    @property
    def secure(self) -> bool:
        return self.scheme in ("tls", "wss")

    @property
    def web(self) -> bool:
        return self.scheme in ("ws", "wss")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse(text: str, schemes: tuple[str, ...] = _SCHEMES, default_port: int = DEFAULT_PORT) -> Address:
    scheme, found, rest = text.partition("://")
    if not found:
        scheme, rest = schemes[0], text
    if scheme not in schemes:
        raise LocalProtocolError(f"{text!r}: {scheme!r} is none of {', '.join(schemes)}")
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise LocalProtocolError(f"{text!r}: {error}") from error
    if not host or parts.path.strip("/") or parts.query or parts.username:
        raise LocalProtocolError(f"{text!r}: want {scheme}://HOST:PORT")
    return Address(scheme, host, default_port if port is None else port)


class Tls(NamedTuple):
    """Files in PEM. `ca` are whom to trust: of a listener it means that clients must show a certificate."""

    certificate: Path | None = None
    key: Path | None = None
    ca: Path | None = None

    def for_listener(self) -> ssl.SSLContext:
        if self.certificate is None:
            raise LocalProtocolError("a TLS listener needs a certificate")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        if self.ca is not None:
            context.load_verify_locations(self.ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def for_dialler(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context
