"""Error codes of `broker.replication.replica_manager` for a failed append."""

import asyncio
from pathlib import Path

from broker.cluster.metadata_cache import MetadataCache
from broker.purgatory import Purgatory
from broker.replication.replica_manager import ReplicaManager
from kafkawire.errors import ErrorCode
from kafkawire.ids import TopicPartition
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from tests.unit.broker.replicas import B1, NOW_MS


async def test_leader_that_may_have_been_deposed_does_not_report_a_sequence_gap(
    tmp_path: Path,
) -> None:
    loop, is_in_touch = asyncio.get_running_loop(), True
    replicas = ReplicaManager(
        broker_id=B1,
        logs=Logs.open([tmp_path], config_of=lambda _topic: LogConfig(), now_ms=NOW_MS),
        metadata=MetadataCache(),
        purgatory=Purgatory[TopicPartition](loop),
        loop=loop,
        now_ms=lambda: NOW_MS,
        log_config_of=lambda _topic: LogConfig(),
        is_in_touch=lambda: is_in_touch,
    )
    gap, zombie = OutOfOrderSequenceError("5 comes next"), InvalidProducerEpochError("old")
    key = ("t", 0)
    assert replicas.failed(key, gap).code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    is_in_touch = False
    reported = replicas.failed(key, gap)
    assert reported.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert "5 comes next" in str(reported)
    assert replicas.failed(key, zombie).code is ErrorCode.INVALID_PRODUCER_EPOCH
