"""The live page: files that the build of cloud/page has put into `static`, served as they are.

Nothing is asked of anybody else: the policy that goes with each file lets a browser talk to us alone. Where the page
was never built, one stands in for it that says how to; the JSON is there all the same.
"""

from importlib.resources import files
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

__all__ = ["POLICY", "STATIC", "routes"]

STATIC = Path(str(files(__package__))) / "static"
INDEX = "index.html"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""styles may be set on elements: the map does, to place its markers"""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
NOT_BUILT = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Vicinal: traffic control</title>
<link rel="icon" href="data:,">
<body style="font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 4rem auto; padding: 0 1rem">
<h1>Traffic control is running</h1>
<p>Its page was not built in this checkout. In the folder of the Makefile:</p>
<pre>make page</pre>
<p>and load this again. What it shows is here as JSON: <a href="/api/state">/api/state</a>,
<a href="/api/cases">/api/cases</a>, <a href="/api/events">/api/events</a>.</p>
</html>
"""


class _Files(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        found = await super().get_response(path, scope)
        found.headers.update(HEADERS)
        if path.endswith(".mjs"):  # not every system's table of types knows them
            found.headers["Content-Type"] = "text/javascript; charset=utf-8"
        return found


def routes(static: Path = STATIC) -> list[BaseRoute]:
    if not (static / INDEX).is_file():
        return [Route("/", _not_built, methods=["GET"])]
    return [Mount("/", _Files(directory=static, html=True))]


async def _not_built(request: Request) -> Response:
    return HTMLResponse(NOT_BUILT, headers=HEADERS)
