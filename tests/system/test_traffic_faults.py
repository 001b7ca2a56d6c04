"""The demo when things go wrong: a broker and a monitor are killed, and somebody presses Ctrl-C."""

import shutil
import tempfile
import time
from pathlib import Path

import pytest
from cloud.broker.brokers import PATIENCE
from system.demo import Demo

from vicinal_tools.demo.city import City
from vicinal_tools.demo.files import write
from vicinal_tools.demo.show import Show
from vicinal_tools.traffic.tracks import shipped

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("traffic")]


def test_a_broker_and_a_monitor_killed_lose_nothing_that_was_accepted() -> None:
    folder = Path(tempfile.mkdtemp(prefix="vicinal-"))
    city = City(write(folder, shipped(), vehicles=6, speeders=0.5, seed=189, port=0, database=None, flow_s=86_400))
    show = Show(city)
    try:
        show.start()
        show.run(3)
        city.parts["b-west"].kill()
        time.sleep(1)
        city.parts["b-west"].start()
        city.parts["b-west"].wait_until_ready(time.monotonic() + PATIENCE)
        show.run(2)
        since = time.time_ns() // 1_000_000
        city.parts["m1"].kill()
        city.parts["m1"].start()
        city.parts["m1"].wait_until_ready(time.monotonic() + PATIENCE)
        city.wait(lambda: city.is_set("m1"), "m1 to listen again", time.monotonic() + PATIENCE)
        show.away.append(("m1", since, time.time_ns() // 1_000_000))
        show.run(4)
        # The monitor counts anew since it was started: the judge alone knows of all that it has sent.
        found = show.finish()
        assert found.accounts.hops["roadside"]["stored"] == 0
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


def test_a_monitor_that_has_lost_its_memory_card_is_asked_again() -> None:
    """Its identity is there again, as one puts it on a new card; what it was asked is not."""
    folder = Path(tempfile.mkdtemp(prefix="vicinal-"))
    city = City(write(folder, shipped(), vehicles=1, speeders=0.0, seed=189, port=0, database=None, flow_s=86_400))

    def asked() -> list[str]:
        return [one["filter"] for one in city.status("m1")["notes"] if one["service"] == "air-m1"]

    try:
        city.start()
        speed = next(one for one in asked() if "rate >= 34" in one)
        city.parts["m1"].kill()
        lost = list((folder / "m1").rglob("requests.jsonl"))
        assert lost
        for file in lost:
            file.unlink()
        city.parts["m1"].start()
        city.parts["m1"].wait_until_ready(time.monotonic() + PATIENCE)
        city.wait(lambda: speed in asked(), "m1 to be asked again", time.monotonic() + PATIENCE)
        city.wait(
            lambda: all(one["done"] and not one["problem"] for one in city.state()["monitors"]),
            "the page to say so", time.monotonic() + PATIENCE,
        )  # fmt: skip
    finally:
        city.stop()
        shutil.rmtree(folder, ignore_errors=True)


def nothing_is_left(demo: Demo) -> None:
    end = time.monotonic() + PATIENCE
    while left := demo.left():
        assert time.monotonic() < end, left
        time.sleep(0.1)


def test_ctrl_c_once_and_it_comes_to_rest_and_says_its_sums(demo: Demo) -> None:
    """Where the page was looked at before, if there is a browser (test_page.py)."""
    demo.wait_for_cars()
    assert demo.left()
    out = demo.ctrl_c()
    assert demo.process.returncode == 0, out + demo.said  # so it has lost nothing, and holds
    assert "Offences:" in out
    assert "Traceback" not in demo.said
    nothing_is_left(demo)


def test_ctrl_c_twice_and_it_ends_at_once() -> None:
    demo = Demo("--json", "--vehicles", "1")
    try:
        demo.wait_for_cars()
        assert demo.left()
        assert demo.ctrl_c(2) == ""
        assert demo.process.returncode == 130
        nothing_is_left(demo)
    finally:
        demo.remove()
