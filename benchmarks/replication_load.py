"""acks=all with three replicas: rate, latency, CPU, and a follower's catch-up rate (edge).

The reference is the same frames to the same leader with acks=1, so that the ratio is the cost of
waiting for followers. All brokers share the machine with the generator.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import ottla
from benchmarks.loads.broker import produce_answer_bytes, produce_frame
from benchmarks.loads.cluster import Nodes, RunningCluster
from benchmarks.loads.pipeline import measure_round_trips, run_pipeline
from benchmarks.loads.process import HOST
from benchmarks.loads.result import Figure, alternate, percentile
from kafkawire.ids import TopicPartition

ROUNDS: Final = 3
CONNECTIONS: Final = 5
IN_FLIGHT: Final = 5
LARGE_BYTES: Final = 64 * 1024
LARGE_REQUESTS: Final = 600
SMALL_BYTES: Final = 1024
ROUND_TRIPS: Final = 2_000
CATCH_UP_REQUESTS: Final = 1_500
REPLICAS: Final = 3
TOPIC: Final = "bench-replication"
ACKS_ALL: Final = -1
LOOK_INTERVAL_S: Final = 0.01
DEADLINE_S: Final = 60.0


def measure(directory: Path) -> Iterator[Figure]:
    """Yield the figures of one partition with three replicas."""
    with RunningCluster(directory / "cluster") as cluster:
        leader = asyncio.run(_create_topic(cluster))
        port = int(cluster.addresses[leader - 1].rpartition(":")[2])
        yield from _throughput(cluster, port)
        yield from _latency(port)
        yield asyncio.run(_catch_up(cluster, port, leader))


async def _create_topic(cluster: RunningCluster) -> int:
    """Create the topic, and return its leader."""
    async with ottla.Admin(cluster.bootstrap) as admin, Nodes(cluster) as nodes:
        await admin.create_topics([ottla.NewTopic(TOPIC, 1, REPLICAS)])
        states = await nodes.wait_until_whole(TOPIC, 1, REPLICAS)
    return states[TopicPartition(TOPIC, 0)].leader


def _throughput(cluster: RunningCluster, port: int) -> Iterator[Figure]:
    cpu_s_per_gb: list[float] = []
    frames = {acks: produce_frame(TOPIC, 0, LARGE_BYTES, acks=acks) for acks in (1, ACKS_ALL)}
    answer_bytes = produce_answer_bytes(port, frames[1])

    def mb_s(acks: int) -> float:
        before_s = sum(map(cluster.cpu_s, cluster.numbers))
        result = run_pipeline(
            HOST,
            port,
            [frames[acks]],
            request_count=LARGE_REQUESTS,
            connection_count=CONNECTIONS,
            in_flight=IN_FLIGHT,
            answer_bytes=answer_bytes,
        )
        size_bytes = result.request_count * LARGE_BYTES
        if acks == ACKS_ALL:
            used_s = sum(map(cluster.cpu_s, cluster.numbers)) - before_s
            cpu_s_per_gb.append(used_s / size_bytes * 1e9)
        return size_bytes / result.elapsed_s / 1e6

    paired = alternate(lambda: mb_s(ACKS_ALL), lambda: mb_s(1), rounds=ROUNDS)
    yield Figure(
        name="acks=all with 3 replicas, 64 KiB batches",
        unit="MB/s",
        value=paired.ours,
        reference_name="acks=1, same partition",
        reference=paired.reference,
        better="higher",
        note=f"{CONNECTIONS} connections x {IN_FLIGHT} in flight",
    )
    yield Figure(
        name="acks=all with 3 replicas, CPU of all brokers per GB",
        unit="s",
        value=percentile(cpu_s_per_gb, 0.5),
        better="lower",
    )


def _latency(port: int) -> Iterator[Figure]:
    times_us = {}
    for acks in (1, ACKS_ALL):
        frame = produce_frame(TOPIC, 0, SMALL_BYTES, acks=acks)
        answer_bytes = produce_answer_bytes(port, frame)
        times_us[acks] = measure_round_trips(HOST, port, frame, answer_bytes, ROUND_TRIPS)
    for share in (0.5, 0.99):
        yield Figure(
            name=f"unloaded acks=all with 3 replicas, 1 KiB, p{share * 100:.0f}",
            unit="us",
            value=percentile(times_us[ACKS_ALL], share),
            reference_name="acks=1, same partition",
            reference=percentile(times_us[1], share),
            better="lower",
        )


async def _catch_up(cluster: RunningCluster, port: int, leader: int) -> Figure:
    """Pause one follower during many writes, and measure the rate of its catch-up."""
    follower = next(number for number in cluster.numbers if number != leader)
    where = TopicPartition(TOPIC, 0)
    frame = produce_frame(TOPIC, 0, LARGE_BYTES)
    answer_bytes = produce_answer_bytes(port, frame)
    async with Nodes(cluster) as nodes:
        cluster.send(follower, signal.SIGSTOP)
        try:
            await _wait_for_isr(nodes, where, REPLICAS - 1)
            await asyncio.to_thread(
                run_pipeline,
                HOST,
                port,
                [frame],
                request_count=CATCH_UP_REQUESTS,
                connection_count=CONNECTIONS,
                in_flight=IN_FLIGHT,
                answer_bytes=answer_bytes,
            )
        finally:
            cluster.send(follower, signal.SIGCONT)
        began_s = time.perf_counter()
        await _wait_for_isr(nodes, where, REPLICAS)
        elapsed_s = time.perf_counter() - began_s
    return Figure(
        name="follower catches up after a pause",
        unit="MB/s",
        value=CATCH_UP_REQUESTS * CONNECTIONS * LARGE_BYTES / elapsed_s / 1e6,
        better="higher",
        note="from SIGCONT to its place in the ISR",
    )


async def _wait_for_isr(nodes: Nodes, where: TopicPartition, size: int) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline_s:
        found = await nodes.partitions(where.topic, 1)
        if where in found and len(found[where].isr) == size:
            return
        await asyncio.sleep(LOOK_INTERVAL_S)
    raise RuntimeError(f"the ISR of {where} did not get {size} members")
