"""The office over HTTP: JSON for the live page and for programs.

    GET  /                            a page with the map, the signs, the offences and the time slider
    GET  /api/network                 the town, GeoJSON
    GET  /api/state                   vehicles, monitors with what their signs show, areas with their limits, counters
    GET  /api/at?time=MS              the same as it was then: the time slider        /api/span: from when to when
    GET  /api/limits                  POST {"area": "old-town", "value": 30, "who": ..., "hours": "Mo-Fr 07:30-16:30"}
    GET  /api/cases[.csv|.geojson]    ?state=fined; /api/cases/7 with its evidence
    POST /api/cases/7                 {"state": "appealed", "who": ..., "note": ...}
    GET  /api/events[?subject=Speed]  the last ones; ?after=NUMBER: those that came after one, from the oldest on
    GET  /api/events/VEHICLE/SEQ      the way of one, hop by hop
    GET  /api/quarantine, /api/accounts
    GET  /api/drivers/PLATE           all that is kept of a driver; DELETE erases what no case needs

What is wrong is answered with 400 or 404 and {"error": why}. Changes are asked for as application/json only: a page of
somebody else cannot do that without being asked first by the browser, and nobody answers then.
"""

import json
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from vicinal.errors import LocalProtocolError

from .cases import Case
from .export import flat, to_csv, to_geojson
from .limits import Hours
from .network import UNIT
from .office import Office
from .paths import Path
from .store import NoSuchCase
from .whereabouts import Sighting

__all__ = ["make_app"]

FRESH_MS = 3_000
"""a vehicle that was not heard for longer is not shown"""
MAX_BODY = 10_000
POLICY = (
    "default-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
)
"""the page asks nobody but us"""
MAX_ROWS = 1_000


class _BadRequest(LocalProtocolError):
    pass


def make_app(office: Office) -> Starlette:
    api = _Api(office)
    routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("GET", "/", api.page),
        ("GET", "/api/network", api.network),
        ("GET", "/api/state", api.state),
        ("GET", "/api/at", api.at),
        ("GET", "/api/span", api.span),
        ("GET", "/api/limits", api.limits),
        ("POST", "/api/limits", api.set_limit),
        ("GET", "/api/cases", api.cases),
        ("GET", "/api/cases.csv", api.cases_csv),
        ("GET", "/api/cases.geojson", api.cases_geojson),
        ("GET", "/api/cases/{number:int}", api.case),
        ("POST", "/api/cases/{number:int}", api.move),
        ("GET", "/api/events", api.events),
        ("GET", "/api/events/{vehicle:path}/{seq:int}", api.event),
        ("GET", "/api/quarantine", api.quarantine),
        ("GET", "/api/accounts", api.accounts),
        ("GET", "/api/drivers/{plate}", api.driver),
        ("DELETE", "/api/drivers/{plate}", api.erase),
    ]
    return Starlette(
        routes=[Route(path, _kindly(do), methods=[method]) for method, path, do in routes],
    )


