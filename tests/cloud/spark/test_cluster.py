"""The same commands on a cluster: a real master and a real worker of Spark, on this machine."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cloud.spark import town
from edge.servers import free_port
from nursery import environment

pytest.importorskip("pyspark")

import pyspark

from vicinal_cloud.log import Log, entry_of
from vicinal_cloud.spark.session import SparkUnavailable, find_java
from vicinal_tools import submit

HOME = Path(pyspark.__file__).parent
COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()"]
PATIENCE = 120.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("VICINAL_SOAK"), reason="five programs of Java: make soak"),
    pytest.mark.xdist_group("spark"),
]


def settings() -> dict[str, str]:
    try:
        java = find_java()
    except SparkUnavailable as error:
        pytest.skip(f"SPARK TESTS SKIPPED: {error}")
    return {
        **environment(),
        "JAVA_HOME": str(java),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


def start(file: Path, *command: str) -> "subprocess.Popen[bytes]":
    with file.open("wb") as out:
        return subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *command], stdout=out, stderr=out, env=settings(), cwd=file.parent
        )


def wait_for(file: Path, pattern: str) -> None:
    limit = time.monotonic() + PATIENCE
    while not re.search(pattern, file.read_text(errors="replace")):
        assert time.monotonic() < limit, file.read_text(errors="replace")[-3000:]
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    running = [start(folder / "master", "org.apache.spark.deploy.master.Master", *where, "--port", str(port))]
    try:
        wait_for(folder / "master", "I have been elected leader")
        own = ["--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work")]
        running.append(start(folder / "worker", "org.apache.spark.deploy.worker.Worker", *where, *own, address))
        wait_for(folder / "worker", "Successfully registered with master")
        yield address
    finally:
        for one in reversed(running):
            one.terminate()
            try:
                one.wait(30)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "log"
    made = Log(folder)
    for event, received in town.drive(20, 10):
        made.append_batch([entry_of(event)], received)
    made.close()
    return folder


def run(command: list[str]) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(command, env=settings(), capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def tables(out: Path) -> dict[str, int]:
    import pandas as pd

    folders = sorted(one for one in out.iterdir() if one.is_dir() and one.name != "_vicinal")
    return {one.name: len(pd.read_parquet(one)) for one in folders}


def test_the_commands_run_there_unchanged(cluster: str, log: Path, tmp_path: Path) -> None:
    read = len(town.drive(20, 10))
    done = run(
        [*COMMAND, "spark", "traffic", "--path", str(log), "--out", str(tmp_path / "b"), "--json", "--master", cluster]
    )
    assert json.loads(done.stdout)["position"] == read
    done = run(
        [*COMMAND, "spark", "ingest", "--path", str(log), "--out", str(tmp_path / "s"), "--once", "--master", cluster]
    )
    assert f"{read:,} read" in done.stdout
    submitted = ["--master", cluster, submit.__file__, "spark", "traffic"]
    run([str(HOME / "bin" / "spark-submit"), *submitted, "--path", str(log), "--out", str(tmp_path / "u")])
    wanted = tables(tmp_path / "b")
    assert wanted["positions"] == read
    assert tables(tmp_path / "u") == wanted
    followed = tables(tmp_path / "s")
    # Of a log that goes on, what may still become an offence is kept for a while.
    assert followed.pop("speeding") >= wanted.pop("speeding") > 0
    assert followed == wanted
