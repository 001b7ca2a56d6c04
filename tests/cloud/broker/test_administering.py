"""Administration at run time, and rights that end: live, waiting for credit, durable, read again; with real brokers."""

import asyncio
import json
import os
import signal
import subprocess
from typing import Any

import pytest
from cloud.broker.brokers import COMMAND, PATIENCE, Brokers, Process, balanced, free_port, until
from cloud.broker.inside import Peer, server
from cloud.broker.issuing import DEPLOYMENT, IDENTITY, Issuing
from cloud.broker.test_pubsub import speed, take

from vicinal.event import Event
from vicinal.scope.graph import Tags
from vicinal.siena.messages import CLIENT
from vicinal_cloud.broker.client import Client, Closed, Refused, connect
from vicinal_cloud.broker.config import ConfigError, load

spec = pytest.mark.spec
FLOOR = {"market": "floor"}
BOTH = ("floor", "hall")


@pytest.fixture
def issuing(brokers: Brokers) -> Issuing:
    found = Issuing(brokers.folder)
    found.deploy()
    return found


def start(brokers: Brokers, name: str = "b1", **more: Any) -> Process:
    return brokers.start(name, **({"scopes": "deployment.toml", "join": BOTH, "more": IDENTITY} | more))


async def admin(b1: Process, issuing: Issuing) -> Client:
    return await connect(b1.address, "root", token=issuing.token("root", "administrator"))


async def trader(b1: Process, issuing: Issuing, name: str = "ann") -> Client:
    return await connect(b1.address, name, token=issuing.token(name, "trader"))


async def engine(b1: Process, issuing: Issuing, name: str = "match") -> Client:
    return await connect(b1.address, name, token=issuing.token(name, "engine"))


def dropped(b1: Process) -> int:
    found = b1.status()["deliveries"]["dropped"]
    return int(found.get("no longer a member", 0))


@spec("OVER-42")
def test_who_may_administer(brokers: Brokers, issuing: Issuing) -> None:
    async def who() -> None:
        b1, b2 = start(brokers), brokers.start("b2", more='[identity]\ntokens = "issuer.pem"')
        for client, why in (
            (await trader(b1, issuing), "is no administrator: that takes role = 'administrator'"),
            (await connect(b1.address, "nobody"), "has not proven who it is"),
            (await admin(b2, issuing), "nobody may administer it"),
        ):
            for what in (("deny", "ann", "floor"), ("tell", "members"), ("deploy", ""), ("revoke", "ann", 1)):
                with pytest.raises(Refused, match=why):
                    await client.administer(*what)
            await client.close()
        assert b1.status()["deployment"]["statements"] == 0

    asyncio.run(who())


@spec("OVER-40", "OVER-43")
def test_deny_ends_what_was_begun_and_tells_so(brokers: Brokers, issuing: Issuing) -> None:
    """CVE-2021-34434: a subscription that survived the removal of its right."""

    async def deny() -> None:
        b1 = start(brokers)
        root, ann, match = await admin(b1, issuing), await trader(b1, issuing), await engine(b1, issuing)
        hears, other = await ann.subscribe("TRUE", FLOOR), await ann.subscribe("TRUE", {"market": "hall"})
        says = await match.advertise("TRUE", FLOOR)
        await match.publish(speed(1), says)
        assert (await take(hears, 1))[0].event["rate"] == 1
        await root.administer("deny", "ann", "floor")
        with pytest.raises(Refused, match="'ann' was denied 'floor'"):
            await anext(hears)
        await match.publish(speed(2), says)
        with pytest.raises(Refused, match="'ann' was denied 'floor'"):
            await ann.subscribe("TRUE", FLOOR)
        assert other.error is None
        await root.administer("approve", "ann", "floor", ("subscribe",), None)
        again = await ann.subscribe("TRUE", FLOOR)
        await match.publish(speed(3), says)
        assert (await take(again, 1))[0].event["rate"] == 3
        await root.administer("deny", "match", "floor")
        await until(lambda: says.error is not None)
        for wrong, why in (
            (("deny", "ann", "flor"), "there is no scope 'flor'"),
            (("join", "b7", "floor"), "no broker 'b7' is known at 'b1'"),
            (("tell", "secrets"), "'secrets' is nothing to be told"),
        ):
            with pytest.raises(Refused, match=why):
                await root.administer(*wrong)
        await asyncio.gather(root.close(), ann.close(), match.close())
        assert balanced(b1.status())

    asyncio.run(deny())


