"""One UDP socket that speaks CoAP, with aiocoap under it.

aiocoap keeps what it may have to say again for 247 seconds (RFC 7252, 4.8.2), with a timer for each message, and sends
as much as it is given. Here what it remembers is bounded, and who sends notifications can wait until the other end has
acknowledged the last: Observe is made for states, of which the newest is enough; for events each must arrive.
"""

import asyncio
import ipaddress
import logging
import socket
from collections import deque
from typing import Any

from aiocoap import Context, Message
from aiocoap.messagemanager import MessageManager
from aiocoap.numbers.constants import TransportTuning
from aiocoap.numbers.types import CON
from aiocoap.tokenmanager import TokenManager
from aiocoap.transports.udp6 import MessageInterfaceUDP6

from vicinal.listening_cpython import cannot_listen

from ..adapter import Unavailable

__all__ = ["Endpoint", "Reliable"]

# Messages that are remembered, with what was answered: 1,000 a second for 8 seconds, or 30 a second for 247.
MAX_REMEMBERED = 8192


class Reliable(TransportTuning):  # type: ignore[misc]
    """For notifications: confirmable, also where the request was not."""

    reliability = True


class Manager(MessageManager):  # type: ignore[misc]
    def __init__(self, tokens: Any) -> None:
        super().__init__(tokens)
        self._ages: deque[tuple[float, Any]] = deque()
        self._waiting: dict[Any, list[asyncio.Future[None]]] = {}

    def _deduplicate_message(self, message: Message) -> bool:
        known, ages, now = self._recent_messages, self._ages, self.loop.time()
        while ages and (ages[0][0] <= now or len(ages) >= MAX_REMEMBERED):
            known.pop(ages.popleft()[1], None)
        key = (message.remote, message.mid)
        if key not in known:
            known[key] = None
            ages.append((now + message.transport_tuning.EXCHANGE_LIFETIME, key))
            return False
        if message.mtype is CON and known[key] is not None:
            self._send_initially(known[key])
        return True

    def _continue_backlog(self, remote: Any) -> None:
        super()._continue_backlog(remote)
        if remote not in self._backlogs:
            for one in self._waiting.pop(remote, ()):
                if not one.done():
                    one.set_result(None)

    async def quiet(self, remote: Any) -> None:
        """Returns when nothing confirmable is under way to it. Who is given up meanwhile is cancelled by aiocoap."""
        while remote in self._backlogs:
            done = self.loop.create_future()
            self._waiting.setdefault(remote, []).append(done)
            try:
                await done
            finally:
                waiting = self._waiting.get(remote, [])
                if done in waiting:
                    waiting.remove(done)
                    if not waiting:
                        del self._waiting[remote]


class Interface(MessageInterfaceUDP6):  # type: ignore[misc]
    """A socket tells whoever sends next of an error that another has caused, and aiocoap would give up the wrong one.
    Whose error it is comes by the error queue; what was being sent is sent again."""

    _failure: OSError | None = None

    def send(self, message: Message) -> None:
        for _ in range(2):
            self._failure = None
            super().send(message)
            failure = self._failed()
            if failure is None or isinstance(failure, BlockingIOError):
                return  # where there was no room it is lost, as on the way
        self._ctx.dispatch_error(self._failure, message.remote)

    def _failed(self) -> OSError | None:
        """What error_received has been told while it was sent."""
        return self._failure

    def error_received(self, exc: OSError) -> None:
        if self._remote_being_sent_to.get() is not None:
            self._failure = exc


class Endpoint:
    def __init__(self, context: Context, manager: Manager) -> None:
        self.context = context
        self.manager = manager

    @classmethod
    async def open(cls, bind: tuple[str, int] | None, site: Any = None) -> "Endpoint":
        """On a port of its own unless `bind` says which. Raises Unavailable."""
        loop = asyncio.get_running_loop()
        # It warns of every malformed message and traces every one: strangers fill no logs of ours.
        log = logging.getLogger("vicinal.coap")
        if log.level == logging.NOTSET:
            log.setLevel(logging.CRITICAL)
        context = Context(loop=loop, serversite=site, loggername="vicinal.coap")
        tokens = TokenManager(context)
        manager = Manager(tokens)
        sock = _bound(bind)
        try:
            interface = await Interface._create_transport_endpoint(sock, manager, context.log, loop)
        except BaseException:
            sock.close()
            raise
        manager.message_interface = interface
        tokens.token_interface = manager
        context.request_interfaces.append(tokens)
        return cls(context, manager)

    @property
    def port(self) -> int:
        found: int = self.manager.message_interface._local_port()
        return found

    async def close(self) -> None:
        await self.context.shutdown()


def _bound(bind: tuple[str, int] | None) -> socket.socket:
    found = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    try:
        found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if bind is not None:
            address = ipaddress.ip_address(bind[0])
            mapped = f"::ffff:{address}" if address.version == 4 else str(address)
            found.bind((mapped, bind[1]))
        return found
    except OSError as error:
        found.close()
        where = f"{bind[0]} port {bind[1]}" if bind else "any port"
        raise Unavailable(cannot_listen(where, error)) from error
