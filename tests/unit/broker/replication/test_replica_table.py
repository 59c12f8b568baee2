"""Which partitions are here: `broker.replication.replica_table`."""

from typing import cast

from broker.replication.replica import Replica
from broker.replication.replica_table import ReplicaTable
from kafkawire.ids import TopicId, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = TopicId(int=3)


class FakeReplica:
    topic_partition = T0
    topic_id = ID


def test_a_partition_is_held_until_it_is_removed_or_its_disk_fails() -> None:
    table, replica = ReplicaTable(), cast(Replica, FakeReplica())
    table.add(replica)
    assert (list(table), len(table), table.topic_names) == ([replica], 1, {ID: "t"})
    table.set_offline([T0, T1])
    assert (len(table), table.is_offline(T0), table.is_offline(T1)) == (0, True, True)
    table.add(replica)
    assert not table.is_offline(T0)
    assert table.remove(T0) is replica
    assert table.remove(T1) is None
    assert not table.is_offline(T1)
