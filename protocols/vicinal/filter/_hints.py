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
    return f"unexpected character {pair[0]!r}"
