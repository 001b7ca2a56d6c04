"""Which subjects a filter is about: what services that know subjects, and nothing of contents, have to ask for."""

from collections.abc import Iterable

from vicinal.filter import Filter
from vicinal.filter.translate._terms import about_subject, allows, satisfiable_terms, subjects_of

__all__ = ["named_subjects", "possible_subjects"]


def named_subjects(condition: Filter) -> list[str] | None:
    """Those that events meeting it can have, in order; None where the filter does not say."""
    found: set[str] = set()
    for literals in satisfiable_terms(condition.node)[0]:
        named = subjects_of(about_subject(literals))
        if named is None:
            return None
        found.update(named)
    return sorted(found)


def possible_subjects(condition: Filter, known: Iterable[str]) -> set[str]:
    """Those of the `known` ones that an event meeting it can have."""
    terms = [about_subject(literals) for literals in satisfiable_terms(condition.node)[0]]
    return {subject for subject in known if any(allows(about, subject) for about in terms)}
