"""Random seeded faults neither change the order of records nor lose acknowledged ones."""

import asyncio
import random

import pytest

from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from ottla import Producer
from ottla.client.errors import OttlaError
from tests.integration.client.client_support import FAST
from tests.integration.client.fake_broker import FakeCluster
from tests.integration.client.fake_fault import Fault, Garbage, HangUp, LoseResponse, Refuse

RECORDS = 400
PARTITIONS = 3

FAULTS: list[Fault] = [
    Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    Refuse(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    Refuse(ErrorCode.KAFKA_STORAGE_ERROR),
    Refuse(ErrorCode.MESSAGE_TOO_LARGE),
    HangUp(),
    LoseResponse(),
    Garbage(b"\0\0\0\x01garbage"),
]


@pytest.mark.parametrize("is_idempotent", [True, False])
@pytest.mark.fresh_seeds(8)
async def test_order_and_acknowledged_records_survive_random_faults(
    pair: FakeCluster, seed: int, is_idempotent: bool
) -> None:
    dice = random.Random(seed)
    logs = pair.create("t", [dice.randrange(2) for _ in range(PARTITIONS)])
    pair.script(ApiKey.PRODUCE, *dice.choices(FAULTS, k=12))
    paddings = [b" " * size for size in dice.choice([(0,), (0, 0, 0, 0, 40, 900)])]
    async with Producer(
        pair.bootstrap,
        batch_size_bytes=dice.choice([60, 200, 2_000]),
        linger_ms=dice.choice([0, 2]),
        compression=dice.choice([None, "lz4"]),
        enable_idempotence=is_idempotent,
        **FAST,
    ) as producer:
        pair.script(ApiKey.METADATA, HangUp(), LoseResponse())
        deliveries = []
        for number in range(RECORDS):
            partition = number % PARTITIONS
            value = b"%d" % number + dice.choice(paddings)
            deliveries.append(await producer.send("t", value, partition=partition))
            if dice.random() < 0.02:
                logs[dice.randrange(PARTITIONS)].move_to(dice.randrange(2))
            if dice.random() < 0.01:
                pair.brokers[dice.randrange(2)].cut()
        async with asyncio.timeout(60):
            await asyncio.wait(deliveries)
    refused = {
        number
        for number, delivery in enumerate(deliveries)
        if isinstance(delivery.exception(), OttlaError)
    }
    for partition, log in enumerate(logs):
        values = [int(value or b"-1") for value in log.values()]
        # Without idempotence a whole batch may be duplicated, but records stay in order.
        first_seen = list(dict.fromkeys(values))
        assert first_seen == sorted(first_seen)
        assert not is_idempotent or first_seen == values
        wanted = set(range(partition, RECORDS, PARTITIONS)) - refused
        assert wanted <= set(values), f"lost: {sorted(wanted - set(values))}"
    assert len(pair.seen(ApiKey.PRODUCE)) > 12, "not every fault occurred"
