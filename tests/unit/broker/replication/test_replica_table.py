"""The table of replicas on a broker: `broker.replication.replica_table`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.replication.replica import Replica
from broker.replication.replica_table import ReplicaTable
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import ZERO_TOPIC_ID, BrokerId, Offset, TopicId, TopicPartition
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from tests.unit.broker.replicas import NOW_MS, PARTITION, World

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = TopicId(int=3)

MakeReplica = Callable[[TopicPartition, TopicId], Replica]


@pytest.fixture
def table() -> ReplicaTable:
    return ReplicaTable(BrokerId(1), MetadataCache())


@pytest.fixture
def make_replica(tmp_path: Path) -> MakeReplica:
    logs = Logs.open([tmp_path], config_of=lambda _topic: LogConfig(), now_ms=NOW_MS)

    def make(partition: TopicPartition, topic_id: TopicId) -> Replica:
        log = logs.create(partition, LogConfig(), ID, now_ms=NOW_MS)
        return Replica(partition, topic_id, log, Offset(0), lambda: NOW_MS)

    return make


def test_partition_is_held_until_it_is_removed_or_its_disk_fails(
    table: ReplicaTable, make_replica: MakeReplica
) -> None:
    replica = make_replica(T0, ID)
    table.add(replica)
    assert (list(table), len(table), table.topic_names.get(ID)) == ([replica], 1, "t")
    table.set_offline([T0, T1])
    assert (len(table), table.is_offline(T0), table.is_offline(T1)) == (0, True, True)
    table.add(replica)
    assert not table.is_offline(T0)
    assert T0 in table
    assert table.replica(T0) is replica
    assert table.remove(T0) is replica
    assert T0 not in table
    assert table.remove(T1) is None
    assert not table.is_offline(T1)


def test_topic_id_is_known_while_a_replica_of_its_topic_is_held(
    table: ReplicaTable, make_replica: MakeReplica
) -> None:
    second = make_replica(T1, ZERO_TOPIC_ID)
    table.add(make_replica(T0, ID))
    table.add(second)
    table.assign_topic_id(second, ID)
    table.remove(T0)
    assert table.topic_names.get(ID) == table.topic_name(ID) == "t"
    table.set_offline([T1])
    assert ID not in table.topic_names
    assert table.topic_name(ID) is table.topic_name(ZERO_TOPIC_ID) is None


def test_missing_partition_is_offline_or_unknown(table: ReplicaTable) -> None:
    table.set_offline([T0])
    for partition, code in (
        (T0, ErrorCode.KAFKA_STORAGE_ERROR),
        (T1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        for find in (table.replica, table.leader):
            with pytest.raises(ApiError) as refused:
                find(partition)
            assert refused.value.code is code


async def test_leader_is_found_in_its_epoch_and_under_its_topic_id(tmp_path: Path) -> None:
    world = World(tmp_path)
    table, replica = world.replicas.table, world.replica
    assert table.leader(PARTITION, 0, replica.topic_id) is replica
    assert table.leader(PARTITION, topic_id=ZERO_TOPIC_ID) is replica
    for epoch, topic_id, code in (
        (1, replica.topic_id, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (0, ID, ErrorCode.INCONSISTENT_TOPIC_ID),
    ):
        with pytest.raises(ApiError) as refused:
            table.leader(PARTITION, epoch, topic_id)
        assert refused.value.code is code
    replica.resign()
    with pytest.raises(ApiError) as refused:
        table.leader(PARTITION)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
