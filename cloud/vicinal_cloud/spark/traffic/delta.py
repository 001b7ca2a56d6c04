"""The tables as Delta tables too: a log beside the Parquet that is there. No library of Spark's is needed for it.

    OUT/positions/_delta_log/00000000000000000007.json      one version: files that are new, files that are gone

What counts is what state.json says (store.py). After each commit, and when a store is opened, the log of each table is
brought in line with it in one version; killed in between, the next opening does it. So a version is a commit of the
store, or several, and never half of one. The library `deltalake` reads how far a log is and writes its checkpoints; the
versions are written here, as it cannot take single files out.
"""

import json
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq

from vicinal.errors import VicinalError

__all__ = ["DeltaLog", "check_installed"]

LOG = "_delta_log"
# Versions from one checkpoint to the next: readers read all behind the last.
_CHECKPOINT_EVERY = 50
_PARTITIONS = ("day", "area")
_SPARKS = b"org.apache.spark.sql.parquet.row.metadata"
_WORDS = {"string": "string", "large_string": "string", "int64": "long", "double": "double", "bool": "boolean"}
_NULL = "__HIVE_DEFAULT_PARTITION__"


def check_installed() -> None:
    if find_spec("deltalake") is None:
        raise VicinalError("--format delta needs deltalake: pip install 'vicinal[delta]'")


class DeltaLog:
    """Of one table. Who makes one has the store's lock."""

    def __init__(self, folder: Path) -> None:
        from deltalake import DeltaTable

        self.folder = folder
        self.version = -1
        self._schema = ""
        self._files: set[str] = set()
        log = folder / LOG
        for unfinished in log.glob("*.tmp"):
            unfinished.unlink()
        if any(log.glob("*.json")):
            table = DeltaTable(str(folder))
            self.version = table.version()
            self._schema = table.schema().to_json()
            self._files = {
                unquote(str(path)) for path in table.get_add_actions(flatten=True).column("path").to_pylist()
            }

    def follow(self, files: Mapping[str, Sequence[int]], now: int, same_rows: bool = False) -> bool:
        """So that these, by their name within the table, with their rows first, are what counts; whether anything was
        to be done. `same_rows`: those that are new have the rows of those that are gone, and who follows the table need
        not look."""
        new, gone = sorted(set(files) - self._files), sorted(self._files - set(files))
        if not new and not gone:
            return False
        actions: list[dict[str, Any]] = []
        if self.version < 0:
            actions.append({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}})
        schema = _schema(self.folder / new[-1]) if new else self._schema
        if not _same(schema, self._schema):
            actions.append({"metaData": _metadata(schema, self.folder.name, now)})
        actions += [{"remove": _removed(name, now, not same_rows)} for name in gone]
        actions += [{"add": _added(self.folder, name, files[name][0], now, not same_rows)} for name in new]
        actions.append({"commitInfo": {"timestamp": now, "operation": "WRITE", "engineInfo": "vicinal"}})
        self._write(self.version + 1, "".join(json.dumps(action) + "\n" for action in actions))
        self.version += 1
        self._schema, self._files = schema, set(files)
        if self.version % _CHECKPOINT_EVERY == _CHECKPOINT_EVERY - 1:
            self._checkpoint()
        return True

    def _write(self, version: int, text: str) -> None:
        """Whole or not at all, and never over another: a version that is there was written by somebody else."""
        log = self.folder / LOG
        log.mkdir(parents=True, exist_ok=True)
        fresh, goal = log / f"{version:020d}.tmp", log / f"{version:020d}.json"
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(fresh, goal)
        except FileExistsError:
            raise VicinalError(f"{goal} is there: another program writes this Delta table") from None
        finally:
            fresh.unlink()
        folder = os.open(log, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _checkpoint(self) -> None:
        from deltalake import DeltaTable

        DeltaTable(str(self.folder)).create_checkpoint()


def _schema(file: Path) -> str:
    """Spark's own words for it, which are Delta's, with the columns that are in the path; of a file that was written
    without Spark (small.py) the same words for its types."""
    said = (pq.read_metadata(file).metadata or {}).get(_SPARKS)
    if said is not None:
        fields = [(one["name"], one["type"]) for one in json.loads(said)["fields"]]
    else:
        fields = [(one.name, _word(one)) for one in pq.read_schema(file)]
    wanted = [*fields, *((name, "string") for name in _PARTITIONS)]
    made = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in wanted]
    return json.dumps({"type": "struct", "fields": made})


def _word(field: pa.Field) -> str:
    if pa.types.is_timestamp(field.type):
        return "timestamp"
    found = _WORDS.get(str(field.type))
    if found is None:
        raise VicinalError(f"column {field.name!r} is {field.type}, for which Delta's log has no word here")
    return found


def _same(one: str, other: str) -> bool:
    def named(text: str) -> Any:
        return [(field["name"], field["type"]) for field in json.loads(text)["fields"]] if text else None

    return bool(named(one) == named(other))


def _metadata(schema: str, name: str, now: int) -> dict[str, Any]:
    return {
        "id": f"vicinal-{name}",
        "name": name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": list(_PARTITIONS),
        "configuration": {},
        "createdTime": now,
    }


def _values(name: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for part in name.split("/")[:-1]:
        column, _, value = part.partition("=")
        found[column] = None if value == _NULL else unquote(value)
    return found


def _added(folder: Path, name: str, rows: int, now: int, change: bool) -> dict[str, Any]:
    return {
        "path": quote(name, safe="/=-._~"),
        "partitionValues": _values(name),
        "size": (folder / name).stat().st_size,
        "modificationTime": now,
        "dataChange": change,
        "stats": json.dumps({"numRecords": rows}),
    }


def _removed(name: str, now: int, change: bool) -> dict[str, Any]:
    return {
        "path": quote(name, safe="/=-._~"),
        "deletionTimestamp": now,
        "dataChange": change,
        "extendedFileMetadata": False,
        "partitionValues": _values(name),
    }