@spec("OVER-37", "OVER-41")
def test_nothing_that_waits_for_credit_is_delivered_after_the_right(brokers: Brokers, issuing: Issuing) -> None:
    """Who is denied, who is revoked, who hears everything, and whose producer is denied or revoked."""

    async def starved() -> None:
        async with server(brokers.folder, scopes="deployment.toml", join=BOTH, more=IDENTITY) as one:
            ports = str(one.addresses[0])
            root = await connect(ports, "root", token=issuing.token("root", "administrator"))
            peers = {}
            for name, role, tags in (
                ("denied", "trader", Tags(FLOOR)), ("revoked", "trader", Tags(FLOOR)), ("top", "trader", Tags()),
                ("stays", "trader", Tags()),
            ):  # fmt: skip
                peer = Peer(*await asyncio.open_connection(one.addresses[0].host, one.addresses[0].port))
                peer.say(("hello", 1, CLIENT, name, issuing.token(name, role)))
                await peer.next("welcome")
                await peer.ask("subscribe", 1, "TRUE", tags, None, None)
                peers[name] = peer
            match = await connect(ports, "match", token=issuing.token("match", "engine"))
            other = await connect(ports, "other", token=issuing.token("other", "engine"))
            guest = await connect(ports, "guest")
            floor, second = await match.advertise("TRUE", FLOOR), await other.advertise("TRUE", FLOOR)
            open_to_all = await guest.advertise("TRUE")
            for rate in range(10):
                await match.publish(speed(rate), floor)
            await other.publish(speed(100), second)
            await guest.publish(speed(200), open_to_all)
            node = one.node
            await until(lambda: sum(link.undelivered for link in node.links) == 11 * 4 + 2)
            await root.administer("deny", "denied", "floor")
            await root.administer("deny", "top", "floor")
            await root.administer("revoke", "revoked", node.now() + 1)
            await root.administer("deny", "other", "floor")
            assert (await peers["revoked"].next("bye"))[1:] == (3, "'revoked' was revoked")
            assert (await peers["denied"].next("ended"))[1:] == (1, "'denied' was denied 'floor'")
            waiting = {session.name: session.link.undelivered for session in node.sessions.values()}
            assert (waiting["denied"], waiting["top"], waiting["stays"]) == (0, 1, 11)
            for name in ("denied", "top", "stays"):
                peers[name].say(("credit", 100))
            assert (await peers["top"].next("deliver"))[2]["rate"] == 200
            got = [(await peers["stays"].next("deliver"))[2]["rate"] for _ in range(11)]
            assert got == [*range(10), 200]
            assert node.counters.dropped["no longer a member"] == 11 + 11 + 1
            await until(lambda: balanced(one.status()))
            for client in (root, match, other, guest):
                await client.close()
            for peer in peers.values():
                peer.writer.close()

    asyncio.run(starved())


@spec("OVER-41")
def test_who_does_not_read_what_it_may_no_longer_have_is_cut(brokers: Brokers, issuing: Issuing) -> None:
    """What is with the socket cannot be taken back."""

    async def unread() -> None:
        async with server(brokers.folder, scopes="deployment.toml", join=BOTH, more=IDENTITY) as one:
            where = one.addresses[0]
            peer = Peer(*await asyncio.open_connection(where.host, where.port, limit=1 << 10))
            peer.say(("hello", 1, CLIENT, "ann", issuing.token("ann", "trader")), ("credit", 1000))
            peer.say(("subscribe", 1, "TRUE", Tags(FLOOR), None, None))
            await until(lambda: "ann" in one.node.sessions and one.node.sessions["ann"].subscriptions)
            match = await connect(str(where), "match", token=issuing.token("match", "engine"))
            root = await connect(str(where), "root", token=issuing.token("root", "administrator"))
            says = await match.advertise("TRUE", FLOOR)
            for _ in range(110):  # 6.6 MB: more than sockets hold, less than a slow client is cut for
                await match.publish(Event("Picture", {"data": bytes(60_000)}), says)
            link = one.node.sessions["ann"].link
            await until(lambda: link.batches)
            await root.administer("deny", "ann", "floor")
            await until(lambda: link not in one.node.links)
            assert link.connection.closed
            assert one.node.counters.cut["too slow"] == 1
            assert balanced(one.status())
            peer.writer.close()
            await asyncio.gather(match.close(), root.close())

    asyncio.run(unread())


