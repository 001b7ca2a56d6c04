"""`vicinal flash` onto a virtual device whose firmware has a ROMFS: complete, interrupted, cut off, too small."""

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tools.flash.test_flash import ESP32, KIB, SOAK, changed, config_of, flash, install, interrupted, stand_in

from vicinal_edge.agent.slots import ROM_BOOT, ROM_LEAST
from vicinal_hw.device import VirtualDevice
from vicinal_hw.flash.romfs import HEADER
from vicinal_tools.bench import flashed
from vicinal_tools.flash import errors, link, release, room
from vicinal_tools.flash.configuration import prepare
from vicinal_tools.flash.release import Release
from vicinal_tools.main import cli

pytest.importorskip("mpremote")
pytestmark = pytest.mark.micropython
ROM = ROM_BOOT + 2 * ROM_LEAST


def make(folder: Path, rom: int = ROM) -> VirtualDevice:
    return VirtualDevice(folder / "device", flash=512 * KIB, rom=rom)


def confirm(device: VirtualDevice) -> None:
    """As if its agent had worked for a minute."""
    with link.Link(device.port) as now:
        now.hold()
        now.slots()
        now.run("_s.confirm()")
        at = device.mark
        now.restart()
    device.hello(at)


@pytest.fixture
def device(tmp_path: Path, built: Release) -> Iterator[VirtualDevice]:
    """With a stand-in of version 1 in slot a in the ROMFS, that runs and is good."""
    with make(tmp_path) as found:
        found.wait_for(">>> ")
        assert flash(found, stand_in(built, "1"), config_of(tmp_path)).hello["version"] == "1"
        confirm(found)
        yield found


@pytest.mark.spec("AGENT-29")
def test_can_and_ble_in_128_kib() -> None:
    """The figure, on what was flashed; `make bench` has more events."""
    found = flashed.flashed(600)
    assert found.rom
    assert (found.slot, found.notes) == ("a", [])
    assert found.heard >= 600
    assert min(found.delivered[name] for name in ("Speed", "Rpm", "Temp", "Door", "Siren")) > 0
    assert found.low >= flashed.GOAL_FREE, found