def _kindly(do: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await do(request)
        except NoSuchCase as error:
            return JSONResponse({"error": str(error)}, 404)
        except LocalProtocolError as error:
            return JSONResponse({"error": str(error)}, 400)

    return answer


class _Api:
    def __init__(self, office: Office) -> None:
        self.office = office

    async def page(self, request: Request) -> Response:
        text = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})

    async def network(self, request: Request) -> Response:
        return JSONResponse(self.office.config.network.geojson(), media_type="application/geo+json")

    async def state(self, request: Request) -> Response:
        office, now = self.office, self.office.now()
        seen = [one for one in office.control.whereabouts.latest() if now - one.time <= FRESH_MS]
        return JSONResponse(
            {
                "now": now,
                "vehicles": [_sighting(one) for one in seen],
                "monitors": [self._monitor(name, now) for name in office.signs.signs],
                "areas": self._areas(now),
                "open": [_case(one) for one in office.control.open_cases()],
                "counters": office.control.accounts(),
                "latency_ms": office.paths.latency(),
            }
        )

    def _monitor(self, name: str, now: int) -> dict[str, Any]:
        monitor, sign = self.office.config.network.monitors[name], self.office.signs.signs[name]
        return {
            "name": name,
            "lat": monitor.place[0] / UNIT,
            "lon": monitor.place[1] / UNIT,
            "area": monitor.area,
            "limit": self.office.control.limit_of(name, now),
            "shown": sign.shown,
            "done": sign.done,
            "asked_at": sign.asked_at,
            "shown_at": sign.shown_at,
            "done_at": sign.done_at,
            "problem": sign.problem,
            "heard": self.office.heard.get(name, {}),
        }

    def _areas(self, at: int) -> list[dict[str, Any]]:
        found = []
        for name, area in self.office.config.network.areas.items():
            limit = self.office.control.limits.in_force(name, at)
            value, source = (None, "") if limit is None else (limit.value, limit.source)
            change = self.office.control.limits.next_change(name, at)
            found.append({"name": name, "title": area.title, "limit": value, "source": source, "next_change": change})
        return found

    async def at(self, request: Request) -> Response:
        time = _number(request, "time")
        latest: dict[str, Sighting] = {}
        for one in self.office.store.sightings(time - FRESH_MS, time + 1):
            latest[one.vehicle] = one
        cases = [one for one in self.office.store.cases() if one.first <= time <= one.last + FRESH_MS]
        return JSONResponse(
            {
                "now": time,
                "vehicles": [_sighting(one) for one in latest.values()],
                "areas": self._areas(time),
                "open": [_case(one) for one in cases],
            }
        )

    async def span(self, request: Request) -> Response:
        first, last = self.office.store.span()
        return JSONResponse({"first": first, "last": last, "now": self.office.now()})

    async def limits(self, request: Request) -> Response:
        rules = [
            {**rule._asdict(), "hours": None if rule.hours is None else str(rule.hours)}
            for rule in self.office.control.limits.rules()
        ]
        return JSONResponse({"areas": self._areas(self.office.now()), "rules": rules})

    async def set_limit(self, request: Request) -> Response:
        asked = await _body(request, {"area": str, "value": int}, {"who": str, "hours": str})
        hours = Hours.parse(asked["hours"]) if asked.get("hours") else None
        rule = self.office.set_limit(asked["area"], asked["value"], asked.get("who") or "operator", hours)
        return JSONResponse({"area": rule.area, "value": rule.value, "since": rule.since}, 201)

    # Cases

    def _cases(self, request: Request) -> list[Case]:
        return self.office.store.cases(state=request.query_params.get("state"))

    async def cases(self, request: Request) -> Response:
        return JSONResponse({"cases": [_case(one) for one in self._cases(request)]})

    async def cases_csv(self, request: Request) -> Response:
        head = {"Content-Disposition": 'attachment; filename="cases.csv"'}
        return Response(to_csv(self._cases(request)), media_type="text/csv", headers=head)

    async def cases_geojson(self, request: Request) -> Response:
        return JSONResponse(to_geojson(self._cases(request)), media_type="application/geo+json")

    async def case(self, request: Request) -> Response:
        number = request.path_params["number"]
        found = _case(self.office.store.case(number))
        found["evidence"] = [_evidence(one) for one in self.office.store.evidence(number)]
        return JSONResponse(found)

    async def move(self, request: Request) -> Response:
        asked = await _body(request, {"state": str}, {"who": str, "note": str})
        who, note = asked.get("who") or "operator", asked.get("note") or ""
        return JSONResponse(_case(self.office.move(request.path_params["number"], asked["state"], who, note)))

    # Others

    async def events(self, request: Request) -> Response:
        count = _number(request, "count", 100, MAX_ROWS)
        if "after" in request.query_params:
            found = self.office.paths.after(_number(request, "after"), count)
        else:
            found = self.office.paths.latest(count, request.query_params.get("subject"))
        return JSONResponse({"events": [_path(one) for one in found]})

    async def event(self, request: Request) -> Response:
        found = self.office.paths.of(request.path_params["vehicle"], request.path_params["seq"])
        if not found:
            return JSONResponse({"error": "no such event among the last ones"}, 404)
        return JSONResponse({"paths": [_path(one) for one in found]})

    async def quarantine(self, request: Request) -> Response:
        return JSONResponse({"quarantine": [one._asdict() for one in self.office.store.quarantine(MAX_ROWS)]})

    async def accounts(self, request: Request) -> Response:
        return JSONResponse({**self.office.accounts(), "store": self.office.store.counts()})

    async def driver(self, request: Request) -> Response:
        return JSONResponse(self.office.store.driver(request.path_params["plate"]))

    async def erase(self, request: Request) -> Response:
        await _body(request, {}, {})
        return JSONResponse(self.office.erase(request.path_params["plate"])._asdict())


def _sighting(one: Sighting) -> dict[str, Any]:
    made = one._asdict()
    lat, lon = made.pop("place")
    return {**made, "lat": lat / UNIT, "lon": lon / UNIT}


def _case(case: Case) -> dict[str, Any]:
    return {**flat(case), "steps": [step._asdict() for step in case.steps]}


def _evidence(one: Any) -> dict[str, Any]:
    made = one._asdict()
    lat, lon = made.pop("place")
    return {**made, "lat": lat / UNIT, "lon": lon / UNIT}


def _path(path: Path) -> dict[str, Any]:
    return {**path._asdict(), "hops": [hop._asdict() for hop in path.hops]}


def _number(request: Request, name: str, default: int | None = None, most: int = 1 << 53) -> int:
    text = request.query_params.get(name, "" if default is None else str(default))
    if not text.isdecimal() or int(text) > most:
        raise _BadRequest(f"{name} is {text!r}, want a number up to {most}")
    return int(text)


async def _body(request: Request, wanted: dict[str, type], allowed: dict[str, type]) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise _BadRequest("want application/json")
    octets = b""
    async for part in request.stream():
        octets += part
        if len(octets) > MAX_BODY:
            raise _BadRequest(f"the body is longer than {MAX_BODY} bytes")
    try:
        found = json.loads(octets or b"{}")
    except ValueError as error:
        raise _BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise _BadRequest("the body is no JSON object")
    known = {**wanted, **allowed}
    for name, value in found.items():
        if name not in known:
            raise _BadRequest(f"{name!r} is not known, want {', '.join(known) or 'nothing'}")
        if type(value) is not known[name]:
            raise _BadRequest(f"{name} is {value!r}, want {known[name].__name__}")
    for name in wanted:
        if name not in found:
            raise _BadRequest(f"{name} is missing")
    return found
