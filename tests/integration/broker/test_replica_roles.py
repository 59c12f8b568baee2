"""LeaderAndIsr and StopReplica over sockets: acceptance and effects of control requests."""

import errno
import gc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.cluster.metadata_cache import PartitionState, TopicState
from broker.config.replication_keys import ReplicationKeys
from broker.replication import replica_roles
from kafkawire.errors import ErrorCode
from kafkawire.ids import LeaderEpoch, TopicId, TopicPartition
from kafkawire.messages.leader_and_isr import LeaderAndIsrResponse
from kafkawire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from kafkawire.update_type import UpdateType
from storage.errors import OutOfFilesError
from storage.log.log import Log
from storage.segment.log_file import LogFile
from tests.integration.broker.replica_rig import PARTITION, TOPIC, TOPIC_ID, Rig
from tests.unit.broker.metadata import partition_state, put_topics
from tests.unit.storage.faults import failing
from tests.waiting import until

KEYS = ReplicationKeys(replica_lag_time_max_ms=60_000, replica_fetch_wait_max_ms=100)
OTHER_ID = TopicId(int=78)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path, KEYS)
    await rig.start(1, 2)
    yield rig
    await rig.stop()


def codes(answers: list[LeaderAndIsrResponse]) -> list[int]:
    return [each.error_code or each.topics[0].partition_errors[0].error_code for each in answers]


def epoch(rig: Rig) -> int:
    return rig.brokers[1].replica.leader_epoch


async def test_an_older_controller_changes_nothing(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1], controller_epoch=7, to=[1])
    answers = await rig.set_leader(2, isr=[2], controller_epoch=6, to=[1])
    assert codes(answers) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert (epoch(rig), rig.brokers[1].replica.leader) == (1, 1)


async def test_a_request_with_an_older_broker_epoch_changes_nothing(rig: Rig) -> None:
    rig.brokers[1].replicas.on_registered(50)
    answers = await rig.set_leader(1, isr=[1], broker_epoch=49, to=[1])
    assert codes(answers) == [ErrorCode.STALE_BROKER_EPOCH]
    assert list(rig.brokers[1].replicas) == []
    assert codes(await rig.set_leader(1, isr=[1], broker_epoch=50, to=[1])) == [ErrorCode.NONE]


async def test_a_repeated_leader_and_isr_request_changes_nothing(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1], to=[1])
    again = await rig.set_leader(1, isr=[1], to=[1], is_repeated=True)
    assert codes(again) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert rig.brokers[1].replica.leadership is not None


@pytest.mark.parametrize(
    ("leader", "isr", "replicas", "code"),
    [
        pytest.param(2, [2], [2], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, id="no replica"),
        pytest.param(1, [2], [1, 2], ErrorCode.INVALID_REQUEST, id="leader out of sync"),
    ],
)
async def test_an_invalid_request_is_refused(
    rig: Rig, leader: int, isr: list[int], replicas: list[int], code: ErrorCode
) -> None:
    assert codes(await rig.set_leader(leader, isr=isr, replicas=replicas, to=[1])) == [code]
    assert list(rig.brokers[1].logs) == []


async def test_an_invalid_leader_epoch_is_refused(rig: Rig) -> None:
    rig.epoch = -3
    assert codes(await rig.set_leader(1, isr=[1], to=[1])) == [ErrorCode.INVALID_REQUEST]
    rig.epoch = 4
    assert codes(await rig.set_leader(1, isr=[1], to=[1])) == [ErrorCode.NONE]


@pytest.mark.parametrize("name", ["../outside", "x/y", "..", "t" * 250, "", "/tmp/absolute"])
async def test_only_the_topic_with_an_illegal_directory_name_is_refused(
    rig: Rig, name: str
) -> None:
    refused = await rig.set_leader(1, isr=[1], to=[1], topic_name=name)
    assert codes(refused) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    stopped = await rig.stop_replica(1, deletes=True, topic_name=name)
    assert stopped is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert list(rig.brokers[1].logs) == []
    assert codes(await rig.set_leader(1, isr=[1], to=[1])) == [ErrorCode.NONE], (
        "the disk has not failed"
    )


