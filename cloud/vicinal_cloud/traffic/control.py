"""Traffic control (seed 001, 5.8): what the office makes of what it hears. Pure: `now` is an argument, nothing waits.

    control = TrafficControl(network, settings)
    control.set_limit("old-town", 30, now, "operator")
    control.sign_shows("m1", 30, now)                   and now it counts
    control.receive(event, monitor, now)                an event of the overlay, and the monitor it came through
    control.handle_timeout(now)                         at next_timeout()
    control.changes()                                   what has to be kept: cases, quarantined, sightings, rules

    Speed ──▶ true? ──▶ where was it? ──▶ the limit there and then ──▶ over it? ──▶ stretch ──▶ case
                └ quarantine(reason)                                     └ within the limit

Where it was a Location says that comes before it or after: each that is near in time has it judged again (judging.py),
until none is taken any more. So a case is what follows from all that was said, in whatever order it came. What a
report turns out to be then may be another thing than `receive` has said: `Changes.verdicts`.

At every instant received = over the limit + within the limit + witnessed + sightings + quarantined(reason).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from vicinal.errors import LocalProtocolError
from vicinal.event import Event

from .cases import Case, Step, case_of, fined, moved
from .judging import Judge
from .limits import Limits, Rule
from .measured import Measurements
from .network import Network
from .posted import Posted, Shown
from .reports import DUPLICATE, MALFORMED, Malformed, Report, Rules, check, read, vehicle_of
from .seen import Seen
from .stretches import Evidence, Stretch, Stretches, that_counts
from .tariff import DEFAULT, Tariff
from .texts import NAME_MAX, SAID_MAX, WHO_MAX, checked, cleaned, plain
from .whereabouts import NEAR_MS, Sighting, Whereabouts

__all__ = ["Changes", "Quarantined", "Settings", "TrafficControl", "no_changes"]


class Settings(NamedTuple):
    rules: Rules = Rules()
    tariff: Tariff = DEFAULT
    gap_ms: int = 10_000
    """reports over the limit that are farther apart are two offences"""
    accuracy_m: int = 15
    """of a vehicle's position: within so far of another area, the higher limit counts"""
    reach_m: int = 216
    """of a monitor: so far from it a vehicle may be that has not said where it is"""


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
    """number of a case that has become part of another, which is among those rewritten"""
    quarantined: list[Quarantined]
    sightings: list[Sighting]
    rules: list[Rule]
    rewritten: list[int]
    """numbers of cases whose evidence is now as it is here, all of it; one that is not among the cases is gone"""
    verdicts: list[tuple[str, str, int, str]]
    """monitor, vehicle and seq of a report that turned out to be something else than was said first"""
    shown: list[Shown]

    def __bool__(self) -> bool:
        return any(self)

    def then(self, later: "Changes") -> "Changes":
        """Both as one: of a case its last state, and no more of those that are gone or have become part of another."""
        made = [before + after for before, after in zip(self, later, strict=True)]  # type: ignore[operator]
        both = Changes(*made)
        anew = {*later.rewritten, *[number for number, _ in later.merged]}
        evidence = [*[one for one in self.evidence if one[0] not in anew], *later.evidence]
        gone = {number for number, _ in both.merged}
        cases = [*[case for case in self.cases if case.number not in anew], *later.cases]
        last = {case.number: case for case in cases if case.number not in gone}
        return both._replace(cases=list(last.values()), evidence=evidence, rewritten=sorted(set(both.rewritten)))


def no_changes() -> Changes:
    return Changes([], [], [], [], [], [], [], [], [])


