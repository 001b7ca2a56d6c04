"""Releases for agents, as files: `vicinal release build` writes them, a gateway offers those of a folder.

    vicinal-release 1 6371\\n        the bytes of what follows up to the files
    signature, head, a line a file   as devices read it (vicinal/release.py)
    the files, one after the other   in the order of their lines

    releases = Releases(folder)
    releases.manifest("esp32", "0.1.0")      of the newest that a device with 0.1.0 may want, as bytes
    releases.file(digest)                    a file of any of them, by its hash

Whoever puts a file there or takes it away is noticed when the next device asks. What is not in order is not offered,
and said in the log. Whether a signature is good is for the devices to say: they have the key.
"""

import hashlib
import json
import logging
import time
from collections.abc import Iterable
from pathlib import Path

from vicinal import release
from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.release import File, Head

__all__ = ["SUFFIX", "Release", "Releases", "manifest_of", "pack"]

SUFFIX = ".release"
_MAGIC = b"vicinal-release 1 "
# Seconds between two looks at the folder: a fleet that asks at once does not make the gateway read all day.
_LOOK = 1.0
_log = logging.getLogger("vicinal.gateway")


def manifest_of(version: str, board: str, mpy: int, back: str | None, files: dict[str, bytes]) -> bytes:
    """What is signed: the same for the same files, whoever makes it."""
    if not files:
        raise LocalProtocolError("a release without files")
    lines = [
        {
            "back": back,
            "board": board,
            "bytes": sum(len(data) for data in files.values()),
            "files": len(files),
            "format": release.FORMAT,
            "mpy": mpy,
            "version": version,
        },
        *[[name, len(files[name]), hashlib.sha256(files[name]).hexdigest()] for name in sorted(files)],
    ]
    found = [(json.dumps(line, separators=(",", ":")) + "\n").encode() for line in lines]
    release.head_of(found[0])
    for line in found[1:]:
        release.file_of(line)
    return b"".join(found)


def pack(signature: bytes, manifest: bytes, contents: Iterable[bytes]) -> bytes:
    signed = signature.hex().encode() + b"\n" + manifest
    return b"".join([_MAGIC + b"%d\n" % len(signed), signed, *contents])


class Release:
    """One file, read and checked. Raises LocalProtocolError, which says what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            data = path.read_bytes()
        except OSError as error:
            raise LocalProtocolError(f"{path}: {error.strerror}") from error
        first, newline, _ = data[:40].partition(b"\n")
        if not newline or not first.startswith(_MAGIC) or not first[len(_MAGIC) :].isdigit():
            raise LocalProtocolError(f"{path}: no release: `vicinal release build` makes them")
        start, length = len(first) + 1, int(first[len(_MAGIC) :])
        self.signed = data[start : start + length]
        if length > release.MAX_MANIFEST or len(self.signed) != length or length < release.SIGNATURE_LINE:
            raise LocalProtocolError(f"{path}: it ends in what it says of itself: copy it again")
        try:
            self.signature = bytes.fromhex(self.signed[: release.SIGNATURE_LINE].decode("ascii").strip())
            lines = self.manifest.splitlines(keepends=True)
            self.head: Head = release.head_of(lines[0] if lines else b"")
            self.files: list[File] = [release.file_of(line) for line in lines[1:]]
        except (ValueError, VicinalError) as error:
            raise LocalProtocolError(f"{path}: {error}") from error
        total = sum(file.size for file in self.files)
        if (len(self.files), total) != (self.head.files, self.head.bytes):
            raise LocalProtocolError(
                f"{path}: it says {self.head.files} files of {self.head.bytes} bytes, "
                f"and has {len(self.files)} of {total}"
            )
        self._contents: dict[bytes, tuple[int, int]] = {}
        at = start + length
        for file in self.files:
            if hashlib.sha256(data[at : at + file.size]).digest() != file.digest:
                raise LocalProtocolError(f"{path}: {file.name} is damaged: copy it again")
            self._contents[file.digest] = (at, file.size)
            at += file.size
        if at != len(data):
            raise LocalProtocolError(f"{path}: {len(data) - at} bytes after its last file")

    @property
    def manifest(self) -> bytes:
        return self.signed[release.SIGNATURE_LINE :]

    def is_signed_by(self, key: str) -> bool:
        from vicinal import p256

        return p256.verify(p256.key_of(key), hashlib.sha256(self.manifest).digest(), self.signature)

    def file(self, digest: bytes) -> bytes | None:
        """Read when it is asked for: a gateway keeps no release in memory. None: it has none, or is gone."""
        where = self._contents.get(digest)
        if where is None:
            return None
        try:
            with self.path.open("rb") as file:
                file.seek(where[0])
                data = file.read(where[1])
        except OSError:
            return None
        return data if hashlib.sha256(data).digest() == digest else None


class Releases:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Path, tuple[tuple[int, int, int], Release | None]] = {}
        self._looked = 0.0

    def all(self) -> list[Release]:
        """Those that are in order, of now."""
        now = time.monotonic()
        if self._looked and now - self._looked < _LOOK:
            return [found for _, found in self._known.values() if found is not None]
        self._looked = now
        seen = dict(self._known)
        self._known = {}
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            try:
                stat = path.stat()
            except OSError:
                continue
            state = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if path in seen and seen[path][0] == state:
                self._known[path] = seen[path]
                continue
            found: Release | None = None
            try:
                found = Release(path)
            except LocalProtocolError as error:
                _log.warning("not offered to agents: %s", error)
            self._known[path] = (state, found)
        return [found for _, found in self._known.values() if found is not None]

    def manifest(self, board: str, running: str | None = None, wanted: str | None = None) -> bytes | None:
        """With its signature. Of several of one version that of the board itself. None: there is nothing for it."""
        best = self._best(board, running, wanted)
        if best is None and wanted is not None:
            self._looked = 0.0  # who tells a device to fetch it may have put it there just now
            best = self._best(board, running, wanted)
        return None if best is None else best.signed

    def _best(self, board: str, running: str | None, wanted: str | None) -> Release | None:
        best: Release | None = None
        for one in self.all():
            head = one.head
            if head.board not in ("any", board):
                continue
            if wanted is not None:
                if release.version_of(head.version) != release.version_of(wanted):
                    continue
            elif running is not None and not release.is_newer(head.version, running):
                continue
            if best is None or _rank(head) > _rank(best.head):
                best = one
        return best

    def file(self, digest: bytes) -> bytes | None:
        for one in self.all():
            data = one.file(digest)
            if data is not None:
                return data
        return None


def _rank(head: Head) -> tuple[list[int], bool]:
    return release.version_of(head.version), head.board != "any"
