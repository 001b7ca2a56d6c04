"""An event service that knows by StoreSeq what it has, as our broker does; and the judge of what has come to it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

Identity = tuple[str, int]


@dataclass
class Sink:
    """Numbers must rise. What is not above the highest is a repetition if it is known, else it came too late: a broker
    refuses it, and it is lost."""

    numbers: dict[int, Identity] = field(default_factory=dict)
    highest: int = 0
    repeated: int = 0
    order: list[Identity] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    excused: set[Identity] = field(default_factory=set)
    """refused because the disk failed: nobody knows whether it has them. They may come, or come too late"""

    def hear(self, number: int, identity: Identity) -> None:
        known = self.numbers.get(number)
        if known is not None:
            self.repeated += 1
            if known != identity:
                self.wrong.append(f"number {number} is {known} and {identity}")
        elif number <= self.highest:
            if identity not in self.excused:
                self.wrong.append(f"number {number} of {identity} came after {self.highest}")
        else:
            self.numbers[number] = identity
            self.highest = number
            self.order.append(identity)


@dataclass
class Verdict:
    lost: list[Identity]
    """accepted, and not there"""
    duplicated: list[Identity]
    unexpected: list[Identity]
    """there, and never attempted, or refused and not under way then"""
    inverted: list[Identity]
    """there after a later one of its producer"""
    wrong: list[str]

    def __bool__(self) -> bool:
        return any(vars(self).values())


def judge(sink: Sink, accepted: Iterable[Identity], attempted: Iterable[Identity]) -> Verdict:
    found: set[Identity] = set()
    duplicated, inverted = [], []
    tops: dict[str, int] = {}
    for producer, seq in sink.order:
        if (producer, seq) in found:
            duplicated.append((producer, seq))
        elif seq <= tops.get(producer, -1):
            inverted.append((producer, seq))
        found.add((producer, seq))
        tops[producer] = max(seq, tops.get(producer, -1))
    return Verdict(sorted(set(accepted) - found), duplicated, sorted(found - set(attempted)), inverted, sink.wrong)
