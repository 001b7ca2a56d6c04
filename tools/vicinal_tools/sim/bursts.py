"""Many events at once, as a fast client's frames come: through a real connection, which makes runs of them.

A run that the broker takes as one is delivered as frames; they are read back, so that the checker sees what a client
would. What comes in no run, and a run that the broker does not take, is published one by one.
"""

from typing import Any

from vicinal.event import Event
from vicinal.siena.connection import Connection
from vicinal.siena.messages import CLIENT, encode, framed
from vicinal.siena.messages_read import decode
from vicinal.siena.runs_cpython import MIN_RUN
from vicinal.stream import FrameReader

from .network import Network

__all__ = ["Burst"]


class Burst:
    """The connection of one client that publishes; the broker's end of it."""

    def __init__(self, network: Network, broker: str, client: str) -> None:
        self.network = network
        self.broker = broker
        self.client = client
        self.runs = 0
        """events that were published in runs"""
        self._connection = Connection(0)
        self._connection.receive_data(framed(encode(("hello", 1, CLIENT, client))), 0)
        self._connection.next_events()
        self._connection.welcome(broker)

    def publish(self, advert: int, events: list[Event]) -> None:
        """Refused is what the broker raises, one by one; none of the events may be outside the advertisement."""
        frames = [framed(encode(("publish", None, advert, one))) for one in events]
        for part in (frames[:MIN_RUN], frames[MIN_RUN:]):  # the first show what they look like
            self._connection.receive_data(b"".join(part), 0)
            while messages := self._connection.next_events():
                for message in messages:
                    if message[0] != "run":
                        self._one_by_one([message])
                    elif not self._as_one(message[1]):
                        self._one_by_one(message[1].messages())

    def _as_one(self, run: Any) -> bool:
        network = self.network
        network.pump(self.broker)  # what came before is delivered before
        found = network.brokers[self.broker].publish_run(self.client, run)
        if found is None:
            return False
        self.runs += len(run)
        for client, frames, count, _ in found:
            reader = FrameReader()
            reader.receive_data(bytes(frames))
            contents = []
            while more := reader.next_frames(1 << 16):
                contents += more
            if len(contents) != count:
                raise AssertionError(f"b: {client} was to get {count} of a run, and got {len(contents)}")
            for content in contents:
                _, _, event, _, trail = decode(content)
                network.on_deliver(self.broker, client, event, trail)
        network.pump(self.broker)
        return True

    def _one_by_one(self, messages: list[Any]) -> None:
        broker = self.network.brokers[self.broker]
        for _, _, advert, event in messages:
            tags = broker.check_publish(self.client, advert, event)
            broker.publish(self.client, tags, event, self.network.now)
        self.network.pump(self.broker)
