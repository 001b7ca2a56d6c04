"""Which CAN frame is which event, and back (seed 001, 5.8.2; spec/can_mapping.md). The user says it:

    12345 -> subject "Speed", bytes 0..6 -> parameter 0 "license_no" string, byte 7 -> parameter 1 "rate" double

    id 12345   data 30 30 44 31 32 33 34 39   <->   Event("Speed", [("license_no", "00D1234"), ("rate", 57.0)])
                    └───────────────────┘ └┘
                          license_no     rate

A mapping comes from our TOML (`mapping_toml_cpython`), from a DBC file (`vicinal_hw.can.dbc`) or, on a device, from the
same tables as JSON. A parameter has its field's name; its unit is not in the event, but in the mapping that the sender
and the reader share: `mapping.units("Speed")`.

    mapping.decode(frame)     the event; None if the mapping does not know the identifier
    mapping.encode(event)     the frame
    filter.to_can(mapping.identifiers())     which frames a controller must let through for a subscription

A message alone is the codec of a COSMIC channel, whose identifier has the sender and the priority beside the etag:
`SrtChannel(node, etag, deadline, codec=mapping.of_subject("Speed"))`.
"""

from .._compat import MICROPYTHON, Ordered
from ..errors import LocalProtocolError, RemoteProtocolError
from ..event import Event
from ._mapping_fields import MAX_LENGTH, Field
from .frame import STANDARD_MAX, Frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["MAX_LENGTH", "MAX_MESSAGES", "Field", "Mapping", "Message"]

# More than any car has, and a table that a gateway keeps in memory.
MAX_MESSAGES = 16384
# As in SocketCAN: it tells an extended identifier from a standard one of the same number.
_EXTENDED_FLAG = 1 << 31


class Message:
    """What the frames with one identifier carry. The order of `fields` is that of the event's parameters."""

    __slots__ = ("_decoder", "by_name", "extended", "fields", "id", "length", "subject", "switches")

    def __init__(
        self,
        id: int,
        subject: str,
        fields: "list[Field]",
        length: "int | None" = None,
        extended: "bool | None" = None,
        by_name: bool = False,
    ) -> None:
        self.id = id
        self.subject = subject
        self.fields = fields
        self.extended = id > STANDARD_MAX if extended is None else extended
        self.by_name = by_name
        if length is None:
            length = max([max(field.bits()) for field in fields]) // 8 + 1 if fields else 0
        self.length = length
        for field in fields:
            field.place(length)
        self.switches = {field.when[0] for field in fields if field.when is not None}
        self._decoder: Callable[[bytes], dict[str, Any]] | None = None

    @property
    def key(self) -> int:
        """The identifier with bit 31 set where it is extended."""
        return self.id | _EXTENDED_FLAG if self.extended else self.id

    def params(self, data: bytes) -> "dict[str, Any]":
        """The parameters in order. Bytes past the message's length are not looked at."""
        if self._decoder is None:
            self._decoder = self._interpret if MICROPYTHON else self._compiled()
        if len(data) < self.length:
            raise self.too_short(data)
        return self._decoder(data if len(data) == self.length else data[: self.length])

    def too_short(self, data: bytes) -> RemoteProtocolError:
        return RemoteProtocolError(
            f"{self.subject} ({self.id:#x}) with {len(data)} bytes of data, it has {self.length}", len(data)
        )

    def decode(self, data: bytes, attrs: "Any" = ()) -> Event:
        params = self.params(data)
        try:
            return Event(self.subject, params, attrs)
        except LocalProtocolError as error:  # an unsigned number past 2^63 - 1
            raise RemoteProtocolError(f"{self.subject} ({self.id:#x}): {error}")

    def encode(self, event: Event) -> bytes:
        """The data. Every field must have its parameter and every parameter its field: nothing is left out."""
        frame = {True: 0, False: 0}
        used = 0
        present: dict[str, int] = {}
        for field in self.fields:
            if field.when is not None and present.get(field.when[0]) not in field.when[1]:
                continue
            if field.name not in event.params:
                raise LocalProtocolError(f"event {event.subject!r} lacks {field.name!r}, which {self._title()} needs")
            try:
                bits = field.encode(event.params[field.name])
            except LocalProtocolError as error:
                raise LocalProtocolError(f"{self._title()}: {error}")
            used += 1
            frame[field.big] |= bits << field.shift
            if field.name in self.switches:
                present[field.name] = field.with_sign(bits)
        if used != len(event.params):
            self._too_many(event, present)
        little = frame[False].to_bytes(self.length, "little")
        big = frame[True].to_bytes(self.length, "big")
        return bytes([a | b for a, b in zip(little, big)])

    def _too_many(self, event: Event, present: "dict[str, int]") -> None:
        fields = {field.name: field for field in self.fields}
        for name in event.params:
            if name not in fields:
                raise LocalProtocolError(f"event {event.subject!r} has {name!r}, for which {self._title()} has no room")
            when = fields[name].when
            if when is not None and present.get(when[0]) not in when[1]:
                want = " or ".join([str(value) for value in when[1]])
                raise LocalProtocolError(f"event {event.subject!r} has {name!r}, which goes with {when[0]} {want} only")

    def _title(self) -> str:
        return f"message {self.subject} ({self.id:#x})"

    def _interpret(self, data: bytes) -> "dict[str, Any]":
        found: dict[str, Any] = Ordered()
        present: dict[str, int] = {}
        for field in self.fields:
            if field.when is not None and present.get(field.when[0]) not in field.when[1]:
                continue
            found[field.name] = field.decode(data, self.by_name)
            if field.name in self.switches:
                present[field.name] = field.raw(data)
        return found

    def _compiled(self) -> "Callable[[bytes], dict[str, Any]]":
        if not MICROPYTHON:
            from ._mapping_compile_cpython import compile_message

            return compile_message(self)
        return self._interpret

    def table(self) -> "dict[str, Any]":
        """As in a file; see `Mapping.tables`."""
        found: dict[str, Any] = {"id": self.id, "subject": self.subject, "length": self.length, "holes": True}
        if self.extended != (self.id > STANDARD_MAX):
            found["extended"] = self.extended
        found["fields"] = [field.table() for field in self.fields]
        return found


