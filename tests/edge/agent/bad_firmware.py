"""Bad firmware, in all the ways that a virtual device is to come back from: each makes a release, and spoils it, or its
way to the device, or the device."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edge.agent.air import KEY, STRANGER, Air, boot_part, compiled
from edge.agent.proxy import Proxy

from vicinal.coap.message import BLOCK2, URI_QUERY, Message, uint
from vicinal_edge import agent
from vicinal_edge.agent.slots import ROM_BOOT, ROM_LEAST
from vicinal_edge.releases import manifest_of, pack
from vicinal_tools.release import sign

MAIN = "lib/vicinal_edge/agent/main.mpy"
EVENT = "lib/vicinal/event.mpy"
HERE = Path(agent.__file__).parent


class Way:
    """One device, one release, and what is said of it in the end: (result, part of why)."""

    def __init__(self, air: Air, name: str, number: int) -> None:
        self.air = air
        self.name = name
        self.version = f"0.2.{number}"
        self.files = air.new | {"lib/vicinal/__init__.mpy": compiled(f'__version__ = "{self.version}"\n')}
        """of the release; `spoil` what is to be bad"""
        self.proxy = Proxy(air.port)
        self.flash = 2 * 1024 * 1024
        self.ballast = b""
        self.heap, self.can = 128, False
        self.rom = ""
        """ "image": its code is in a ROMFS; "files": there is one, and it is not used yet"""
        self.boot_part: bytes | None = None
        self.cut_after = -1
        self.patience = 240.0  # a machine under load is slow

    def spoil(self, name: str, text: str) -> None:
        self.files[name] = compiled(text)

    def patch(self, module: str, old: str, new: str) -> None:
        """The agent's own module, with something else in it."""
        text = (HERE / f"{module}.py").read_text()
        assert old in text
        self.spoil(f"lib/vicinal_edge/agent/{module}.mpy", text.replace(old, new, 1))

    def publish(self, key: Any = KEY, board: str = "any") -> Path:
        return self.air.release(self.version, self.files, key, board)

    def write(self, signature: bytes, manifest: bytes) -> None:
        contents = [self.files[name] for name in sorted(self.files)]
        (self.air.releases / f"{self.version}.release").write_bytes(pack(signature, manifest, contents))

    def manifest(self, **changed: Any) -> bytes:
        values = {"version": self.version, "board": "any", "mpy": 6, "back": None} | changed
        return manifest_of(files=self.files, **values)

    def unlike(self) -> None:
        """A file that no device and no other release has, so that it is fetched, and from this one."""
        self.files[EVENT] += self.version.encode() * 600

    @property
    def event_path(self) -> str:
        return "release/" + hashlib.sha256(self.files[EVENT]).hexdigest()


WAYS: dict[str, Callable[[Way], tuple[str, str]]] = {}


def way(make: Callable[[Way], tuple[str, str]]) -> Callable[[Way], tuple[str, str]]:
    WAYS[make.__name__] = make
    return make


# It is fetched, and does not run


@way
def crash_at_import(it: Way) -> tuple[str, str]:
    it.spoil(MAIN, "import gone\n")
    it.publish()
    return "went back", "ImportError: no module named 'gone'"


@way
def syntax_error(it: Way) -> tuple[str, str]:
    del it.files[MAIN]
    it.files[MAIN.replace(".mpy", ".py")] = b"def main(:\n"
    it.publish()
    return "went back", "SyntaxError"


@way
def bytecode_of_another_version(it: Way) -> tuple[str, str]:
    """And a head that does not say so."""
    it.files[MAIN] = b"M\x05" + it.files[MAIN][2:]
    manifest = it.manifest()
    it.write(sign(KEY, manifest), manifest)
    return "went back", "incompatible .mpy"


@way
def damaged_bytecode(it: Way) -> tuple[str, str]:
    """Signed like that: what its author has not tried."""
    it.files[MAIN] = it.files[MAIN][:40]
    it.publish()
    return "went back", ""


