"""The table of replicas on a broker: `broker.replication.replica_table`."""

from typing import cast

from broker.replication.replica import Replica
from broker.replication.replica_table import ReplicaTable
from kafkawire.ids import ZERO_TOPIC_ID, TopicId, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = TopicId(int=3)


class FakeReplica:
    topic_partition = T0
    topic_id = ID


def test_partition_is_held_until_it_is_removed_or_its_disk_fails() -> None:
    table, replica = ReplicaTable(), cast(Replica, FakeReplica())
    table.add(replica)
    assert (list(table), len(table), table.topic_names.get(ID)) == ([replica], 1, "t")
    table.set_offline([T0, T1])
    assert (len(table), table.is_offline(T0), table.is_offline(T1)) == (0, True, True)
    table.add(replica)
    assert not table.is_offline(T0)
    assert table.remove(T0) is replica
    assert table.remove(T1) is None
    assert not table.is_offline(T1)


def test_topic_id_is_known_while_a_replica_of_its_topic_is_held() -> None:
    table = ReplicaTable()
    first, second = FakeReplica(), FakeReplica()
    second.topic_partition = T1
    second.topic_id = ZERO_TOPIC_ID
    for replica in (first, second):
        table.add(cast(Replica, replica))
    table.assign_topic_id(cast(Replica, second), ID)
    table.remove(T0)
    assert table.topic_names.get(ID) == "t"
    table.set_offline([T1])
    assert ID not in table.topic_names
    assert table.topic_names.get(ZERO_TOPIC_ID) is None
