"""The office over HTTP: JSON for the live page and for programs.

    GET  /                            the live page (page.py)
    GET  /api/live                    what it is told: all, then what is new, as server-sent events (live.py)
    GET  /api/network                 the town, GeoJSON
    GET  /api/state                   vehicles, monitors with what their signs show, areas with their limits, counters
    GET  /api/at?time=MS              the same as it was then, with cases and the last events: the time slider
                                      (history.py); &event=NUMBER: when this one had come, and no later one of that
                                      millisecond                                     /api/span: from when to when
    GET  /api/limits                  POST {"area": "old-town", "value": 30, "who": ..., "hours": "Mo-Fr 07:30-16:30"}
                                      sets one; the answer says what holds, as hours come before what has none.
                                      DELETE {"area": "old-town", "since": MS} ends the one that was set then
    GET  /api/cases[.csv|.geojson]    ?state=fined; /api/cases/7 with its evidence
    POST /api/cases/7                 {"state": "appealed", "who": ..., "note": ...}
    GET  /api/events[?subject=Speed]  the last ones; ?after=NUMBER: those that came after one, from the oldest on
    GET  /api/events/VEHICLE/SEQ      the way of one, hop by hop, once for each monitor that heard it
    GET  /api/overlay                 how its links and nodes are, a sample every two seconds (watch.py)
    GET  /api/quarantine, /api/accounts
    POST /api/drivers/PLATE           all that is kept of a driver; DELETE erases what no case needs. {"vehicles": []}
                                      are pseudonyms of the plate: who has keys knows them (`vicinal traffic driver`)

What is wrong is answered with 400 or 404 and {"error": why}, and with 503 while the database is away: then /api/state
says why as `behind`. Changes are asked for as application/json only: a page of
somebody else cannot do that without being asked first by the browser, and nobody answers then.
"""

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from vicinal.errors import LocalProtocolError

from . import page, views
from .cases import Case
from .export import to_csv, to_geojson
from .history import FRESH_MS, began, state_at
from .limits import Hours
from .live import Audience
from .office import Office
from .plain import dumps
from .store import NoSuchCase, StoreError, StoreRefused

__all__ = ["make_app"]

MAX_BODY = 100_000
"""bytes: a plate has a pseudonym of 18 for each area and day"""
MAX_ROWS = 1_000
DIGITS = 18
"""of a number that somebody asks for: all that a database has"""
_INTEGER = re.compile("-?[0-9]{1,19}")


class _BadRequest(LocalProtocolError):
    pass


class PlainResponse(JSONResponse):
    """JSON, whatever is in it (plain.py)."""

    def render(self, content: Any) -> bytes:
        return dumps(content).encode()


def make_app(office: Office, audience: Audience | None = None, static: Path = page.STATIC) -> Starlette:
    """`static` is where the page was built. Who ends the server closes the audience first: else it waits for them."""
    api = _Api(office, audience or Audience(office))
    routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("GET", "/api/network", api.network),
        ("GET", "/api/live", api.live),
        ("GET", "/api/state", api.state),
        ("GET", "/api/at", api.at),
        ("GET", "/api/span", api.span),
        ("GET", "/api/limits", api.limits),
        ("POST", "/api/limits", api.set_limit),
        ("DELETE", "/api/limits", api.end_limit),
        ("GET", "/api/cases", api.cases),
        ("GET", "/api/cases.csv", api.cases_csv),
        ("GET", "/api/cases.geojson", api.cases_geojson),
        ("GET", "/api/cases/{number}", api.case),
        ("POST", "/api/cases/{number}", api.move),
        ("GET", "/api/events", api.events),
        ("GET", "/api/events/{vehicle:path}/{seq}", api.event),
        ("GET", "/api/overlay", api.overlay),
        ("GET", "/api/quarantine", api.quarantine),
        ("GET", "/api/accounts", api.accounts),
        ("GET", "/api/drivers/{plate}", api.driver),
        ("POST", "/api/drivers/{plate}", api.driver),
        ("DELETE", "/api/drivers/{plate}", api.erase),
    ]
    return Starlette(
        routes=[*[Route(path, _kindly(do), methods=[method]) for method, path, do in routes], *page.routes(static)],
    )


