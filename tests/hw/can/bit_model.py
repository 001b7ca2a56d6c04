"""A CAN bus bit by bit, as ISO 11898-1 draws it: slow, plain, and sharing no line with what it checks."""

from collections.abc import Sequence

from vicinal.cosmic.frame import Frame


def to_bits(number: int, width: int) -> list[int]:
    return [number >> place & 1 for place in reversed(range(width))]


def crc15(bits: Sequence[int]) -> list[int]:
    register = [0] * 15
    for bit in bits:
        feedback = bit ^ register[0]
        register = [*register[1:], 0]
        if feedback:
            # x^14 + x^10 + x^8 + x^7 + x^4 + x^3 + 1
            for power in (14, 10, 8, 7, 4, 3, 0):
                register[14 - power] ^= 1
    return register


def stuffed(bits: Sequence[int]) -> list[int]:
    out: list[int] = []
    for bit in bits:
        out.append(bit)
        if len(out) >= 5 and len(set(out[-5:])) == 1 and _run(out) % 5 == 0:
            out.append(1 - bit)
    return out


def _run(bits: Sequence[int]) -> int:
    run = 1
    while run < len(bits) and bits[-run - 1] == bits[-1]:
        run += 1
    return run


def arbitration_bits(frame: Frame) -> list[int]:
    """From the start of frame to the RTR bit of an extended frame, or the IDE bit of a standard one."""
    rtr = int(frame.remote)
    if frame.extended:
        identifier = to_bits(frame.id, 29)
        return [0, *identifier[:11], 1, 1, *identifier[11:], rtr]
    return [0, *to_bits(frame.id, 11), rtr, 0]


def wire_bits(frame: Frame) -> list[int]:
    """What the sender drives, to the end of the intermission; the acknowledgement is a 0 of the others."""
    body = [*arbitration_bits(frame), *([0, 0] if frame.extended else [0]), *to_bits(len(frame.data), 4)]
    if not frame.remote:
        for byte in frame.data:
            body += to_bits(byte, 8)
    return [*stuffed(body + crc15(body)), 1, 0, 1, *[1] * 7, *[1] * 3]


def arbitrate(frames: Sequence[Frame]) -> set[int]:
    """The places of those that are still sending after arbitration: who sends a 1 and sees a 0 is out."""
    sent = [stuffed(arbitration_bits(frame)) for frame in frames]
    left = set(range(len(frames)))
    for place in range(max(map(len, sent))):
        driven = {index: sent[index][place] for index in left if place < len(sent[index])}
        if not driven:
            break
        level = min(driven.values())
        left -= {index for index, bit in driven.items() if bit > level}
        if len(left) == 1:
            break
    return left