async def test_another_topic_of_the_same_name_is_refused_while_this_one_is_served(
    rig: Rig,
) -> None:
    await rig.set_leader(1, isr=[1], to=[1])
    served = TopicState(name=TOPIC, topic_id=rig.topic_id, partitions={})
    put_topics(rig.brokers[1].metadata, [served])
    rig.topic_id = OTHER_ID
    assert codes(await rig.set_leader(1, isr=[1], to=[1])) == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert rig.brokers[1].replica.topic_id == TOPIC_ID


async def test_the_remains_of_a_deleted_topic_are_replaced_by_its_recreation(
    rig: Rig,
) -> None:
    await rig.set_leader(2, isr=[2], replicas=[1, 2])
    # The controller that moved the partition died before its deletion; then the topic was deleted.
    rig.topic_id = OTHER_ID
    assert codes(await rig.set_leader(1, isr=[1], to=[1])) == [ErrorCode.NONE]
    replica = rig.brokers[1].replica
    assert (replica.topic_id, replica.log.topic_id) == (OTHER_ID, OTHER_ID)
    assert replica.leadership is not None
    left = [path.name for path in replica.log.directory.parent.glob("*-stray")]
    assert len(left) == 1


async def test_after_a_restart_the_records_of_a_former_topic_are_set_aside(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1], to=[1])
    await rig.brokers[1].produce(b"old")
    await rig.stop(1)
    await rig.start(1)
    rig.topic_id = OTHER_ID
    assert codes(await rig.set_leader(1, isr=[1], to=[1])) == [ErrorCode.NONE]
    assert rig.brokers[1].replica.log.log_end_offset == 0
    [stray] = rig.brokers[1].directory.glob("*-stray")
    assert stray.name.startswith(f"{PARTITION}.")


def assigned(*replicas: int) -> PartitionState:
    return partition_state(0, replicas[0], *replicas, leader_epoch=1)


def held(rig: Rig) -> set[int]:
    return {each.topic_partition.partition for each in rig.brokers[1].replicas}


def strays(rig: Rig) -> set[str]:
    return {path.name.split(".")[0] for path in rig.brokers[1].directory.glob("*-stray")}


async def test_a_partition_reassigned_in_the_metadata_is_a_stray_after_registration(
    rig: Rig,
) -> None:
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0, 1, 2])
    known = {1: assigned(1), 2: assigned(2, 3)}
    put_topics(
        rig.brokers[1].metadata, [TopicState(name=TOPIC, topic_id=TOPIC_ID, partitions=known)]
    )
    rig.brokers[1].replicas.on_registered(50)
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0], broker_epoch=50)
    assert (held(rig), strays(rig)) == ({0, 1}, {"orders-2"})
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0], broker_epoch=50)
    assert held(rig) == {0, 1}, "later requests name only changed partitions"


async def test_a_partition_that_a_new_controller_does_not_name_is_a_stray_once_it_is_elsewhere(
    rig: Rig,
) -> None:
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0, 1, 2])
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0], controller_epoch=2)
    assert held(rig) == {0, 1, 2}, "the metadata are still those of the former controller"
    known = {1: assigned(1), 2: assigned(2, 3)}
    put_topics(
        rig.brokers[1].metadata, [TopicState(name=TOPIC, topic_id=TOPIC_ID, partitions=known)]
    )
    await until(lambda: (held(rig), strays(rig)) == ({0, 1}, {"orders-2"}))


async def test_a_partition_of_a_topic_missing_in_the_metadata_is_kept(
    rig: Rig,
) -> None:
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0, 1])
    await rig.brokers[1].produce(b"acknowledged", index=1)
    await rig.stop(1)
    await rig.start(1)
    rig.brokers[1].replicas.on_registered(50)
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0], broker_epoch=50)
    assert rig.brokers[1].replicas.roles.strays.is_unclaimed(TopicPartition(TOPIC, 1))
    # The topic's node can be read again.
    assert codes(await rig.set_leader(1, isr=[1], to=[1], partitions=[1], broker_epoch=50)) == [0]
    assert rig.brokers[1].replica_of(1).log.log_end_offset == 1
    assert strays(rig) == set()


async def test_a_partition_becomes_a_stray_when_its_topic_is_recreated(
    rig: Rig,
) -> None:
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0, 1])
    rig.brokers[1].replicas.on_registered(50)
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0], broker_epoch=50)
    assert held(rig) == {0, 1}
    other = TopicState(name=TOPIC, topic_id=OTHER_ID, partitions={0: assigned(2)})
    put_topics(rig.brokers[1].metadata, [other])
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0], broker_epoch=50)
    assert (held(rig), strays(rig)) == ({0}, {"orders-1"})


