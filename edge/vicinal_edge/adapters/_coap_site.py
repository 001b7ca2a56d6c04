"""Publish and subscribe as CoAP resources, in the shape of draft-ietf-core-coap-pubsub where that is sensible:

    /.well-known/core        what is there (RFC 6690): rt=core.ps.coll, and rt=core.ps.data for each topic
    /ps            GET       the topics, as links
                   Observe, with Accept 60 or 50: the events of all topics, whole, from now on
    /time          GET       Unix milliseconds, as text: for devices that forget it with every power cut
    /release       GET       releases for agents, where the gateway offers some (_coap_releases.py)
    /ps/SUBJECT    PUT, POST publishes; the topic is there from its first event on (2.01, then 2.04)
                   GET       its last event; 4.04 if there was none, or if it is of one who keeps what nobody wants
                   Observe   the last event, or nothing yet, and then every event
    /ps/AgentWanted          what is wanted of those who publish here (_coap_wanted.py): we alone say it

Unlike the draft's, topics have no configuration of their own, and nobody deletes them. `?filter=CONDITION` (in several
options if it is longer than 255 bytes, which are put together) on what is observed: only events that meet it are sent.
`?own=no`: none that was published from the same address and port.

Each notification is confirmable and waits for the one before to the same client, also of another observation, so that
none is lost on the way or overtaken; QUEUE of them wait for a client, then the oldest are dropped and counted. Who does
not acknowledge is forgotten (RFC 7641, 4.5).

Amplification (RFC 9175, 2.4): who has not shown that it has its address gets no answer above 136 bytes and no
observation, but 4.01 and an Echo option to repeat.
"""

import asyncio
import hmac
import ipaddress
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import quote

from aiocoap import Message
from aiocoap.numbers import codes
from aiocoap.pipe import Pipe

from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.event import Event
from vicinal.filter import Filter

from ._coap_blocks import Answer, Bodies, Key, key_of
from ._coap_endpoint import Manager, Reliable
from ._coap_formats import CBOR, FORMATS, JSON, LINKS, TEXT, NotAcceptable, Unsupported, event_of, payload_of
from ._coap_releases import ReleaseSite
from ._coap_wanted import ALWAYS, NOTHING, WANTED, asked_by, of_subject, wanted

__all__ = ["Site"]

# Last events that are kept; beyond it the topic that was published to longest ago is forgotten.
MAX_TOPICS = 1024
QUEUE = 512
MAX_OBSERVERS = 1024
# Seconds that an observer may take to fetch the rest of a large event before the next is sent.
FETCH_WITHIN = 15.0
# RFC 9175, 2.4: a first response of this size cannot be much of an amplifier.
SMALL = 136
# Seconds for which an Echo is good, and an address that has shown one; how many of those are remembered.
ECHO_SECONDS = 300
MAX_KNOWN = 4096


class Observer:
    def __init__(self, pipe: Pipe, key: Key, subject: str | None, condition: Filter | None, own: bool) -> None:
        self.pipe = pipe
        self.request = request = pipe.request
        self.remote = request.remote
        self.key = key
        self.subject = subject
        self.condition = condition
        self.own = own
        self.asks = asked_by(subject, condition)
        """what those who publish here are asked for by it"""
        self.accept: int | None = request.opt.accept
        self.number = 0
        self.ended = asyncio.Event()

    def wants(self, event: Event, sender: Any) -> bool:
        if self.subject is not None and self.subject != event.subject:
            return False
        if sender is not None and not self.own and sender == self.remote:
            return False
        return self.condition is None or self.condition.matches(event)


class Line:
    """What waits for one client."""

    def __init__(self, work: Callable[["Line"], Coroutine[Any, Any, None]]) -> None:
        self.queue: deque[tuple[Observer, Event]] = deque()
        self.news = asyncio.Event()
        self.observers = 0
        self.keeps = 0
        """of them, those of what is wanted: who observes that keeps the rest to itself"""
        self.task = asyncio.get_running_loop().create_task(work(self))


