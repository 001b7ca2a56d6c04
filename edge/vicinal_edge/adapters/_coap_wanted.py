"""What is wanted of those who publish to a CoAP service, as one condition that a small device can hold.

    subscriptions of the gateway ──┐
                                   ├─▶ "(subject = 'Speed' AND rate > 30) OR subject = 'Door'" ─▶ /ps/AgentWanted
    observers of /ps/SUBJECT ──────┘

It is never narrower than all of them together. Where it would be too long, the longest of them are replaced by their
subjects; where that is still too long, or one names no subject, everything is wanted.
"""

from collections.abc import Iterable
from functools import lru_cache

from vicinal.errors import LocalProtocolError
from vicinal.filter import Filter

__all__ = ["ALWAYS", "MAX_BYTES", "NOTHING", "WANTED", "asked_by", "of_subject", "wanted"]

WANTED = "AgentWanted"
FOR_AGENTS = (WANTED, "AgentRules", "AgentUpdate")
"""what agents observe and nobody publishes to us for them: it is not wanted of agents"""
ALWAYS = ("AgentHealth",)
"""what agents publish whether it is wanted or not"""
# With the rest of the event it is a block of 512 bytes, and what a device makes of it a few of its kilobytes.
MAX_BYTES = 400
# Each is compared with each.
MAX_COMPARED = 32
EVERYTHING, NOTHING = "TRUE", "FALSE"


def asked_by(subject: str | None, condition: Filter | None) -> Filter | None:
    """Of an observer of a topic, or of all of them; None: nothing."""
    if subject is None:
        return condition or Filter(EVERYTHING)
    if subject in FOR_AGENTS:
        return None
    try:
        return of_subject(subject, condition)
    except LocalProtocolError:  # longer together than a filter may be
        return of_subject(subject)


def of_subject(subject: str, condition: Filter | None = None) -> Filter:
    quoted = subject.replace("'", "''")
    text = f"subject = '{quoted}'"
    return Filter(text if condition is None else f"{text} AND ({condition.text})")


def wanted(conditions: Iterable[Filter]) -> str:
    left = list({one.text: one for one in conditions}.values())
    if len(left) > MAX_COMPARED:
        return _by_subjects([], left) or EVERYTHING
    left = _needed(left)
    longest = sorted(left, key=lambda one: -len(one.text))
    for count in range(len(left) + 1):
        others = longest[:count]
        found = _by_subjects([one for one in left if one not in others], others)
        if found is not None:
            return found
    return EVERYTHING


def _by_subjects(exact: list[Filter], others: list[Filter]) -> str | None:
    """Some as they are, the others by their subjects. None: too long, or one has any subject."""
    subjects: set[str] = set()
    for one in others:
        some = _subjects(one.text)
        if some is None:
            return None
        subjects.update(some)
    texts = [one.text for one in exact]
    if subjects:
        names = ", ".join("'" + one.replace("'", "''") + "'" for one in sorted(subjects))
        if not _is_short(names):
            return None
        whole = Filter(f"subject IN ({names})")
        texts = [*[one.text for one in exact if not whole.covers(one)], whole.text]
    return _joined(texts)


def _needed(conditions: list[Filter]) -> list[Filter]:
    """Without those that another covers."""
    found: list[Filter] = []
    for one in conditions:
        if any(other.covers(one) for other in found):
            continue
        found = [other for other in found if not one.covers(other)] + [one]
    return found


def _joined(texts: list[str]) -> str | None:
    """None: too long."""
    text = NOTHING if not texts else texts[0] if len(texts) == 1 else " OR ".join(f"({one})" for one in texts)
    if not _is_short(text):
        return None
    try:
        return Filter(text).text
    except LocalProtocolError:  # deeper or with more conditions than a filter has
        return None


def _is_short(text: str) -> bool:
    return len(text.encode()) <= MAX_BYTES


@lru_cache(4096)
def _subjects(text: str) -> tuple[str, ...] | None:
    """Of a condition; None: of any."""
    topics = Filter(text).to_mqtt("").text.split("\n")
    return None if any("#" in one or "+" in one for one in topics) else tuple(one for one in topics if one)
