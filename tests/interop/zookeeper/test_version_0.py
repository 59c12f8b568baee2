"""Version 0 of ListOffsets, OffsetCommit and OffsetFetch: our broker and Kafka's side by side.

Each request goes to a broker of Kafka 3.9 and to ours, which have the same topics below chroots of
one coordinator, and the whole responses are compared.
"""

import time
from collections.abc import Iterator
from typing import TypeVar

import pytest

from coordination.client import Client
from kafkawire.apis import ApiKey
from kafkawire.errors import ErrorCode
from kafkawire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
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
from kafkawire.messages.metadata import MetadataRequest, MetadataResponse
from kafkawire.sentinels import CONSUMER_REPLICA_ID, EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tests.conftest import READY_EVENT, BrokerProcess
from tests.integration.broker.wire import Wire, batch
from tests.integration.coordination.process import Coordinator
from tests.interop.kafka_broker import KafkaBroker, kafka_jars_or_skip
from tests.waiting import until_sync

TOPIC, SMALL = "version-0", "small-segments"
SEGMENT_BYTES = "1024"
DELETED = 100
DAY_MS = 86_400_000
ONE_REPLICA = {"offsets.topic.replication.factor": "1"}

M = TypeVar("M")


class Pair:
    """One connection to each broker."""

    def __init__(self, ours: Wire, theirs: Wire, zookeeper: str) -> None:
        self.ours = ours
        self.theirs = theirs
        self.zookeeper = zookeeper

    def both(self, key: ApiKey, message: object, response: type[M]) -> M:
        """Return the response to a request, which must be the same of both brokers."""
        theirs = self.theirs.ask(key, 0, message, response)
        ours = self.ours.ask(key, 0, message, response)
        assert rows_of(ours) == rows_of(theirs)
        return theirs


def rows_of(response: object) -> list[tuple[str, str]]:
    """Return the partitions of a response, sorted: Kafka's order is that of its hash tables."""
    assert isinstance(response, ListOffsetsResponse | OffsetCommitResponse | OffsetFetchResponse)
    return sorted(
        (topic.name, repr(each)) for topic in response.topics for each in topic.partitions
    )


def fill(wire: Wire) -> None:
    nothing = MetadataRequest(topics=[])
    until_sync(
        # A broker of Kafka serves before its controller has listed it.
        lambda: bool(wire.ask(ApiKey.METADATA, 12, nothing, MetadataResponse).brokers),
        "a broker that is listed",
    )
    for topic, partitions, configs in (
        (TOPIC, 3, {}),
        (SMALL, 2, {"segment_bytes": SEGMENT_BYTES}),
    ):
        created = wire.create_topic(topic, partitions=partitions, **configs)
        assert created.error_code == ErrorCode.NONE, created
    for topic, partition, count in ((TOPIC, 0, 3), (TOPIC, 2, 5), (SMALL, 0, 12), (SMALL, 1, 12)):
        for _ in range(count):
            until_sync(
                lambda topic=topic, partition=partition: (  # type: ignore[misc]
                    wire.produce(topic, batch(b"v" * 200), partition=partition).error_code == 0
                ),
                "a leader",
            )
    row = DeleteRecordsPartition(partition_index=1, offset=6)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=SMALL, partitions=[row])], timeout_ms=10_000
    )
    reply = wire.ask(ApiKey.DELETE_RECORDS, 2, request, DeleteRecordsResponse)
    assert reply.topics[0].partitions[0].low_watermark == 6


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    jars = kafka_jars_or_skip()
    directory = tmp_path_factory.mktemp("version_0")
    coordinator = Coordinator(directory / "coordinator")
    address = coordinator.address
    kafka = KafkaBroker(1, directory, f"{address}/kafka", jars)
    settings = {"zookeeper.connect": f"{address}/ottla", "broker.id": "1", **ONE_REPLICA}
    broker = BrokerProcess(directory / "broker", settings)
    try:
        broker.wait_for_event(READY_EVENT, 60)
        until_sync(kafka.has_started, "Kafka's broker")
        with Wire(broker.port) as ours, Wire(kafka.port) as theirs:
            fill(ours)
            fill(theirs)
            yield Pair(ours, theirs, address)
    finally:
        broker.kill()
        kafka.kill()
        coordinator.kill()


def find(
    pair: Pair,
    *rows: tuple[str, int],
    timestamp: int = LATEST_TIMESTAMP,
    count: int = 1,
    replica_id: int = CONSUMER_REPLICA_ID,
) -> list[tuple[int, list[int]]]:
    topics = [
        ListOffsetsTopic(
            name=topic,
            partitions=[
                ListOffsetsPartition(
                    partition_index=index, timestamp=timestamp, max_num_offsets=count
                )
            ],
        )
        for topic, index in rows
    ]
    message = ListOffsetsRequest(replica_id=replica_id, topics=topics)
    reply = pair.both(ApiKey.LIST_OFFSETS, message, ListOffsetsResponse)
    return [
        (each.error_code, list(each.old_style_offsets))
        for topic in reply.topics
        for each in topic.partitions
    ]


