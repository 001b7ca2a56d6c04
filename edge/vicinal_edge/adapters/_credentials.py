"""Who we are and whom we trust, as [[service]] tables say it for several kinds of service.

ca, certificate, key           files, for an address whose scheme says that there is TLS
password, or password_file
"""

import ssl

from vicinal.tables_cpython import Table

__all__ = ["password", "tls"]


def tls(settings: Table, secure: str, scheme: str) -> ssl.SSLContext | None:
    """None for a scheme that is not the secure one."""
    ca, certificate, key = settings.path("ca"), settings.path("certificate"), settings.path("key")
    if scheme != secure:
        for name, given in (("ca", ca), ("certificate", certificate), ("key", key)):
            if given is not None:
                settings.fail(name, f"is for an address that begins with {secure}://")
        return None
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        settings.fail("ca", f"is {ca}: {error}")
    if (certificate is None) != (key is None):
        settings.fail("key" if key is None else "certificate", "is missing: certificate and key go together")
    if certificate is not None and key is not None:
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            settings.fail("certificate", f"is {certificate}: {error}")
    return context


def password(settings: Table) -> str | None:
    given: str | None = settings.take("password", str)
    file = settings.path("password_file")
    if file is None:
        return given
    if given is not None:
        settings.fail("password_file", "and password are both given, want one")
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        settings.fail("password_file", f"is {file}: {error}")
