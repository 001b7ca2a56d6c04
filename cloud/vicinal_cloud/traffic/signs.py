"""The limits at the roadside: what each monitor's sign shows and its subscription asks for (seed 001, 5.8.3).

Pure: control events come out with their identities, answers go in. For each monitor whose limit is another one:

    c(siena, s("subject = 'Speed' AND rate >= new"), air-m1) ──▶ applied: the sign shows it
    c(siena, us("subject = 'Speed' AND rate >= old"), air-m1) ──▶ applied: nothing slower leaves the roadside any more

What is asked for is the least speed that is an offence under that limit, its tolerance and rounding among it
(`Tariff.least`): who cannot be fined does not leave the roadside.

The dissertation takes the old one back first. Then a driver who passes in between is not seen; this way round some
events that were over the old limit come a moment longer, and are judged by the limit that held when they happened.
What a sign shows it also says to the vehicles in its reach: an event Sign (limit, zone, monitor) is for its monitor,
which says it on the air, and again for who comes later. `zone` is the number of the area in the network. A monitor that
was started anew knows of none: so it is told again every `REMIND` ms.
Nobody answers when a monitor is away: it is asked again every `AGAIN` ms, until it is wanted no more. Gateways know
requests by their filter: two monitors with the same limit are answered under the number of the request that came last.
A monitor that has lost what it was asked, with its memory card, does not say so: who looks at its status (watch.py)
tells `seen`, and it is asked again.
"""

from collections.abc import Collection, Mapping

from vicinal.control import Answer, Subscription, Unsubscription
from vicinal.event import Event

from .tariff import DEFAULT, Tariff

__all__ = ["DISPLAY", "Sign", "Signs", "filter_of"]

DISPLAY = "Sign"

AGAIN = 1_000
REMIND = 5_000
LOST = "it has lost its limit, and is asked again: until then no Speed leaves it"
KEPT = 1_000
"""requests whose answers are known"""


def filter_of(least: int) -> str:
    """Of a speed, not a limit."""
    return f"subject = 'Speed' AND rate >= {least}"


class Sign:
    """Of one monitor. `shown` and `standing` outlive a restart of the office."""

    def __init__(self, monitor: str, service: str) -> None:
        self.monitor = monitor
        self.service = service
        """the monitor's STEAM service, as gateways call it"""
        self.wanted: int | None = None
        self.shown: int | None = None
        self.standing: list[int] = []
        """least speeds with a subscription there, as far as is known"""
        self.asked_at = self.shown_at = self.done_at = 0
        """ms: the last change asked for, applied, and finished"""
        self.problem = ""
        self._request: tuple[bool, int] | None = None
        """whether it subscribes, and to which least speed, of what is not answered yet"""
        self._due = 0
        self._said: tuple[int, int] | None = None
        """the limit that vehicles were told last, and when"""

        self.least = 0
        """the speed that is asked for when the wanted limit is set"""

    @property
    def done(self) -> bool:
        return self.shown == self.wanted and self.standing == [self.least]


class Signs:
    def __init__(self, name: str, source: str, services: Mapping[str, str], tariff: Tariff = DEFAULT) -> None:
        """`name` is ours in the overlay, `source` how gateways call the overlay; monitors and their services."""
        self.name = name
        self.tariff = tariff
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
            sign.wanted, sign.least = limit, self.tariff.least(limit)
            sign.asked_at = now
            sign._request = None

    def seen(self, monitor: str, filters: Collection[str], asked_at: int) -> bool:
        """A look at what the monitor's service is asked for: whether it has lost what it had. Nothing follows from one
        that was begun before it had answered."""
        sign = self.signs[monitor]
        if not sign.done or sign.done_at >= asked_at or filter_of(sign.least) in filters:
            return False
        sign.standing.remove(sign.least)
        sign.problem = LOST
        return True

    def requests(self, now: int) -> list[Event]:
        """What is to be published now."""
        found = []
        for sign in self.signs.values():
            if sign.wanted is None or sign.done or (sign._request is not None and now < sign._due):
                continue
            if sign._request is None:
                if sign.shown != sign.wanted or sign.least not in sign.standing:
                    sign._request = (True, sign.least)
                    if sign.least not in sign.standing:
                        sign.standing.append(sign.least)  # from now on it may be there, whether we hear of it or not
                else:
                    old = next(one for one in sign.standing if one != sign.least)
                    sign._request = (False, old)
            subscribes, least = sign._request
            self._seq = max(self._seq + 1, now * 1000)
            self._made[self._seq] = sign._request
            if len(self._made) > KEPT:
                del self._made[next(iter(self._made))]
            sign._due = now + AGAIN
            made = (Subscription if subscribes else Unsubscription)(sign.service, self.source, filter_of(least))
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
            subscribes, least = request
            if answer.reason:
                sign.problem = answer.reason
                return sign
            sign.problem, sign._request = "", None
            if subscribes:
                sign.shown, sign.shown_at = sign.wanted, now
            else:
                sign.standing.remove(least)
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
