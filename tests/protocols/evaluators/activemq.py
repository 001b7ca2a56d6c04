"""JMS selectors evaluated by ActiveMQ's own selector engine, without a broker (jms/Selectors.java).

Its jars come from Maven Central, once, into .tools/activemq. Bytes and nested events travel as strings.
"""

import base64
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from protocols.evaluators.sqlite import properties

from vicinal.event import Event

HERE = Path(__file__).parent / "jms"
JARS = Path(__file__).parents[3] / ".tools" / "activemq"

# Seconds of life: the better compiler and the parallel collector would not earn what they cost.
FRUGAL = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
FRUGAL_COMPILER = ["-J" + option for option in FRUGAL]


@cache
def jars() -> str:
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"ACTIVEMQ TESTS SKIPPED: no {tool} on the path (apt-get install maven default-jdk-headless)")
    if not list(JARS.glob("activemq-client-*.jar")):
        command = [
            "mvn",
            "-q",
            "-B",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={JARS}",
            "-f",
            HERE / "pom.xml",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
        except subprocess.TimeoutExpired:
            pytest.skip("ACTIVEMQ TESTS SKIPPED: Maven Central did not answer in three minutes")
        if done.returncode:
            pytest.skip(f"ACTIVEMQ TESTS SKIPPED: {done.stdout[-200:]}")
    return f"{JARS}/*"


@cache
def compiled() -> "tempfile.TemporaryDirectory[str]":
    """Once for the test run; it goes when the run ends."""
    folder = tempfile.TemporaryDirectory(prefix="selectors-")
    subprocess.run(["javac", *FRUGAL_COMPILER, "-cp", jars(), "-d", folder.name, HERE / "Selectors.java"], check=True)
    return folder


def matching(selectors: list[str], events: list[Event], folder: Path) -> list[list[bool] | str]:
    """For each selector, which events it accepts, or why it was refused."""
    (folder / "selectors").write_text("".join(_coded(text) + "\n" for text in selectors))
    (folder / "messages").write_text(
        "".join(" ".join(_property(*item) for item in properties(event).items()) + "\n" for event in events)
    )
    where = f"{jars()}:{compiled().name}"
    command = ["java", *FRUGAL, "-cp", where, "Selectors", folder / "selectors", folder / "messages"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return [line if line.startswith("!") else [bit == "1" for bit in line] for line in done.stdout.splitlines()]


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _property(name: str, value: Any) -> str:
    kind = {bool: "b", int: "i", float: "d"}.get(type(value), "s")
    text = str(value)
    if kind == "d":
        text = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(text, text)
    return f"{_coded(name)}:{kind}:{_coded(text)}"
