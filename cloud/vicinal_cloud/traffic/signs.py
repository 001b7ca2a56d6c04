"""The limits at the roadside: what each monitor's sign shows and its subscription asks for (seed 001, 5.8.3).

Pure: control events come out with their identities, answers go in. For each monitor whose limit is another one:

    c(siena, s("subject = 'Speed' AND rate > new"), air-m1) ──▶ applied: the sign shows it
    c(siena, us("subject = 'Speed' AND rate > old"), air-m1) ──▶ applied: nothing slower leaves the roadside any more

The dissertation takes the old one back first. Then a driver who passes in between is not seen; this way round some
events that were over the old limit come a moment longer, and are judged by the limit that held when they happened.
What a sign shows it also says to the vehicles in its reach: an event Sign (limit, zone, monitor) is for its monitor,
which says it on the air, and again for who comes later. `zone` is the number of the area in the network. A monitor that
was started anew knows of none: so it is told again every `REMIND` ms.
Nobody answers when a monitor is away: it is asked again every `AGAIN` ms, until it is wanted no more. Gateways know
requests by their filter: two monitors with the same limit are answered under the number of the request that came last.
"""

from collections.abc import Mapping

from vicinal.control import Answer, Subscription, Unsubscription
from vicinal.event import Event

__all__ = ["DISPLAY", "Sign", "Signs", "filter_of"]

DISPLAY = "Sign"

AGAIN = 1_000
REMIND = 5_000
KEPT = 1_000
"""requests whose answers are known"""


def filter_of(limit: int) -> str:
    return f"subject = 'Speed' AND rate > {limit}"


class Sign:
    """Of one monitor. `shown` and `standing` outlive a restart of the office."""

    def __init__(self, monitor: str, service: str) -> None:
        self.monitor = monitor
        self.service = service
        """the monitor's STEAM service, as gateways call it"""
        self.wanted: int | None = None
        self.shown: int | None = None
        self.standing: list[int] = []
        """limits with a subscription there, as far as is known"""
        self.asked_at = self.shown_at = self.done_at = 0
        """ms: the last change asked for, applied, and finished"""
        self.problem = ""
        self._request: tuple[bool, int] | None = None
        """whether it subscribes, and the limit, of what is not answered yet"""
        self._due = 0
        self._said: tuple[int, int] | None = None
        """the limit that vehicles were told last, and when"""

    @property
    def done(self) -> bool:
        return self.shown == self.wanted and self.standing == [self.wanted]


class Signs:
    def __init__(self, name: str, source: str, services: Mapping[str, str]) -> None:
        """`name` is ours in the overlay, `source` how gateways call the overlay; monitors and their services."""
        self.name = name
        self.source = source
        self.signs = {monitor: Sign(monitor, service) for monitor, service in services.items()}
        self._seq = 0
        self._made: dict[int, tuple[bool, int]] = {}
        """the last requests by their numbers"""

    def recall(self, monitor: str, shown: int | None, standing: list[int]) -> None:
        if monitor in self.signs:
            self.signs[monitor].shown, self.signs[monitor].standing = shown, list(standing)

    def want(self, monitor: str, limit: int, now: int) -> None:
        sign = self.signs[monitor]
        if sign.wanted != limit:
            sign.wanted = limit
            sign.asked_at = now
            sign._request = None

    def requests(self, now: int) -> list[Event]:
        """What is to be published now."""
        found = []
        for sign in self.signs.values():
            if sign.wanted is None or sign.done or (sign._request is not None and now < sign._due):
                continue
            if sign._request is None:
                if sign.shown != sign.wanted or sign.wanted not in sign.standing:
                    sign._request = (True, sign.wanted)
                    if sign.wanted not in sign.standing:
                        sign.standing.append(sign.wanted)  # from now on it may be there, whether we hear of it or not
                else:
                    old = next(one for one in sign.standing if one != sign.wanted)
                    sign._request = (False, old)
            subscribes, limit = sign._request
            self._seq = max(self._seq + 1, now * 1000)
            self._made[self._seq] = sign._request
            if len(self._made) > KEPT:
                del self._made[next(iter(self._made))]
            sign._due = now + AGAIN
            made = (Subscription if subscribes else Unsubscription)(sign.service, self.source, filter_of(limit))
            found.append(made.to_event().stamp(self.name, self._seq))
        return found

    def displays(self, zones: Mapping[str, int], now: int) -> list[Event]:
        """What the vehicles in reach of each monitor are to be told now; `zones` are the areas of monitors."""
        found = []
        for sign in self.signs.values():
            shown, said = sign.shown, sign._said
            if shown is None or (said is not None and said[0] == shown and now < said[1] + REMIND):
                continue
            sign._said = (shown, now)
            self._seq = max(self._seq + 1, now * 1000)
            params = [("limit", shown), ("zone", zones[sign.monitor]), ("monitor", sign.monitor)]
            found.append(Event(DISPLAY, params, {"Time": now}).stamp(self.name, self._seq))
        return found

    def answered(self, answer: Answer, now: int) -> Sign | None:
        """The sign that has changed by it."""
        made = self._made.get(answer.request[1]) if answer.request[0] == self.name else None
        for sign in self.signs.values():
            request = sign._request
            if request is None or request != made or answer.source != sign.service:
                continue
            subscribes, limit = request
            if answer.reason:
                sign.problem = answer.reason
                return sign
            sign.problem, sign._request = "", None
            if subscribes:
                sign.shown, sign.shown_at = limit, now
            else:
                sign.standing.remove(limit)
            if sign.done:
                sign.done_at = now
            return sign
        return None

    def next_timeout(self) -> int | None:
        due = [
            sign._due if sign._request is not None else 0
            for sign in self.signs.values()
            if sign.wanted is not None and not sign.done
        ]
        return min(due, default=None)
