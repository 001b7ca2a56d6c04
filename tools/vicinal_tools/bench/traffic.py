"""Traffic control under load: a thousand vehicles, each once a second of the town's time, with real monitors, brokers
and office (demo/crowd.py says what of the vehicles is real). The offences must be those of the ground truth, exactly.

    python -m vicinal_tools.bench.traffic 1000 10 8        vehicles, seconds of the town, seconds of the clock for each
"""

import sys
from collections.abc import Iterator

from ..demo.load import Loaded, load
from . import Row


def rows(vehicles: int = 1000, seconds: int = 10, scale: float = 8.0) -> Iterator[Row]:
    yield row(vehicles, seconds, load(vehicles, seconds, scale))


def row(vehicles: int, seconds: int, found: Loaded) -> Row:
    summary = found.summary
    judged, memory = summary.judgement, sum(summary.memory_mb.values())
    spent = sum(summary.cpu_s.values())
    vehicles_cpu = summary.cpu_s.get("fleet", 0.0)
    return Row(
        f"traffic control, {vehicles:,} vehicles at 1 Hz for {seconds} s, each {found.scale:.1f} s long",
        f"{len(found.offences)} offences of {judged.said:,} events said, {judged.crossed:,} of which left the roadside",
        f"{len(found.expected.offences)} by the ground truth, {found.expected.lenient} of {found.expected.over:,} "
        f"reports by a higher limit; {len(judged.missing)} missing, {len(judged.extra)} too many; the air lost "
        f"{len(judged.unheard):,} of {judged.near:,}",
        f"{spent:.0f} s of CPU, {vehicles_cpu:.0f} of them the vehicles and the air; {memory} MB",
        "the same offences, nothing missing, nothing too many",
        found.exact and bool(found.offences),
    )


if __name__ == "__main__":
    arguments = [float(one) for one in sys.argv[1:]]
    for one in rows(*[int(number) for number in arguments[:2]], *arguments[2:]):
        print(one)
        sys.exit(not one.met)
