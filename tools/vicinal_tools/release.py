"""Making releases for agents: the staged tree of this checkout, with a version, signed (protocols/vicinal/release.py).

The private key is a PEM file that only its owner may read, and stays where releases are made; the public one is the
line `key` in [update] of each device's configuration. ECDSA on P-256 over SHA-256, as MicroPython has no SHA-512.
"""

import os
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

import vicinal
from vicinal.errors import LocalProtocolError
from vicinal.release import is_newer, version_of
from vicinal_edge.releases import manifest_of, pack

from .stage import SOURCE, compile_file, stage_agent

__all__ = ["build", "files_of", "new_key", "public_of", "read_key", "sign", "signed"]


def new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Written for nobody else to read; one that is there stays."""
    key = ec.generate_private_key(ec.SECP256R1())
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise LocalProtocolError(f"{path} is there already: devices may trust it; give another name") from error
    except OSError as error:
        raise LocalProtocolError(f"{path}: {error.strerror}") from error
    with os.fdopen(opened, "wb") as file:
        file.write(data)
    return key


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise LocalProtocolError(f"{path}: {error.strerror}: `vicinal release keygen {path}` makes one") from error
    except (ValueError, TypeError) as error:
        raise LocalProtocolError(f"{path}: no private key without a password in PEM") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise LocalProtocolError(f"{path}: a key of another kind, want one on P-256: `vicinal release keygen`")
    return key


def public_of(key: ec.EllipticCurvePrivateKey) -> str:
    """What devices have: 66 hex digits."""
    point = key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    return point.hex()


def sign(key: ec.EllipticCurvePrivateKey, manifest: bytes) -> bytes:
    r, s = decode_dss_signature(key.sign(manifest, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def files_of(version: str) -> dict[str, bytes]:
    """The tree of an agent that says it is `version`."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        stage_agent(tree)
        text = (SOURCE / "__init__.py").read_text(encoding="utf-8")
        told = f'__version__ = "{vicinal.__version__}"'
        if told not in text:
            raise LocalProtocolError(f"{SOURCE / '__init__.py'}: no line {told}")
        stamped = Path(folder) / "__init__.py"
        stamped.write_text(text.replace(told, f'__version__ = "{version}"'), encoding="utf-8")
        compile_file(stamped, tree / "lib" / "vicinal" / "__init__.mpy", "vicinal/__init__.py")
        return {
            path.relative_to(tree).as_posix(): path.read_bytes() for path in sorted(tree.rglob("*")) if path.is_file()
        }


def signed(
    key: ec.EllipticCurvePrivateKey, version: str, files: dict[str, bytes], board: str = "any", back: str | None = None
) -> bytes:
    """The bytes of a release."""
    version_of(version)
    if back is not None and not is_newer(back, version):
        raise LocalProtocolError(f"back {back}: want a version newer than {version}, which it goes back from")
    bytecode = {data[1] for name, data in files.items() if name.endswith(".mpy") and data[:1] == b"M"}
    if len(bytecode) != 1:
        raise LocalProtocolError(f"bytecode of versions {sorted(bytecode)} in one release, want one")
    manifest = manifest_of(version, board, bytecode.pop(), back, files)
    return pack(sign(key, manifest), manifest, [files[name] for name in sorted(files)])


def build(key: Path, out: Path, version: str, board: str = "any", back: str | None = None) -> None:
    """Written aside and renamed: a gateway that looks meanwhile sees it whole or not at all."""
    version_of(version)
    data = signed(read_key(key), version, files_of(version), board, back)
    aside = out.with_name(out.name + ".new")
    try:
        aside.write_bytes(data)
        aside.replace(out)
    except OSError as error:
        raise LocalProtocolError(f"{out}: {error.strerror}") from error
