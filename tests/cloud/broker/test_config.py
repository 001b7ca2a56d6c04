"""What a broker is told: read, or refused with the file, the table and the key."""

from pathlib import Path

import pytest

from vicinal_cloud.broker.address import Address, parse
from vicinal_cloud.broker.config import ConfigError, load

GOOD = """
[broker]
name = "b1"
join = ["london"]
[[listen]]
address = "tcp://127.0.0.1:7447"
[[listen]]
address = "wss://[::1]:7448"
certificate = "b1.pem"
key = "b1.key"
[[neighbour]]
name = "b2"
address = "b2.example"
[[neighbour]]
name = "b3"
[[scope]]
name = "uk"
dimension = "geography"
[[scope]]
name = "london"
dimension = "geography"
supers = ["uk"]
input = "subject = 'Speed'"
output = "rate > 30"
[status]
address = "http://127.0.0.1"
[log]
directory = "b1.log"
max_bytes = 1_000_000
max_age_hours = 24
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b1.pem", "b1.key"):
        (tmp_path / name).write_text("")
    return tmp_path


def test_everything(folder: Path) -> None:
    file = folder / "b1.toml"
    file.write_text(GOOD)
    config = load(file)
    assert (config.name, config.join) == ("b1", ("london",))
    assert [str(one.address) for one in config.listen] == ["tcp://127.0.0.1:7447", "wss://[::1]:7448"]
    assert config.listen[1].tls.certificate == folder / "b1.pem"
    assert [(one.name, one.address) for one in config.neighbours] == [
        ("b2", Address("tcp", "b2.example", 7447)),
        ("b3", None),
    ]
    london = config.graph.scopes["london"]
    assert (london.supers, str(london.input), str(london.output)) == (("uk",), "subject = 'Speed'", "rate > 30")
    assert str(config.status) == "http://127.0.0.1:9447"
    assert config.log is not None
    assert (config.log.directory, config.log.options.max_age_ms) == (folder / "b1.log", 86_400_000)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "b1"\n', "", "[broker] name is missing"),
        ('name = "b1"\n', 'nmae = "b1"\n', "[broker] name is missing: there is 'nmae', is it meant?"),
        ('name = "b1"\n', "name = 7\n", "[broker] name is 7, want a string"),
        ('name = "b1"\n', 'name = "a/b"\n', "[broker] name is 'a/b', want 1 to 64 bytes without a slash"),
        ('name = "b1"\n', 'name = "b1"\nnmae = 1\n', "[broker] nmae is not known here"),
        ('join = ["london"]', 'join = ["mars"]', "[broker] join has 'mars', which is no [[scope]]"),
        ('join = ["london"]', "join = [1]", "[broker] join has 1, want strings"),
        ("tcp://127.0.0.1:7447", "udp://x:1", "[listen] address is 'udp://x:1': 'udp' is none of tcp, tls, ws, wss"),
        ("tcp://127.0.0.1:7447", "tcp://x:99999", "[listen] address is 'tcp://x:99999': Port out of range"),
        ("tcp://127.0.0.1:7447", "tls://127.0.0.1:7447", "[listen] certificate is missing: tls://127.0.0.1:7447"),
        ("wss://[::1]:7448", "ws://[::1]:7448", "[listen] address is ws://[::1]:7448, which uses no certificates"),
        ('"b1.key"', '"b9.key"', "b9.key, which is no file"),
        ('name = "b3"', 'name = "b2"', "[neighbour] name 'b2' is given twice"),
        ('name = "b3"', 'name = "b1"', "[neighbour] name is 'b1', the broker itself"),
        ("[[listen]]\naddress", "[listen]\naddress", "not TOML"),
        ('dimension = "geography"\nsupers', "supers", "[scope] dimension is missing"),
        ('supers = ["uk"]', 'supers = ["eu"]', "[scope] scope 'london' is in 'eu', which is no scope"),
        ('supers = ["uk"]', 'supers = ["london"]', "[scope] scope 'london' is in itself"),
        ("rate > 30", "rate >", "[scope] output is 'rate >': want a name or a value, got the end (column 7)"),
        ('"http://127.0.0.1"', '"tcp://127.0.0.1"', "[status] address is 'tcp://127.0.0.1': 'tcp' is none of http"),
        ('directory = "b1.log"\n', "", "[log] directory is missing"),
        ("1_000_000", "-1", "[log] max_bytes is -1, want more than 0"),
        ("[log]", "[lgo]", "[lgo] is not known"),
    ],
)
def test_errors_name_file_table_and_key(folder: Path, old: str, new: str, said: str) -> None:
    file = folder / "b1.toml"
    assert old in GOOD
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert said in str(caught.value)


def test_a_single_table_where_there_may_be_several(folder: Path) -> None:
    file = folder / "b1.toml"
    file.write_text('[broker]\nname = "b1"\n[listen]\naddress = "tcp://x:1"\n')
    with pytest.raises(ConfigError, match=r"write \[\[listen\]\], not \[listen\]"):
        load(file)
    with pytest.raises(ConfigError, match="No such file"):
        load(folder / "b2.toml")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("broker.example", "tcp://broker.example:7447"),
        ("127.0.0.1:1", "tcp://127.0.0.1:1"),
        ("wss://[::1]:443/", "wss://[::1]:443"),
    ],
)
def test_addresses(text: str, found: str) -> None:
    assert str(parse(text)) == found
