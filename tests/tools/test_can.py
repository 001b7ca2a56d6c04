"""`vicinal can decode`: logs of every kind, whole and broken, and what is behind the lines."""

import gzip
import json
import re
import statistics
import subprocess
import threading
from pathlib import Path
from typing import Any

import can
import pytest
from can_helpers import AT_50, COMMAND, DBC, FORD, FROM_30_TO_80, LOG, TOML, call, captures, files, lines, refused
from hypothesis import given
from hypothesis import strategies as st
from strategies import cases

from vicinal.cosmic.mapping import Message
from vicinal.errors import RemoteProtocolError
from vicinal.filter import Filter
from vicinal_hw.can import dbc
from vicinal_hw.can._dbc_cut import cut
from vicinal_tools.can.decode import Decoder
from vicinal_tools.can.json_lines import line_of, writer
from vicinal_tools.can.logs import Log, Row, open_log

__all__ = ["files"]

DECODED = [
    {"time": 1000.0, "subject": "Speed", "params": {"license_no": "00D1234", "rate": 57.0}},
    {"time": 1000.01, "subject": "Door", "params": {"open": False, "which": 1}},
    {"time": 1000.03, "subject": "Speed", "params": {"license_no": "00D1234", "rate": 32.0}},
]


def test_decode_with_a_mapping(files: dict[str, str]) -> None:
    result = call("decode", files["drive.log"], "--mapping", files["car.toml"], "--verbose")
    assert lines(result) == DECODED
    assert result.stdout.startswith('{"time": 1000.000000, "subject": "Speed", "params": {"license_no": "00D1234", ')
    assert result.stderr == "5 frames, 3 decoded, 1 with other identifiers, 1 remote\n"


def test_decode_only_some(files: dict[str, str]) -> None:
    arguments = ("decode", files["drive.log"], "--mapping", files["car.toml"])
    assert lines(call(*arguments, "--message", "Door")) == DECODED[1:2]
    assert lines(call(*arguments, "--filter", "rate > 40")) == DECODED[:1]
    assert lines(call(*arguments, "--filter", "$Time >= 1000030")) == DECODED[2:]
    assert lines(call(*arguments, "--filter", "subject = 'Nobody'")) == []
    assert lines(call(*arguments, "-m", "Door", "--names"))[0]["params"]["which"] == "right"


def test_decode_reads_stdin_gzip_and_json_mappings(files: dict[str, str], tmp_path: Path) -> None:
    packed = tmp_path / "drive.gz"
    packed.write_bytes(gzip.compress(LOG.encode()))
    from vicinal.cosmic.mapping_toml_cpython import loads

    staged = tmp_path / "car.json"
    staged.write_text(json.dumps(loads(TOML).tables()))
    for mapping in (files["car.toml"], str(staged)):
        assert lines(call("decode", str(packed), "--mapping", mapping)) == DECODED
        assert lines(call("decode", "-", "--mapping", mapping, stdin=LOG.encode())) == DECODED
        assert lines(call("decode", "-", "--mapping", mapping, stdin=packed.read_bytes())) == DECODED


@pytest.mark.parametrize("kind", ["asc", "blf", "trc", "log"])
@pytest.mark.parametrize("packed", [False, True])
def test_decode_reads_what_python_can_writes(files: dict[str, str], tmp_path: Path, kind: str, packed: bool) -> None:
    path = tmp_path / f"drive.{kind}"
    with can.Logger(path) as logger:
        for at, text in enumerate([b"00D1234\x39", b"00D1234\x20"]):
            logger(can.Message(1000 + at / 100, 12345, data=text, is_extended_id=True))
        logger(can.Message(1000.5, 0x10, data=b"\x02", is_extended_id=False))
    anonymous = tmp_path / "anything"
    anonymous.write_bytes(gzip.compress(path.read_bytes()) if packed else path.read_bytes())
    found = lines(call("decode", str(anonymous), "--mapping", files["car.toml"]))
    assert [line["params"] for line in found] == [DECODED[0]["params"], DECODED[2]["params"], DECODED[1]["params"]]
    assert found[2]["time"] - found[0]["time"] == pytest.approx(0.5, abs=1e-3)


