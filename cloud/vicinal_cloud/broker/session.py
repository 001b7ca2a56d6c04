"""One client at a broker: what it asks for, and the answers."""

import asyncio
from typing import TYPE_CHECKING, Any

from vicinal.errors import LocalProtocolError
from vicinal.filter import Filter
from vicinal.siena.connection import PROTOCOL

from . import limits

if TYPE_CHECKING:
    from .link import Link
    from .node import Node

__all__ = ["Session"]


class Session:
    def __init__(self, node: "Node", link: "Link", name: str) -> None:
        self.node = node
        self.link = link
        self.name = name
        self.since = node.now()
        self.published = 0
        self.adverts: dict[int, int] = {}  # number -> bytes
        self.subscriptions: set[int] = set()
        self.durable: dict[int, str] = {}
        self.turn = asyncio.Event()
        """set when something came from the client: perhaps credit"""

    def received(self, message: tuple[Any, ...]) -> None:
        kind, request = message[0], message[1]
        try:
            if kind == "publish":
                self.published += 1
                self.node.counters.received += 1
                self.node.publish(self, request, message[2], message[3])
            elif kind == "advertise":
                self.answer(request, True, self._advertise(message[2], message[3]))
            elif kind == "unadvertise":
                self.node.engine.unadvertise(self.name, message[2])
                self.adverts.pop(message[2], None)
                self.answer(request, True, message[2])
            elif kind == "subscribe":
                self._subscribe(request, *message[2:])
            elif kind == "unsubscribe":
                self._unsubscribe(message[2])
                self.answer(request, True, message[2])
        except LocalProtocolError as error:
            if kind == "publish":
                self.refuse(request, str(error))
            else:
                self.answer(request, False, str(error))

    def _advertise(self, text: str, tags: Any) -> int:
        self._room()
        everything = sum([sum(session.adverts.values()) for session in self.node.sessions.values()])
        if everything + len(text.encode()) > limits.MAX_ADVERT_BYTES:
            raise LocalProtocolError(
                f"the advertisements of this broker have {everything} bytes, the limit is {limits.MAX_ADVERT_BYTES}"
            )
        number = self.node.engine.advertise(self.name, Filter(text), tags)
        self.adverts[number] = len(text.encode())
        return number

    def _subscribe(self, request: int, text: str, tags: Any, durable: str | None, offset: int | None) -> None:
        self._room()
        condition = Filter(text)
        if durable is None:
            if offset is not None:
                raise LocalProtocolError("only a durable subscription goes on from an offset")
            key = self.node.engine.subscribe(self.name, condition, tags, self.node.now())
            self.subscriptions.add(key)
            self.answer(request, True, key)
            return
        storage = self.node.storage
        if storage is None:
            raise LocalProtocolError(
                f"broker {self.node.engine.name!r} has no [log] in its configuration, and so no durable subscriptions"
            )
        key = storage.attach(self, durable, condition, tags, offset)
        self.durable[key] = durable
        self.answer(request, True, key)

    def _unsubscribe(self, key: int) -> None:
        if key in self.durable:
            assert self.node.storage is not None
            self.node.storage.remove(self, self.durable.pop(key))
        else:
            self.node.engine.unsubscribe(self.name, key, self.node.now())
            self.subscriptions.discard(key)

    def _room(self) -> None:
        if len(self.adverts) + len(self.subscriptions) + len(self.durable) >= limits.MAX_PER_CLIENT:
            raise LocalProtocolError(
                f"client {self.name!r} has {limits.MAX_PER_CLIENT} advertisements and subscriptions, which is the limit"
            )

    def answer(self, request: int | None, accepted: bool, more: int | str) -> None:
        if request is not None and not self.link.connection.closed:
            self.link.connection.send(("answer", request, accepted, more))

    def refuse(self, request: int | None, reason: str) -> None:
        """A publish. Those who want no answer are told when they go: a flood of errors helps nobody."""
        self.node.counters.refused[_short(reason)] += 1
        self.answer(request, False, reason)

    def gone(self) -> None:
        if self.durable and self.node.storage is not None:
            self.node.storage.detach(self)

    def break_off(self, reason: str) -> None:
        self.link.cut(PROTOCOL, reason)


def _short(reason: str) -> str:
    """Without the names in it: as a label it must not grow with what strangers choose."""
    if "try again" in reason:
        return "too much is under way"
    for piece in ("outside the advertisement", "no advertisement", "under its own name", "not in scope", "disk"):
        if piece in reason:
            return piece
    return "other"
