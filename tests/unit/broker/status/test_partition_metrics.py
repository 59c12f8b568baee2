"""Metrics of partitions: `broker.status.partition_metrics`."""

import asyncio
import uuid
from pathlib import Path

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.purgatory import Purgatory
from broker.replication.replica_manager import ReplicaManager
from broker.status import partition_metrics
from broker.status.partition_metrics import STEP_SEGMENTS, partition_pieces
from kafkawire.ids import TopicPartition
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from tests.unit.broker.replicas import lead_alone, make_manager


def manager(directory: Path, count: int) -> ReplicaManager:
    """Return replicas of `count` partitions, led here."""
    logs = Logs.open([directory], config_of=lambda _topic: LogConfig(), now_ms=0)
    purgatory: Purgatory[TopicPartition] = Purgatory(asyncio.get_running_loop())
    replicas = make_manager(logs, MetadataCache(), purgatory)
    for index in range(count):
        log = logs.create(TopicPartition("t", index), LogConfig(), uuid.uuid4(), now_ms=0)
        lead_alone(replicas, log)
    return replicas


def values(text: str) -> dict[str, int]:
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {name: int(value) for name, value in lines}


async def test_leaders_and_followers_show_their_logs(tmp_path: Path) -> None:
    replicas = manager(tmp_path, 2)
    follower = replicas.table.by_key["t", 1]
    follower.resign()
    lag = ((2, 0), [(TopicPartition("t", 1), 5)])
    found = values("".join(partition_pieces(list(replicas), [lag])))
    assert found['kafka_log_log_numlogsegments{topic="t",partition="1"}'] == 1
    assert found['kafka_log_log_size{topic="t",partition="0"}'] == 0
    led = 'kafka_cluster_partition_{}{{topic="t",partition="{}"}}'.format
    assert found[led("replicascount", 0)] == found[led("insyncreplicascount", 0)] == 1
    assert found[led("underreplicated", 0)] == found[led("underminisr", 0)] == 0
    assert found[led("atminisr", 0)] == 1
    assert led("replicascount", 1) not in found
    fetcher = 'clientId="ReplicaFetcherThread-0-2",topic="t",partition="1"'
    assert found[f"kafka_server_fetcherlagmetrics_consumerlag{{{fetcher}}}"] == 5


async def test_a_step_looks_at_a_limited_number_of_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_metrics, "STEP_SEGMENTS", 3)
    monkeypatch.setattr(partition_metrics, "TEXT_LINES", 4)
    pieces = list(partition_pieces(list(manager(tmp_path, 8)), []))
    assert pieces[:2] == ["", ""]
    assert all(piece.count("\nkafka") <= 4 for piece in pieces)
    assert "".join(pieces).count("# TYPE kafka_log_log_size") == 1
    assert STEP_SEGMENTS > 3


async def test_partitions_beyond_the_limit_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_metrics, "MAX_PARTITIONS", 2)
    text = "".join(partition_pieces(list(manager(tmp_path, 3)), []))
    assert text.count("\nkafka_log_log_size{") == 2


async def test_replicas_count_in_the_traffic_of_their_topic(tmp_path: Path) -> None:
    table = manager(tmp_path, 2).table
    traffic = table.traffic.of("t")
    assert all(each.traffic is traffic for each in table)
    table.remove(("t", 0))
    table.set_offline([TopicPartition("t", 1)])
    assert (table.traffic.topics, table.offline_count) == ({}, 1)
