"""Does a string exist that satisfies all of these constraints? Decided, not guessed, by walking automata.

Every constraint on a string is a small deterministic automaton: a comparison counts how far the text equals its
constant, a LIKE keeps the set of places of its pattern as bits. Their product is searched breadth first from
the empty string; only characters that the constants name, and one for each gap between them, need be tried.
The first state in which all accept spells the shortest witness. Where patterns with many _ blow the product up
past MAX_STRING_STATES, or many questions use up MAX_STRING_STEPS, the search gives up, and the caller takes the safe
side.
"""

from .. import limits
from ._ast import Compare, Not
from ._like import segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LESS, _GREATER = -1, -2


class _Order:
    """text op constant. States: how many characters equal the constant's start, or decided."""

    def __init__(self, op: str, constant: str) -> None:
        self.op = op
        self.constant = list(constant)
        self.start = 0

    def step(self, state: int, char: str) -> int:
        if state < 0:
            return state
        if state == len(self.constant) or char > self.constant[state]:
            return _GREATER
        return state + 1 if char == self.constant[state] else _LESS

    def accepts(self, state: int) -> bool:
        if state == len(self.constant):
            return self.op in ("=", "<=", ">=")
        if self.op in ("=", "<>"):
            return self.op == "<>"
        return ("<" in self.op) is not (state == _GREATER)

    def hopeless(self, state: int) -> bool:
        """No continuation is accepted."""
        return state < 0 and not self.accepts(state)


class _Pattern:
    """text [NOT] LIKE pattern. States: a bit for each place in the pattern that the text may have reached."""

    def __init__(self, pattern: str, escape: "str | None", wanted: bool) -> None:
        self.wanted = wanted
        self.any = 0  # places whose next character may be anything
        self.loops = 0  # places that a % keeps alive
        self.places: dict[str, int] = {}
        at = 0
        for number, segment in enumerate(segments(pattern, escape)):
            if number:
                self.loops |= 1 << at
            for char in segment:
                if char is None:
                    self.any |= 1 << at
                else:
                    self.places[char] = self.places.get(char, 0) | 1 << at
                at += 1
        self.end = 1 << at
        self.start = 1

    def step(self, state: int, char: str) -> int:
        return (state & (self.any | self.places.get(char, 0))) << 1 | state & self.loops

    def accepts(self, state: int) -> bool:
        return bool(state & self.end) is self.wanted

    def hopeless(self, state: int) -> bool:
        if self.wanted:
            return not state
        return bool(state & self.end & self.loops)


def find_string(literals: "list[Any]", budget: "list[int]") -> "tuple[bool, str | None]":
    """(True, a string that satisfies all), (True, None) if perhaps there is one, (False, None) if there is none.
    `budget` is what is left of MAX_STRING_STEPS; what is spent is taken off."""
    machines, letters = _machines(literals)
    start = tuple([machine.start for machine in machines])
    seen = {start}
    front = [(start, "")]
    while front:
        following = []
        for states, text in front:
            if all([machine.accepts(state) for machine, state in zip(machines, states)]):
                return True, text
            for char in letters:
                budget[0] -= len(machines)
                after = tuple([machine.step(state, char) for machine, state in zip(machines, states)])
                if budget[0] < 0:
                    return True, None
                if after in seen or any([machine.hopeless(state) for machine, state in zip(machines, after)]):
                    continue
                seen.add(after)
                if len(seen) > limits.MAX_STRING_STATES:
                    return True, None
                following.append((after, text + char))
        front = following
    return False, None


def _machines(literals: "list[Any]") -> "tuple[list[Any], list[str]]":
    machines: list[Any] = []
    named: set[str] = set()
    edges: set[str] = set()
    for literal in literals:
        if type(literal) is Compare:
            machines.append(_Order(literal.op, literal.value))
            edges.update(literal.value)
        else:
            like: Any = literal.term if type(literal) is Not else literal
            machine = _Pattern(like.pattern, like.escape, like is literal)
            machines.append(machine)
            named.update(machine.places)
    return machines, _letters(named | edges, sorted(edges))


def _letters(named: "set[str]", edges: "list[str]") -> "list[str]":
    """Every named character, one that lies in each gap between the edges, and one that nobody named."""
    found = sorted(named)
    for lower, upper in zip([""] + edges, edges + [""]):
        low = ord(lower) + 1 if lower else 0
        high = ord(upper) - 1 if upper else 0x10FFFF
        char = _between(low, high, named)
        if char:
            found.append(char)
    return found


def _between(low: int, high: int, named: "set[str]") -> "str | None":
    for code in (97, 120, 65, 48, low, high):  # a readable one if it fits
        if low <= code <= high and not 0xD800 <= code <= 0xDFFF and chr(code) not in named:
            return chr(code)
    for code in range(low, high + 1):
        if not 0xD800 <= code <= 0xDFFF and chr(code) not in named:
            return chr(code)
    return None
