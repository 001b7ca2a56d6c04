"""The judge of the kills finds what it is there to find."""

from cloud.broker.kills.checker import (
    HEALS,
    ON_DISK,
    OTHER,
    R_DOWN,
    R_KILLED,
    S_KILLED,
    Down,
    Got,
    Heard,
    Said,
    Verdict,
    judge,
)

SAID = [Said("p", seq, "b1", float(seq)) for seq in range(1, 7)] + [Said("p", 7, "b1", None)]


def heard(*seqs: int, stored: tuple[int, ...] = ()) -> Heard:
    got = [Got("p", seq, offset) for offset, seq in enumerate(seqs)]
    return Heard("s", "b2", lambda producer, seq: True, got, frozenset(("p", seq) for seq in stored))


def verdict(*seqs: int, downs: tuple[Down, ...] = (), stored: tuple[int, ...] = ()) -> Verdict:
    return judge(SAID, [heard(*seqs, stored=stored)], downs)


def missing(found: Verdict) -> list[tuple[int, str]]:
    return [(one.said.seq, one.cause) for one in found.lost]


def test_all_is_well_with_and_without_what_was_not_acknowledged() -> None:
    assert verdict(1, 2, 3, 4, 5, 6).fine
    assert verdict(1, 2, 3, 4, 5, 6, 7).fine
    assert (verdict(1, 2, 3, 4, 5, 6).acknowledged, verdict().wanted) == (6, 6)


def test_lost_at_the_front_in_the_middle_and_at_the_end() -> None:
    assert missing(verdict(2, 3, 5, 7)) == [(1, OTHER), (4, OTHER), (6, OTHER)]
    assert missing(verdict()) == [(seq, OTHER) for seq in range(1, 7)]


def test_duplicated_out_of_order_and_invented() -> None:
    assert [got.offset for _, got in verdict(1, 2, 2, 3, 4, 5, 6).duplicated] == [2]
    assert [got.seq for _, got in verdict(1, 3, 2, 4, 5, 6).disordered] == [2]
    assert [got.seq for _, got in verdict(1, 2, 3, 4, 5, 6, 8).invented] == [8]


def test_an_offset_that_was_skipped() -> None:
    one = heard(1, 2, 3, 4, 5, 6)
    jump = one._replace(got=[*one.got[:3], *[got._replace(offset=got.offset + 1) for got in one.got[3:]]])
    found = judge(SAID, [jump], [])
    assert [got.seq for _, got in found.skipped] == [4]
    assert not found.fine


def test_a_subscriber_must_get_only_what_it_wants() -> None:
    even = heard(2, 4, 6)._replace(wants=lambda producer, seq: seq % 2 == 0)
    assert judge(SAID, [even], []).fine


def test_what_is_missing_has_a_cause() -> None:
    downs = (
        Down("b2", 0.9, 1.1),  # there when 1 was acknowledged
        Down("b1", 2.1, 2.2),  # dies right after 2
        Down("b2", 3.1, 3.15),  # dies right after 3
        Down("b1", 3.9, 3.95),  # has just come back when 4 is acknowledged
    )
    found = verdict(6, downs=downs, stored=(5,))
    assert missing(found) == [(1, R_DOWN), (2, S_KILLED), (3, R_KILLED), (4, HEALS), (5, ON_DISK)]
    story = found.text(downs)
    assert "s misses p 1..5, acknowledged by b1" in story
    assert "kill b2 0.90-1.10" in story
    assert missing(verdict(1, 2, 3, 4, 5, downs=(Down("b1", 0, 1, "pause"),))) == [(6, OTHER)]
