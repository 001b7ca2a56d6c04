"""A broker that takes no more of what is published: how long it is waited for, and who waits."""

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import ScopeGraph, Tags
from vicinal.siena.broker import Broker, Busy
from vicinal.siena.records import Record
from vicinal.siena.streams import MAX_QUEUE
from vicinal.siena.yielding import STALLED


def beside(other: str) -> Broker:
    """A broker, and another that wants all and says nothing more."""
    found = Broker("b1", 1, ScopeGraph())
    found.link_up(other, 0)
    found.receive(other, ("record", Record(other, 7, 1, ("b1",), frozenset(), ())), 0)
    content = ("add", 1, Filter("TRUE"), Tags())
    found.receive(other, ("packets", 1, other, 7, (), content, [("b1", 1, 1, 1, ())], ()), 0)
    return found


def publish(broker: Broker, seqs: range, now: int) -> int:
    """How many are taken before it is busy."""
    for seq in seqs:
        try:
            broker.publish("car", Tags(), Event("Speed", [], {}, "car", seq), now)
        except Busy:
            return seq - seqs[0]
    return len(seqs)


def test_a_broker_that_takes_nothing_is_given_up():
    broker = beside("b2")
    assert publish(broker, range(2 * MAX_QUEUE), 0) == MAX_QUEUE
    assert not broker.make_room("b2", STALLED - 1)
    assert publish(broker, range(MAX_QUEUE, 2 * MAX_QUEUE), STALLED - 1) == 0
    # Given up; and again at once, as it still takes nothing.
    assert publish(broker, range(MAX_QUEUE, 4 * MAX_QUEUE), STALLED) == 3 * MAX_QUEUE
    assert broker.counts["given up: took nothing"] == 3
    assert broker.counts["dropped: out of reach"] == 3 * MAX_QUEUE
    assert broker.counts["published"] == 4 * MAX_QUEUE


def test_a_broker_that_takes_something_is_waited_for():
    broker = beside("b2")
    assert publish(broker, range(2 * MAX_QUEUE), 0) == MAX_QUEUE
    broker.receive("b2", ("ack", 0, "b2", 7, "b1", (1, 1), 1), STALLED - 1)
    assert publish(broker, range(MAX_QUEUE, 2 * MAX_QUEUE), STALLED - 1) == 1
    assert publish(broker, range(MAX_QUEUE + 1, 2 * MAX_QUEUE), 2 * STALLED - 2) == 0
    assert "dropped: out of reach" not in broker.counts
    # And one that has started again is waited for anew.
    assert publish(broker, range(MAX_QUEUE + 1, MAX_QUEUE + 2), 2 * STALLED) == 1
    broker.receive("b2", ("record", Record("b2", 8, 1, ("b1",), frozenset(), ())), 2 * STALLED)
    content = ("add", 1, Filter("TRUE"), Tags())
    broker.receive("b2", ("packets", 1, "b2", 8, (), content, [("b1", 1, 1, 1, ())], ()), 2 * STALLED)
    seqs = range(MAX_QUEUE + 2, 4 * MAX_QUEUE)
    taken = publish(broker, seqs, 2 * STALLED)
    assert 0 < taken < len(seqs)
    assert publish(broker, seqs[taken:], 3 * STALLED - 1) == 0


def test_one_out_of_reach_is_given_up_at_once():
    broker = beside("b2")
    assert publish(broker, range(2 * MAX_QUEUE), 0) == MAX_QUEUE
    broker.link_down("b2", 1)
    assert broker.make_room("b2", 1)
    assert publish(broker, range(MAX_QUEUE, 2 * MAX_QUEUE), 1) == MAX_QUEUE


def test_a_reader_has_not_caught_up_while_there_is_a_gap():
    broker = beside("b2")
    broker.position = 5
    broker.receive("b2", ("packets", 1, "b2", 7, (), ("resume", 0), [("b1", 1, 1, 2, ())], ()), 0)
    assert ("replay", "b2", 0) in broker.actions()
    broker.has_gap = True
    broker.caught_up("b2", 0)
    assert broker.actions() == [("replay", "b2", 5)]
    broker.has_gap = False
    broker.position = 9
    broker.caught_up("b2", 0)
    sent = [what[5] for kind, _, what in broker.actions() if kind == "send" and what[0] == "packets"]
    assert sent == [("mark", 9)]
