"""Asking a broker or a gateway for its status, over HTTP; and saying kindly that something else answers there."""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

__all__ = ["BROKER", "GATEWAY", "NoStatus", "ask"]

BROKER, GATEWAY = "broker", "gateway"
_SECONDS = 5
_COMMANDS = {BROKER: "vicinal top", GATEWAY: "vicinal gateway status"}


class NoStatus(Exception):
    """The message says who does not answer, and why."""


def ask(kind: str, address: str) -> dict[str, Any]:
    """`address` is what [status] of its configuration says, with or without http://."""
    url = (address if "://" in address else f"http://{address}").rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise NoStatus(f"{url} is an address for events; the status of a {kind} has one with http://")
    try:
        with urllib.request.urlopen(f"{url}/status", timeout=_SECONDS) as answer:
            found = json.load(answer)
    except http.client.HTTPException as error:
        raise NoStatus(f"what answers on {url} speaks no HTTP: is it the port for events?") from error
    except urllib.error.HTTPError as error:
        raise NoStatus(f"what answers on {url} has no /status: it is no {kind}") from error
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise NoStatus(f"nothing answers on {url}: {getattr(reason, 'strerror', None) or reason}") from error
    except ValueError as error:
        raise NoStatus(f"what answers on {url} is no {kind}: its status is no JSON") from error
    there = _kind(found)
    if there != kind:
        advice = f"a {there}, and no {kind}: {_COMMANDS[there]} {url}" if there else f"no {kind}"
        raise NoStatus(f"what answers on {url} is {advice}")
    result: dict[str, Any] = found
    return result


def _kind(found: Any) -> str:
    if isinstance(found, dict):
        if "deliveries" in found and "publishes" in found:
            return BROKER
        if "services" in found and "requests" in found:
            return GATEWAY
    return ""
