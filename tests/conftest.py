"""What holds for every test: how many cases hypothesis draws, the report on the specification, and MicroPython.

HYPOTHESIS_PROFILE is default, ci or soak. A test marked `micropython` needs what tools/get_micropython.sh gets: without
it the test is skipped and the summary says so; with CI=true it fails.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from spec_report import SpecReport, sentences

pytest_plugins = ["pytester"]  # the report is tested by runs within the run

ROOT = Path(__file__).parent.parent
MICROPYTHON = ROOT / ".tools" / "micropython" / "micropython"
ADVICE = "MICROPYTHON TESTS SKIPPED: run tools/get_micropython.sh"

settings.register_profile("default", max_examples=120, deadline=None)
settings.register_profile("ci", settings.get_profile("default"), print_blob=True)
settings.register_profile("soak", settings.get_profile("default"), max_examples=20000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "spec(*numbers): the sentences of protocols/spec that the test would notice broken"
    )
    try:
        defined = sentences()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(SpecReport(defined), "spec-report")
    config.pluginmanager.register(_Skipped(), "micropython-skipped")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("micropython") and not MICROPYTHON.exists():
        item.user_properties.append(("micropython", "missing"))
        if os.environ.get("CI") == "true":
            pytest.fail(f"{MICROPYTHON.relative_to(ROOT)} is not there: run tools/get_micropython.sh", pytrace=False)
        pytest.skip("MicroPython is not there: run tools/get_micropython.sh")


class _Skipped:
    """Says it once and loudly: a green run without the device's side is half a run."""

    def __init__(self) -> None:
        self.count = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if (
            report.when == "setup"
            and report.skipped
            and ("micropython", "missing") in map(tuple, report.user_properties)
        ):
            self.count += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.count:
            terminalreporter.section("MicroPython", red=True, bold=True)
            terminalreporter.line(f"{ADVICE} ({self.count} tests)", red=True, bold=True)


@pytest.fixture(scope="session")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree that goes onto a device, compiled."""
    from vicinal_tools.stage import stage

    dest: Path = tmp_path_factory.mktemp("device")
    stage(dest)
    return dest


@pytest.fixture
def micropython(staged: Path) -> Callable[..., str]:
    """Runs a script with the staged tree on its path, and gives what it printed. Use with @pytest.mark.micropython."""

    def run(*command: object, heap: str = "1M") -> str:
        done = subprocess.run(
            [str(MICROPYTHON), "-X", f"heapsize={heap}", *map(str, command)],
            env={**os.environ, "MICROPYPATH": f".frozen:{staged / 'lib'}:{staged}"},
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
