"""Traffic control (seed 001, 5.8): what the office makes of what it hears. Pure: `now` is an argument, nothing waits.

    control = TrafficControl(network, settings)
    control.set_limit("old-town", 30, now, "operator")
    control.receive(event, monitor, now)                an event of the overlay, and the monitor it came through
    control.handle_timeout(now)                         at next_timeout()
    control.changes()                                   what has to be kept: cases, quarantined, sightings, rules

    Speed ──▶ true? ──▶ where was it? ──▶ the limit there and then ──▶ over it? ──▶ stretch ──▶ case
                └ quarantine(reason)                                     └ within the limit

At every instant received = over the limit + within the limit + witnessed + sightings + quarantined(reason).
"""

from typing import Any, NamedTuple

from vicinal.errors import LocalProtocolError
from vicinal.event import Event

from .cases import Case, Step, case_of, fined, moved
from .limits import Limit, Limits, Rule
from .network import Network, Position
from .reports import DUPLICATE, MALFORMED, Malformed, Report, Rules, check, read, vehicle_of
from .seen import Seen
from .stretches import Evidence, Stretch, Stretches
from .tariff import DEFAULT, Tariff
from .texts import NAME_MAX, SAID_MAX, WHO_MAX, checked, cleaned, plain
from .whereabouts import Sighting, Whereabouts

__all__ = ["Changes", "Quarantined", "Settings", "TrafficControl", "no_changes"]


class Settings(NamedTuple):
    rules: Rules = Rules()
    tariff: Tariff = DEFAULT
    gap_ms: int = 10_000
    """reports over the limit that are farther apart are two offences"""
    accuracy_m: int = 15
    """of a vehicle's position: within so far of another area, the higher limit counts"""


class Quarantined(NamedTuple):
    reason: str
    detail: str
    subject: str
    vehicle: str
    seq: int
    monitor: str
    time: int | None
    received: int
    values: dict[str, Any]
    """the parameters as they came, without the plate"""


class Changes(NamedTuple):
    """Since the last time: what is to be kept, all of it or nothing."""

    cases: list[Case]
    evidence: list[tuple[int, Evidence]]
    """number of the case, and what was added to it"""
    merged: list[tuple[int, int]]
    """number of a case that has become part of another"""
    quarantined: list[Quarantined]
    sightings: list[Sighting]
    rules: list[Rule]

    def __bool__(self) -> bool:
        return any(self)

    def then(self, later: "Changes") -> "Changes":
        """Both as one: of a case its last state, and no more of those that have become part of another."""
        made = [before + after for before, after in zip(self, later, strict=True)]  # type: ignore[operator]
        both = Changes(*made)
        gone = {number for number, _ in both.merged}
        last = {case.number: case for case in both.cases if case.number not in gone}
        return both._replace(cases=list(last.values()))


def no_changes() -> Changes:
    return Changes([], [], [], [], [], [])


