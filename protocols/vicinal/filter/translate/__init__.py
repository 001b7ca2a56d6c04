"""A filter in other languages: never narrower than the original (seed 001, 5.2.5).

What a language cannot say is left out, which widens; the rest is filtered where the event arrives. A Translation
says whether it is exact, and if not, why. Exact is meant for the values the other side can carry: bytes, nested
events and NaN have no equal in most of them.

Each target is a module; a device loads none of them.
"""

__all__ = ["Translation"]


class Translation:
    """`text` in the other language, whether it is `exact` or wider, and the `reasons` why it is wider."""

    __slots__ = ("reasons", "text")

    def __init__(self, text: str, reasons: "list[str]") -> None:
        self.text = text
        self.reasons = reasons

    @property
    def exact(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{'exact' if self.exact else 'wider'}: {self.text}>"
