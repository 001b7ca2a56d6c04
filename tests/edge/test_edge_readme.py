"""The page of the gateway: what it says to paste works, what its table says is so, and the unit is one."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from edge.servers import Mosquitto, free_port

from vicinal_edge.contract import settings

EDGE = Path(__file__).parents[2] / "edge"
README = (EDGE / "README.md").read_text(encoding="utf-8")
UNIT = EDGE / "systemd" / "vicinal-gateway.service"
SETTINGS = {
    "coap": {"bind": "127.0.0.1:0"},
    "cosmic": {"channel": "can0", "bind": True},
    "flow": {"road": [{"name": "r", "lines": [[[0, 0], [1, 1]]]}]},
    "jms": {"address": "stomp://127.0.0.1"},
    "mqtt": {"address": "mqtt://127.0.0.1"},
    "siena": {"address": "tcp://127.0.0.1:7447"},
    "steam": {"extended": True},
}


def test_the_example(tmp_path: Path) -> None:
    """In one shell instead of several terminals, on free ports and a bus of its own."""
    (block,) = [block for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "gateway run" in block]
    bus, page = f"edge-{os.getpid()}", free_port()
    with Mosquitto(tmp_path / "mosquitto") as server:
        for old, new in (
            ("1883", str(server.port)),
            ("9448", str(page)),
            ('"car"', f'"{bus}"'),
            (" car ", f" {bus} "),
            ("mosquitto_sub", f"mosquitto_sub -p {server.port} -C 1"),
        ):
            block = block.replace(old, new)
        *write, check, start, listen, send, status = block.splitlines()
        script = (
            "\n".join([*write, check])
            + f"""
        {listen} > heard & listening=$!
        {start} & gateway=$!
        trap 'kill $gateway; wait' EXIT
        until {status} http://127.0.0.1:{page}; do sleep 0.2; done >/dev/null 2>&1
        until ! kill -0 $listening 2>/dev/null; do {send} || true; sleep 0.5; done
        {status} http://127.0.0.1:{page}
        cat heard"""
        )
        path = f'export PATH="{Path(sys.executable).parent}:$PATH"; set -e; '
        done = subprocess.run(["bash", "-c", path + script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    heard = (tmp_path / "heard").read_text()
    topic, _, payload = heard.partition(" ")
    assert topic.endswith("vehicle/speed")
    found = json.loads(payload)
    assert found["license_no"] == "00D1234"
    assert found["v"] == pytest.approx(57 / 3.6)
    assert "in order: gateway 'pi-17'" in done.stdout


def test_every_adapter_is_in_the_table_as_it_is() -> None:
    rows = {row[1].strip("[]`").partition("`")[0]: row for row in _rows() if row[1].startswith("[")}
    ours = {one.name: one for one in entry_points(group="vicinal.adapters") if one.value.startswith("vicinal_edge.")}
    assert set(rows) == set(ours)
    rows["cosmic"] = next(row for row in _rows() if "event channels" in row[2])
    for name, one in ours.items():
        able = one.load()(name, settings(SETTINGS.get(name, {}))).capabilities
        row = rows[name]
        largest = "64 KiB" if able.max_bytes == 65536 else f"{able.max_bytes:,} bytes"
        assert row[3].startswith(largest), name
        assert row[4].startswith("everything"), name
        assert len(able.types) == 6
        assert able.carries("Priority")
        assert row[5].partition(",")[0] == able.filter, name
        assert (row[6] != "no") == able.control, name
        assert (row[7] != "no") == able.tunnels, name


def _rows() -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in README.splitlines() if line.startswith("| ")][1:]


def test_what_it_points_to_is_there() -> None:
    for page in (EDGE / "README.md", EDGE / "template" / "README.md"):
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("SYSTEMD TESTS SKIPPED: no systemd-analyze (apt-get install systemd)")
    text = UNIT.read_text()
    installed = re.search(r"^ExecStart=(\S+)", text, re.MULTILINE)
    assert installed is not None
    file = tmp_path / UNIT.name
    file.write_text(text.replace(installed[1], sys.executable))  # it looks whether the program is there
    done = subprocess.run([program, "verify", str(file)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for line in ("Type=notify", "WatchdogSec=", "Restart=always", "StateDirectory=vicinal", "DynamicUser=yes"):
        assert f"\n{line}" in text
