"""Being relieved before the stop: `broker.cluster.controlled_shutdown`."""

import asyncio
from typing import TypeVar, cast

import pytest

from broker.cluster.controlled_shutdown import hand_over
from broker.cluster.controller_link import ControllerLink
from broker.cluster.metadata_cache import LiveBroker, MetadataCache
from broker.cluster.metadata_watch import MetadataWatch
from broker.config import BrokerConfig
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from tests.unit.broker.metadata import set_brokers

R = TypeVar("R")
ME, OTHER = BrokerId(1), BrokerId(2)
DONE = ControlledShutdownResponse()
NOT_YET = ControlledShutdownResponse(
    remaining_partitions=[RemainingPartition(topic_name="t", partition_index=0)]
)
ELSEWHERE = ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER)


class World:
    """Two live brokers, and a controller that answers as it is told."""

    def __init__(self, *answers: ControlledShutdownResponse | OSError) -> None:
        self.answers = list(answers)
        self.asked: list[ControlledShutdownRequest] = []
        self.cache = MetadataCache()
        self.set_alive(ME, OTHER)
        self.watch = MetadataWatch(self.cache)

    def set_alive(self, *brokers: BrokerId) -> None:
        live = [LiveBroker(broker_id=broker, endpoints={}) for broker in brokers]
        set_brokers(self.cache, live, OTHER)

    async def ask(self, message: object, response_type: type[R]) -> R:
        assert isinstance(message, ControlledShutdownRequest)
        self.asked.append(message)
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        assert isinstance(answer, response_type)
        return answer

    async def leave(self, backoff_ms: int = 1) -> bool:
        config = BrokerConfig(controlled_shutdown_retry_backoff_ms=backoff_ms)
        controller = cast(ControllerLink, self)
        return await hand_over(ME, lambda: 7, controller, self.watch, config)


@pytest.mark.parametrize(
    ("answers", "is_relieved"),
    [
        ([DONE], True),
        ([NOT_YET, ELSEWHERE, DONE], True),
        ([OSError("no controller"), DONE], True),
        ([NOT_YET] * 3, False),
    ],
)
async def test_it_asks_as_often_as_it_may(
    answers: list[ControlledShutdownResponse | OSError], is_relieved: bool
) -> None:
    world = World(*answers)
    assert await world.leave() is is_relieved
    assert (world.answers, world.asked[0].broker_epoch) == ([], 7)


async def test_the_last_broker_waits_for_nobody() -> None:
    world = World(NOT_YET)
    leaving = asyncio.create_task(world.leave(backoff_ms=600_000))
    for _ in range(5):
        await asyncio.sleep(0)
    world.set_alive(ME)
    assert await asyncio.wait_for(leaving, 10)
    assert len(world.asked) == 1
