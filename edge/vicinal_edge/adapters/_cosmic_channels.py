"""Event channels of a gateway, as its configuration has them:

    [[service.event_channel]]
    subject = "Speed"
    class = "srt"                     # srt, nrt or hrt
    etag = 300                        # else it is bound, by the broker of names on the bus
    codec = "cbor"                    # "mapping": the data of the mapping's message of this subject, and nothing else
    fragmented = true                 # with codec "cbor", unless said; all who use the channel must say the same
    deadline_ms = 20                  # srt: when an event should have been sent, unless its Deadline says so
    validity_ms = 1000                # after which it is worthless, unless its Expires says so
    priority = 253                    # nrt: 251 .. 255

    period_us, phase_us, bytes, omissions, precision_us, slot_node         hrt: its slot in the bus's calendar

Priority, where an event has one and no Deadline, moves the deadline of a soft real-time channel: 1 halves it, 15 and
more make it a sixteenth; -1 doubles it.
"""

from typing import Any

from vicinal.control import SUBJECT as CONTROL
from vicinal.cosmic.channels import MAX_SRT_BYTES, Channel, NrtChannel, SrtChannel
from vicinal.cosmic.fragments import EVENT_BYTES
from vicinal.cosmic.hrt import HrtChannel
from vicinal.cosmic.identifier import MAX_ETAG, MAX_TX_NODE, NRT_FIRST, NRT_LAST
from vicinal.cosmic.mapping import Mapping
from vicinal.cosmic.slot import MAX_OMISSIONS, MAX_SLOT_BYTES, Slot
from vicinal.event import Event
from vicinal.tables_cpython import Table

from ._cosmic_node import GatewayNode

__all__ = ["ChannelSettings", "deadline_of", "read_channels"]

FIRST_ETAG = 100
"""below are the protocols of the bus itself"""
DAY_MS = 86_400_000
MOST_URGENT = 15


class ChannelSettings:
    def __init__(self, subject: str, kind: str = "nrt", etag: int | None = None, validity_ms: int = 10_000) -> None:
        self.subject = subject
        self.kind = kind
        self.etag = etag
        self.codec: Any = None
        self.fragmented = True
        self.deadline_ms = 20
        self.validity_ms = validity_ms
        self.priority = 253
        self.slot: dict[str, Any] = {}

    @property
    def max_bytes(self) -> int:
        """of an event, as the codec gives it"""
        if self.kind == "hrt":
            return int(self.slot["size"])
        if not self.fragmented:
            return 8
        return MAX_SRT_BYTES if self.kind == "srt" else EVENT_BYTES

    def channel(self, node: GatewayNode, etag: int, bitrate: int) -> Channel:
        if self.kind == "hrt":
            return HrtChannel(node, etag, Slot(self.subject, bitrate=bitrate, **self.slot), self.codec)
        if self.kind == "srt":
            deadline, validity = self.deadline_ms * 1000, self.validity_ms * 1000
            return SrtChannel(node, etag, deadline, validity, self.codec, self.fragmented)
        return _Nrt(node, etag, self.priority, self.codec, self.fragmented, self.validity_ms * 1000)


class _Nrt(NrtChannel):
    max_length = EVENT_BYTES  # what receivers put together (CBIND-11)

    def publish(self, event: Event, now: int, expires: int | None = None) -> bool:
        return super().publish(event, now) if expires is None else self._put(event, self.priority, now, None, expires)


def deadline_of(event: Event, deadline_ms: int) -> int:
    """Microseconds from now, of an event without a Deadline."""
    priority: int = max(-MOST_URGENT, min(MOST_URGENT, event.attrs.get("Priority", 0)))
    return deadline_ms * 1000 * (1 - priority) if priority < 0 else deadline_ms * 1000 // (1 + priority)


def read_channels(settings: Table, mapping: Mapping | None) -> dict[str, ChannelSettings]:
    found: dict[str, ChannelSettings] = {}
    etags: dict[int, str] = {}
    for table in settings.tables("event_channel"):
        one = _channel(table, mapping)
        if one.subject in found:
            table.fail("subject", f"is {one.subject!r}, which has a channel already")
        if one.etag is not None and one.etag in etags:
            table.fail("etag", f"is {one.etag}, which is the channel of {etags[one.etag]!r} already")
        found[one.subject] = one
        if one.etag is not None:
            etags[one.etag] = one.subject
    return found


def _channel(table: Table, mapping: Mapping | None) -> ChannelSettings:
    subject = table.take("subject", str, required=True)
    kind = table.choice("class", ("srt", "nrt", "hrt"), "nrt")
    one = ChannelSettings(subject, kind, table.number("etag", None, FIRST_ETAG, MAX_ETAG))
    message = None if mapping is None else mapping.of_subject(subject)
    if table.choice("codec", ("cbor", "mapping"), "cbor") == "mapping":
        if message is None:
            table.fail("codec", f'is "mapping", and no message of the mapping has subject {subject!r}')
        one.codec = message
    elif message is not None:
        table.fail(
            "subject", f'is {subject!r}, which the mapping has as frames: take it out there, or codec = "mapping"'
        )
    one.fragmented = table.take("fragmented", bool, one.codec is None)
    if kind == "hrt":
        size = table.number("bytes", 8 if one.codec is not None else MAX_SLOT_BYTES, 1, MAX_SLOT_BYTES)
        one.fragmented = size > 8
        if (period := table.number("period_us", None, 1, 10_000_000)) is None:
            table.fail("period_us", "is missing: a hard real-time channel has a slot")
        one.slot = {
            "phase": table.number("phase_us", 0, 0, period - 1),
            "period": period,
            "size": size,
            "omissions": table.number("omissions", 1, 0, MAX_OMISSIONS),
            "precision": table.number("precision_us", 100, 0),
            "tx_node": table.number("slot_node", None, 0, MAX_TX_NODE),
        }
    elif kind == "srt":
        one.deadline_ms = table.number("deadline_ms", one.deadline_ms, 1, DAY_MS)
        one.validity_ms = table.number("validity_ms", 1_000, 1, DAY_MS)
    else:
        one.validity_ms = table.number("validity_ms", one.validity_ms, 1, DAY_MS)
        one.priority = table.number("priority", one.priority, NRT_FIRST, NRT_LAST)
    if subject == CONTROL and one.max_bytes < EVENT_BYTES:
        table.fail("class", f"is {kind!r}: {CONTROL} needs a fragmented nrt channel, its events are long")
    table.done()
    return one
