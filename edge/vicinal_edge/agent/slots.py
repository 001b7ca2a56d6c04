"""Two slots for releases on a device, and which of them runs: a new one is on trial until it has shown that it works.

    /main.py, /slots.mpy      the boot part: this module, beside the slots and never in one; written by cable only
    /slots.json               which slot is good, which is on trial, how often it was started, why it ended
    /a, /b                    a release each: lib/ (the staged tree), agent.json (its configuration), release.json last
    ROMFS                     where the firmware has one, code is there and runs where it lies: an image with this
                              module, which MicroPython mounts at /rom, then one with lib/ of a, then one of b;
                              /a/rom.json says [bytes, sha256 in hex] of what is there. /slots.mpy is for when the
                              first is not whole

    slots = Slots()
    slot = slots.begin()             at boot: the slot to run; counts the boots of one that is on trial
    slots.confirm()                  it works: it is the good one from now on
    slots.failed("why")              before a restart that we ask for; what ends without a word counts as well
    slots.outcome                    {"version", "result": "on trial", "confirmed" or "went back", "why"}, or None

    other = slots.other              where the next release goes: never the good one
    slots.clear(other, names)        from now on it is no release; files with these names stay, to be used again
    ... write files below slots.path(other) ...
    slots.finish(other, release)     {"version": "1.2.0", "files": {"lib/x.mpy": [bytes, sha256 in hex]}}: all checked
    slots.switch(other)              on trial with the next boot
    slots.rom                        None, or the ROMFS: the image is written there, and the release has "rom": [bytes,
                                     sha256] with no files; or slots.image_is(other, bytes) and slots.seal(...)

    good a ── switch(b) ──▶ good a, trying b ── confirm ──▶ good b
                                  │ TRIES boots without
                                  └──▶ good a, and why

Power may go at any write: slots.json and release.json are written aside and renamed, a release.json is there only while
all files of its slot are, and an image counts only while its hash is right. Nothing of ours is imported here: the
module is loaded before there is a slot to load from.
Releases are years younger than the boot part of a device: what it offers here may grow, and does not change.
"""

import json
import os as _os
import sys as _sys
from binascii import crc32, hexlify
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# MicroPython's have other things in them.
os: "Any" = _os
sys: "Any" = _sys

__all__ = ["ROM_BOOT", "ROM_LEAST", "TRIES", "Choice", "Disk", "Rom", "SlotError", "Slots", "boot"]

# Boots that a release on trial has to show that it works; one may be a power cut.
TRIES = 2
NAMES = ("a", "b")
# ms: a release on trial that hangs while it is loaded is ended; the agent then has its own (config.py).
TRIAL_WATCHDOG = 60000
# Bytes of a ROMFS: for the image with this module; for a slot at least, as an agent's tree has 150 KiB at most, and
# names. A smaller one is not used.
ROM_BOOT = 16384
ROM_LEAST = 163840
# Of a reason that is kept: a line.
_MAX_WHY = 160
_FIELDS = ("good", "trying", "tries", "why", "result", "version", "a", "b")
_SILENT = "it ended without a word: a hang, or the power went"


class SlotError(Exception):
    """What was asked for would leave the device without a release that works."""


