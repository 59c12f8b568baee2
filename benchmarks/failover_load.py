"""Downtime of partitions after the death of their leader, and the cost of an idle cluster.

The broker with the controller gets `kill -9`. The load measures the time until each partition that
it led has acknowledged a write (acks=all) of a running producer. The stages come from the
coordinator's nodes: the end of the registration, the election of the next controller, and the new
leaders of the first and the last partition. Kind: edge.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Final

import ottla
from benchmarks.loads.cluster import Nodes, PartitionNode, RunningCluster
from benchmarks.loads.result import Figure, percentile
from kafkawire.ids import TopicPartition
from ottla.client.errors import OttlaError

KILLS: Final = int(os.environ.get("OTTLA_BENCH_KILLS", "10"))
HANGS: Final = max(2, KILLS // 5)
PARTITIONS: Final = int(os.environ.get("OTTLA_BENCH_PARTITIONS", "1000"))
REPLICAS: Final = 3
TOPIC: Final = "bench-failover"
SESSION_TIMEOUT_MS: Final = 1_000
"""The session timeout in the brokers' configuration by `ottla up`."""
IDLE_S: Final = 10.0
REST_S: Final = 2.0
MAX_ELECTION_ROUNDS: Final = 20


@dataclass(frozen=True, slots=True)
class Stages:
    """One failover, in milliseconds: its consecutive stages, and the total."""

    detection: float
    election: float
    reload: float
    writes: float
    propagation: float
    total: float


def measure(directory: Path) -> Iterator[Figure]:
    """Yield the figures of a cluster of three brokers with many partitions."""
    with RunningCluster(directory / "cluster") as cluster:
        yield _figure("three brokers and a coordinator, ready", cluster.ready_s * 1000, None)
        yield from asyncio.run(_measure(cluster))


async def _measure(cluster: RunningCluster) -> list[Figure]:
    figures = []
    async with Nodes(cluster) as nodes:
        created_ms = await _create_topic(cluster, nodes)
        figures.append(
            _figure(f"topic of {PARTITIONS:,} partitions x {REPLICAS} created", created_ms, 5_000)
        )
        figures += await _idle(cluster)
        kills = [await _fail_over(cluster, nodes, _kill) for _ in range(KILLS)]
        figures += _failover_figures("kill -9 of the controller's broker", kills, 300, 1_000)
        hangs = [await _fail_over(cluster, nodes, _hang) for _ in range(HANGS)]
        limit_ms = SESSION_TIMEOUT_MS + 500
        figures += _failover_figures("SIGSTOP of the controller's broker", hangs, limit_ms, None)
    return figures


async def _create_topic(cluster: RunningCluster, nodes: Nodes) -> float:
    """Create the topic; return the time until every partition has a leader and all replicas."""
    async with ottla.Admin(cluster.bootstrap) as admin:
        began_s = time.perf_counter()
        await admin.create_topics([ottla.NewTopic(TOPIC, PARTITIONS, REPLICAS)])
        await nodes.wait_until_whole(TOPIC, PARTITIONS, REPLICAS)
        return (time.perf_counter() - began_s) * 1000


async def _idle(cluster: RunningCluster) -> list[Figure]:
    # Wait until the work after the creation is done, before the measurement.
    await asyncio.sleep(REST_S)
    before = {number: cluster.cpu_s(number) for number in cluster.numbers}
    await asyncio.sleep(IDLE_S)
    used = [100 * (cluster.cpu_s(number) - before[number]) / IDLE_S for number in cluster.numbers]
    return [
        Figure(
            name=f"idle broker of 3 with {PARTITIONS:,} partitions, share of a core",
            unit="%",
            value=max(used),
            better="lower",
            goal=5,
            note="the busiest",
        )
    ]


