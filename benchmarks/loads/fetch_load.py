"""Fetch of cached data, beside a bare sendfile loop over a file of the same size (edge)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.loads.broker import (
    broker_process,
    create_topic,
    fetch_frame,
    produce_answer_bytes,
    produce_frame,
)
from benchmarks.loads.pipeline import READ_BUFFER_BYTES, connect, run_pipeline
from benchmarks.loads.process import HOST, ServerProcess, free_port
from benchmarks.loads.result import Figure, alternate, percentile

ROUNDS: Final = 5
TOPIC: Final = "bench-fetch"
BATCH_BYTES: Final = 16 * 1024
LOG_BATCHES: Final = 16_384
BATCHES_PER_FETCH: Final = 64
FETCH_BYTES: Final = 1024 * 1024 + BATCH_BYTES
FETCHES: Final = 800
IN_FLIGHT: Final = 2


def measure(directory: Path) -> Iterator[Figure]:
    """Yield throughput beside bare sendfile, and the broker's CPU per GB."""
    file = directory / "sendfile.data"
    file.write_bytes(bytes(LOG_BATCHES * BATCH_BYTES))
    port = free_port()
    bare = ServerProcess(
        ["-m", "benchmarks.loads.reference_server", "sendfile", str(port), str(file)], port
    )
    with broker_process(directory) as broker, bare:
        fill(broker)
        frames = [
            fetch_frame(TOPIC, 0, offset, FETCH_BYTES)
            for offset in range(0, LOG_BATCHES - BATCHES_PER_FETCH, BATCHES_PER_FETCH)
        ]
        cpu_s_per_gb: list[float] = []
        bare_s_per_gb: list[float] = []
        paired = alternate(
            lambda: _fetch_mb_s(broker, frames, cpu_s_per_gb),
            lambda: _sendfile_mb_s(bare, bare_s_per_gb),
            rounds=ROUNDS,
        )
    yield Figure(
        name="fetch of cached data, 1 MiB a fetch",
        unit="MB/s",
        value=paired.ours,
        reference_name="bare loopback sendfile",
        reference=paired.reference,
        better="higher",
        goal=0.85,
        note=f"{IN_FLIGHT} in flight",
    )
    yield Figure(
        name="fetch of cached data, broker CPU",
        unit="s/GB",
        value=percentile(cpu_s_per_gb, 0.5),
        better="lower",
        goal=0.35,
        note=f"bare sendfile: {percentile(bare_s_per_gb, 0.5):.2f} s/GB",
    )


def fill(broker: ServerProcess) -> None:
    """Fill one partition with batches of one record each, so that offset = batch number."""
    create_topic(broker.port, TOPIC, 1)
    frame = produce_frame(TOPIC, 0, BATCH_BYTES)
    answer_bytes = produce_answer_bytes(broker.port, frame)
    run_pipeline(
        HOST,
        broker.port,
        [frame],
        request_count=LOG_BATCHES,
        connection_count=1,
        in_flight=8,
        answer_bytes=answer_bytes,
    )


def _fetch_mb_s(broker: ServerProcess, frames: list[bytes], cpu_s_per_gb: list[float]) -> float:
    before_s = broker.cpu_s()
    result = run_pipeline(
        HOST, broker.port, frames, request_count=FETCHES, connection_count=1, in_flight=IN_FLIGHT
    )
    if result.received_bytes < FETCHES * BATCHES_PER_FETCH * BATCH_BYTES * 0.95:
        raise RuntimeError(
            f"the broker sent only {result.received_bytes} bytes: fetches came back short"
        )
    cpu_s_per_gb.append((broker.cpu_s() - before_s) / result.received_bytes * 1e9)
    return result.received_bytes / result.elapsed_s / 1e6


def _sendfile_mb_s(bare: ServerProcess, cpu_s_per_gb: list[float]) -> float:
    buffer = bytearray(READ_BUFFER_BYTES)
    expected_bytes, received_bytes, asked = FETCHES * 1024 * 1024, 0, IN_FLIGHT
    before_s = bare.cpu_s()
    with connect(HOST, bare.port) as connection:
        started_s = time.perf_counter()
        connection.sendall(b"." * IN_FLIGHT)
        while received_bytes < expected_bytes:
            received_bytes += connection.recv_into(buffer)
            due = min(FETCHES, received_bytes // (1024 * 1024) + IN_FLIGHT)
            if due > asked:
                connection.sendall(b"." * (due - asked))
                asked = due
        elapsed_s = time.perf_counter() - started_s
    cpu_s_per_gb.append((bare.cpu_s() - before_s) / received_bytes * 1e9)
    return received_bytes / elapsed_s / 1e6