class Mapping:
    """Messages by identifier and by subject. A subject may be sent under several identifiers: an event of it is sent
    under the first."""

    def __init__(self, messages: "list[Message]") -> None:
        if len(messages) > MAX_MESSAGES:
            raise LocalProtocolError(f"{len(messages)} messages, a mapping has at most {MAX_MESSAGES}")
        self.messages = messages
        self._by_key: dict[int, Message] = {}
        self._by_subject: dict[str, Message] = {}
        for message in messages:
            other = self._by_key.get(message.key)
            if other is not None:
                raise LocalProtocolError(
                    f"identifier {message.id} ({message.id:#x}) is of {other.subject!r} and of {message.subject!r}"
                )
            self._by_key[message.key] = message
            self._by_subject.setdefault(message.subject, message)

    @staticmethod
    def from_tables(tables: "dict[str, Any]", file: str = "mapping", by_name: bool = False) -> "Mapping":
        """From what a TOML or JSON file holds; `file` is its name for messages."""
        from ._mapping_tables import read_tables

        return Mapping(read_tables(tables, file, by_name))

    def tables(self) -> "dict[str, Any]":
        """What `from_tables` makes the same mapping of: staged as JSON, it is a device's."""
        return {"message": [message.table() for message in self.messages]}

    def message(self, id: int, extended: bool) -> "Message | None":
        return self._by_key.get(id | _EXTENDED_FLAG if extended else id)

    def of_subject(self, subject: str) -> "Message | None":
        return self._by_subject.get(subject)

    def identifiers(self) -> "dict[str, list[int]]":
        """For `Filter.to_can`: the identifiers of each subject, with bit 31 set where extended."""
        found: dict[str, list[int]] = Ordered()
        for message in self.messages:
            found.setdefault(message.subject, []).append(message.key)
        return found

    def units(self, subject: str) -> "dict[str, str]":
        """The units of a subject's parameters, where there is one."""
        found: dict[str, str] = Ordered()
        for message in self.messages:
            if message.subject == subject:
                for field in message.fields:
                    if field.unit:
                        found[field.name] = field.unit
        return found

    def decode(self, frame: Frame, attrs: "Any" = ()) -> "Event | None":
        """None of a frame that the mapping does not know, and of a remote frame, which has no data."""
        message = self.message(frame.id, frame.extended)
        if message is None or frame.remote:
            return None
        return message.decode(frame.data, attrs)

    def encode(self, event: Event) -> Frame:
        message = self._by_subject.get(event.subject)
        if message is None:
            raise LocalProtocolError(f"no message of the mapping has subject {event.subject!r}")
        return Frame(message.id, message.encode(event), message.extended)
