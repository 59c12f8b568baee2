"""How fast a broker is ready and how much memory it holds idle. Kind: edge."""

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
from kafkawire.messages.api_versions import ApiVersionsRequest

ROUNDS: Final = 7
API_VERSIONS_VERSION: Final = 3


def measure(directory: Path) -> Iterator[Figure]:
    """Yield the time from spawning the process to its first answer, and its idle memory."""
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
