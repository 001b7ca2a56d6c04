"""The demo when things go wrong: a broker and a monitor are killed, and somebody presses Ctrl-C."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from cloud.broker.brokers import COMMAND, PATIENCE

from vicinal_tools.demo.city import City
from vicinal_tools.demo.files import write
from vicinal_tools.demo.show import Show
from vicinal_tools.traffic.tracks import shipped

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traffic")]


def test_a_broker_and_a_monitor_killed_lose_nothing_that_was_accepted() -> None:
    folder = Path(tempfile.mkdtemp(prefix="vicinal-"))
    city = City(write(folder, shipped(), vehicles=6, speeders=0.5, seed=189, port=0, database=None))
    show = Show(city)
    try:
        show.start()
        show.run(5)
        city.parts["b-west"].kill()
        time.sleep(1)
        city.parts["b-west"].start()
        city.parts["b-west"].wait_until_ready(time.monotonic() + PATIENCE)
        show.run(3)
        since = time.time_ns() // 1_000_000
        city.parts["m1"].kill()
        city.parts["m1"].start()
        city.parts["m1"].wait_until_ready(time.monotonic() + PATIENCE)
        city.wait(lambda: city.is_set("m1"), "m1 to listen again", time.monotonic() + PATIENCE)
        # Its areas are forgotten until the next beacon of each car.
        show.away.append(("m1", since - 500, time.time_ns() // 1_000_000 + 2_500))
        show.run(6)
        city.speak(False)
        time.sleep(2.5)
        # The monitor counts anew since it was started: the judge alone knows of all that it has sent.
        deadline = time.monotonic() + PATIENCE
        stored = 1
        while stored and time.monotonic() < deadline:
            show.look()
            outs = [one["out"] for name in city.plan.network.monitors for one in city.status(name)["services"]]
            stored = sum(one["stored"] for one in outs)
        assert not stored
        time.sleep(0.5)
        found = show.finish()
        assert found.judgement.missing == []
        # Cars say their last event again and again: a monitor that was killed has forgotten that it heard it. The
        # office knows it by its identity, and fines nobody twice.
        again = [one for one in found.judgement.extra if one[0] == "m1" and one[1].endswith("came twice")]
        assert [one for one in found.judgement.extra if one not in again] == []
        assert found.judgement.must > 5
        losses = dict(found.accounts.losses)
        assert losses.pop("overlay") <= 0
        assert not any(losses.values())
    finally:
        city.stop()
        shutil.rmtree(folder, ignore_errors=True)


def of_the_demo(folder: Path) -> list[str]:
    """Processes whose environment or command line names the folder: also those that hold buses and radios."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text and process.name != str(os.getpid()):
            found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c(presses: int) -> None:
    """Once: it comes to rest, says its sums and ends. Twice: at once. Nothing is left in either case."""
    base = Path(tempfile.mkdtemp(prefix="v-"))
    folder = base / "d"
    with (base / "err").open("w") as said:
        process = subprocess.Popen(
            [*COMMAND, "demo", "--json", "--vehicles", "3", "--port", "0", "--keep", str(folder)],
            stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE
        truth = folder / "truth.jsonl"
        while not (truth.exists() and truth.stat().st_size):
            assert process.poll() is None, (base / "err").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert of_the_demo(folder)
        process.send_signal(signal.SIGINT)
        if presses == 2:
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=PATIENCE)
        if presses == 1:
            found = json.loads(out)
            assert (process.returncode, found["holds"], found["losses"]["overlay"]) == (0, True, 0), found
        else:
            assert process.returncode == 130
            assert out == ""
        while left := of_the_demo(folder):
            assert time.monotonic() < deadline + PATIENCE, left
            time.sleep(0.1)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
        shutil.rmtree(base, ignore_errors=True)
