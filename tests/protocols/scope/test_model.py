"""vicinal.scope against brute force over the whole graph, in worlds by chance. No leak and no miss."""

import pytest
from protocols.scope import model
from protocols.scope.worlds import World, form_of

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
