"""Signed tokens (RFC 7519, RFC 8725): who somebody is, said by an issuer whom the broker trusts.

    Issuer.load("issuer.pem").identity(token, now)      the Identity that it proves; raises BadToken
    sign("issuer.key", {"sub": "ann", ...})             for tests and small deployments

The key says which algorithm signs: a token's own word on it is not asked. So a token "signed" with none, or with the
public key as if that were a secret, is one of a wrong signature.
"""

import base64
import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicinal.errors import LocalProtocolError
from vicinal.scope.membership import Identity

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["BadToken", "Issuer", "name_in", "read_token", "sign"]

# Milliseconds by which an issuer's clock may be ahead of ours.
LEEWAY = 10_000
# Bytes: RFC 7518, 3.2, a key as long as the hash.
MIN_SECRET = 32
AUDIENCE = "vicinal"
# What is of the token, not of whom it is about.
_ITS_OWN = ("sub", "iat", "exp", "nbf", "aud")


class BadToken(LocalProtocolError):
    """The message says why; it never has the token."""


class Issuer:
    def __init__(self, key: Any, algorithm: str) -> None:
        self.algorithm = algorithm
        self._key = key

    @classmethod
    def load(cls, file: Path) -> "Issuer":
        """The message of what it raises begins with the file."""
        return cls(*_key_of(file, private=False))

    def identity(self, token: str, now: int) -> Identity:
        jwt = _jwt()
        asked = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_aud": False}
        try:  # times are asked below, of our clock
            claims = jwt.decode(token, self._key, algorithms=[self.algorithm], options=asked)
        except jwt.PyJWTError as error:
            raise BadToken(f"your token is not one of {self.algorithm} by our issuer: {error}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise BadToken(f"your token cannot be read: {type(error).__name__}") from None
        times = {name: _time(claims, name, required=name != "nbf") for name in ("iat", "exp", "nbf")}
        issued, expires = times["iat"], times["exp"]
        assert issued is not None
        assert expires is not None
        if expires <= now:
            raise BadToken(f"your token has expired: at {expires} ms, and it is {now}")
        starts = max(issued, times["nbf"] or 0)
        if starts > now + LEEWAY:
            raise BadToken(f"your token is not valid before {starts} ms, and it is {now}")
        audience = claims.get("aud", AUDIENCE)
        if AUDIENCE not in (audience if isinstance(audience, list) else [audience]):
            raise BadToken(f"your token is for {audience!r}, not for {AUDIENCE!r}")
        name = claims.get("sub")
        if type(name) is not str or not name:
            raise BadToken(f"your token has sub {name!r}, want a name")
        said = {
            key: value
            for key, value in claims.items()
            if key not in _ITS_OWN and type(value) in (str, int, float, bool)
        }
        try:
            return Identity(name, said, issued, expires)
        except LocalProtocolError as error:
            raise BadToken(f"what your token claims cannot be attributes: {error}") from error


def read_token(file: Path) -> str:
    """Raises OSError or BadToken. To be read for each connection: whoever renews tokens writes them there."""
    try:
        return file.read_text(encoding="ascii").strip()
    except UnicodeDecodeError as error:
        raise BadToken(f"{file} holds no token") from error


def name_in(token: str) -> str:
    """For a connection of whom it is about, with something of its own behind the name: a person may have several."""
    try:
        body = token.split(".")[1]
        name = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["sub"]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise BadToken("it holds no token with a name in it (sub)") from error
    return f"{name}~{secrets.token_hex(3)}"


def sign(key: Path, claims: dict[str, Any]) -> str:
    found, algorithm = _key_of(key, private=True)
    return str(_jwt().encode(claims, found, algorithm=algorithm))


def _time(claims: dict[str, Any], name: str, required: bool) -> int | None:
    """ms"""
    value: Any = claims.get(name)
    if value is None and not required:
        return None
    if type(value) not in (int, float) or not 0 <= value < 1 << 40:
        raise BadToken(f"your token has {name} {value!r}, want seconds since 1970")
    return int(value * 1000)


def _key_of(file: Path, private: bool) -> tuple[Any, str]:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise LocalProtocolError(f"{file}: {error.strerror}") from error
    _jwt()
    if b"-----BEGIN" not in data:
        secret = data.strip()
        if len(secret) < MIN_SECRET:
            raise LocalProtocolError(f"{file}: a secret of {len(secret)} bytes, want at least {MIN_SECRET}, or PEM")
        return secret, "HS256"
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

    try:
        key: Any = load_pem_private_key(data, None) if private else load_pem_public_key(data)
    except (ValueError, TypeError) as error:
        want = "a private key without a password" if private else "a public key"
        other = (
            "" if private or b"PRIVATE KEY" not in data else ": a broker is given the public key, never the private one"
        )
        raise LocalProtocolError(f"{file}: not {want} in PEM{other}") from error
    public = key.public_key() if private else key
    if isinstance(public, ed25519.Ed25519PublicKey):
        return key, "EdDSA"
    if isinstance(public, ec.EllipticCurvePublicKey) and isinstance(public.curve, ec.SECP256R1):
        return key, "ES256"
    if isinstance(public, rsa.RSAPublicKey) and public.key_size >= 2048:
        return key, "RS256"
    raise LocalProtocolError(f"{file}: want a key of Ed25519, P-256, or RSA with at least 2048 bits")


def _jwt() -> "ModuleType":
    try:
        import jwt
    except ImportError as error:
        raise LocalProtocolError("tokens need PyJWT: pip install 'vicinal[broker]'") from error
    return jwt
