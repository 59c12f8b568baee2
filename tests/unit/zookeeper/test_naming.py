"""Names of partitions in Jafka's layout, from metadata that may be old."""

from types import SimpleNamespace

import pytest

from kafkawire.ids import TopicPartition
from ottla.zookeeper.assignment import Slot
from ottla.zookeeper.naming import JafkaNaming

OLD, NEW, MISSING = Slot("t", "1-0"), Slot("t", "1-1"), Slot("t", "9-0")


class FakeCluster:
    """Metadata of topic "t" that only a refresh brings up to date, and brokers that are late."""

    def __init__(self, late: int) -> None:
        self.backoff = SimpleNamespace(delay_s=lambda _count: 0)
        self.partition_count = 1
        self.late = late
        self.refresh_count = 0

    async def refresh(self) -> None:
        self.refresh_count += 1
        if self.refresh_count > self.late:
            self.partition_count = 2

    async def topic(self, _name: str, _timeout_s: float) -> SimpleNamespace:
        replicas = SimpleNamespace(replicas=(1,))
        return SimpleNamespace(partitions=dict.fromkeys(range(self.partition_count), replicas))


@pytest.mark.parametrize("late", [0, 1])
async def test_a_partition_that_was_added_to_a_known_topic_is_found(late: int) -> None:
    cluster = FakeCluster(late)
    naming = JafkaNaming(cluster, 1)  # type: ignore[arg-type]
    await naming.load([OLD])
    assert cluster.refresh_count == 0
    await naming.load([OLD, NEW])
    assert naming.partition(NEW) == TopicPartition("t", 1)
    assert naming.slot(TopicPartition("t", 1)) == NEW
    assert cluster.refresh_count == late + 1


async def test_a_name_that_no_partition_has_stays_unknown() -> None:
    naming = JafkaNaming(FakeCluster(0), 1)  # type: ignore[arg-type]
    await naming.load([OLD, MISSING])
    assert naming.partition(MISSING) is None
    assert naming.partition(OLD) == TopicPartition("t", 0)
