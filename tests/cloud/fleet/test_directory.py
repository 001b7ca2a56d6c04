"""Names, versions and the folder, without an overlay (spec/provisioning.md)."""

import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_helpers import spec
from strategies import cases

from vicinal.federation.provisioning import MAX_CONFIG_BYTES, GatewayConfig, GatewayHello
from vicinal.tables_cpython import ConfigError
from vicinal_cloud.fleet import names as names_module
from vicinal_cloud.fleet.directory import ALIVE_MS, Fleet, FleetInUse, check, put, report
from vicinal_cloud.fleet.names import Names, good_pattern
from vicinal_cloud.fleet.versions import Versions

HERE = Path(__file__).parent


def hello(uid: str = "u1", name: str = "", version: int = 0, health: str = "ok", failed: int = 0) -> GatewayHello:
    return GatewayHello(uid, name, version, health, failed)


def config(text: str) -> bytes:
    return f"[gateway]\nname = '{text}'\n".encode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "default.toml").write_bytes(b"[gateway]\nname = '{name}' # {uid}\n")
    return tmp_path


@spec("PROV-12")
@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["", "a", "b", "gw-1", "gw-2", "a/b"])), max_size=30))
def test_a_name_is_given_once(tmp_path_factory: pytest.TempPathFactory, asked: list[tuple[int, str]]) -> None:
    file = tmp_path_factory.mktemp("names") / "names.json"
    found = Names(file)
    given_: dict[str, str] = {}
    for number, wanted in asked:
        uid = f"uid-{number}"
        free = wanted not in given_.values() and wanted not in ("", "a/b")
        name = found.give(uid, wanted)
        if uid in given_:
            assert name == given_[uid]
        elif free:
            assert name == wanted
        else:
            assert name.startswith("gw-")
        given_[uid] = name
        if number % 3 == 0:
            found = Names(file)  # another life
    assert len(set(given_.values())) == len(given_)
    assert dict(Names(file).items()) == given_


