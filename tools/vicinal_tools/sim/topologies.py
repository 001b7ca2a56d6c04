"""Overlays to measure: their links, and the regions that scopes are made of."""

import random
from collections import deque

__all__ = ["TOPOLOGIES", "links_of", "regions"]

TOPOLOGIES = ("tree", "grid", "scale-free")


def links_of(topology: str, count: int, rng: random.Random) -> dict[int, set[int]]:
    links: dict[int, set[int]] = {number: set() for number in range(count)}

    def link(a: int, b: int) -> None:
        links[a].add(b)
        links[b].add(a)

    if topology == "tree":
        for number in range(1, count):
            link(number, (number - 1) // 4)
    elif topology == "grid":
        width = max(1, int(count**0.5))
        for number in range(count):
            if (number + 1) % width and number + 1 < count:
                link(number, number + 1)
            if number + width < count:
                link(number, number + width)
    elif topology == "scale-free":
        # Barabasi and Albert: the newcomer links to two, chosen by how many links they have.
        ends = [0]
        for number in range(1, count):
            for other in {rng.choice(ends) for _ in range(2)}:
                link(number, other)
                ends += [number, other]
    else:
        raise ValueError(f"topology {topology!r}, want one of {', '.join(TOPOLOGIES)}")
    return links


def regions(links: dict[int, set[int]], size: int, rng: random.Random) -> list[int]:
    """Connected regions of about so many brokers: the region of each."""
    found = [-1] * len(links)
    order = list(links)
    rng.shuffle(order)
    region = 0
    for start in order:
        if found[start] >= 0:
            continue
        left = size
        front = deque([start])
        while front and left:
            here = front.popleft()
            if found[here] < 0:
                found[here] = region
                left -= 1
                front.extend(sorted(other for other in links[here] if found[other] < 0))
        region += 1
    return found
