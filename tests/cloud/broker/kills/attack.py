"""One run: an overlay under load and fire, from a seed, and the verdict.

    verdict = asyncio.run(attack(folder, Plan("ring", kills=100, seed=7)))

Publishers at every broker, durable subscribers at some; brokers die by SIGKILL, one or several at once, stay away for
a while or none, stand still (SIGSTOP) and go on; subscribers die too and go on from their offset as new clients. Then
peace: everything that was acknowledged must come. The seed decides what is done and the pauses between; when a process
gets its turn is the machine's affair, so that a seed that failed fails again often, not always.
"""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from cloud.broker.brokers import PATIENCE, until
from cloud.broker.kills.checker import Verdict, judge
from cloud.broker.kills.load import Publisher, Subscriber
from cloud.broker.kills.nursery import Nursery
from cloud.broker.kills.overlay import Overlay

__all__ = ["Attack", "Plan", "attack", "check", "quiet", "started", "verdict_of"]

# Seconds in which a subscriber has got nothing new before the rest counts as lost. A packet that was lost on the way is
# sent again after 2 s, and after 4, 8 and 16 if that was lost too.
QUIET = float(os.environ.get("VICINAL_QUIET", "12"))


class Plan(NamedTuple):
    shape: str
    kills: int
    seed: int
    targets: tuple[str, ...] = ()
    """who may be killed; nobody named: all"""
    publishers: tuple[str, ...] = ()
    """where they are; nobody named: one at every broker"""
    subscribers: tuple[str, ...] = ("b1", "b2")
    """where they are; the second and every other wants a third of the events"""
    rate: float = 100.0
    """events a second of each publisher"""
    together: float = 0.15
    """the chance that several are killed at once"""
    pauses: float = 0.1
    """the chance that a broker stands still instead"""
    away: float = 0.4
    """seconds that a killed broker stays away at most"""
    between: float = 0.5
    """seconds between two attacks at most"""
    renewals: float = 0.05
    """the chance that a subscriber dies as well"""
    scoped: bool = False
    mutant: str | None = None


class Attack(NamedTuple):
    plan: Plan
    overlay: Overlay
    publishers: list[Publisher]
    subscribers: list[Subscriber]


@asynccontextmanager
async def started(folder: Path, plan: Plan) -> AsyncIterator[Attack]:
    """All is there, every broker with publishers knows all subscriptions, every broker with subscribers has a cursor
    for it: from now on every event counts."""
    async with Nursery() as nursery:
        overlay = Overlay(folder, nursery, plan.shape, plan.scoped, plan.mutant)
        for name in overlay.names:
            await overlay.start(name)
        places = plan.publishers or tuple(overlay.names)
        publishers = [
            Publisher(f"p{at}", name, overlay.addresses[name], plan.rate, plan.scoped, plan.seed * 100 + at)
            for at, name in enumerate(places)
        ]
        subscribers = [
            Subscriber(
                f"s{at}", name, overlay.addresses[name], (None, 1)[at % 2], plan.scoped, plan.seed * 100 + 50 + at
            )
            for at, name in enumerate(plan.subscribers)
            if name in overlay.names
        ]
        try:
            for one in [*publishers, *subscribers]:
                await one.start()
            for name in places:
                await until(
                    lambda name=name: _knows(overlay, name, len(subscribers)), f"{name} knows all subscriptions"
                )
            for name in {one.broker for one in subscribers}:
                await until(lambda name=name: _begun(overlay, name, places), f"{name} has a cursor for every broker")
            yield Attack(plan, overlay, publishers, subscribers)
        finally:
            for one in [*publishers, *subscribers]:
                await one.close()


async def _knows(overlay: Overlay, name: str, count: int) -> bool:
    found = (await overlay.status(name))["overlay"]
    return bool(found["interest"] + found["subscriptions"] >= count)


async def _begun(overlay: Overlay, name: str, places: tuple[str, ...]) -> bool:
    return set(places) <= set((await overlay.status(name))["log"]["cursors"])


