"""The `vicinal` command as people and scripts meet it: output, exit codes, and what it says to bad input."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from click.testing import CliRunner, Result

from vicinal import __version__, json_form, wire
from vicinal.event import Event
from vicinal.filter import Filter
from vicinal_tools.main import cli

COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()"]

SPEED = b'{"subject": "Speed", "params": {"rate": 57.2}, "attrs": {"Priority": 3}, "producer": "car-7", "seq": 12}'
SLOW = b'{"subject":"Speed","params":{"rate":3}}'


def call(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def refused(result: Result) -> str:
    """What was said on stderr of a run that was refused as bad input, with nothing on stdout."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def run(*arguments: str, stdin: bytes = b"", **more: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, timeout=60, check=False, env=os.environ | more
    )


@contextmanager
def running(*arguments: str) -> "Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes], IO[bytes]]]":
    """The process and its pipes; killed if it hangs, so that a test that waits for it fails."""
    pipe = subprocess.PIPE
    # With PYTHONUNBUFFERED everything streams by itself, and nothing is shown.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen([*COMMAND, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        timer = threading.Timer(30, process.kill)
        timer.start()
        try:
            yield process, process.stdin, process.stdout, process.stderr
        finally:
            timer.cancel()
            process.kill()


def wait_until_it_waits(process: "subprocess.Popen[bytes]") -> None:
    """Python notes a signal that comes just before it reads, and reads: the next Ctrl-C, or the next line, ends it."""
    while Path("/proc/self/stat").exists():
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2][0]
        if state in "SZ":
            return
        time.sleep(0.01)
    time.sleep(1)


# vicinal


def test_version() -> None:
    result = call("--version")
    assert (result.exit_code, result.stdout) == (0, f"vicinal {__version__}\n")


def test_help_lists_the_commands() -> None:
    result = call("--help")
    assert result.exit_code == 0
    for name in ("doctor", "event", "filter"):
        assert f"\n  {name} " in result.stdout


@pytest.mark.parametrize("arguments", [["nonsense"], ["filter", "nonsense"], ["filter", "explain"], ["--nonsense"]])
def test_a_wrong_call_is_refused(arguments: list[str]) -> None:
    assert "Usage: " in refused(call(*arguments))
    assert run(*arguments).returncode == 2


# vicinal filter explain


def test_explain_draws_the_tree_and_the_translations() -> None:
    result = call("filter", "explain", "subject = 'Speed' and (rate > 30 or not urgent)")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[:5] == ["AND", "├── subject = 'Speed'", "└── OR", "    ├── rate > 30", "    └── NOT"]
    assert "canonical   subject = 'Speed' AND (rate > 30 OR NOT urgent = TRUE)" in lines
    for language in ("JMS selector", "CORBA ETCL", "SIENA filter", "Spark SQL", "MQTT topic filter"):
        assert [line for line in lines if line in (f"{language}: exact", f"{language}: wider")]
    assert "CAN" not in result.stdout


def test_explain_never_wraps_what_people_copy() -> None:
    expr = " OR ".join(f"parameter_{n} = 'a rather long value'" for n in range(40))
    result = call("filter", "explain", expr)
    assert result.exit_code == 0, result.output
    assert f"canonical   {expr}" in result.stdout.splitlines()


def test_explain_takes_no_markup_from_the_filter() -> None:
    assert "x = '[bold]:smile:[/bold]'" in call("filter", "explain", "x = '[bold]:smile:[/bold]'").stdout


def test_explain_as_json_says_what_the_library_says() -> None:
    expr = "subject = 'Speed' AND (rate > 30 OR NOT urgent)"
    result = call("filter", "explain", "--json", expr)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["filter"] == expr
    assert found["tree"] == {"AND": ["subject = 'Speed'", {"OR": ["rate > 30", {"NOT": ["urgent = TRUE"]}]}]}
    assert found["simplified"] == str(Filter(expr).simplify())
    assert list(found["translations"]) == ["jms", "etcl", "siena", "spark", "mqtt"]
    for name, translation in found["translations"].items():
        made = getattr(Filter(expr), f"to_{name}")()
        assert translation == {"text": made.text, "exact": made.exact, "reasons": list(made.reasons)}
        assert translation["exact"] == (not translation["reasons"])


def test_explain_translates_to_can_when_told_the_identifiers() -> None:
    options = ["--can", "Speed=0x123,292", "--can", "Brake=7"]
    result = call("filter", "explain", "--json", *options, "subject IN ('Speed', 'Brake')")
    assert result.exit_code == 0, result.output
    made = Filter("subject IN ('Speed', 'Brake')").to_can({"Speed": [0x123, 292], "Brake": [7]})
    assert json.loads(result.stdout)["translations"]["can"]["text"] == made.text
    assert "CAN acceptance: " in call("filter", "explain", *options, "subject = 'Speed'").stdout