@spec("OVER-40", "OVER-41")
def test_durable_subscriptions_end_with_what_is_stored(brokers: Brokers, issuing: Issuing) -> None:
    """And what a revoked publisher left in the queue of another (CVE-2018-12546) stays there."""

    async def durable() -> None:
        port = free_port()
        listen = f"tcp://127.0.0.1:{port}"
        b1 = start(brokers, log=True, listen=listen)
        root, match, other = await admin(b1, issuing), await engine(b1, issuing), await engine(b1, issuing, "other")
        for name in ("ann", "bob"):
            async with await trader(b1, issuing, name) as client:
                await client.subscribe("TRUE", FLOOR, durable="d")
                await client.subscribe("TRUE", durable="all")
        says, theirs = await match.advertise("TRUE", FLOOR), await other.advertise("TRUE", FLOOR)
        await match.publish(speed(1), says)
        await other.publish(speed(2), theirs)
        await until(lambda: b1.status()["deliveries"]["stored"] == 8)
        stored = json.loads((brokers.folder / "b1.log" / "durable.json").read_text())
        assert {(one[0], one[6][0], one[6][1]["role"]) for one in stored} == {
            ("ann", "ann", "trader"), ("bob", "bob", "trader"),
        }  # fmt: skip
        await root.administer("deny", "ann", "floor")
        await root.administer("revoke", "other", 1 << 50)
        assert dropped(b1) == 2  # what was stored for ann in the floor
        assert "was revoked" in str(await other.gone())
        async with await trader(b1, issuing) as ann:
            everything = await ann.subscribe("TRUE", durable="all")
            with pytest.raises(Refused, match="'ann' was denied 'floor'"):
                await ann.subscribe("TRUE", FLOOR, durable="d")
            await until(lambda: dropped(b1) == 4)
            assert everything.unread == 0
        async with await trader(b1, issuing, "bob") as bob:
            found = await bob.subscribe("TRUE", FLOOR, durable="d")
            assert [one.event["rate"] for one in await take(found, 1)] == [1]
            await until(lambda: dropped(b1) == 5)
        # A restart forgets none of it.
        await asyncio.gather(root.close(), match.close(), other.close())
        assert balanced(b1.status())
        b1.kill()
        b1 = start(brokers, log=True, listen=listen)
        with pytest.raises(Closed, match="'other' was revoked"):
            await engine(b1, issuing, "other")
        async with await trader(b1, issuing) as ann, await trader(b1, issuing, "bob") as bob:
            with pytest.raises(Refused, match="'ann' was denied 'floor'"):
                await ann.subscribe("TRUE", FLOOR, durable="d")
            found = await bob.subscribe("TRUE", FLOOR, durable="d", offset=0)
            assert [one.event["rate"] for one in await take(found, 1)] == [1]
            async with await connect(b1.address, "bob~2") as unproven:
                with pytest.raises(Refused, match="may not subscribe"):
                    await unproven.subscribe("TRUE", FLOOR, durable="d")
        await asyncio.sleep(0)

    asyncio.run(durable())


def test_a_durable_subscription_is_not_had_by_who_only_says_the_name(brokers: Brokers, issuing: Issuing) -> None:
    async def theft() -> None:
        b1 = start(brokers, log=True)
        async with await trader(b1, issuing) as ann:
            await ann.subscribe("TRUE", durable="d")
        async with await connect(b1.address, "ann") as thief:
            with pytest.raises(Refused, match="of somebody who has proven to be 'ann'"):
                await thief.subscribe("TRUE", durable="d")

    asyncio.run(theft())


@spec("OVER-40", "OVER-41")
def test_what_comes_again_from_the_log_is_asked_anew(brokers: Brokers, issuing: Issuing) -> None:
    """A broker with a durable subscriber was down: what a producer published before it was revoked does not reach
    it."""

    async def replayed() -> None:
        port = free_port()
        b1 = start(brokers, neighbours={"b2": None}, log=True)
        there = {"neighbours": {"b1": b1.address}, "log": True, "listen": f"tcp://127.0.0.1:{port}"}
        b2 = start(brokers, "b2", **there)
        async with await trader(b2, issuing) as ann:
            await ann.subscribe("TRUE", FLOOR, durable="d")
        match, other = await engine(b1, issuing), await engine(b1, issuing, "other")
        says, theirs = await match.advertise("TRUE", FLOOR), await other.advertise("TRUE", FLOOR)
        await until(lambda: b1.status()["overlay"]["interest"] == 1)
        await until(lambda: "b1" in b2.status()["log"]["cursors"])
        b2.kill()
        await until(lambda: not b1.status()["neighbours"][0]["up"])
        await other.publish(speed(1), theirs)
        await match.publish(speed(2), says)
        await other.close()  # only its name is left
        async with await admin(b1, issuing) as root:
            await root.administer("revoke", "other", 1 << 50)
        b2 = start(brokers, "b2", **there)
        async with await trader(b2, issuing) as ann:
            found = await ann.subscribe("TRUE", FLOOR, durable="d")
            assert [one.event["rate"] for one in await take(found, 1)] == [2]
        assert b1.status()["overlay"]["engine"]["dropped: no longer a member"] >= 1
        with pytest.raises(Closed, match="was revoked"):
            await engine(b2, issuing, "other")
        await match.close()

    asyncio.run(replayed())


