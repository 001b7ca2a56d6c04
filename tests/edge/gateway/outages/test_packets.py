"""5 % of packets lost each way, 2 % doubled, 5 % overtaken: the store and the broker agree on every event."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3]
EVENTS = 40_000 if os.environ.get("VICINAL_SOAK") else 2000
SEED = os.environ.get("VICINAL_SEED", "1")


def _namespaces() -> bool:
    command = ["unshare", "--net", "ip", "tuntap", "add", "dev", "probe", "mode", "tun"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not _namespaces(), reason="PACKET TESTS SKIPPED: no network namespaces with TUN (root, iproute2)")
def test_a_bad_network(tmp_path: Path) -> None:
    command = [
        "unshare",
        "--net",
        sys.executable,
        "-m",
        "edge.gateway.outages.packets",
        str(tmp_path),
        str(EVENTS),
        SEED,
    ]
    done = subprocess.run(command, cwd=TESTS, check=False, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["verdict"] == {"lost": 0, "duplicated": 0, "unexpected": 0, "inverted": 0, "wrong": 0}, found
    assert found["out"] == {"accepted": EVENTS, "delivered": EVENTS, "dropped": {}}, found
    assert found["said"] == EVENTS
    assert not found["books"]
    # It was bad, and it was not so that nothing passed.
    assert min(found["passed"], found["lost"], found["twice"], found["late"]) > 10, found
