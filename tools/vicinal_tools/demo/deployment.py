"""Who may hear what in a town: its scopes of geography, membership and network, as a file for its brokers.

geography    a road for each monitor ─▶ the district whose limit it watches ─▶ the town
membership   police ──Location, Flow──▶ planning ──Flow──▶ public
network      field ──▶ backbone
"""

import re

from vicinal_cloud.traffic.network import Network

from ..traffic.districts import nearest_road

__all__ = ["OFFICE", "deployment_of", "road_scope", "town_scope"]

OFFICE = "traffic-control"
UP = "subject IN ('Speed', 'Location', 'Flow', 'FES_ControlEvent')"
DOWN = "subject IN ('Sign', 'FES_ControlEvent')"
RESERVED = ("public", "planning", "police", "backbone", "field")


def _slug(text: str, kind: str, taken: tuple[str, ...] = ()) -> str:
    """A name that a scope may have, and that nothing else has."""
    found = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40] or kind
    return f"{kind}-{found}" if found in taken else found


def town_scope(network: Network) -> str:
    return _slug(network.name, "town", (*RESERVED, *network.areas))


def road_scope(network: Network, monitor: str) -> str:
    """The road beside which it stands."""
    road = nearest_road(network, network.monitors[monitor].place)
    return _slug(road.name or road.ident, "road", (*RESERVED, *network.areas, town_scope(network)))


def deployment_of(network: Network) -> str:
    town = town_scope(network)
    roads = {name: road_scope(network, name) for name in network.monitors}
    districts = {monitor.area: None for monitor in network.monitors.values()}
    of_road: dict[str, list[str]] = {}
    for name, road in roads.items():
        area = network.monitors[name].area
        if area not in of_road.setdefault(road, []):
            of_road[road].append(area)
    parts = [HEAD.format(name=network.name, monitor=next(iter(roads), "m1"))]
    parts.append(
        "# Geography: roads are in districts, districts in the town. What they say goes up, limits come down.\n"
    )
    parts.append(f'[[scope]]\nname = "{town}"\ndimension = "geography"\n')
    parts += [_place(name, [town]) for name in districts]
    parts += [_place(name, supers) for name, supers in of_road.items()]
    parts.append(FIXED.format(up=UP, down=DOWN))
    for name, road in roads.items():
        parts.append(
            _component(name, [road, "police", "field"], UP, "subject IN ('Sign', 'FES_ControlEvent')", "monitor")
        )
    hears = "subject IN ('Speed', 'Location', 'FES_ControlEvent')"
    parts.append(_component(OFFICE, [town, "police", "backbone"], DOWN, hears, "police"))
    parts.append(
        _component(
            "planner", [town, "planning", "backbone"], None, "subject IN ('Speed', 'Location', 'Flow')", "planner"
        )
    )
    parts.append(
        _component("citizen", [town, "public", "backbone"], None, "subject IN ('Speed', 'Location', 'Flow')", "citizen")
    )
    return "\n".join(parts)


def _place(name: str, supers: list[str]) -> str:
    above = ", ".join(f'"{one}"' for one in supers)
    return (
        f'[[scope]]\nname = "{name}"\ndimension = "geography"\nsupers = [{above}]\noutput = "{UP}"\ninput = "{DOWN}"\n'
    )


def _component(name: str, scopes: list[str], says: str | None, hears: str, role: str) -> str:
    inside = ", ".join(f'"{one}"' for one in scopes)
    lines = ["[[component]]", f'name = "{name}"', f"scopes = [{inside}]"]
    if says is not None:
        lines.append(f'publishes = "{says}"')
    return "\n".join([*lines, f'subscribes = "{hears}"', f'identity = {{ role = "{role}" }}', ""])


HEAD = """\
# Who may hear what in {name}: geography, membership and network. The demo's brokers use it.
#
#     vicinal scope check deployment.toml
#     vicinal scope explain deployment.toml --from {monitor} --to planner --event '{{"subject": "Speed", "params": {{"license_no": "00D1234", "rate": 57.0}}}}'
#
# FES_ControlEvent is how the office sets limits, how monitors answer, and how gateways know each other; Sign is what
# the signs at the roadside show.
"""  # noqa: E501

FIXED = """\
# Membership: the police and its monitors hear plates, which are in Speed; planners hear where vehicles are, under
# pseudonyms; everybody hears how fast traffic flows.
[[scope]]
name = "public"
dimension = "membership"

[[scope]]
name = "planning"
dimension = "membership"
supers = ["public"]
output = "subject = 'Flow'"
membership = {{ join = "role IN ('planner', 'police', 'monitor')" }}

[[scope]]
name = "police"
dimension = "membership"
supers = ["planning"]
output = "subject IN ('Location', 'Flow')"
membership = {{ join = "role IN ('police', 'monitor')" }}

# Network: what comes from the field does not go out to it again, but for what the office asks.
[[scope]]
name = "backbone"
dimension = "network"

[[scope]]
name = "field"
dimension = "network"
supers = ["backbone"]
output = "TRUE"
input = "{down}"

# Who they are they prove with a token; what is said of them here counts only then.
"""