@spec("OVER-44", "SCOPE-36")
def test_a_revocation_during_a_partition(brokers: Brokers, issuing: Issuing) -> None:
    async def parted() -> None:
        ports = [free_port(), free_port()]
        where = [f"tcp://127.0.0.1:{port}" for port in ports]
        b1 = start(brokers, listen=where[0], log=True, neighbours={"b2": where[1]})
        b2 = start(brokers, "b2", listen=where[1], neighbours={"b1": None})
        await until(lambda: b1.status()["neighbours"][0]["up"])
        ann = await trader(b2, issuing)
        hears = await ann.subscribe("TRUE", FLOOR)
        os.kill(b2.process.pid, signal.SIGSTOP)  # deaf for a while
        async with await admin(b1, issuing) as root:
            await root.administer("revoke", "ann", 1 << 50)
        b1.kill()
        os.kill(b2.process.pid, signal.SIGCONT)
        b1 = start(brokers, listen=where[0], log=True, neighbours={"b2": where[1]})
        with pytest.raises((Closed, Refused), match="'ann' was revoked"):
            await anext(hears)
        assert "not admitted: 'ann' was revoked" in str(await ann.gone())
        assert b2.status()["deployment"]["statements"] == 1

    asyncio.run(parted())


# Deployments

OTHER = DEPLOYMENT.replace('"hall"', '"court"')
BROKEN = '[[scope]]\nname = "floor"\ndimension = "market"\nsupers = ["x"]\noutput = "rate >"\n[[component]]\nname = 7\n'


@spec("OVER-43", "OVER-46", "SCOPE-38")
def test_a_deployment_at_run_time(brokers: Brokers, issuing: Issuing) -> None:
    async def deployed() -> None:
        b1 = start(brokers, log=True, neighbours={"b2": None})
        b2 = start(brokers, "b2", neighbours={"b1": b1.address})
        await until(lambda: b1.status()["neighbours"][0]["up"])
        root, ann = await admin(b1, issuing), await connect(b2.address, "ann")
        hall = await ann.subscribe("TRUE", {"market": "hall"})
        with pytest.raises(Refused) as caught:
            await root.administer("deploy", BROKEN)
        for why in ("supers has 'x'", "output is 'rate >'", "name is 7"):
            assert why in str(caught.value)
        assert b1.status()["scopes"] == ["floor", "hall"]
        await root.administer("deploy", OTHER)
        with pytest.raises(Closed, match="the scopes have changed"):
            await anext(hall)
        for one in (b1, b2):
            await until(lambda one=one: one.status()["deployment"]["source"] == "administrator at b1")
            assert one.status()["scopes"] == ["floor"]
        await root.administer("join", "b2", "court")
        await until(lambda: b2.status()["scopes"] == ["court", "floor"])
        async with await connect(b2.address, "bob") as bob:
            await bob.subscribe("TRUE", {"market": "court"})
        await root.administer("leave", "b2", "court")
        await until(lambda: b2.status()["scopes"] == ["floor"])
        # A file that is changed after it counts, at that broker.
        os.utime(brokers.folder / "deployment.toml")
        await until(lambda: b1.status()["deployment"]["source"].endswith("deployment.toml"))
        assert b1.status()["scopes"] == ["floor", "hall"]
        await root.close()

    asyncio.run(deployed())


