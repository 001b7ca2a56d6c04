"""The sums of the demo: what came to each hop, what left it, and what is lost. Nothing may be.

agents     read by the sensors of cars    = sent as frames + waiting + refused by the bus
bus        frames sent by cars            = heard by their gateways
cars       accepted for the air           = said + waiting + dropped(reason)
monitors   accepted for the overlay       = delivered + stored + dropped(reason)
overlay    delivered by monitors          = received by the office + counts of traffic, which it does not hear
office     received                       = over + within + witnessed + sightings + quarantined(reason)
"""

from typing import Any, NamedTuple

__all__ = ["Accounts", "account"]


class Accounts(NamedTuple):
    hops: dict[str, dict[str, int]]
    losses: dict[str, int]
    """by hop: what came and is nowhere"""

    @property
    def lost(self) -> int:
        return sum(abs(one) for one in self.losses.values())


def account(cars: dict[str, Any], monitors: dict[str, Any], office: dict[str, Any]) -> Accounts:
    """`cars` as the fleet counts them, `monitors` their /status, `office` its /api/accounts."""
    bus = {
        "read": _sum(cars, "read"),
        "frames": _sum(cars, "frames"),
        "waiting": _sum(cars, "waiting for the bus"),
        "refused": _sum(cars, "refused by the bus"),
        "heard": _sum(cars, "heard on the bus"),
    }
    air = {
        "accepted": _sum(cars, "accepted"),
        "said": _sum(cars, "said"),
        "waiting": _sum(cars, "waiting"),
        "dropped": sum(sum(one["dropped"].values()) for one in cars.values()),
    }
    out = [_service(one, "siena")["out"] for one in monitors.values()]
    roadside = {
        "heard": sum(_service(one, "air-")["in"]["received"] for one in monitors.values()),
        "accepted": sum(one["accepted"] for one in out),
        "delivered": sum(one["delivered"] for one in out),
        "stored": sum(one["stored"] for one in out),
        "dropped": sum(sum(one["dropped"].values()) for one in out),
        "flow": sum(_service(one, "flow-")["in"]["received"] for one in monitors.values()),
    }
    found = office["control"]
    quarantined = sum(found["quarantined"].values())
    at_office = {**{name: value for name, value in found.items() if name != "quarantined"}, "quarantined": quarantined}
    judged = sum(at_office[name] for name in ("over", "within", "witnessed", "sightings", "quarantined"))
    losses = {
        "agent": bus["read"] - bus["frames"] - bus["waiting"] - bus["refused"],
        "bus": bus["frames"] - bus["heard"],
        "car": bus["heard"] - air["accepted"],
        "air": air["accepted"] - air["said"] - air["waiting"] - air["dropped"],
        "roadside": roadside["accepted"] - roadside["delivered"] - roadside["stored"] - roadside["dropped"],
        "overlay": roadside["delivered"] - roadside["flow"] - at_office["received"],
        "office": at_office["received"] - judged,
    }
    return Accounts({"bus": bus, "air": air, "roadside": roadside, "office": at_office}, losses)


def _sum(cars: dict[str, Any], name: str) -> int:
    return sum(one[name] for one in cars.values())


def _service(status: dict[str, Any], begin: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in status["services"] if one["name"].startswith(begin))
    return found
