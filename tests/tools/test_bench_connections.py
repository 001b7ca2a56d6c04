"""The benchmark of many TLS connections runs; what it measures is for `make bench`."""

from vicinal_tools.bench import connections


def test_all_get_the_event() -> None:
    found = connections.measure(20)
    assert found.delivered == found.connections == 20
    assert 0 < found.mb_before < found.mb < 1000


def test_its_rows() -> None:
    rows = list(connections.rows(10))
    assert [row.met is not None for row in rows] == [True, False, True, False]
    assert rows[2].against == "10 of 10 got it"