async def attack(folder: Path, plan: Plan) -> tuple[Verdict, str]:
    """The verdict, and what to print when it is bad."""
    begin = time.monotonic()
    async with started(folder, plan) as under:
        running = [asyncio.create_task(one.run()) for one in under.publishers]
        await _fire(under)
        for one in under.publishers:
            one.stop()
        await asyncio.gather(*running)
        unanswered = [await one.unanswered(PATIENCE) for one in under.publishers]
        peace = await quiet(under)
    verdict = verdict_of(under)
    kills = len([one for one in under.overlay.downs if one.how == "kill"])
    lines = [
        f"{plan}: {kills} kills in {time.monotonic() - begin:.0f} s, the last {peace:.0f} s of it in peace",
        verdict.text(under.overlay.downs, begin),
    ]
    if any(unanswered):
        lines.append(f"  publishes without an answer for {PATIENCE:.0f} s: {unanswered}")
    lines += [f"  {one.name} was refused: {one.refused[:5]}" for one in under.publishers if one.refused]
    lines += [f"  {one.name} was sent {one.duplicates} again" for one in under.subscribers if one.duplicates]
    for name in under.overlay.names:
        if errors := under.overlay.errors(name):
            lines.append(f"  {name} said: {errors}")
    return verdict, "\n".join(lines)


async def _fire(under: Attack) -> None:
    plan, overlay = under.plan, under.overlay
    chance = random.Random(plan.seed)
    targets = list(plan.targets or overlay.names)
    kills = 0
    await asyncio.sleep(0.3)
    while kills < plan.kills:
        for task in [one for one in asyncio.all_tasks() if one.done()]:
            task.result()
        if chance.random() < plan.renewals:
            await chance.choice(under.subscribers).anew()
        if chance.random() < plan.pauses:
            await overlay.pause(chance.choice(targets), chance.uniform(0.05, 1.0))
        else:
            many = chance.randint(1, len(targets)) if chance.random() < plan.together else 1
            hit = chance.sample(targets, min(many, plan.kills - kills))
            await overlay.kill(*hit)
            await asyncio.sleep(chance.uniform(0, plan.away) if chance.random() < 0.5 else 0)
            for name in hit:
                await overlay.start(name)
            kills += len(hit)
        # Often right away, sometimes after everything has healed.
        await asyncio.sleep(chance.random() ** 2 * plan.between if chance.random() < 0.93 else 3)


def verdict_of(under: Attack) -> Verdict:
    said = [one for publisher in under.publishers for one in publisher.said]
    return judge(said, [one.heard(under.overlay.folder) for one in under.subscribers], under.overlay.downs)


async def quiet(under: Attack) -> float:
    """Waits for all that must come, or until nothing comes any more. Seconds."""
    acknowledged = [one for publisher in under.publishers for one in publisher.said if one.acknowledged is not None]
    begin = moved = time.monotonic()
    wanted = [
        len([one for one in acknowledged if subscriber.wants(one.producer, one.seq)])
        for subscriber in under.subscribers
    ]
    before: list[int] = []
    while True:
        counts = [len(one.got) for one in under.subscribers]
        if counts != before:
            before, moved = counts, time.monotonic()
        # What was not acknowledged may have come too, so that enough is not yet all.
        if all(have >= want for have, want in zip(counts, wanted)) and time.monotonic() - moved > 0.5:
            verdict = judge(acknowledged, [one.heard() for one in under.subscribers], [])
            if not verdict.lost:
                break
        if time.monotonic() - moved > QUIET:
            break
        await asyncio.sleep(0.05)
    return time.monotonic() - begin


def check(folder: Path, plan: Plan) -> Verdict:
    """Raises AssertionError with the whole story, unless all is well."""
    verdict, story = asyncio.run(attack(folder, plan))
    assert verdict.acknowledged > plan.kills, f"too little load to mean anything: {story}"
    assert verdict.fine, story
    return verdict


def main() -> None:
    """python -m cloud.broker.kills.attack SHAPE KILLS SEED [key=value ...]: one run by hand, from tests/."""
    import sys
    import tempfile

    shape, kills, seed, *more = sys.argv[1:]
    plan = Plan(shape, int(kills), int(seed))
    for one in more:
        key, _, value = one.partition("=")
        kind = type(getattr(plan, key))
        found = tuple(value.split(",")) if kind is tuple else value if key == "mutant" else kind(float(value))
        plan = plan._replace(**{key: found})
    with tempfile.TemporaryDirectory() as folder:
        print(asyncio.run(attack(Path(folder), plan))[1])


if __name__ == "__main__":
    main()
