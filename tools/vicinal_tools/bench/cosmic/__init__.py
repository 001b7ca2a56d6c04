"""COSMIC on the virtual bus in stepped time: the figures that were promised of event channels on CAN.

Everything is simulated with seeds, so that every run gives the same figures on every machine; only how long it takes
differs. A million slots take some minutes of all cores; VICINAL_BENCH_SLOTS says how many there shall be, and the row
says how many there were.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from ...stage import SOURCE
from .. import Row
from ..device import measure
from . import faults, hard, soft

__all__ = ["OPEN", "rows"]

SLOTS = 1_000_000
GOAL_RATIO = 1.05
GOAL_DETECTED, GOAL_BACK = 10_000, 50_000
GOAL_MEMORY, GOAL_RECOVERED = 1_000_000, 1_100_000
GOAL_HEAP = 24 * 1024
_SRT_EVENTS, _SRT_SEEDS = 1_500, 3

OPEN = """
import gc

gc.collect()
before = gc.mem_alloc()
from vicinal.cosmic.channels import NrtChannel, Raw, SrtChannel
from vicinal.cosmic.hrt import HrtChannel
from vicinal.cosmic.node import Node
from vicinal.cosmic.slot import Slot

def handler(what, detail, now):
    pass

node = Node(5, 500000)
brake = HrtChannel(node, 200, Slot("Brake", 1000, 10000, 8, 1, 500000, 20), Raw)
speed = SrtChannel(node, 201, 20000, 100000, Raw)
notes = NrtChannel(node, 202, 251, Raw)
for channel in (brake, speed, notes):
    channel.announce(0, handler)
    channel.subscribe(handler, 0, handler)
    channel.publish(b"12345678", 500)
now = 1000
for _ in range(3):
    frame = node.frame_to_send(now)
    if frame is None:
        raise SystemExit("nothing to send")
    now += 300
    node.frame_sent(frame, now)
if node.counters != {"out accepted": 3, "out sent": 3}:
    raise SystemExit(str(node.counters))
