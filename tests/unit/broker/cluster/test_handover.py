"""Controlled shutdown: `broker.cluster.handover`."""

import asyncio
from typing import TypeVar, cast

import pytest

from broker.cluster.controller_link import ControllerLink
from broker.cluster.handover import hand_over
from broker.cluster.metadata_cache import LiveBroker, MetadataCache
from broker.cluster.metadata_watch import MetadataWatch
from broker.config.server_keys import ServerKeys
from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from tests.unit.broker.metadata import set_brokers
from tests.waiting import until

R = TypeVar("R")
ME, OTHER = BrokerId(1), BrokerId(2)
DONE = ControlledShutdownResponse()
NOT_YET = ControlledShutdownResponse(
    remaining_partitions=[RemainingPartition(topic_name="t", partition_index=0)]
)
ELSEWHERE = ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER)


class World:
    """Two live brokers, and a controller with the given responses."""

    def __init__(self, *responses: ControlledShutdownResponse | OSError) -> None:
        self.responses = list(responses)
        self.requests: list[ControlledShutdownRequest] = []
        self.cache = MetadataCache()
        self.set_alive(ME, OTHER)
        self.watch = MetadataWatch(self.cache)
        self.is_silent = asyncio.Event()

    def set_alive(self, *brokers: BrokerId) -> None:
        live = [LiveBroker(broker_id=broker, endpoints={}) for broker in brokers]
        set_brokers(self.cache, live, OTHER)

    async def ask(self, message: object, response_type: type[R]) -> R:
        assert isinstance(message, ControlledShutdownRequest)
        self.requests.append(message)
        if not self.responses:
            # The controller waits for the coordinator.
            await asyncio.Event().wait()
        response = self.responses.pop(0)
        if isinstance(response, OSError):
            raise response
        assert isinstance(response, response_type)
        return response

    async def leave(self, backoff_ms: int = 1) -> bool:
        config = ServerKeys(controlled_shutdown_retry_backoff_ms=backoff_ms)
        controller = cast(ControllerLink, self)
        return await hand_over(ME, lambda: 7, controller, self.watch, config, self.is_silent.wait)


@pytest.mark.parametrize(
    ("responses", "has_handed_over"),
    [
        ([DONE], True),
        ([NOT_YET, ELSEWHERE, DONE], True),
        ([ControlledShutdownResponse(error_code=9999), DONE], True),
        ([OSError("no controller"), DONE], True),
        ([NOT_YET] * 3, False),
    ],
)
async def test_request_is_retried_up_to_the_limit(
    responses: list[ControlledShutdownResponse | OSError], has_handed_over: bool
) -> None:
    world = World(*responses)
    assert await world.leave() is has_handed_over
    assert (world.responses, world.requests[0].broker_epoch) == ([], 7)


async def test_last_broker_does_not_wait() -> None:
    world = World(NOT_YET)
    leaving = asyncio.create_task(world.leave(backoff_ms=600_000))
    for _ in range(5):
        await asyncio.sleep(0)
    world.set_alive(ME)
    assert await asyncio.wait_for(leaving, 10)
    assert len(world.requests) == 1


async def test_a_silent_coordinator_ends_the_request() -> None:
    world = World(NOT_YET)
    before = asyncio.all_tasks()
    leaving = asyncio.create_task(world.leave())
    await until(lambda: len(world.requests) == 2)
    world.is_silent.set()
    async with asyncio.timeout(10):
        assert not await leaving
    assert asyncio.all_tasks() - before <= {leaving}
