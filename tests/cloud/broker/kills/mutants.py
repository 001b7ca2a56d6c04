"""Brokers broken on purpose, in their own process: a harness that lets one of these pass is no evidence."""

from collections.abc import Callable

__all__ = ["MUTANTS"]


def _no_replay() -> None:
    """Who has missed something is told at once that it has all."""
    from vicinal_cloud.broker.replay import Replays

    begin = Replays.begin
    Replays.begin = lambda self, reader, offset: begin(self, reader, offset if offset < 0 else self._engine.position)  # type: ignore[method-assign]


def _cursors_are_forgotten() -> None:
    """They are not on disk: every broker that was killed begins anew."""
    from vicinal_cloud.broker import cursors

    cursors.replace = lambda file, content: None


def _nothing_is_held() -> None:
    """What is published overtakes what is read from the log."""
    from vicinal.siena.broker import Broker

    Broker._hold = lambda self, reader: None  # type: ignore[method-assign]
    Broker._resume_ = Broker._resume  # type: ignore[attr-defined]

    def resume(self: Broker, reader: str, cursor: int | None, now: int) -> None:
        Broker._resume_(self, reader, cursor, now)  # type: ignore[attr-defined]
        self._behind.pop(reader, None)

    Broker._resume = resume  # type: ignore[method-assign]


MUTANTS: dict[str, Callable[[], None]] = {
    "no replay": _no_replay,
    "cursors are forgotten": _cursors_are_forgotten,
    "nothing is held": _nothing_is_held,
}
