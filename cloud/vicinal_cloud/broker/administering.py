"""What an administrator changes while a broker runs: members, deployments, the scopes it is in (OVER-42 to OVER-47).

a client's administer ──▶ may it? is it right? ──▶ engine, other brokers, disk ──▶ answer
[broker] scopes, when the file has changed ──────▶ in force, or said what is wrong and all as it was

DIRECTORY/administration.json       every statement that counts; without a [log] a broker asks its neighbours
"""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vicinal.errors import LocalProtocolError
from vicinal.scope import file_cpython
from vicinal.scope.graph import ScopeGraph
from vicinal.siena.connection import NOT_ADMITTED
from vicinal.siena.messages import MAX_TOLD_CHARS
from vicinal.tables_cpython import ConfigError, parse_tables

from .config import Config, changed_at
from .files import replace
from .identity import is_administrator
from .members import members

if TYPE_CHECKING:
    from vicinal.siena.administration import Statement

    from .node import Node
    from .session import Session

__all__ = ["Administering"]

_log = logging.getLogger("vicinal.broker")
# What an administrator's own text is called where something is wrong in it.
_TEXT = Path("deployment")


class Administering:
    def __init__(self, node: "Node", config: Config, directory: Path | None) -> None:
        self.config = config
        self.problems: list[str] = []
        """of the deployment that was tried last"""
        self.tables: dict[str, Any] = {}
        """of the deployment in force"""
        self.source = ""
        """where it is from"""
        self._node = node
        self._file = None if directory is None else directory / "administration.json"
        self._unsaved = False
        self._tried = 0 if config.scopes is None else config.scopes.changed
        node.administering = self
        if self._file is not None and self._file.exists():
            node.engine.recall([_statement(one) for one in json.loads(self._file.read_text())])
            node.engine.actions()  # all of it is on disk, and in force from here on
        self.apply()

    # What is in force

    def apply(self) -> list[str]:
        """The deployment that counts, and the scopes to be in. Clients in scopes that are no longer here are cut: a
        right that is withdrawn ends what was begun under it. Gives their names."""
        node = self._node
        engine = node.engine
        graph = self._graph()
        changed = graph is not engine.graph
        if changed:
            engine.use_graph(graph, node.now())
        places = engine.administration.places(engine.name)
        join = {scope for scope in self.config.join if scope in graph}
        join |= {scope for scope, stays in places.items() if stays and scope in graph}
        join -= {scope for scope, stays in places.items() if not stays}
        for scope in sorted(engine.scopes - join):
            engine.leave_scope(scope)
        for scope in sorted(join - engine.scopes):
            engine.join_scope(scope)
        outside = engine.clients_outside()
        for name in outside:
            if name in node.sessions:
                node.sessions[name].link.cut(NOT_ADMITTED, "the scopes have changed: one that you named is not here")
            elif node.storage is not None:
                node.storage.outside(name)
        if node.storage is not None:
            node.storage.inside()
        if changed and node.holding is not None:
            node.holding.use_graph(graph)
        node.pump()
        return outside

    def _graph(self) -> ScopeGraph:
        """Of what was said and what is in the file the later one, if it can be read."""
        scopes, said = self.config.scopes, self._node.engine.administration.deployment()
        if said is not None and (scopes is None or said[0][0] > scopes.changed):
            graph, self.problems, tables = _read(said[1])
            if graph is not None:
                source = f"administrator at {said[0][1]}"
                if source == self.source and tables == self.tables:
                    return self._node.engine.graph
                self.source, self.tables = source, tables
                return graph
            _log.error("a deployment from broker %s is not used: %s", said[0][1], "; ".join(self.problems))
        self.source = "" if scopes is None else str(scopes.file)
        self.tables = {} if scopes is None else scopes.tables
        return self.config.graph

    def reload(self, config: Config) -> list[str]:
        self.config = self.config._replace(
            graph=config.graph, join=config.join, scopes=config.scopes, identities=config.identities
        )
        self._node.identities = config.identities
        self._tried = 0 if config.scopes is None else config.scopes.changed
        self.problems = []
        return self.apply()

    def look(self) -> None:
        """Whether the file of the deployment has changed."""
        scopes = self.config.scopes
        if scopes is None or not scopes.watch:
            return
        changed = changed_at(scopes.file)
        if changed in (0, self._tried):
            return  # away for the moment it takes to replace it, or no other
        self._tried = changed
        try:
            tables = parse_tables(scopes.file, scopes.file.read_bytes())
            graph, self.problems = file_cpython.read_tables(scopes.file, tables)
        except (ConfigError, OSError) as error:
            graph, self.problems = None, [str(error)]
        if graph is None:
            for problem in self.problems:
                _log.error("scopes stay as they were: %s", problem)
            return
        self.config = self.config._replace(graph=graph, scopes=scopes._replace(changed=changed, tables=tables))
        _log.info("scopes read anew from %s; %d clients cut", scopes.file, len(self.apply()))

    # What is said

    def asked(self, session: "Session", request: int, what: tuple[Any, ...]) -> None:
        if not is_administrator(self._node.identities, session.identity):
            raise LocalProtocolError(self._refusal(session))
        if what[0] == "tell":
            self._tell(session, request, what[1])
            return
        self._check(what)
        statement = self._node.engine.administer(what, self._node.now())
        self._node.pump()
        _log.info("%s by %s: %s", what[0], session.name, "" if what[0] == "deploy" else " ".join(map(str, what[1:])))
        session.answer(request, True, statement[1][0])

    def _refusal(self, session: "Session") -> str:
        if self._node.identities.administrators is None:
            return "this broker has no [identity] administrators in its configuration: nobody may administer it"
        if session.identity.issued is None:
            return f"{session.name!r} has not proven who it is: administrators show a certificate or a token"
        return f"{session.name!r} is no administrator: that takes {self._node.identities.administrators}"

    def _check(self, what: tuple[Any, ...]) -> None:
        engine = self._node.engine
        if what[0] == "deploy":
            graph, problems, _ = _read(what[1])
            if graph is None:
                raise LocalProtocolError("\n".join(problems))
        elif what[0] in ("approve", "deny") and what[2] not in engine.graph:
            raise LocalProtocolError(f"there is no scope {what[2]!r}")
        elif what[0] in ("join", "leave"):
            if what[2] not in engine.graph:
                raise LocalProtocolError(f"there is no scope {what[2]!r}")
            if engine.records.get(what[1]) is None:
                raise LocalProtocolError(f"no broker {what[1]!r} is known at {engine.name!r}")

    def _tell(self, session: "Session", request: int, topic: str) -> None:
        if topic != "members":
            raise LocalProtocolError(f"{topic!r} is nothing to be told: want 'members'")
        text = json.dumps(members(self._node, self))
        parts = [text[at : at + MAX_TOLD_CHARS] for at in range(0, len(text), MAX_TOLD_CHARS)]
        for part in parts:
            session.link.connection.send(("told", request, part))
        session.answer(request, True, len(parts))

    def administered(self, kind: str, statement: "Statement") -> None:
        """From here or from another broker."""
        self._unsaved = True
        if kind == "deploy" or (kind in ("join", "leave") and statement[2] == self._node.engine.name):
            self.apply()

    def settle(self) -> None:
        """On disk, at the end of a turn: before anybody is told that it is said."""
        if not self._unsaved or self._file is None:
            return
        self._unsaved = False
        self._file.parent.mkdir(parents=True, exist_ok=True)
        replace(self._file, json.dumps(self._node.engine.administration.statements()))


def _read(text: str) -> tuple[ScopeGraph | None, list[str], dict[str, Any]]:
    try:
        tables = parse_tables(_TEXT, text.encode())
    except ConfigError as error:
        return None, [str(error)], {}
    graph, problems = file_cpython.read_tables(_TEXT, tables)
    return graph, problems, tables


def _statement(item: list[Any]) -> "Statement":
    return tuple(tuple(one) if isinstance(one, list) else one for one in item)
