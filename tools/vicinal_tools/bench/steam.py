"""STEAM in a town on the virtual radio: 500 vehicles and 20 roadside units for a minute, with and without loss.

See ble/trial.py for who speaks and how it is judged. Everybody talks, at the default rates, in 31-byte legacy
advertisements; collisions happen in either run. In the first no frame is lost beside, and every event must arrive; in
the second one frame of ten is. And what a stranger's advertisement costs, of which the air is full.

    python -m vicinal_tools.bench.steam 1 2 3 4 5        other towns: a minute or two of CPU for each seed and run
"""

import sys
import time
from collections.abc import Iterator
from random import Random

from vicinal.steam.node import Node

from ..ble.trial import EVERY, VALIDITY, Result, Trial
from . import Row, cpu_time

GOAL_IN_TIME = 0.99
GOAL_STRANGER = 20.0
GOAL_CPU = 120.0
_STRANGERS = 2_000


def rows(vehicles: int = 500, units: int = 20, seconds: int = 60) -> Iterator[Row]:
    yield from town(vehicles, units, seconds)
    yield from strangers_rows()


def town(vehicles: int = 500, units: int = 20, seconds: int = 60, seed: int = 1) -> Iterator[Row]:
    crowd = f"STEAM, {vehicles} vehicles and {units} units, {seconds} s"
    start = time.process_time()
    result = Trial(vehicles, units, seconds=seconds, seed=seed).run()
    spent = time.process_time() - start
    yield Row(
        f"{crowd}: delivered in time",
        f"{result.in_time:,} of {result.expected:,}",
        f"{result.published:,} published, {result.outside} delivered outside, {result.twice} twice",
        f"p99 after {_percentile(result.delays, 0.99)} of {VALIDITY} ms",
        "every one, none outside, none twice",
        0 < result.expected == result.in_time and not result.outside and not result.twice,
    )
    yield _moving("", result)
    lossy = Trial(vehicles, units, loss=0.1, seconds=seconds, seed=seed).run()
    share = lossy.in_time / max(1, lossy.expected)
    yield Row(
        f"{crowd}, 10 % loss: delivered in time",
        f"{share:.2%} of {lossy.expected:,}",
        f"{lossy.heard:.0%} of what reached a radio was heard; {_wrong(lossy)} outside or twice",
        f"p99 after {_percentile(lossy.delays, 0.99)} of {VALIDITY} ms",
        f"{GOAL_IN_TIME:.0%}, none outside, none twice",
        share >= GOAL_IN_TIME and not _wrong(lossy),
    )
    yield _moving(", 10 % loss", lossy)
    yield Row(
        f"{crowd}: the simulation",
        f"{spent:.0f} s of CPU",
        f"{result.frames:,} advertising events",
        f"{seconds / spent:.1f} x real time",
        f"under {GOAL_CPU:.0f} s",
        spent < GOAL_CPU,
    )


def _moving(loss: str, result: Result) -> Row:
    moves = result.joins + result.leaves
    soon = sum(delay <= EVERY for delay in moves) / max(1, len(moves))
    longest = max(result.errors, default=0)
    return Row(
        f"STEAM, areas of ambulances{loss}: joined or left within a beacon interval",
        f"{soon:.1%} of {len(moves)}",
        f"interval {EVERY} ms; at worst {max(moves, default=0)} ms late; wrong, late or early, for {longest} ms",
        f"{longest / EVERY:.2f} of it",
        "all of them",
        bool(moves) and soon == 1 and longest <= EVERY,
    )


