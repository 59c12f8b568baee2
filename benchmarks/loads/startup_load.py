"""Startup time of a broker, also with many segments, and its idle memory (edge)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.loads.broker import CLIENT_ID, CORRELATION_ID, broker_process
from benchmarks.loads.pipeline import connect, exchange
from benchmarks.loads.process import HOST
from benchmarks.loads.result import Figure, percentile
from kafkawire.apis import ApiKey
from kafkawire.headers import encode_request
from kafkawire.ids import LeaderEpoch, Offset, TopicPartition
from kafkawire.messages.api_versions import ApiVersionsRequest
from kafkawire.records import BatchBuilder, read_header
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.disk.layout import CLEAN_SHUTDOWN
from storage.log.log import Log

ROUNDS: Final = 7
API_VERSIONS_VERSION: Final = 3
PARTITION_COUNT: Final = 100
SEGMENTS_PER_PARTITION: Final = 100
NOW_MS: Final = 1_700_000_000_000


def measure(directory: Path) -> Iterator[Figure]:
    """Yield the time from spawning the process to its first response, and its idle memory."""
    ready_ms, rss_mb = [], []
    frame = encode_request(
        ApiKey.API_VERSIONS, API_VERSIONS_VERSION, CORRELATION_ID, CLIENT_ID, ApiVersionsRequest()
    )
    for number in range(ROUNDS):
        folder = directory / f"start-{number}"
        folder.mkdir()
        started_s = time.perf_counter()
        with broker_process(folder) as broker, connect(HOST, broker.port) as connection:
            exchange(connection, frame)
            ready_ms.append((time.perf_counter() - started_s) * 1000)
            rss_mb.append(broker.rss_bytes() / 1e6)
    yield Figure(
        name="ready to answer after the start of its process",
        unit="ms",
        value=percentile(ready_ms, 0.5),
        better="lower",
        goal=500,
    )
    yield Figure(
        name="idle resident memory",
        unit="MB",
        value=percentile(rss_mb, 0.5),
        better="lower",
        goal=60,
    )
    yield Figure(
        name=f"{PARTITION_COUNT * SEGMENTS_PER_PARTITION:,} segments of {PARTITION_COUNT} "
        "partitions loaded after an orderly stop",
        unit="s",
        value=_load_segments_s(directory / "segments"),
        better="lower",
        goal=5,
    )


def _load_segments_s(directory: Path) -> float:
    for number in range(PARTITION_COUNT):
        _write_segments(directory / f"bench-{number}", TopicPartition("bench", number))
    (directory / CLEAN_SHUTDOWN).touch()
    began_s = time.perf_counter()
    logs = Logs.open([directory], config_of=lambda _topic: LogConfig(), now_ms=NOW_MS)
    elapsed_s = time.perf_counter() - began_s
    logs.close()
    return elapsed_s


def _write_segments(directory: Path, partition: TopicPartition) -> None:
    directory.mkdir(parents=True)
    log = Log.open(
        directory,
        LogConfig(),
        topic_partition=partition,
        recovery_point=Offset(0),
        log_start_offset=Offset(0),
        was_clean=True,
        now_ms=NOW_MS,
    )
    for _ in range(SEGMENTS_PER_PARTITION):
        log.upkeep.roll(NOW_MS)
        builder = BatchBuilder()
        builder.append(NOW_MS, b"key", b"value")
        batch = builder.build()
        log.append_as_leader(memoryview(batch), read_header(batch), LeaderEpoch(0), NOW_MS)
    log.upkeep.close()