@spec("PROV-12")
def test_numbers_rise_for_each_pattern(tmp_path: Path) -> None:
    file = tmp_path / "names.json"
    assert [Names(file, "pi-{n}").give(f"a{at}") for at in range(3)] == ["pi-1", "pi-2", "pi-3"]
    assert [Names(file, "bus-{n}.x").give(f"b{at}") for at in range(2)] == ["bus-1.x", "bus-2.x"]
    assert Names(file, "pi-{n}").give("c") == "pi-4"
    found = json.loads(file.read_text())
    del found["names"]["c"]  # by hand: the number is not given again
    file.write_text(json.dumps(found))
    assert Names(file, "pi-{n}").give("d") == "pi-5"
    assert [good_pattern(one) for one in ("gw-{n}", "{n}", "gw", "a{n}b{n}", "a b{n}", "x" * 60 + "{n}")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip


@spec("PROV-12")
def test_a_name_that_is_not_on_disk_is_given_to_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Names(tmp_path / "names.json")
    found.give("u1")

    def full(file: Path, content: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(names_module, "replace", full)
        with pytest.raises(OSError, match="No space"):
            found.give("u2")
        assert found.get("u2") is None
        assert found.give("u1") == "gw-1"
    name = found.give("u2")
    assert name != "gw-1"
    assert Names(tmp_path / "names.json").get("u2") == name


@pytest.mark.parametrize(
    "text", ["", "[]", '{"names": {}}', '{"next": {}, "names": {"a": "x", "b": "x"}}', '{"next": 1}']
)
def test_a_damaged_list_of_names_is_not_begun_anew(tmp_path: Path, text: str) -> None:
    (tmp_path / "names.json").write_text(text)
    with pytest.raises(ConfigError, match=r"names.json: "):
        Names(tmp_path / "names.json")
    with pytest.raises(ConfigError, match=r"names.json: "):
        Fleet(tmp_path)
    assert check(tmp_path)


@spec("PROV-12")
def test_killed_while_it_gives_names(folder: Path) -> None:
    """20 times, at any moment: what anybody has heard stays true, and nobody else hears it."""
    chance = random.Random(7)
    heard: dict[str, str] = {}
    first = 0
    for _ in range(20):
        process = subprocess.Popen(
            [sys.executable, str(HERE / "naming.py"), str(folder), str(first)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        time.sleep(chance.random() * 0.1)
        process.kill()
        lines += process.stdout.read().splitlines(keepends=True)
        process.wait()
        assert lines[0].endswith("\n"), "it did not start"
        for line in [line for line in lines if line.endswith("\n")]:
            uid, name, version = line.split()
            assert heard.setdefault(uid, name) == name
            assert version == "1"
        first = len(heard) - chance.randrange(3)
    assert len(heard) > 20
    assert len(set(heard.values())) == len(heard)
    fleet = Fleet(folder)
    assert {uid: fleet.names.get(uid) for uid in heard} == heard
    fleet.close()


@spec("PROV-13")
def test_texts_and_their_numbers(folder: Path) -> None:
    fleet = Fleet(folder)
    first = fleet.answer(hello(), 0)
    assert (first.name, first.version) == ("gw-1", 1)
    assert first.text == b"[gateway]\nname = 'gw-1' # u1\n"
    assert fleet.answer(hello(version=1), 0).text is None
    put(folder, "gw-1", config("second"))
    second = fleet.answer(hello(version=1), 0)
    assert (second.version, second.text) == (2, config("second"))
    assert fleet.answer(hello("u2"), 0).version == 1
    (folder / "gateways" / "gw-1.toml").write_bytes(b"{name} = 1")
    assert fleet.answer(hello(version=2), 0).version == 2
    assert "not TOML" in fleet.problems["gw-1"]
    (folder / "gateways" / "gw-1.toml").unlink()
    back = fleet.answer(hello(version=2), 0)
    assert (back.version, back.text) == (1, first.text)
    assert not fleet.problems
    fleet.close()


@spec("PROV-13")
def test_numbers_rise_past_what_the_gateway_says(folder: Path) -> None:
    fleet = Fleet(folder)
    assert fleet.answer(hello(version=7), 0).version == 8
    assert fleet.answer(hello("u2", version=3, failed=9), 0).version == 10
    fleet.close()


@spec("PROV-13")
def test_what_cannot_be_served(folder: Path) -> None:
    fleet = Fleet(folder)
    (folder / "default.toml").unlink()
    nothing = fleet.answer(hello(version=4), 0)
    assert (nothing.name, nothing.version, nothing.text) == ("gw-1", 4, None)
    assert "default.toml is not, either" in fleet.problems["gw-1"]
    for data, why in ((b"x", "not TOML"), (b"\xff", "not TOML"), (b"#" * (MAX_CONFIG_BYTES + 1), "the limit is 49152")):
        with pytest.raises(ConfigError, match=why):
            put(folder, "gw-1", data)
        (folder / "gateways" / "gw-1.toml").write_bytes(data)
        assert fleet.answer(hello(version=4), 0).text is None
        assert why in fleet.problems["gw-1"]
        assert any(why in line for line in check(folder))
    fleet.close()


@spec("PROV-14")
def test_a_version_that_failed_is_not_served_there_again(folder: Path) -> None:
    fleet = Fleet(folder)
    fleet.answer(hello(), 0)
    fleet.answer(hello("u2"), 0)
    fleet.answer(hello(version=1), 0)
    put(folder, None, config("{name}"))
    assert fleet.answer(hello(version=1), 0).version == 2
    rolled = fleet.answer(hello(version=1, health="failed: nonsense", failed=2), 0)
    assert (rolled.version, rolled.text, rolled.noted) == (1, None, 2)
    fleet.close()
    fleet = Fleet(folder)  # it is remembered
    lost = fleet.answer(hello(version=0), 0)
    assert (lost.version, lost.text) == (1, b"[gateway]\nname = 'gw-1' # u1\n")
    assert fleet.answer(hello("u2", version=1), 0).version == 2  # it failed elsewhere
    put(folder, None, config("{name}"), again=True)
    assert fleet.answer(hello(version=1), 0).version == 3
    assert report(folder)[0]["bad"] == [2]
    fleet.close()


def test_the_good_one_is_kept_however_many_follow(tmp_path: Path) -> None:
    versions = Versions(tmp_path / "gw-1")
    versions.number_of(b"a = 1")
    versions.heard(hello(version=1))
    for number in range(2, 40):
        versions.number_of(b"a = %d" % number)
    assert len(list((tmp_path / "gw-1").glob("*.toml"))) == 11
    again = Versions(tmp_path / "gw-1")
    again.bad = list(range(2, 40))
    assert again.serve(39, 0) == (1, b"a = 1")
    assert again.number_of(b"a = 39") == 39


@spec("PROV-13", "PROV-14")
@cases(300)
@given(st.lists(st.tuples(st.sampled_from(["put", "ok", "fail", "lose", "again"]), st.integers(0, 3)), max_size=25))
def test_one_number_is_one_text_and_a_bad_one_stays_bad(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("versions")
    versions, texts, bad = Versions(folder), dict[int, bytes](), set[int]()
    current, runs, good = b"t = 0", 0, 0
    for step, value in steps:
        if step == "put":
            current = b"t = %d" % value
        elif step == "lose":
            versions = Versions(folder)
        number = versions.number_of(current)
        assert texts.setdefault(number, current) == current
        served, text = versions.serve(number, runs)
        assert served not in bad or (text is None and served == runs)
        assert text is None or texts[served] == text
        assert served == number or number in bad
        if step == "ok" and text is not None:
            runs = good = served
            versions.heard(hello(version=runs))
        elif step == "fail" and text is not None and served != runs:
            bad.add(served)
            versions.heard(hello(version=runs, health="failed: x", failed=served))
            assert good in (0, versions.serve(served, runs)[0])


@spec("PROV-15")
def test_who_is_there_is_told_of_changes(folder: Path) -> None:
    fleet = Fleet(folder)
    put(folder, "gw-2", config("two"))
    for at, uid in enumerate(("u1", "u2", "u3")):
        fleet.answer(hello(uid), at)
    fleet.changed(0)
    assert fleet.changed(5) == []

    def names(found: list[GatewayConfig]) -> list[tuple[str, int]]:
        return [(one.name, one.version) for one in found]

    put(folder, None, config("{name}"))
    assert names(fleet.changed(5)) == [("gw-1", 2), ("gw-3", 2)]
    put(folder, "gw-2", config("other"))
    assert names(fleet.changed(5)) == [("gw-2", 2)]
    (folder / "gateways" / "gw-2.toml").unlink()
    assert names(fleet.changed(5)) == [("gw-2", 3)]
    put(folder, None, config("third"))
    assert names(fleet.changed(ALIVE_MS + 1)) == [("gw-2", 4), ("gw-3", 3)]
    fleet.close()


def test_one_process_serves_a_folder(folder: Path) -> None:
    fleet = Fleet(folder)
    with pytest.raises(FleetInUse, match="another process serves this fleet"):
        Fleet(folder)
    fleet.close()
    fleet.close()
    Fleet(folder).close()


def test_the_report_is_what_was_heard(folder: Path) -> None:
    fleet = Fleet(folder)
    fleet.answer(hello(version=0), 5000)
    fleet.answer(hello("u2", "pi", version=0), 6000)
    assert report(folder)[0]["heard"] is None
    fleet.save_status()
    wanted: list[dict[str, Any]] = [
        {
            "name": "gw-1",
            "uid": "u1",
            "version": 0,
            "served": 1,
            "health": "ok",
            "heard": 5000,
            "bad": [],
            "problem": "",
        },
        {"name": "pi", "uid": "u2", "version": 0, "served": 1, "health": "ok", "heard": 6000, "bad": [], "problem": ""},
    ]
    assert report(folder) == wanted
    fleet.close()
    fleet = Fleet(folder)
    fleet.answer(hello("u2", "pi", version=1), 7000)
    fleet.close()
    assert [one["heard"] for one in report(folder)] == [5000, 7000]
    (folder / "status.json").write_text("damaged")
    assert [one["heard"] for one in report(folder)] == [None, None]
    assert json.loads((folder / "names.json").read_text())["names"] == {"u1": "gw-1", "u2": "pi"}


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("fleet.toml", "names = 'gw'", "fleet.toml: .*names is 'gw', want {n} in it, once"),
        ("fleet.toml", "name = 'gw-{n}'", "name is not known here: is 'names' meant?"),
        ("fleet.toml", "x", "fleet.toml: not TOML"),
        ("gateways/gw-1.txt", "", "gw-1.txt: is no NAME.toml"),
        ("gateways/a b.toml", "", "a b.toml: is no NAME.toml"),
        ("gateways/gw-1.toml", "x", "gw-1.toml: not TOML"),
        ("default.toml", "x", "default.toml: not TOML"),
    ],
)
def test_what_is_wrong_with_a_folder_is_said(folder: Path, file: str, text: str, message: str) -> None:
    (folder / "gateways").mkdir()
    assert check(folder) == []
    (folder / file).write_text(text)
    (found,) = check(folder)
    assert re.search(message, found), found
    assert check(folder / "nowhere") == [f"{folder / 'nowhere'}: is no directory"]
