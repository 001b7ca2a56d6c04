"""An issuer of tokens for tests, and brokers that trust it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from vicinal_cloud.broker.tokens import sign

KEYS: dict[str, Callable[[], Any]] = {
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
}

DEPLOYMENT = """
[[scope]]
name = "floor"
dimension = "market"
membership = { join = "role = 'trader' OR role = 'engine'", publish = "role = 'engine'" }

[[scope]]
name = "hall"
dimension = "market"
"""


class Issuing:
    def __init__(self, folder: Path, algorithm: str = "EdDSA") -> None:
        self.folder = folder
        self.private, self.public = folder / "issuer.key", folder / "issuer.pem"
        if algorithm == "HS256":
            self.private.write_bytes(b"x" * 16 + b"secret of the issuer")
            self.public.write_bytes(self.private.read_bytes())
            return
        key = KEYS[algorithm]()
        self.private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        self.public.write_bytes(
            key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )

    def token(self, name: str, role: str | None = None, lasting: float = 3600, issued: float = 0, **more: Any) -> str:
        """`issued` is in seconds from now."""
        now = time.time() + issued
        claims = {"sub": name, "iat": now, "exp": now + lasting, **({} if role is None else {"role": role}), **more}
        return sign(self.private, {key: value for key, value in claims.items() if value is not None})

    def file(self, name: str, role: str | None = None, **more: Any) -> str:
        found = self.folder / f"{name}.token"
        found.write_text(self.token(name, role, **more))
        return str(found)

    def deploy(self, text: str = DEPLOYMENT) -> Path:
        """In one step: nobody reads half of it."""
        file = self.folder / "deployment.toml"
        new = self.folder / "deployment.new"
        new.write_text(text)
        new.replace(file)
        return file


IDENTITY = """
[identity]
tokens = "issuer.pem"
administrators = "role = 'administrator'"
"""
