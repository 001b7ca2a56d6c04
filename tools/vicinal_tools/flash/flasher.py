"""The job: an agent into the other slot of a board, compared, switched to, and heard.

    connect ─▶ stop the agent ─▶ right board? ─▶ boot part ─▶ room? ─▶ copy ─▶ compare ─▶ switch ─▶ restart ─▶ hello
                                                               │                 │
    what went wrong until here: the old agent is started again ┘                 └ or unplugged: goes on where it was

Where the firmware has a ROMFS the staged tree goes there as an image (rom.py), else into files.

The good slot is never written. What is in the other one is no release until all of it is there (slots.py), so that a
cable may be pulled at any time. A file that is there already with the right hash is not sent; one that the other slot
has is copied on the device.
"""

import json
from pathlib import PurePosixPath
from typing import Any, Protocol

from vicinal_hw.boards import Board

from . import rom, room
from .configuration import Configuration
from .errors import DeviceFull, FlashError, NoHello, Unplugged, WrongBoard
from .link import HOLD, Link
from .release import Release, digest

__all__ = ["Done", "Progress", "chip_of", "flash"]

# Seconds for the agent to say hello: 15 of them may be Wi-Fi's.
HELLO = 45.0
# Blocks that littlefs wants beside what is in files: of each folder, and to work with.
_FOLDER_BLOCKS, _SPARE_BLOCKS = 2, 4


class Progress(Protocol):
    def step(self, text: str) -> None: ...
    def total(self, count: int) -> None: ...
    def sent(self, count: int) -> None: ...


class Done:
    """What was done, for people and for programs."""

    def __init__(self) -> None:
        self.chip = self.firmware = self.slot = self.before = ""
        """`before`: the version that it goes back to, if this one fails"""
        self.sent = self.copied = self.kept = 0
        """files; blocks, where they went into a ROMFS"""
        self.rom = False
        self.bytes = 0
        self.notes: list[str] = []
        self.hello: dict[str, Any] = {}

    def table(self) -> dict[str, Any]:
        return dict(vars(self))


def chip_of(about: dict[str, Any]) -> str:
    """MicroPython says `Generic ESP32S3 module with ESP32S3`; what is no ESP32 has its platform."""
    machine, platform = str(about["machine"]), str(about["platform"])
    return machine.rpartition(" with ")[2].lower().replace("-", "") if platform == "esp32" else platform


def flash(
    port: str,
    board: Board,
    release: Release,
    configuration: Configuration,
    progress: Progress,
    *,
    hold: int = HOLD,
    hello: float = HELLO,
) -> Done:
    done = Done()
    progress.step("connecting")
    with Link(port, hold) as link:
        link.hold()
        try:
            about = link.about()
            _check_board(about, board, done)
            if (note := room.warning(configuration, about["heap"], about["rom"])) is not None:
                done.notes.append(note)
            _write_boot(link, release, done, progress)
            slots = link.slots()
            done.slot, kept = slots["other"], slots["good"] or slots["trying"]
            done.before = slots[kept] if kept and kept != slots["other"] else ""
            done.rom = bool(slots["rom"])
            write = _write_rom if done.rom else _write_slot
            write(link, slots, release, configuration, done, progress)
            progress.step("switching")
            link.run(f"_s.switch({done.slot!r})")
            # Boots that failed were another release's, or another configuration's: these begin anew.
            link.run("try:\n os.remove('boot.json')\nexcept OSError:\n pass")
        except Unplugged as error:
            raise Unplugged(
                f"{error}. The device starts its old agent by itself, if it has one. Plug it in and give the same "
                "command again: it goes on where it was"
            ) from error
        except KeyboardInterrupt:
            link.interrupt()
            raise
        except FlashError as error:
            try:
                if isinstance(error, DeviceFull):
                    raise _full(link, done.slot, error) from error
                raise
            finally:
                _old_agent(link)
        progress.step("restarting")
        link.restart()
        _wait(link, release, done, hello)
    return done


def _check_board(about: dict[str, Any], board: Board, done: Done) -> None:
    done.chip, done.firmware = chip_of(about), about["version"]
    if done.chip != board.chip:
        from vicinal_hw.boards import board as board_of
        from vicinal_hw.boards import names

        fits = [name for name in names() if board_of(name).chip == done.chip]
        advice = f"give --board {' or '.join(fits)}" if fits else "there is no board file for it (`vicinal board list`)"
        raise WrongBoard(
            f"the device says that it is {about['machine'] or about['platform']}, and board {board.name!r} has the "
            f"chip {board.chip}: {advice}, or plug in the other one. Nothing was written"
        )


def _write_boot(link: Link, release: Release, done: Done, progress: Progress) -> None:
    """slots.mpy before main.py, which calls it; each aside, then renamed."""
    progress.step("boot part")
    for name, data in release.boot.items():
        there = link.digest(name)
        if there == digest(data):
            continue
        link.put(name + ".new", data)
        if link.digest(name + ".new") != digest(data):
            raise FlashError(f"{name} is not what was sent: is the cable bad? Nothing has changed")
        if (
            name == "main.py"
            and there is not None
            and "import slots" not in link.run("print(open('main.py').read(400))")
        ):
            link.run("os.rename('main.py', 'main_before.py')")
            done.notes.append("the main.py that was there is kept as main_before.py")
        link.run(f"os.rename({name + '.new'!r}, {name!r})")


