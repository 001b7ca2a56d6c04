"""A field to update devices in, over the air: a broker with a log, a gateway with a CoAP service and a folder of
releases, and virtual devices; all of them processes of their own."""

import hashlib
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cloud.broker.brokers import COMMAND, PATIENCE, Brokers
from cryptography.hazmat.primitives.asymmetric import ec
from edge.agent.test_coap_interop import free_port
from edge.gateways import Gateways

from vicinal_edge.agent import slots
from vicinal_hw.device import VirtualDevice
from vicinal_tools.flash.release import MAIN
from vicinal_tools.release import files_of, public_of, signed
from vicinal_tools.romfs import image_of
from vicinal_tools.stage import compile_file

KEY = ec.derive_private_key(0x5EC2E7, ec.SECP256R1())
STRANGER = ec.derive_private_key(0x0DD, ec.SECP256R1())
# Seconds: what a release is given in tests, where real ones have minutes.
HEALTHY, TRIAL_WATCHDOG = 2, 4
# Of the agent's own watchdog, which a release that hangs in its loop must meet.
WATCHDOG = 3

ROM = slots.ROM_BOOT + 2 * slots.ROM_LEAST
SENSOR = {"type": "adc", "pin": 34, "subject": "Reading", "every_ms": 200}


def compiled(text: str) -> bytes:
    """Of a module that is bad in a way of its own."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "bad.py", Path(folder) / "bad.mpy"
        source.write_text(text)
        compile_file(source, target, "bad.py")
        return target.read_bytes()


def boot_part(old: str = "", new: str = "") -> bytes:
    """slots.py, with a watchdog that is as impatient as these tests, and `new` in place of `old`."""
    text = Path(slots.__file__).read_text()
    for before, after in (("TRIAL_WATCHDOG = 60000", f"TRIAL_WATCHDOG = {TRIAL_WATCHDOG * 1000}"), (old, new)):
        assert before in text
        text = text.replace(before, after, 1)
    return compiled(text)


class Air:
    def __init__(self, folder: Path, brokers: Brokers, gateways: Gateways) -> None:
        self.folder = folder
        self.releases = folder / "releases"
        self.releases.mkdir()
        self.port = free_port()
        self.broker = brokers.start("b1", log=True)
        self.gateway = gateways.start(
            "gw",
            f"""
[[service]]
name = "field"
type = "coap"
bind = "127.0.0.1:{self.port}"
releases = "{self.releases}"
[[service]]
name = "office"
type = "siena"
address = "{self.broker.address}"
[[request]]
type = "subscribe"
source = "office"
to = "field"
filter = "subject = 'Reading' OR subject = 'AgentHealth'"
[[request]]
type = "subscribe"
source = "field"
to = "office"
filter = "subject = 'AgentUpdate'"
""",
        )
        self._wait(lambda: self.gateway.applied, "the gateway")
        self.old = files_of("0.1.0")
        self.new = files_of("0.2.0")
        self._boot = {"main.py": MAIN, "slots.mpy": boot_part()}

    def device(
        self,
        name: str,
        flash: int = 2 * 1024 * 1024,
        port: int | None = None,
        heap: int = 128,
        can: bool = False,
        rom: str = "",
    ) -> VirtualDevice:
        """With 0.1.0 in slot a; `port` is where it finds its gateway, `heap` in KiB. `rom`: its firmware has a ROMFS,
        with the release as an "image" in it, or with nothing yet: "files"."""
        bus = f"{name}-{os.getpid()}" if can else None
        made = VirtualDevice(self.folder / name, flash=flash, heap=heap * 1024, can=bus, rom=ROM if rom else 0)
        update = {"key": public_of(KEY), "board": "esp32", "every_s": 0, "retry_s": 1}
        update |= {"healthy_s": HEALTHY, "patience_s": 4 * HEALTHY}
        gateway = f"coap://127.0.0.1:{self.port if port is None else port}"
        config: dict[str, Any] = {
            "agent": {"name": name, "gateway": gateway, "health_s": 2, "watchdog_s": WATCHDOG},
            "journal": {"partition": "journal"},
            "sensor": [SENSOR],
            "update": update,
        }
        if can:
            config["can"] = [{"node": 7, "controller": "mcp2515", "event": [{"etag": 300}]}]
        files = {f"a/{path}": data for path, data in self.old.items()}
        if rom == "image":
            image = image_of(self.old)
            files = {"a/rom.json": json.dumps([len(image), hashlib.sha256(image).hexdigest()]).encode()}
            boot = image_of({"slots.mpy": self._boot["slots.mpy"]}).ljust(slots.ROM_BOOT, b"\xff")
            (self.folder / name).mkdir()
            (self.folder / name / "rom.bin").write_bytes((boot + image).ljust(ROM, b"\xff"))
        files |= {"a/agent.json": json.dumps(config).encode(), "a/release.json": b'{"version":"0.1.0","files":{}}'}
        made.put(self._boot | files)
        return made

    def release(self, version: str, files: dict[str, bytes], key: Any = KEY, board: str = "any") -> Path:
        path = self.releases / f"{version}.release"
        aside = path.with_suffix(".new")
        aside.write_bytes(signed(key, version, files, board))
        return aside.replace(path)

    def tell(self, name: str, version: str, wait: float = PATIENCE) -> dict[str, Any]:
        """`vicinal agents update`, and how it ended."""
        words = ["agents", "update", name, "--version", version, "--wait", str(wait), "--json"]
        done = subprocess.run(
            [*COMMAND, *words, "--broker", self.broker.address], capture_output=True, text=True, check=False
        )
        assert done.stdout, f"{done.stderr}\n{self.gateway.status()}\n{self.gateway.log()[-2000:]}"
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def agents(self) -> dict[str, dict[str, Any]]:
        words = [*COMMAND, "agents", "--json", "--broker", self.broker.address]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
        return {one["agent"]: one for one in json.loads(done.stdout)}

    def _wait(self, is_so: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        end = time.monotonic() + patience
        while not (found := is_so()):
            assert time.monotonic() < end, what
            time.sleep(0.05)
        return found
