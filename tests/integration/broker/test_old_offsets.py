"""Version 0 of ListOffsets, OffsetCommit and OffsetFetch: offsets in the coordinator's nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordination.client import Client
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kafkawire.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkawire.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tests.conftest import READY_EVENT, BrokerProcess, StartBroker
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator
from tests.waiting import until_sync

TOPIC = "old"


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    process = Coordinator(tmp_path / "coordinator")
    yield process
    process.kill()


@pytest.fixture
def broker(coordinator: Coordinator, start_broker: StartBroker) -> BrokerProcess:
    broker = start_broker(
        overrides={
            "zookeeper.connect": coordinator.address,
            "broker.id": "1",
            "offsets.topic.replication.factor": "1",
        }
    )
    broker.wait_for_event(READY_EVENT, 60)
    with Wire(broker.port) as wire:
        wire.create_topic(TOPIC, partitions=2)
    return broker


def commit(wire: Wire, version: int, group: str, *offsets: int) -> list[int]:
    rows = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
        for index, offset in enumerate(offsets)
    ]
    message = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=rows)],
    )
    reply = wire.ask(ApiKey.OFFSET_COMMIT, version, message, OffsetCommitResponse)
    return [each.error_code for topic in reply.topics for each in topic.partitions]


def fetch(wire: Wire, version: int, group: str, *partitions: int) -> list[tuple[int, int]]:
    message = OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=list(partitions))],
    )
    reply = wire.ask(ApiKey.OFFSET_FETCH, version, message, OffsetFetchResponse)
    return [
        (each.committed_offset, each.error_code)
        for topic in reply.topics
        for each in topic.partitions
    ]


UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_version_0_reads_and_writes_the_nodes(
    broker: BrokerProcess, coordinator: Coordinator
) -> None:
    with Wire(broker.port) as wire:
        assert commit(wire, 0, "g", 7, 8, 9) == [0, 0, UNKNOWN]
        assert commit(wire, 0, "g", 17, -1) == [0, ErrorCode.OFFSET_OUT_OF_RANGE]
        assert commit(wire, 0, "../g", 1) == [ErrorCode.INVALID_GROUP_ID]
        assert fetch(wire, 0, "g", 0, 1, 2) == [(17, 0), (8, 0), (-1, UNKNOWN)]
        assert fetch(wire, 0, "other", 0) == [(-1, UNKNOWN)]
        # The groups of this broker have offsets of their own.
        wire.ask(
            ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="g"), FindCoordinatorResponse
        )
        until_sync(lambda: fetch(wire, 1, "g", 0) == [(-1, 0)], "the group's coordinator")
        assert commit(wire, 1, "g", 3) == [0]
        assert fetch(wire, 1, "g", 0) == [(3, 0)]
        assert fetch(wire, 0, "g", 0) == [(17, 0)]
    async with Client(coordinator.address) as client:
        data, stat = await client.get_data("/consumers/g/offsets/old/0")
        assert (data, stat.ephemeral_owner) == (b"17", 0)
        await client.set_data("/consumers/g/offsets/old/1", b"99")
    with Wire(broker.port) as wire:
        assert fetch(wire, 0, "g", 1) == [(99, 0)]


def test_version_0_finds_the_ends_of_a_log(broker: BrokerProcess) -> None:
    def find(wire: Wire, timestamp: int, index: int = 0) -> tuple[int, list[int]]:
        row = ListOffsetsPartition(partition_index=index, timestamp=timestamp, max_num_offsets=2)
        message = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[row])]
        )
        reply = wire.ask(ApiKey.LIST_OFFSETS, 0, message, ListOffsetsResponse)
        found = reply.topics[0].partitions[0]
        return found.error_code, list(found.old_style_offsets)

    with Wire(broker.port) as wire:
        for _ in range(3):
            assert wire.produce(TOPIC, batch(b"value")).error_code == 0
        assert find(wire, LATEST_TIMESTAMP) == (0, [3, 0])
        assert find(wire, EARLIEST_TIMESTAMP) == (0, [0])
        assert find(wire, LATEST_TIMESTAMP, 5)[0] != 0
