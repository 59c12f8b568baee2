"""Produce and fetch over TLS, logins and access control, beside plain and beside Kafka (edge).

Both brokers have the same configuration, one core, and the same client, whose own encryption limits
the rates; the processor time per GB shows the broker's part. Without Kafka's jars the references
are missing.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.coordination_servers import coordinator
from benchmarks.loads.broker import fetch_frame, produce_frame
from benchmarks.loads.guard_cost import guard_costs
from benchmarks.loads.process import HOST
from benchmarks.loads.result import Figure, percentile
from benchmarks.loads.secured_brokers import (
    MECHANISM,
    PASSWORD,
    USER,
    Secured,
    has_kafka,
    prepare,
    secured_broker,
)
from benchmarks.loads.secured_clients import Logins, delays_ms, stream, stuck_handshakes

ROUNDS: Final = 5
TOPIC: Final = "bench-secured"
BATCH_BYTES: Final = 16 * 1024
PRODUCE_COUNT: Final = 12_000
BATCHES_PER_FETCH: Final = 64
FETCH_BYTES: Final = 1024 * 1024 + BATCH_BYTES
FETCH_COUNT: Final = 400
IN_FLIGHT: Final = 5
LOGINS: Final = 500
STUCK: Final = 1_000
DELAY_S: Final = 3.0
GOAL: Final = 1.2


class Cost(NamedTuple):
    """The rate of a run, and the server's processor time for each unit of it."""

    rate: float
    cpu: float


Run = Callable[[Secured, str], Cost]
Costs = dict[tuple[str, str], list[Cost]]
"""By broker and listener."""


def measure(directory: Path) -> Iterator[Figure]:
    """Yield the figures of TLS, of logins, of stuck handshakes and of access control."""
    with ExitStack() as stack:
        brokers = {"ours": secured_broker(directory / "ours")}
        if has_kafka():
            address = stack.enter_context(coordinator(directory / "coordinator")).address
            brokers["Kafka"] = secured_broker(directory / "kafka", coordinator=address)
        for broker in brokers.values():
            stack.enter_context(broker.process)
            prepare(broker, TOPIC)
        yield from _throughput("produce", brokers, partial(_produce, PRODUCE_COUNT))
        yield from _throughput("fetch", brokers, _fetch)
        yield from _logins(brokers)
        yield from _stuck(brokers["ours"])
    yield from guard_costs()


def _throughput(name: str, brokers: dict[str, Secured], run: Run) -> Iterator[Figure]:
    costs: Costs = {}
    for _ in range(ROUNDS):
        for kind, broker in brokers.items():
            for listener in ("PLAINTEXT", "SSL"):
                costs.setdefault((kind, listener), []).append(run(broker, listener))
    rates = {key: statistics.median(each.rate for each in runs) for key, runs in costs.items()}
    cpu = {key: statistics.median(each.cpu for each in runs) for key, runs in costs.items()}
    own, plain, kafka = ("ours", "SSL"), ("ours", "PLAINTEXT"), ("Kafka", "SSL")
    note = f"16 KiB batches, one connection, {IN_FLIGHT} in flight"
    yield Figure(
        name=f"{name} over TLS",
        unit="MB/s",
        value=rates[own],
        reference_name="Kafka 3.9 over TLS",
        reference=rates.get(kafka),
        better="higher",
        goal=GOAL if kafka in rates else None,
        note=note,
    )
    yield Figure(
        name=f"{name} over TLS, beside plain",
        unit="MB/s",
        value=rates[own],
        reference_name="the same without TLS",
        reference=rates[plain],
        better="higher",
        note="Kafka: " + _share(rates, kafka),
    )
    yield Figure(
        name=f"{name} over TLS, broker CPU",
        unit="s/GB",
        value=cpu[own],
        reference_name="Kafka 3.9 over TLS",
        reference=cpu.get(kafka),
        better="lower",
        note=f"without TLS: {cpu[plain]:.2f} s/GB",
    )


def _share(rates: dict[tuple[str, str], float], kafka: tuple[str, str]) -> str:
    if kafka not in rates:
        return "not measured"
    return f"{rates[kafka] / rates['Kafka', 'PLAINTEXT']:.2f}x"


def _produce(count: int, broker: Secured, listener: str) -> Cost:
    frame = produce_frame(TOPIC, 0, BATCH_BYTES)
    before_s = broker.process.cpu_s()
    _, elapsed_s = stream(broker.connection(listener), [frame], count, IN_FLIGHT)
    size_gb = count * BATCH_BYTES / 1e9
    return Cost(size_gb * 1000 / elapsed_s, (broker.process.cpu_s() - before_s) / size_gb)


def _fetch(broker: Secured, listener: str) -> Cost:
    starts = range(0, PRODUCE_COUNT - BATCHES_PER_FETCH, BATCHES_PER_FETCH)
    offsets = list(islice(cycle(starts), FETCH_COUNT))
    frames = [fetch_frame(TOPIC, 0, offset, FETCH_BYTES) for offset in offsets]
    before_s = broker.process.cpu_s()
    received_bytes, elapsed_s = stream(broker.connection(listener), frames, FETCH_COUNT, IN_FLIGHT)
    if received_bytes < FETCH_COUNT * BATCHES_PER_FETCH * BATCH_BYTES * 0.95:
        raise RuntimeError(f"the broker sent only {received_bytes} bytes: fetches came back short")
    size_gb = received_bytes / 1e9
    return Cost(size_gb * 1000 / elapsed_s, (broker.process.cpu_s() - before_s) / size_gb)


def _logins(brokers: dict[str, Secured]) -> Iterator[Figure]:
    costs: dict[str, list[Cost]] = {}
    for _ in range(ROUNDS):
        for kind, broker in brokers.items():
            logins = Logins(broker.connection("SASL_PLAINTEXT"), MECHANISM, USER, PASSWORD)
            before_s = broker.process.cpu_s()
            elapsed_s = logins.run(LOGINS)
            cpu_us = (broker.process.cpu_s() - before_s) * 1e6 / LOGINS
            costs.setdefault(kind, []).append(Cost(LOGINS / elapsed_s, cpu_us))
    rates = {kind: statistics.median(each.rate for each in runs) for kind, runs in costs.items()}
    cpu = {kind: statistics.median(each.cpu for each in runs) for kind, runs in costs.items()}
    yield Figure(
        name=f"logins by {MECHANISM}, one after the other",
        unit="1/s",
        value=rates["ours"],
        reference_name="Kafka 3.9",
        reference=rates.get("Kafka"),
        better="higher",
    )
    yield Figure(
        name=f"logins by {MECHANISM}, broker CPU",
        unit="us",
        value=cpu["ours"],
        reference_name="Kafka 3.9",
        reference=cpu.get("Kafka"),
        better="lower",
    )


def _stuck(broker: Secured) -> Iterator[Figure]:
    connect, port = broker.connection("PLAINTEXT"), broker.ports["SSL"]
    alone = delays_ms(connect, DELAY_S)
    with stuck_handshakes(HOST, port, STUCK):
        beside = delays_ms(connect, DELAY_S)
    yield Figure(
        name=f"longest response to a client beside {STUCK:,} stuck handshakes",
        unit="ms",
        value=beside[-1],
        better="lower",
        goal=50.0,
        note=f"without them {alone[-1]:.1f} ms; p50 {percentile(beside, 0.5):.2f} ms, without them "
        f"{percentile(alone, 0.5):.2f} ms",
    )
