"""The specification as a whole: its report on what the tests exercise, its numbers, its CDDL. The pages' own sentences
are tested in tests/protocols/spec."""

from pathlib import Path
from typing import Any

import cbor2
import pycddl
import pytest
from cddl import Schema
from spec_helpers import spec, unhex, vectors
from spec_report import sentences

ROOT = Path(__file__).parent.parent.parent
SPEC = ROOT / "protocols" / "spec"


def test_the_report_counts_and_refuses(pytester: pytest.Pytester) -> None:
    """Counted: what passed. Not counted: what failed. An error: what no page has, or two pages have."""
    source = Path(__file__).parent.parent
    pytester.makeconftest(
        (source / "conftest.py").read_text().replace("Path(__file__).parent.parent", f"Path({str(ROOT)!r})")
    )
    pytester.makepyfile(spec_report=(source / "spec_report.py").read_text())
    pytester.path.joinpath("protocols/spec").mkdir(parents=True)
    page = pytester.path / "protocols" / "spec" / "x.md"
    page.write_text("**[X-1]** One. **[X-2]** Two. **[X-3]** Three.")
    report = pytester.path / "spec_report.py"
    report.write_text(report.read_text().replace("Path(__file__).parent.parent", "Path(__file__).parent"))
    pytester.makepyfile(
        "import pytest\n"
        "@pytest.mark.spec('X-1')\ndef test_passes(): pass\n"
        "@pytest.mark.spec('X-2')\ndef test_fails(): assert False\n"
    )
    for workers in ("0", "2"):
        result = pytester.runpytest_subprocess("-p", "xdist", "-n", workers)
        result.stdout.fnmatch_lines(["spec: 1 of 3 sentences exercised", "not exercised: X-2, X-3"])
    pytester.makepyfile("import pytest\n@pytest.mark.spec('X-4')\ndef test_cites_nothing(): pass\n")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_cites_nothing cites X-4: no page of protocols/spec has it*"])
    page.write_text("**[X-1]** One. **[X-1]** Again.")
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*X-1 is in x.md and again in x.md*"])


def test_every_sentence_of_a_page_is_in_order() -> None:
    """Numbers run from 1 without gaps: a sentence taken away must be seen to be gone."""
    pages: dict[str, list[int]] = {}
    for number in sentences():
        page, _, count = number.partition("-")
        pages.setdefault(page, []).append(int(count))
    assert set(pages) == {
        "CBOR",
        "EVENT",
        "WIRE",
        "FILTER",
        "DIST",
        "CTRL",
        "PROX",
        "JSON",
        "MAP",
        "OVER",
        "COSMIC",
        "CBIND",
        "STEAM",
        "EMAP",
        "TYPE",
        "PROV",
        "FED",
        "SCOPE",
        "COAP",
        "AGENT",
    }
    assert all(counts == list(range(1, len(counts) + 1)) for counts in pages.values())


WIRE_CDDL = (SPEC / "wire.cddl").read_text()
CONTROL_CDDL = (SPEC / "control.cddl").read_text() + WIRE_CDDL
# What CDDL cannot say, by what the refusal says.
BEYOND_CDDL = (
    "bytes after", "indefinite length", "longer than needed", "given twice", "the limit is 6", "number of",
    "twice or out of order", "is not after", "attribute key 'Priority'", "attribute key 'Session'",
)  # fmt: skip


def test_cddl_is_cddl() -> None:
    """By another parser than ours."""
    pycddl.Schema(WIRE_CDDL)
    pycddl.Schema(CONTROL_CDDL)


@spec("WIRE-1", "WIRE-2", "WIRE-3", "WIRE-4", "WIRE-5", "WIRE-6", "WIRE-8", "WIRE-9")
@pytest.mark.parametrize("vector", vectors("events.json"), ids=lambda vector: vector["name"])
def test_cddl_has_every_event(vector: dict[str, Any]) -> None:
    assert Schema(WIRE_CDDL).accepts(cbor2.loads(unhex(vector["hex"])))


@spec("CTRL-1", "CTRL-2", "CTRL-3", "CTRL-4", "CTRL-5", "CTRL-8", "CTRL-9")
@pytest.mark.parametrize("vector", vectors("controls.json")["messages"], ids=lambda vector: vector["message"]["kind"])
def test_cddl_has_every_control_event(vector: dict[str, Any]) -> None:
    item = cbor2.loads(unhex(vector["hex"]))
    assert Schema(CONTROL_CDDL).accepts(item)
    assert Schema(WIRE_CDDL).accepts(item)
    for at in range(len(item[3])):  # a parameter missing, and every parameter of another type
        assert not Schema(CONTROL_CDDL).accepts([*item[:3], item[3][:at] + item[3][at + 1 :], item[4]])
        assert not Schema(CONTROL_CDDL).accepts([*item[:3], [*item[3][:at], 1.5, *item[3][at + 1 :]], item[4]])


def test_cddl_refuses_what_it_can() -> None:
    schema = Schema(WIRE_CDDL)
    refusals = 0
    for vector in vectors("bad_events.json"):
        try:
            item = cbor2.loads(unhex(vector["hex"]))
        except Exception:
            continue
        if not any(text in vector["error"] for text in BEYOND_CDDL):
            assert not schema.accepts(item), vector["why"]
            refusals += 1
    assert refusals > 80
