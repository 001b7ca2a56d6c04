"""TollHistory: what a vehicle paid on an expressway on each of the last 69 days, for daily expenditure queries.

A file of `vid, day, xway, toll` without header, plain or gzipped; 69 rows a vehicle, 25 million for one expressway.
So it is kept as two sorted arrays, 16 bytes a row. Of rows with one key the last counts.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import BadHistory
from .reading import open_plain_or_gzip

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["TollHistory"]

# A key is one number: vid, 31 bits; xway, 15; day, 8.
_MOST = {"vid": 2**31 - 1, "day": 255, "xway": 2**15 - 1}


class TollHistory:
    """`TollHistory()` knows nothing: it answers no query."""

    def __init__(
        self, keys: "npt.NDArray[np.int64] | None" = None, tolls: "npt.NDArray[np.int64] | None" = None
    ) -> None:
        import numpy as np

        if keys is None or tolls is None:
            keys = tolls = np.empty(0, np.int64)
        order = np.argsort(keys, kind="stable")
        self._keys, self._tolls = keys[order], tolls[order]

    def __len__(self) -> int:
        return len(self._keys)

    def toll(self, vid: int, day: int, xway: int) -> int | None:
        """None if nothing is known of that day."""
        key = _key(vid, day, xway)
        at = int(self._keys.searchsorted(key, side="right")) - 1
        return int(self._tolls[at]) if at >= 0 and self._keys[at] == key else None

    @classmethod
    def load(cls, path: Path) -> "TollHistory":
        """Raises BadHistory."""
        import numpy as np
        import pyarrow as pa
        from pyarrow import csv

        names = ["vid", "day", "xway", "toll"]
        keys, tolls, row = [], [], 1
        try:
            with open_plain_or_gzip(path) as file:
                reader = csv.open_csv(
                    file,
                    csv.ReadOptions(column_names=names, use_threads=False),
                    csv.ParseOptions(quote_char=False),
                    csv.ConvertOptions(column_types=dict.fromkeys(names, pa.int64()), null_values=[]),
                )
                for batch in reader:
                    columns = dict(zip(names, (column.to_numpy(zero_copy_only=False) for column in batch.columns)))
                    for name, most in _MOST.items():
                        bad = np.flatnonzero((columns[name] < 0) | (columns[name] > most))
                        if len(bad):
                            value = columns[name][bad[0]]
                            raise BadHistory(f"{path}: row {row + bad[0]}: {name} is {value}, want 0..{most}")
                    keys.append(_key(columns["vid"], columns["day"], columns["xway"]))
                    tolls.append(columns["toll"])
                    row += batch.num_rows
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return cls()
            raise BadHistory(f"{path}: want rows of four integers, vid,day,xway,toll: {error}") from error
        except (OSError, EOFError) as error:
            raise BadHistory(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        return cls(np.concatenate(keys), np.concatenate(tolls)) if keys else cls()


def _key(
    vid: "npt.NDArray[np.int64] | int", day: "npt.NDArray[np.int64] | int", xway: "npt.NDArray[np.int64] | int"
) -> Any:
    return vid << 23 | xway << 8 | day
