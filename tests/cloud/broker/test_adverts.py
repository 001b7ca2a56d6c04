"""What producers advertise at one broker, to the limit: neighbours can still read it."""

import asyncio

import pytest
from cloud.broker.brokers import Brokers, until
from cloud.broker.test_pubsub import arrives

from vicinal_cloud.broker.client import Client, Refused, connect


async def advertise(client: Client, texts: list[str]) -> None:
    for text in texts:
        await client.advertise(text)


def test_a_full_record_does_not_cut_a_broker_off(brokers: Brokers) -> None:
    async def full() -> None:
        b2 = brokers.start("b2", {"b1": None})
        b1 = brokers.start("b1", {"b2": b2.address})
        await until(lambda: len(b1.status()["overlay"]["brokers"]) == 2)
        async with await connect(b1.address, "car") as car, await connect(b2.address, "office") as office:
            texts = [f"plate = '{number}{'x' * 4000}'" for number in range(250)]
            with pytest.raises(Refused, match="advertised here, the limit is"):
                await advertise(car, texts)
            assert b1.status()["clients"][0]["advertisements"] > 150
            for _ in range(100):
                await car.advertise(texts[0])  # what is there already takes no room
            speeds = await car.advertise("subject = 'Speed'")
            everything = await office.subscribe("TRUE")
            await arrives(car, speeds, everything, 1)
            assert b1.status()["connections"]["ended"] == b2.status()["connections"]["ended"] == {}

    asyncio.run(full())