def _kindly(do: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            return await do(request)
        except NoSuchCase as error:
            return PlainResponse({"error": str(error)}, 404)
        except StoreRefused as error:  # what was asked for cannot be there
            return PlainResponse({"error": str(error)}, 400)
        except StoreError as error:
            return PlainResponse({"error": str(error)}, 503)
        except LocalProtocolError as error:
            return PlainResponse({"error": str(error)}, 400)

    return answer


class _Api:
    def __init__(self, office: Office, audience: Audience) -> None:
        self.office = office
        self.audience = audience

    async def network(self, request: Request) -> Response:
        return PlainResponse(self.office.config.network.geojson(), media_type="application/geo+json")

    async def live(self, request: Request) -> Response:
        if self.audience.full:
            return PlainResponse({"error": f"{self.audience.pages} pages look on already"}, 503)
        self.office.store.check()  # who begins to look on is told so; a stream could only end
        head = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self.audience.stream(), media_type="text/event-stream", headers=head)

    async def state(self, request: Request) -> Response:
        office, now = self.office, self.office.now()
        seen = [one for one in office.control.whereabouts.latest() if now - one.time <= FRESH_MS]
        return PlainResponse(
            {
                "now": now,
                "vehicles": [views.sighting(one) for one in seen],
                "monitors": views.monitors(office, now),
                "areas": views.areas(office, now),
                "open": [views.case(one) for one in office.control.open_cases()],
                "counters": office.control.accounts(),
                "latency_ms": office.paths.latency(),
                "behind": office.behind,
            }
        )

    async def at(self, request: Request) -> Response:
        event = _number(request, "event") if "event" in request.query_params else None
        return PlainResponse(state_at(self.office, _number(request, "time"), event))

    async def overlay(self, request: Request) -> Response:
        return PlainResponse({"samples": views.overlay(self.office.watch.samples)})

    async def span(self, request: Request) -> Response:
        _, last = self.office.store.span()
        return PlainResponse({"first": began(self.office), "last": last, "now": self.office.now()})

    async def limits(self, request: Request) -> Response:
        rules = [views.rule(one) for one in self.office.control.limits.rules()]
        shown = [one._asdict() for one in self.office.control.posted.history()]
        return PlainResponse({"areas": views.areas(self.office, self.office.now()), "rules": rules, "shown": shown})

    async def set_limit(self, request: Request) -> Response:
        asked = await _body(request, {"area": str, "value": int}, {"who": str, "hours": str})
        hours = Hours.parse(asked["hours"]) if asked.get("hours") else None
        rule = self.office.set_limit(asked["area"], asked["value"], asked.get("who") or "operator", hours)
        holds = views.area(self.office, rule.area, rule.since)
        return PlainResponse({"area": rule.area, "value": rule.value, "since": rule.since, "holds": holds}, 201)

    async def end_limit(self, request: Request) -> Response:
        asked = await _body(request, {"area": str, "since": int}, {"who": str})
        ended = self.office.end_limit(asked["area"], asked["since"], asked.get("who") or "operator")
        holds = views.area(self.office, asked["area"], max(self.office.now(), *[one.until or 0 for one in ended]))
        return PlainResponse({"ended": [views.rule(one) for one in ended], "holds": holds})

    # Cases

    def _cases(self, request: Request) -> list[Case]:
        return self.office.store.cases(state=request.query_params.get("state"))

    async def cases(self, request: Request) -> Response:
        return PlainResponse({"cases": [views.case(one) for one in self._cases(request)]})

    async def cases_csv(self, request: Request) -> Response:
        head = {"Content-Disposition": 'attachment; filename="cases.csv"'}
        return Response(to_csv(self._cases(request)), media_type="text/csv", headers=head)

    async def cases_geojson(self, request: Request) -> Response:
        return PlainResponse(to_geojson(self._cases(request)), media_type="application/geo+json")

    async def case(self, request: Request) -> Response:
        number = _case(request)
        found = views.case(self.office.store.case(number))
        found["evidence"] = [views.evidence(one) for one in self.office.store.evidence(number)]
        return PlainResponse(found)

    async def move(self, request: Request) -> Response:
        asked = await _body(request, {"state": str}, {"who": str, "note": str})
        who, note = asked.get("who") or "operator", asked.get("note") or ""
        return PlainResponse(views.case(self.office.move(_case(request), asked["state"], who, note)))

    # Others

    async def events(self, request: Request) -> Response:
        count = _number(request, "count", 100, MAX_ROWS)
        if "after" in request.query_params:
            found = self.office.paths.after(_number(request, "after"), count)
        else:
            found = self.office.paths.latest(count, request.query_params.get("subject"))
        return PlainResponse({"events": [views.path(self.office, one) for one in found]})

    async def event(self, request: Request) -> Response:
        vehicle, seq = request.path_params["vehicle"], request.path_params["seq"]
        found = self.office.paths.of(vehicle, int(seq)) if _INTEGER.fullmatch(seq) else []
        if not found:
            return PlainResponse({"error": "no such event among the last ones"}, 404)
        return PlainResponse({"paths": [views.path(self.office, one) for one in found]})

    async def quarantine(self, request: Request) -> Response:
        return PlainResponse({"quarantine": [one._asdict() for one in self.office.store.quarantine(MAX_ROWS)]})

    async def accounts(self, request: Request) -> Response:
        return PlainResponse({**self.office.accounts(), "store": self.office.store.counts()})

    async def driver(self, request: Request) -> Response:
        names = [] if request.method == "GET" else await _vehicles(request)
        return PlainResponse(self.office.driver(request.path_params["plate"], names))

    async def erase(self, request: Request) -> Response:
        return PlainResponse(self.office.erase(request.path_params["plate"], await _vehicles(request))._asdict())


def _number(request: Request, name: str, default: int | None = None, most: int = 1 << 53) -> int:
    text = request.query_params.get(name, "" if default is None else str(default))
    if not text.isdecimal() or len(text) > DIGITS or int(text) > most:
        raise _BadRequest(f"{name} is {text!r}, want a number up to {most}")
    return int(text)


def _case(request: Request) -> int:
    text: str = request.path_params["number"]
    if not text.isdecimal() or len(text) > DIGITS:
        raise NoSuchCase(f"there is no case {text}")
    return int(text)


async def _vehicles(request: Request) -> list[str]:
    found: list[Any] = (await _body(request, {}, {"vehicles": list})).get("vehicles", [])
    for one in found:
        if not isinstance(one, str):
            raise _BadRequest(f"vehicles has {one!r}, want strings")
    return found


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
