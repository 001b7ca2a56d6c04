"""Up to when the office has heard all that its broker has stored for it: a case is final by that, not by the clock.

    stored at the broker    ─x──x────x─x──────x───x──────────x──▶ time
    heard here              ─────────────────┘ the last: all before it is known, what is behind it is not

While the office was away, or had lost its broker or its database, what was stored meanwhile comes late, and yet was in
time: its broker says when it stored it. So nothing is fined before that could have come. Who hears what was stored just
now hears everything; and so does who has heard nothing for a while though the connection is there.
"""

__all__ = ["LAG_MS", "QUIET_MS", "Progress"]

LAG_MS = 2_000
"""from the broker's disk to us, and between the clocks of both"""
QUIET_MS = 10_000
"""that nothing comes: then nothing is waiting. A broker gives what it has at once"""


class Progress:
    def __init__(self) -> None:
        self._connected = False
        self._waiting = True
        """whether more may be stored for us than we have heard"""
        self._at = 0
        """when something last came, or the connection"""
        self._stored = 0

    def connected(self, now: int) -> None:
        """Or we listen again: something may be waiting."""
        self._connected, self._waiting, self._at = True, True, now

    def lost(self) -> None:
        self._connected = False

    def heard(self, stored: int, now: int) -> None:
        self._stored = max(self._stored, stored)
        self._waiting, self._at = now - stored > LAG_MS, now

    def until(self, now: int) -> int:
        if self._connected and (not self._waiting or now - self._at >= QUIET_MS):
            return now
        return min(now, self._stored)
