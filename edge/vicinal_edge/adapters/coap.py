"""CoAP (RFC 7252) as an event service of a gateway: small devices on IP publish to it and observe it.

    [[service]]
    type = "coap"
    name = "field"
    bind = "[::]:5683"                   we serve, as _coap_site.py says; port 0 for any
    peers = ["coap://host:5683/ps/"]     other servers, whose topics are observed and published to; or both
    max_bytes = 65536                    of an event
    observers = 16                       that one client may have
    echo = "remote"                      who has to show its address: "always", all but this machine, "never"
    releases = "releases"                a folder of releases that agents may fetch (`vicinal release build`)
    refresh = 30                         seconds after which a silent peer is asked again

It is on plain UDP: what must not be read or forged on the way needs a network that sees to it. An event that is
published is with the topics here at once and with each peer when that has answered; one that does not makes all of it
Unavailable, and what is published again the others know by its identity. Peers are servers of the same service: what
one has is not passed on to another, nor to those who observe us. Who publishes here can know what is wanted
(_coap_wanted.py), and keep the rest.
"""

import asyncio
import ipaddress
from typing import Any
from urllib.parse import urlsplit

from vicinal import limits, wire
from vicinal.errors import LimitError, LocalProtocolError
from vicinal.event import Event
from vicinal.federation.capabilities import Capabilities
from vicinal.filter import Filter
from vicinal.filter.index import Index
from vicinal.tables_cpython import Table

from ..adapter import Adapter, Port, Refused, Unavailable
from ._coap_endpoint import Endpoint
from ._coap_peer import Inbox, Peer, Watch
from ._coap_releases import ReleaseSite
from ._coap_site import Site
from ._coap_wanted import WANTED
from ._recent import Recent

__all__ = ["CoapAdapter"]

# Identities that are remembered of what went and came: what comes round a loop comes soon.
MEMORY = 4096