gc.collect()
print(gc.mem_alloc() - before)
"""


def rows(slots: int | None = None, events: int = _SRT_EVENTS, seeds: int = _SRT_SEEDS) -> Iterator[Row]:
    wanted = int(os.environ.get("VICINAL_BENCH_SLOTS", SLOTS)) if slots is None else slots
    # Not forked: whoever calls may have threads.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        turns = [(bitrate, -(-wanted // (4 * _PARTS)), seed) for seed in range(_PARTS) for bitrate in hard.BITRATES]
        parts = pool.map(_run, turns)
        late = pool.map(_late, [(load, events, seeds) for load in soft.LOADS])
        yield from _hard_rows(wanted, list(parts))
        for load, each in zip(soft.LOADS, late):
            yield _late_row(load, each)
    yield from _shares_rows()
    yield from _fault_rows()
    yield _heap_row()


_PARTS = 2  # runs for each bitrate, with other seeds: so that all cores have something to do until the end


def _run(turn: tuple[int, int, int]) -> hard.Hard:
    return hard.run(*turn)


def _hard_rows(wanted: int, parts: list[hard.Hard]) -> Iterator[Row]:
    for bitrate in hard.BITRATES:
        found = [part for part in parts if part.bitrate == bitrate]
        missed, above = sum(part.missed for part in found), sum(part.above for part in found)
        nearest = max(found, key=lambda part: part.worst / part.bound)
        yield Row(
            f"HRT at {bitrate // 1000} kbit/s, {hard.NODES} nodes, {hard.LOAD:.0%} load and a babbler",
            f"{missed} of {sum(part.slots for part in found):,} slots missed",
            f"worst latency {nearest.worst} us, bound {nearest.bound} us; {sum(part.destroyed for part in found):,} "
            f"frames destroyed, {sum(part.babbled for part in found):,} babbled",
            f"{nearest.worst / nearest.bound:.2f} of the bound",
            "no miss, never above the bound",
            missed == 0 and above == 0,
        )
    total, missed = sum(part.slots for part in parts), sum(part.missed for part in parts)
    yield Row(
        "HRT, all bitrates",
        f"{missed} of {total:,} slots missed",
        f"calendars hold {min(part.reserved for part in parts):.1%} of the bus, which is busy for "
        f"{min(part.load for part in parts):.2%}, {min(part.without for part in parts):.1%} without the babbler"
        + "".join(f"; {miss}" for part in parts for miss in part.misses[:2]),
        "",
        f"none in {SLOTS:,}" if wanted >= SLOTS else f"none in {SLOTS:,}; VICINAL_BENCH_SLOTS asked for {wanted:,}",
        missed == 0 if total >= SLOTS else None,
    )


def _late(turn: tuple[float, int, int]) -> dict[str, list[soft.Late]]:
    """By kind of arrivals, one for each bitrate, all seeds in one."""
    load, events, seeds = turn
    found: dict[str, list[soft.Late]] = {}
    for name, kind in (("bursts", soft.BURSTS), ("single", soft.SINGLE)):
        for bitrate in hard.BITRATES:
            each = [soft.late(bitrate, kind, load, events, seed) for seed in range(seeds)]
            found.setdefault(name, []).append(soft.Late(*(sum(column) for column in zip(*each))))
    return found


def _late_row(load: float, found: dict[str, list[soft.Late]]) -> Row:
    """The ratio is the worst of both kinds; few misses of all bitrates are judged as one number."""
    totals = {name: soft.Late(*(sum(column) for column in zip(*each))) for name, each in found.items()}
    ratio = max(each.ours / max(each.ideal, 1) for each in totals.values())
    events = sum(each.events for each in totals.values())
    return Row(
        f"SRT at load {load:g}: events late, of {events:,} at four bitrates",
        ", ".join(f"{name} {each.ours:,}" for name, each in totals.items()),
        "ideal EDF: " + ", ".join(f"{name} {each.ideal:,}" for name, each in totals.items()),
        f"{ratio:.2f} x",
        f"{GOAL_RATIO} x at most",
        ratio <= GOAL_RATIO,
    )


def _shares_rows() -> Iterator[Row]:
    found = soft.shares(500_000)
    yield Row(
        f"NRT bytes on a bus whose calendar holds {found.reserved:.0%}, 500 kbit/s",
        f"{found.silent:,.0f} bytes/s with HRT silent",
        f"HRT speaking in every slot {found.speaking:,.0f}, no calendar at all {found.without:,.0f}",
        f"{found.silent / found.without:.2f} of it all",
        "0.99 when silent",
        found.silent >= 0.99 * found.without,
    )


def _fault_rows() -> Iterator[Row]:
    for told, how in ((True, "told"), (False, "asked every 5 ms")):
        off = faults.bus_off(500_000, told)
        yield Row(
            f"bus-off on a full bus, 500 kbit/s, controller {how}",
            f"seen after {off.detected / 1000:.1f} ms, active after {off.back / 1000:.1f} ms",
            f"limits {GOAL_DETECTED // 1000} and {GOAL_BACK // 1000} ms; {off.lost} of {off.queued} events queued lost",
            f"{off.back / GOAL_BACK:.2f} of it",
            "within, nothing lost",
            off.detected <= GOAL_DETECTED and off.back <= GOAL_BACK and not off.lost,
        )
    attack = faults.hostile()
    yield Row(
        f"hostile fragments, {attack.frames:,}, some of 2^32 bytes",
        f"{attack.peak / 1000:,.0f} kB held at most, good again after {attack.recovered / 1e6:.2f} s",
        f"limits {GOAL_MEMORY // 1000:,} kB and {GOAL_RECOVERED / 1e6} s; counted: "
        + ", ".join(f"{reason} {count:,}" for reason, count in sorted(attack.dropped.items())),
        f"{attack.peak / GOAL_MEMORY:.2f} of it",
        "within, all counted",
        attack.peak <= GOAL_MEMORY and attack.recovered <= GOAL_RECOVERED and attack.balanced,
    )


def _heap_row() -> Row:
    what = "one HRT, one SRT and one NRT channel on a device"
    micropython = SOURCE.parents[1] / ".tools" / "micropython" / "micropython"
    if not micropython.exists():
        return Row(what, "not measured", "MicroPython is not there: run tools/get_micropython.sh")
    heap = measure(micropython, OPEN)
    return Row(
        what,
        f"{heap / 1024:.1f} KiB of heap",
        f"limit {GOAL_HEAP // 1024} KiB",
        f"{heap / GOAL_HEAP:.2f} of it",
        "under the limit",
        heap < GOAL_HEAP,
    )