@way
def hang_before_the_loop(it: Way) -> tuple[str, str]:
    it.spoil(MAIN, "def main(*_):\n    while True:\n        pass\n")
    it.publish()
    return "went back", "it hung, and the watchdog ended it"


@way
def hang_at_import(it: Way) -> tuple[str, str]:
    it.spoil(MAIN, "while True:\n    pass\n")
    it.publish()
    return "went back", "it hung, and the watchdog ended it"


_TURN = "        agent = self.agent\n        dues"


@way
def hang_in_the_loop(it: Way) -> tuple[str, str]:
    it.patch("loop", _TURN, "        while now > 1000:\n            pass\n" + _TURN)
    it.publish()
    return "went back", "it hung, and the watchdog ended it"


@way
def exception_after_some_seconds(it: Way) -> tuple[str, str]:
    it.patch("loop", _TURN, "        if now > 1000:\n            raise ValueError('spoilt')\n" + _TURN)
    it.publish()
    return "went back", "ValueError: spoilt"


@way
def memory_error_at_import(it: Way) -> tuple[str, str]:
    it.spoil(MAIN, "much = [bytearray(1000) for _ in range(1000)]\n")
    it.publish()
    return "went back", "MemoryError"


@way
def it_never_reaches_the_network(it: Way) -> tuple[str, str]:
    it.patch("link", "            self.socket.send(data)\n", "")
    it.publish()
    return "went back", "it did not reach the gateway within 8 s"


@way
def it_ends_by_itself(it: Way) -> tuple[str, str]:
    it.spoil(MAIN, "def main(*_):\n    pass\n")
    it.publish()
    return "went back", "it ended"


@way
def it_starts_again_and_again(it: Way) -> tuple[str, str]:
    it.spoil(MAIN, "import machine\ndef main(*_):\n    machine.reset()\n")
    it.publish()
    return "went back", "it ended without a word"


@way
def it_writes_over_its_configuration(it: Way) -> tuple[str, str]:
    """Its own copy: the old release has another."""
    it.spoil(MAIN, "def main(file, *_):\n    open(file, 'w').write('{')\n    raise OSError('spoilt')\n")
    it.publish()
    return "went back", "OSError: spoilt"


# It is refused


@way
def wrong_key(it: Way) -> tuple[str, str]:
    it.publish(STRANGER)
    return "refused", "the signature is not of the key that this device has"


@way
def tampered_manifest(it: Way) -> tuple[str, str]:
    signature = sign(KEY, it.manifest())
    it.spoil(MAIN, "import evil\n")
    it.write(signature, it.manifest())
    return "refused", "the signature is not of the key that this device has"


@way
def tampered_file(it: Way) -> tuple[str, str]:
    it.unlike()
    it.publish()
    path = it.event_path

    def answer(asked: str, message: Message) -> Message:
        if asked == path:
            message.payload = message.payload[:-1] + b"!"
        return message

    it.proxy.answer = answer
    return "refused", f"{EVENT}: its hash is not the one that the release says"


@way
def truncated_file(it: Way) -> tuple[str, str]:
    it.unlike()
    it.publish()
    path = it.event_path

    def answer(asked: str, message: Message) -> Message:
        block = message.uint(BLOCK2, 3) or 0
        if asked == path and block >> 4 == 2:
            options = [(number, uint(block & ~8) if number == BLOCK2 else value) for number, value in message.options]
            return Message(message.type, message.code, message.mid, message.token, options, message.payload[:100])
        return message

    it.proxy.answer = answer
    return "refused", f"{EVENT}: it has 1124 bytes, the release says {len(it.files[EVENT])}"


@way
def missing_file(it: Way) -> tuple[str, str]:
    it.unlike()
    it.publish()
    path = it.event_path

    def answer(asked: str, message: Message) -> Message:
        return Message(message.type, 0x84, message.mid, message.token) if asked == path else message

    it.proxy.answer = answer
    return "refused", f"{EVENT}: 4.04"


