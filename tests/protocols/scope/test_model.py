"""vicinal.scope against brute force over the whole graph, in worlds by chance. No leak and no miss."""

import random

import pytest
from protocols.scope import model
from protocols.scope.worlds import World, form_of

from vicinal.scope.journey import Journey
from vicinal.scope.manager import ScopeManager

# 400 worlds of 25 publications in each of the ten: 10^5.
WORLDS, PUBLICATIONS = 400, 25
spec = pytest.mark.spec


def publish(manager: ScopeManager, name: str, event, start: int):
    """With everything that publishing policies hold back for a while."""
    found = [(0, one) for one in manager.publish(name, event, start)]
    while (due := manager.next_timeout(start)) is not None:
        found += [(due - start, one) for one in manager.handle_timeout(due)]
    return [(when, one.component, one.scope, form_of(one.event)) for when, one in found]


@spec("SCOPE-2", "SCOPE-3", "SCOPE-4", "SCOPE-5", "SCOPE-6", "SCOPE-8", "SCOPE-9", "SCOPE-14", "SCOPE-15", "SCOPE-16")
@pytest.mark.parametrize("seed", range(10))
def test_every_publication_goes_where_the_model_says(seed):
    delivered = 0
    for number in range(WORLDS):
        world = World(seed * WORLDS + number)
        manager = ScopeManager(world.graph)
        for seq in range(PUBLICATIONS):
            form, event = world.event(seq)
            name = world.random.choice(world.names)
            expected = model.deliver(world.model, name, form)
            found = publish(manager, name, event, seq * 1000)
            assert found == expected, (seed * WORLDS + number, seq, name, form)
            delivered += len(found)
        counts = manager.counts
        assert counts["published"] == PUBLICATIONS == counts.get("moved", 0) + counts.get("refused", 0)
        assert counts.get("held", 0) == counts.get("released", 0) + counts.get("closed", 0)
    assert delivered > WORLDS * PUBLICATIONS / 2  # worlds in which nothing moves prove nothing


@spec("SCOPE-2", "SCOPE-3", "SCOPE-6", "SCOPE-35")
@pytest.mark.parametrize("seed", range(4))
def test_without_mappings_and_policies_visibility_alone_decides(seed):
    """All ways of the whole graph are gone through, and nothing of how events move is used."""
    heard = 0
    for number in range(50):
        world = World(seed * 50 + number, plain=True)
        moved = ScopeManager(world.graph)
        for seq in range(20):
            form, event = world.event(seq)
            for name in world.names:
                dimensions = {scope.dimension for scope in world.model.scopes.values()}
                mine = [world.model.inside(name, d) for d in dimensions]
                silent = any(scopes and not world.model.may(name, scopes, "say") for scopes in mine)
                expected = [
                    other
                    for other in world.names
                    if other != name and not silent and world.model.parts[other].takes(form)
                    if all(world.model.seen(form, name, other, d) for d in dimensions)
                ]
                assert sorted(one.component for one in moved.publish(name, event, 0)) == expected
                heard += len(expected)
    assert heard > 2000


@spec("SCOPE-23", "SCOPE-24", "SCOPE-25", "SCOPE-34")
@pytest.mark.parametrize("seed", range(4))
def test_while_everything_changes_nothing_is_lost_uncounted_and_nobody_hears_without_a_right(seed):
    """Worlds replace each other under what is held, rights end, and the manager is started anew in the middle."""
    chance = random.Random(seed)
    heard = held = 0
    for number in range(60):
        worlds = [World(seed * 1000 + number * 10 + i) for i in range(3)]
        manager, now, denied = ScopeManager(worlds[0].graph), 0, set()
        world, deliveries, received = worlds[0], [], set()
        for seq in range(40):
            now += chance.randrange(15)
            act = chance.randrange(8)
            if act == 0:
                world = chance.choice(worlds)
                deliveries = manager.reload(world.graph, now)
            elif act == 1:
                name, deliveries = chance.choice(world.names), []
                for scope in world.graph.scopes:
                    denied.add((name, scope))
                    manager.memberships.deny(name, scope)
            elif act == 2:
                kept = manager.waiting()
                copies = {id(one[2]): Journey.of(one[2].item(), one[2].event) for one in kept}
                before, manager = manager, ScopeManager(world.graph, manager.memberships)
                manager.counts = before.counts | {"held": before.counts.get("held", 0) - len(kept)}
                deliveries = manager.restore(
                    [(name, since, copies[id(one)], event) for name, since, one, event in kept], now
                )
            elif act == 3:
                deliveries = manager.handle_timeout(now)
            else:
                _, event = world.event(seq)
                deliveries = manager.publish(chance.choice(world.names), event, now)
            for one in deliveries:
                inside = world.graph.components[one.component].scopes
                assert not inside or any((one.component, scope) not in denied for scope in inside)
                assert (one.component, one.event.seq) not in received
                received.add((one.component, one.event.seq))
            counts = manager.counts
            done = sum(counts.get(what, 0) for what in ("released", "expired", "closed"))
            assert counts.get("held", 0) == done + len(manager.waiting())
            heard += len(deliveries)
            held += counts.get("held", 0) > 0
    assert heard > 1000
    assert held > 500