def test_decode_names_what_is_broken(files: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "broken.log"
    log.write_text(f"nonsense\n\n{LOG}(1.0) can0 10#00\n(1.0) can0 010#0\n(1.0) can0 00003039#3030\n")
    result = call("decode", str(log), "--mapping", files["car.toml"])
    assert lines(result, code=1) == DECODED
    said = result.stderr.splitlines()
    assert said[0] == f"{log}: 1 frames refused, the first: Speed (0x3039) with 2 bytes of data, it has 8 (at byte 2)"
    assert said[1] == f"{log}:1: not a line of candump -l: 'nonsense'"
    assert said[2] == f"{log}:8: not a line of candump -l: '(1.0) can0 10#00'"
    assert said[3] == f"{log}:9: not a line of candump -l: '(1.0) can0 010#0'"
    assert said[4] == f"{log}: 3 broken lines"


def test_decode_of_no_log_at_all_ends(files: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "text"
    log.write_text("a line of prose\n" * 1000)
    result = call("decode", str(log), "--mapping", files["car.toml"])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"{log}: 1,000 broken lines, 990 not shown"
    log.write_bytes(b"\x00" * (1 << 20))
    assert "more than 4096 bytes without a line end" in refused("decode", str(log), "--mapping", files["car.toml"])
    log.write_text("")
    assert call("decode", str(log), "--mapping", files["car.toml"]).stderr == f"{log}: no frames\n"


def test_a_cut_gzip_gives_what_could_be_read(files: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "cut.gz"
    text = "".join(f"({at}.000000) can0 010#{at % 251:02X}\n" for at in range(50000))
    whole = gzip.compress(text.encode())
    log.write_bytes(whole[: len(whole) // 2])
    result = call("decode", str(log), "--mapping", files["car.toml"])
    assert len(lines(result, code=1)) > 10000
    assert result.stderr == (f"Error: {log}: the gzip ends too early: the file was cut; what came before was read\n")
    log.write_bytes(whole[:1000] + bytes(100) + whole[1100:])
    assert "the gzip is damaged" in call("decode", str(log), "--mapping", files["car.toml"]).stderr


def test_decode_refuses_kindly(files: dict[str, str]) -> None:
    log, toml, database = files["drive.log"], files["car.toml"], files["car.dbc"]
    assert "Give --dbc FILE or --mapping FILE" in refused("decode", log)
    assert "not both" in refused("decode", log, "--dbc", database, "--mapping", toml)
    assert "No such file" in refused("decode", log + "x", "--mapping", toml)
    assert "did you mean Speed?" in refused("decode", log, "--mapping", toml, "-m", "Sped")
    assert "no message is called 'Engin': did you mean Engine?" in refused(
        "decode", log, "--dbc", database, "-m", "Engin"
    )
    assert "column 7" in refused("decode", log, "--mapping", toml, "--filter", "rate >")
    assert "not a DBC file" in refused("decode", log, "--dbc", toml)


def test_a_reader_that_goes_away_is_no_failure(files: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "long.log"
    log.write_text("(1.000000) can0 010#00\n" * 100_000)
    with subprocess.Popen(
        [*COMMAND, "can", "decode", str(log), "--mapping", files["car.toml"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["subject"] == "Door"
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == b""


def test_a_live_source_is_decoded_as_it_comes(files: dict[str, str]) -> None:
    """Each line before the next one is there: candump -L can0 | vicinal can decode -."""
    with subprocess.Popen(
        [*COMMAND, "can", "decode", "-", "--mapping", files["car.toml"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(60, process.kill)
        timer.start()
        try:
            for line, want in zip([LOG.splitlines()[at] for at in (0, 1, 3)], DECODED):
                process.stdin.write(line.encode() + b"\n")
                process.stdin.flush()
                assert json.loads(process.stdout.readline()) == want
        finally:
            timer.cancel()
            process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.parametrize("kind", ["asc", "blf", "trc"])
def test_a_cut_log_of_another_kind_gives_what_could_be_read(files: dict[str, str], tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"drive.{kind}"
    with can.Logger(path) as logger:
        for at in range(20_000):
            logger(can.Message(1000 + at / 100, 0x10, data=[at % 251], is_extended_id=False))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    result = call("decode", str(path), "--mapping", files["car.toml"])
    assert "Traceback" not in result.stderr
    assert 100 < len(result.stdout.splitlines()) < 20_000
    if kind == "blf":
        assert result.exit_code == 1
        assert f"{path}: it has {len(data) // 2:,} of {len(data):,} bytes: the file was cut" in result.stderr


@captures
def test_the_car_at_50_km_per_hour(tmp_path: Path) -> None:
    packed = tmp_path / "drive.gz"
    packed.write_bytes(gzip.compress(AT_50.read_bytes()))
    for log in (str(AT_50), str(packed)):
        found = lines(call("decode", log, "--dbc", str(FORD), "--message", "EngVehicleSpThrottle2"))
        assert statistics.mean(line["params"]["Veh_V_ActlEng"] for line in found) == pytest.approx(47.0, abs=0.2)
        assert {line["subject"] for line in found} == {"EngVehicleSpThrottle2"}


@captures
def test_the_car_from_30_to_80_km_per_hour() -> None:
    result = call("decode", str(FROM_30_TO_80), "--dbc", str(FORD), "-v")
    found = [line for line in lines(result) if line["subject"] == "EngVehicleSpThrottle2"]
    assert found[0]["params"]["Veh_V_ActlEng"] == pytest.approx(27.8, abs=0.05)
    assert found[-1]["params"]["Veh_V_ActlEng"] == pytest.approx(75.7, abs=0.05)
    assert "41,250 frames, 36,741 decoded, 4,509 with other identifiers" in result.stderr


@captures
def test_a_file_cut_down_to_one_message_says_the_same_of_it() -> None:
    whole = dbc.load(FORD)
    for message in whole.messages[::40]:
        alone = dbc.load(FORD, only=[message.subject])
        assert [one.table() for one in alone.messages] == [message.table()]


def test_comments_that_look_like_messages_are_comments() -> None:
    whole = dbc.loads(DBC)
    assert [message.subject for message in whole.messages] == ["Engine", "Gear", "Paged"]
    for name in ("Engine", "Gear", "Paged"):
        alone = dbc.loads(DBC, only=[name])
        assert [one.table() for one in alone.messages] == [whole.of_subject(name).table()]  # type: ignore[union-attr]
    assert cut(DBC, {"Nobody"}) == cut(DBC)
    assert cut(DBC).count("\n") == cut(DBC, {"Gear"}).count("\n") == DBC.count("\n")


# The lines, and what is behind them


@cases(200)
@given(st.binary(max_size=9), st.sampled_from(["Engine", "Gear", "Paged", "Speed", "Door"]), st.booleans())
def test_a_line_is_what_the_mapping_reads(data: bytes, subject: str, names: bool) -> None:
    message = MESSAGES[names][subject]
    try:
        line = writer(message)("12.500000", data)
    except RemoteProtocolError as error:
        with pytest.raises(RemoteProtocolError, match=re.escape(str(error))):
            message.params(data)
        return
    params = message.params(data)
    assert line == line_of("12.500000", subject, params)
    found = json.loads(line)
    assert found == {"time": 12.5, "subject": subject, "params": params}
    assert list(found["params"]) == list(params)


def _messages(names: bool) -> dict[str, Message]:
    from vicinal.cosmic.mapping_toml_cpython import loads

    return {one.subject: one for one in [*dbc.loads(DBC, by_name=names).messages, *loads(TOML, by_name=names).messages]}


MESSAGES = [_messages(False), _messages(True)]


def test_odd_names_and_numbers_are_json() -> None:
    from vicinal.cosmic.mapping import Field

    fields = [
        Field('100% "x"\n{}', "uint", 0, 8),
        Field("float", "float", 8, 32),
        Field("bytes", "bytes", 40, 8),
        Field("huge", "double", 48, 8, scale=1e307),
    ]
    message = Message(1, "a%sb\u2028é", fields)
    line = writer(message)("1.5", b"\x07\x00\x00\xc0\x7f\xff\xff")
    assert json.loads(line) == {
        "time": 1.5,
        "subject": "a%sb\u2028é",
        "params": {
            '100% "x"\n{}': 7,
            "float": {"$float": "nan"},
            "bytes": {"$bytes": "/w=="},
            "huge": {"$float": "inf"},
        },
    }


def test_every_frame_is_counted_once(files: dict[str, str], tmp_path: Path) -> None:
    decoder = Decoder(dbc.loads(DBC), condition=Filter("rpm > 100"))
    rows: list[Row] = [("1.0", "c", number, "", data) for number in ("064", "065", "FFF") for data in ("", "0FFF", "R")]
    out = decoder.feed(rows)
    assert (
        decoder.frames == 9 == (decoder.lines + decoder.others + decoder.unmatched + decoder.remotes + decoder.refused)
    )
    assert (len(out), decoder.remotes, decoder.refused, decoder.others, decoder.unmatched) == (1, 2, 2, 3, 1)


@given(st.lists(st.sampled_from(["(1.5) can0 123#11\n", "junk\n", "\n", "(1.5) can0 00000123##311 T\r\n"])), st.data())
def test_a_log_in_any_pieces_is_the_same_log(parts: list[str], data: Any) -> None:
    text = "".join(parts).encode()
    at = data.draw(st.integers(0, len(text)))
    log = Log("x", "candump", _Pieces([text[:at], text[at:]]), _Pieces([]), None)  # type: ignore[arg-type]
    rows = [row for batch in log.batches() for row in batch]
    good = [part for part in parts if part.startswith("(")]
    assert [row[2] for row in rows] == [part.split()[2].partition("#")[0] for part in good]
    assert log.broken == parts.count("junk\n")
    assert [number for number, _ in log.named] == [at for at, part in enumerate(parts, 1) if part == "junk\n"][:10]


class _Pieces:
    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    def read1(self, _: int) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""


def test_zeros_before_the_time_are_no_part_of_the_number(tmp_path: Path) -> None:
    log = tmp_path / "x"
    log.write_text("(0000000012.000500) can0 123#\n(0000000000.000500) can0 123#\n")
    assert [row[0] for batch in open_log(str(log)).batches() for row in batch] == ["12.000500", "0.000500"]


@given(st.lists(st.sampled_from(["123", "124", "00000123"])), st.integers(0, 3))
def test_rows_that_are_not_wanted_are_skipped_and_counted(identifiers: list[str], junk: int) -> None:
    text = "".join(f"(1.5) can0 {number}#1122\n" for number in identifiers) + "junk\n" * junk
    log = Log("x", "candump", _Pieces([text.encode()]), _Pieces([]), None)  # type: ignore[arg-type]
    rows = [row for batch in log.batches({"123"}) for row in batch]
    assert [row for row in rows if row[2] == "123"] == [("1.5", "can0", "123", "", "1122")] * identifiers.count("123")
    assert len(rows) + log.skipped == len(identifiers)
    assert log.broken == junk


def test_messages_lists_the_fields_and_gives_the_tables(files: dict[str, str], tmp_path: Path) -> None:
    result = call("messages", "--mapping", files["car.toml"])
    assert result.exit_code == 0, result.output
    for text in ("00003039", "license_no", "bytes 0..6", "km/h", "0=left 1=right", "1|7 little"):
        assert text in result.stdout
    staged = tmp_path / "car.json"
    staged.write_text(call("messages", "--dbc", files["car.dbc"], "--message", "Paged", "--json").stdout)
    again = call("messages", "--mapping", str(staged))
    assert "value when page 1" in again.stdout
    assert "Engine" not in again.stdout
    assert "Give --dbc FILE or --mapping FILE" in refused("messages")
    assert "did you mean Paged?" in refused("messages", "--dbc", files["car.dbc"], "-m", "Pagd")