@pytest.mark.spec("AGENT-29")
def test_a_blank_board_gets_images(tmp_path: Path, built: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "build", lambda: built)
    config_of(tmp_path)
    arguments = ["flash", "--board", "esp32", "--config", str(tmp_path / "agent.toml")]
    planned = CliRunner().invoke(cli, [*arguments, "--dry-run"]).output
    blocks = -(-len(built.image) // 4096)
    assert f"a ROMFS of 336 KiB or more, /SLOT/lib goes there as an image of {len(built.image):,} bytes" in planned
    planned = json.loads(CliRunner().invoke(cli, [*arguments, "--dry-run", "--json"]).output)
    assert planned["rom"] == {"wanted": ROM, "images": {"boot": len(built.boot_image), "slot": len(built.image)}}
    with make(tmp_path) as device:
        done = CliRunner().invoke(cli, [*arguments, "--port", device.port])
        assert done.exit_code == 0, done.output
        assert f"{blocks} blocks sent, 0 copied on the device, 0 were there: slot a in the ROMFS of" in done.output
        confirm(device)
        done = CliRunner().invoke(cli, [*arguments, "--port", device.port, "--json"])
        found = json.loads(done.stdout)
        assert (found["slot"], found["sent"], found["copied"], found["rom"]) == ("b", 0, blocks, True)
        # What runs, runs from flash: the boot part, too.
        with link.Link(device.port) as now:
            said = now.run("import sys, os; sys.path.insert(0, '/rom'); import slots; print(slots.__file__)")
            assert said.strip() == "/rom/slots.mpy"
    files = device.files()
    assert [name for name in files if name.startswith("b/")] == ["b/agent.json", "b/release.json", "b/rom.json"]
    assert [name for name in files if name.endswith((".new", ".part"))] == []
    rom = (tmp_path / "device" / "rom.bin").read_bytes()
    assert rom.startswith(built.boot_image)
    for start in (ROM_BOOT, ROM_BOOT + ROM_LEAST):
        assert rom[start:].startswith(built.image)


def test_the_boot_part_fits(built: Release) -> None:
    assert len(built.boot_image) < ROM_BOOT // 2
    assert len(built.image) < ROM_LEAST


def test_from_files_to_images_and_back(tmp_path: Path, built: Release) -> None:
    """A board that gets a firmware with a ROMFS, and one that loses it."""
    device = VirtualDevice(tmp_path / "device", flash=512 * KIB)
    install(device, stand_in(built, "1"), config_of(tmp_path))
    device.rom = ROM
    with device:
        assert device.hello()["slot"] == "a"
        done = flash(device, stand_in(built, "2"), config_of(tmp_path))
        assert (done.slot, done.rom, done.hello["version"]) == ("b", True, "2")
        confirm(device)
        done = flash(device, stand_in(built, "3"), config_of(tmp_path))
        assert (done.slot, done.rom, done.hello["version"]) == ("a", True, "3")
    assert not [name for name in device.files() if "/lib/" in name]
    (tmp_path / "device" / "rom.bin").unlink()
    device.rom = 0
    at = device.mark
    with device:
        device.wait_for("slots: no release on this device", at)
        done = flash(device, stand_in(built, "4"), config_of(tmp_path))
        assert (done.rom, done.hello["version"]) == (False, "4")


@pytest.mark.parametrize("text", ["", "[[can]]\n[[can.event]]\netag = 300\n[[ble]]\nsubject = 'Siren'\n"])
def test_memory_that_an_agent_takes(tmp_path: Path, built: Release, text: str) -> None:
    """room.py's figures hold, of what was flashed into a ROMFS."""
    config_of(tmp_path)
    path, name = tmp_path / "agent.toml", f"rom-{os.getpid()}"
    path.write_text(path.read_text() + text)
    configuration = prepare(path, ESP32)
    device = VirtualDevice(tmp_path / "device", flash=512 * KIB, rom=ROM, can=name, ble=name)
    with device:
        device.wait_for(">>> ")
        assert flash(device, built, configuration).notes == []
    device.put({"boot.py": flashed.BOOT})
    at = device.mark
    with device:
        for _ in range(2):
            at = device.wait_for(" bytes", at)
        used = 128 * KIB - int(device.console.rpartition("free ")[2].split()[0])
    wanted = room.needed(configuration, True) - 8 * KIB
    assert wanted - 12 * KIB < used <= wanted, f"{used} bytes are used, room.py says {wanted}"


def test_a_romfs_that_is_too_small_is_not_used(tmp_path: Path, built: Release) -> None:
    text = (tmp_path / "agent.toml", "[[can]]\n[[can.event]]\netag = 300\n[[ble]]\nsubject = 'Siren'\n")
    text[0].write_text('[agent]\nname = "car-7"\ngateway = "coap://127.0.0.1:9"\n' + text[1])
    with make(tmp_path, 128 * KIB) as device:
        device.wait_for(">>> ")
        done = flash(device, stand_in(built, "1"), prepare(text[0], ESP32))
        assert (done.rom, done.hello["version"]) == (False, "1")
        assert "or a MicroPython with a ROMFS of 336 KiB (edge/README.md): this one has 128" in done.notes[0]
    configuration = prepare(text[0], ESP32)
    assert room.warning(configuration, 124 * KIB, ROM) is None
    assert "ROMFS" not in str(room.warning(configuration, 80 * KIB, ROM))
    assert "a ROMFS of 336 KiB (edge/README.md)" in str(room.warning(configuration, 124 * KIB))


def test_an_image_that_is_too_large(device: VirtualDevice, tmp_path: Path, built: Release) -> None:
    large = Release("2", stand_in(built, "2").files | {"lib/large.bin": bytes(ROM_LEAST)}, built.boot)
    with pytest.raises(errors.FlashError, match="and a slot in the ROMFS of the device 163,840: it takes a firmware"):
        flash(device, large, config_of(tmp_path))
    at = device.mark
    device.reset()
    assert device.hello(at)["version"] == "1"


def test_an_agent_that_does_not_start_gives_way(device: VirtualDevice, tmp_path: Path, built: Release) -> None:
    bad = stand_in(built, "2").files | {"lib/vicinal_edge/agent/main.py": b"raise ValueError('no good')\n"}
    with pytest.raises(errors.NoHello, match="went back to the old one: ValueError: no good"):
        flash(device, Release("2", bad, built.boot), config_of(tmp_path))
    device.stop()
    record = json.loads(device.files()["slots.json"])
    assert (record["good"], record["result"], record["why"]) == ("a", "went back", "ValueError: no good")


def test_somebody_writes_over_the_image(device: VirtualDevice, tmp_path: Path, built: Release) -> None:
    """As `mpremote romfs deploy` would: the other slot runs, with the boot part of the file system."""
    flash(device, stand_in(built, "2"), config_of(tmp_path))
    confirm(device)
    device.stop()
    path = tmp_path / "device" / "rom.bin"
    rom = bytearray(path.read_bytes())
    rom[: ROM_BOOT + 1] = bytes(ROM_BOOT + 1)
    path.write_bytes(rom)
    at = device.mark
    with device:
        assert device.hello(at)["version"] == "2"
    rom[ROM_BOOT + ROM_LEAST + 9] ^= 1
    path.write_bytes(rom)
    at = device.mark
    with device:
        device.wait_for("slots: no release on this device", at)
        done = flash(device, stand_in(built, "3"), config_of(tmp_path))
        assert (done.rom, done.hello["version"]) == (True, "3")


@pytest.mark.parametrize("whole", [pytest.param(True, marks=pytest.mark.skipif(not SOAK, reason="make soak")), False])
def test_interrupted_at_random_points_and_resumed(
    whole: bool, tmp_path: Path, built: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(11)
    new_of = changed if whole else stand_in
    configuration = config_of(tmp_path)
    resumed = pulls = 0
    with make(tmp_path, ROM + 64 * KIB) as device:
        device.wait_for(">>> ")
        flash(device, new_of(built, "0"), configuration)
        confirm(device)
        done = flash(device, new_of(built, "1"), configuration)
        confirm(device)
        size, versions = done.bytes * 4 // 3 + 8000, {done.hello["version"]}
        for number in range(2, 52 if SOAK else 6):
            new = new_of(built, str(number))
            pulled = interrupted(device, new, configuration, chance.randrange(size), monkeypatch)
            pulls += pulled
            at = device.mark
            device.plug()
            device.reset()
            found = device.hello(at)
            if pulled:
                assert found["version"] in versions
            done = flash(device, new, configuration)
            resumed += done.kept > 0
            versions = {done.hello["version"]}
            assert done.hello["version"] == (built.version if whole else new.version)
            confirm(device)
    assert pulls
    assert resumed, "no copy was ever gone on with"


@pytest.mark.spec("AGENT-29")
@pytest.mark.parametrize("first", [0, 2] if not SOAK else range(0, 10, 3))
def test_power_goes_while_it_is_written(
    tmp_path: Path, built: Release, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the n-th write to the ROMFS or the file system: the boot part's, the image's, those of the switch."""
    monkeypatch.setattr(link, "PATIENCE", 3.0)  # it says nothing of the call that it was cut in
    configuration = config_of(tmp_path)
    old = Release("1", stand_in(built, "1").files, dict(built.boot) | {"slots.mpy": built.boot["slots.mpy"] + b"\0"})
    with make(tmp_path) as device:
        device.wait_for(">>> ")
        assert flash(device, old, configuration).hello["version"] == "1"
        confirm(device)
        writes = first
        while True:
            cuts = device.cuts
            device.cut_power_after(writes)  # from the soft reset on, with which flashing begins
            try:
                done = flash(device, stand_in(built, "2"), configuration)
            except errors.Unplugged:
                assert device.cuts == cuts + 1
                at = device.mark
                device.reset()
                assert device.hello(at)["version"] in ("1", "2")  # it may have gone behind the switch
                writes += 10 if SOAK else 23
                continue
            break
        if device.cuts == cuts:
            assert done.hello["version"] == "2"
        assert device.cuts >= 2, writes
        assert flash(device, stand_in(built, "2"), configuration).hello["version"] == "2"


def test_the_boot_part_is_none_before_it_is_whole(
    tmp_path: Path, built: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was is no image before anything of it is erased; what it is to be is none before all of it is there."""
    old = Release("1", {}, dict(built.boot) | {"slots.mpy": built.boot["slots.mpy"] + b"\0" * 5000})
    path = tmp_path / "device" / "rom.bin"
    seen: list[bytes] = []
    with make(tmp_path) as device:
        device.wait_for(">>> ")
        flash(device, Release("1", stand_in(built, "1").files, old.boot), config_of(tmp_path))
        assert path.read_bytes().startswith(old.boot_image)
        real = link.Link.run

        def run(self: link.Link, text: str) -> str:
            said = real(self, text)
            if "rom.device" in text:
                seen.append(path.read_bytes()[:ROM_BOOT])
            return said

        monkeypatch.setattr(link.Link, "run", run)
        flash(device, stand_in(built, "2"), config_of(tmp_path))
    images = [one for one in seen if one.startswith(HEADER)]
    assert len(images) < len(seen)
    for one in images:
        assert one.startswith((old.boot_image, built.boot_image))
    assert [one for one in seen if one.startswith(bytes(len(HEADER)) + old.boot_image[len(HEADER) :])]
    assert seen[-1].startswith(built.boot_image)