def _write_slot(
    link: Link,
    slots: dict[str, Any],
    release: Release,
    configuration: Configuration,
    done: Done,
    progress: Progress,
) -> None:
    slot = slots["other"]
    beside = "b" if slot == "a" else "a"
    progress.step("looking at what is there")
    # Too long for one call: it goes as a file.
    link.put("release.part", json.dumps(release.manifest).encode())
    link.run(
        f"_r = json.loads(open('release.part').read()); os.remove('release.part'); _s.clear({slot!r}, _r['files'])"
    )
    there = link.digests(slot)
    elsewhere = link.digests(beside)
    wanted = release.digests
    missing = [name for name in release.files if there.get(name) != wanted[name]]
    _check_room(link, {name: len(release.files[name]) for name in missing}, configuration)
    progress.total(sum(len(release.files[name]) for name in missing) + len(configuration.data))
    done.kept = len(release.files) - len(missing)
    copied = [name for name in missing if elsewhere.get(name) == wanted[name]]
    if copied:
        progress.step(f"copying from slot {beside}")
        link.copy(beside, slot, copied, lambda name: progress.sent(len(release.files[name])))
    for name in missing:
        if name not in copied:
            progress.step(name)
            link.put(f"{slot}/{name}", release.files[name], progress.sent)
    done.copied, done.sent = len(copied), len(missing) - len(copied)
    progress.step("agent.json")
    link.put(f"{slot}/agent.json", configuration.data, progress.sent)
    done.bytes = link.sent
    progress.step("comparing")
    found = link.digests(slot)
    wrong = [name for name, each in wanted.items() if found.get(name) != each]
    if found.get("agent.json") != digest(configuration.data):
        wrong.append("agent.json")
    if wrong:
        raise FlashError(
            f"{len(wrong)} files on the device are not what was sent, as {wrong[0]}: is the cable bad? The old agent "
            "stays; give the same command again"
        )
    link.run(f"_s.finish({slot!r}, _r)")


def _write_rom(
    link: Link,
    slots: dict[str, Any],
    release: Release,
    configuration: Configuration,
    done: Done,
    progress: Progress,
) -> None:
    slot, image = slots["other"], rom.padded(release.image, slots["block"])
    if len(image) > slots["rom"]:
        raise FlashError(
            f"the image of the agent has {len(image):,} bytes, and a slot in the ROMFS of the device {slots['rom']:,}: "
            "it takes a firmware with a larger partition `romfs`. The old agent stays"
        )
    rom.write_boot(link, release.boot_image, slots["block"], slots["boot"])
    progress.step("looking at what is there")
    link.run(f"_s.clear({slot!r})")
    _check_room(link, {}, configuration)
    progress.total(len(image) + len(configuration.data))
    progress.step("image for the ROMFS")
    copied = rom.write(link, slot, image, slots["block"], progress.sent)
    done.sent, done.copied, done.kept = copied.sent, copied.copied, copied.kept
    progress.step("agent.json")
    link.put(f"{slot}/agent.json", configuration.data, progress.sent)
    done.bytes = link.sent
    progress.step("comparing")
    if link.digest(f"{slot}/agent.json") != digest(configuration.data):
        raise FlashError("agent.json is not what was sent: is the cable bad? The old agent stays")
    sealed = {"version": release.version, "files": {}, "rom": list(digest(image))}
    link.run(f"_s.finish({slot!r}, {sealed!r})")


def _check_room(link: Link, sizes: dict[str, int], configuration: Configuration) -> None:
    about = link.about()
    block = about["block"]
    folders = {str(parent) for name in sizes for parent in PurePosixPath(name).parents}
    blocks = sum(-(-size // block) for size in [*sizes.values(), len(configuration.data)])
    needed = (blocks + _FOLDER_BLOCKS * len(folders) + _SPARE_BLOCKS) * block
    if link.digest(configuration.config.journal) is None:
        needed += configuration.journal_bytes
    if needed > about["room"]:
        raise DeviceFull(f"{needed:,} bytes are wanted, ")


def _full(link: Link, slot: str, error: DeviceFull) -> DeviceFull:
    """What was copied is taken away again: the room is the old agent's, who has a journal to write."""
    about = link.about()
    if slot:
        link.run(f"_s.clear({slot!r})")
    wanted = "" if error.args[0].endswith("full") else error.args[0]
    return DeviceFull(
        f"the file system of the device is full: {wanted}{about['room']:,} of {about['size']:,} are free. Remove files "
        "of yours (`mpremote ls`, `mpremote rm`), or make the journal smaller ([journal] sectors). The old agent stays"
    )


def _old_agent(link: Link) -> None:
    """As good as it goes: what is wrong is told by who called."""
    try:
        link.run("try: os.remove('release.part')\nexcept OSError: pass")
        link.restart()
    except FlashError:
        pass


def _wait(link: Link, release: Release, done: Done, patience: float) -> None:
    said: list[str] = []
    for line in link.lines(patience):
        if line.strip():
            said.append(line)
        if line.startswith("hello {"):
            try:
                done.hello = json.loads(line[6:])
            except ValueError:
                continue  # a line that came torn over the wire
            if done.hello.get("slot") == done.slot:
                return
            raise NoHello(
                f"the new agent ended twice before it worked, and the device went back to the old one: {_last(said)}"
            )
    raise NoHello(
        f"the new agent did not say hello in {patience:.0f} s; after two starts that fail the device goes back to the "
        f"old one, if it has one. Its last words: {_last(said)}"
    )


def _last(said: list[str]) -> str:
    """What an exception said is in the last lines before the next start."""
    errors = [line for line in said if "Error" in line]
    return " | ".join((errors or said)[-3:]) or "none"
