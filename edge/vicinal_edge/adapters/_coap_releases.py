"""Releases for agents as CoAP resources, block by block (spec/agent.md):

    /release?board=esp32&version=0.1.0       signature and manifest of the newest that is newer; 4.04: there is none
    /release?board=esp32&want=0.2.0          of that one
    /release/SHA256                          a file, by its hash in hex; 4.04: no release here has it (any more)

Nothing is remembered of who fetches what: a block is of the file that its hash names, so any number of agents fetch at
once, and go on after the gateway was started again.
"""

from pathlib import Path

from aiocoap import Message
from aiocoap.numbers import codes

from vicinal.errors import LocalProtocolError
from vicinal.release import version_of

from ..releases import Releases
from ._coap_blocks import LARGEST, Answer, Outgoing

__all__ = ["ReleaseSite"]

OCTETS = 42
# Files that are kept between two blocks: a fleet that updates fetches them in one order.
_KEPT = 16


class ReleaseSite:
    def __init__(self, folder: Path) -> None:
        self.releases = Releases(folder)
        self._kept: dict[bytes, Outgoing] = {}

    def find(self, request: Message) -> Outgoing:
        """What the whole answer is. Raises Answer."""
        path = request.opt.uri_path
        if len(path) == 1:
            return Outgoing(OCTETS, self._manifest(request))
        try:
            digest = bytes.fromhex(path[1])
        except ValueError:
            digest = b""
        if len(path) != 2 or len(digest) != 32:
            raise Answer(codes.NOT_FOUND, "there are /release and /release/SHA256")
        if request.opt.block2 is not None and request.opt.block2.block_number and digest in self._kept:
            return self._kept[digest]
        data = self.releases.file(digest)
        if data is None:
            self._kept.pop(digest, None)
            raise Answer(codes.NOT_FOUND, "no release here has this file")
        if len(self._kept) >= _KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[digest] = found = Outgoing(OCTETS, data)
        return found

    def block(self, request: Message, found: Outgoing) -> Message:
        asked = request.opt.block2
        number, exponent = (0, LARGEST) if asked is None else (asked.block_number, asked.size_exponent)
        return found.block(number, min(exponent, LARGEST))

    def _manifest(self, request: Message) -> bytes:
        queries: dict[str, str] = {}
        for text in request.opt.uri_query:
            key, _, value = text.partition("=")
            if key not in ("board", "version", "want"):
                raise Answer(codes.BAD_OPTION, f"the query {text[:40]!r} is not known: board=, version=, want=")
            queries[key] = value
        board, want = queries.get("board", "any"), queries.get("want")
        try:
            for key in ("version", "want"):
                version_of(queries.get(key, "0"))
            found = self.releases.manifest(board, queries.get("version"), want)
        except LocalProtocolError as error:
            raise Answer(codes.BAD_REQUEST, str(error)) from error
        if found is None:
            what = "nothing newer" if want is None else f"no release {want}"
            raise Answer(codes.NOT_FOUND, f"{what} for board {board}")
        return found