async def test_a_deletion_that_waited_for_this_broker_frees_its_data(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0, 1])
    await rig.stop(1)
    await rig.start(1)
    rig.brokers[1].replicas.on_registered(50)
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0], broker_epoch=50)
    assert await rig.stop_replica(1, deletes=True, leader_epoch=-2, index=1) is ErrorCode.NONE
    assert [each.topic_partition for each in rig.brokers[1].logs] == [PARTITION]
    assert strays(rig) == set()
    assert len(list(rig.brokers[1].directory.glob("orders-1.*-delete"))) == 1


async def test_an_incremental_request_creates_no_strays(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0, 1])
    known = TopicState(name=TOPIC, topic_id=TOPIC_ID, partitions={1: assigned(2)})
    put_topics(rig.brokers[1].metadata, [known])
    rig.brokers[1].replicas.on_registered(50)
    some = UpdateType.INCREMENTAL
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0], broker_epoch=50, kind=some)
    assert held(rig) == {0, 1}
    await rig.set_leader(1, isr=[1], to=[1], partitions=[0], broker_epoch=50)
    assert held(rig) == {0}


async def test_a_stopped_replica_neither_leads_nor_follows(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1, 2], replicas=[1, 2])
    await rig.brokers[1].produce(b"a")
    assert await rig.stop_replica(1, deletes=False) is ErrorCode.NONE
    assert (await rig.brokers[1].produce(b"b"))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert rig.brokers[1].records() == rig.brokers[2].records()
    assert codes(await rig.set_leader(2, isr=[2], replicas=[1, 2])) == [0, 0]
    await rig.brokers[2].produce(b"c")
    await until(lambda: rig.brokers[1].records() == rig.brokers[2].records())


async def test_a_deleted_replica_is_gone(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1], to=[1])
    assert await rig.stop_replica(1, deletes=True) is ErrorCode.NONE
    assert list(rig.brokers[1].logs) == []
    assert (await rig.brokers[1].produce(b"a"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await rig.stop_replica(1, deletes=True) is ErrorCode.NONE, "a repeated deletion succeeds"


async def test_a_failed_deletion_of_one_replica_fails_no_other_one(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1], to=[1], partitions=(0, 1))
    states = [
        StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True)
        for index in (1, 0)
    ]
    topic = StopReplicaTopicState(topic_name=TOPIC, partition_states=states)
    request = StopReplicaRequest(controller_id=9, controller_epoch=1, topic_states=[topic])
    with failing("rename", errno.ENOSPC, at=lambda path: path.name == str(PARTITION)):
        response = await rig.brokers[1].ask(request)
    assert isinstance(response, StopReplicaResponse)
    found = {each.partition_index: each.error_code for each in response.partition_errors}
    assert found == {0: ErrorCode.KAFKA_STORAGE_ERROR, 1: ErrorCode.NONE}
    assert await rig.stop_replica(1, deletes=True, leader_epoch=-2) is ErrorCode.NONE


