"""Where an event of a service goes, and what it is told on the way: the same for all that meet the same filters there
and have been at the same services. So it is found once, and kept while notes and ways are as they are.

    plans.of(direct, filters, Source, Via)      [(target, way, Source, Via), ...]
                                                (what is counted, None, "", "") where it goes nowhere

`Source` is where an event came into the federation, `Via` where it was given to besides: it does not go there again.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from .notes import Direct

    Plan: TypeAlias = "list[tuple[str, str | None, str, str]]"

__all__ = ["MAX_HOPS", "Plans"]

# More gateways than any way between two services has.
MAX_HOPS = 32
# Of one service. Strangers may choose Source and Via.
MAX_PLANS = 1024


class Plans:
    def __init__(self, services: "dict[str, Direct]", way: "Callable[[str], str | None]") -> None:
        self._services = services
        self._way = way

    def forget(self) -> None:
        """Ways have changed. Of notes a service knows itself."""
        for one in self._services.values():
            one.plans.clear()

    def of(self, one: "Direct", filters: "list[str]", origin: str, via: str) -> "Plan":
        key = (filters[0] if len(filters) == 1 else tuple(filters), origin, via)
        plan: Plan | None = one.plans.get(key)
        if plan is None:
            if len(one.plans) >= MAX_PLANS:
                one.plans.clear()
            plan = one.plans[key] = self.find(one.name, one.sources(filters), origin, via)
        return plan

    def find(self, service: str, targets: "list[str]", origin: str, via: str) -> "Plan":
        given = via.split(",") if via else []
        if len(given) >= MAX_HOPS:
            return [("dropped: hop limit", None, "", "")]
        targets = [one for one in targets if one != service and one != origin and one not in given]
        if service != origin and service not in given:
            given.append(service)
        plan: Plan = []
        for target in targets:
            others = given + [one for one in targets if one != target] if len(targets) <= MAX_HOPS else given
            way = self._way(target)
            if way is None:
                plan.append(("dropped: unreachable", None, "", ""))
            elif way == service:
                plan.append(("dropped: another gateway's", None, "", ""))
            else:
                plan.append((target, way, origin, ",".join(others)))
        return plan
