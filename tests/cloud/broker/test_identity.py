"""Who is who: certificates and tokens, good and bad ones, against a real broker; and what they may."""

import asyncio
import base64
import hashlib
import hmac
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import COMMAND, PATIENCE, Brokers, balanced, until
from cloud.broker.issuing import IDENTITY, KEYS, Issuing
from cloud.broker.test_pubsub import speed, take
from cloud.broker.test_transports import Authority

from vicinal.scope.membership import Identity
from vicinal.siena.messages import CLIENT, encode, framed
from vicinal_cloud.broker.address import Tls
from vicinal_cloud.broker.client import Closed, Refused, connect
from vicinal_cloud.broker.config import ConfigError, Identities, load
from vicinal_cloud.broker.identity import NotProven, is_administrator, of_certificate, prove
from vicinal_cloud.broker.tokens import BadToken, Issuer, sign

spec = pytest.mark.spec
NOW = 1_800_000_000_000


def pieces(*parts: dict[str, Any]) -> str:
    return ".".join(base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts)


def claims(**more: Any) -> dict[str, Any]:
    return {"sub": "ann", "iat": NOW // 1000 - 10, "exp": NOW // 1000 + 10, "role": "trader"} | more


# Tokens


@spec("OVER-34", "OVER-35")
@pytest.mark.parametrize("algorithm", [*KEYS, "HS256"])
def test_the_key_says_the_algorithm(tmp_path: Path, algorithm: str) -> None:
    one = Issuing(tmp_path, algorithm)
    issuer = Issuer.load(one.public)
    assert issuer.algorithm == algorithm
    found = issuer.identity(sign(one.private, claims(grade=3, active=True, list=[1], nested={})), NOW)
    assert (found.name, found.issued, found.expires) == ("ann", NOW - 10_000, NOW + 10_000)
    assert dict(found.event.params.items()) == {"role": "trader", "grade": 3, "active": True}


@spec("OVER-35")
@pytest.mark.parametrize("algorithm", [*KEYS, "HS256"])
def test_what_the_token_says_of_its_algorithm_changes_nothing(tmp_path: Path, algorithm: str) -> None:
    one = Issuing(tmp_path, algorithm)
    issuer = Issuer.load(one.public)
    body = pieces({"alg": "none", "typ": "JWT"}, claims())
    for bad in (f"{body}.", body, f"{body}.x"):
        with pytest.raises(BadToken):
            issuer.identity(bad, NOW)
    if algorithm != "HS256":
        # Signed with the public key as if it were a secret.
        head = pieces({"alg": "HS256", "typ": "JWT"}, claims())
        for secret in (one.public.read_bytes(), one.public.read_bytes().strip()):
            made = base64.urlsafe_b64encode(hmac.digest(secret, head.encode(), hashlib.sha256)).decode().rstrip("=")
            with pytest.raises(BadToken, match=f"not one of {algorithm} by our issuer"):
                issuer.identity(f"{head}.{made}", NOW)
    other = tmp_path / "other"
    other.mkdir()
    for wrong in KEYS:
        with pytest.raises(BadToken):
            issuer.identity(sign(Issuing(other, wrong).private, claims()), NOW)


@spec("OVER-35")
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"exp": NOW // 1000}, "has expired"),
        ({"iat": NOW // 1000 + 3600, "exp": NOW // 1000 + 7200}, "not valid before"),
        ({"nbf": NOW // 1000 + 3600}, "not valid before"),
        ({"exp": None}, "has exp None"),
        ({"iat": None}, "has iat None"),
        ({"iat": "yesterday"}, "has iat 'yesterday'"),
        ({"exp": True}, "has exp True"),
        ({"exp": 1e300}, "has exp 1e"),
        ({"sub": None}, "sub None"),
        ({"sub": ""}, "sub ''"),
        ({"aud": "mail"}, "for 'mail'"),
        ({"aud": ["mail", "web"]}, "not for 'vicinal'"),
        ({"big": 1 << 70}, "cannot be attributes"),
    ],
)
def test_tokens_that_prove_nothing(tmp_path: Path, more: dict[str, Any], why: str) -> None:
    one = Issuing(tmp_path)
    made = {key: value for key, value in claims(**more).items() if value is not None}
    with pytest.raises(BadToken, match=why):
        Issuer.load(one.public).identity(_signed(one, made), NOW)
    assert Issuer.load(one.public).identity(sign(one.private, claims(aud=["web", "vicinal"])), NOW).name == "ann"


def _signed(one: Issuing, made: dict[str, Any]) -> str:
    """Also what a careful library would not sign."""
    import jwt

    key: Any = one.private.read_bytes()
    head = pieces({"alg": "EdDSA", "typ": "JWT"}, made)
    signature = jwt.algorithms.OKPAlgorithm().sign(head.encode(), jwt.algorithms.OKPAlgorithm().prepare_key(key))
    return f"{head}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def test_keys_that_are_none(tmp_path: Path) -> None:
    one = Issuing(tmp_path)
    for data, why in (
        (b"short", "a secret of 5 bytes, want at least 32"),
        (b"-----BEGIN PUBLIC KEY-----\nx\n", "not a public key in PEM"),
        (one.private.read_bytes(), "never the private one"),
    ):
        (tmp_path / "bad.pem").write_bytes(data)
        file = Brokers(tmp_path).write("b1", more='[identity]\ntokens = "bad.pem"')
        with pytest.raises(ConfigError, match=why):
            load(file)
    with pytest.raises(ConfigError, match=r"\[identity\] tokens is .*nowhere.pem: No such file"):
        load(Brokers(tmp_path).write("b1", more='[identity]\ntokens = "nowhere.pem"'))
    with pytest.raises(ConfigError, match=r"\[identity\] administrators is 'role =': "):
        load(Brokers(tmp_path).write("b1", more='[identity]\nadministrators = "role ="'))


# Certificates

SUBJECT = {
    "subject": (
        (("organizationName", "Exchange"),), (("organizationalUnitName", "Floor"),),
        (("organizationalUnitName", "Desk"),), (("commonName", "ann"),), (("serialNumber", "7"),),
    ),
    "notBefore": "Jan  1 00:00:00 2026 GMT",
    "notAfter": "Jan  1 00:00:00 2028 GMT",
}  # fmt: skip


@spec("OVER-34")
def test_a_certificate_is_an_identity() -> None:
    found = of_certificate(SUBJECT)
    assert found is not None
    assert (found.name, found.issued, found.expires) == ("ann", 1_767_225_600_000, 1_830_297_600_000)
    attributes = {"O": "Exchange", "OU": "Floor", "OU2": "Desk", "serialNumber": "7"}
    assert dict(found.event.params.items()) == attributes
    assert of_certificate(None) is None
    assert of_certificate({"subject": ()}) is None


@spec("OVER-34", "OVER-36")
def test_certificate_and_token_together(tmp_path: Path) -> None:
    one = Issuing(tmp_path)
    settings = Identities(Issuer.load(one.public))
    found = prove(settings, "ann~2", SUBJECT, sign(one.private, claims(O="Elsewhere")), NOW)
    assert (found.name, found.issued, found.expires) == ("ann", 1_767_225_600_000, NOW + 10_000)
    assert (found.event["O"], found.event["role"]) == ("Exchange", "trader")
    with pytest.raises(NotProven, match="you say 'bob', your certificate says 'ann'"):
        prove(settings, "bob", SUBJECT, None, NOW)
    with pytest.raises(NotProven, match="you say 'bob', your token says 'ann'"):
        prove(settings, "bob", None, sign(one.private, claims()), NOW)
    with pytest.raises(NotProven, match="knows no issuer"):
        prove(Identities(), "ann", None, "x.y.z", NOW)
    with pytest.raises(NotProven, match="nobody without an identity"):
        prove(Identities(required=True), "ann", None, None, NOW)
    nobody = prove(Identities(), "ann", None, None, NOW)
    assert (nobody.name, nobody.issued, len(nobody.event.params)) == ("ann", None, 0)


@spec("OVER-42")
def test_who_is_an_administrator() -> None:
    from vicinal.filter import Filter

    named = Identities(administrators=Filter("subject = 'ann'"))
    assert is_administrator(named, Identity("ann", (), 0))
    assert not is_administrator(named, Identity("ann"))  # anybody can say that
    assert not is_administrator(named, Identity("bob", (), 0))
    assert not is_administrator(Identities(), Identity("ann", (), 0))
    assert not is_administrator(Identities(administrators=Filter("role = 'x'")), Identity("ann", (), 0))


# The broker


@spec("OVER-34", "OVER-35", "OVER-39")
def test_tokens_at_a_broker(brokers: Brokers) -> None:
    one = Issuing(brokers.folder)
    one.deploy()

    async def tokens() -> None:
        b1 = brokers.start("b1", scopes="deployment.toml", join=("floor", "hall"), more=IDENTITY + "required = true")
        for name, token, why in (
            ("ann", None, "nobody without an identity"),
            ("bob", one.token("ann"), "you say 'bob', your token says 'ann'"),
            ("ann", one.token("ann", issued=-7200), "has expired"),
            ("ann", one.token("ann", issued=7200), "not valid before"),
            ("ann", one.token("ann")[:-9], "not one of EdDSA"),
            ("ann", pieces({"alg": "none"}, {"sub": "ann"}) + ".", "not one of EdDSA"),
        ):
            with pytest.raises(Closed, match=f"not admitted: .*{why}"):
                await connect(b1.address, name, token=token)
        engine = await connect(b1.address, "match", token=one.token("match", "engine"))
        ann = await connect(b1.address, "ann", token=one.token("ann", "trader"))
        guest = await connect(b1.address, "guest", token=one.token("guest"))
        floor = {"market": "floor"}
        with pytest.raises(Refused, match="'guest' may not subscribe in 'floor': its rule for join"):
            await guest.subscribe("TRUE", floor)
        with pytest.raises(Refused, match="'ann' may not publish in 'floor': its rule for publish is role = 'engine'"):
            await ann.advertise("TRUE", floor)
        hears, everything = await ann.subscribe("TRUE", floor), await guest.subscribe("TRUE")
        says, anything = await engine.advertise("TRUE", floor), await guest.advertise("TRUE")
        await engine.publish(speed(1), says)
        await guest.publish(speed(2), anything)  # not heard in the floor, whose rule does not have it
        await engine.publish(speed(3), says)
        assert [one.event["rate"] for one in await take(hears, 2)] == [1, 3]
        assert everything.unread == 0
        await asyncio.gather(*[client.close() for client in (engine, ann, guest)])
        assert balanced(b1.status())

    asyncio.run(tokens())


@spec("OVER-37")
def test_an_identity_that_expires_ends_its_connection_and_a_newer_one_goes_on(brokers: Brokers) -> None:
    one = Issuing(brokers.folder)
    one.deploy()

    async def expiring() -> None:
        b1 = brokers.start("b1", scopes="deployment.toml", join=("floor",), more=IDENTITY)
        lives = [2.0, 3600.0]

        def token() -> str:
            return one.token("ann", "trader", lasting=lives.pop(0))

        ann = await connect(b1.address, "ann", token=token)
        old = await connect(b1.address, "old", token=one.token("old", lasting=2))
        hears = await ann.subscribe("TRUE", {"market": "floor"})
        why = str(await old.gone())
        assert "not admitted: your token has expired" in why
        await until(lambda: ann.connections == 2)
        assert b1.status()["connections"]["ended"]["come again"] == 2
        await until(lambda: b1.status()["overlay"]["subscriptions"] == 1)
        async with await connect(b1.address, "match", token=one.token("match", "engine")) as engine:
            await engine.publish(speed(1), await engine.advertise("TRUE", {"market": "floor"}))
        assert (await take(hears, 1))[0].event["rate"] == 1
        await ann.close()

    asyncio.run(expiring())


@spec("OVER-34")
def test_certificates_at_a_broker(brokers: Brokers) -> None:
    authority = Authority(brokers.folder)

    async def certificates() -> None:
        rule = '[[scope]]\nname = "floor"\ndimension = "market"\nmembership = { join = "O IS NOT NULL" }'
        (brokers.folder / "deployment.toml").write_text(rule)
        listen = [authority.listen("tls://127.0.0.1:0", "b1", True)]
        more = "[identity]\nadministrators = \"subject = 'ann'\"\nrequired = true"
        b1 = brokers.start("b1", listen=listen, scopes="deployment.toml", join=("floor",), more=more)
        ann: Tls = authority.issue("ann")
        async with await connect(b1.address, "ann", ann) as client:
            assert json.loads(await client.administer("tell", "members"))["broker"] == "b1"
            subject = await client.subscribe("TRUE", {"market": "floor"})  # trustme gives an organization
            assert subject.number is not None
        with pytest.raises(Closed, match="you say 'bob', your certificate says 'ann'"):
            await connect(b1.address, "bob", ann)

    asyncio.run(certificates())


@spec("OVER-9")
def test_a_hello_with_too_long_a_token(brokers: Brokers) -> None:
    b1 = brokers.start("b1")
    import socket

    for size, why in ((4097, b"4096 characters"), (60_000, b"the limit is 5120")):
        host, port = b1.address.removeprefix("tcp://").split(":")
        with socket.create_connection((host, int(port)), PATIENCE) as sock:
            sock.sendall(framed(encode(("hello", 1, CLIENT, "ann", "t" * size))))
            said = b""
            while data := sock.recv(4096):
                said += data
            assert why in said


def test_the_token_command(brokers: Brokers) -> None:
    one = Issuing(brokers.folder)
    one.deploy()
    b1 = brokers.start("b1", scopes="deployment.toml", join=("floor",), more=IDENTITY + "required = true")
    out = brokers.folder / "match.token"

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert "Traceback" not in done.stderr
        return done

    done = run("token", str(one.private), "match", "role=engine", "--for", "30m", "--out", str(out))
    assert (done.returncode, done.stdout, out.stat().st_mode & 0o777) == (0, "", 0o600)
    found = Issuer.load(one.public).identity(out.read_text().strip(), int(time.time() * 1000))
    assert (found.name, found.event["role"]) == ("match", "engine")
    assert found.expires is not None
    assert found.issued is not None
    assert found.expires - found.issued == 1_800_000
    pub = ("pub", "Quote", "price=3", "--scope", "market=floor", "-b", b1.address)
    assert run(*pub, "--token-file", str(out)).returncode == 0
    assert run("ping", b1.address, "--token-file", str(out)).returncode == 0
    # Two connections of one person.
    trace = run("trace", "Quote", "price=3", "-s", "market=floor", "-b", b1.address, "--token-file", str(out))
    assert "taken over" not in trace.stderr
    assert "admits nobody without an identity" in run(*pub).stderr
    for wrong, why in (
        (("token", str(one.private), "x", "--for", "soon"), "want a number and a unit, as 90s"),
        (("token", str(one.private), "x", "sub=y"), "want ATTRIBUTE=VALUE, and not sub"),
        (("token", str(one.public), "x"), "not a private key without a password in PEM"),
        ((*pub, "--token-file", str(one.public)), "holds no token with a name in it"),
    ):
        done = run(*wrong)
        assert done.returncode == 2
        assert why in done.stderr
