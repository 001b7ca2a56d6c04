"""Which mapping: --dbc FILE or --mapping FILE, and what else they need."""

import difflib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from vicinal.cosmic.mapping import Mapping, Message
from vicinal.errors import LocalProtocolError
from vicinal.filter import Filter

from ..complain import BadInput

__all__ = ["load_mapping", "mapping_options", "message_named", "wanted_by"]

F = TypeVar("F", bound=Callable[..., Any])


def mapping_options(command: F) -> F:
    path = click.Path(exists=True, dir_okay=False)
    for option in reversed(
        [
            click.option("--dbc", type=path, help="A DBC file: messages are subjects, signals are parameters."),
            click.option("--mapping", type=path, help="A mapping of ours (TOML, or as JSON for a device)."),
            click.option("--names", is_flag=True, help="Values of a value table by name, as Park for 0."),
            click.option("--lenient", is_flag=True, help="Take a DBC file even if signals overlap."),
        ]
    ):
        command = option(command)
    return command


def load_mapping(
    dbc: str | None, mapping: str | None, names: bool, lenient: bool, only: Iterable[str] = ()
) -> Mapping | None:
    """None where neither is given. `only`: subjects that are asked for, if not all are."""
    if dbc is not None and mapping is not None:
        raise BadInput("either --dbc or --mapping, not both")
    try:
        return _load(dbc, mapping, names, lenient, only)
    except LocalProtocolError as error:
        raise BadInput(str(error)) from error


def _load(dbc: str | None, mapping: str | None, names: bool, lenient: bool, only: Iterable[str]) -> Mapping | None:
    if dbc is not None:
        from vicinal_hw.can.dbc import load

        return load(dbc, by_name=names, strict=not lenient, only=only)
    if mapping is None:
        return None
    from vicinal.cosmic.mapping_toml_cpython import loads

    try:
        text = Path(mapping).read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{mapping}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{mapping}: not UTF-8 at byte {error.start}") from error
    if text.lstrip().startswith("{"):
        return Mapping.from_tables(_json(text, mapping), mapping, names)
    return loads(text, mapping, names)


def _json(text: str, file: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInput(f"{file}: not JSON: {error}") from error


def message_named(mapping: Mapping, subject: str) -> Message:
    found = mapping.of_subject(subject)
    if found is None:
        known = sorted({message.subject for message in mapping.messages})
        near = difflib.get_close_matches(subject, known, 3, 0.5)
        advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known[:10])}, ..."
        raise BadInput(f"no message is called {subject!r}: {advice}")
    return found


def wanted_by(mapping: Mapping, condition: Filter) -> list[Message]:
    """The messages whose frames pass the filter's acceptance masks: of the others no event can match."""
    masks = condition.to_can(mapping.identifiers()).masks
    return [
        message
        for message in mapping.messages
        if any(
            mask["extended"] == message.extended and (message.id ^ mask["can_id"]) & mask["can_mask"] == 0
            for mask in masks
        )
    ]
