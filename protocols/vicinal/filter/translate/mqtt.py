"""MQTT topic filters. The subject is the topic, under a prefix: "Speed" is published to vicinal/Speed.

One line for each topic filter to subscribe to; none if no event can match. Only the subject is in a topic, so that any
other condition widens. The prefix also keeps # from missing topics that start with $.
"""

from .._ast import Like, Node
from .._like import segments
from . import Translation
from ._terms import about_subject, satisfiable_terms, subjects_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def to_mqtt(node: Node, prefix: str = "vicinal/") -> Translation:
    terms, exact = satisfiable_terms(node)
    reasons = [] if exact else ["the filter has more than 64 alternatives"]
    lines: list[str] = []
    for literals in terms:
        about = about_subject(literals)
        if len(about) < len(literals):
            reasons.append("a topic holds the subject only")
        subjects = subjects_of(about)
        if subjects is None or not all([_a_topic(subject) for subject in subjects]):
            topics = [_common(about)]
            if about or topics != ["#"]:
                reasons.append("a topic filter names whole levels only")
        else:
            topics = subjects
        lines += [prefix + topic for topic in topics]
    if prefix + "#" in lines:
        lines = [prefix + "#"]
    return Translation("\n".join(_unique(lines)), _unique(reasons))


def _a_topic(subject: str) -> bool:
    return not any([char in subject for char in "+#\0\n"])  # (a line is a topic filter)


def _common(literals: "list[Any]") -> str:
    """The levels that a LIKE says all subjects begin with, then #."""
    for literal in literals:
        if type(literal) is Like:
            start = ""
            for char in segments(literal.pattern, literal.escape)[0]:
                if char is None:
                    break
                start += char
            levels = start.split("/")[:-1]
            if levels and _a_topic(start):
                return "/".join(levels) + "/#"
    return "#"


def _unique(lines: "list[str]") -> "list[str]":
    found: list[str] = []
    for line in lines:
        if line not in found:
            found.append(line)
    return found
