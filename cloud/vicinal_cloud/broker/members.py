"""What a broker tells an administrator: its clients, who they are and what they may, and the scopes in force."""

from typing import TYPE_CHECKING, Any

from vicinal.scope.membership import Identity

from .identity import is_administrator

if TYPE_CHECKING:
    from .administering import Administering
    from .node import Node

__all__ = ["identity_item", "identity_of", "members"]


def identity_item(identity: Identity) -> list[Any]:
    return [identity.name, dict(identity.event.params.items()), identity.issued, identity.expires]


def identity_of(item: list[Any]) -> Identity:
    name, attributes, issued, expires = item
    return Identity(name, attributes, issued, expires)


def members(node: "Node", administering: "Administering") -> dict[str, Any]:
    engine = node.engine
    found: dict[str, dict[str, Any]] = {}
    for client in sorted(engine.clients()):
        name = client.partition("/")[0]
        identity = engine.rights.identity(client)
        if name not in found:
            found[name] = {
                "name": name,
                "connected": name in node.sessions,
                "identity": identity_item(identity),
                "administrator": is_administrator(node.identities, identity),
                "advertisements": [],
                "subscriptions": [],
            }
        one = found[name]
        one["advertisements"] += [_kind(*kind) for kind in engine.advertised_by(client)]
        one["subscriptions"] += [
            _kind(*kind) | ({"durable": client.partition("/")[2]} if "/" in client else {})
            for kind in engine.subscribed_by(client)
        ]
    return {
        "broker": engine.name,
        "now": node.now(),
        "joined": sorted(engine.scopes),
        "brokers": sorted(record.broker for record in engine.records.all()),
        "source": administering.source,
        "problems": administering.problems,
        "deployment": administering.tables,
        "statements": [one for one in engine.administration.statements() if one[0] != "deploy"],
        "memberships": engine.rights.memberships.item(),
        "clients": list(found.values()),
    }


def _kind(condition: Any, tags: Any) -> dict[str, Any]:
    return {"filter": str(condition), "scopes": dict(tags.scopes), "rest": tags.rest}
