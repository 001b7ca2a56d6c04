"""Slots on either interpreter: what runs after every boot, and after a power cut at every write of all that is done."""

import json
import os
from binascii import hexlify
from hashlib import sha256

from vicinal_edge.agent.slots import TRIES, Choice, Disk, Rom, SlotError, Slots
from vicinal_hw.flash.emulated import EmulatedFlash
from vicinal_hw.flash.emulated import PowerCut as FlashCut


class PowerCut(Exception):
    pass


class CutDisk:
    """Files in a dict, and power that goes in the middle of the n-th change: what was being written is torn there."""

    def __init__(self, two_steps=False):
        self.held = {}
        self.left = None
        self.two_steps = two_steps
        self.writes = 0

    def _spend(self):
        self.writes += 1
        if self.left is not None:
            if self.left == 0:
                return True
            self.left -= 1
        return False

    def read(self, path):
        return self.held.get(path)

    def digest(self, path):
        data = self.held.get(path)
        return (-1, "") if data is None else (len(data), str(hexlify(sha256(data).digest()), "ascii"))

    def write(self, path, data):
        if self._spend():
            self.held[path] = data[: len(data) * 2 // 3]
            raise PowerCut
        self.held[path] = data

    def rename(self, old, new):
        if self._spend():
            if self.two_steps:  # FAT: the old one is gone before the new one has its name
                self.held.pop(new, None)
            raise PowerCut
        self.held[new] = self.held.pop(old)

    def remove(self, path):
        if self._spend():
            raise PowerCut
        self.held.pop(path, None)

    def exists(self, path):
        return path in self.held

    def files(self, path):
        return sorted([name[len(path) + 1 :] for name in self.held if name.startswith(path + "/")])


def release(version, disk=None, path=None):
    """A release of two files, which are written if there is a disk."""
    files = {}
    for name in ("lib/one.mpy", "lib/two.mpy"):
        data = (name + version).encode() * 40
        files[name] = [len(data), str(hexlify(sha256(data).digest()), "ascii")]
        if disk is not None:
            disk.write(path + "/" + name, data)
    return {"version": version, "files": files}


def install(disk, version, config=None):
    """As `vicinal flash` does, and as an update over the air does without a configuration."""
    slots = Slots("", disk)
    slot = slots.other
    slots.clear(slot, release(version)["files"])
    made = release(version, disk, slots.path(slot))
    if config is not None:
        disk.write(slots.path(slot, "agent.json"), config)
    slots.finish(slot, made)
    slots.switch(slot)


def runs(disk, cause=""):
    """A boot: the version of what it runs, with its files whole."""
    slots = Slots("", disk)
    slot = slots.begin(cause)
    assert slot is not None
    found = slots.release(slot)
    for name in found["files"]:
        assert disk.digest(slots.path(slot, name)) == tuple(found["files"][name]), (slot, name)
    return slots, found["version"]


class RomDevice:
    """What MicroPython gives for a ROMFS partition, on emulated flash; there it is a buffer by itself."""

    def __init__(self, disk, sectors, size):
        self.disk = disk
        self.flash = EmulatedFlash(sectors, size)

    def ioctl(self, what, value):
        if what == 6:
            self._torn(lambda: self.flash.erase(value))
        return {4: self.flash.sectors, 5: self.flash.size}.get(what, 0)

    def writeblocks(self, number, data, offset):
        self._torn(lambda: self.flash.program(number, offset, bytes(data)))

    def _torn(self, write):
        """The power is that of the disk: it goes for both at once."""
        if self.disk._spend():
            self.flash.cut(0, lambda below: self.disk.writes * 7 % below)
        try:
            write()
        except FlashCut:
            self.flash.power_on()
            raise PowerCut from None


class EmulatedRom(Rom):
    boot = 256

    def view(self, slot):
        whole = b"".join([bytes(sector) for sector in self.device.flash.memory])
        return memoryview(whole)[self.first(slot) * self.block :][: self.size]


def rom_of(disk):
    if not hasattr(disk, "rom"):
        disk.rom = EmulatedRom(RomDevice(disk, 18, 128))
    return disk.rom


def image_of(version):
    return (version * 640).encode() + b"\xff" * 128


def install_image(disk, version, config=b"{}"):
    """As `vicinal flash` does on a board with a ROMFS: blocks that are right stay."""
    rom = rom_of(disk)
    slots = Slots("", disk, rom)
    slot, image = slots.other, image_of(version)
    slots.clear(slot)
    for number in range(len(image) // rom.block):
        data = image[number * rom.block : (number + 1) * rom.block]
        if bytes(rom.view(slot)[number * rom.block : (number + 1) * rom.block]) != data:
            rom.device.ioctl(6, rom.first(slot) + number)
            for at in range(0, rom.block, 32):
                rom.device.writeblocks(rom.first(slot) + number, data[at : at + 32], at)
    disk.write(slots.path(slot, "agent.json"), config)
    found = [len(image), str(hexlify(sha256(image).digest()), "ascii")]
    slots.finish(slot, {"version": version, "files": {}, "rom": found})
    slots.switch(slot)


def runs_image(disk):
    """A boot: the version of what it runs, with the image whole."""
    slots = Slots("", disk, rom_of(disk))
    slot = slots.begin("")
    assert slot is not None
    version, image = slots.version(slot), slots.image(slot)
    assert image is not None
    assert bytes(slots.rom.view(slot)[: image[0]]) == image_of(version), version
    return slots, version


def raises(call, text):
    try:
        call()
        said = "nothing was raised"
    except SlotError as error:
        said = str(error)
    assert text in said, said


def test_a_release_is_tried_confirmed_and_replaced():
    disk = CutDisk()
    slots = Slots("", disk)
    assert slots.begin() is None
    assert (slots.other, slots.outcome, disk.held) == ("a", None, {})
    install(disk, "1", b"{}")
    slots, version = runs(disk)
    assert (version, slots.active, slots.trying, slots.good) == ("1", "a", "a", None)
    assert slots.outcome == {"version": "1", "result": "on trial", "why": ""}
    slots.confirm()
    before = disk.writes
    slots, version = runs(disk)
    assert (version, slots.trying, slots.good, slots.other) == ("1", None, "a", "b")
    assert slots.outcome["result"] == "confirmed"
    slots.confirm()
    slots.failed("a good one that fails is the guard's business")
    assert disk.writes == before  # a good release costs the flash nothing
    install(disk, "2")
    assert disk.held["b/agent.json"] == b"{}"  # the configuration goes on
    slots, version = runs(disk)
    assert (version, slots.active, slots.good) == ("2", "b", "a")
    slots.confirm()
    install(disk, "3", b"{3}")
    slots, version = runs(disk)
    assert (version, slots.active, slots.good) == ("3", "a", "b")
    assert (slots.version("a"), slots.version("b")) == ("3", "2")


def test_what_is_never_confirmed_goes_back():
    for ends, why in ((None, "without a word"), ("ImportError: x" + "y" * 400, "ImportError"), ("", "watchdog")):
        disk = CutDisk()
        install(disk, "1", b"{}")
        runs(disk)[0].confirm()
        install(disk, "2", b"{2}")
        for boot in range(TRIES):
            slots, version = runs(disk, "the watchdog" if ends == "" else "")
            assert version == "2", boot
            if ends:
                slots.failed(ends)
        slots, version = runs(disk, "the watchdog" if ends == "" else "")
        assert version == "1"
        assert (slots.trying, slots.good, slots.other) == (None, "a", "b")
        assert slots.outcome["result"] == "went back"
        assert slots.outcome["version"] == "2"
        assert why in slots.outcome["why"]
        assert len(slots.outcome["why"]) <= 160
        assert runs(disk)[1] == "1"
        # The next one has its own chance.
        install(disk, "3", b"{3}")
        slots, version = runs(disk)
        assert (version, slots.outcome) == ("3", {"version": "3", "result": "on trial", "why": ""})


def test_a_full_flash_ends_a_trial_and_not_the_device():
    disk = CutDisk()
    for version in ("1", "2"):
        install(disk, version)
        if version == "1":
            runs(disk)[0].confirm()

    def full(path, data):
        raise OSError(28)

    write, disk.write = disk.write, full
    slots, _ = runs(disk)
    assert (slots.version(slots.active), slots.outcome["result"]) == ("1", "went back")
    assert "flash is full" in slots.outcome["why"]
    # What could not be said is said when there is room.
    disk.write = write
    slots, _ = runs(disk)
    assert slots.trying is not None
    disk.write = full
    for _ in range(2):
        try:
            slots.confirm()
            said = True
        except OSError:
            said = False
        assert not said
    disk.write = write
    slots.confirm()
    assert runs(disk)[0].good == slots.active


def test_with_nothing_to_go_back_to_it_is_tried_for_ever():
    disk = CutDisk()
    install(disk, "1", b"{}")
    for _ in range(TRIES + 1):
        assert runs(disk)[1] == "1"
    before = disk.writes
    for _ in range(5):
        slots, version = runs(disk)
        assert version == "1"
    assert disk.writes == before
    # It is the best there is: another goes beside it, and comes back to it if it fails.
    slots = Slots("", disk)
    slots.clear("b")
    assert runs(disk)[1] == "1"
    install(disk, "2", b"{}")
    for boot in range(TRIES):
        slots, version = runs(disk)
        assert (version, slots.active) == ("2", "b"), boot
    slots, version = runs(disk)
    assert (version, slots.good, slots.outcome["result"]) == ("1", "a", "went back")


def test_the_good_one_is_never_touched():
    disk = CutDisk()
    install(disk, "1", b"{}")
    slots = runs(disk)[0]
    slots.confirm()
    raises(lambda: slots.clear("a"), "slot 'a' is the good one, and stays: write to 'b'")
    raises(lambda: slots.finish("a", release("1")), "the good one")
    raises(lambda: slots.switch("a"), "runs already")
    raises(lambda: slots.switch("b"), "no whole release")
    raises(lambda: slots.finish("b", release("2")), "b/lib/one.mpy is not there")
    disk.write("b/lib/one.mpy", b"half")
    raises(lambda: slots.finish("b", release("2")), "b/lib/one.mpy has 4 bytes")
    assert runs(disk)[1] == "1"
    # While one is on trial, the next takes its place and not that of the good one.
    install(disk, "2")
    assert runs(disk)[0].active == "b"
    install(disk, "3")
    slots, version = runs(disk)
    assert (version, slots.active, slots.good) == ("3", "b", "a")


def test_files_that_stay_and_go():
    disk = CutDisk()
    install(disk, "1", b"{}")
    runs(disk)[0].confirm()
    install(disk, "2", b"{2}")
    disk.write("b/lib/gone/three.mpy", b"x")
    slots = Slots("", disk)
    slots.clear("b", ["lib/one.mpy"])
    assert disk.files("b") == ["lib/one.mpy"]
    assert slots.outcome == {"version": "2", "result": "went back", "why": "another release took its place"}
    assert runs(disk)[1] == "1"


def test_records_that_are_lost_or_broken():
    for bad in (None, b"", b"{", b"[]", b"{}", b'{"good": "b"}', b'{"good": "c", "tries": "x", "sum": 0}', b"\xff\xfe"):
        disk = CutDisk()
        install(disk, "1", b"{}")
        runs(disk)[0].confirm()
        if bad is None:
            disk.remove("slots.json")
        else:
            disk.held["slots.json"] = bad
        slots, version = runs(disk)
        assert (version, slots.good) == ("1", "a"), bad
    # A record that reads well and was changed: with both slots whole the first is taken.
    disk = CutDisk()
    install(disk, "1", b"{}")
    runs(disk)[0].confirm()
    install(disk, "2", b"{}")
    disk.held["slots.json"] = disk.held["slots.json"].replace(b'"good": "a"', b'"good": "b"')
    assert Slots("", disk).good is None
    assert runs(disk)[1] == "1"
    # The good release is lost, and the other is whole.
    disk = CutDisk()
    install(disk, "1", b"{}")
    runs(disk)[0].confirm()
    install(disk, "2", b"{}")
    disk.remove("a/release.json")
    assert runs(disk)[1] == "2"
    runs(disk)[0].confirm()
    disk.remove("b/release.json")
    assert Slots("", disk).begin() is None
    record = Choice({"good": 3, "trying": "z", "tries": True, "why": 1}).record()
    assert (record["good"], record["trying"], record["tries"], record["why"]) == (None, None, 0, "")
    half = json.dumps(record)[:-9]
    disk.held["slots.json"] = half.encode()
    assert Slots("", disk).good is None


def test_power_cut_at_every_write():
    """Installed, tried, gone back, installed, confirmed: cut once at each write, and done again from where it is."""
    for two_steps in (False, True):
        cut = 0
        while True:
            disk = CutDisk(two_steps)
            install(disk, "1", b"{}")
            runs(disk)[0].confirm()
            disk.left = cut
            whole = True
            for step in ("install 2", "try", "try", "back", "install 3", "try", "confirm", "boot"):
                while True:
                    try:
                        life(disk, step)
                        break
                    except PowerCut:
                        whole = False
                        disk.left = None
                        known(disk, step)
            slots, version = runs(disk)
            assert (version, slots.trying) == ("3", None), cut
            if whole:
                break
            cut += 1
        assert cut > 25


def life(disk, step):
    if step.startswith("install "):
        version = step.split(" ")[1]
        slots = Slots("", disk)
        if slots.trying is not None and slots.version(slots.trying) == version:
            return  # it was cut behind the switch
        install(disk, version, b"{%s}" % version.encode())
    elif step == "confirm":
        slots = Slots("", disk)
        slots.begin()
        if slots.trying is None and slots.version(slots.good) != "3":
            install(disk, "3", b"{3}")  # a cut was a boot too, and it went back
            slots = Slots("", disk)
            slots.begin()
        slots.confirm()
    else:
        slots, version = runs(disk)
        if step == "try":
            slots.failed("it broke")


def known(disk, step):
    """After a cut: a whole release runs, and the good one is what it was, or what it was to be."""
    held = dict(disk.held)
    slots, version = runs(disk)
    assert version in ("1", "2", "3")
    assert slots.version(slots.good) in (("1", "3") if step == "confirm" else ("1",)), step
    disk.held = held


def test_images_are_tried_confirmed_and_replaced():
    disk = CutDisk()
    install_image(disk, "1")
    slots, version = runs_image(disk)
    assert (version, slots.active, slots.is_whole("a"), slots.is_whole("b")) == ("1", "a", True, False)
    slots.confirm()
    install_image(disk, "2", b"{2}")
    slots, version = runs_image(disk)
    assert (version, slots.active, slots.good) == ("2", "b", "a")
    for _ in range(TRIES):
        slots, version = runs_image(disk)
    assert (version, slots.active, slots.outcome["result"]) == ("1", "a", "went back")
    assert disk.held["a/release.json"] == json.dumps({"version": "1", "files": {}, "rom": slots.image("a")}).encode()
    # Files are as good, beside an image and after it.
    install(disk, "3")
    assert disk.files("b") == ["agent.json", "lib/one.mpy", "lib/two.mpy", "release.json"]
    assert runs(disk)[1] == "3"


def test_an_image_counts_only_with_its_hash():
    disk = CutDisk()
    install_image(disk, "1")
    runs_image(disk)[0].confirm()
    install_image(disk, "2")
    rom = rom_of(disk)
    # Somebody writes there, as `mpremote romfs deploy` does: the other one runs.
    rom.device.flash.memory[11][5] ^= 1
    slots, version = runs_image(disk)
    assert (version, slots.outcome["why"]) == ("1", "its files are not all there")
    rom.device.flash.memory[11][5] ^= 1
    rom.device.flash.memory[2][0] ^= 1
    assert runs_image(disk)[1] == "2"
    raises(lambda: Slots("", disk, rom).switch("a"), "no whole release")
    # A firmware without a ROMFS took the place of the one with it: nothing can run, and nothing is changed.
    assert Slots("", disk).begin() is None
    for bad in (b"", b"[", b"7", b"{}", b"[1]", b'["x", "y"]', b"[1, 2, 3]", b"[100, null]"):
        disk.held["b/rom.json"] = bad
        assert Slots("", disk, rom).is_whole("b") is False, bad
    slots = Slots("", disk, rom)
    wrong = {"version": "3", "files": {}, "rom": [128, "00"]}
    raises(lambda: slots.finish("a", wrong), "what slot 'a' has in the ROMFS has another hash than the release says")


def test_power_cut_at_every_write_of_an_image():
    """Of the ROMFS and of the file system: erased, programmed, compared, sealed, switched, confirmed."""
    cut = 0
    while True:
        disk = CutDisk()
        install_image(disk, "1")
        runs_image(disk)[0].confirm()
        install_image(disk, "0")  # so that there is something to erase
        for _ in range(TRIES + 1):
            runs_image(disk)
        disk.left = cut
        whole = True
        for step in ("install 2", "try", "confirm"):
            while True:
                try:
                    image_life(disk, step)
                    break
                except PowerCut:
                    whole = False
                    disk.left = None
                    held = dict(disk.held)
                    slots, version = runs_image(disk)
                    assert version in ("1", "2")
                    assert slots.version(slots.good) in (("1", "2") if step == "confirm" else ("1",)), (cut, step)
                    disk.held = held
        slots, version = runs_image(disk)
        assert (version, slots.trying) == ("2", None), cut
        if whole:
            break
        cut += 1
    assert cut > 40, cut


def image_life(disk, step):
    slots = Slots("", disk, rom_of(disk))
    if step == "install 2":
        if slots.trying is None:
            install_image(disk, "2", b"{2}")
    elif step == "try":
        runs_image(disk)
    else:
        slots, version = runs_image(disk)
        if slots.trying is None and version == "1":
            install_image(disk, "2", b"{2}")
            slots = runs_image(disk)[0]
        slots.confirm()


def test_on_real_files():
    """The disk itself, in a folder of the run."""
    folder = "slots_suite_" + str(int.from_bytes(os.urandom(4), "big"))
    for path in (folder, folder + "/a", folder + "/a/lib"):
        os.mkdir(path)  # noqa: PTH102 - MicroPython has no pathlib
    disk = Disk()
    try:
        slots = Slots(folder, disk)
        slots.clear("a")
        made = release("1", disk, slots.path("a"))
        disk.write(slots.path("a", "agent.json"), b"{}")
        disk.write(slots.path("a", "lib/old.mpy"), b"x")
        assert disk.files(slots.path("a")) == ["agent.json", "lib/old.mpy", "lib/one.mpy", "lib/two.mpy"]
        slots.clear("a", made["files"])
        assert disk.files(slots.path("a")) == ["lib/one.mpy", "lib/two.mpy"]
        slots.finish("a", made)
        slots.switch("a")
        slots = Slots(folder)
        assert slots.begin() == "a"
        slots.confirm()
        slots = Slots(folder)
        assert (slots.begin(), slots.good, slots.release("a")) == ("a", "a", made)
        assert slots.path("a", "lib") == folder + "/a/lib"
        assert disk.read(folder + "/none") is None
        assert disk.digest(folder + "/none") == (-1, "")
        disk.remove(folder + "/none")
    finally:
        for name in disk.files(folder):
            disk.remove(folder + "/" + name)
        for path in (folder + "/a/lib", folder + "/a", folder):
            os.rmdir(path)  # noqa: PTH106