@spec("SCOPE-38")
def test_a_changed_file_counts_by_itself_and_a_broken_one_changes_nothing(brokers: Brokers, issuing: Issuing) -> None:
    async def changed() -> None:
        b1 = start(brokers)
        ann = await trader(b1, issuing)
        hears = await ann.subscribe("TRUE", FLOOR)
        issuing.deploy(BROKEN)
        found = await until(lambda: b1.status()["deployment"]["problems"])
        assert len(found) == 3
        assert hears.error is None
        assert b1.status()["scopes"] == ["floor", "hall"]
        issuing.deploy(DEPLOYMENT.replace("role = 'trader' OR ", ""))
        with pytest.raises(Refused, match="'ann' may not subscribe in 'floor': its rule for join is role = 'engine'"):
            await anext(hears)
        assert b1.status()["deployment"]["problems"] == []
        await ann.close()
        _, said = b1.terminate()
        assert "scopes stay as they were" in said
        assert "output is 'rate >'" in said

    asyncio.run(changed())


def test_a_file_that_is_not_watched_is_read_when_it_is_told(brokers: Brokers, issuing: Issuing) -> None:
    async def told() -> None:
        b1 = start(brokers, scopes="", join=(), more=IDENTITY)
        file = brokers.folder / "b1.toml"
        text = file.read_text().replace(
            'name = "b1"\njoin = []', 'name = "b1"\nscopes = "deployment.toml"\njoin = ["floor"]'
        )
        file.write_text(text.replace("[[listen]]", "watch = false\n[[listen]]", 1))
        os.kill(b1.process.pid, signal.SIGHUP)
        await until(lambda: b1.status()["scopes"] == ["floor"])
        issuing.deploy(OTHER.replace('"floor"', '"cellar"'))
        await asyncio.sleep(2.5)  # it would have been seen by now
        assert b1.status()["scopes"] == ["floor"]

    asyncio.run(told())


def test_scopes_in_two_places_and_in_none(brokers: Brokers, issuing: Issuing) -> None:
    with pytest.raises(ConfigError, match=r"\[broker\] scopes is .*deployment.toml', and there is \[\[scope\]\]"):
        load(brokers.write("b1", scopes="deployment.toml", more='[[scope]]\nname = "a"\ndimension = "d"'))
    with pytest.raises(ConfigError, match=r"\[broker\] join has 'x', which is no \[\[scope\]\] of .*deployment.toml"):
        load(brokers.write("b1", scopes="deployment.toml", join=("x",)))
    with pytest.raises(ConfigError, match=r"\[broker\] scopes is .*nowhere.toml: No such file"):
        load(brokers.write("b1", scopes="nowhere.toml"))
    issuing.deploy(BROKEN)
    with pytest.raises(ConfigError) as caught:
        load(brokers.write("b1", scopes="deployment.toml"))
    assert len(str(caught.value).splitlines()) == 3


# Components


@spec("OVER-38")
def test_components_of_the_deployment(brokers: Brokers, issuing: Issuing) -> None:
    declared = DEPLOYMENT + (
        '[[component]]\nname = "match"\nscopes = ["floor"]\npublishes = "subject = \'Speed\'"\n'
        'identity = { role = "engine" }\n'
        '[[component]]\nname = "ann"\nscopes = ["floor"]\nsubscribes = "rate > 5"\n'
    )
    issuing.deploy(declared)

    async def components() -> None:
        b1 = start(brokers)
        match = await connect(b1.address, "match", token=issuing.token("match"))  # its role is declared
        ann = await trader(b1, issuing)
        hears, says = await ann.subscribe("TRUE"), await match.advertise("TRUE")
        with pytest.raises(Refused, match="component 'ann' is not in 'hall': its scopes are floor"):
            await ann.subscribe("TRUE", {"market": "hall"})
        with pytest.raises(Refused, match="component 'ann' is declared to publish nothing"):
            await ann.advertise("TRUE")
        async with await connect(b1.address, "guest") as guest:
            everything = await guest.subscribe("TRUE")
            for rate in (3, 7):
                await match.publish(speed(rate), says)
            assert [one.event["rate"] for one in await take(hears, 1)] == [7]
            assert everything.unread == 0
        issuing.deploy(declared.replace("rate > 5", "rate > 1"))
        await until(lambda: ann.connections == 2)
        await until(lambda: b1.status()["overlay"]["subscriptions"] == 1)
        await match.publish(speed(2), says)
        assert [one.event["rate"] for one in await take(hears, 1)] == [2]
        await asyncio.gather(match.close(), ann.close())

    asyncio.run(components())