@pytest.mark.parametrize("option", ["Speed", "=1", "Speed=", "Speed=x", "Speed=1,,2", "Speed=0x20000000", "Speed=-1"])
def test_explain_refuses_a_bad_can_option(option: str) -> None:
    assert repr(option) in refused(call("filter", "explain", "--can", option, "TRUE"))


def test_a_bad_expression_is_pointed_at() -> None:
    said = refused(call("filter", "explain", "rate >"))
    assert "(column 7)" in said
    assert said.endswith("\n  rate >\n        ^\n")


def test_a_bad_place_in_a_long_expression_is_cut_out() -> None:
    said = refused(call("filter", "explain", "a = 1 AND " * 30 + "b ! 2" + " AND c = 3" * 30))
    shown, caret = said.splitlines()[1:]
    assert len(shown) < 80
    assert shown.startswith("  ...")
    assert shown.endswith("...")
    assert shown[caret.index("^")] == "!"


@pytest.mark.parametrize(
    "expr", ["", "rate >", "x = 'open", "a" * 5000, "(" * 40, "x = \x00", "rate\n>\n\n", "x ✗ 1", "-"]
)
def test_bad_expressions_are_refused_by_every_command(expr: str) -> None:
    for arguments in (["explain"], ["match"]):
        assert "column" in refused(call("filter", *arguments, "--", expr))
    assert "A: " in refused(call("filter", "covers", "--", expr, "TRUE"))
    assert "B: " in refused(call("filter", "covers", "--", "TRUE", expr))


def test_bytes_that_are_no_text_do_not_end_in_a_traceback() -> None:
    done = subprocess.run([*COMMAND, "filter", "explain", b"x = '\xff'"], capture_output=True, timeout=60, check=False)
    assert done.returncode in (0, 2)
    assert b"Traceback" not in done.stderr
    done = run("filter", "explain", "x = '\u00e9'", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr


# vicinal filter match


def test_match_writes_matching_lines_unchanged() -> None:
    odd = b'  {"params" : {"rate": 1e2}, "subject":"Speed"}\t\r\n'
    last = b'{"subject": "Sp\\u0065ed", "params": {"rate": 31}}'
    done = run(
        "filter", "match", "subject = 'Speed' AND rate > 30", stdin=SPEED + b"\n\n" + SLOW + b"\n \n" + odd + last
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, SPEED + b"\n" + odd + last, b"")


def test_match_reads_a_file(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(SPEED + b"\n" + SLOW + b"\n")
    result = call("filter", "match", "rate < 30", str(file))
    assert (result.exit_code, result.stdout_bytes) == (0, SLOW + b"\n")
    assert call("filter", "match", "rate < 30", "-", stdin=SLOW).stdout_bytes == SLOW


def test_match_of_nothing_is_no_failure() -> None:
    assert (call("filter", "match", "FALSE", stdin=SPEED).exit_code, call("filter", "match", "TRUE").exit_code) == (
        0,
        0,
    )


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"[]",
        b"5",
        b"{}",
        b'{"subject": ""}',
        b'{"subject": "S", "params": {"x": null}}',
        b"\xff\xfe",
        b'{"sub": "S"}',
    ],
)
def test_match_names_the_bad_line(tmp_path: Path, bad: bytes) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(SPEED + b"\n\n" + bad + b"\n" + SPEED + b"\n")
    result = call("filter", "match", "TRUE", str(file))
    assert (result.exit_code, result.stdout_bytes) == (2, SPEED + b"\n")
    assert f"{file}:3: " in result.stderr
    assert "stdin:1: " in refused(call("filter", "match", "TRUE", stdin=bad))


def test_match_refuses_an_endless_line() -> None:
    assert "stdin:1: more than 1048576 bytes" in refused(call("filter", "match", "TRUE", stdin=b" " * (1 << 21)))


def test_match_refuses_what_is_no_file(tmp_path: Path) -> None:
    assert "No such file" in refused(call("filter", "match", "TRUE", str(tmp_path / "none")))
    assert "Is a directory" in refused(call("filter", "match", "TRUE", str(tmp_path)))


def test_match_streams() -> None:
    """A line comes out while the input is still open."""
    with running("filter", "match", "TRUE") as (process, stdin, stdout, _):
        for line in (SPEED + b"\n", SLOW + b"\n"):
            stdin.write(line)
            stdin.flush()
            assert stdout.readline() == line
        stdin.close()
        assert process.wait() == 0


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    file = tmp_path / "many"
    file.write_bytes((SPEED + b"\n") * 20000)
    with running("filter", "match", "TRUE", str(file)) as (process, _, stdout, stderr):
        assert stdout.readline() == SPEED + b"\n"
        stdout.close()
        assert stderr.read() == b""
        assert process.wait() == 141


