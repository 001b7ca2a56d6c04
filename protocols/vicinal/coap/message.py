"""One CoAP message as bytes (RFC 7252, 3).

    version 1 (2 bits) │ type (2) │ token length (4) │ code (8) │ message id (16)
    token │ option │ option │ ... │ 0xFF │ payload              without the 0xFF where there is no payload
    option: delta of the number (4) │ length (4) │ 0 .. 2 bytes more of either │ value

Options are pairs of number and value in ascending order of numbers, as they are on the wire. Values stay bytes: what a
number means is for who knows it, and an elective option of a wrong length counts as absent (RFC 7252, 5.4.3).
"""

from .._compat import const
from ..errors import LimitError, LocalProtocolError, RemoteProtocolError

__all__ = ["Message", "decode", "dotted", "encode", "uint", "uint_of"]

CON, NON, ACK, RST = 0, 1, 2, 3

EMPTY, GET, POST, PUT = 0, 1, 2, 3
CONTINUE, UNAUTHORIZED, INCOMPLETE, TOO_LARGE = 0x5F, 0x81, 0x88, 0x8D

ETAG, OBSERVE, URI_PATH, CONTENT_FORMAT, MAX_AGE, URI_QUERY = 4, 6, 11, 12, 14, 15
ACCEPT, BLOCK2, BLOCK1, SIZE2, SIZE1, ECHO, NO_RESPONSE = 17, 23, 27, 28, 60, 252, 258

# What goes through every network in one packet (RFC 7252, 4.6), with the largest block and room for options.
MAX_DATAGRAM = const(1280)
# A request for a subject of 255 bytes with a long filter has 30; an answer has ten.
MAX_OPTIONS = const(48)
MAX_OPTION_NUMBER = const(65535)
MAX_TOKEN = const(8)


class Message:
    __slots__ = ("code", "mid", "options", "payload", "token", "type")

    def __init__(
        self,
        type: int,
        code: int,
        mid: int,
        token: bytes = b"",
        options: "list[tuple[int, bytes]] | None" = None,
        payload: bytes = b"",
    ) -> None:
        self.type = type
        self.code = code
        self.mid = mid
        self.token = token
        self.options = [] if options is None else options
        self.payload = payload

    def first(self, number: int, most: int = 255) -> "bytes | None":
        """The value of an option; of several the first. One that is longer than `most` counts as absent."""
        for each, value in self.options:
            if each == number:
                return value if len(value) <= most else None
        return None

    def uint(self, number: int, most: int = 4) -> "int | None":
        value = self.first(number, most)
        return None if value is None else uint_of(value)


def encode(message: Message) -> bytes:
    token, payload = message.token, message.payload
    if len(token) > MAX_TOKEN:
        raise LimitError("bytes of a token", len(token), MAX_TOKEN)
    if not 0 <= message.mid <= 0xFFFF or not 0 <= message.code <= 0xFF or not 0 <= message.type <= 3:
        raise LocalProtocolError(f"type {message.type}, code {message.code}, id {message.mid}: want 2, 8 and 16 bits")
    if message.code == EMPTY and (token or message.options or payload):
        raise LocalProtocolError("an empty message has neither token nor options nor payload")
    found = bytearray((0x40 | message.type << 4 | len(token), message.code, message.mid >> 8, message.mid & 0xFF))
    found.extend(token)
    last = 0
    for number, value in message.options:
        if not last <= number <= MAX_OPTION_NUMBER:
            raise LocalProtocolError(f"option {number} after {last}: want ascending numbers up to {MAX_OPTION_NUMBER}")
        delta, length = _nibble(number - last), _nibble(len(value))
        found.append(delta << 4 | length)
        _more(found, delta, number - last)
        _more(found, length, len(value))
        found.extend(value)
        last = number
    if payload:
        found.append(0xFF)
        found.extend(payload)
    if len(found) > MAX_DATAGRAM:
        raise LimitError("bytes of a CoAP message", len(found), MAX_DATAGRAM)
    return bytes(found)


def _nibble(number: int) -> int:
    return number if number < 13 else 13 if number < 269 else 14


def _more(found: bytearray, nibble: int, number: int) -> None:
    if nibble == 13:
        found.append(number - 13)
    elif nibble == 14:
        found.append(number - 269 >> 8)
        found.append(number - 269 & 0xFF)


def decode(data: bytes) -> Message:
    size = len(data)
    if size < 4:
        raise RemoteProtocolError(f"{size} bytes, a message has 4 at least", size)
    if size > MAX_DATAGRAM:
        raise RemoteProtocolError(f"{size} bytes, the limit is {MAX_DATAGRAM}", MAX_DATAGRAM)
    first, code = data[0], data[1]
    if first >> 6 != 1:
        raise RemoteProtocolError(f"version {first >> 6}, want 1")
    length = first & 15
    if length > MAX_TOKEN:
        raise RemoteProtocolError(f"a token of {length} bytes, the limit is {MAX_TOKEN}")
    if code == EMPTY and size > 4:
        raise RemoteProtocolError("an empty message has nothing after its id", 4)
    if code >> 5 in (1, 6, 7):
        raise RemoteProtocolError(f"code {dotted(code)} is reserved", 1)
    at = 4 + length
    if at > size:
        raise RemoteProtocolError("it ends in the token", size)
    message = Message(first >> 4 & 3, code, data[2] << 8 | data[3], bytes(data[4:at]))
    number = 0
    while at < size:
        head = data[at]
        if head == 0xFF:
            if at + 1 == size:
                raise RemoteProtocolError("a payload marker and no payload", at)
            message.payload = bytes(data[at + 1 :])
            break
        start = at
        delta, at = _read(data, head >> 4, at + 1, start)
        length, at = _read(data, head & 15, at, start)
        number += delta
        if number > MAX_OPTION_NUMBER:
            raise RemoteProtocolError(f"option {number}, the limit is {MAX_OPTION_NUMBER}", start)
        if at + length > size:
            raise RemoteProtocolError(f"option {number} of {length} bytes, {size - at} are there", start)
        if len(message.options) == MAX_OPTIONS:
            raise RemoteProtocolError(f"more than {MAX_OPTIONS} options", start)
        message.options.append((number, bytes(data[at : at + length])))
        at += length
    return message


def _read(data: bytes, nibble: int, at: int, start: int) -> "tuple[int, int]":
    """A delta or a length, and where its next is."""
    if nibble < 13:
        return nibble, at
    if nibble == 15:
        raise RemoteProtocolError("a delta or length of 15 is reserved", start)
    if at + nibble - 12 > len(data):
        raise RemoteProtocolError("it ends in an option", len(data))
    if nibble == 13:
        return data[at] + 13, at + 1
    return (data[at] << 8 | data[at + 1]) + 269, at + 2


def uint(number: int) -> bytes:
    """The shortest form; of 0 no byte at all."""
    if not 0 <= number <= 0xFFFFFFFF:
        raise LimitError("number in an option", number, "0 .. 2^32-1")
    size = 0
    while number >> 8 * size:
        size += 1
    return number.to_bytes(size, "big") if size else b""


def uint_of(value: bytes) -> int:
    return int.from_bytes(value, "big")


def dotted(code: int) -> str:
    """2.05 of 0x45"""
    return f"{code >> 5}.{code & 31:02d}"
