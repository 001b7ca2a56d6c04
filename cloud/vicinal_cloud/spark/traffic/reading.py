"""Tables as of one commit, for who reads them while they are written. Spark is not needed.

    notes, found = read(Path("live"), "offences", "segment_speeds")        pandas, both of the same commit

What counts is what state.json says (store.py). A file that it names may still lie where it was written, as the moves
are made after the commit, and is read there; one that is gone was replaced by a commit meanwhile, and all is read
again. So nothing is there twice and nothing is missing, also behind a writer that was killed.
"""

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa

from vicinal.errors import VicinalError

from .store import STATE

__all__ = ["files", "read"]

# Commits may follow each other quickly; a file that somebody else has removed never comes back.
_TRIES, _AGAIN_S = 20, 0.25
_NULL = "__HIVE_DEFAULT_PARTITION__"


def read(tables: Path, *names: str) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """Notes of the commit, and each table, with no rows and no columns where there is none of it."""
    for left in reversed(range(_TRIES)):
        state = _state(tables)
        try:
            return state["notes"], {name: _table(tables, state, name) for name in names}
        except FileNotFoundError as error:
            if not left:
                raise VicinalError(
                    f"{error.filename or error} was committed and is gone: tables that change faster than they can be "
                    "read, or somebody has removed it. Try again"
                ) from error
            time.sleep(_AGAIN_S)
    raise AssertionError


def files(tables: Path, name: str) -> list[Path]:
    """Those of the last commit, for readers of Parquet: one of them may be gone with the next."""
    return _files(tables, _state(tables), name)


def _state(tables: Path) -> dict[str, Any]:
    try:
        found = json.loads((tables / STATE).read_text(encoding="utf-8"))
        if not isinstance(found, dict) or not {"files", "moves", "notes"} <= found.keys():
            raise ValueError("this says nothing of tables: want what `vicinal spark` has written there")
        return found
    except FileNotFoundError:
        raise VicinalError(
            f"{tables}: no tables: want the --out of `vicinal spark traffic` or `vicinal spark ingest`"
        ) from None
    except (OSError, ValueError) as error:
        raise VicinalError(f"{tables / STATE}: {error}") from error


def _files(tables: Path, state: dict[str, Any], name: str) -> list[Path]:
    written = {new: old for old, new in state["moves"]}
    found = []
    for one in sorted(state["files"].get(name, {})):
        aside = tables / written.get(one, one)
        found.append(aside if aside.exists() else tables / one)
    return found


def _table(tables: Path, state: dict[str, Any], name: str) -> pd.DataFrame:
    frames = []
    for one in _files(tables, state, name):
        try:
            frame = pd.read_parquet(one, partitioning=None)
        except (pa.ArrowInvalid, PermissionError) as error:
            raise VicinalError(f"{one}: {error}") from error
        for part in one.parts[-3:-1]:
            key, _, value = part.partition("=")
            frame[key] = None if value == _NULL else unquote(value)
        frames.append(frame)
    with_rows = [frame for frame in frames if len(frame)]  # the others would have a say in the types
    return pd.concat(with_rows or frames[:1], ignore_index=True) if frames else pd.DataFrame()
