"""What publishing policies hold back at one broker: with a disk that fails, without one, and when policies change."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cloud.broker.brokers import until
from cloud.broker.inside import server

from vicinal.event import Event
from vicinal_cloud.broker.client import connect
from vicinal_cloud.broker.config import load

DEPLOYMENT = """
[[scope]]
name = "town"
dimension = "place"

[[scope]]
name = "yard"
dimension = "place"
supers = ["town"]
output = "TRUE"
publishing = [{ POLICY }]
"""


def deploy(folder: Path, policy: str) -> None:
    (folder / "deployment.toml").write_text(DEPLOYMENT.replace("POLICY", policy))


class Scene:
    """Somebody in the yard who speaks, and somebody in the town who listens."""

    def __init__(self, running: Any) -> None:
        self.server = running
        self.heard: list[int] = []

    async def open(self) -> None:
        address = str(self.server.addresses[0])
        self.ear = await connect(address, "ear")
        self.mouth = await connect(address, "mouth")
        self.advert = await self.mouth.advertise("TRUE", {"place": "yard"})
        subscription = await self.ear.subscribe("subject = 'Noise'", {"place": "town"})
        self.task = asyncio.get_running_loop().create_task(self._listen(subscription))

    async def _listen(self, subscription: Any) -> None:
        async for delivery in subscription:
            self.heard.append(delivery.event["n"])

    async def say(self, *numbers: int, subject: str = "Noise") -> None:
        for number in numbers:
            await self.mouth.publish(Event(subject, {"n": number}), self.advert)

    @property
    def waiting(self) -> int:
        found: dict[str, Any] = self.server.status()["held"]
        return int(found["waiting"].get("yard", 0))

    async def close(self) -> None:
        self.task.cancel()
        await self.ear.close()
        await self.mouth.close()


WHAT: dict[str, Any] = {"join": ("town", "yard"), "scopes": "deployment.toml"}


@pytest.mark.parametrize("log", [True, False])
def test_until_a_condition_holds(tmp_path: Path, log: bool) -> None:
    async def work() -> None:
        deploy(tmp_path, "of = \"subject = 'Noise'\", until = \"subject = 'Open'\", closed_by = \"subject = 'Close'\"")
        async with server(tmp_path, log=log, **WHAT) as running:
            scene = Scene(running)
            await scene.open()
            await scene.say(1, 2, 3)
            await until(lambda: scene.waiting == 3, "all wait")
            assert scene.heard == []
            await scene.say(0, subject="Open")
            await until(lambda: scene.heard == [1, 2, 3], "the gate is open")
            await scene.say(4)
            await until(lambda: scene.heard == [1, 2, 3, 4], "and stays so")
            await scene.say(0, subject="Close")
            await scene.say(5)
            await until(lambda: scene.waiting == 1, "until it is closed")
            await scene.close()

    asyncio.run(work())


def test_what_the_disk_refuses_is_not_overtaken(tmp_path: Path) -> None:
    async def work() -> None:
        deploy(tmp_path, "until = \"subject = 'Open'\"")
        async with server(tmp_path, log=True, **WHAT) as running:
            scene = Scene(running)
            await scene.open()
            await scene.say(1, 2, 3)
            await until(lambda: scene.waiting == 3, "all wait")
            storage = running.node.storage
            submit, refused = storage.submit, []

            def failing(entries: Any) -> Any:
                if len(refused) < 2 and any(one.producer.startswith("@") for one in entries):
                    refused.append(len(entries))
                    done = asyncio.get_running_loop().create_future()
                    done.set_result(["the disk failed: on purpose"] * len(entries))
                    return done
                return submit(entries)

            storage.submit = failing
            await scene.say(0, subject="Open")
            await until(lambda: refused, "the disk has refused")
            await scene.say(4, 5)
            await until(lambda: len(scene.heard) >= 5, "all come in the end")
            assert scene.heard == [1, 2, 3, 4, 5]
            await scene.close()

    asyncio.run(work())


def test_other_policies(tmp_path: Path) -> None:
    """What waits goes on waiting under the policy that is there now, from when it came; without any it goes."""

    async def work() -> None:
        deploy(tmp_path, "delay = 3_600_000")
        async with server(tmp_path, log=True, **WHAT) as running:
            scene = Scene(running)
            await scene.open()
            await scene.say(1, 2)
            await until(lambda: scene.waiting == 2, "both wait")
            deploy(tmp_path, "delay = 7_200_000")
            running.reload(load(tmp_path / "b1.toml"))
            await until(lambda: scene.waiting == 2, "they wait on")
            assert scene.heard == []
            deploy(tmp_path, "delay = 1")
            running.reload(load(tmp_path / "b1.toml"))
            await until(lambda: scene.heard == [1, 2], "it was long ago")
            await scene.say(3)
            await until(lambda: scene.heard == [1, 2, 3], "and so with the next")
            await scene.close()

    asyncio.run(work())


def test_another_policy_at_the_next_start_lets_nothing_go_again(tmp_path: Path) -> None:
    async def work() -> None:
        deploy(tmp_path, "delay = 50")
        async with server(tmp_path, log=True, **WHAT) as running:
            scene = Scene(running)
            await scene.open()
            await scene.say(1, 2, 3)
            await until(lambda: scene.heard == [1, 2, 3], "all come")
            await scene.close()
        deploy(tmp_path, "delay = 60")
        async with server(tmp_path, log=True, **WHAT) as running:
            scene = Scene(running)
            await scene.open()
            await scene.say(4)
            await until(lambda: 4 in scene.heard, "the next comes")
            assert scene.heard == [4]
            await scene.close()

    asyncio.run(work())


def test_what_waited_when_it_ended_is_let_go_by_another_policy(tmp_path: Path) -> None:
    async def work() -> None:
        deploy(tmp_path, "of = \"subject = 'Noise'\", until = \"subject = 'Open'\"")
        async with server(tmp_path, log=True, **WHAT) as running:
            scene = Scene(running)
            await scene.open()
            await scene.say(1, 2)
            await until(lambda: scene.waiting == 2, "both wait")
            await scene.close()
        deploy(tmp_path, "delay = 6_000")
        async with server(tmp_path, log=True, **WHAT) as running:
            scene = Scene(running)
            await scene.open()
            await until(lambda: scene.heard == [1, 2], "both come")
            await scene.close()

    asyncio.run(work())
