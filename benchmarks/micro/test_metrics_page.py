"""The metrics page of a broker with 1,000 partitions and 100 groups: time in the event loop.

Expected: some 16,000 lines at about a microsecond each, so less than 20 ms in all, and less than
2 ms in each step. Beside it, the same number of samples in prometheus_client.
Run: `python -m benchmarks.micro.test_metrics_page`.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from broker.cluster.metadata_cache import MetadataCache
from broker.groups.group import Group
from broker.groups.rebalance import GroupLimits
from broker.handlers.handler_table import MODULES
from broker.network.metrics import NetworkMetrics
from broker.purgatory import Purgatory
from broker.replication.replica_manager import ReplicaManager
from broker.status.group_metrics import GroupsShown, collect_groups, group_pieces
from broker.status.partition_metrics import partition_pieces
from broker.status.request_metrics import request_pieces
from broker.status.topic_metrics import topic_pieces
from kafkawire.group_records import CommittedOffset
from kafkawire.ids import TopicPartition
from monitoring.process_metrics import process_pieces
from monitoring.samples import KEPT
from monitoring.status_server import ends_turn
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from tests.unit.broker.replicas import lead_alone, make_manager

TOPIC_COUNT: Final = 100
PARTITIONS_PER_TOPIC: Final = 10
GROUP_COUNT: Final = 100
OFFSETS_PER_GROUP: Final = 10
API_COUNT: Final = 20
"""APIs that clients of a broker use."""
ROUNDS: Final = 20
LIBRARY_ROUNDS: Final = 5
FAMILY_COUNT: Final = 12
MAX_TOTAL_MS: Final = 20
MAX_STEP_MS: Final = 2
LIMITS: Final = GroupLimits(max_size=10, initial_rebalance_delay_ms=0)


class Bench:
    """The parts of a broker that the page shows."""

    def __init__(self, directory: Path, partition_count: int, group_count: int) -> None:
        loop = asyncio.get_running_loop()
        logs = Logs.open([directory], config_of=lambda _topic: LogConfig(), now_ms=0)
        purgatory: Purgatory[TopicPartition] = Purgatory(loop)
        self.replicas: ReplicaManager = make_manager(logs, MetadataCache(), purgatory)
        names = [
            TopicPartition(f"topic-{number // PARTITIONS_PER_TOPIC}", number % PARTITIONS_PER_TOPIC)
            for number in range(partition_count)
        ]
        for name in names:
            lead_alone(self.replicas, logs.create(name, LogConfig(), uuid.uuid4(), now_ms=0))
        self.groups: list[Group] = []
        for number in range(group_count):
            group = Group(f"group-{number}", LIMITS)
            for each in range(OFFSETS_PER_GROUP):
                partition = names[(number * OFFSETS_PER_GROUP + each) % len(names)]
                group.offsets.restore(partition, CommittedOffset(7, -1, "", 0), 0)
            self.groups.append(group)
        self.ends = dict.fromkeys(names, 11)
        self.network = NetworkMetrics()
        for key in list(MODULES)[:API_COUNT]:
            metrics = self.network.requests[key]
            for number in range(KEPT):
                metrics.on_answered(number / 1e6)
                metrics.total.add(number / 1e3)

    def pieces(self) -> Iterator[str]:
        """Yield the page in the pieces of the broker."""
        yield from topic_pieces(self.replicas.table.traffic)
        yield from partition_pieces(list(self.replicas), self.replicas.fetcher_lags())
        shown = GroupsShown()
        for _ in collect_groups(self.groups, shown):
            yield ""
        yield from group_pieces(shown, self.ends)
        yield from request_pieces(self.network.requests)
        yield from process_pieces()


def step_times_ms(pieces: Iterator[str]) -> tuple[list[float], str]:
    """Return the time of each turn of the event loop, encoding included, and the whole text."""
    times: list[float] = []
    texts: list[bytes] = []
    size_bytes, began_s = 0, time.thread_time()
    for piece in pieces:
        texts.append(piece.encode(errors="replace"))
        size_bytes += len(texts[-1])
        if ends_turn(piece, size_bytes):
            times.append((time.thread_time() - began_s) * 1000)
            size_bytes, began_s = 0, time.thread_time()
    times.append((time.thread_time() - began_s) * 1000)
    return times, b"".join(texts).decode()


async def test_the_measured_page_holds_every_partition_and_group(tmp_path: Path) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    bench = Bench(tmp_path, 20, 4)
    _, text = step_times_ms(bench.pieces())
    assert text.count("\nkafka_log_log_size{") == 20
    assert text.count("\nkafka_consumergroup_lag{") == 40
    assert (
        'kafka_consumergroup_lag{consumergroup="group-0",topic="topic-0",partition="0"} 4' in text
    )


async def main() -> int:
    """Print the best of several rounds; return 1 if a limit is exceeded."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), TOPIC_COUNT * PARTITIONS_PER_TOPIC, GROUP_COUNT)
        gc.freeze()
        totals: list[float] = []
        longest: list[float] = []
        for _ in range(ROUNDS):
            times, text = step_times_ms(bench.pieces())
            totals.append(sum(times))
            longest.append(max(times))
    line_count = sum(not line.startswith("#") for line in text.splitlines())
    total_ms, step_ms = min(totals), min(longest)
    sys.stdout.write(
        f"{line_count} samples, {len(text)} bytes, {len(times)} steps: "
        f"{total_ms:.1f} ms in all (median {sorted(totals)[ROUNDS // 2]:.1f}), "
        f"longest step {step_ms:.2f} ms (median {sorted(longest)[ROUNDS // 2]:.2f})\n"
    )
    client_ms = prometheus_client_ms(line_count)
    sys.stdout.write(f"prometheus_client, {line_count} samples in one step: {client_ms:.1f} ms\n")
    return int(total_ms > MAX_TOTAL_MS or step_ms > MAX_STEP_MS)


class LibraryPartitions(Collector):
    """As many samples with two labels, for prometheus_client."""

    def __init__(self, sample_count: int) -> None:
        self._sample_count = sample_count

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        for family_number in range(FAMILY_COUNT):
            family = GaugeMetricFamily(f"f{family_number}", "x", labels=["topic", "partition"])
            for number in range(self._sample_count // FAMILY_COUNT):
                family.add_metric([f"topic-{number // 10}", str(number % 10)], number)
            yield family


def prometheus_client_ms(sample_count: int) -> float:
    """Return the time of the library for as many samples."""
    registry = CollectorRegistry()
    registry.register(LibraryPartitions(sample_count))
    best_ms = float("inf")
    for _ in range(LIBRARY_ROUNDS):
        began_s = time.thread_time()
        generate_latest(registry)
        best_ms = min(best_ms, (time.thread_time() - began_s) * 1000)
    return best_ms


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