class TrafficControl:
    def __init__(self, network: Network, settings: Settings | None = None, next_case: int = 1) -> None:
        self.network = network
        self.settings = settings or Settings()
        self.limits = Limits(network.timezone)
        for area in network.areas.values():
            self.limits.add(Rule(area.name, area.limit, 0, None, "network"))
        late = self.settings.rules.late_ms
        # A Location counts for what was said so long before it, and is late itself after that.
        self.stretches = Stretches(self.settings.gap_ms, late + NEAR_MS, next_case)
        self.counters: dict[str, int] = {"received": 0, "over": 0, "within": 0, "witnessed": 0, "sightings": 0}
        self.quarantined: dict[str, int] = {}
        self.whereabouts = Whereabouts()
        self.measured = Measurements()
        self.posted = Posted(network)
        self._judging = Judge(
            network, self.limits, self.posted, self.whereabouts, self.settings.tariff, self.settings.accuracy_m,
            self.settings.reach_m,
        )  # fmt: skip
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

    def end_limit(self, area: str, since: int, now: int) -> list[Rule]:
        """What was set for the area at that time holds no more; what did before, or beside it, does."""
        own = [rule for rule in self.limits.rules() if rule.area == area and rule.until is None and rule.since]
        found = [rule._replace(until=max(now, rule.since + 1)) for rule in own if rule.since == since]
        if not found:
            known = ", ".join(str(rule.since) for rule in own) or "none: that of the network cannot be ended"
            raise LocalProtocolError(f"no limit of area {area!r} was set at {since} and holds, want one of {known}")
        for rule in found:
            self.limits.add(rule)
            self._changes.rules.append(rule)
        return found

    def limit_of(self, monitor: str, at: int) -> int:
        """What its sign shows, and what its subscription asks for."""
        found = self.limits.in_force(self.network.monitors[monitor].area, at)
        assert found is not None, "the network gives every area a limit"
        return found.value

    def sign_shows(self, monitor: str, value: int, now: int) -> None:
        """From now on: a limit that was lowered is one for fines then."""
        one = Shown(monitor, value, now)
        if self.posted.add(one):
            self._changes.shown.append(one)

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
        assert report.time is not None
        self._changes.sightings.append(self.whereabouts.add(report))
        for plate, time in self.measured.near(report.vehicle, report.time, NEAR_MS):
            self._judge(plate, time)
        return "sightings"

    def _speed(self, report: Report) -> str:
        assert report.time is not None
        identity = (report.monitor, report.vehicle, report.seq)
        verdicts = self.measured.add(report).verdicts
        verdicts[identity] = ""
        self._judge(report.plate, report.time)
        return verdicts[identity]

    def _judge(self, plate: str, time: int) -> None:
        """By all that was said so far; again, when more is."""
        measured = self.measured.of(plate, time)
        rows = [self._judging.evidence(one) for one in measured.reports.values()]
        over = that_counts(rows).over > 0
        stretch = self.stretches.of(plate, time)
        if over:
            self._put(plate, time, rows)
        elif stretch is not None and not stretch.void:  # a void one is nobody's harm, and keeps what it has
            self._withdraw(stretch, time)
        first = "over" if over and stretch is None else "witnessed" if over else "within"
        for identity, before in measured.verdicts.items():
            verdict = before if over and before in ("over", "witnessed") else first
            first = "witnessed" if over else "within"
            if before and verdict != before:  # what is new is counted by who has received it
                self.counters[before] -= 1
                self.counters[verdict] += 1
                self._changes.verdicts.append((*identity, verdict))
            measured.verdicts[identity] = verdict

    # Cases

    def _put(self, plate: str, time: int, rows: list[Evidence]) -> None:
        stretch = self.stretches.of(plate, time)
        known = [] if stretch is None else list(stretch.rows[time].values())
        if rows == known:
            return
        before = self.stretches.next_number
        stretch, merged = self.stretches.put(plate, time, rows)
        for one in merged:
            self._changes.merged.append((one.number, stretch.number))
            self._cases.pop(one.number, None)
        if rows[: len(known)] == known and not merged:
            self._changes.evidence.extend([(stretch.number, one) for one in rows[len(known) :]])
        else:
            self._rewrite(stretch)
        new = stretch.number >= before
        opened = (Step("open", max(one.received for one in rows), "traffic control", ""),)
        self._update(stretch, opened if new else None)

    def _withdraw(self, stretch: Stretch, time: int) -> None:
        """It was not over the limit then, as is known now."""
        behind = self.stretches.remove(stretch, time)
        self._rewrite(stretch)
        steps = self._cases[stretch.number].steps
        if stretch.evidence:
            self._update(stretch)
        else:
            del self._cases[stretch.number]
            self._changes.cases[:] = [case for case in self._changes.cases if case.number != stretch.number]
        if behind is not None:
            self._changes.evidence.extend([(behind.number, one) for one in behind.all()])
            self._update(behind, steps)

    def _rewrite(self, stretch: Stretch) -> None:
        """What is kept of it is replaced by what there is now."""
        into = dict(self._changes.merged)
        own = {stretch.number}
        while more := {old for old, new in into.items() if new in own} - own:
            own |= more
        others = [(number, one) for number, one in self._changes.evidence if number not in own]
        self._changes.evidence[:] = [*others, *[(stretch.number, one) for one in stretch.all()]]
        if stretch.number not in self._changes.rewritten:
            self._changes.rewritten.append(stretch.number)

    def _update(self, stretch: Stretch, steps: tuple[Step, ...] | None = None) -> None:
        steps = steps or self._cases[stretch.number].steps
        case = self._cases[stretch.number] = case_of(stretch, self.settings.tariff, steps)
        self._changes.cases.append(case)

    def handle_timeout(self, now: int, heard: int | None = None) -> list[Case]:
        """The cases that are fined now: nothing can be added to them any more, as all is known that was received until
        `heard`, or until now."""
        until = now if heard is None else heard
        self._seen.forget(until)
        before = until - self.settings.rules.late_ms - NEAR_MS
        self.whereabouts.forget(before)
        self.measured.forget(before)
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
        self.stretches.numbered(number).void = case.state == "void"
        self._changes.cases.append(case)
        return case

    def open_cases(self) -> list[Case]:
        return [case for _, case in sorted(self._cases.items()) if case.state == "open"]

    def recall(self, stretch: Stretch, steps: tuple[Step, ...]) -> None:
        """A case that was open before a restart, or void and may be added to."""
        stretch.void = steps[-1].state == "void"
        self.stretches.recall(stretch)
        for one in stretch.all():
            self.measured.add(
                Report("Speed", one.vehicle, one.seq, one.monitor, one.time, one.received, stretch.plate, one.speed)
            )
        self._cases[stretch.number] = case_of(stretch, self.settings.tariff, steps)

    def changes(self) -> Changes:
        """Since the last time; who has asked keeps them (`then`) until they are saved."""
        found, self._changes = self._changes, no_changes()
        return no_changes().then(found)

    def forget_vehicles(self, plate: str, vehicles: Iterable[str]) -> None:
        """Of a driver whose data are erased, and its pseudonyms: where they were, and what no case needs."""
        names = set(vehicles)
        self.whereabouts.erase(names)
        self.measured.erase(plate, names, [(one.plate, time) for one in self.stretches.open() for time in one.evidence])

    def accounts(self) -> dict[str, Any]:
        return {**self.counters, "quarantined": dict(sorted(self.quarantined.items()))}
