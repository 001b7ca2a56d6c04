"""A car's CAN log to JSON lines, as `vicinal can decode` does it, beside cantools in the short script one would write.

The log and its DBC file are made here, in the proportions of a car's: 80 messages of 2 to 12 signals with periods of
10 ms to 1 s. Real captures are not in this repository; those of a Ford Fusion gave figures of the same order. The
script takes every line for a good one, while ours finds those that are not; starting up and reading the DBC file are in
neither figure.
"""

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cantools

from vicinal_hw.can import dbc

from ..can.decode import Decoder
from ..can.logs import open_log
from . import Row, cpu_time

GOAL_RATE = 100_000
_MESSAGES = 80
_FRAMES = 60_000


def rows(frames: int = _FRAMES) -> Iterator[Row]:
    text = database_text()
    theirs: Any = cantools.database.load_string(text, "dbc")
    mapping = dbc.loads(text)
    wanted = "Message0"
    with tempfile.TemporaryDirectory(prefix="bench-can-") as folder:
        log = Path(folder, "drive.log")
        log.write_text(capture(frames))
        by_id = {message.frame_id: message for message in theirs.messages}
        one = {message.frame_id: message for message in theirs.messages if message.name == wanted}
        assert ours(log, Decoder(mapping, [wanted])) == peer(log, one)
        assert ours(log, Decoder(mapping)) == peer(log, by_id)
        for what, names, messages in (("one message of 80", [wanted], one), ("every message", [], by_id)):
            mine, other = cpu_time(
                lambda names=names: ours(log, Decoder(mapping, names)),  # type: ignore[misc]
                lambda messages=messages: peer(log, messages),  # type: ignore[misc]
                seconds=1.0,
            )
            goal = not messages or len(messages) == 1
            yield Row(
                f"CAN log decoded to JSON, {what}",
                f"{frames / mine:,.0f} frames/s",
                f"a script with cantools {frames / other:,.0f}/s",
                f"{other / mine:.1f} x faster",
                f"{GOAL_RATE:,}/s" if goal else "",
                frames / mine >= GOAL_RATE if goal else None,
            )
    found = [(mapping.messages[at], theirs.messages[at]) for at in range(0, _MESSAGES, 8)]
    data = random.Random(1).randbytes(8)
    mine, other = cpu_time(
        lambda: [message.params(data) for message, _ in found],
        lambda: [message.decode(data, decode_choices=False) for _, message in found],
    )
    yield Row(
        "one CAN frame decoded",
        f"{len(found) / mine:,.0f} frames/s",
        f"cantools {len(found) / other:,.0f}/s",
        f"{other / mine:.1f} x faster",
    )


def ours(log: Path, decoder: Decoder) -> list[Any]:
    source = open_log(str(log))
    lines = [line for batch in source.batches(decoder.wanted) for line in decoder.feed(batch)]
    source.close()
    return [len(lines), json.loads(lines[0]), json.loads(lines[-1])]


def peer(log: Path, messages: dict[int, Any]) -> list[Any]:
    lines = []
    with log.open() as file:
        for line in file:
            stamp, _, frame = line.split()
            number, _, data = frame.partition("#")
            message = messages.get(int(number, 16))
            if message is not None:
                params = message.decode(bytes.fromhex(data), decode_choices=False)
                lines.append(json.dumps({"time": float(stamp[1:-1]), "subject": message.name, "params": params}))
    return [len(lines), json.loads(lines[0]), json.loads(lines[-1])]


def database_text() -> str:
    chance = random.Random(1)
    lines = ['VERSION ""', "BU_: ECU"]
    for at in range(_MESSAGES):
        lines.append(f"BO_ {0x100 + at} Message{at}: 8 ECU")
        count = chance.randint(2, 12)
        width = 64 // count
        for signal in range(count):
            first = signal * width
            start = first // 8 * 8 + 7 - first % 8
            factor = chance.choice(["(1,0)", "(0.01,0)", "(0.5,-40)", "(1,0)"])
            lines.append(
                f' SG_ Signal{at}_{signal} : {start}|{min(width, 16)}@0{chance.choice("+-")} {factor} [0|0] "" ECU'
            )
    return "\n".join(lines) + "\n"


def capture(frames: int) -> str:
    chance = random.Random(2)
    periods = [chance.choice([10, 20, 50, 100, 1000]) for _ in range(_MESSAGES)]
    periods[0] = 10
    # When each message comes next, in ms; at the same time by identifier, as the arbitration has it.
    due = [(at % period, at) for at, period in enumerate(periods)]
    lines = []
    for _ in range(frames):
        when, at = min(due)
        due[at] = (when + periods[at], at)
        lines.append(f"({1487341883 + when / 1000:.6f}) can0 {0x100 + at:03X}#{chance.randbytes(8).hex().upper()}\n")
    return "".join(lines)