class Site:
    """What aiocoap asks for an answer to each request."""

    manager: Manager

    def __init__(
        self,
        received: Callable[[Event], Awaitable[bool]],
        malformed: Callable[[str], None],
        max_bytes: int,
        per_client: int,
        echo: str,
        releases: ReleaseSite | None = None,
    ) -> None:
        self._received = received
        self._malformed = malformed
        self._per_client = per_client
        self._echo = echo
        self._releases = releases
        self._bodies = Bodies(max_bytes)
        self._topics: dict[str, Event] = {}
        self._of_keepers: set[str] = set()
        """topics whose last event is of one who keeps what nobody wants: then it is not the last"""
        self._wants: Callable[[], list[Filter]] = list
        self._wanted: Event | None = None
        self._looking = False
        self._observers: dict[Observer, None] = {}
        self._lines: dict[Any, Line] = {}
        self._key = secrets.token_bytes(16)
        self._known: dict[Any, float] = {}
        self._order = asyncio.Lock()
        self.counted: Counter[str] = Counter()

    # What the adapter does

    def publish(self, event: Event, sender: Any = None) -> None:
        """`sender` is the client that has published it, None if it comes from the gateway."""
        self._topics.pop(event.subject, None)
        if len(self._topics) >= MAX_TOPICS:
            oldest = next(iter(self._topics))
            del self._topics[oldest]
            self._of_keepers.discard(oldest)
        self._topics[event.subject] = event
        if sender is not None and (line := self._lines.get(sender)) is not None and line.keeps:
            self._of_keepers.add(event.subject)
        else:
            self._of_keepers.discard(event.subject)
        for one in self._observers:
            if one.wants(event, sender):
                self._notify(one, event)

    def _notify(self, one: Observer, event: Event) -> None:
        line = self._lines[one.remote]
        if len(line.queue) >= QUEUE:
            line.queue.popleft()
            self.counted["dropped"] += 1
        line.queue.append((one, event))
        line.news.set()

    def serve(self, wants: Callable[[], list[Filter]]) -> None:
        """`wants` gives what the gateway subscribes to; `asked` is called when that has changed."""
        self._wants = wants

    def asked(self) -> None:
        """Somebody asks for something, or does so no more: what is wanted is made anew, once for all who come now."""
        if not self._looking:
            self._looking = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._looking = False
        conditions = self._wants()
        text = wanted([*conditions, *[one.asks for one in self._observers if one.asks is not None]])
        if self._wanted is None and text == NOTHING:
            return  # not yet: who knows nothing of its requests so far does not keep anybody from publishing
        if self._wanted is None or self._wanted["filter"] != text:
            self._wanted = Event(WANTED, [("filter", text)])
            for one in self._observers:
                if one.subject == WANTED:
                    self._notify(one, self._wanted)

    @property
    def observers(self) -> int:
        return len(self._observers)

    @property
    def wanted(self) -> str:
        """Of those who publish here; empty while nobody ever wanted anything."""
        return "" if self._wanted is None else str(self._wanted["filter"])

    def _is_kept(self, subject: str) -> bool:
        """Whether what there was of it last need not be the last any more."""
        if subject not in self._of_keepers or self._wanted is None or subject in ALWAYS:
            return False
        return not Filter(self.wanted).overlaps(of_subject(subject))

    @property
    def topics(self) -> int:
        return len(self._topics)

    # What clients ask for

    async def render_to_pipe(self, pipe: Pipe) -> None:
        self.counted["requests"] += 1
        try:
            await self._render(pipe)
        except Answer as answer:
            if answer.code.class_ >= 4:
                self.counted[f"answered {answer.code.dotted}"] += 1
            pipe.add_response(answer.message(), is_last=True)

    async def _render(self, pipe: Pipe) -> None:
        request = pipe.request
        path, code = request.opt.uri_path, request.code
        if request.opt.if_match or request.opt.if_none_match:
            raise Answer(codes.BAD_OPTION, "there are no conditional requests here")
        if path == ("time",) and code == codes.GET:
            now = Message(code=codes.CONTENT, payload=str(time.time_ns() // 1_000_000).encode())
            now.opt.content_format, now.opt.max_age = TEXT, 0
            pipe.add_response(now, is_last=True)
            return
        if path[:1] == ("release",) and code == codes.GET:
            pipe.add_response(self._release(request), is_last=True)
            return
        if path not in ((".well-known", "core"), ("ps",), ("ps", "")) and path[:1] != ("ps",):
            raise Answer(codes.NOT_FOUND, "there are /ps, /time and /.well-known/core")
        subject = "/".join(path[1:]) if path[:1] == ("ps",) else ""
        if code in (codes.PUT, codes.POST) and subject:
            pipe.add_response(await self._publish(request, subject), is_last=True)
        elif code != codes.GET:
            raise Answer(codes.METHOD_NOT_ALLOWED, f"{code.name} is not for here: GET; PUT and POST on /ps/SUBJECT")
        elif (later := self._bodies.later_block(request)) is not None:
            pipe.add_response(later, is_last=True)
        elif path == (".well-known", "core") or (not subject and request.opt.observe is None):
            form, payload = LINKS, self._links(request, path[0] == "ps")
            self._check_address(request, len(payload))
            pipe.add_response(self._bodies.answer(request, form, payload)[0], is_last=True)
        else:
            await self._read(pipe, subject or None)

    def _release(self, request: Message) -> Message:
        if self._releases is None:
            raise Answer(codes.NOT_FOUND, "this gateway offers no releases")
        found = self._releases.find(request)
        self._check_address(request, len(found.payload))
        block = self._releases.block(request, found)
        self.counted["blocks of releases"] += 1
        if found.fetched.is_set() and len(request.opt.uri_path) == 2:
            self.counted["files of releases"] += 1
            found.fetched.clear()
        return block

    async def _publish(self, request: Message, subject: str) -> Message:
        if subject == WANTED:
            raise Answer(codes.FORBIDDEN, f"{WANTED} is what the gateway says itself", **_block1(request))
        body = self._bodies.whole(request)
        try:
            event = event_of(subject, request.opt.content_format, body)
        except Unsupported as error:
            self._malformed("an unknown content format")
            raise Answer(codes.UNSUPPORTED_CONTENT_FORMAT, str(error), **_block1(request)) from error
        except VicinalError as error:
            self._malformed("content that is no event")
            raise Answer(codes.BAD_REQUEST, str(error), **_block1(request)) from error
        created = subject not in self._topics
        async with self._order:
            if not await self._received(event):
                raise Answer(codes.SERVICE_UNAVAILABLE, "the gateway has no room", max_age=1, **_block1(request))
            self.publish(event, request.remote)
        found = Message(code=codes.CREATED if created else codes.CHANGED)
        found.opt.block1 = request.opt.block1
        return found

    async def _read(self, pipe: Pipe, subject: str | None) -> None:
        request = pipe.request
        queries = _queries(request)
        condition = _condition(queries.get("filter"))
        accept, key = request.opt.accept, key_of(request)
        if accept is not None and (accept not in FORMATS or (subject is None and accept not in (CBOR, JSON))):
            raise Answer(codes.NOT_ACCEPTABLE, f"content format {int(accept)} is not to be had, {CBOR} and {JSON} are")
        last = self._topics.get(subject) if subject is not None else None
        is_kept = last is not None and self._is_kept(last.subject)
        if subject == WANTED:
            last = self._wanted
        elif is_kept:
            last = None
        if last is not None and condition is not None and not condition.matches(last):
            last = None
        observing = request.opt.observe == 0
        if last is None and not observing and request.opt.observe is None:
            why = f"there was no event of {subject!r} yet" if condition is None else "the last does not meet the filter"
            if is_kept:
                why = f"nobody asks for {subject!r}, and who publishes it keeps it: observe it"
            raise Answer(codes.NOT_FOUND, why)
        before = [one for one in self._observers if one.key == key]  # it is asked for anew, or no more
        message = Message(code=codes.CONTENT)
        if last is not None:
            form, payload = self._payload(last, accept)
            self._check_address(request, len(payload), observing)
            message = self._bodies.answer(request, form, payload)[0]
        elif observing:
            self._check_address(request, 0, observing)
        if observing:
            self._check_observers(request, before)
        for one in before:
            one.ended.set()
        if not observing:
            pipe.add_response(message, is_last=True)
            return
        observer = Observer(pipe, key, subject, condition, queries.get("own") != "no")
        if before:  # what waits for it goes on under the new token
            line = self._lines[observer.remote]
            line.queue = deque([(observer if who in before else who, event) for who, event in line.queue])
        await self._observe(message, observer)

    async def _observe(self, message: Message, observer: Observer) -> None:
        """Until the client is gone, which cancels it."""
        line = self._lines.get(observer.remote)
        if line is None:
            line = self._lines[observer.remote] = Line(self._send)
        line.observers += 1
        line.keeps += observer.subject == WANTED
        self._observers[observer] = None
        self.asked()
        message.opt.observe = observer.number
        observer.pipe.add_response(message)
        try:
            await observer.ended.wait()
            observer.pipe.add_response(Answer(codes.NOT_FOUND, "observed anew").message(), is_last=True)
        finally:
            del self._observers[observer]
            self.asked()
            line.observers -= 1
            line.keeps -= observer.subject == WANTED
            if not line.observers:
                self.counted["dropped"] += len(line.queue)
                line.task.cancel()
                del self._lines[observer.remote]

    async def _send(self, line: Line) -> None:
        while True:
            while not line.queue:
                line.news.clear()
                await line.news.wait()
            observer, event = line.queue.popleft()
            if observer not in self._observers or observer.ended.is_set():
                continue
            try:
                form, payload = self._payload(event, observer.accept)
            except Answer:  # as text, and has no value: the next may have one
                self.counted["not acceptable"] += 1
                continue
            message, body = self._bodies.answer(observer.request, form, payload)
            message.transport_tuning = Reliable()
            observer.number = (observer.number + 1) % (1 << 24)
            message.opt.observe = observer.number
            self.counted["notified"] += 1
            observer.pipe.add_response(message)
            await self.manager.quiet(observer.remote)
            if not body.fetched.is_set():
                await self._wait_for(body.fetched)

    async def _wait_for(self, fetched: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(FETCH_WITHIN):
                await fetched.wait()
        except TimeoutError:
            self.counted["not fetched"] += 1

    def _payload(self, event: Event, accept: int | None) -> tuple[int, bytes]:
        try:
            return payload_of(event, accept)
        except NotAcceptable as error:
            raise Answer(codes.NOT_ACCEPTABLE, str(error)) from error

    def _links(self, request: Message, topics_only: bool) -> bytes:
        """RFC 6690; of its filters rt and href, with * at the end."""
        both = f"{CBOR} {JSON}"
        links = [("/ps", "core.ps.coll", f"{LINKS} {both}")]
        links += [("/ps/" + quote(subject), "core.ps.data", both) for subject in sorted(self._topics)]
        for text in request.opt.uri_query:
            key, _, want = text.partition("=")
            if key in ("rt", "href"):
                links = [one for one in links if _meets(one[key == "rt"], want)]
        start = 1 if topics_only and links and links[0][0] == "/ps" else 0
        return ",".join([f'<{href}>;rt="{rt}";ct="{ct}";obs' for href, rt, ct in links[start:]]).encode()

    # Limits

    def _check_observers(self, request: Message, before: list[Observer]) -> None:
        """`before` end with it."""
        others = [one for one in self._observers if not one.ended.is_set() and one not in before]
        of_client = len([one for one in others if one.remote == request.remote])
        if of_client >= self._per_client:
            raise Answer(codes.TOO_MANY_REQUESTS, f"you observe {of_client} resources, which is the limit", max_age=60)
        if len(others) >= MAX_OBSERVERS:
            raise Answer(codes.SERVICE_UNAVAILABLE, f"{MAX_OBSERVERS} observations, which is the limit", max_age=60)

    def _check_address(self, request: Message, size: int, always: bool = False) -> None:
        if (size <= SMALL and not always) or self._is_there(request):
            return
        raise Answer(codes.UNAUTHORIZED, "repeat it with this Echo", echo=self._echo_of(request.remote, 0))

    def _is_there(self, request: Message) -> bool:
        remote, now = request.remote, asyncio.get_running_loop().time()
        if self._echo == "never" or (self._echo == "remote" and _is_loopback(remote)):
            return True
        if request.opt.echo is not None:
            for age in (0, 1):
                if hmac.compare_digest(request.opt.echo, self._echo_of(remote, age)):
                    self._known.pop(remote, None)
                    if len(self._known) >= MAX_KNOWN:
                        del self._known[next(iter(self._known))]
                    self._known[remote] = now + ECHO_SECONDS
        return self._known.get(remote, 0.0) > now

    def _echo_of(self, remote: Any, age: int) -> bytes:
        """Nothing is remembered of who was given one."""
        period = int(asyncio.get_running_loop().time() // ECHO_SECONDS) - age
        return hmac.digest(self._key, repr((remote.sockaddr[:2], period)).encode(), "sha256")[:8]


def _block1(request: Message) -> dict[str, Any]:
    return {} if request.opt.block1 is None else {"block1": request.opt.block1}


def _queries(request: Message) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in request.opt.uri_query:
        key, _, value = text.partition("=")
        if key not in ("filter", "own") or (key == "own" and value not in ("yes", "no")):
            raise Answer(codes.BAD_OPTION, f"the query {text[:40]!r} is not known: filter=CONDITION, own=no")
        found[key] = found.get(key, "") + value
    return found


def _condition(text: str | None) -> Filter | None:
    if text is None:
        return None
    try:
        return Filter(text)
    except LocalProtocolError as error:
        raise Answer(codes.BAD_REQUEST, f"filter: {error}") from error


def _meets(text: str, want: str) -> bool:
    return text.startswith(want[:-1]) if want.endswith("*") else text == want


def _is_loopback(remote: Any) -> bool:
    address = ipaddress.IPv6Address(remote.sockaddr[0].partition("%")[0])
    return (address.ipv4_mapped or address).is_loopback
