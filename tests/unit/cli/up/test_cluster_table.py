"""The table of a running cluster."""

from kafkawire.ids import BrokerId, TopicPartition
from ottla.cli.up.cluster_table import COLUMNS, Member, Observation, Usage, broker_rows, summary
from ottla.client.client_config import Address
from ottla.client.cluster_metadata import ClusterMetadata, PartitionMetadata, TopicMetadata

B1, B2 = BrokerId(1), BrokerId(2)
ORDERS = [TopicPartition("orders", number) for number in (0, 1)]
METADATA = ClusterMetadata(
    controller_id=B2,
    brokers={B1: Address("h", 1), B2: Address("h", 2)},
    topics={
        "orders": TopicMetadata(
            name="orders",
            partitions={
                0: PartitionMetadata(partition=0, leader=B1, replicas=(B1, B2), isr=(B1,)),
                1: PartitionMetadata(partition=1, leader=B2, replicas=(B2, B1), isr=(B2, B1)),
            },
        )
    },
)
MEMBERS = [
    Member(1, "broker-1", "h:1", 41, is_registered=True),
    Member(2, "broker-2", "h:2", 42, is_registered=True),
]
BEFORE = Observation(10.0, METADATA, dict.fromkeys(ORDERS, 100), {"broker-1": Usage(1.0, 0)})
NOW = Observation(
    12.0, METADATA, {ORDERS[0]: 300, ORDERS[1]: 100}, {"broker-1": Usage(1.5, 30_000_000)}
)


def test_table_has_a_row_per_broker() -> None:
    first, second = broker_rows(MEMBERS, NOW, BEFORE)
    assert dict(zip(COLUMNS, first, strict=True)) == {
        "broker": 1,
        "port": "1",
        "process": "41",
        "role": "",
        "leaders": 1,
        "replicas": 2,
        "lagging": 0,
        "records/s": 100,
        "cpu %": 25,
        "MB": 30,
    }
    assert second[3:8] == ["controller", 1, 2, 1, 0]


def test_first_observation_has_no_rates() -> None:
    assert [row[7:9] for row in broker_rows(MEMBERS, NOW, None)] == [[0, 0], [0, 0]]


def test_role_shows_brokers_that_are_down_or_absent() -> None:
    down = Member(1, "broker-1", "h:1", None, is_registered=False)
    absent = Member(2, "broker-2", "h:2", 42, is_registered=False)
    rows = broker_rows([down, absent], NOW, BEFORE)
    assert [row[2:4] for row in rows] == [["", "down"], ["42", "absent"]]


def test_summary_counts_lagging_and_leaderless_partitions() -> None:
    assert summary(NOW, BEFORE) == (
        "1 topics, 2 partitions, 1 under-replicated, 0 without a leader, 100 records/s"
    )


def test_observation_without_metadata_has_no_counts() -> None:
    silent = Observation(12.0, None, {}, {})
    assert summary(silent, BEFORE) == "no broker responds"
    assert broker_rows(MEMBERS, silent, BEFORE)[0][3:8] == ["", 0, 0, 0, 0]