def strangers_rows() -> Iterator[Row]:
    cost, worst, kind = stranger_cost()
    yield Row(
        "STEAM, a stranger's advertisement",
        f"{cost:.2f} us",
        f"limit {GOAL_STRANGER:.0f} us; dearest {worst:.2f} us ({kind})",
        f"{worst / GOAL_STRANGER:.2f} of it",
        "under the limit",
        worst < GOAL_STRANGER,
    )

    callback = callback_cost()
    yield Row(
        "STEAM, a stranger's advertisement in bleak's callback",
        f"{callback:.2f} us",
        f"limit {GOAL_STRANGER:.0f} us; what bleak and D-Bus take before is theirs",
        f"{callback / GOAL_STRANGER:.2f} of it",
        "under the limit",
        callback < GOAL_STRANGER,
    )
    hostile = b"\x04\xff\xff\xff\x20" * 50
    node = _node()
    yield Row(
        "STEAM, a hostile advertisement: 50 frames in 250 bytes",
        f"{cpu_time(lambda: node.receive(hostile, -70, 0))[0] * 1e6:.0f} us",
        "on the air for 2.2 ms",
    )


def _wrong(result: Result) -> int:
    return result.outside + result.twice


def _percentile(values: list[int], share: float) -> int:
    return sorted(values)[int(share * (len(values) - 1))] if values else 0


def _node() -> Node:
    node = Node("bench", 1)
    node.set_position(533438000, -62546000, 0)
    node.subscribe("Speed", None, lambda event, now: None, ["rate"])
    return node


def stranger_cost() -> tuple[float, float, str]:
    """us on average over all kinds, those of the dearest kind, and which it is."""
    node = _node()
    kinds = strangers()
    costs = {}
    for name, advertisements in kinds.items():

        def hear(advertisements: list[bytes] = advertisements) -> None:
            for advertisement in advertisements:
                node.receive(advertisement, -70, 0)

        costs[name] = cpu_time(hear)[0] / len(advertisements) * 1e6
    dearest = max(costs, key=lambda name: costs[name])
    return sum(costs.values()) / len(costs), costs[dearest], dearest


def callback_cost() -> float:
    """us in our scanner and node together, half of them of other companies, half of ours with noise in it."""
    from bleak.backends.scanner import AdvertisementData

    from vicinal_hw.ble.bluez import Scanner

    node, scanner, chance = _node(), Scanner(), Random(2)
    scanner._on_heard = lambda advertisement, rssi: node.receive(advertisement, rssi, 0)
    found = [
        AdvertisementData(None, {company: chance.randbytes(chance.randrange(27))}, {}, [], None, -70, ())
        for company in (0x004C, 0xFFFF) * (_STRANGERS // 2)
    ]

    def hear() -> None:
        for data in found:
            scanner.detected(None, data)

    return cpu_time(hear)[0] / len(found) * 1e6


def strangers() -> dict[str, list[bytes]]:
    """What the air is full of: others' structures, noise, and frames like ours that are not."""
    chance = Random(1)
    ours = bytes.fromhex("17ffffff20") + bytes(19)

    def others() -> bytes:
        size = chance.randrange(3, 26)
        return b"\x02\x01\x06" + bytes([size + 1, chance.choice([0x09, 0x16, 0xFF])]) + chance.randbytes(size)

    def mutated() -> bytes:
        found = bytearray(ours[:4] + chance.randbytes(20))
        found[4] = 0x20 | chance.randrange(16)
        found[chance.randrange(len(found))] = chance.randrange(256)
        return bytes(found[: chance.randrange(5, len(found) + 1)])

    return {
        "others' structures": [others() for _ in range(_STRANGERS)],
        "noise": [chance.randbytes(chance.randrange(32)) for _ in range(_STRANGERS)],
        "254 bytes of noise": [chance.randbytes(254) for _ in range(_STRANGERS)],
        "many empty structures of our company": [b"\x03\xff\xff\xff" * 63 for _ in range(_STRANGERS)],
        "frames mutated": [mutated() for _ in range(_STRANGERS)],
        "beacons nobody subscribed to": [ours[:5] + chance.randbytes(19) for _ in range(_STRANGERS)],
    }


if __name__ == "__main__":
    for number in sys.argv[1:] or ["1"]:
        for row in town(seed=int(number)):
            met = "" if row.met is None else "met" if row.met else "MISSED"
            print(f"seed {number}", *[part for part in (*row[:5], met) if part], sep=" | ", flush=True)
