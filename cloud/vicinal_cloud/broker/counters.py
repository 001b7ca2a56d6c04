"""What a broker counts. Two sums hold exactly, at every instant (DESIGN 8.3):

    publishes    received = accepted + repeated + refused(reason) + storing
    deliveries   handed = delivered + waiting + stored + dropped(reason)

A delivery is one event for one client; `handed` is what the engine gave out. `storing` and `waiting` are under way: in
front of the disk or of a busy engine, and in front of a client.
"""

from collections import Counter

__all__ = ["Counters"]


class Counters:
    def __init__(self) -> None:
        self.received = 0
        self.accepted = 0
        self.repeated = 0
        self.refused: Counter[str] = Counter()
        self.storing = 0

        self.handed = 0
        self.delivered = 0
        """by connections that have ended; those that are open have counts of their own"""
        self.stored = 0
        self.putting = 0
        """for durable subscriptions, in front of the disk"""
        self.dropped: Counter[str] = Counter()

        self.connected = 0
        self.cut: Counter[str] = Counter()
        """connections that ended, by why"""
        self.bytes_in = 0
        self.bytes_out = 0
        self.held_back: Counter[str] = Counter()
        """packets for a neighbour whose link is full: they are sent again"""
