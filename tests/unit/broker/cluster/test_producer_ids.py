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
    """Gives out blocks of ten, after what the test says goes wrong before."""

    def __init__(self, *troubles: OSError | ErrorCode) -> None:
        self.troubles = list(troubles)
        self.asked: list[AllocateProducerIdsRequest] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._next = 0

    async def ask(self, message: object, response_type: type[R]) -> R:
        assert isinstance(message, AllocateProducerIdsRequest)
        self.asked.append(message)
        await self.may_answer.wait()
        answer = self._answer()
        assert isinstance(answer, response_type)
        return answer

    def _answer(self) -> AllocateProducerIdsResponse:
        if self.troubles:
            trouble = self.troubles.pop(0)
            if isinstance(trouble, OSError):
                raise trouble
            return AllocateProducerIdsResponse(error_code=trouble)
        first, self._next = self._next, self._next + 10
        return AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=10)

    async def close(self) -> None:
        return None


def ids_of(controller: FakeController) -> ProducerIds:
    return ProducerIds(BrokerId(3), lambda: 7, cast(ControllerLink, controller))


async def test_ids_are_never_given_twice() -> None:
    controller = FakeController()
    ids = ids_of(controller)
    given = [await ids.allocate() for _ in range(35)]
    assert given == list(range(35))
    assert (controller.asked[0].broker_id, controller.asked[0].broker_epoch) == (3, 7)
    await ids.stop()


async def test_the_next_block_is_asked_for_before_it_is_needed() -> None:
    controller = FakeController()
    ids = ids_of(controller)
    for _ in range(8):
        await ids.allocate()
    assert len(controller.asked) == 1
    await ids.allocate()
    await asyncio.sleep(0)
    assert len(controller.asked) == 2
    await ids.stop()


async def test_a_block_is_there_before_the_first_producer() -> None:
    controller = FakeController()
    ids = ids_of(controller)
    ids.start()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    controller.may_answer.clear()
    assert await ids.allocate() == 0
    await ids.stop()


async def test_a_trouble_that_lasts_is_told_once() -> None:
    controller = FakeController(*[OSError("no controller")] * 3, ErrorCode.NOT_CONTROLLER)
    with structlog.testing.capture_logs() as logs:
        ids = ids_of(controller)
        assert await ids.allocate() == 0
        await ids.stop()
    told = [each["error"] for each in logs if each["event"] == "producer_ids.not_allocated"]
    assert told == ["no controller", "NOT_CONTROLLER"]


async def test_producers_that_wait_together_get_different_ids() -> None:
    controller = FakeController()
    controller.may_answer.clear()
    ids = ids_of(controller)
    waiting = [asyncio.create_task(ids.allocate()) for _ in range(3)]
    await asyncio.sleep(0)
    controller.may_answer.set()
    assert sorted(await asyncio.gather(*waiting)) == [0, 1, 2]
    await ids.stop()


async def test_it_asks_until_a_controller_answers() -> None:
    controller = FakeController(OSError("no controller"), ErrorCode.NOT_CONTROLLER)
    ids = ids_of(controller)
    assert await ids.allocate() == 0
    await ids.stop()


async def test_a_producer_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_ids, "MAX_WAIT_S", 0.01)
    controller = FakeController()
    controller.may_answer.clear()
    ids = ids_of(controller)
    with pytest.raises(ApiError) as caught:
        await ids.allocate()
    assert caught.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await ids.stop()
