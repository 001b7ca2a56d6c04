"""Which transmissions a disturbance destroys: for Bus(omit=...), with a seed, so that every run is the same run."""

from random import Random

from vicinal.cosmic.frame import Frame

from .bus import INTACT, LAST_BIT

__all__ = ["Omissions"]


class Omissions:
    """Destroys each transmission with a probability, but the same frame at most `degree` times in a row.

    `degree` is what a calendar plans for (the omission degree); None has no such mercy. Destroyed is the last bit,
    which costs most; with `anywhere`, any.
    """

    def __init__(self, seed: int, probability: float, degree: int | None = None, anywhere: bool = False) -> None:
        self._random = Random(seed)
        self._probability = probability
        self._degree = degree
        self._anywhere = anywhere
        self.destroyed = 0

    def __call__(self, frame: Frame, attempts: int, start: int) -> int:
        if self._degree is not None and attempts >= self._degree:
            return INTACT
        if self._random.random() >= self._probability:
            return INTACT
        self.destroyed += 1
        return self._random.randint(1, 160) if self._anywhere else LAST_BIT
