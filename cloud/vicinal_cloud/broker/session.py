"""One client at a broker: what it asks for, and the answers."""

import asyncio
from typing import TYPE_CHECKING, Any

from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.filter import Filter
from vicinal.siena.connection import PROTOCOL
from vicinal.siena.messages import MAX_ANSWER_CHARS, MAX_REASON_CHARS

from . import limits, reading

if TYPE_CHECKING:
    from vicinal.scope.membership import Identity
    from vicinal.siena.messages import Message

    from .link import Link
    from .node import Node

__all__ = ["Session"]


class Session:
    def __init__(self, node: "Node", link: "Link", name: str, identity: "Identity") -> None:
        self.node = node
        self.link = link
        self.name = name
        self.identity = identity
        self.lost: set[int] = set()
        """subscriptions that ended with a right: what waits for them is not to be had"""
        self.since = node.now()
        self.published = 0
        self.adverts: set[int] = set()
        self.subscriptions: set[int] = set()
        self._numbers = 0
        self.durable: dict[int, str] = {}
        self.turn = asyncio.Event()
        """set when something came from the client: perhaps credit"""

    def received(self, messages: "list[Message]") -> None:
        """Publishes in a row go on together."""
        publishes: list[Message] = []
        for message in messages:
            if message[0] == "publish":
                publishes.append(message)
                continue
            if publishes:
                self._publish(publishes)
                publishes = []
            if message[0] == "run":
                self.published += len(message[1])
                self.node.publishing.publish_run(self, message[1])
            else:
                self._asked(message[0], message[1], message)
        if publishes:
            self._publish(publishes)

    def _publish(self, messages: "list[Message]") -> None:
        self.published += len(messages)
        self.node.publishing.publish(self, messages)

    def _asked(self, kind: str, request: int, message: "Message") -> None:
        try:
            if kind == "advertise":
                self.answer(request, True, self._advertise(message[2], message[3]))
            elif kind == "unadvertise":
                self.node.engine.unadvertise(self.name, message[2])
                self.adverts.discard(message[2])
                self.answer(request, True, message[2])
            elif kind == "subscribe":
                self._subscribe(request, *message[2:])
            elif kind == "unsubscribe":
                self._unsubscribe(message[2])
                self.answer(request, True, message[2])
            elif kind != "administer":
                return  # pong: that it came is enough
            elif message[2][0] == "tell" and message[2][1].partition(" ")[0] == reading.TOPIC:
                reading.read_log(self, request, message[2][1].partition(" ")[2])
            elif self.node.administering is not None:
                self.node.administering.asked(self, request, message[2])
            else:
                self.answer(request, False, "this broker cannot be administered")
        except (VicinalError, OSError) as error:  # a durable subscription needs the disk
            self.answer(request, False, str(error))

    def _advertise(self, text: str, tags: Any) -> int:
        self._room()
        number = self.node.engine.advertise(self.name, Filter(text), tags, self.next_number())
        self.adverts.add(number)
        return number

    def _subscribe(self, request: int, text: str, tags: Any, durable: str | None, offset: int | None) -> None:
        self._room()
        condition = Filter(text)
        if durable is None:
            if offset is not None:
                raise LocalProtocolError("only a durable subscription goes on from an offset")
            number = self.next_number()
            self.node.engine.subscribe(self.name, condition, tags, self.node.now(), number)
            self.subscriptions.add(number)
            self.answer(request, True, number)
            return
        storage = self.node.storage
        if storage is None:
            raise LocalProtocolError(
                f"broker {self.node.engine.name!r} has no [log] in its configuration, and so no durable subscriptions"
            )
        number = self.next_number()
        storage.attach(self, durable, condition, tags, offset, number)
        self.durable[number] = durable
        self.answer(request, True, number)

    def next_number(self) -> int:
        """Of an advertisement or a subscription. They count from 1 at every client: short, and what goes to many is the
        same bytes for most."""
        self._numbers += 1
        return self._numbers

    def _unsubscribe(self, number: int) -> None:
        if number in self.durable:
            assert self.node.storage is not None
            self.node.storage.remove(self, self.durable.pop(number))
        else:
            self.node.engine.unsubscribe(self.name, number, self.node.now())
            self.subscriptions.discard(number)

    def _room(self) -> None:
        if len(self.adverts) + len(self.subscriptions) + len(self.durable) >= limits.MAX_PER_CLIENT:
            raise LocalProtocolError(
                f"client {self.name!r} has {limits.MAX_PER_CLIENT} advertisements and subscriptions, which is the limit"
            )

    def answer(self, request: int | None, accepted: bool, more: int | str) -> None:
        if request is not None and not self.link.connection.closed:
            if isinstance(more, str) and len(more) > MAX_ANSWER_CHARS:
                more = more[: MAX_ANSWER_CHARS - 16] + "\n... and more"
            self.link.connection.send(("answer", request, accepted, more))

    def refuse(self, request: int | None, reason: str) -> None:
        """A publish. Those who want no answer are told when they go: a flood of errors helps nobody."""
        self.node.counters.refused[_short(reason)] += 1
        self.answer(request, False, reason)

    def ended(self, number: int, why: str) -> None:
        """An advertisement or a subscription, with a right."""
        self.adverts.discard(number)
        self.subscriptions.discard(number)
        self.durable.pop(number, None)
        self.lost.add(number)
        if not self.link.connection.closed:
            self.link.connection.send(("ended", number, why[:MAX_REASON_CHARS]))
            self.node.flush_soon(self.link)

    def gone(self) -> None:
        if self.durable and self.node.storage is not None:
            self.node.storage.detach(self)

    def break_off(self, reason: str) -> None:
        self.link.cut(PROTOCOL, reason)


_REASONS = (
    *("outside the advertisement", "no advertisement", "under its own name", "not in scope", "disk"),
    *("may not publish", "was denied", "was revoked", "has expired"),
)


def _short(reason: str) -> str:
    """Without the names in it: as a label it must not grow with what strangers choose."""
    if "try again" in reason:
        return "too much is under way"
    for piece in _REASONS:
        if piece in reason:
            return piece
    return "other"
