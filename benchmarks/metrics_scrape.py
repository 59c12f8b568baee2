"""A scrape of a broker's metrics page, with 1,000 partitions and the lag of 100 groups.

`python -m benchmarks scrape`. The processor time of the broker's main thread is the time in its
event loop. A second client, which only asks for the supported versions, shows how long a scrape
holds others up. Composition.
"""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.loads.broker import CLIENT_ID, broker_process
from benchmarks.loads.pipeline import connect, exchange
from benchmarks.loads.process import HOST, free_port
from benchmarks.loads.result import Figure
from kafkawire.apis import ApiKey
from kafkawire.headers import encode_request
from kafkawire.messages.api_versions import ApiVersionsRequest
from ottla import Admin, NewTopic, Producer, TopicPartition

TOPICS: Final = 100
PARTITIONS: Final = 10
GROUPS: Final = 100
SCRAPES: Final = 30
PAUSE_S: Final = 0.2
NEIGHBOUR_PAUSE_S: Final = 0.0005
API_VERSIONS_VERSION: Final = 3
GOAL_MS: Final = 20
READ_BYTES: Final = 1 << 16


@dataclass(slots=True)
class Neighbour:
    """A client that sends one small request after the other, and times each answer."""

    port: int
    waits_ms: list[float] = field(default_factory=list)
    _is_over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Ask until `stop` is called."""
        frame = encode_request(
            ApiKey.API_VERSIONS, API_VERSIONS_VERSION, 1, CLIENT_ID, ApiVersionsRequest()
        )
        with connect(HOST, self.port) as connection:
            while not self._is_over.wait(NEIGHBOUR_PAUSE_S):
                began_s = time.perf_counter()
                exchange(connection, frame)
                self.waits_ms.append((time.perf_counter() - began_s) * 1000)

    def stop(self) -> None:
        """End `run`."""
        self._is_over.set()


def measure(directory: Path) -> Iterator[Figure]:
    """Yield the time of a scrape in the loop, and the longest waits of a neighbour."""
    port = free_port()
    overrides = (f"metrics.listener={HOST}:{port}", "offsets.topic.num.partitions=10")
    with broker_process(directory, overrides=overrides) as broker:
        asyncio.run(_fill(broker.address))
        schedstat = Path(f"/proc/{broker.pid}/task/{broker.pid}/schedstat")
        samples = sum(not line.startswith(b"#") for line in _scrape(port).splitlines())
        times_ms = []
        for _ in range(SCRAPES):
            time.sleep(PAUSE_S)
            before_ns = _ran_ns(schedstat)
            _scrape(port)
            times_ms.append((_ran_ns(schedstat) - before_ns) / 1e6)
        alone = _waits_ms(broker.port, None)
        beside = _waits_ms(broker.port, port)
    title = f"scrape of {TOPICS * PARTITIONS:,} partitions and {GROUPS} groups"
    yield Figure(
        name=f"{title}: time in the loop",
        unit="ms",
        value=statistics.median(times_ms),
        better="lower",
        goal=GOAL_MS,
        note=f"{samples:,} samples; the longest of {SCRAPES}: {max(times_ms):.1f} ms",
    )
    yield Figure(
        name=f"{title}: wait of another client, 99th percentile",
        unit="ms",
        value=_high(beside),
        reference_name="without scrapes",
        reference=_high(alone),
        better="lower",
    )


async def _fill(address: str) -> None:
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(f"topic-{n}", PARTITIONS, 1) for n in range(TOPICS)])
        for number in range(GROUPS):
            offsets = {TopicPartition(f"topic-{number}", each): 0 for each in range(PARTITIONS)}
            await admin.alter_group_offsets(f"group-{number}", offsets)
    async with Producer(address) as producer:
        for number in range(TOPICS):
            await producer.send(f"topic-{number}", b"a record")


def _scrape(port: int) -> bytes:
    """Read the page; plain reads, so that the neighbour does not wait for this process."""
    with connect(HOST, port) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n")
        pieces = iter(lambda: connection.recv(READ_BYTES), b"")
        return b"".join(pieces).partition(b"\r\n\r\n")[2]


def _ran_ns(schedstat: Path) -> int:
    return int(schedstat.read_text().split()[0])


def _waits_ms(port: int, metrics_port: int | None) -> list[float]:
    """Return the waits of a neighbour, during scrapes if there is a `metrics_port`."""
    neighbour = Neighbour(port)
    thread = threading.Thread(target=neighbour.run)
    thread.start()
    try:
        for _ in range(SCRAPES):
            if metrics_port is not None:
                _scrape(metrics_port)
            else:
                time.sleep(PAUSE_S)
    finally:
        neighbour.stop()
        thread.join()
    return neighbour.waits_ms


def _high(waits_ms: list[float]) -> float:
    return statistics.quantiles(waits_ms, n=100)[-1]