def test_ctrl_c_ends_it_quietly() -> None:
    with running("filter", "match", "TRUE") as (process, stdin, stdout, stderr):
        stdin.write(SPEED + b"\n")
        stdin.flush()
        stdout.readline()  # it is past its imports
        wait_until_it_waits(process)
        process.send_signal(signal.SIGINT)
        assert stderr.read() == b""
        assert process.wait() == 130


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full: /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["filter", "covers", "a", "b"], ["filter", "match", "TRUE"]])
def test_a_full_disk_is_said_and_not_dumped(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments], input=SPEED, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith(b"Error: ")
    assert done.stderr.count(b"\n") == 1


def test_closed_streams_are_no_failure() -> None:
    for streams in (">&-", "<&-", "<&- >&-"):
        shell = ["sh", "-c", f'exec "$@" {streams}', "sh", *COMMAND, "filter", "match", "TRUE"]
        done = subprocess.run(shell, input=SPEED, stderr=subprocess.PIPE, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


# vicinal filter covers


def test_covers_says_yes() -> None:
    result = call("filter", "covers", "rate > 30", "rate > 50 AND subject = 'Speed'")
    assert (result.exit_code, result.stdout) == (0, "yes\n")
    result = call("filter", "covers", "--json", "rate > 30", "rate > 50")
    assert json.loads(result.stdout) == {"covers": True, "proven": True, "counter_example": None}


def test_covers_says_no_and_shows_an_event() -> None:
    wide, narrow = "rate > 50", "rate > 30"
    result = call("filter", "covers", wide, narrow)
    assert result.exit_code == 1
    answer, example = result.stdout.splitlines()
    assert answer == "no"
    event = json_form.loads(example)
    assert Filter(narrow).matches(event)
    assert not Filter(wide).matches(event)
    result = call("filter", "covers", "--json", wide, narrow)
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["covers"], found["proven"]) == (False, True)
    assert json_form.loads(json.dumps(found["counter_example"])) == event


def test_covers_says_when_it_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vicinal.filter._witness.counter_example", lambda a, b: None)
    result = call("filter", "covers", "rate > 50", "rate > 30")
    assert (result.exit_code, result.stdout) == (1, "no: not proven\n")
    result = call("filter", "covers", "--json", "rate > 50", "rate > 30")
    assert json.loads(result.stdout) == {"covers": False, "proven": False, "counter_example": None}


# vicinal event


def test_encode_and_decode_are_each_others_reverse() -> None:
    encoded = call("event", "encode", stdin=SPEED + b"\n\n" + SLOW)
    assert encoded.exit_code == 0, encoded.output
    events = [json_form.loads(text.decode()) for text in (SPEED, SLOW)]
    assert encoded.stdout.splitlines() == [wire.encode(event).hex() for event in events]
    decoded = call("event", "decode", stdin=encoded.stdout_bytes)
    assert [json_form.loads(line) for line in decoded.stdout.splitlines()] == events
    assert call("event", "decode", *encoded.stdout.split()).stdout == decoded.stdout


def test_encode_and_decode_read_files(tmp_path: Path) -> None:
    (tmp_path / "in.json").write_bytes(SPEED)
    (tmp_path / "in.hex").write_text(call("event", "encode", str(tmp_path / "in.json")).stdout)
    decoded = call("event", "decode", str(tmp_path / "in.hex"), "-", stdin=wire.encode(Event("Two")).hex().encode())
    assert [json.loads(line)["subject"] for line in decoded.stdout.splitlines()] == ["Speed", "Two"]


def test_encode_names_the_bad_line() -> None:
    assert "stdin:2: " in call("event", "encode", stdin=SPEED + b'\n{"subject": 5}').stderr
    assert call("event", "encode", stdin=b"{").exit_code == 2


@pytest.mark.parametrize("argument", ["abc", "", "zz", "no/such/file", "ff", "00", "85", "f6" * 100000])
def test_decode_refuses_what_is_no_event(argument: str) -> None:
    assert len(refused(call("event", "decode", argument))) < 300
    assert call("event", "decode", stdin=b"\n" + argument.encode() + b"\n").exit_code == (2 if argument else 0)


def test_decode_says_at_which_byte() -> None:
    good = wire.encode(Event("Speed", {"rate": 57.2})).hex()
    assert "(at byte " in refused(call("event", "decode", good + "00"))
    assert "stdin:2: " in call("event", "decode", stdin=f"{good}\n{good[:-2]}".encode()).stderr
