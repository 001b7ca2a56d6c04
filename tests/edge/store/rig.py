"""The service that forwarders send to, and the judge of what has come to it."""

import random
import socket
import struct
import threading
import time
from pathlib import Path

from edge.store.forwarder import ACCEPTED, FRAME, NUMBER, PRODUCERS, Shared
from edge.store.sink import Identity, Sink, Verdict, judge


class Service:
    """Of another process than the forwarder, with all the faults of an uplink: late, in bursts, and now and then gone
    without having acknowledged what it has."""

    def __init__(self, path: Path, seed: int, late: float = 0.004, breaks: float = 0.004) -> None:
        self.path = str(path)
        self.sink = Sink()
        self.late = late
        self.breaks = breaks
        self.lock = threading.Lock()
        self._chance = random.Random(seed)
        self._closed = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)

    def _serve(self) -> None:
        while not self._closed:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(20)
                try:
                    self._talk(peer)
                except OSError:
                    continue

    def _talk(self, peer: socket.socket) -> None:
        rest = b""
        while not self._closed:
            data = peer.recv(65536)
            if not data:
                return
            rest += data
            answer = b""
            while len(rest) >= FRAME.size:
                number, producer, seq = FRAME.unpack_from(rest)
                rest = rest[FRAME.size :]
                with self.lock:
                    self.sink.hear(number, (f"car-{producer}", seq))
                if self._chance.random() < self.breaks:
                    if (
                        self._chance.random() < 0.7
                    ):  # what is on its way then is lost, also if its sender dies meanwhile
                        time.sleep(self._chance.random() * 0.05)
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                answer += NUMBER.pack(number)
            if self.late and self._chance.random() < 0.3:
                time.sleep(self._chance.random() * self.late)
            peer.sendall(answer)


def wait_for(shared: Shared, events: int) -> None:
    """Until so many more were attempted."""
    goal = shared.progress() + events
    give_up = time.monotonic() + 60
    while shared.progress() < goal:
        assert time.monotonic() < give_up, f"stuck at {shared.progress()}"
        time.sleep(0.001)


def accepted(shared: Shared) -> set[Identity]:
    return {
        (f"car-{producer}", seq)
        for producer in range(PRODUCERS)
        for seq, what in enumerate(shared.known(producer))
        if what == ACCEPTED
    }


def attempted(shared: Shared) -> set[Identity]:
    return {(f"car-{producer}", seq) for producer in range(PRODUCERS) for seq in range(shared.attempted(producer))}


def verdict(sink: Sink, shared: Shared, known: set[Identity] | None = None) -> Verdict:
    return judge(sink, accepted(shared) if known is None else known, attempted(shared))
