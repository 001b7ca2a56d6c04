"""One attempt at an update, in steps: the release that a gateway offers goes into the slot that does not run.

    update = Update(client, files, key, running, board, mpy, wanted, tried)
    update.service(now)          a step of it; gives whether there is more to do at once
    update.result                None: under way; then how it ended, and update.why

    GET /release ─▶ signature ─▶ is it for us? ─▶ has it room? ─▶ each file: is it there? here? else GET /release/HASH
                       │              │              │                 │ another hash, gone
                       └──────────────┴──────────────┴─────────────────┴──▶ refused, and nothing has changed
    ─▶ all are there: "ready", for who has it to switch

What is there with the right hash stays, so that an attempt goes on where the last was cut off; what the running slot
has alike is copied and not fetched. `files` writes (update_files.py). Between two blocks the agent's events go first.
"""

import binascii

from vicinal._compat import const
from vicinal.coap.client import Request
from vicinal.coap.message import GET
from vicinal.errors import RemoteProtocolError

from .updater import forget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from vicinal.coap.client import Answer, Client
    from vicinal.release import File, Head

__all__ = ["Update"]

# Those of vicinal.release, which is loaded only when a signature was good: it and p256 never lie in memory together.
_SIGNATURE_LINE = const(129)
_MAX_MANIFEST = const(65536)
NOTHING, REFUSED, INTERRUPTED, READY = "nothing", "refused", "interrupted", "ready"


class _Ended(Exception):
    def __init__(self, result: str, why: str = "") -> None:
        self.result = result
        self.why = why