@pytest.mark.parametrize("count", [0, 1, 2, DELETED])
def test_starts_and_ends_of_logs(pair: Pair, count: int) -> None:
    rows = [(TOPIC, 0), (TOPIC, 1), (TOPIC, 2), (SMALL, 0)]
    if count < DELETED:
        # Kafka keeps segments below the start of the log until its next retention check.
        rows.append((SMALL, 1))
    ends = find(pair, *rows, timestamp=LATEST_TIMESTAMP, count=count)
    starts = find(pair, *rows, timestamp=EARLIEST_TIMESTAMP, count=count)
    tomorrow = find(pair, *rows, timestamp=int(time.time() * 1000) + DAY_MS, count=count)
    if count == 1:
        assert ends == tomorrow == [(0, [3]), (0, [0]), (0, [5]), (0, [12]), (0, [12])]
        assert starts == [(0, [0]), (0, [0]), (0, [0]), (0, [0]), (0, [6])]
    if count == DELETED:
        # The segments were small enough for a list.
        assert len(ends[3][1]) > 2
    assert find(pair, *rows, timestamp=0, count=count) == [(0, [])] * len(rows)


def test_offsets_of_unknown_partitions(pair: Pair) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = find(pair, (TOPIC, 0), (TOPIC, 9), ("missing", 0), (TOPIC, 2))
    assert found == [(0, [3]), (unknown, []), (unknown, []), (0, [5])]
    assert find(pair) == []


def test_a_partition_that_is_named_twice(pair: Pair) -> None:
    assert find(pair, (TOPIC, 0), (TOPIC, 0)) == [(0, [3]), (0, [3])]
    assert commit(pair, "twice", (TOPIC, 0, 1), (TOPIC, 0, 2)) == [0, 0]
    assert fetch(pair, "twice", (TOPIC, 0), (TOPIC, 0)) == [(2, 0)]


def commit(
    pair: Pair, group: str, *rows: tuple[str, int, int], metadata: str | None = ""
) -> list[int]:
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=metadata
                )
            ],
        )
        for topic, index, offset in rows
    ]
    message = OffsetCommitRequest(group_id=group, topics=topics)
    reply = pair.both(ApiKey.OFFSET_COMMIT, message, OffsetCommitResponse)
    return [each.error_code for topic in reply.topics for each in topic.partitions]


def fetch(pair: Pair, group: str, *rows: tuple[str, int]) -> list[tuple[int, int]]:
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[n]) for topic, n in rows]
    message = OffsetFetchRequest(group_id=group, topics=topics)
    reply = pair.both(ApiKey.OFFSET_FETCH, message, OffsetFetchResponse)
    return [
        (each.committed_offset, each.error_code)
        for topic in reply.topics
        for each in topic.partitions
    ]


async def test_offsets_are_committed_and_fetched(pair: Pair) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(pair, "g", (TOPIC, 0, 7)) == [0]
    assert commit(pair, "g", (TOPIC, 0, 8), (SMALL, 1, 2**40)) == [0, 0]
    assert sorted(commit(pair, "g", (TOPIC, 1, 5), (TOPIC, 9, 1), ("missing", 0, 1))) == [
        0,
        unknown,
        unknown,
    ]
    assert commit(pair, "g") == []
    assert fetch(pair, "g", (TOPIC, 0)) == [(8, 0)]
    assert fetch(pair, "g", (TOPIC, 2)) == [(-1, unknown)]
    found = fetch(pair, "g", (TOPIC, 1), (TOPIC, 9), ("missing", 0), (SMALL, 1))
    assert sorted(found) == [(-1, unknown), (-1, unknown), (5, 0), (2**40, 0)]
    assert fetch(pair, "nobody", (TOPIC, 0)) == [(-1, unknown)]
    assert fetch(pair, "g") == []
    async with Client(pair.zookeeper) as client:
        for path in ("", "/offsets", f"/offsets/{TOPIC}", f"/offsets/{TOPIC}/0"):
            ours = await client.get_data(f"/ottla/consumers/g{path}")
            theirs = await client.get_data(f"/kafka/consumers/g{path}")
            assert ours[0] == theirs[0], path
            our_acl, _ = await client.get_acl(f"/ottla/consumers/g{path}")
            their_acl, _ = await client.get_acl(f"/kafka/consumers/g{path}")
            assert our_acl == their_acl, path


def test_metadata_is_limited_and_not_kept(pair: Pair) -> None:
    assert commit(pair, "m", (TOPIC, 0, 1), metadata="m" * 4096) == [0]
    assert commit(pair, "m", (TOPIC, 0, 2), metadata=None) == [0]
    too_large = commit(pair, "m", (TOPIC, 0, 3), ("missing", 0, 1), metadata="m" * 4097)
    assert ErrorCode.OFFSET_METADATA_TOO_LARGE in too_large
    assert fetch(pair, "m", (TOPIC, 0)) == [(2, 0)]


def test_we_refuse_offsets_and_groups_that_would_harm_members(pair: Pair) -> None:
    """Kafka writes both; members in Java then fail their rebalances."""
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=-1)
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[row])]
    message = OffsetCommitRequest(group_id="n", topics=topics)

    def code(wire: Wire) -> int:
        reply = wire.ask(ApiKey.OFFSET_COMMIT, 0, message, OffsetCommitResponse)
        return reply.topics[0].partitions[0].error_code

    assert code(pair.theirs) == ErrorCode.NONE
    assert code(pair.ours) == ErrorCode.OFFSET_OUT_OF_RANGE
