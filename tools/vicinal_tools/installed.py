"""What of the package's own requirements is installed, read from its metadata: pyproject.toml is the only list."""

import json
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement

__all__ = ["BASE", "Package", "checkout", "extras", "install_command"]

NAME = "vicinal"
BASE = ""
# For people who work on Vicinal, not with it.
_NOT_SHOWN = ("all", "test", "dev")


class Package(NamedTuple):
    name: str
    wanted: str
    """the versions that will do, as pip writes them; empty for any"""
    installed: str | None
    ok: bool


def extras() -> dict[str, list[Package]]:
    """Packages by extra, the base under BASE. Raises PackageNotFoundError where `vicinal` itself is not installed."""
    found = metadata.metadata(NAME)
    names = [name for name in found.get_all("Provides-Extra") or [] if name not in _NOT_SHOWN]
    requirements = [Requirement(text) for text in metadata.requires(NAME) or []]
    return {extra: _packages(requirements, extra) for extra in [BASE, *names]}


def _packages(requirements: list[Requirement], extra: str) -> list[Package]:
    chosen = []
    for requirement in requirements:
        # With an extra asked for, the base's requirements hold too: they have been shown.
        base = requirement.marker is None or requirement.marker.evaluate({"extra": BASE})
        asked = requirement.marker is not None and requirement.marker.evaluate({"extra": extra})
        if base if extra == BASE else asked and not base:
            chosen.append(_package(requirement))
    return sorted(chosen)


def _package(requirement: Requirement) -> Package:
    wanted = str(requirement.specifier)
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return Package(requirement.name, wanted, None, False)
    return Package(requirement.name, wanted, version, requirement.specifier.contains(version, prereleases=True))


def checkout() -> Path | None:
    """The source tree of an editable installation."""
    record = metadata.distribution(NAME).read_text("direct_url.json")
    if record is None:
        return None
    origin = json.loads(record)
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))


def install_command(extra: str) -> str:
    """What to type, for this Python and this kind of installation."""
    tree = checkout()
    suffix = "" if extra == BASE else f"[{extra}]"
    what = ["-e", f"{tree}{suffix}"] if tree else [NAME + suffix]
    return shlex.join([sys.executable, "-m", "pip", "install", *what])
