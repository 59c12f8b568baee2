"""Ids for idempotent producers: `broker.cluster.producer_ids`."""

import asyncio
from typing import TypeVar, cast

import pytest
import structlog

from broker.cluster import producer_ids
from broker.cluster.controller_link import ControllerLink
from broker.cluster.producer_ids import ProducerIds
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import BrokerId
from kafkawire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

R = TypeVar("R")


class FakeController:
    """Allocates blocks of ten, after the given failures and invalid blocks."""

    def __init__(self, *failures: OSError | ErrorCode | tuple[int, int]) -> None:
        self.failures = list(failures)
        self.requests: list[AllocateProducerIdsRequest] = []
        self.may_respond = asyncio.Event()
        self.may_respond.set()
        self._next = 0

    async def ask(self, message: object, response_type: type[R]) -> R:
        assert isinstance(message, AllocateProducerIdsRequest)
        self.requests.append(message)
        await self.may_respond.wait()
        response = self._response()
        assert isinstance(response, response_type)
        return response

    def _response(self) -> AllocateProducerIdsResponse:
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, OSError):
                raise failure
            if isinstance(failure, tuple):
                first, count = failure
                return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=count)
            return AllocateProducerIdsResponse(error_code=failure)
        first, self._next = self._next, self._next + 10
        return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=10)

    async def close(self) -> None:
        return None


def ids_of(controller: FakeController) -> ProducerIds:
    return ProducerIds(BrokerId(3), lambda: 7, cast(ControllerLink, controller))


async def test_ids_are_never_allocated_twice() -> None:
    controller = FakeController()
    ids = ids_of(controller)
    given = [await ids.allocate() for _ in range(35)]
    assert given == list(range(35))
    assert (controller.requests[0].broker_id, controller.requests[0].broker_epoch) == (3, 7)
    await ids.stop()


async def test_next_block_is_requested_before_it_is_needed() -> None:
    controller = FakeController()
    ids = ids_of(controller)
    for _ in range(8):
        await ids.allocate()
    assert len(controller.requests) == 1
    await ids.allocate()
    await asyncio.sleep(0)
    assert len(controller.requests) == 2
    await ids.stop()


async def test_first_block_is_requested_at_start() -> None:
    controller = FakeController()
    ids = ids_of(controller)
    ids.start()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    controller.may_respond.clear()
    assert await ids.allocate() == 0
    await ids.stop()


async def test_repeated_failure_is_logged_once() -> None:
    controller = FakeController(*[OSError("no controller")] * 3, ErrorCode.NOT_CONTROLLER)
    with structlog.testing.capture_logs() as logs:
        ids = ids_of(controller)
        assert await ids.allocate() == 0
        await ids.stop()
    logged = [each["error"] for each in logs if each["event"] == "producer_ids.not_allocated"]
    assert logged == ["no controller", "NOT_CONTROLLER"]


async def test_concurrent_producers_get_different_ids() -> None:
    controller = FakeController()
    controller.may_respond.clear()
    ids = ids_of(controller)
    waiting = [asyncio.create_task(ids.allocate()) for _ in range(3)]
    await asyncio.sleep(0)
    controller.may_respond.set()
    assert sorted(await asyncio.gather(*waiting)) == [0, 1, 2]
    await ids.stop()


async def test_request_for_a_block_is_retried_until_it_succeeds() -> None:
    controller = FakeController(OSError("no controller"), ErrorCode.NOT_CONTROLLER)
    ids = ids_of(controller)
    assert await ids.allocate() == 0
    await ids.stop()


async def test_producer_without_an_id_gets_a_retriable_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_ids, "MAX_WAIT_S", 0.01)
    controller = FakeController()
    controller.may_respond.clear()
    ids = ids_of(controller)
    with pytest.raises(ApiError) as caught:
        await ids.allocate()
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await ids.stop()


@pytest.mark.parametrize(
    ("first", "count", "reason"),
    [
        (10, 0, "is empty"),
        (10, -5, "is empty"),
        (-5, 10, "begins below 10"),
        (9, 10, "begins below 10"),
        (0, 10, "begins below 10"),
        (2**63 - 5, 6, f"ends above {2**63 - 1}"),
    ],
)
async def test_an_invalid_block_is_refused_and_requested_again(
    first: int, count: int, reason: str
) -> None:
    controller = FakeController()
    ids = ids_of(controller)
    given = [await ids.allocate()]
    controller.failures = [(first, count)] * 2
    with structlog.testing.capture_logs() as logs:
        given += [await ids.allocate() for _ in range(19)]
        await ids.stop()
    assert given == list(range(20))
    refused = [each["error"] for each in logs if each["event"] == "producer_ids.not_allocated"]
    assert refused == [f"the block of {count} ids from {first} {reason}"]


async def test_the_last_possible_ids_are_used() -> None:
    controller = FakeController((2**63 - 2, 2))
    ids = ids_of(controller)
    assert [await ids.allocate() for _ in range(2)] == [2**63 - 2, 2**63 - 1]
    await ids.stop()
