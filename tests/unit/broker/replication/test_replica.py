"""One partition and its readers: `replica`, `replica_manager`, ListOffsets."""

import asyncio
import errno
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from broker.cluster.metadata_cache import PartitionState, TopicState
from broker.errors import as_api_error
from broker.handlers.offset_lookup import Bound, ListOffsetsHandler, find_offset
from broker.network.request_tasks import RequestTasks
from broker.replication.transaction_guards import TransactionalAppend
from kafkawire.apis import ApiKey
from kafkawire.compression import Codec
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import Offset, TopicPartition
from kafkawire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkawire.records_header import TRANSACTIONAL_BIT
from kafkawire.sentinels import LATEST_TIMESTAMP, NO_LEADER
from storage.compaction.manager import CleanerManager
from storage.config.log_config import LogConfig
from storage.errors import (
    BatchTooLargeError,
    CorruptLogError,
    LogDirOfflineError,
    OffsetOutOfRangeError,
    OutOfFilesError,
)
from tests.unit.broker.metadata import partition_state, put_topics
from tests.unit.broker.replicas import B1, B2, NOW_MS, PARTITION, World, batch, lead_alone
from tests.unit.broker.requests import request
from tests.unit.kafkawire.batches import batch_of, with_header, with_section
from tests.unit.storage.compacting import COMPACTED, settings


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


def append(world: World, *values: bytes) -> None:
    world.replicas.append(PARTITION, memoryview(bytearray(batch(*values))), 1, NOW_MS)


async def test_only_committed_records_are_visible_to_consumers(world: World) -> None:
    world.replicate_to(B2)
    append(world, b"a")
    append(world, b"b")
    world.follower_fetches(B2, 1)
    seen = world.replica.read(0, 1 << 20, min_one_batch=True)
    everything = world.replica.read(0, 1 << 20, only_committed=False, min_one_batch=True)
    assert (seen.high_watermark, seen.last_stable_offset) == (1, 1)
    assert seen.records is not None
    assert everything.records is not None
    assert everything.records.size_bytes == 2 * seen.records.size_bytes


@pytest.mark.parametrize("is_transactional", [False, True])
async def test_followers_may_copy_a_batch_whose_flush_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_transactional: bool
) -> None:
    world = World(tmp_path, LogConfig(flush_messages=1))
    world.replicate_to(B2)
    changes = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    if is_transactional:
        changes["attributes"] = TRANSACTIONAL_BIT
    sent = bytes(with_header(batch_of(), **changes))

    def send() -> None:
        transaction = TransactionalAppend(needs_guard=False)
        batch = memoryview(bytearray(sent))
        world.replicas.append(PARTITION, batch, 1, NOW_MS, transaction=transaction)

    def fail() -> None:
        raise OutOfFilesError(world.log.directory, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(world.log.upkeep, "flush", fail)
        with pytest.raises(ApiError, match="too many open files"):
            send()
    end = world.log.log_end_offset
    world.follower_fetches(B2, end)
    assert world.replica.high_watermark == end > 0
    assert world.log.recovery_point == 0
    # The producer repeats the batch, which is acknowledged once it is flushed.
    send()
    assert world.log.log_end_offset == world.log.recovery_point == end


@pytest.mark.parametrize("codec", Codec)
async def test_noise_with_a_valid_checksum_is_refused(world: World, codec: Codec) -> None:
    noise = with_section(batch_of(codec=codec), bytes(range(100, 164)), 5)
    with pytest.raises(ApiError) as refused:
        world.replicas.append(PARTITION, memoryview(noise), 1, NOW_MS)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert world.log.log_end_offset == 0


async def test_config_change_updates_min_isr(world: World) -> None:
    leadership = world.replicate_to(min_insync_replicas=2)
    append(world, b"a")
    assert world.replica.high_watermark == 0
    world.replicas.update_topic_configs({"t": LogConfig(min_insync_replicas=1)})
    assert (leadership.limits.min_insync_replicas, world.replica.high_watermark) == (1, 1)


async def test_config_change_stops_the_cleaning_of_a_topic_that_is_no_longer_compacted(
    world: World,
) -> None:
    world.replicas.update_topic_configs({"t": replace(COMPACTED, segment_bytes=100)})
    append(world, b"a")
    append(world, b"b")
    high_watermark = world.log.log_end_offset
    manager = CleanerManager(world.logs, settings(), lambda _partition: high_watermark)
    world.logs.cleaning = manager
    candidate = manager.candidate(world.log, NOW_MS)
    assert candidate is not None
    cleaning = manager.start(candidate, NOW_MS)
    assert cleaning is not None
    kills: list[None] = []
    cleaning.on_abort = lambda: kills.append(None)
    world.replicas.update_topic_configs({"t": COMPACTED})
    assert not kills
    world.replicas.update_topic_configs({"t": LogConfig()})
    assert cleaning.is_aborted
    assert len(kills) == 1


async def test_latest_offset_is_unknown_just_after_an_election(world: World) -> None:
    append(world, b"a", b"b")
    world.replicate_to(B2)
    with pytest.raises(ApiError) as caught:
        find_offset(world.replica, LATEST_TIMESTAMP, Bound.HIGH_WATERMARK)
    assert caught.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    assert find_offset(world.replica, LATEST_TIMESTAMP, Bound.LOG_END).offset == 2
    with pytest.raises(ApiError):
        find_offset(world.replica, NOW_MS, Bound.HIGH_WATERMARK)
    world.follower_fetches(B2, 2)
    assert find_offset(world.replica, LATEST_TIMESTAMP, Bound.HIGH_WATERMARK).offset == 2


@pytest.mark.parametrize(
    ("version", "code"),
    [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE)],
)
async def test_old_client_gets_an_error_code_of_its_version(
    world: World, version: int, code: ErrorCode
) -> None:
    append(world, b"a")
    world.replicate_to(B2)
    wanted = ListOffsetsTopic(
        name="t", partitions=[ListOffsetsPartition(timestamp=LATEST_TIMESTAMP)]
    )
    message = ListOffsetsRequest(replica_id=-1, topics=[wanted])
    tasks = RequestTasks(asyncio.get_running_loop())
    reply = ListOffsetsHandler(tasks, world.replicas, lambda: 0).handle(
        request(ApiKey.LIST_OFFSETS, version, message), message
    )
    assert isinstance(reply.message, ListOffsetsResponse)
    assert reply.message.topics[0].partitions[0].error_code == code


