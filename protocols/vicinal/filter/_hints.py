"""What people write first, and what it is called here. Loaded only to explain an error."""

_HINTS = (
    ("==", "write = for 'equal'"),
    ("!=", "write <> for 'not equal'"),
    ("&&", "write AND"),
    ("||", "write OR"),
    ("!", "write NOT"),
    ('"', "a string stands in single quotes, a name with unusual characters in backticks"),
)


def hint(pair: str) -> str:
    """For the two characters at the place of the error."""
    for start, advice in _HINTS:
        if pair.startswith(start):
            return f"{start} is not used here: {advice}"
    if pair[0] > "\x7f":
        return f"unexpected character {pair[0]!r}: a name with other than English letters stands in backticks"
    return f"unexpected character {pair[0]!r}"


def after(value: object) -> str:
    """What was wanted where a condition could have ended."""
    if value in ("+", "-"):
        return "the end of the condition (there is no arithmetic in filters)"
    if value == "(":
        return "the end of the condition (the only function is within)"
    return "the end of the condition"
