"""The front door: what the README says to paste, works."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def run(script: str, folder: Path) -> str:
    path = f'export PATH="{Path(sys.executable).parent}:$PATH"; set -e; '
    done = subprocess.run(["bash", "-c", path + script], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_the_python_block(tmp_path: Path) -> None:
    (block,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_filter_and_event_lines(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("sh") if "filter explain" in block]
    lines = [line for line in block.splitlines() if not line.startswith(". .venv")]
    # Covering that does not hold ends with 1: that is its answer.
    script = "\n".join(line + " || test $? = 1" if line.startswith("vicinal filter covers") else line for line in lines)
    said = run(script, tmp_path)
    assert '"rate": 57.2' in said
    assert "yes" in said


def test_the_scope_lines() -> None:
    (block,) = [block for block in blocks("sh") if "scope check" in block]
    said = run(block, ROOT)
    assert "900000 ms later" in said  # why pc1 does not hear it at once


def test_the_broker_lines(tmp_path: Path) -> None:
    """In one shell instead of three terminals, and on a free port instead of the usual one."""
    (block,) = [block for block in blocks("sh") if "broker run" in block]
    port, page = free_port(), free_port()
    block = block.replace("7447", str(port)).replace("9447", str(page))
    *write, start, subscribe, publish, trace, top = [line.split("   #")[0].rstrip() for line in block.splitlines()]
    subscribe, publish, trace = (f"{line} --broker tcp://127.0.0.1:{port}" for line in (subscribe, publish, trace))
    said = run(
        "\n".join(write)
        + f"""
        {start} & broker=$!
        trap 'kill $broker; wait' EXIT
        until vicinal ping tcp://127.0.0.1:{port}; do sleep 0.2; done >/dev/null 2>&1
        {subscribe} --count 1 & sub=$!
        sleep 2
        until ! kill -0 $sub 2>/dev/null; do {publish}; sleep 0.5; done
        {trace}
        {top} http://127.0.0.1:{page} --once""",
        tmp_path,
    )
    assert "00D12345" in said
    assert "neighbours" in said


def test_the_can_lines(tmp_path: Path) -> None:
    """In one shell instead of two terminals, on a bus of its own."""
    (block,) = [block for block in blocks("sh") if "can monitor" in block]
    *write, monitor, send = block.replace(" car ", f" readme-{os.getpid()} ").splitlines()
    said = run(
        "\n".join(write)
        + f"""
        {monitor} > heard & listening=$!
        trap 'kill $listening; wait' EXIT
        until grep -q Speed heard; do {send} || true; sleep 0.5; done
        cat heard""",
        tmp_path,
    )
    assert '"license_no": "00D1234"' in said


def test_the_gateway_lines(tmp_path: Path) -> None:
    """With the broker, the subscriber and the car of the blocks before, in one shell, on ports and a bus of its own."""
    (block,) = [block for block in blocks("sh") if "gateway run gateway.toml" in block]
    (broker,) = [block for block in blocks("sh") if "broker run" in block]
    (can,) = [block for block in blocks("sh") if "can monitor" in block]
    bus, (port, page) = f"readme-g{os.getpid()}", (free_port(), free_port())
    made, _, start, subscribe = broker.replace("7447", str(port)).splitlines()[:4]
    *mapping, _, send = can.replace(" car ", f" {bus} ").splitlines()
    block = block.replace("7447", str(port)).replace("9448", str(page)).replace('"car"', f'"{bus}"')
    *write, gateway, status = block.splitlines()
    said = run(
        "\n".join([made, *mapping, *write])
        + f"""
        {start} & broker=$!
        {gateway} & gateway=$!
        trap 'kill $broker $gateway; wait' EXIT
        until {status} http://127.0.0.1:{page}; do sleep 0.2; done >/dev/null 2>&1
        {subscribe} --broker tcp://127.0.0.1:{port} --count 1 & sub=$!
        sleep 1
        until ! kill -0 $sub 2>/dev/null; do {send} || true; sleep 0.5; done
        {status} http://127.0.0.1:{page}""",
        tmp_path,
    )
    assert "00D1234" in said
    assert "pi-17" in said


def test_the_agent_lines(tmp_path: Path) -> None:
    """With the broker of a block before, in one shell, on ports of its own."""
    (block,) = [block for block in blocks("sh") if "agent run" in block]
    (broker,) = [block for block in blocks("sh") if "broker run" in block]
    port, coap = free_port(), free_port()
    made, _, start = broker.replace("7447", str(port)).splitlines()[:3]
    *write, gateway, agent, change = block.replace("7447", str(port)).replace("5683", str(coap)).splitlines()
    said = run(
        "\n".join([made, *write])
        + f"""
        {start} & broker=$!
        {gateway} & gateway=$!
        {agent} & agent=$!
        trap 'kill $broker $gateway $agent; wait' EXIT
        until vicinal ping tcp://127.0.0.1:{port}; do sleep 0.2; done >/dev/null 2>&1
        vicinal sub "subject = 'Reading'" --broker tcp://127.0.0.1:{port} > heard & sub=$!
        sleep 1
        until grep -q 'value": 20' heard; do kill $sub; wait $sub || true
          vicinal sub "subject = 'Reading'" --broker tcp://127.0.0.1:{port} > heard & sub=$!
          echo 10 > level; sleep 1.5; echo 20 > level; sleep 1.5; done
        {change}
        until grep -q 'value": 30' heard; do sleep 0.2; done
        kill $sub; cat heard""",
        tmp_path,
    )
    assert '"value": 30' in said


@pytest.mark.micropython
def test_the_flash_lines(tmp_path: Path) -> None:
    (block,) = [block for block in blocks("sh") if "vicinal flash" in block]
    *write, device, flash = [line.split("   #")[0].rstrip() for line in block.splitlines()]
    said = run(
        "\n".join(write)
        + f"""
        {device} & device=$!
        trap 'kill $device; wait' EXIT
        until [ -e port ]; do sleep 0.1; done
        {flash}""",
        tmp_path,
    )
    assert "hello from board-7" in said


@pytest.mark.slow
@pytest.mark.xdist_group("traffic")
def test_the_demo(tmp_path: Path) -> None:
    (line,) = [block for block in blocks("sh") if "vicinal demo" in block]
    said = run(line.replace("--for 20", "--for 6 --vehicles 3"), tmp_path)
    assert "The accounts hold." in said


@pytest.mark.parametrize(
    "line", [line for block in blocks("sh") if "sim overlay" in block for line in block.splitlines()]
)
def test_the_simulations(line: str, tmp_path: Path) -> None:
    assert run(line.replace("--brokers 100", "--brokers 20"), tmp_path)