class CoapAdapter(Adapter):
    def __init__(self, service: str, settings: Table) -> None:
        super().__init__(service, settings)
        self.bind = settings.parsed("bind", _parse_bind)
        try:
            self.peers = [Peer(text) for text in settings.names("peers")]
        except LocalProtocolError as error:
            raise settings.error("peers", str(error)) from error
        if self.bind is None and not self.peers:
            raise settings.error("bind", "is missing, and there are no peers: want one of them at least")
        self._max_bytes: int = settings.number("max_bytes", limits.MAX_EVENT_BYTES, 256, limits.MAX_EVENT_BYTES)
        self._per_client: int = settings.number("observers", 16, 1)
        self._echo = settings.choice("echo", ("remote", "always", "never"), "remote")
        self._refresh: float = settings.take("refresh", float, 30.0)
        if not self._refresh > 0:
            raise settings.error("refresh", f"is {self._refresh}, want more than 0 seconds")
        self.releases = settings.path("releases")
        if self.releases is not None and self.bind is None:
            raise settings.error("releases", "is for a service that agents reach: bind is missing")
        if self.releases is not None and not self.releases.is_dir():
            raise settings.error("releases", f"is {str(self.releases)!r}, which is no folder")
        self.capabilities = Capabilities(max_bytes=self._max_bytes, filter="content")
        self.returned = 0
        self._forget()

    def _forget(self) -> None:
        self._port: Port | None = None
        self._lost = ""
        self._endpoint: Endpoint | None = None
        self._site: Site | None = None
        self._inbox: Inbox | None = None
        self._index = Index()
        self._watches: dict[str, list[Watch]] = {}
        self._wants: dict[str, Filter] = {}
        self._said, self._heard = Recent(MEMORY), Recent(MEMORY)

    async def connect(self, port: Port) -> None:
        self._forget()
        if self.bind is not None:
            offered = None if self.releases is None else ReleaseSite(self.releases)
            self._site = Site(self._received, port.malformed, self._max_bytes, self._per_client, self._echo, offered)
        self._endpoint = await Endpoint.open(self.bind, self._site)
        if self._site is not None:
            self._site.manager = self._endpoint.manager
            self._site.serve(lambda: list(self._wants.values()))
        if self.peers:
            self._inbox = Inbox(self._endpoint.context, self._observed, port.malformed, self._lose)
        self._port = port

    async def disconnect(self) -> None:
        for watches in self._watches.values():
            for watch in watches:
                await watch.stopped(False)
        if self._inbox is not None:
            await self._inbox.close()
        if self._endpoint is not None:
            await self._endpoint.close()
        self._forget()

    @property
    def address(self) -> str:
        """Where we serve, port 0 resolved."""
        if self.bind is None or self._endpoint is None:
            raise Unavailable(f"{self.service} serves nothing now")
        host = f"[{self.bind[0]}]" if ":" in self.bind[0] else self.bind[0]
        return f"coap://{host}:{self._endpoint.port}"

    def _there(self) -> Endpoint:
        if self._endpoint is None or self._port is None or self._lost:
            raise Unavailable(f"{self.service} is not connected{': ' if self._lost else ''}{self._lost}")
        return self._endpoint

    async def publish(self, event: Event) -> "asyncio.Future[None] | None":
        endpoint = self._there()
        if event.subject == WANTED:
            raise Refused(f"{WANTED} is what {self.service} says itself")
        if event.identity is not None:
            if event.identity in self._heard:
                self.returned += 1
                return None  # it came from there
            self._said.add(event.identity)
        size = len(wire.encode(event))
        if size > self._max_bytes:
            raise LimitError(f"bytes of event {event.subject!r}", size, self._max_bytes)
        if self._site is not None:
            self._site.publish(event)
        for peer in self.peers:
            await peer.publish(endpoint.context, event)
        return None

    async def subscribe(self, condition: Filter) -> None:
        self._there()
        if condition.text in self._watches:
            return
        watches: list[Watch] = []
        try:
            for peer in self.peers:
                assert self._inbox is not None
                watches.append(Watch(peer, self._inbox, condition, self._refresh))
                await watches[-1].start()
        except (Unavailable, Refused):
            for watch in watches:
                await watch.stopped(False)
            raise
        self._watches[condition.text] = watches
        self._index.add(condition.text, condition)
        self._wants[condition.text] = condition
        if self._site is not None:
            self._site.asked()

    async def unsubscribe(self, condition: Filter) -> None:
        watches = self._watches.pop(condition.text, None)
        if watches is None:
            return
        self._index.remove(condition.text)
        del self._wants[condition.text]
        if self._site is not None:
            self._site.asked()
        for watch in watches:
            await watch.stopped(True)

    async def _received(self, event: Event) -> bool:
        """Of a client that publishes here."""
        port = self._port
        if port is None:
            return False
        if not self._index.match(event) or self._is_known(event):
            return True
        await port.room()
        return port.received(event)

    async def _observed(self, event: Event) -> None:
        """Of a peer."""
        port = self._port
        if port is not None and not self._is_known(event):
            await port.room()
            port.received(event)

    def _is_known(self, event: Event) -> bool:
        """What we have said, or have got by another subscription."""
        identity = event.identity
        if identity is None:
            return False
        if identity in self._said or identity in self._heard:
            self.returned += 1
            return True
        self._heard.add(identity)
        return False

    def _lose(self, reason: str) -> None:
        if self._port is not None and not self._lost:
            self._lost = reason
            self._port.lost(reason)

    def status(self) -> dict[str, int | str]:
        there = self._port is not None and not self._lost
        found: dict[str, int | str] = {
            "state": "connected" if there else f"away: {self._lost or 'not connected'}",
            "peers": len(self.peers),
            "returned": self.returned,
            "dropped": 0 if self._inbox is None else self._inbox.dropped,
        }
        if self._site is not None and self._endpoint is not None:
            found["address"] = self.address
            found["topics"], found["observers"] = self._site.topics, self._site.observers
            found["wanted"] = self._site.wanted
            found["dropped"] = int(found["dropped"]) + self._site.counted["dropped"]
            found.update({name: count for name, count in self._site.counted.items() if name != "dropped"})
        return found


def _parse_bind(text: str) -> tuple[str, int]:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "", parts.port
        ipaddress.ip_address(host)
    except ValueError as error:
        raise LocalProtocolError(f"{error}; want ADDRESS:PORT, as 127.0.0.1:5683 or [::]:5683") from error
    found: Any = 5683 if port is None else port
    return host, found