def state(*, is_offline: bool) -> PartitionState:
    if is_offline:
        return partition_state(1, NO_LEADER, B1, offline=[B1])
    return partition_state(1, B2, B2)


@pytest.mark.parametrize(
    ("is_offline", "code"),
    [(True, ErrorCode.KAFKA_STORAGE_ERROR), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)],
)
async def test_missing_partition_is_distinguished_from_an_offline_one(
    world: World, is_offline: bool, code: ErrorCode
) -> None:
    partitions = {1: state(is_offline=is_offline)}
    topic_id = world.replica.topic_id
    put_topics(world.metadata, [TopicState(name="t", topic_id=topic_id, partitions=partitions)])
    with pytest.raises(ApiError) as caught:
        world.replicas.leader(TopicPartition("t", 1))
    assert caught.value.code is code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OffsetOutOfRangeError(PARTITION, 5, 0, 1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (BatchTooLargeError("large"), ErrorCode.RECORD_LIST_TOO_LARGE),
        (CorruptLogError(Path("f"), 1, "bad"), ErrorCode.CORRUPT_MESSAGE),
        (LogDirOfflineError(Path("d"), "gone"), ErrorCode.KAFKA_STORAGE_ERROR),
        (OSError(errno.EIO, "disk"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_storage_failure_has_an_error_code(error: Exception, code: ErrorCode) -> None:
    assert as_api_error(error).code is code


async def test_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, LogConfig(segment_bytes=100))
    with pytest.raises(ApiError) as caught:
        append(world, b"x" * 100)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


async def test_committed_offset_is_below_the_high_watermark(world: World) -> None:
    append(world, b"a")
    assert world.replicas.is_committed(PARTITION, Offset(0))
    assert not world.replicas.is_committed(PARTITION, Offset(1))
    assert not world.replicas.is_committed(TopicPartition("t", 1), Offset(0))
    assert world.replicas.high_watermarks() == {PARTITION: 1}
    assert [replica.topic_partition for replica in world.replicas] == [PARTITION]


async def test_missing_writes_are_counted_until_the_first_record_is_committed(
    world: World,
) -> None:
    append(world, b"a")
    world.replicate_to(B2)
    other = TopicPartition("t", 1)
    assert world.replicas.count_missing_writes([PARTITION, other]) == 2
    append(world, b"b")
    assert world.replicas.count_missing_writes([PARTITION, other]) == 1
    world.follower_fetches(B2, 1)
    assert world.replicas.count_missing_writes([PARTITION]) == 1, "committed of the older leader"
    world.follower_fetches(B2, 2)
    assert world.replicas.count_missing_writes([PARTITION]) == 0
    assert world.replicas.count_missing_writes([other]) == 0, "it is not led here"


async def test_no_write_counts_as_missing_while_another_partition_waits_for_its_commit(
    world: World,
) -> None:
    waiting = TopicPartition("t", 1)
    log = world.logs.create(waiting, LogConfig(), uuid.uuid4(), now_ms=NOW_MS)
    lead_alone(world.replicas, log)
    world.replicate_to(B2)
    assert world.replicas.count_missing_writes([waiting]) == 2
    append(world, b"a")
    assert world.replicas.count_missing_writes([waiting]) == 0
    world.follower_fetches(B2, 1)
    assert world.replicas.count_missing_writes([waiting]) == 2
