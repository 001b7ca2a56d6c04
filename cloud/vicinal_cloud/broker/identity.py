"""Who is at the other end of a connection, as far as that is proven: by its certificate, by a token, or not at all.

    CN=ann, O=Exchange, OU=Floor        name "ann", attributes O and OU; issued and expiring as the certificate says

Of a field that a subject has several times the second is OU2. A certificate and a token are of the same name; then the
certificate's fields count before the token's claims, the earlier `issued` and the earlier `expires`.
"""

import ssl
from typing import Any

from vicinal.errors import LocalProtocolError
from vicinal.scope.membership import Identity
from vicinal.siena.rights import person

from .config import Identities

__all__ = ["NotProven", "is_administrator", "of_certificate", "prove"]

# Fields of a subject, as people write them.
_SHORT = {
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "stateOrProvinceName": "ST",
    "localityName": "L",
}


class NotProven(LocalProtocolError):
    """The message is for who connects."""


def prove(settings: Identities, name: str, certificate: Any, token: str | None, now: int) -> Identity:
    """Who says that it is `name`. Raises NotProven, or BadToken."""
    shown = of_certificate(certificate)
    said = None
    if token is not None:
        if settings.issuer is None:
            raise NotProven("you show a token, and this broker knows no issuer: [identity] tokens is not configured")
        said = settings.issuer.identity(token, now)
    for what, one in (("certificate", shown), ("token", said)):
        if one is not None and one.name not in (name, person(name)):
            raise NotProven(f"you say {name!r}, your {what} says {one.name!r}")
    found = [one for one in (said, shown) if one is not None]
    if not found:
        if settings.required:
            raise NotProven("this broker admits nobody without an identity: show a certificate or a token")
        return Identity(person(name))
    if len(found) == 1:
        return found[0]
    attributes = dict(found[0].event.params.items()) | dict(found[1].event.params.items())
    return Identity(
        person(name),
        attributes,
        min(one.issued for one in found if one.issued is not None),
        min(one.expires for one in found if one.expires is not None),
    )


def of_certificate(certificate: Any) -> Identity | None:
    """As asyncio gives it; None if there is none, or it has no common name."""
    name, attributes = None, dict[str, str]()
    for part in (certificate or {}).get("subject", ()):
        for field, value in part:
            if field == "commonName" and name is None:
                name = str(value)
                continue
            short = _SHORT.get(field, field)
            place, count = short, 1
            while place in attributes:
                count += 1
                place = f"{short}{count}"
            attributes[place] = str(value)
    if name is None:
        return None
    issued, expires = (_ms(certificate[key]) for key in ("notBefore", "notAfter"))
    return Identity(name, attributes, issued, expires)


def _ms(time: str) -> int:
    return ssl.cert_time_to_seconds(time) * 1000


def is_administrator(settings: Identities, identity: Identity) -> bool:
    """Only who has proven who it is, and only where somebody said who they are."""
    return (
        settings.administrators is not None
        and identity.issued is not None
        and settings.administrators.matches(identity.event)
    )
