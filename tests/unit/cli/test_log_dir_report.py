"""Log directories become rows and JSON."""

from typing import Any

from kafkawire.errors import ErrorCode
from kafkawire.ids import BrokerId, TopicPartition
from ottla.cli.log_dir_report import to_json, to_replica_rows, to_summary_rows
from ottla.client.admin_model import LogDirectory, ReplicaLog
from ottla.client.errors import BrokerError


def replica(partition: int, size_bytes: int, *, is_future: bool = False) -> ReplicaLog:
    where = TopicPartition("t", partition)
    return ReplicaLog(
        topic_partition=where, size_bytes=size_bytes, offset_lag=3, is_future=is_future
    )


FULL = LogDirectory(
    broker_id=BrokerId(2),
    path="/b",
    total_bytes=5_000_000,
    usable_bytes=1_000,
    replicas=(replica(1, 700, is_future=True), replica(0, 500)),
)
FAILED = LogDirectory(
    broker_id=BrokerId(3),
    path="/c",
    total_bytes=-1,
    usable_bytes=-1,
    replicas=(),
    error=BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, "log directory /c"),
)
OLD = LogDirectory(broker_id=BrokerId(1), path="/a", total_bytes=-1, usable_bytes=-1, replicas=())


def test_rows_are_sorted_by_broker_and_partition() -> None:
    assert to_summary_rows([FAILED, FULL, OLD]) == [
        [1, "/a", 0, "0 B", "-", "-", "online"],
        [2, "/b", 2, "1.2 kB", "1.0 kB", "5.0 MB", "online"],
        [3, "/c", "-", "-", "-", "-", "KAFKA_STORAGE_ERROR"],
    ]
    assert to_replica_rows([FULL, OLD]) == [
        [2, "/b", "t", 0, 500, 3, ""],
        [2, "/b", "t", 1, 700, 3, "yes"],
    ]


def test_json_has_every_replica_and_null_for_unknown_sizes() -> None:
    directories: Any = to_json([FULL, OLD, FAILED])
    old, full, failed = directories
    assert (full["error"], failed["error"]) == (None, "KAFKA_STORAGE_ERROR")
    assert old == {
        "broker": 1,
        "directory": "/a",
        "error": None,
        "total_bytes": None,
        "usable_bytes": None,
        "replicas": [],
    }
    assert full["replicas"][0] == {
        "topic": "t",
        "partition": 1,
        "size_bytes": 700,
        "offset_lag": 3,
        "is_future": True,
    }