class Update:
    def __init__(
        self,
        client: "Client",
        files: "Any",
        key: str,
        running: str,
        board: str,
        mpy: "int | None",
        wanted: "str | None",
        tried: str,
    ) -> None:
        """`tried` is the id of a release that is not tried again."""
        self.result: str | None = None
        self.why = ""
        self.version = wanted or ""
        self.id = ""
        """16 hex digits of the hash of what was signed"""
        self.is_good = False
        """whether it is signed, and for this device"""
        self.fetched = self.copied = self.there = 0
        self._client = client
        self._files = files
        self._key = key
        self._running = running
        self._board = board
        self._mpy = mpy
        self._wanted = wanted
        self._tried = tried
        self._now = 0
        self._answer: Answer | None = None
        self._flash: OSError | None = None
        self._file: File
        self._signature, self._size = b"", 0
        self._digest: Any = None
        self._release: Any = None
        self._steps = self._work()

    def service(self, now: int) -> bool:
        if self.result is not None:
            return False
        self._now = now
        try:
            return next(self._steps)
        except StopIteration:
            self.result = READY
        except _Ended as end:
            self.result, self.why = end.result, end.why
        except RemoteProtocolError as error:
            self.result, self.why = REFUSED, str(error)
        except OSError as error:
            self.result, self.why = INTERRUPTED, f"flash: {error}"
        self._files.close()
        return False

    def _work(self) -> "Iterator[bool]":
        files = self._files
        queries = ["board=" + self._board]
        queries.append("version=" + self._running if self._wanted is None else "want=" + self._wanted)
        yield from self._get(["release"], queries, self._manifest_block)
        self._taken(REFUSED if self._wanted is not None else NOTHING, "")
        digest = self._digest.digest()
        self.id = str(binascii.hexlify(digest[:8]), "ascii")
        if self.id == self._tried:
            raise _Ended(NOTHING, "it was tried before")
        yield from self._check(digest)
        from vicinal import release

        self._release = release
        head = release.head_of(files.first_line())
        self.version = head.version
        why = release.refusal(head, self._running, self._board, self._mpy)
        if why is not None:
            ours = self._wanted is None and release.version_of(head.version) == release.version_of(self._running)
            raise _Ended(NOTHING if ours else REFUSED, why)
        self.is_good = True
        yield from self._survey(head)
        files.clear()  # from here on the slot is no release; what is in it and not in this one makes room
        yield True
        for file in self._lines():
            yield from self._bring(file)
        files.seal(head.version, self._lines())

    def _get(self, path: "list[str]", queries: "list[str]", sink: "Callable[[int, bytes], None]") -> "Iterator[bool]":
        self._answer = None
        request = Request(GET, path, self._answered, b"", None, None, queries, True, True, sink)
        request.gives_way = True
        self._client.request(request, self._now)
        while self._answer is None:
            yield False

    def _answered(self, answer: "Answer", now: int) -> None:
        self._answer = answer

    def _taken(self, gone: str, where: str) -> None:
        """`gone`: what it is when the gateway says that there is none."""
        self._files.close()
        if self._flash is not None:
            raise self._flash
        answer = self._answer
        if answer is not None and not answer.ok:
            raise _Ended(gone if answer.code == 0x84 else INTERRUPTED, where + answer.reason)

    # What it says of itself

    def _manifest_block(self, at: int, data: bytes) -> None:
        """The first line is the signature, the rest is what it is of."""
        try:
            if at == 0:
                self._signature, self._digest, self._size = b"", self._files.sha256(), 0
                self._files.begin_manifest()
            self._size += len(data)
            missing = _SIGNATURE_LINE - len(self._signature)
            if missing > 0:
                self._signature += data[:missing]
                data = data[missing:]
            self._digest.update(data)
            if self._size <= _MAX_MANIFEST:
                self._files.write(data)
        except OSError as error:
            self._flash = error  # for the next step to say: this is the client's turn

    def _check(self, digest: bytes) -> "Iterator[bool]":
        from vicinal.p256 import Check, key_of  # some 3 KiB, for a second or two: then it goes again

        if self._size > _MAX_MANIFEST:
            raise _Ended(REFUSED, f"what it says of itself has {self._size} bytes, the limit is {_MAX_MANIFEST}")
        try:
            signature = binascii.unhexlify(self._signature[:-1])
        except ValueError:
            signature = b""
        check = Check(key_of(self._key), digest, signature)
        while True:
            good = check.step()
            if good is not None:
                break
            yield True
        del check, Check, key_of
        forget("vicinal.p256")
        if not good:
            raise _Ended(REFUSED, "the signature is not of the key that this device has")

    def _lines(self) -> "Iterator[File]":
        for line in self._files.lines():
            yield self._release.file_of(line)

    def _survey(self, head: "Head") -> "Iterator[bool]":
        """Everything that it names is in order, and has room."""
        count = total = room = 0
        free = self._files.free()
        last = ""
        for file in self._lines():
            if file.name <= last:
                raise _Ended(REFUSED, f"{file.name} after {last}: the files are not in order")
            last = file.name
            count += 1
            total += file.size
            room += self._files.room_of(file)
            if count % 8 == 0:
                yield True
        if count != head.files or total != head.bytes:
            raise _Ended(REFUSED, f"it says {head.files} files of {head.bytes} bytes, and names {count} of {total}")
        if room > free:
            raise _Ended(REFUSED, f"it needs {room} bytes of flash, {free} are free")

    # Its files

    def _bring(self, file: "File") -> "Iterator[bool]":
        files, known = self._files, (file.size, file.digest)
        files.expect(file)
        if files.digest(file.name) == known:
            self.there += 1
            return
        self._file, self._size = file, 0
        yield True
        if files.digest(file.name, True) == known:
            files.copy(file.name)
            self.copied += 1
        else:
            yield from self._get(["release", str(binascii.hexlify(file.digest), "ascii")], [], self._file_block)
            self._taken(REFUSED, file.name + ": ")
            self.fetched += 1
        yield True
        size, digest = files.digest(file.name)
        if self._size > file.size or size != file.size:
            files.remove(file.name)
            raise _Ended(REFUSED, f"{file.name}: it has {max(size, self._size)} bytes, the release says {file.size}")
        if digest != file.digest:
            files.remove(file.name)
            raise _Ended(REFUSED, f"{file.name}: its hash is not the one that the release says")

    def _file_block(self, at: int, data: bytes) -> None:
        try:
            if at == 0:
                self._files.begin(self._file.name)
            self._size = at + len(data)
            if self._size <= self._file.size:
                self._files.write(data)
        except OSError as error:
            self._flash = error
