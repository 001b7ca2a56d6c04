"""A way on which packets are lost, doubled and overtake each other: below TCP, in a network namespace of its own.

    unshare --net python -m edge.gateway.outages.packets FOLDER EVENTS SEED      what became of it, as JSON

In the namespace there is a TUN device and nobody else. A packet from NEAR to FAR goes into it, and comes back from here
as one from FAR to NEAR: so who listens at NEAR is reached at FAR, by packets that have passed through here. Source
and destination exchanged leave the checksums as they are.
"""

import asyncio
import fcntl
import heapq
import json
import os
import random
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from edge.gateway.outages.link import Link
from edge.gateway.outages.rig import Rig, out

NEAR, FAR = "192.0.2.1", "192.0.2.2"
"""of the block for documentation (RFC 5737): nobody has them, and the namespace has no way out"""
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
LOSS, TWICE, LATE = 0.05, 0.02, 0.05
"""of packets, each way; what is late is overtaken"""


class Packets(Link):
    """Beside it a Link, which listens at NEAR and brings it to the broker. One connects at FAR."""

    def __init__(self, port: int, seed: int = 0) -> None:
        super().__init__(port, seed)
        self.counts = dict.fromkeys(("passed", "lost", "twice", "late"), 0)
        self._packet_chance = random.Random(seed)
        self._waiting: list[tuple[float, int, bytes]] = []
        self._number = 0

    async def __aenter__(self) -> Self:
        self._tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self._tun, TUNSETIFF, struct.pack("16sH22x", b"lossy", IFF_TUN | IFF_NO_PI))
        subprocess.run(["ip", "addr", "add", f"{NEAR}/24", "dev", "lossy"], check=True)
        subprocess.run(["ip", "link", "set", "lossy", "up"], check=True)
        self._server = await asyncio.start_server(self._serve, NEAR, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.address = f"tcp://{FAR}:{self.port}"
        asyncio.get_running_loop().add_reader(self._tun, self._read)
        return self

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        asyncio.get_running_loop().remove_reader(self._tun)
        os.close(self._tun)

    def _read(self) -> None:
        for _ in range(64):
            try:
                packet = os.read(self._tun, 65536)
            except BlockingIOError:
                return
            if packet[0] >> 4 != 4:
                continue  # the kernel says hello in IPv6
            turned = packet[:12] + packet[16:20] + packet[12:16] + packet[20:]
            chance = self._packet_chance
            if chance.random() < LOSS:
                self.counts["lost"] += 1
                continue
            self._send(turned, 0.02 if chance.random() < LATE else 0.002)
            if chance.random() < TWICE:
                self.counts["twice"] += 1
                self._send(turned, 0.004)

    def _send(self, packet: bytes, delay: float) -> None:
        self._number += 1
        due = time.monotonic() + delay
        if self._waiting and due < max(one[0] for one in self._waiting):
            self.counts["late"] += 1
        heapq.heappush(self._waiting, (due, self._number, packet))
        asyncio.get_running_loop().call_later(delay, self._flush)

    def _flush(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.monotonic() + 0.001:
            os.write(self._tun, heapq.heappop(self._waiting)[2])
            self.counts["passed"] += 1


async def main(folder: Path, events: int, seed: int) -> dict[str, Any]:
    async with Rig(folder, way=lambda port: Packets(port, seed), seed=seed) as rig:
        for part in range(4):
            await rig.load.run(events // 4, rate=500)
            if part % 2:
                rig.link.cut()
                rig.link.heal()
        found = await rig.verdict()
        status = await rig.until(lambda status: out(status)["stored"] == 0, "the store is empty")
        verdict = {name: len(value) for name, value in vars(found).items()}
        books = {name: out(status)[name] for name in ("accepted", "delivered", "dropped")}
        return {"said": len(rig.load.accepted), "verdict": verdict, "out": books, "books": rig.wrong} | rig.link.counts


if __name__ == "__main__":
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print(json.dumps(asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))))
