"""Reading a broker's log over the network: what was published at it, by offset, as often as one likes.

    ("administer", request, ("tell", 'log {"from": 0, "to": 500, "filter": "rate > 30"}'))
    told: {"first": 0, "next": 812, "at": 500, "hidden": 0, "records": base64(deflate(record*))}

`at` is the offset to go on with; records are those of the log (log/_record.py) with the salt 0. Without `from` only the
ends are told. Any client may ask, and gets what was published in no scope, which anybody may hear; an administrator
gets all. What it does not get is counted as hidden. The log is read and packed off the loop, a bounded part at a time.
"""

import asyncio
import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

from vicinal.errors import LocalProtocolError, VicinalError
from vicinal.filter import Filter
from vicinal.siena.messages import MAX_TOLD_CHARS

from ..log import Record
from ..log._record import encode_record
from ..log.scoped import unpack
from .identity import is_administrator

if TYPE_CHECKING:
    from .session import Session

__all__ = ["MAX_BYTES", "TOPIC", "in_no_scope", "pack", "read_log", "unpack_records"]

TOPIC = "log"
# Of events in one answer, before they are packed: some milliseconds of work, well within what may wait for a client.
MAX_BYTES = 1 << 20
MAX_RECORDS = 16384


def read_log(session: "Session", request: int, text: str) -> None:
    """Begins to; the answer follows. Raises VicinalError for what cannot be asked."""
    storage = session.node.storage
    if storage is None:
        raise LocalProtocolError(
            f"broker {session.node.engine.name!r} has no [log] in its configuration: with "
            "`directory` in a table [log] it keeps what is published, so that it can be read"
        )
    start, end, condition = _asked(text)
    sees_all = is_administrator(session.node.identities, session.identity)
    log = storage.published.log
    loop = asyncio.get_running_loop()

    def work() -> str:
        found: dict[str, Any] = {"first": log.first, "next": log.next}
        if start is not None:
            low = max(start, log.first)
            records, at = log.read(low, min(MAX_RECORDS, max(0, min(end, log.next) - low)), condition)
            records = [record for record in records if record.offset < end]
            records, at = _within(records, min(at, max(end, low)))
            shown = records if sees_all else [record for record in records if in_no_scope(record)]
            found.update(at=at, hidden=len(records) - len(shown), records=pack(shown))
        return json.dumps(found)

    def done(future: "asyncio.Future[str]") -> None:
        if session.link.connection.closed:
            return
        error = future.exception()
        if error is not None:
            session.answer(request, False, str(error))
        else:
            told = future.result()
            parts = [told[at : at + MAX_TOLD_CHARS] for at in range(0, len(told), MAX_TOLD_CHARS)]
            for part in parts:
                session.link.connection.send(("told", request, part))
            session.answer(request, True, len(parts))
        session.node.flush_soon(session.link)

    loop.run_in_executor(None, work).add_done_callback(done)


def _asked(text: str) -> tuple[int | None, int, Filter | None]:
    if not text:
        return None, 0, None
    try:
        found = json.loads(text)
        start, end, condition = found["from"], found["to"], found.get("filter")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LocalProtocolError(f'log {text[:80]!r}: want {{"from": offset, "to": offset, "filter": text}}') from None
    if type(start) is not int or type(end) is not int or not 0 <= start <= end:
        raise LocalProtocolError(f"log: from is {start!r} and to {end!r}, want offsets that ascend")
    return start, end, None if condition is None else Filter(str(condition))


def _within(records: list[Record], at: int) -> tuple[list[Record], int]:
    size = 0
    for count, record in enumerate(records):
        size += len(record.event)
        if size > MAX_BYTES and count:
            return records[:count], record.offset
    return records, at


def in_no_scope(record: Record) -> bool:
    """Published in no scope. What cannot be read is nobody's secret, and counted by who reads."""
    try:
        tags = unpack(record.event)[1] if record.event[:1] == b"\xd7" else None
    except VicinalError:
        return True
    return tags is None or not (tags.scopes or tags.admitted or not tags.rest)


def pack(records: list[Record]) -> str:
    return base64.b64encode(zlib.compress(b"".join([encode_record(record, 0) for record in records]), 1)).decode()


def unpack_records(text: str) -> list[Record]:
    """Raises VicinalError."""
    from ..log._scan import Scanner

    try:
        data = zlib.decompress(base64.b64decode(text))
    except (ValueError, zlib.error) as error:
        raise VicinalError(f"records of a broker's log: {error}") from error
    scanner = Scanner(0, 0, 1 << 63, 0)
    scanner.feed(data)
    scanner.feed(b"")
    found = scanner.take(1 << 62)
    if scanner.end != len(data):
        raise VicinalError(f"records of a broker's log are damaged at byte {scanner.end} of {len(data)}")
    return found