class Choice:
    """What is kept in slots.json, and every decision about it. `a` and `b` are the versions in the slots."""

    def __init__(self, record: "Any" = None) -> None:
        if not isinstance(record, dict):
            record = {}
        self.good: str | None = _slot(record.get("good"))
        self.trying: str | None = _slot(record.get("trying"))
        tries = record.get("tries")
        self.tries: int = tries if type(tries) is int and tries > 0 else 0
        self.why: str = _text(record.get("why"))
        self.result: str = _text(record.get("result"))
        self.version: str = _text(record.get("version"))
        """of the last trial"""
        self.versions = {name: _text(record.get(name)) for name in NAMES}

    def record(self) -> "dict[str, Any]":
        found = {"good": self.good, "trying": self.trying, "tries": self.tries, "why": self.why}
        found.update({"result": self.result, "version": self.version})
        found.update(self.versions)
        found["sum"] = _sum(found)
        return found

    def begin(self, whole: "list[str]", cause: str = "") -> "tuple[str | None, bool]":
        """The slot to run, and whether the record has changed. `whole`: slots with all of a release; `cause`: what is
        known of how the last boot ended."""
        before = self.record()
        if self.good not in whole:
            # The record is lost, or the good one is: any whole release is better than none.
            spare = [name for name in whole if name != self.trying]
            self.good = spare[0] if spare else None
        slot = self.good
        if self.trying is not None:
            if self.tries and not self.why:
                self.why = cause or _SILENT
            if self.trying not in whole:
                slot = self.give_way("its files are not all there")
            elif self.tries >= TRIES and self.good is not None:
                slot = self.give_way(self.why)
            else:
                # With nothing to go back to it is tried for ever, and counted no further: flash wears out.
                self.tries = min(self.tries + 1, TRIES)
                slot = self.trying
        return slot, self.record() != before

    def give_way(self, why: str) -> "str | None":
        self.trying, self.tries, self.result, self.why = None, 0, "went back", why
        return self.good

    def failed(self, why: str) -> bool:
        if self.trying is None or self.why == why[:_MAX_WHY]:
            return False
        self.why = why[:_MAX_WHY]
        return True

    def confirm(self) -> bool:
        if self.trying is None:
            return False
        self.good, self.trying, self.tries, self.result, self.why = self.trying, None, 0, "confirmed", ""
        return True

    def switch(self, slot: str) -> None:
        self.trying, self.tries, self.why = slot, 0, ""
        self.result, self.version = "on trial", self.versions[slot]

    def drop(self, slot: str) -> None:
        """A slot that is to be written: it is no longer on trial."""
        if slot == self.good:
            raise SlotError(f"slot {slot!r} is the good one, and stays: write to {other_than(slot)!r}")
        if self.trying == slot:
            self.give_way("another release took its place")
        self.versions[slot] = ""


class Disk:
    """Files, as both interpreters have them; tests take the power away from another one."""

    def read(self, path: str) -> "bytes | None":
        try:
            with open(path, "rb") as file:  # noqa: PTH123 - MicroPython has no pathlib
                return file.read()
        except OSError:
            return None

    def digest(self, path: str) -> "tuple[int, str]":
        """Bytes and SHA-256 of a file, in pieces; -1: it is not there."""
        digest, size, piece = sha256(), 0, bytearray(512)
        try:
            with open(path, "rb") as file:  # noqa: PTH123
                while True:
                    length: int = file.readinto(piece)
                    if not length:
                        break
                    digest.update(memoryview(piece)[:length])
                    size += length
        except OSError:
            return -1, ""
        return size, str(hexlify(digest.digest()), "ascii")

    def write(self, path: str, data: bytes) -> None:
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(data)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        try:
            os.remove(path)
        except OSError:
            pass  # it was not there

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except OSError:
            return False
        return True

    def files(self, path: str) -> "list[str]":
        """Names of all files below a folder, from there."""
        found: list[str] = []
        try:
            names = sorted(os.listdir(path))
        except OSError:
            return found
        for name in names:
            if os.stat(f"{path}/{name}")[0] & 0x4000:
                found += [f"{name}/{below}" for below in self.files(f"{path}/{name}")]
            else:
                found.append(name)
        return found


