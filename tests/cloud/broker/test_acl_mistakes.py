"""The mistakes of others' access control, each once somebody's advisory, against a real broker.

Of nine (facts of Mosquitto's change log) these are not here: a subscription that outlived its right, and what a revoked
publisher had left in a queue (test_administering.py); memory for a length that somebody merely claims
(test_faults.py, test_identity.py).
"""

import asyncio
import signal
from pathlib import Path

import pytest
from cloud.broker.brokers import Brokers, free_port, until
from cloud.broker.issuing import DEPLOYMENT, IDENTITY, Issuing
from cloud.broker.test_pubsub import speed, take

from vicinal.event import Event
from vicinal.filter import Filter
from vicinal.scope.graph import Scope, ScopeGraph, Tags
from vicinal.scope.membership import Identity, Rule
from vicinal.siena.broker import Broker
from vicinal_cloud.broker.client import Closed, Refused, connect
from vicinal_cloud.broker.config import ConfigError, load


def rules(text: str) -> str:
    return f'[[scope]]\nname = "floor"\ndimension = "market"\nmembership = {text}\n'


@pytest.mark.parametrize("rule", ["{}", '{ publish = "TRUE" }', '{ join = "FALSE" }'])
def test_an_empty_rule_allows_nothing(brokers: Brokers, rule: str) -> None:
    """CVE-2018-12550."""
    issuing = Issuing(brokers.folder)
    issuing.deploy(rules(rule))

    async def empty() -> None:
        b1 = brokers.start("b1", scopes="deployment.toml", join=("floor",), more=IDENTITY)
        for name, token in (("nobody", None), ("root", issuing.token("root", "administrator"))):
            async with await connect(b1.address, name, token=token) as client:
                for ask in (client.subscribe, client.advertise):
                    with pytest.raises(Refused, match="may not"):
                        await ask("TRUE", {"market": "floor"})

    asyncio.run(empty())


@pytest.mark.parametrize("rule", ['{ join = "" }', '{ join = "role =" }', '{ jion = "TRUE" }', '"TRUE"', "[]"])
def test_a_malformed_rule_is_not_one_that_lets_in(tmp_path: Path, rule: str) -> None:
    """CVE-2018-12551."""
    (tmp_path / "deployment.toml").write_text(rules(rule))
    with pytest.raises(ConfigError, match="membership"):
        load(Brokers(tmp_path).write("b1", scopes="deployment.toml", join=("floor",)))


def test_what_was_under_way_is_asked_anew_when_a_client_comes_back(brokers: Brokers) -> None:
    """Unfinished messages that were not checked again after a reconnect."""
    issuing = Issuing(brokers.folder)
    issuing.deploy()

    async def under_way() -> None:
        where = f"tcp://127.0.0.1:{free_port()}"
        what = {"scopes": "deployment.toml", "join": ("floor",), "more": IDENTITY, "log": True, "listen": where}
        b1 = brokers.start("b1", **what)
        match = await connect(where, "match", token=issuing.token("match", "engine"))
        free = await connect(where, "free", token=issuing.token("free", "engine"))
        says = await match.advertise("TRUE", {"market": "floor"})
        theirs = await free.advertise("TRUE", {"market": "floor"})
        b1.process.send_signal(signal.SIGSTOP)  # nothing is answered
        first, second = await match.submit(speed(1), says), await free.submit(speed(2), theirs)
        b1.kill()
        # Meanwhile it was said; here it is in what the broker has kept.
        (brokers.folder / "b1.log" / "administration.json").write_text('[["deny", [5, "b2"], "match", "floor"]]')
        b1 = brokers.start("b1", **what)
        with pytest.raises(Refused, match="its advertisement was refused"):
            await first
        assert await second == 0
        assert b1.status()["publishes"]["accepted"] == 1
        await asyncio.gather(match.close(), free.close())

    asyncio.run(under_way())


def test_no_name_is_a_pattern(brokers: Brokers) -> None:
    """CVE-2017-7650, of users called # and +."""
    (brokers.folder / "deployment.toml").write_text(rules("{ join = \"subject = 'ann' OR subject LIKE 'car-_'\" }"))

    async def names() -> None:
        b1 = brokers.start("b1", scopes="deployment.toml", join=("floor",))
        odd = ("#", "+", "%", "*", "_", "car-", "car-77", "' OR TRUE", "ann%", "$ann", "Ann", "car_7")
        for name in odd:
            async with await connect(b1.address, name) as client:
                with pytest.raises(Refused, match="may not subscribe"):
                    await client.subscribe("TRUE", {"market": "floor"})
        for name in ("ann", "car-7", "car-%"):  # one character, whatever it is
            async with await connect(b1.address, name) as client:
                await client.subscribe("TRUE", {"market": "floor"})

    asyncio.run(names())


def test_what_begins_with_a_dollar(brokers: Brokers) -> None:
    """CVE-2018-12543."""
    (brokers.folder / "deployment.toml").write_text('[[scope]]\nname = "$SYS"\ndimension = "$d"\n')

    async def dollars() -> None:
        b1 = brokers.start("b1", scopes="deployment.toml", join=("$SYS",))
        async with await connect(b1.address, "$SYS") as one, await connect(b1.address, "$other") as other:
            hears = await other.subscribe("subject = '$SYS/broker'", {"$d": "$SYS"})
            says = await one.advertise("TRUE", {"$d": "$SYS"})
            await one.publish(Event("$SYS/broker", {"$x": 1}), says)
            assert (await take(hears, 1))[0].event["$x"] == 1

    asyncio.run(dollars())


def test_nothing_is_left_of_those_who_have_gone() -> None:
    """CVE-2023-28366, identifiers that were never released."""
    graph = ScopeGraph([Scope("s", "d", membership=Rule(Filter("role = 'x'")))])
    one = Broker("b1", 1, graph)
    one.join_scope("s")
    for number in range(45_000):
        name = f"client-{number}"
        one.admit(name, Identity(name, {"role": "x"}, 0, 1 << 50), 0)
        one.subscribe(name, Filter("TRUE"), Tags({"d": "s"}), 0)
        one.drop_client(name, 0)
    rights = one.rights
    kept = [len(held) for held in (rights._identities, rights._answers, rights._outgoing, rights._components)]
    assert kept == [0, 0, 0, 0]
    assert len(rights._gone) <= 20_000
    assert one.counts == {}


def test_a_revoked_client_is_cut_at_once(brokers: Brokers) -> None:
    issuing = Issuing(brokers.folder)
    issuing.deploy(DEPLOYMENT)

    async def cut() -> None:
        b1 = brokers.start("b1", scopes="deployment.toml", join=("floor",), more=IDENTITY)
        ann = await connect(b1.address, "ann", token=issuing.token("ann", "trader"))
        async with await connect(b1.address, "root", token=issuing.token("root", "administrator")) as root:
            await root.administer("revoke", "ann", 1 << 50)
        assert "'ann' was revoked" in str(await ann.gone())
        await until(lambda: b1.status()["connections"]["ended"].get("not admitted") == 1)
        with pytest.raises(Closed, match="'ann' was revoked"):
            await connect(b1.address, "ann", token=issuing.token("ann", "trader"))

    asyncio.run(cut())
