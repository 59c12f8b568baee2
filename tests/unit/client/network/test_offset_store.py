"""Overlapping commits of many and of few partitions: `ottla.client.network.offset_store`."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from kafkawire.errors import ErrorCode
from kafkawire.ids import Offset, TopicPartition
from kafkawire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.client.network.coordinator import Coordinator
from ottla.client.network.offset_store import OffsetStore
from ottla.client.offset import CommittedOffset, Identity
from ottla.client.retry import Backoff
from tests.unit.client.client_fakes import T0, T1

VERSION = 8
AT_1, AT_2 = (CommittedOffset(Offset(offset)) for offset in (1, 2))


class FakeCoordinator:
    """Stores the offsets of a request when it arrives, and responds once `may_answer` is set."""

    key = "g"
    subject = "group g"

    def __init__(self) -> None:
        self.stored: dict[TopicPartition, int] = {}
        self.request_count = 0
        self.may_answer = asyncio.Event()
        self.lookups: list[asyncio.Event] = []
        """The ends of the lookups that the first requests wait for."""

    async def request(
        self, message: Callable[[int], OffsetCommitRequest], _response_type: object
    ) -> OffsetCommitResponse:
        """Return the response to a commit."""
        lookup = self.lookups[self.request_count : self.request_count + 1]
        self.request_count += 1
        for each in lookup:
            await each.wait()
        topics = []
        for topic in message(VERSION).topics:
            rows = []
            for row in topic.partitions:
                place = TopicPartition(topic.name, row.partition_index)
                self.stored[place] = row.committed_offset
                rows.append(
                    OffsetCommitResponsePartition(
                        partition_index=place.partition, error_code=ErrorCode.NONE
                    )
                )
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=rows))
        await self.may_answer.wait()
        return OffsetCommitResponse(topics=topics)


def store_at(coordinator: FakeCoordinator) -> OffsetStore:
    return OffsetStore(
        cast(Coordinator, coordinator),
        group_instance_id=None,
        backoff=Backoff(initial_s=0.001, max_s=0.001, random=lambda: 0.5),
        timeout_s=10.0,
    )


async def test_a_commit_in_several_requests_does_not_undo_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As with thousands of partitions.
    monkeypatch.setattr("ottla.client.request_parts.MAX_PARTITIONS_PER_REQUEST", 1)
    coordinator = FakeCoordinator()
    store = store_at(coordinator)
    earlier = asyncio.ensure_future(store.commit({T0: AT_1, T1: AT_1}, Identity))
    await asyncio.sleep(0)
    later = asyncio.ensure_future(store.commit({T1: AT_2}, Identity))
    await asyncio.sleep(0)
    coordinator.may_answer.set()
    async with asyncio.timeout(10):
        await asyncio.gather(earlier, later)
    assert coordinator.stored == {T0: 1, T1: 2}
    assert coordinator.request_count == 3


async def test_commits_in_one_request_do_not_wait_for_each_other() -> None:
    coordinator = FakeCoordinator()
    store = store_at(coordinator)
    earlier = asyncio.ensure_future(store.commit({T0: AT_1, T1: AT_1}, Identity))
    later = asyncio.ensure_future(store.commit({T1: AT_2}, Identity))
    await asyncio.sleep(0)
    assert coordinator.request_count == 2
    coordinator.may_answer.set()
    async with asyncio.timeout(10):
        await asyncio.gather(earlier, later)
    assert coordinator.stored == {T0: 1, T1: 2}


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_commit_whose_lookup_ends_late_does_not_undo_a_later_one(is_stored: bool) -> None:
    coordinator = FakeCoordinator()
    coordinator.lookups = [asyncio.Event()]
    store = store_at(coordinator)
    earlier = asyncio.ensure_future(store.commit({T0: AT_1, T1: AT_1}, Identity))
    await asyncio.sleep(0)
    later = asyncio.ensure_future(store.commit({T1: AT_2}, Identity))
    await asyncio.sleep(0)
    assert coordinator.stored == {T1: 2}
    async with asyncio.timeout(10):
        if is_stored:
            coordinator.may_answer.set()
            await later
        coordinator.lookups[0].set()
        await asyncio.sleep(0)
        coordinator.may_answer.set()
        await asyncio.gather(earlier, later)
    assert coordinator.stored == {T0: 1, T1: 2}


async def test_an_earlier_lookup_that_ends_first_sends_its_commit_at_once() -> None:
    coordinator = FakeCoordinator()
    coordinator.lookups = [asyncio.Event(), asyncio.Event()]
    store = store_at(coordinator)
    earlier = asyncio.ensure_future(store.commit({T1: AT_1}, Identity))
    await asyncio.sleep(0)
    later = asyncio.ensure_future(store.commit({T1: AT_2}, Identity))
    await asyncio.sleep(0)
    coordinator.may_answer.set()
    async with asyncio.timeout(10):
        coordinator.lookups[0].set()
        await earlier
        coordinator.lookups[1].set()
        await later
    assert (coordinator.stored, coordinator.request_count) == ({T1: 2}, 2)
