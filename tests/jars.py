"""Java's libraries for the tests: from Maven Central by its ordinary client, once, into .tools.

What cannot be had is said to who asked: a test is skipped with it.
"""

import fcntl
import shutil
import subprocess
from pathlib import Path

__all__ = ["TOOLS", "Missing", "complete", "jars"]

TOOLS = Path(__file__).parents[1] / ".tools"
PATIENCE = 300


class Missing(Exception):
    """The message says what to install, or what Maven has said."""


def jars(name: str, pom: Path, wanted: str, *more: str) -> list[Path]:
    """Those of a pom, in .tools/NAME; `wanted` is one of them, as a pattern. `more` goes to Maven. Raises Missing."""
    folder = TOOLS / name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several workers of one test run the first fetches
        if not complete(name):
            _fetch(folder, pom, more)
        if not list(folder.glob(wanted)):
            raise Missing(f"{folder} has no {wanted}")
    return sorted(folder.glob("*.jar"))


def complete(name: str) -> bool:
    return (TOOLS / name / "complete").exists()


def _fetch(folder: Path, pom: Path, more: tuple[str, ...]) -> None:
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise Missing(f"no {tool} on the path (apt-get install maven)")
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-f", str(pom), *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise Missing(f"Maven Central did not answer in {PATIENCE} s") from None
    if done.returncode:
        said = [line for line in done.stdout.splitlines() if "ERROR" in line]
        raise Missing(f"mvn: {said[0] if said else done.stdout[-200:]}"[:300])
    (folder / "complete").touch()