async def test_a_deleted_log_that_refused_a_batch_leaves_no_file_open(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    def logs_in_memory() -> set[int]:
        return {id(each) for each in gc.get_objects() if isinstance(each, Log | LogFile)}

    # An object freed only by the garbage collector may keep its disk space for hours.
    gc.collect()
    gc.disable()
    before = logs_in_memory()
    await rig.set_leader(1, isr=[1], to=[1])
    await rig.brokers[1].produce(b"a")
    try:
        with monkeypatch.context() as patch:
            patch.setattr(LogFile, "append", is_full)
            assert (await rig.brokers[1].produce(b"b"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
        assert await rig.stop_replica(1, deletes=True) is ErrorCode.NONE
        assert logs_in_memory() <= before
    finally:
        gc.enable()


async def test_a_stop_with_an_older_epoch_is_refused_but_a_deletion_is_not(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1], to=[1])
    await rig.set_leader(1, isr=[1], to=[1])
    refused = await rig.stop_replica(1, deletes=True, leader_epoch=1)
    assert refused is ErrorCode.FENCED_LEADER_EPOCH
    assert await rig.stop_replica(1, deletes=True, leader_epoch=-2) is ErrorCode.NONE


async def test_partitions_of_a_failed_log_dir_return_storage_errors(rig: Rig) -> None:
    await rig.set_leader(1, isr=[1], to=[1])
    broker = rig.brokers[1]
    assert broker.replicas.roles.on_directory_failed(broker.directory) == [PARTITION]
    assert (await broker.produce(b"a"))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert await rig.stop_replica(1, deletes=True) is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_roles, "OPENING_RETRY_S", 0.01)


@pytest.mark.usefixtures("quick_retries")
async def test_replicas_without_disk_space_get_their_roles_later(rig: Rig) -> None:
    broker = rig.brokers[1]
    health = broker.logs.table.directories[0].health
    health.note_full("no space")
    answers = await rig.set_leader(1, isr=[1], to=[1], partitions=(0, 1, 2))
    # Not a disk failure, after which the controller would treat the replicas as lost.
    assert codes(answers) == [ErrorCode.NONE]
    assert list(broker.replicas) == []
    health.note_space()
    await until(lambda: len(list(broker.replicas)) == 3)
    assert await broker.produce(b"a") == (ErrorCode.NONE, 0)


@pytest.mark.usefixtures("quick_retries")
async def test_replicas_without_file_descriptors_get_their_roles_later(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = rig.brokers[1]
    tries: list[object] = []

    def create_log(*arguments: object, **_: bool) -> Log:
        tries.append(arguments)
        raise OutOfFilesError(broker.directory, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(broker.logs.table.directories[0], "create_log", create_log)
        assert codes(await rig.set_leader(1, isr=[1], to=[1])) == [ErrorCode.NONE]
        await until(lambda: len(tries) > 2)
    await until(lambda: len(list(broker.replicas)) == 1)
    assert await broker.produce(b"a") == (ErrorCode.NONE, 0)


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("is_stopped", [True, False])
async def test_a_replica_stops_waiting_for_space_after_a_stop_or_registration(
    rig: Rig, is_stopped: bool
) -> None:
    broker = rig.brokers[1]
    health = broker.logs.table.directories[0].health
    health.note_full("no space")
    await rig.set_leader(1, isr=[1], to=[1])
    if is_stopped:
        assert await rig.stop_replica(1, deletes=True) is ErrorCode.NONE
    else:
        broker.replicas.on_registered(5)
    assert not broker.replicas.roles.is_waiting
    health.note_space()
    await rig.set_leader(1, isr=[1], to=[1], partitions=(1,), broker_epoch=-1 if is_stopped else 5)
    assert [each.topic_partition.partition for each in broker.replicas] == [1]


class Listener:
    def __init__(self) -> None:
        self.heard: list[tuple[str, TopicPartition]] = []

    def on_become_leader(self, topic_partition: TopicPartition, leader_epoch: LeaderEpoch) -> None:
        self.heard.append((f"leads in {leader_epoch}", topic_partition))

    def on_resign(self, topic_partition: TopicPartition) -> None:
        self.heard.append(("resigns", topic_partition))


async def test_listeners_are_notified_of_leaderships(rig: Rig) -> None:
    listener = Listener()
    rig.brokers[1].replicas.events.on_leadership(listener)
    await rig.set_leader(1, isr=[1, 2], replicas=[1, 2])
    await rig.set_leader(2, isr=[1, 2], replicas=[1, 2])
    await rig.set_leader(1, isr=[1, 2], replicas=[1, 2])
    await rig.stop_replica(1, deletes=True)
    assert [what for what, _ in listener.heard] == [
        "leads in 1", "resigns", "leads in 3", "resigns",
    ]  # fmt: skip
    assert {partition for _, partition in listener.heard} == {PARTITION}


async def test_listeners_are_notified_of_a_leadership_that_may_have_been_elsewhere_between(
    rig: Rig,
) -> None:
    listener = Listener()
    rig.brokers[1].replicas.events.on_leadership(listener)
    await rig.set_leader(1, isr=[1, 2], replicas=[1, 2])
    await rig.set_leader(1, isr=[1, 2], replicas=[1, 2])
    await rig.set_leader(2, isr=[1, 2], replicas=[1, 2], to=[2])
    await rig.set_leader(1, isr=[1, 2], replicas=[1, 2])
    assert [what for what, _ in listener.heard] == [
        "leads in 1", "leads in 2", "resigns", "leads in 4",
    ]  # fmt: skip
