"""One durable subscription on disk: a log of its own, and a line in the list of all.

    DIRECTORY/durable/CLIENT/NAME       its log; each time a name is used anew another folder
    DIRECTORY/durable.json              [[client, name, filter, tags, folder, left, identity], ...]

What is in a log was visible to the subscription that it was made for. The next of the same name may have another
filter and other scopes: it never sees what was stored before it.

*left* is where the cursors (cursors.py) were when its scopes went away; null while they are here.
*identity* is of who made it or came back for it last: name, attributes, issued, expires. What it may have while its
client is away is asked of that.
"""

import asyncio
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vicinal.filter import Filter
from vicinal.scope.graph import Tags
from vicinal.scope.membership import Identity
from vicinal.siena.rights import person

from ..log import GroupCommit
from .files import replace
from .members import identity_item, identity_of

__all__ = ["Durable", "fresh_folder", "read_list", "write_list"]


class Durable:
    def __init__(
        self,
        client: str,
        name: str,
        condition: Filter,
        tags: Tags,
        folder: Path,
        left: "dict[str, int] | None",
        identity: Identity,
    ) -> None:
        self.client = client
        self.name = name
        self.condition = condition
        self.tags = tags
        self.folder = folder
        self.left = left
        self.identity = identity
        self.fed = 0
        """offset up to which its client was given what is stored, since this start"""
        self.key = 0
        """the engine's; 0 while its scopes are not here"""
        self.commits: GroupCommit
        self.feeding: asyncio.Task[None] | None = None
        self.missed = False
        """something for it is not in its log: until it comes again nothing is put that may come after it"""
        self._refusals = 0

    @property
    def engine_name(self) -> str:
        return f"{self.client}/{self.name}"

    @property
    def takes_no_more(self) -> bool:
        """Told by its log, too: what that has refused is known there before anybody is called back."""
        return self.missed or self.commits.refusals != self._refusals

    def read_again(self) -> None:
        """What was missed comes again."""
        self.missed = False
        self._refusals = self.commits.refusals

    def stop_feeding(self) -> None:
        if self.feeding is not None:
            self.feeding.cancel()
            self.feeding = None

    async def remove(self) -> None:
        """Its log, for good."""
        await self.commits.close()
        await asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, self.folder, True)


def fresh_folder(directory: Path, client: str, name: str) -> Path:
    """One that is not there yet. A name may be "..": never a path of its own; "+" is in no quoted name."""
    above = directory / "durable" / f"c-{quote(client, safe='')}"
    count, found = 1, above / f"s-{quote(name, safe='')}"
    while found.exists():
        count += 1
        found = above / f"s-{quote(name, safe='')}+{count}"
    return found


def read_list(directory: Path) -> list[Durable]:
    file = directory / "durable.json"
    found: list[Any] = json.loads(file.read_text()) if file.exists() else []
    return [
        Durable(
            client,
            name,
            Filter(text),
            Tags(zip(flat[1::2], flat[2::2]), flat[0]),
            directory / folder,
            left,
            identity_of(who[0]) if who else Identity(person(client)),  # older ones say nothing of it
        )
        for client, name, text, flat, folder, left, *who in found
    ]


def write_list(directory: Path, all_of_them: Iterable[Durable]) -> None:
    found = [
        [
            one.client,
            one.name,
            str(one.condition),
            one.tags.item(),
            str(one.folder.relative_to(directory)),
            one.left,
            identity_item(one.identity),
        ]
        for one in all_of_them
    ]
    replace(directory / "durable.json", json.dumps(found))
