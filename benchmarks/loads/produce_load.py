"""Produce over raw sockets, beside an echo and a plain stream of the same size (edge)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.loads.broker import (
    broker_process,
    create_topic,
    produce_answer_bytes,
    produce_frame,
)
from benchmarks.loads.pipeline import connect, measure_round_trips, run_pipeline
from benchmarks.loads.process import HOST, ServerProcess, free_port
from benchmarks.loads.result import Figure, alternate, percentile

ROUNDS: Final = 5
CONNECTIONS: Final = 10
IN_FLIGHT: Final = 5
PARTITIONS: Final = 6
SMALL_BYTES: Final = 1024
LARGE_BYTES: Final = 16 * 1024
SMALL_REQUESTS: Final = 6_000
LARGE_REQUESTS: Final = 3_000
ROUND_TRIPS: Final = 5_000
STREAM_CHUNK_BYTES: Final = 1024 * 1024
STREAM_CHUNKS: Final = 800
STORE_ANSWER_BYTES: Final = 64
TOPIC: Final = "bench-produce"


def echo_server() -> ServerProcess:
    """Return the minimum for requests: a uvloop protocol that echoes frames."""
    port = free_port()
    return ServerProcess(["-m", "benchmarks.loads.reference_server", "echo", str(port)], port)


def sink_server() -> ServerProcess:
    """Return the minimum for streams: a blocking reader."""
    port = free_port()
    return ServerProcess(["-m", "benchmarks.loads.reference_server", "sink", str(port)], port)


def store_server(directory: Path) -> ServerProcess:
    """Return the minimum for a server with storage: receive, check, write, respond."""
    port = free_port()
    arguments = [str(port), str(directory / "store"), str(STORE_ANSWER_BYTES)]
    return ServerProcess(["-m", "benchmarks.loads.bare_store", *arguments], port)


def measure(directory: Path) -> Iterator[Figure]:
    """Yield the figures of small requests, large batches and unloaded latency."""
    with (
        broker_process(directory) as broker,
        echo_server() as echo,
        sink_server() as sink,
        store_server(directory) as store,
    ):
        create_topic(broker.port, TOPIC, PARTITIONS)
        small = [produce_frame(TOPIC, number, SMALL_BYTES) for number in range(PARTITIONS)]
        large = [produce_frame(TOPIC, number, LARGE_BYTES) for number in range(PARTITIONS)]
        answer_bytes = produce_answer_bytes(broker.port, small[0])
        yield from _small(broker, echo, small, answer_bytes)
        yield from _latency(broker, echo, small[0], answer_bytes)
        yield from _large(broker, sink, store, large, answer_bytes)


def _load_us(server: ServerProcess, frames: list[bytes], answer_bytes: int, count: int) -> float:
    """Return the CPU microseconds of `server` per request of one run."""
    before_s = server.cpu_s()
    result = run_pipeline(
        HOST,
        server.port,
        frames,
        request_count=count,
        connection_count=CONNECTIONS,
        in_flight=IN_FLIGHT,
        answer_bytes=answer_bytes,
    )
    return (server.cpu_s() - before_s) * 1e6 / result.request_count


def _small(
    broker: ServerProcess, echo: ServerProcess, frames: list[bytes], answer_bytes: int
) -> Iterator[Figure]:
    paired = alternate(
        lambda: _load_us(broker, frames, answer_bytes, SMALL_REQUESTS),
        lambda: _load_us(echo, frames[:1], len(frames[0]), SMALL_REQUESTS),
        rounds=ROUNDS,
    )
    yield Figure(
        name="produce 1 KiB requests, broker CPU per request",
        unit="us",
        value=paired.ours,
        reference_name="uvloop echo",
        reference=paired.reference,
        better="lower",
        goal=2.5,
        note=f"{CONNECTIONS} connections x {IN_FLIGHT} in flight",
    )


def _latency(
    broker: ServerProcess, echo: ServerProcess, frame: bytes, answer_bytes: int
) -> Iterator[Figure]:
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    for _ in range(ROUNDS):
        theirs.append(measure_round_trips(HOST, echo.port, frame, len(frame), ROUND_TRIPS))
        ours.append(measure_round_trips(HOST, broker.port, frame, answer_bytes, ROUND_TRIPS))
    for share, goal in ((0.5, 3.5), (0.99, None)):
        yield Figure(
            name=f"unloaded produce of 1 KiB, p{share * 100:.0f}",
            unit="us",
            value=percentile([percentile(times, share) for times in ours], 0.5),
            reference_name="uvloop echo",
            reference=percentile([percentile(times, share) for times in theirs], 0.5),
            better="lower",
            goal=goal,
        )


def _large(
    broker: ServerProcess,
    sink: ServerProcess,
    store: ServerProcess,
    frames: list[bytes],
    answer_bytes: int,
) -> Iterator[Figure]:
    cpu_us: list[float] = []
    store_us: list[float] = []

    def produce_mb_s() -> float:
        before_s = broker.cpu_s()
        result = run_pipeline(
            HOST,
            broker.port,
            frames,
            request_count=LARGE_REQUESTS,
            connection_count=CONNECTIONS,
            in_flight=IN_FLIGHT,
            answer_bytes=answer_bytes,
        )
        cpu_us.append((broker.cpu_s() - before_s) * 1e6 / result.request_count)
        store_us.append(_load_us(store, frames, STORE_ANSWER_BYTES, LARGE_REQUESTS))
        return result.request_count * LARGE_BYTES / result.elapsed_s / 1e6

    paired = alternate(produce_mb_s, lambda: stream_mb_s(sink), rounds=ROUNDS)
    yield Figure(
        name="produce 16 KiB batches",
        unit="MB/s",
        value=paired.ours,
        reference_name="plain loopback stream",
        reference=paired.reference,
        better="higher",
        goal=0.35,
        note=f"{CONNECTIONS} connections x {IN_FLIGHT} in flight",
    )
    yield Figure(
        name="produce 16 KiB batches, broker CPU per request",
        unit="us",
        value=percentile(cpu_us, 0.5),
        better="lower",
        goal=35.0,
    )
    yield Figure(
        name="produce 16 KiB batches, broker CPU per request, compared with the minimum",
        unit="us",
        value=percentile(cpu_us, 0.5),
        reference_name="bare receive, CRC, write and answer",
        reference=percentile(store_us, 0.5),
        better="lower",
    )


def stream_mb_s(sink: ServerProcess) -> float:
    """Return the MB/s of one plain stream into the sink, until it has read everything."""
    # Random, because a buffer of zeros is a single physical page, read from the fastest cache.
    chunk = os.urandom(STREAM_CHUNK_BYTES)
    with connect(HOST, sink.port) as connection:
        started_s = time.perf_counter()
        for _ in range(STREAM_CHUNKS):
            connection.sendall(chunk)
        connection.shutdown(1)
        connection.recv(1)
        return STREAM_CHUNKS * STREAM_CHUNK_BYTES / (time.perf_counter() - started_s) / 1e6
