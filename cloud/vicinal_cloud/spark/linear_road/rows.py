"""The input: one stream of rows with fifteen integer columns, -1 where a column says nothing.

    type, time, vid, spd, xway, lane, dir, seg, pos, qid, sinit, send, dow, tod, day

Type 0 is a position report, 2 asks for an account's balance, 3 for a day's expenditure, 4 for a travel time. Of a
query only what it needs is looked at: the original data leaves out its position, Walmart's repeats it.

A row that is none is left out, counted by its reason, and the first of each reason is named with its line. So is
a row whose time lies before one that came earlier: the minute it belongs to may be over, and answers that depend on it
given.
"""

from collections import Counter
from typing import NamedTuple, TypeAlias

__all__ = ["COLUMNS", "LIMITS", "LeftOut", "Row", "RowError", "parse"]

COLUMNS = (
    "type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "sinit", "send", "dow", "tod", "day",
)  # fmt: skip

Row: TypeAlias = tuple[int, ...]

_INT = 2**31 - 1
# Speeds are 0..100 by the rules. Generators in use overshoot a little at either end, and the validator takes what
# comes; what no road vehicle does, as the 255 of a sensor that failed, is no speed.
LIMITS = {
    "time": (0, _INT - 1),
    "vid": (0, _INT),
    "spd": (-100, 200),
    "xway": (0, 32_767),
    "lane": (0, 4),
    "dir": (0, 1),
    "seg": (0, 99),
    "pos": (0, 527_999),
    "qid": (0, _INT),
    "day": (1, 69),
}
# What each type needs.
NEEDS = {
    0: ("time", "vid", "spd", "xway", "lane", "dir", "seg", "pos"),
    2: ("time", "vid", "qid"),
    3: ("time", "vid", "xway", "qid", "day"),
    4: ("time", "vid", "qid"),
}
_PLACES = {name: place for place, name in enumerate(COLUMNS)}
_CHECKS = {kind: tuple((_PLACES[name], *LIMITS[name]) for name in names) for kind, names in NEEDS.items()}


class RowError(ValueError):
    """`reason` is the kind of it, to count by; the text says what exactly."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def parse(line: str) -> Row:
    """Raises RowError."""
    cells = line.rstrip("\r\n").split(",")
    if len(cells) != len(COLUMNS):
        raise RowError("columns", f"{len(cells)} column{'s' * (len(cells) != 1)}, want {len(COLUMNS)}")
    row = []
    for name, cell in zip(COLUMNS, cells):
        try:
            # int() would also take 1_000 and digits of other scripts.
            if not cell.strip().lstrip("+-").isascii() or "_" in cell:
                raise ValueError
            row.append(int(cell))
        except ValueError:
            shown = cell if len(cell) <= 20 else cell[:20] + "..."
            raise RowError(f"{name} is no integer", f"{name} is {shown!r}, want an integer") from None
    checks = _CHECKS.get(row[0])
    if checks is None:
        raise RowError("type", f"type is {row[0]}, want 0, 2, 3 or 4")
    for place, least, most in checks:
        if not least <= row[place] <= most:
            name = COLUMNS[place]
            raise RowError(f"{name} out of range", f"{name} is {row[place]}, want {least}..{most}")
    return tuple(row)


class Example(NamedTuple):
    line: int
    text: str


class LeftOut:
    """The rows that were left out: how many for each reason, and where the first was."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: dict[str, Example] = {}

    def add(self, line: int, error: RowError) -> None:
        self.counts[error.reason] += 1
        self.first.setdefault(error.reason, Example(line, str(error)))

    @property
    def total(self) -> int:
        return self.counts.total()

    def say(self) -> list[str]:
        """A line for each reason, the most frequent first."""
        return [
            f"{count:,} row{'s' * (count != 1)} left out: {reason}; first in line {self.first[reason].line:,}: "
            f"{self.first[reason].text}"
            for reason, count in self.counts.most_common()
        ]
