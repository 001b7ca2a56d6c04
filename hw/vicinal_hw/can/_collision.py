"""Two controllers that send the same identifier: arbitration ends without a loser, and they go on together.

With the same data nobody notices, and both have sent. With different data the first bit that differs is a bit error for
whoever sends the recessive one. If it is error active, its error flag destroys the frame for all. If it is passive, it
drops out without a sound, and the others finish: that is how such a quarrel ends on a real bus, after 16 rounds.
"""

from typing import NamedTuple

from vicinal.cosmic.frame import Frame

from .controller import Controller, State

__all__ = ["Collision", "collide"]


class Collision(NamedTuple):
    frame: Frame
    """what is on the wire"""
    fails_at: int
    """the bit at which an error flag starts, or 0"""
    finished: list[Controller]
    """those whose frame it is, if it does not fail"""
    dropped_out: list[Controller]


def collide(group: list[Controller]) -> Collision:
    left = [(_after_arbitration(controller.mailbox), controller) for controller in group if controller.mailbox]
    dropped_out: list[Controller] = []
    while True:
        lowest, first = min(left, key=lambda each: each[0])
        frame = first.mailbox
        assert frame is not None
        differ = [(_first_difference(lowest, bits), controller) for bits, controller in left if bits != lowest]
        if not differ:
            return Collision(frame, 0, [controller for _, controller in left], dropped_out)
        at = min(differ, key=lambda each: each[0])[0]
        losers = [controller for place, controller in differ if place == at]
        if any(controller.state is not State.PASSIVE for controller in losers):
            raw = (35 if frame.extended else 15) + at
            return Collision(frame, raw + (raw - 1) // 4, [], dropped_out)  # with the most stuff bits there can be
        dropped_out += losers
        left = [each for each in left if each[1] not in losers]


def _after_arbitration(frame: Frame) -> str:
    """The bits of length and data."""
    data = b"" if frame.remote else frame.data
    return f"{len(frame.data):04b}" + "".join(f"{byte:08b}" for byte in data)


def _first_difference(one: str, other: str) -> int:
    """Counted from 1."""
    return next(place for place, (a, b) in enumerate(zip(one, other), 1) if a != b)
