"""Who has which name. A name is given once, and is on disk before anybody hears of it.

names.json    {"next": {"gw-{n}": 4}, "names": {"b827eb123456": "gw-3", ...}}
"""

import json
from pathlib import Path

from vicinal.federation.provisioning import good_name
from vicinal.tables_cpython import ConfigError

from ..broker.files import replace

__all__ = ["DEFAULT_PATTERN", "Names", "good_pattern"]

DEFAULT_PATTERN = "gw-{n}"


def good_pattern(pattern: str) -> bool:
    return pattern.count("{n}") == 1 and good_name(pattern.replace("{n}", "9" * 9))


class Names:
    def __init__(self, file: Path, pattern: str = DEFAULT_PATTERN) -> None:
        """Raises ConfigError of a file that is damaged: to begin anew would give names a second time."""
        self.file = file
        self.pattern = pattern
        self._next: dict[str, int] = {}
        self._names: dict[str, str] = {}
        if file.exists():
            try:
                found = json.loads(file.read_bytes())
                self._next = {str(key): int(value) for key, value in found["next"].items()}
                self._names = {str(key): str(value) for key, value in found["names"].items()}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigError(f"{file}: is no list of names any more: {error}") from error
        self._taken = set(self._names.values())
        if len(self._taken) < len(self._names):
            raise ConfigError(f"{file}: two gateways have one name")

    def get(self, uid: str) -> str | None:
        return self._names.get(uid)

    def items(self) -> list[tuple[str, str]]:
        """uid and name, by name."""
        return sorted(self._names.items(), key=lambda pair: pair[1])

    def give(self, uid: str, wanted: str = "") -> str:
        """The name of a gateway. One that has none gets the one that it wants, if it may, or the next."""
        known = self._names.get(uid)
        if known is not None:
            return known
        if not good_name(wanted) or wanted in self._taken:
            number = self._next.get(self.pattern, 1)
            while (wanted := self.pattern.replace("{n}", str(number))) in self._taken:
                number += 1
            self._next[self.pattern] = number + 1
        names = {**self._names, uid: wanted}
        replace(self.file, json.dumps({"next": self._next, "names": names}, indent=0))
        # Only now: where the disk is full nobody has got it.
        self._names = names
        self._taken.add(wanted)
        return wanted
