"""Invalid requests are refused with Kafka's error codes, and change nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from ottla.client.errors import BrokerError
from tests.conftest import BrokerProcess
from tests.harness.cluster import ClusterProcesses
from tests.harness.observer import Observer
from tests.ports import free_port


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("cluster"), broker_count=2) as running:
        yield running


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (ottla.NewTopic("big", 1, 3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (ottla.NewTopic("none", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (ottla.NewTopic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ottla.NewTopic("odd", 1, 1, {"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (ottla.NewTopic("far", assignment={0: (1, 9)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (ottla.NewTopic("twice", assignment={0: (1, 1)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (ottla.NewTopic("gap", assignment={1: (1, 2)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
    ids=lambda value: value.name if isinstance(value, ottla.NewTopic) else "",
)
async def test_invalid_topics_are_refused(
    cluster: ClusterProcesses, topic: ottla.NewTopic, code: ErrorCode
) -> None:
    async with ottla.Admin(cluster.bootstrap) as admin, Observer(cluster.connect) as observer:
        with pytest.raises(BrokerError) as refused:
            await admin.create_topics([topic])
        assert refused.value.code == code
        assert await observer.partitions() == {}


async def test_moves_to_unknown_brokers_are_refused(cluster: ClusterProcesses) -> None:
    async with ottla.Admin(cluster.bootstrap) as admin, Observer(cluster.connect) as observer:
        await admin.create_topics([ottla.NewTopic("moved", 1, 2)])
        before = await observer.partitions()
        for replicas, code in (
            ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
            (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ):
            with pytest.raises(BrokerError) as refused:
                await admin.alter_reassignments({TopicPartition("moved", 0): replicas})
            assert refused.value.code == code
        with pytest.raises(BrokerError) as refused:
            await admin.alter_reassignments({TopicPartition("nowhere", 0): [1]})
        assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        after = await observer.partitions()
        assert {where: each.replicas for where, each in after.items()} == {
            where: each.replicas for where, each in before.items()
        }
        await admin.delete_topics(["moved"])
        await observer.wait_for(observer.partitions, lambda found: found == {})


def start_extra_broker(cluster: ClusterProcesses, directory: Path, broker_id: int) -> BrokerProcess:
    return BrokerProcess(
        directory,
        {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
            "zookeeper.connect": cluster.connect,
        },
    )


def error_of_failed_start(broker: BrokerProcess) -> str:
    reason = str(broker.wait_for_event("broker.not_started")["error"])
    assert broker.process.wait(20) == 1
    broker.stop()
    return reason


def test_broker_with_a_taken_id_does_not_start(cluster: ClusterProcesses, tmp_path: Path) -> None:
    extra = start_extra_broker(cluster, tmp_path / "extra", broker_id=1)
    assert "broker 1 is registered already" in error_of_failed_start(extra)


def test_broker_with_a_disk_of_another_cluster_does_not_start(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    directory = tmp_path / "extra"
    directory.mkdir()
    (directory / "meta.properties").write_text(
        "version=0\nbroker.id=7\ncluster.id=AnotherClusterAltogether\n"
    )
    extra = start_extra_broker(cluster, directory, broker_id=7)
    assert "AnotherClusterAltogether" in error_of_failed_start(extra)
