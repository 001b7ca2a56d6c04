"""For languages without OR: the filter as a list of conjunctions, and the subjects that each of them allows."""

from ...event import Event
from .._ast import SUBJECT, Node
from .._covering import Term, literal_name, relates
from .._match import compile_node
from .._normal import dnf
from .._values import candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def satisfiable_terms(node: Node) -> "tuple[list[list[Node]], bool]":
    """The terms that an event can satisfy, and whether they are exact or wider."""
    terms, exact = dnf(node)
    return [literals for literals in terms if not Term(literals).empty()], exact


def about_subject(literals: "list[Any]") -> "list[Any]":
    return [literal for literal in literals if not relates(literal) and literal_name(literal).kind == SUBJECT]


def allows(literals: "list[Any]", subject: str) -> bool:
    """Whether all of these literals about the subject are true of it."""
    event = Event(subject)
    return all([compile_node(literal)(event) is True for literal in literals])


def subjects_of(literals: "list[Any]") -> "list[str] | None":
    """The subjects that the literals about it allow, if they name them."""
    found = candidates("s", literals)
    return None if found is None else [subject for subject in found if subject and allows(literals, subject)]
