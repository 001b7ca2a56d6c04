"""A bus for tests of the binding protocols: arbitration by identifier, frames that take their time, and receivers that
miss a frame or get it twice. (The product's virtual bus, with bits and error counters, is in hw/.)"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from vicinal.cosmic.frame import Frame

BIT_US = 2  # 500 kbit/s


class Party(Protocol):
    def receive(self, frame: Frame, now: int) -> None: ...
    def frames_to_send(self, now: int) -> list[Frame]: ...
    def next_timeout(self) -> int | None: ...
    def handle_timeout(self, now: int) -> None: ...


class Bus:
    def __init__(self, seed: int, loss: float = 0.0, repeat: float = 0.0, delay: int = 500) -> None:
        self.random = Random(seed)
        self.loss = loss
        self.repeat = repeat
        self.delay = delay  # up to so many microseconds of software between hearing and speaking
        self.now = 0
        self.sent: list[Frame] = []
        self.collisions = 0  # the same identifier with different data, at once
        self.watch: Callable[[], None] = lambda: None
        self._queues: dict[Party, list[Frame]] = {}
        self._speaks: dict[Party, int] = {}

    def join(self, party: Party) -> None:
        self._queues[party] = []
        self.stir(party)

    def leave(self, party: Party) -> None:
        """It crashes: what it had queued is gone too."""
        del self._queues[party]
        self._speaks.pop(party, None)

    def stir(self, party: Party) -> None:
        """Something was asked of it: it will speak soon."""
        self._speaks.setdefault(party, self.now + self.random.randint(0, self.delay))

    def run(self, duration: int) -> None:
        end = self.now + duration
        while self.now < end:
            wake = self._software(end)
            if any(self._queues.values()):
                self._transmit()
                self.watch()
            else:
                self.now = max(self.now + 1, wake)

    def _software(self, wake: int) -> int:
        """Lets those speak whose time it is, and gives the time at which the next will."""
        for party, queue in self._queues.items():
            if party not in self._speaks:
                timeout = party.next_timeout()
                if timeout is None or timeout > self.now:
                    wake = wake if timeout is None else min(wake, timeout)
                    continue
                party.handle_timeout(self.now)
                self.stir(party)
                self.watch()
            if self._speaks[party] <= self.now:
                del self._speaks[party]
                queue += party.frames_to_send(self.now)
                wake = self.now
            else:
                wake = min(wake, self._speaks[party])
        return wake

    def _transmit(self) -> None:
        best = min(frame.id for queue in self._queues.values() for frame in queue)
        senders = []
        for party, queue in self._queues.items():
            found = next((frame for frame in queue if frame.id == best), None)
            if found is not None:
                senders.append((party, found))
        self.now += (80 + 10 * len(senders[0][1].data)) * BIT_US
        if len({frame.data for _, frame in senders}) > 1:
            self.collisions += 1  # error frames, until one gets through
            if self.random.random() < 0.9:
                return
            senders = senders[:1]
        frame = senders[0][1]
        self.sent.append(frame)
        for party, _ in senders:
            self._queues[party].remove(frame)
        for party in list(self._queues):
            if party in [sender for sender, _ in senders] or self.random.random() < self.loss:
                continue
            for _ in range(2 if self.random.random() < self.repeat else 1):
                party.receive(frame, self.now)
            self.stir(party)
