"""LIKE patterns and their matching, in time linear in the text.

A pattern is cut at its % into segments; the first is tied to the start of the text and the last to its end, those
between are found from left to right, each as early as possible (earliest is always right: what follows has the most
room). Segments without _ are found by str.find; where there is a _, by a shift-and automaton, one bit per character of
the segment, so that no pattern makes it step back. In a segment None stands for _.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Segment: TypeAlias = "list[str | None]"


def segments(pattern: str, escape: "str | None" = None) -> "list[Segment]":
    """'ab%_c' -> [['a', 'b'], [None, 'c']]. n segments stand around n-1 percent signs."""
    found: list[Segment] = [[]]
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            found[-1].append(next(chars))
        elif char == "%":
            if len(found) == 1 or found[-1]:
                found.append([])
        elif char == "_":
            found[-1].append(None)
        else:
            found[-1].append(char)
    return found


def well_escaped(pattern: str, escape: str) -> bool:
    """Whether every escape character stands before %, _ or itself."""
    open_ = False
    for char in pattern:
        if open_ and char not in ("%", "_", escape):
            return False
        open_ = not open_ and char == escape
    return not open_


def literal(segment: "Segment") -> "str | None":
    """The segment's text, or None if it has a _."""
    if None in segment:
        return None
    return "".join(segment)  # type: ignore[arg-type]


def matcher(pattern: str, escape: "str | None" = None) -> "Callable[[str], bool]":
    parts = segments(pattern, escape)
    texts = [literal(part) for part in parts]
    if None not in texts:
        if len(parts) == 1:
            return lambda text: text == texts[0]
        if len(parts) == 2:
            if texts == ["", ""]:
                return lambda text: True
            if texts[1] == "":
                return lambda text: text.startswith(texts[0])  # type: ignore[arg-type]
            if texts[0] == "":
                return lambda text: text.endswith(texts[1])  # type: ignore[arg-type]
        elif len(parts) == 3 and texts[0] == "" and texts[2] == "":
            return lambda text: texts[1] in text  # type: ignore[operator]
    return lambda text: _general(parts, texts, text)


def _general(parts: "list[Segment]", texts: "list[str | None]", text: str) -> bool:
    need = sum([len(part) for part in parts])
    if len(text) < need or (len(parts) == 1 and len(text) != need):
        return False
    first, last = parts[0], parts[-1]
    if not _same(first, text[: len(first)]):
        return False
    if len(parts) == 1:
        return True
    if last and not _same(last, text[len(text) - len(last) :]):
        return False
    low, high = len(first), len(text) - len(last)
    if None in texts[1:-1]:
        return _in_turn(parts[1:-1], text[low:high])
    for plain in texts[1:-1]:
        at = text.find(plain, low, high)  # type: ignore[arg-type]
        if at < 0:
            return False
        low = at + len(plain)  # type: ignore[arg-type]
    return True


def _same(segment: "Segment", text: str) -> bool:
    for want, char in zip(segment, text):
        if want is not None and want != char:
            return False
    return True


def _in_turn(parts: "list[Segment]", text: str) -> bool:
    """Whether the segments occur one after the other: one pass over the text, whatever their number."""
    number = 0
    masks, anything = _masks(parts[0])
    state = 0
    for char in text:
        state = (state << 1 | 1) & masks.get(char, anything)
        if state >> len(parts[number]) - 1:
            number += 1
            if number == len(parts):
                return True
            masks, anything = _masks(parts[number])
            state = 0
    return False


def _masks(segment: "Segment") -> "tuple[dict[str, int], int]":
    """For each character the places where it fits, as bits; and those where any does."""
    anything = 0
    for i, want in enumerate(segment):
        if want is None:
            anything |= 1 << i
    masks: dict[str, int] = {}
    for i, want in enumerate(segment):
        if want is not None:
            masks[want] = masks.get(want, anything) | 1 << i
    return masks, anything