class TrafficControl:
    def __init__(self, network: Network, settings: Settings | None = None, next_case: int = 1) -> None:
        self.network = network
        self.settings = settings or Settings()
        self.limits = Limits(network.timezone)
        for area in network.areas.values():
            self.limits.add(Rule(area.name, area.limit, 0, None, "network"))
        late = self.settings.rules.late_ms
        self.stretches = Stretches(self.settings.gap_ms, late, next_case)
        self.counters: dict[str, int] = {"received": 0, "over": 0, "within": 0, "witnessed": 0, "sightings": 0}
        self.quarantined: dict[str, int] = {}
        self.whereabouts = Whereabouts()
        self._seen = Seen(late)
        self._cases: dict[int, Case] = {}
        self._changes = no_changes()

    # Limits

    def set_limit(self, area: str, value: int, now: int, who: str, hours: Any = None) -> Rule:
        """From now on."""
        if area not in self.network.areas:
            raise LocalProtocolError(f"area {area!r} is not known, want one of {', '.join(self.network.areas)}")
        rule = Rule(area, value, now, hours, checked("who", who, WHO_MAX))
        self.limits.add(rule)
        self._changes.rules.append(rule)
        return rule

    def limit_of(self, monitor: str, at: int) -> int:
        """What its sign shows, and what its subscription asks for."""
        found = self.limits.in_force(self.network.monitors[monitor].area, at)
        assert found is not None, "the network gives every area a limit"
        return found.value

    # Events

    def receive(self, event: Event, monitor: str, now: int) -> str:
        """What became of it: over, within, witnessed, sightings, or the reason of its quarantine."""
        self.counters["received"] += 1
        try:
            report = read(event, monitor, now)
        except Malformed as error:
            seq: Any = event.attrs.get("OriginSeq", event.seq)
            identity = vehicle_of(event), seq if type(seq) is int else event.seq or 0
            return self._quarantine(MALFORMED, str(error), event, identity, monitor, None, now)
        reason = check(report, self.network, self.settings.rules)
        if not reason and not self._seen.is_new(report, now):
            reason = DUPLICATE
        if reason:
            return self._quarantine(reason, "", event, (report.vehicle, report.seq), monitor, report.time, now)
        verdict = self._speed(report) if report.subject == "Speed" else self._sighting(report)
        self.counters[verdict] += 1
        return verdict

    def _quarantine(
        self, reason: str, detail: str, event: Event, identity: tuple[str, int], monitor: str, time: Any, now: int
    ) -> str:
        self.quarantined[reason] = self.quarantined.get(reason, 0) + 1
        values = {name: value for name, value in event.params.items() if name != "license_no"}
        made = Quarantined(
            reason, cleaned(detail, SAID_MAX), cleaned(event.subject, SAID_MAX // 2),
            cleaned(identity[0], NAME_MAX), identity[1], cleaned(monitor, NAME_MAX), time, now, plain(values),
        )  # fmt: skip
        self._changes.quarantined.append(made)
        return reason

    def _sighting(self, report: Report) -> str:
        self._changes.sightings.append(self.whereabouts.add(report))
        return "sightings"

    def _speed(self, report: Report) -> str:
        assert report.time is not None
        seen = self.whereabouts.at(report.vehicle, report.time)
        place = self.network.monitors[report.monitor].place if seen is None else seen.place
        limit = self._limit_at(report.monitor, None if seen is None else seen.place, report.time)
        tariff = self.settings.tariff
        over = tariff.over(report.speed, limit.value)
        if over <= 0:
            return "within"
        if self.stretches.known(report.plate, report.time, report.monitor):
            return "witnessed"
        evidence = Evidence(
            report.speed, tariff.tolerance(report.speed), limit.value, limit.source, limit.area, over, place,
            "monitor" if seen is None else "vehicle", None if seen is None else seen.heading,
            None if seen is None else seen.braking, report.time, report.received, report.monitor, report.vehicle,
            report.seq,
        )  # fmt: skip
        before = self.stretches.next_number
        stretch, merged = self.stretches.add(report.plate, evidence)
        another = stretch.evidence[report.time] is not evidence
        self._changes.evidence.append((stretch.number, evidence))
        for one in merged:
            self._changes.merged.append((one.number, stretch.number))
            self._cases.pop(one.number, None)
        new = stretch.number >= before
        self._update(stretch, (Step("open", report.received, "traffic control", ""),) if new else None)
        return "witnessed" if another else "over"

    def _limit_at(self, monitor: str, place: Position | None, time: int) -> Limit:
        """Where the vehicle was, if it is known, else where the monitor is. Near a border the higher one counts."""
        areas = []
        if place is not None:
            areas = [area.name for area in self.network.areas_near(place, self.settings.accuracy_m)]
        if not areas:
            areas = [self.network.monitors[monitor].area]
        found = [limit for area in areas if (limit := self.limits.in_force(area, time)) is not None]
        best = max(found, key=lambda limit: limit.value)
        if len(found) > 1:
            return best._replace(source=f"{best.source}; the highest of {', '.join(sorted(areas))}")
        return best

    # Cases

    def _update(self, stretch: Stretch, steps: tuple[Step, ...] | None = None) -> None:
        steps = steps or self._cases[stretch.number].steps
        case = self._cases[stretch.number] = case_of(stretch, self.settings.tariff, steps)
        self._changes.cases.append(case)

    def handle_timeout(self, now: int, heard: int | None = None) -> list[Case]:
        """The cases that are fined now: nothing can be added to them any more, as all is known that was received until
        `heard`, or until now."""
        until = now if heard is None else heard
        self._seen.forget(until)
        self.whereabouts.forget(until - self.settings.rules.late_ms)
        found = []
        for stretch in self.stretches.finished(until):
            case = self._cases.pop(stretch.number)
            if case.state == "open":
                case = fined(case, now)
                self._changes.cases.append(case)
                found.append(case)
        return found

    def next_timeout(self) -> int | None:
        return self.stretches.next_timeout()

    def holds(self, number: int) -> bool:
        """Whether reports may still be added to it: whatever becomes of it then becomes of it here."""
        return number in self._cases

    def held(self, plate: str) -> set[int]:
        """Of a driver. A void one is among them: without it the next report would be another case."""
        return {case.number for case in self._cases.values() if case.plate == plate}

    def move(self, number: int, state: str, now: int, who: str, note: str = "") -> Case:
        """Of one that is held here."""
        case = self._cases[number] = moved(self._cases[number], state, now, who, note)
        self.stretches.of(number).void = case.state == "void"
        self._changes.cases.append(case)
        return case

    def open_cases(self) -> list[Case]:
        return [case for _, case in sorted(self._cases.items()) if case.state == "open"]

    def recall(self, stretch: Stretch, steps: tuple[Step, ...]) -> None:
        """A case that was open before a restart, or void and may be added to."""
        stretch.void = steps[-1].state == "void"
        self.stretches.recall(stretch)
        self._cases[stretch.number] = case_of(stretch, self.settings.tariff, steps)

    def changes(self) -> Changes:
        """Since the last time; who has asked keeps them (`then`) until they are saved."""
        found, self._changes = self._changes, no_changes()
        return no_changes().then(found)

    def accounts(self) -> dict[str, Any]:
        return {**self.counters, "quarantined": dict(sorted(self.quarantined.items()))}
