"""Tables are read as of one commit, wherever the writer is, or was when it was killed."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from click.testing import CliRunner

from vicinal.errors import VicinalError
from vicinal_cloud.spark.traffic import reading
from vicinal_cloud.spark.traffic.store import STATE, Store
from vicinal_tools.main import cli


class Killed(BaseException):
    pass


def table(low: int, high: int) -> pa.Table:
    count = high - low
    return pa.table({"n": list(range(low, high)), "day": ["d"] * count, "area": ["a:b"] * count})


def numbers(out: Path, name: str = "t") -> list[int]:
    _, found = reading.read(out, name)
    frame = found[name]
    if len(frame):
        assert set(frame["area"]) == {"a:b"}
    return sorted(frame["n"]) if len(frame) else []


def change(store: Store) -> None:
    """As a refresh: what was there is replaced, and there is more of another table."""
    store.commit(1, store.stage({"t": table(5, 20), "u": table(0, 3)}), {"t": store.files("t")})


def test_a_writer_is_killed_at_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    step = 0
    while True:
        out = tmp_path / str(step)
        with Store(out) as store:
            store.commit(0, store.stage({"t": table(0, 10)}))
            left = step

            def counted(do: Any) -> Any:
                def doing(self: Path, *more: Any, **named: Any) -> Any:
                    nonlocal left
                    if left == 0:
                        raise Killed
                    left -= 1
                    return do(self, *more, **named)

                return doing

            with monkeypatch.context() as patched:
                for name in ("replace", "unlink"):
                    patched.setattr(Path, name, counted(getattr(Path, name)))
                try:
                    change(store)
                    ended = True
                except Killed:
                    ended = False
        found = numbers(out), numbers(out, "u")
        assert found in [(list(range(10)), []), (list(range(5, 20)), [0, 1, 2])]
        seen.add(len(found[1]))
        with Store(out):
            pass
        assert (numbers(out), numbers(out, "u")) == found  # what is finished when it is opened changes nothing
        if ended:
            break
        step += 1
    assert step >= 4
    assert seen == {0, 3}


def test_what_is_replaced_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "t") as store:
        store.commit(0, store.stage({"t": table(0, 10)}))
        listed = reading._files

        def late(*what: Any) -> list[Path]:
            found = listed(*what)
            if store.batch == 0:
                change(store)
            return found

        monkeypatch.setattr(reading, "_files", late)
        assert numbers(tmp_path / "t") == list(range(5, 20))


def test_a_file_that_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_AGAIN_S", 0.0)
    with Store(tmp_path / "t") as store:
        store.commit(0, store.stage({"offences": table(0, 10)}))
        gone, _ = sorted(store.files("offences"), key=lambda file: "day=1970" in str(file))
        gone.unlink()
        with pytest.raises(VicinalError, match=r"c1-0\.parquet.* is gone.*Try again"):
            reading.read(tmp_path / "t", "offences")
        found = CliRunner().invoke(cli, ["spark", "report", str(tmp_path / "t"), "--html", str(tmp_path / "x.html")])
        assert (found.exit_code, found.output.count("Traceback")) == (2, 0)
        assert "is gone" in found.output
        gone.write_bytes(b"no Parquet")
        with pytest.raises(VicinalError, match=r"c1-0\.parquet: "):
            reading.read(tmp_path / "t", "offences")
    with pytest.raises(VicinalError, match="no tables"):
        reading.read(tmp_path, "offences")
    (tmp_path / "t" / STATE).write_text("[]")
    with pytest.raises(VicinalError, match=r"state\.json: this says nothing of tables"):
        reading.read(tmp_path / "t", "offences")


def test_tables_with_other_columns_are_not_added_to(tmp_path: Path) -> None:
    (tmp_path / "t" / "_vicinal").mkdir(parents=True)
    (tmp_path / "t" / STATE).write_text('{"query": "", "batch": 3, "files": {}, "notes": {}, "moves": []}')
    with pytest.raises(VicinalError, match="another version of Vicinal"):
        Store(tmp_path / "t")
