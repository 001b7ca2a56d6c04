"""What the tests of `vicinal can` share: a mapping, a DBC file, a log, and the captures if they are there."""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from vicinal_tools.main import cli

COMMAND = [sys.executable, "-c", "from vicinal_tools.main import main; main()"]
DATA = Path(__file__).parents[2] / "shared" / "data" / "can"
FORD = DATA / "ford_lincoln_base_pt.opendbc.dbc"
AT_50 = DATA / "acc_on_going_at_50km_per_hour.candump"
FROM_30_TO_80 = DATA / "acc_on_speed_changing_from_30km_to_80km_per_hour.candump"
captures = pytest.mark.skipif(not FORD.exists(), reason=f"the captures are not there: {DATA}")

TOML = """
[[message]]
id = 12345
subject = "Speed"
fields = [
    { name = "license_no", bytes = "0..6", type = "string" },
    { name = "rate", bytes = 7, type = "double", unit = "km/h" },
]
[[message]]
id = 0x10
subject = "Door"
fields = [
    { name = "open", start = 0, type = "bool" },
    { name = "which", start = 1, length = 7, type = "uint", names = { 0 = "left", 1 = "right" } },
]
"""
DBC = """VERSION ""
NS_ :
\tCM_
\tBA_
BS_:
BU_: ECU
BO_ 100 Engine: 2 ECU
 SG_ rpm : 7|16@0+ (0.25,0) [0|0] "1/min" ECU
BO_ 101 Gear: 1 ECU
 SG_ gear : 0|4@1+ (1,0) [0|0] "" ECU
BO_ 102 Paged: 2 ECU
 SG_ page M : 0|8@1+ (1,0) [0|0] "" ECU
 SG_ value m1 : 8|8@1+ (1,0) [0|0] "" ECU
CM_ BO_ 100 "a comment with ; and
BO_ 101 Gear: 1 ECU
 SG_ gear : 0|4@1+ (1,0) [0|0] \\"quoted\\" ECU
VAL_ 101 gear 9 ""wrong"" ;";
BA_DEF_ BO_ "Cycle" INT 0 100;
BA_ "Cycle" BO_ 100 10;
VAL_TABLE_ Gears 0 "P" 1 "R" ;
VAL_ 101 gear 0 "P" 1 "R" ;
"""
LOG = """(1000.000000) can0 00003039#3030443132333439
(1000.010000) can0 010#02
(1000.020000) can1 7FF#
(1000.030000) can0 00003039#3030443132333420 R
(1000.040000) can0 00003039#R
"""
numbers = itertools.count()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    found = {}
    for name, text in (("car.toml", TOML), ("car.dbc", DBC), ("drive.log", LOG)):
        (tmp_path / name).write_text(text)
        found[name] = str(tmp_path / name)
    return found


@pytest.fixture
def channel() -> str:
    """A virtual bus of this test alone."""
    return f"test-{next(numbers)}"


def call(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(cli, ["can", *arguments], input=stdin)


def refused(*arguments: str, stdin: bytes = b"") -> str:
    result = call(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def lines(result: Result, code: int = 0) -> list[Any]:
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]
