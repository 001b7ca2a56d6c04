"""Which sentences of protocols/spec the tests exercise.

A page numbers its sentences, **[WIRE-3]**; a test cites those it would notice broken, @pytest.mark.spec("WIRE-3").
A test that cites what no page says is an error of collection: a sentence that was renumbered must not leave its test
behind. At the end of a run:

    spec: 140 of 149 sentences exercised
    not exercised: CBOR-17, ...

Numbers travel in the reports' user_properties, so that the workers of pytest-xdist count too.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SPEC = Path(__file__).parent.parent / "protocols" / "spec"
SENTENCE = re.compile(r"\*\*\[([A-Z]+-\d+)\]\*\*")


def sentences(folder: Path = SPEC) -> list[str]:
    """The numbers of all pages, in reading order."""
    where: dict[str, str] = {}
    for page in sorted(folder.glob("*.md")):
        for number in SENTENCE.findall(page.read_text(encoding="utf-8")):
            if number in where:
                raise ValueError(f"{number} is in {where[number]} and again in {page.name}")
            where[number] = page.name
    return list(where)


class SpecReport:
    def __init__(self, defined: list[str]) -> None:
        self.defined = defined
        self.cited: set[str] = set()
        self.exercised: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        report = yield
        wrong = []
        for item in report.result or ():
            if isinstance(item, pytest.Item):
                numbers = [number for mark in item.iter_markers("spec") for number in mark.args]
                wrong += [f"{item.name} cites {number}" for number in numbers if number not in self.defined]
                item.user_properties.append(("spec", numbers))
        if wrong:
            report.outcome, report.result = "failed", []
            report.longrepr = f"{', '.join(wrong)}: no page of protocols/spec has it"
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        for name, numbers in report.user_properties:
            if name == "spec":
                self.cited.update(numbers)
                if report.passed:
                    self.exercised.update(numbers)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.cited:
            return
        terminalreporter.section("spec")
        terminalreporter.line(f"spec: {len(self.exercised)} of {len(self.defined)} sentences exercised")
        missing = [number for number in self.defined if number not in self.exercised]
        if missing:
            terminalreporter.line(f"not exercised: {', '.join(missing)}")
