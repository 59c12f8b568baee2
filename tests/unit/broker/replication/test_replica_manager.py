"""Error codes of `broker.replication.replica_manager` for a failed append."""

import asyncio
import uuid
from pathlib import Path

import pytest

from broker.cluster.metadata_cache import MetadataCache
from broker.purgatory import Purgatory
from kafkawire.errors import ApiError, ErrorCode
from kafkawire.ids import TopicPartition
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from tests.unit.broker.replicas import NOW_MS, PARTITION, lead_alone, make_manager
from tests.unit.storage.produced_batches import produced


async def test_leader_that_may_have_been_deposed_does_not_report_a_sequence_gap(
    tmp_path: Path,
) -> None:
    is_in_doubt = False
    logs = Logs.open([tmp_path], config_of=lambda _topic: LogConfig(), now_ms=NOW_MS)
    purgatory = Purgatory[TopicPartition](asyncio.get_running_loop())
    replicas = make_manager(logs, MetadataCache(), purgatory, lambda: is_in_doubt)
    lead_alone(replicas, logs.create(PARTITION, LogConfig(), uuid.uuid4(), now_ms=NOW_MS))

    def append(base_sequence: int, *, epoch: int = 1) -> ApiError:
        batch = memoryview(produced(7, base_sequence, epoch=epoch))
        with pytest.raises(ApiError) as refused:
            replicas.append(PARTITION, batch, 1, NOW_MS)
        return refused.value

    replicas.append(PARTITION, memoryview(produced(7, 0, epoch=1)), 1, NOW_MS)
    assert append(5).code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    is_in_doubt = True
    reported = append(5)
    assert reported.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert "sequence 5" in str(reported)
    assert append(1, epoch=0).code is ErrorCode.INVALID_PRODUCER_EPOCH
