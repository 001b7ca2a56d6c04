"""An update over the air that becomes an image, on either interpreter: in a ROMFS on emulated flash, beside real files,
with a power cut at every write to the flash."""

import os
from hashlib import sha256

from vicinal.errors import RemoteProtocolError
from vicinal.release import File
from vicinal_edge.agent.slots import Rom, Slots
from vicinal_edge.agent.update_rom import RomFiles
from vicinal_hw.flash.emulated import EmulatedFlash, PowerCut
from vicinal_hw.flash.romfs import Layout

BLOCK = 256
HALF = 20 * BLOCK
FILES = {
    "lib/a/__init__.mpy": b"M\x06",
    "lib/a/deep/one.mpy": b"M\x06" + b"one" * 200,
    "lib/a/deep/two.mpy": b"",
    "lib/a/same.mpy": b"M\x06" + b"\xff" * 300,
    "lib/a_b/long.mpy": bytes(range(256)) * 6,
    "lib/z.mpy": b"M\x06" + b"z" * 77,
}


class Device:
    """What MicroPython gives for a ROMFS partition."""

    def __init__(self):
        self.whole = bytearray(b"\xff" * (2 * HALF))
        self.flash = EmulatedFlash(2 * HALF // BLOCK, BLOCK)
        self.flash.memory = [memoryview(self.whole)[at : at + BLOCK] for at in range(0, 2 * HALF, BLOCK)]

    def ioctl(self, what, value):
        if what == 6:
            self.flash.erase(value)
        return {4: self.flash.sectors, 5: self.flash.size}.get(what, 0)

    def writeblocks(self, number, data, offset):
        self.flash.program(number, offset, bytes(data))


class EmulatedRom(Rom):
    boot = 0

    def view(self, slot):
        return memoryview(self.device.whole)[self.first(slot) * BLOCK :][:HALF]


class Field:
    """A device with a release of files in slot a, which runs, and a ROMFS in which there is something already."""

    def __init__(self, running=()):
        self.folder = "rom_suite_" + str(int.from_bytes(os.urandom(4), "big"))
        self.rom = EmulatedRom(Device())
        for at in range(0, 2 * HALF, 3):
            self.rom.device.whole[at] = 0x5A
        for path in ("", "/a", "/a/lib", "/a/lib/a", "/b"):
            os.mkdir(self.folder + path)  # noqa: PTH102 - MicroPython has no pathlib
        slots = Slots(self.folder, None, self.rom)
        for name in running:
            slots.disk.write(slots.path("a", name), FILES[name])
        for name in ("agent.json", "release.json"):
            slots.disk.write(slots.path("a", name), b"{}")
        self.fetched = []
        self.copied = []

    def boot(self):
        """What was on trial goes back."""
        while True:
            slots = Slots(self.folder, None, self.rom)
            if slots.begin() == "a":
                slots.load()
                return slots

    def update(self, files):
        """As update.py does it, with everything at hand."""
        slots = self.boot()
        found = RomFiles(slots)
        names = sorted(files)
        release = [File(name, len(files[name]), sha256(files[name]).digest()) for name in names]
        found.begin_manifest()
        found.write(b"{}\n")
        found.close()
        free = found.free()
        assert sum([found.room_of(file) for file in release]) <= free
        found.clear()
        for file in release:
            found.expect(file)
            known = (file.size, file.digest)
            if found.digest(file.name) == known:
                continue
            if found.digest(file.name, True) == known:
                self.copied.append(file.name)
                found.copy(file.name)
            else:
                self.fetched.append(file.name)
                found.begin(file.name)
                for at in range(0, file.size, 100):
                    found.write(files[file.name][at : at + 100])
                found.close()
            assert found.digest(file.name) == known, file.name
        found.seal("2", iter(release))
        found.switch()

    def remove(self):
        disk = Slots(self.folder, None, self.rom).disk
        for name in disk.files(self.folder):
            disk.remove(self.folder + "/" + name)
        for path in ("/b", "/a/lib/a", "/a/lib", "/a", ""):
            os.rmdir(self.folder + path)  # noqa: PTH106


def image_of(files):
    layout, found = Layout(), b""
    for name in sorted(files):
        layout.add(name, len(files[name]))
    for name in sorted(files):
        at, head = layout.place(name, len(files[name]))
        assert at == len(found)
        found += head + files[name]
    assert len(found) == layout.total
    return found


def check(field, files):
    image = image_of(files)
    assert bytes(field.rom.view("b")[: len(image)]) == image
    slots = Slots(field.folder, None, field.rom)
    assert slots.image("b")[0] == len(image)
    assert (slots.is_whole("b"), slots.trying, slots.version("b")) == (True, "b", "2")
    assert slots.disk.read(slots.path("b", "agent.json")) == b"{}"
    assert slots.disk.files(slots.path("b")) == ["agent.json", "manifest", "release.json", "rom.json"]


def in_a_field(running, body):
    field = Field(running)
    try:
        return body(field)
    finally:
        field.remove()


def test_files_become_an_image():
    in_a_field(["lib/a/same.mpy"], becomes_an_image)


def becomes_an_image(field):
    before = bytes(field.rom.view("a"))
    field.update(FILES)
    check(field, FILES)
    assert field.copied == ["lib/a/same.mpy"]
    assert field.fetched == [name for name in sorted(FILES) if name != "lib/a/same.mpy"]
    assert bytes(field.rom.view("a")) == before  # the other half
    # Once more: all of it is there, and costs the flash nothing.
    erases = sum(field.rom.device.flash.erases)
    field.update(FILES)
    check(field, FILES)
    assert (len(field.fetched), len(field.copied)) == (len(FILES) - 1, 1)
    assert sum(field.rom.device.flash.erases) == erases
    # Another, of which the last is new: what comes before stays, also in the block that they share.
    other = dict(FILES)
    other["lib/z.mpy"] = b"M\x06" + b"y" * 77
    field.fetched = []
    field.update(other)
    check(field, other)
    assert field.fetched == ["lib/z.mpy"]


def test_an_image_that_is_cut_off_goes_on():
    """At every write to the flash, torn in the middle; the release that runs is whole, and so is the new one then."""
    cut = kept = 0
    while True:
        left = in_a_field(["lib/a/same.mpy"], lambda field, at=cut: goes_on(field, at))
        if left is None:
            break
        kept += left
        cut += 1
    assert cut > 40, cut
    assert kept > cut, "what was there was fetched again"


def goes_on(field, cut):
    """How many files were not fetched again; None: there was no cut."""
    flash, left = field.rom.device.flash, None
    flash.cut(cut, lambda below: (cut * 7 + 3) % below)
    try:
        field.update(FILES)
    except PowerCut:
        flash.power_on()
        assert field.boot().active == "a"
        field.fetched = []
        field.update(FILES)
        left = len(FILES) - 1 - len(field.fetched)
    check(field, FILES)
    return left


def test_names_and_sizes_that_no_image_has():
    in_a_field([], no_image_has)


def no_image_has(field):
    found = RomFiles(field.boot())
    room = found.free()
    for name, size in (("lib/" + "x" * 128, 1), ("lib/x//y", 1)):
        try:
            found.room_of(File(name, size, b""))
            said = ""
        except RemoteProtocolError as error:
            said = str(error)
        assert "a name of" in said, name
    assert found.free() == room == HALF - 6
    assert found.room_of(File("lib/x", HALF, b"")) > room
