"""vicinal token: say who somebody is."""

import json
import time
from pathlib import Path

import click

from vicinal.errors import LocalProtocolError

from ..complain import BadInput
from ..durations import Duration

__all__ = ["command"]


@click.command("token", short_help="Issue a token that says who somebody is.")
@click.argument("key", type=click.Path(exists=True, dir_okay=False))
@click.argument("name")
@click.argument("claims", nargs=-1, metavar="[ATTRIBUTE=VALUE...]")
@click.option(
    "--for", "lasting", type=Duration(), default="8h", show_default=True, metavar="TIME", help="As 30m or 7d."
)
@click.option("--out", type=click.Path(dir_okay=False), help="Into a file that only we can read; else to stdout.")
def command(key: str, name: str, claims: tuple[str, ...], lasting: int, out: str | None) -> None:
    """Issue a token for NAME, signed with the private KEY, for tests and small deployments.

    \b
        openssl genpkey -algorithm ed25519 -out issuer.key
        openssl pkey -in issuer.key -pubout -out issuer.pem     the broker's: [identity] tokens = "issuer.pem"
        vicinal token issuer.key ann role=trader --out ann.token
        vicinal sub --token-file ann.token

    A VALUE is JSON where it is a number, true, false or in quotes, and text else. KEY is of Ed25519, P-256 or RSA, in
    PEM; or a secret of at least 32 bytes, which the broker has too.
    """
    from vicinal_cloud.broker.tokens import sign

    now = int(time.time())
    said = {**dict(_claim(text) for text in claims), "sub": name, "iat": now, "exp": now + lasting // 1000}
    try:
        token = sign(Path(key), said)
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error
    if out is None:
        click.echo(token)
        return
    try:
        Path(out).touch(mode=0o600)
        Path(out).write_text(token + "\n", encoding="ascii")
    except OSError as error:
        raise BadInput(f"--out {out}: {error.strerror}") from error


def _claim(text: str) -> tuple[str, str | int | float | bool]:
    name, equals, value = text.partition("=")
    if not equals or not name or name in ("sub", "iat", "exp", "nbf", "aud"):
        raise BadInput(f"{text!r}: want ATTRIBUTE=VALUE, and not sub, iat, exp, nbf or aud")
    try:
        found = json.loads(value)
    except ValueError:
        return name, value
    return name, found if isinstance(found, str | int | float | bool) else value