@way
def release_withdrawn_midway(it: Way) -> tuple[str, str]:
    it.unlike()
    file, path = it.publish(), it.event_path

    def ask(asked: str, message: Message) -> Message:
        if asked == path:
            file.unlink(missing_ok=True)
        return message

    it.proxy.ask = ask
    return "refused", f"{EVENT}: 4.04 no release here has this file"


@way
def too_large(it: Way) -> tuple[str, str]:
    for number in range(6):
        it.files[f"lib/large{number}.bin"] = bytes([number]) * 60_000
    it.flash = 1024 * 1024
    it.publish()
    return "refused", "bytes of flash, "


@way
def full_file_system(it: Way) -> tuple[str, str]:
    it.ballast = bytes(1_500_000)
    it.publish()
    return "refused", "bytes of flash, "


@way
def wrong_board(it: Way) -> tuple[str, str]:
    """The gateway would not offer it: somebody on the way asks for another."""
    it.publish(board="esp32s3")

    def ask(asked: str, message: Message) -> Message:
        options = [
            (number, b"board=esp32s3" if number == URI_QUERY and value == b"board=esp32" else value)
            for number, value in message.options
        ]
        return Message(message.type, message.code, message.mid, message.token, options, message.payload)

    it.proxy.ask = ask
    return "refused", "it is for board esp32s3, this is esp32"


@way
def older_version(it: Way) -> tuple[str, str]:
    it.version = f"0.0.{it.version.rpartition('.')[2]}"
    it.publish()
    return "refused", "0.1.0 is running, which is newer"


@way
def no_such_release(it: Way) -> tuple[str, str]:
    return "refused", f"no release {it.version} for board esp32"


# It is cut off, and goes on


@way
def power_cut_while_it_is_fetched(it: Way) -> tuple[str, str]:
    it.unlike()
    it.heap, it.cut_after = 176, 60  # it is the first boot that is cut off, and updates
    it.publish()
    return "confirmed", ""


@way
def power_cut_late(it: Way) -> tuple[str, str]:
    it.heap, it.cut_after = 176, 800
    it.publish()
    return "confirmed", ""


_RENAME = '        self.disk.rename(path + ".new", path)\n'
_CUT = """        if b"on trial" in data and not self.disk.exists("/cut"):
            self.disk.write("/cut", b"")
            import machine
            machine.reset()
"""


@way
def power_cut_during_the_switch(it: Way) -> tuple[str, str]:
    """What is to run is written, and does not have its name yet."""
    it.boot_part = boot_part(_RENAME, _CUT + _RENAME)
    it.publish()
    return "confirmed", ""


@way
def power_cut_after_the_switch(it: Way) -> tuple[str, str]:
    """And before the agent has noted that."""
    it.boot_part = boot_part(_RENAME, _RENAME + _CUT)
    it.publish()
    return "confirmed", ""


@way
def beside_the_agent(it: Way) -> tuple[str, str]:
    """With so much memory the agent works on while it is updated; with 128 KiB it does not."""
    it.heap = 176
    it.publish()
    return "confirmed", ""


@way
def beside_a_bus(it: Way) -> tuple[str, str]:
    """CAN takes most of what there is: the device updates alone, and the new release has its bus again."""
    it.heap, it.can = 160, True
    it.publish()
    return "confirmed", ""


@way
def network_gone_for_a_while(it: Way) -> tuple[str, str]:
    it.unlike()
    it.publish()
    path, since = it.event_path, []

    def ask(asked: str, message: Message) -> Message | None:
        if asked == path and (message.uint(BLOCK2, 3) or 0) >> 4 == 2:
            since.append(time.monotonic())
        return None if since and time.monotonic() < since[0] + 6 else message

    it.proxy.ask = ask
    return "confirmed", ""


@way
def gateway_gone_half_way(it: Way) -> tuple[str, str]:
    """For so long that it is given up, and made again. (A device that updates alone would work for an hour first.)"""
    it.heap = 176
    it.unlike()
    it.publish()
    it.patience = 400.0
    path, since = it.event_path, []

    def ask(asked: str, message: Message) -> Message | None:
        if asked == path and (message.uint(BLOCK2, 3) or 0) >> 4 == 2:
            since.append(time.monotonic())
        return None if since and time.monotonic() < since[0] + 100 else message

    it.proxy.ask = ask
    return "confirmed", ""


