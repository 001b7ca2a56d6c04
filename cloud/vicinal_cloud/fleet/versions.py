"""The configurations that one gateway was served: their texts, their numbers, and what became of them there.

    NAME/state.json    {"last": 4, "texts": [[3, "9f86d0..."], [4, "60303a..."]], "good": 3, "bad": [4]}
    NAME/3.toml        the text of version 3, for the day when version 4 fails

A number is never given to two texts: it rises, also past what the gateway says that it runs, which is how a fleet that
has lost its folder finds its place.
"""

import json
from hashlib import sha256
from pathlib import Path

from vicinal.federation.provisioning import GatewayHello
from vicinal.tables_cpython import ConfigError

from ..broker.files import replace

__all__ = ["Versions"]

# Texts that are kept beside the good one.
_KEPT = 10
_MAX_BAD = 64


class Versions:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.last = 0
        self.good = 0
        self.bad: list[int] = []
        self._texts: list[tuple[int, str]] = []
        self._file = folder / "state.json"
        if self._file.exists():
            try:
                found = json.loads(self._file.read_bytes())
                self.last, self.good = int(found["last"]), int(found["good"])
                self.bad = [int(number) for number in found["bad"]]
                self._texts = [(int(number), str(digest)) for number, digest in found["texts"]]
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(f"{self._file}: is damaged: {error}") from error

    def heard(self, hello: GatewayHello) -> None:
        """What a gateway says of its versions."""
        before = (self.last, self.good, list(self.bad))
        self.last = max(self.last, hello.version, hello.failed)
        if hello.failed and hello.failed not in self.bad:
            self.bad = [*self.bad, hello.failed][-_MAX_BAD:]
        if hello.health == "ok" and hello.version and hello.version not in self.bad:
            self.good = hello.version
        if (self.last, self.good, self.bad) != before:
            self._save()

    def number_of(self, text: bytes) -> int:
        """The version that a text is; a new one if it was not served before."""
        digest = sha256(text).hexdigest()
        for number, known in self._texts:
            if known == digest:
                return number
        number = self.last + 1
        self.folder.mkdir(parents=True, exist_ok=True)
        replace(self.folder / f"{number}.toml", text)
        self.last = number
        self._texts.append((number, digest))
        self._forget()
        self._save()
        return number

    def serve(self, current: int, runs: int) -> tuple[int, bytes | None]:
        """The version that the gateway should run, which is `current` unless that failed there, and its text. Where
        there is nothing better than what `runs`, that."""
        known = [number for number, _ in self._texts]
        others = sorted([number for number in known if number not in self.bad], reverse=True)
        for number in [current] * (current not in self.bad) + [self.good] * (self.good not in self.bad) + others:
            text = self.text(number)
            if text is not None:
                return number, text
        return runs, None

    def text(self, number: int) -> bytes | None:
        try:
            return (self.folder / f"{number}.toml").read_bytes() if number else None
        except OSError:
            return None

    def _forget(self) -> None:
        for number, _ in self._texts[:-_KEPT]:
            if number != self.good:
                (self.folder / f"{number}.toml").unlink(missing_ok=True)
        self._texts = [
            pair for at, pair in enumerate(self._texts) if at >= len(self._texts) - _KEPT or pair[0] == self.good
        ]

    def _save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {"last": self.last, "texts": self._texts, "good": self.good, "bad": self.bad}
        replace(self._file, json.dumps(state))