# Commands


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@spec("OVER-47")
def test_the_commands(brokers: Brokers, issuing: Issuing) -> None:
    b1 = start(brokers)
    who = ("--token-file", issuing.file("root", "administrator"))

    async def commands() -> None:
        ann, match = await trader(b1, issuing), await engine(b1, issuing)
        await ann.subscribe("rate > 5", FLOOR)
        await match.advertise("subject = 'Speed'", FLOOR)

        async def say(*what: str) -> "subprocess.CompletedProcess[str]":
            return await asyncio.to_thread(run, "scope", *what)

        pair = ("--from", "match", "--to", "ann")
        event = '{"subject": "Speed", "params": {"rate": 7}}'
        done = await say("explain", b1.address, *pair, "--event", event, *who)
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, "yes: ann hears it")
        assert "ann subscribes to rate > 5 in market=floor" in done.stdout
        done = await say("explain", b1.address, *pair, "--event", event.replace("7", "3"), *who)
        assert (done.returncode, done.stdout[:3]) == (1, "no:")
        done = await say("approve", b1.address, "bob", "floor", "--action", "subscribe", "--for", "8h", *who)
        assert (done.returncode, done.stdout[:33]) == (0, "bob may subscribe in floor, until")
        assert (await say("deny", b1.address, "ann", "hall", *who)).stdout == "ann is denied hall\n"
        assert (await say("revoke", b1.address, "eve", *who)).returncode == 0
        done = await say("members", b1.address, *who)
        for line in (
            "ann: role=trader",
            "  subscribes to rate > 5 in market=floor",
            "denied: ann in hall",
            "approved: bob in floor, to subscribe, join, until",
            "revoked: eve, what was issued before",
        ):
            assert line in done.stdout
        assert json.loads((await say("members", b1.address, "--json", *who)).stdout)["broker"] == "b1"
        await say("deny", b1.address, "ann", "floor", *who)
        done = await say("explain", b1.address, *pair, *who)
        assert done.returncode == 1
        assert "ann subscribes to nothing" in done.stdout
        file = issuing.folder / "new.toml"
        file.write_text(BROKEN)
        done = await say("apply", b1.address, str(file), *who)
        assert done.returncode == 2
        assert "supers has 'x'" in done.stderr
        assert "output is 'rate >'" in done.stderr
        file.write_text(OTHER)
        assert (await say("apply", b1.address, str(file), *who)).returncode == 0
        assert (await say("join", b1.address, "b1", "court", *who)).returncode == 0
        assert (await say("leave", b1.address, "b1", "court", *who)).returncode == 0
        for wrong, why in (
            (("deny", b1.address, "ann", "floor"), "has not proven who it is"),
            (("deny", b1.address, "ann", "flor", *who), "there is no scope 'flor'"),
            (("apply", b1.address, "nowhere.toml", *who), "nowhere.toml: No such file"),
            (("approve", b1.address, "ann", "floor", "--for", "long", *who), "want a number and a unit"),
            (("explain", b1.address, "--from", "mach", "--to", "ann", *who), "is 'match' meant?"),
            (("explain", b1.address, "--from", "ann", "--to", "ann", *who), "nobody hears itself"),
        ):
            done = await say(*wrong)
            assert done.returncode == 2, done
            assert why in done.stderr
        await asyncio.gather(ann.close(), match.close())

    asyncio.run(commands())


def test_explain_of_several_connections_and_of_what_has_not_begun(brokers: Brokers, issuing: Issuing) -> None:
    """Somebody is all its connections; and a component may publish more than it has advertised until now."""
    issuing.deploy(DEPLOYMENT + COMPONENT)
    b1 = start(brokers)
    who = ("--token-file", issuing.file("root", "administrator"))

    async def several() -> None:
        token = issuing.token("match", "engine")
        first, second = [await connect(b1.address, name, token=token) for name in ("match", "match~1")]
        ann = await connect(b1.address, "ann~x", token=issuing.token("ann", "trader"))
        await first.advertise("subject = 'Other'")
        await second.advertise("subject = 'Speed'")
        await ann.subscribe("TRUE", FLOOR)
        for subject, code, said in (
            ("Speed", 0, "match~1 publishes subject = 'Speed' in market=floor"),
            ("Late", 0, "match is declared to publish subject IN ('Speed', 'Other', 'Late'), and has not begun with"),
            ("Never", 1, "and this is not of it"),
        ):
            event = json.dumps({"subject": subject})
            what = ("scope", "explain", b1.address, "--from", "match", "--to", "ann", "--event", event, *who)
            done = await asyncio.to_thread(run, *what)
            assert done.returncode == code, done
            assert said in done.stdout
        await asyncio.gather(*[client.close() for client in (first, second, ann)])

    asyncio.run(several())


COMPONENT = """
[[component]]
name = "match"
scopes = ["floor"]
publishes = "subject IN ('Speed', 'Other', 'Late')"
"""