async def _fail_over(
    cluster: RunningCluster,
    nodes: Nodes,
    trouble: Callable[[RunningCluster, int], Callable[[], None]],
) -> Stages:
    """Cause `trouble` for the controller's broker, return the stages, and restore the cluster."""
    await _spread_leaders(cluster, nodes)
    victim, _since = await nodes.controller()
    led = [
        where
        for where, node in (await nodes.partitions(TOPIC, PARTITIONS)).items()
        if node.leader == victim
    ]
    gone: asyncio.Future[float] = asyncio.get_running_loop().create_future()
    async with _warm_producer(cluster, led) as producer:
        await nodes.client.exists(
            f"/brokers/ids/{victim}", watch=lambda _event: gone.set_result(time.time() * 1000)
        )
        began_ms = time.time() * 1000
        mend = trouble(cluster, victim)
        acknowledged_ms = await _write_everywhere(producer, led)
        gone_ms = await gone
    _controller, elected_ms = await nodes.controller()
    states = await nodes.partitions(TOPIC, PARTITIONS)
    mend()
    await nodes.wait_until_whole(TOPIC, PARTITIONS, REPLICAS)
    return _stages(began_ms, gone_ms, elected_ms, [states[each] for each in led], acknowledged_ms)


def _kill(cluster: RunningCluster, victim: int) -> Callable[[], None]:
    cluster.send(victim, signal.SIGKILL)
    # `ottla up` restarts it.
    return lambda: None


def _hang(cluster: RunningCluster, victim: int) -> Callable[[], None]:
    cluster.send(victim, signal.SIGSTOP)
    return lambda: cluster.send(victim, signal.SIGCONT)


def _stages(
    began_ms: float,
    gone_ms: float,
    elected_ms: float,
    moved: list[PartitionNode],
    acknowledged_ms: float,
) -> Stages:
    first_ms = min(node.written_ms for node in moved)
    last_ms = max(node.written_ms for node in moved)
    return Stages(
        detection=gone_ms - began_ms,
        election=elected_ms - gone_ms,
        reload=first_ms - elected_ms,
        writes=last_ms - first_ms,
        propagation=acknowledged_ms - last_ms,
        total=acknowledged_ms - began_ms,
    )


@asynccontextmanager
async def _warm_producer(
    cluster: RunningCluster, led: list[TopicPartition]
) -> AsyncIterator[ottla.Producer]:
    """Yield a producer that has written to these partitions already."""
    async with ottla.Producer(
        cluster.bootstrap,
        acks="all",
        retry_backoff_ms=10,
        retry_backoff_max_ms=50,
        # The connections of a hanging broker stay open, so only this timeout makes a producer move.
        request_timeout_ms=250,
    ) as producer:
        await _write_everywhere(producer, led)
        yield producer


async def _write_everywhere(producer: ottla.Producer, led: list[TopicPartition]) -> float:
    """Write a record to each partition; return the time of the last acknowledgement (ms)."""
    deliveries = [
        await producer.send(where.topic, b"x" * 100, partition=where.partition) for where in led
    ]
    await asyncio.gather(*deliveries)
    return time.time() * 1000


async def _spread_leaders(cluster: RunningCluster, nodes: Nodes) -> Mapping[TopicPartition, object]:
    """Elect every partition's preferred leader, so that each broker leads a third."""
    async with ottla.Admin(cluster.bootstrap) as admin:
        for _ in range(MAX_ELECTION_ROUNDS):
            try:
                await admin.elect_leaders()
            except OttlaError:
                # A restarted broker may not be in sync everywhere yet.
                await asyncio.sleep(REST_S / 4)
            else:
                break
    return await nodes.wait_until_whole(TOPIC, PARTITIONS, REPLICAS)


def _failover_figures(
    name: str, runs: list[Stages], median_goal: float, p99_goal: float | None
) -> list[Figure]:
    totals = [run.total for run in runs]
    note = f"{len(runs)} times, {PARTITIONS:,} partitions x {REPLICAS}"
    figures = [
        Figure(
            name=f"{name}: all its partitions written again, p{share}",
            unit="ms",
            value=percentile(totals, share / 100),
            better="lower",
            goal=goal,
            note=note,
        )
        for share, goal in ((50, median_goal), (99, p99_goal))
    ]
    for column, stage in enumerate(fields(Stages)[:-1]):
        values = [astuple(run)[column] for run in runs]
        figures.append(_figure(f"{name}: {stage.name}, p50", percentile(values, 0.5), None))
    return figures


def _figure(name: str, value_ms: float, goal: float | None) -> Figure:
    return Figure(name=name, unit="ms", value=value_ms, better="lower", goal=goal)
