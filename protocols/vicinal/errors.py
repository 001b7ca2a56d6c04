"""The errors of Vicinal, sorted by who is to blame.

    VicinalError
    ├── LocalProtocolError            we, or our user, misused the library
    │   ├── LimitError                a named limit was passed (what, value, limit)
    │   └── FilterSyntaxError         a filter's text is wrong (text, column)
    └── RemoteProtocolError           the peer sent what it must not (offset)

One chain from Exception, because MicroPython has no multiple inheritance from built-in exceptions. Every
message carries the value, the limit and the place.
"""

__all__ = ["FilterSyntaxError", "LimitError", "LocalProtocolError", "RemoteProtocolError", "VicinalError"]


class VicinalError(Exception):
    pass


class LocalProtocolError(VicinalError):
    pass


class LimitError(LocalProtocolError):
    def __init__(self, what: str, value: object, limit: object) -> None:
        super().__init__(f"{what} is {value}, the limit is {limit}")
        self.what = what
        self.value = value
        self.limit = limit


class FilterSyntaxError(LocalProtocolError):
    """`column` counts characters from 1, as editors do."""

    def __init__(self, message: str, text: str, column: int) -> None:
        super().__init__(f"{message} (column {column})")
        self.reason = message
        self.text = text
        self.column = column


class RemoteProtocolError(VicinalError):
    """`offset` is the byte at which the input went wrong, counted from the start of what was decoded."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(f"{message} (at byte {offset})")
        self.reason = message
        self.offset = offset
