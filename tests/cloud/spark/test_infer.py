"""A schema for those who gave none: the word of who publishes, then what is seen. No Spark is started for it."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from vicinal.errors import VicinalError
from vicinal.event import Event
from vicinal.federation.types import EventType
from vicinal.filter import Filter
from vicinal_cloud.log import Log, entry_of
from vicinal_cloud.spark.infer import infer_schema
from vicinal_cloud.spark.logs import DirectoryLog

SPEED = EventType("Speed", 2, {"license_no": "str", "rate": "float", "axles": "int", "note": "str"}, ["note"])


def columns(folder: Path, events: list[Event], condition: str | None = None) -> dict[str, str]:
    """Beside those that every table has."""
    log = Log(folder)
    log.append_batch(
        [entry_of(Event(one.subject, one.params, one.attrs, "gw", at)) for at, one in enumerate(events)], 1000
    )
    log.close()
    schema = infer_schema([DirectoryLog(folder)], None if condition is None else Filter(condition))
    return {one.name: one.dataType.simpleString() for one in schema if one.name[0] != "_" and one.name != "subject"}


def test_a_type_that_was_published_is_the_schema(tmp_path: Path) -> None:
    """Before the first event of its subject, with the parameters that none has sent yet, and in its order."""
    found = columns(tmp_path / "log", [SPEED.to_event()])
    assert found == {"license_no": "string", "rate": "double", "axles": "bigint", "note": "string"}
    assert list(found) == ["license_no", "rate", "axles", "note"]


def test_what_is_declared_counts_before_what_is_seen(tmp_path: Path) -> None:
    """Ints do not make a column of ints of what is declared a float; what nobody has declared is seen."""
    events = [Event("Speed", {"rate": 50, "lane": 2}, {"Time": 5})] * 20
    found = columns(tmp_path / "log", [SPEED.to_event(), *events])
    assert found["rate"] == "double"
    assert (found["lane"], found["$Time"]) == ("bigint", "bigint")


def test_versions_and_subjects_together(tmp_path: Path) -> None:
    """A newer version adds; one name that is an int of one subject and a float of another is a double."""
    older = EventType("Speed", 1, {"rate": "int"})
    other = EventType("Brake", 1, {"axles": "float", "hard": "bool", "raw": "bytes", "what": "any"})
    found = columns(tmp_path / "log", [older.to_event(), SPEED.to_event(), other.to_event()])
    assert (found["rate"], found["axles"]) == ("double", "double")
    assert (found["hard"], found["raw"]) == ("boolean", "binary")
    assert "what" not in found, "of any type: only what is seen can say"


def test_a_filter_leaves_out_types_of_other_subjects(tmp_path: Path) -> None:
    other = EventType("Brake", 1, {"hard": "bool"})
    found = columns(tmp_path / "log", [SPEED.to_event(), other.to_event()], "subject = 'Brake'")
    assert found == {"hard": "boolean"}


def test_a_type_that_is_none_is_passed_over(tmp_path: Path) -> None:
    bad = Event("FES_EventType", {"subject": 5})
    assert columns(tmp_path / "log", [bad, Event("Speed", {"rate": 1.5})]) == {"rate": "double"}


def test_with_neither_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(VicinalError, match=r"no event to learn the columns from .*\.schema\("):
        columns(tmp_path / "log", [Event("FES_EventType", {"subject": 5})])
