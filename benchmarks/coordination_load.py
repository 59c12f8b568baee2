"""The coordinator beside a real ZooKeeper: same client, same minute, both syncing (edge).

Expected: a change costs us 15-25 us of Python and shares its fdatasync with all waiting changes, so
the rate is tens of thousands per second. A single change costs one fdatasync and two thread hops,
0.2-0.4 ms.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvloop

from benchmarks.coordination_servers import Running, coordinator, has_zookeeper, zookeeper
from benchmarks.loads.result import Figure, Paired, alternate, percentile
from coordination.client import Client, ops
from coordination.protocol.messages import OPEN_ACL
from coordination.server.disk.data_dir import DataDir
from coordination.server.disk.snapshotter import take_snapshot
from coordination.server.disk.wal_writer import WalWriter
from coordination.server.state.txns import CreateTxn, Entry, SetDataTxn

ROUNDS: Final = 3
PIPELINED: Final = 5000
SINGLES: Final = 1000
WATCHERS: Final = 1000
PARTITIONS: Final = 1000
PER_MULTI: Final = 100
VALUE: Final = b"x" * 100
STATE: Final = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1,2]}'
NODES: Final = 50_000
TXNS: Final = 100_000
REFERENCE: Final = "ZooKeeper 3.8"

Work = Callable[[Client, str], Awaitable[float]]


class Measured(NamedTuple):
    """A workload for both servers, and the form of its report."""

    name: str
    unit: str
    better: Any
    goal: float | None
    work: Work


def measure(directory: Path) -> Iterator[Figure]:
    """Yield the figures; a figure with a reference needs an installed ZooKeeper."""
    yield from _start(directory)
    if not has_zookeeper():
        return
    with coordinator(directory / "ours") as ours, zookeeper(directory / "theirs") as theirs:
        # The first run warms up both servers, which matters most for the JVM.
        for measured in MEASURED:
            _run(measured.work, ours), _run(measured.work, theirs)
        for measured in MEASURED:
            yield _figure(measured, _alternated(measured.work, ours, theirs))


def _alternated(work: Work, ours: Running, theirs: Running) -> Paired:
    return alternate(lambda: _run(work, ours), lambda: _run(work, theirs), rounds=ROUNDS)


def _figure(measured: Measured, paired: Paired) -> Figure:
    return Figure(
        name=measured.name,
        unit=measured.unit,
        value=paired.ours,
        reference_name=REFERENCE,
        reference=paired.reference,
        better=measured.better,
        goal=measured.goal,
    )


def _run(work: Work, server: Running) -> float:
    async def run() -> float:
        async with Client(server.address, session_timeout_ms=30_000) as client:
            base = f"/bench-{time.monotonic_ns()}"
            await client.create(base)
            return await work(client, base)

    return uvloop.run(run())


async def _creates(client: Client, base: str) -> float:
    begin_s = time.perf_counter()
    await asyncio.gather(*[client.create(f"{base}/{n}", VALUE) for n in range(PIPELINED)])
    return PIPELINED / (time.perf_counter() - begin_s)


async def _sets(client: Client, base: str) -> float:
    await asyncio.gather(*[client.create(f"{base}/{n}", VALUE) for n in range(100)])
    begin_s = time.perf_counter()
    await asyncio.gather(*[client.set_data(f"{base}/{n % 100}", VALUE) for n in range(PIPELINED)])
    return PIPELINED / (time.perf_counter() - begin_s)


async def _gets(client: Client, base: str) -> float:
    await client.set_data(base, VALUE)
    begin_s = time.perf_counter()
    found = await asyncio.gather(*[client.get_data(base) for _ in range(PIPELINED)])
    elapsed_s = time.perf_counter() - begin_s
    assert all(data == VALUE for data, _ in found)
    return PIPELINED / elapsed_s


async def _single_sets(client: Client, base: str) -> float:
    elapsed_ms = []
    for _ in range(SINGLES):
        begin_s = time.perf_counter()
        await client.set_data(base, VALUE)
        elapsed_ms.append((time.perf_counter() - begin_s) * 1000)
    return percentile(elapsed_ms, 0.5)


async def _fan_out(client: Client, base: str) -> float:
    heard: list[float] = []
    everybody = asyncio.Event()

    def hear(_event: object) -> None:
        heard.append(time.perf_counter())
        if len(heard) == WATCHERS:
            everybody.set()

    watchers = [
        Client(client.connect_string, session_timeout_ms=30_000, has_heartbeat_thread=False)
        for _ in range(WATCHERS)
    ]
    for begin in range(0, WATCHERS, 50):
        await asyncio.gather(*[each.connect() for each in watchers[begin : begin + 50]])
    await asyncio.gather(*[each.get_data(base, hear) for each in watchers])
    begin_s = time.perf_counter()
    await client.set_data(base, VALUE)
    await everybody.wait()
    elapsed_ms = (heard[-1] - begin_s) * 1000
    await asyncio.gather(*[each.close() for each in watchers])
    return elapsed_ms


async def _partitions(client: Client, base: str) -> list[str]:
    paths = [f"{base}/{n}" for n in range(PARTITIONS)]
    await asyncio.gather(*[client.create(path, STATE) for path in paths])
    return paths


async def _multi_reads(client: Client, base: str) -> float:
    paths = await _partitions(client, base)
    begin_s = time.perf_counter()
    answers = await asyncio.gather(
        *[
            client.multi_read([ops.get_data(path) for path in paths[n : n + PER_MULTI]])
            for n in range(0, PARTITIONS, PER_MULTI)
        ]
    )
    elapsed_ms = (time.perf_counter() - begin_s) * 1000
    assert sum(len(answer) for answer in answers) == PARTITIONS
    return elapsed_ms


async def _fenced_multis(client: Client, base: str) -> float:
    paths = await _partitions(client, base)
    begin_s = time.perf_counter()
    await asyncio.gather(
        *[
            client.multi(
                [ops.check(base, 0)]
                + [ops.set_data(path, STATE, 0) for path in paths[n : n + PER_MULTI]]
            )
            for n in range(0, PARTITIONS, PER_MULTI)
        ]
    )
    return (time.perf_counter() - begin_s) * 1000


MEASURED: Final = (
    Measured("durable creates, pipelined", "per s", "higher", 1.0, _creates),
    Measured("durable sets, pipelined", "per s", "higher", 1.0, _sets),
    Measured("gets, pipelined", "per s", "higher", 1.0, _gets),
    Measured("one durable set at a time, p50", "ms", "lower", 1.0, _single_sets),
    Measured("event of one change at the last of 1,000 clients", "ms", "lower", None, _fan_out),
    Measured("1,000 partition states read by multiRead", "ms", "lower", None, _multi_reads),
    Measured(
        "1,000 partition states written by fenced multis", "ms", "lower", None, _fenced_multis
    ),
)


def _start(directory: Path) -> Iterator[Figure]:
    grown = directory / "grown"
    _grow(grown)
    with coordinator(grown) as server:
        started_s = server.started_in_s
    yield Figure(
        name=f"start with {NODES:,} nodes and {TXNS:,} transactions",
        unit="s",
        value=started_s,
        better="lower",
        goal=2.0,
    )
    with coordinator(directory / "idle") as server:
        yield Figure(
            name="coordinator, idle resident memory",
            unit="MB",
            value=server.resident_bytes() / 1e6,
            better="lower",
            goal=50,
        )


def _grow(directory: Path) -> None:
    """Write a snapshot of all nodes, and a log with a full segment of transactions."""
    data_dir = DataDir(directory)
    store_id = data_dir.identity.store_id
    writer = WalWriter(directory, store_id, last_zxid=0, last_crc=0)
    for begin in range(0, NODES, 1000):
        writer.append(
            [
                Entry(n + 1, 1, 0, 0, CreateTxn(f"/node-{n}", STATE, OPEN_ACL, 0, n + 1))
                for n in range(begin, begin + 1000)
            ]
        )
    writer.sync()
    writer.roll()
    take_snapshot(directory)
    for begin in range(0, TXNS, 100):
        writer.append(
            [
                Entry(NODES + n + 1, 2, 0, 0, SetDataTxn(f"/node-{n % NODES}", STATE, n))
                for n in range(begin, begin + 100)
            ]
        )
    writer.sync()
    writer.close()
    data_dir.close()