class Rom:
    """The ROMFS partition of a board. `device` is what MicroPython gives: blocks to erase and program
    (os.AbstractBlockDev), and a buffer that is the flash itself."""

    boot = ROM_BOOT

    def __init__(self, device: "Any") -> None:
        self.device = device
        self.block: int = device.ioctl(5, 0)
        self.blocks: int = (device.ioctl(4, 0) - self.boot // self.block) // 2
        """of a slot"""
        self.size = self.block * self.blocks

    def first(self, slot: str) -> int:
        """Number of the slot's first block."""
        return self.boot // self.block + (0 if slot == "a" else self.blocks)

    def view(self, slot: str) -> memoryview:
        start = self.first(slot) * self.block
        return memoryview(self.device)[start : start + self.size]

    def digest(self, slot: str, size: int) -> str:
        return str(hexlify(sha256(self.view(slot)[:size]).digest()), "ascii")

    def mount(self, slot: str) -> str:
        import vfs

        vfs.mount(vfs.VfsRom(self.view(slot)), "/rom_" + slot)
        return "/rom_" + slot


def _find_rom() -> "Rom | None":
    try:
        import vfs

        device = vfs.rom_ioctl(2, 0)
    except (ImportError, AttributeError):
        return None
    if not hasattr(device, "ioctl"):
        return None  # a number: there is no such partition
    rom = Rom(device)
    return rom if rom.size >= ROM_LEAST else None


class Slots:
    def __init__(self, folder: str = "", disk: "Disk | None" = None, rom: "Rom | None" = None) -> None:
        """`folder` is the device's root; `rom` is found if there is one."""
        self.folder = folder
        self.disk = disk or Disk()
        self.rom = rom or _find_rom()
        self.code = ""
        """where lib/ of the slot that runs is"""
        self._file = self._in("slots.json")
        # Where renaming is two steps (FAT), power may go between them: then the new one is whole.
        self.choice = Choice(_record(self.disk.read(self._file)) or _record(self.disk.read(self._file + ".new")))
        self.active: str | None = None
        """the slot that this boot runs; None before begin()"""
        self._unkept = False

    def _in(self, name: str) -> str:
        return f"{self.folder}/{name}" if self.folder else name

    def path(self, slot: str, name: str = "") -> str:
        found = self._in(slot)
        return f"{found}/{name}" if name else found

    @property
    def good(self) -> "str | None":
        return self.choice.good

    @property
    def trying(self) -> "str | None":
        return self.choice.trying

    @property
    def other(self) -> str:
        """Where the next release goes; while one is on trial, its place: who runs from there waits for the outcome.
        With nothing to go back to, what is on trial is the best there is, and stays."""
        keep = self.choice.good or self.choice.trying
        return "a" if keep is None else other_than(keep)

    @property
    def outcome(self) -> "dict[str, str] | None":
        choice = self.choice
        if not choice.result:
            return None
        return {"version": choice.version, "result": choice.result, "why": choice.why}

    def version(self, slot: str) -> str:
        return self.choice.versions[slot]

    def is_whole(self, slot: str) -> bool:
        if not self.disk.exists(self.path(slot, "release.json")):
            return False
        image = self.image(slot)
        return image is None or self._is_there(slot, image)

    def image(self, slot: str) -> "Any":
        """Bytes and SHA-256 of what a slot has in the ROMFS; None: it has files."""
        data = self.disk.read(self.path(slot, "rom.json"))
        if data is None:
            return None
        try:
            size, digest = json.loads(data)
            return [int(size), digest]
        except (TypeError, ValueError):
            return [0, ""]  # what nothing has

    def _is_there(self, slot: str, image: "Any") -> bool:
        return self.rom is not None and self.rom.digest(slot, image[0]) == image[1]

    def image_is(self, slot: str, size: int) -> None:
        """For who has written it, and has checked all that is in it."""
        if self.rom is not None:
            image = [size, self.rom.digest(slot, size)]
            self._write(self.path(slot, "rom.json"), json.dumps(image).encode())

    def release(self, slot: str) -> "dict[str, Any] | None":
        """release.json of a slot: some 10 KiB, of the memory too."""
        try:
            found = json.loads(self.disk.read(self.path(slot, "release.json")) or b"")
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    # At boot, and while it runs

    def begin(self, cause: str = "") -> "str | None":
        """None: there is no release at all. Flash is written only while one is on trial."""
        self.active, changed = self.choice.begin([name for name in NAMES if self.is_whole(name)], cause)
        if changed:
            try:
                self._keep()
            except OSError:
                if self.choice.trying is not None and self.choice.good is not None:
                    self.active = self.choice.give_way("flash is full, so that its boots cannot be counted")
        return self.active

    def load(self) -> str:
        """Where lib/ of the slot that runs is, from now on."""
        slot = self.active or ""
        root = self.path(slot) if self.rom is None or self.image(slot) is None else self.rom.mount(slot)
        self.code = root + "/lib"
        return self.code

    def confirm(self) -> None:
        if self.choice.confirm() or self._unkept:
            self._keep()

    def failed(self, why: str) -> None:
        if self.choice.failed(why):
            self._keep()

    # Another release

    def clear(self, slot: str, names: "Any" = ()) -> None:
        self.choice.drop(slot)
        self._keep()
        self.disk.remove(self.path(slot, "release.json"))
        for name in self.disk.files(self.path(slot)):
            if name not in names:
                self.disk.remove(self.path(slot, name))

    def finish(self, slot: str, release: "dict[str, Any]") -> None:
        """SlotError: a file is not what the release says, by its name; nothing has changed."""
        if slot == self.choice.good:
            raise SlotError(f"slot {slot!r} is the good one, and stays")
        image = release.get("rom")
        if image is not None:
            if not self._is_there(slot, image):
                raise SlotError(f"what slot {slot!r} has in the ROMFS has another hash than the release says")
            self._write(self.path(slot, "rom.json"), json.dumps(image).encode())
        for name in sorted(release["files"]):
            found = self.disk.digest(self.path(slot, name))
            if found != tuple(release["files"][name]):
                said = (
                    "is not there" if found[0] < 0 else f"has {found[0]} bytes and another hash than the release says"
                )
                raise SlotError(f"{self.path(slot, name)} {said}")
        if not self.disk.exists(self.path(slot, "agent.json")) and self.choice.good is not None:
            # The configuration that runs goes on with the new release.
            running = self.disk.read(self.path(self.choice.good, "agent.json"))
            if running is not None:
                self._write(self.path(slot, "agent.json"), running)
        self._write(self.path(slot, "release.json"), json.dumps(release).encode())
        self.choice.versions[slot] = release["version"]
        self._keep()

    def seal(self, slot: str, version: str) -> None:
        """finish() for who has checked every file, and has written release.json.new line by line: whole it may be more
        than a device has memory for."""
        if slot == self.choice.good:
            raise SlotError(f"slot {slot!r} is the good one, and stays")
        self.disk.rename(self.path(slot, "release.json.new"), self.path(slot, "release.json"))
        self.choice.versions[slot] = version
        self._keep()

    def switch(self, slot: str) -> None:
        if slot == self.choice.good:
            raise SlotError(f"slot {slot!r} runs already")
        if not self.is_whole(slot):
            raise SlotError(f"slot {slot!r} has no whole release: finish() it first")
        self.choice.switch(slot)
        self._keep()

    def _keep(self) -> None:
        self._unkept = True  # until it is
        self._write(self._file, json.dumps(self.choice.record()).encode())
        self._unkept = False

    def _write(self, path: str, data: bytes) -> None:
        self.disk.write(path + ".new", data)
        self.disk.rename(path + ".new", path)


def other_than(slot: str) -> str:
    return "b" if slot == "a" else "a"


def _slot(value: "Any") -> "str | None":
    return value if value in NAMES else None


def _text(value: "Any") -> str:
    return value[:_MAX_WHY] if type(value) is str else ""


def _sum(record: "dict[str, Any]") -> int:
    return crc32("\n".join([str(record.get(field)) for field in _FIELDS]).encode()) & 0xFFFFFFFF


def _record(data: "bytes | None") -> "dict[str, Any] | None":
    """What was torn is not believed: MicroPython reads half of an object as a whole one."""
    try:
        found = json.loads(data or b"")
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("sum") != _sum(found):
        return None
    return found


def boot(folder: str = "") -> None:
    """What main.py on a device calls: runs the agent of a slot, and keeps why it ended."""
    import time as _time

    time: Any = _time
    try:
        import machine
    except ImportError:
        machine = None
    slots = Slots(folder)
    bitten = machine is not None and machine.reset_cause() == machine.WDT_RESET
    slot = slots.begin("it hung, and the watchdog ended it" if bitten else "")
    if slot is None:
        print("slots: no release on this device; `vicinal flash` brings one")
        return
    if machine is not None and slots.trying is not None:
        machine.WDT(timeout=TRIAL_WATCHDOG)
    # Not frozen modules first: a release may bring a newer one.
    try:
        sys.path[:] = [slots.load(), ".frozen", "/lib"]
        from vicinal_edge.agent.main import main

        main(slots.path(slot, "agent.json"), folder or ".", None, slots)
        why = "it ended"
    except Exception as error:  # whatever a release does wrong: KeyboardInterrupt is for who has the console
        sys.print_exception(error)
        why = f"{type(error).__name__}: {error}"
    try:
        slots.failed(why)
    except OSError as error:
        sys.print_exception(error)
    if machine is not None:
        time.sleep_ms(1000)  # for who reads the console
        machine.reset()
