"""The network layer alone, beside an echo and a bare sendfile (edge).

`python -m benchmarks.micro.test_network` prints the table; server on one core, generator on
another. As a test each case runs once with a few requests.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.loads.pipeline import measure_round_trips, run_pipeline
from benchmarks.loads.process import GENERATOR_CORE, HOST, ServerProcess, free_port, pin
from benchmarks.loads.result import Figure, alternate, percentile, to_markdown
from benchmarks.micro.network_server import FETCH_BYTES, PRODUCE_ANSWER
from kafkawire.apis import ApiKey
from kafkawire.headers import encode_request
from kafkawire.messages.fetch import FetchRequest
from kafkawire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

CONNECTIONS: Final = 10
IN_FLIGHT: Final = 5
REQUEST_BYTES: Final = 1024
FILE_BYTES: Final = 256 * 1024 * 1024
FETCHES_IN_FLIGHT: Final = 2
PRODUCE_VERSION: Final = 7
FETCH_VERSION: Final = 11
SIZE_AND_CORRELATION_ID_BYTES: Final = 8
ANSWER_BYTES: Final = SIZE_AND_CORRELATION_ID_BYTES + len(PRODUCE_ANSWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Number of requests per measurement."""

    rounds: int
    requests: int
    round_trips: int
    fetches: int


FULL: Final = Scale(rounds=5, requests=8_000, round_trips=5_000, fetches=1_000)
SMALL: Final = Scale(rounds=1, requests=20, round_trips=20, fetches=10)


def measure(directory: Path, scale: Scale = FULL) -> Iterator[Figure]:
    """Yield CPU and round trips of requests beside an echo, and fetches beside bare sendfile."""
    file = directory / "data"
    file.write_bytes(bytes(FILE_BYTES))
    with _server("benchmarks.micro.network_server", str(file)) as ours:
        with _server("benchmarks.loads.reference_server", kind="echo") as echo:
            yield from _requests(ours, echo, scale)
            yield _round_trips(ours, echo, scale)
        with _server("benchmarks.loads.reference_server", str(file), kind="sendfile") as bare:
            yield from _fetches(ours, bare, scale)


def _server(module: str, *arguments: str, kind: str = "") -> ServerProcess:
    port = free_port()
    return ServerProcess(["-m", module, *([kind] if kind else []), str(port), *arguments], port)


def _produce_frame() -> bytes:
    partition = PartitionProduceData(index=0, records=bytes(REQUEST_BYTES))
    topic = TopicProduceData(name="bench", partition_data=[partition])
    message = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "bench", message)


def _requests(ours: ServerProcess, echo: ServerProcess, scale: Scale) -> Iterator[Figure]:
    frame = _produce_frame()
    for in_flight in (1, IN_FLIGHT):
        load = partial(_cpu_us, frame=frame, in_flight=in_flight, count=scale.requests)
        paired = alternate(
            partial(load, ours, answer_bytes=ANSWER_BYTES),
            partial(load, echo, answer_bytes=len(frame)),
            rounds=scale.rounds,
        )
        yield Figure(
            name="1 KiB requests, CPU per request",
            unit="us",
            value=paired.ours,
            reference_name="uvloop echo",
            reference=paired.reference,
            better="lower",
            goal=1.6,
            note=f"{CONNECTIONS} connections x {in_flight} in flight",
        )


def _cpu_us(
    server: ServerProcess, *, frame: bytes, answer_bytes: int, in_flight: int, count: int
) -> float:
    before_s = server.cpu_s()
    result = run_pipeline(
        HOST,
        server.port,
        [frame],
        request_count=count,
        connection_count=CONNECTIONS,
        in_flight=in_flight,
        answer_bytes=answer_bytes,
    )
    return (server.cpu_s() - before_s) * 1e6 / result.request_count


def _round_trips(ours: ServerProcess, echo: ServerProcess, scale: Scale) -> Figure:
    frame = _produce_frame()

    def median_us(server: ServerProcess, answer_bytes: int) -> float:
        times = measure_round_trips(HOST, server.port, frame, answer_bytes, scale.round_trips)
        return percentile(times, 0.5)

    paired = alternate(
        partial(median_us, ours, ANSWER_BYTES),
        partial(median_us, echo, len(frame)),
        rounds=scale.rounds,
    )
    return Figure(
        name="1 KiB request, round trip p50",
        unit="us",
        value=paired.ours,
        reference_name="uvloop echo",
        reference=paired.reference,
        better="lower",
        note="1 in flight",
    )


def _fetches(ours: ServerProcess, bare: ServerProcess, scale: Scale) -> Iterator[Figure]:
    frame = encode_request(ApiKey.FETCH, FETCH_VERSION, 1, "bench", FetchRequest())
    ours_s_per_gb: list[float] = []
    bare_s_per_gb: list[float] = []
    paired = alternate(
        lambda: _fetch_mb_s(ours, frame, None, scale.fetches, ours_s_per_gb),
        lambda: _fetch_mb_s(bare, b".", FETCH_BYTES, scale.fetches, bare_s_per_gb),
        rounds=scale.rounds,
    )
    yield Figure(
        name="fetches of 1 MiB",
        unit="MB/s",
        value=paired.ours,
        reference_name="bare sendfile",
        reference=paired.reference,
        better="higher",
        goal=0.85,
        note=f"{FETCHES_IN_FLIGHT} in flight",
    )
    yield Figure(
        name="fetches of 1 MiB, CPU",
        unit="s/GB",
        value=percentile(ours_s_per_gb, 0.5),
        better="lower",
        goal=0.35,
        note=f"bare sendfile: {percentile(bare_s_per_gb, 0.5):.2f} s/GB",
    )


def _fetch_mb_s(
    server: ServerProcess,
    frame: bytes,
    answer_bytes: int | None,
    count: int,
    cpu_s_per_gb: list[float],
) -> float:
    before_s = server.cpu_s()
    result = run_pipeline(
        HOST,
        server.port,
        [frame],
        request_count=count,
        connection_count=1,
        in_flight=FETCHES_IN_FLIGHT,
        answer_bytes=answer_bytes,
    )
    cpu_s_per_gb.append((server.cpu_s() - before_s) / result.received_bytes * 1e9)
    return result.received_bytes / result.elapsed_s / 1e6


def test_every_figure_is_measured(tmp_path: Path) -> None:
    figures = list(measure(tmp_path, SMALL))
    assert len(figures) == 5
    assert all(figure.value > 0 for figure in figures)


def main() -> int:
    """Measure, print, and return 0 if every goal was met."""
    pin(0, GENERATOR_CORE)
    with tempfile.TemporaryDirectory(prefix="ottla-network-") as directory:
        figures = list(measure(Path(directory)))
    sys.stdout.write(to_markdown(figures))
    return 0 if all(figure.is_met is not False for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
