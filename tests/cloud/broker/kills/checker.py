"""The judge: what was published, what was acknowledged, what each durable subscriber got, and who was killed when.

Decides over finished histories and touches nothing. An event counts from its acknowledgement on: then it must come to
every durable subscriber whose filter it matches, once, and after all earlier ones of its producer. What was never
acknowledged may come or not. Times are seconds of one clock.

What is missing is put down to one of a few causes, by what happened around its acknowledgement:

    on disk, not given out        it is in the log of the durable subscription
    subscriber's broker down      it was not there when the event was acknowledged
    publisher's broker killed     within NEAR after the acknowledgement: it had not yet been handed on
    subscriber's broker killed    within NEAR after the acknowledgement: it had come, and was not yet on disk
    overlay healing               a broker had come back less than HEALING before: not all knew of all subscriptions
    other

The first that fits is taken, so that a count of a cause is a guess for one event and evidence for a hundred.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

__all__ = ["CAUSES", "Down", "Got", "Heard", "Said", "Verdict", "judge"]

NEAR = 0.25
HEALING = 3.0
# Of each kind: enough to see a pattern.
_SHOWN = 20

ON_DISK = "on disk, not given out"
R_DOWN = "subscriber's broker down"
S_KILLED = "publisher's broker killed"
R_KILLED = "subscriber's broker killed"
HEALS = "overlay healing"
OTHER = "other"
CAUSES = (ON_DISK, R_DOWN, S_KILLED, R_KILLED, HEALS, OTHER)


class Said(NamedTuple):
    """One event that was published; `acknowledged` is None if it never was."""

    producer: str
    seq: int
    broker: str
    acknowledged: float | None


class Got(NamedTuple):
    producer: str
    seq: int
    offset: int


class Heard(NamedTuple):
    """What a durable subscriber got, in the order it came."""

    subscriber: str
    broker: str
    wants: Callable[[str, int], bool]
    got: Sequence[Got]
    stored: frozenset[tuple[str, int]] = frozenset()
    """producer and seq of what is in its log at the end"""


class Down(NamedTuple):
    """A broker was dead (or stood still) from `at` to `until`."""

    broker: str
    at: float
    until: float
    how: str = "kill"


class Missing(NamedTuple):
    subscriber: str
    said: Said
    cause: str


class Verdict(NamedTuple):
    acknowledged: int
    wanted: int
    """deliveries that must have come"""
    lost: list[Missing]
    duplicated: list[tuple[str, Got]]
    disordered: list[tuple[str, Got]]
    invented: list[tuple[str, Got]]
    skipped: list[tuple[str, Got]]
    """those before which offsets of the durable subscription are missing: it is on disk and was not given out"""

    @property
    def fine(self) -> bool:
        return not (self.lost or self.duplicated or self.disordered or self.invented or self.skipped)

    @property
    def causes(self) -> dict[str, int]:
        counted = Counter(one.cause for one in self.lost)
        return {cause: counted[cause] for cause in CAUSES}

    def text(self, downs: Iterable[Down], begin: float = 0.0) -> str:
        counts = {
            "lost": self.lost,
            "duplicated": self.duplicated,
            "out of order": self.disordered,
            "never published": self.invented,
            "with offsets skipped before": self.skipped,
        }
        bad = ", ".join(f"{len(some)} {what}" for what, some in counts.items())
        lines = [f"{self.acknowledged} acknowledged, {self.wanted} deliveries wanted: {bad}"]
        lines += [f"  lost, {cause}: {count}" for cause, count in self.causes.items() if count]
        downs = sorted(downs, key=lambda one: one.at)
        for subscriber, producer, broker, first, last, when in _runs(self.lost)[:_SHOWN]:
            near = [one for one in downs if one.at - NEAR < when < one.until + 1.0]
            around = ", ".join(f"{one.how} {one.broker} {one.at - begin:.2f}-{one.until - begin:.2f}" for one in near)
            lines.append(
                f"  {subscriber} misses {producer} {first}..{last}, acknowledged by {broker} from "
                f"{when - begin:.2f} s on; around it: {around or 'nothing'}"
            )
        for what in ("duplicated", "disordered", "invented", "skipped"):
            lines += [f"  {what} at {who}: {got}" for who, got in getattr(self, what)[:_SHOWN]]
        return "\n".join(lines)


def _runs(lost: Sequence[Missing]) -> list[tuple[str, str, str, int, int, float]]:
    """Missing numbers that follow each other: subscriber, producer, its broker, first, last, time of the first."""
    found: list[tuple[str, str, str, int, int, float]] = []
    for one in sorted(lost, key=lambda one: (one.subscriber, one.said.producer, one.said.seq)):
        said = one.said
        last = found[-1] if found else None
        # A subscriber may want every third only.
        if last is not None and last[:2] == (one.subscriber, said.producer) and said.seq - last[4] <= 3:
            found[-1] = (*last[:4], said.seq, last[5])
        else:
            found.append((one.subscriber, said.producer, said.broker, said.seq, said.seq, said.acknowledged or 0.0))
    return found


def judge(said: Sequence[Said], heard: Sequence[Heard], downs: Sequence[Down]) -> Verdict:
    published = {(one.producer, one.seq) for one in said}
    acknowledged = [one for one in said if one.acknowledged is not None]
    verdict = Verdict(len(acknowledged), 0, [], [], [], [], [])
    wanted = 0
    for one in heard:
        came: set[tuple[str, int]] = set()
        last: dict[str, int] = {}
        following = one.got[0].offset if one.got else 0
        for got in one.got:
            identity = (got.producer, got.seq)
            if identity not in published:
                verdict.invented.append((one.subscriber, got))
            elif identity in came:
                verdict.duplicated.append((one.subscriber, got))
            elif got.seq < last.get(got.producer, -1):
                verdict.disordered.append((one.subscriber, got))
            if got.offset != following:
                verdict.skipped.append((one.subscriber, got))
            following = got.offset + 1
            came.add(identity)
            last[got.producer] = max(got.seq, last.get(got.producer, -1))
        for event in acknowledged:
            if one.wants(event.producer, event.seq):
                wanted += 1
                if (event.producer, event.seq) not in came:
                    verdict.lost.append(Missing(one.subscriber, event, _cause(event, one, downs)))
    return verdict._replace(wanted=wanted)


def _cause(event: Said, heard: Heard, downs: Sequence[Down]) -> str:
    when, subscribed_at = event.acknowledged, heard.broker
    assert when is not None
    if (event.producer, event.seq) in heard.stored:
        return ON_DISK
    kills = [one for one in downs if one.how == "kill"]
    if any(one.broker == subscribed_at and one.at <= when < one.until for one in kills):
        return R_DOWN
    if any(one.broker == event.broker and when <= one.at < when + NEAR for one in kills):
        return S_KILLED
    if any(one.broker == subscribed_at and when <= one.at < when + NEAR for one in kills):
        return R_KILLED
    if any(one.until <= when < one.until + HEALING for one in kills):
        return HEALS
    return OTHER