# On a board with a ROMFS


@way
def rom_beside_a_bus(it: Way) -> tuple[str, str]:
    """From flash CAN leaves so much memory that the agent works on while it is updated."""
    it.rom, it.can = "image", True
    it.publish()
    return "confirmed", ""


@way
def rom_from_files(it: Way) -> tuple[str, str]:
    """The release that runs is in files, as before there was a ROMFS: the next one is not."""
    it.rom = "files"
    it.publish()
    return "confirmed", ""


@way
def rom_crash_at_import(it: Way) -> tuple[str, str]:
    it.rom = "image"
    return crash_at_import(it)


@way
def rom_hang_in_the_loop(it: Way) -> tuple[str, str]:
    it.rom = "image"
    return hang_in_the_loop(it)


@way
def rom_damaged_bytecode(it: Way) -> tuple[str, str]:
    it.rom = "image"
    return damaged_bytecode(it)


@way
def rom_tampered_file(it: Way) -> tuple[str, str]:
    it.rom = "image"
    return tampered_file(it)


@way
def rom_truncated_file(it: Way) -> tuple[str, str]:
    it.rom = "image"
    return truncated_file(it)


@way
def rom_too_large(it: Way) -> tuple[str, str]:
    it.rom = "image"
    return too_large(it)


@way
def rom_power_cut_while_it_is_fetched(it: Way) -> tuple[str, str]:
    it.rom, it.cut_after = "image", 60
    it.unlike()
    it.publish()
    return "confirmed", ""


@way
def rom_power_cut_late(it: Way) -> tuple[str, str]:
    it.rom, it.cut_after = "image", 300
    it.publish()
    return "confirmed", ""


@way
def rom_network_gone_for_a_while(it: Way) -> tuple[str, str]:
    it.rom = "image"
    return network_gone_for_a_while(it)


def run(air: Air, name: str, number: int) -> None:
    """The device comes back on the old version, or has the new one in the end, and says why; the old one is whole."""
    it = Way(air, name.replace("_", "-"), number)
    result, why = WAYS[name](it)
    device = air.device(it.name, it.flash, it.proxy.port, it.heap, it.can, it.rom)
    if it.boot_part is not None:
        device.put({"slots.mpy": it.boot_part})
    if it.ballast:
        device.put({"ballast": it.ballast})
    before = {path: data for path, data in device.files().items() if path.startswith("a/")}
    half = slice(0, ROM_BOOT + ROM_LEAST)  # with the boot part
    rom = (device.folder / "rom.bin").read_bytes()[half] if it.rom == "image" else b""
    device.cut_power_after(it.cut_after)
    try:
        with device:
            device.wait_for("hello")
            said = air.tell(it.name, it.version, it.patience)
            assert (said["update"], said["update_result"]) == (it.version, result), (name, said, device.console)
            assert why in said["update_why"], (name, said)
            assert said["version"] == (it.version if result == "confirmed" else "0.1.0"), (name, said)
            assert f'"version": "{said["version"]}"' in device.console.rpartition("hello")[2]
            assert (device.cuts > 0) == (it.cut_after >= 0), (name, device.cuts)
            assert said["mode"] == "normal"
            alone = '"updates": true' in device.console
            no_room = it.heap < 170 and it.rom != "image" and name != "no_such_release"
            assert alone == no_room, (name, device.console)
        after = device.files()
        assert ("cut" in after) == (it.boot_part is not None), name
        assert {path: after.get(path) for path in before} == before, name
        if it.rom:
            assert (device.folder / "rom.bin").read_bytes()[: len(rom)] == rom, name
            assert [path for path in after if path.startswith("b/lib/")] == [], name
            assert ("b/rom.json" in after) == (result in ("confirmed", "went back")), name
        assert air.agents()[it.name]["update_result"] == result
    finally:
        it.proxy.close()
