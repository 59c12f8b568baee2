"""Throughput of our client beside aiokafka and librdkafka, in one run, against one broker.

    python -m benchmarks.client_throughput [--bootstrap HOST:PORT] [--loop asyncio|uvloop]
                                           [--rounds 5] [--partitions 6] [--json FILE]

Without an address it starts our broker. For each case (record size, acks, compression) the clients
take turns, each in its own process on one core, in an order that rotates with the rounds, and the
median of the rounds counts. All consumers read the records of aiokafka's producer, so that no
client benefits from the size of its own batches. aiokafka runs with its C extensions, and our
client with ours if they are built; the table says which.
Kind: edge.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final, Literal, cast

from rich.console import Console
from rich.table import Table

from benchmarks.client_drivers import Job
from benchmarks.loads.broker import broker_process
from benchmarks.loads.process import GENERATOR_CORE, pin
from benchmarks.loads.result import Figure
from kafkawire.records import IS_COMPILED
from ottla import Admin, NewTopic

KIB: Final = 1024
RECORD_COUNTS: Final = {100: 200_000, KIB: 80_000}
ACKS: Final = ("1", "all")
COMPRESSIONS: Final = ("none", "lz4")
PRODUCERS: Final = ("ottla produce", "aiokafka produce", "confluent produce")
CONSUMERS: Final = (
    "ottla iterate",
    "aiokafka iterate",
    "ottla batches",
    "aiokafka batches",
    "confluent batches",
)
ROUNDS: Final = 5
JOB_TIMEOUT_S: Final = 180.0
GOAL: Final = 2.0
LIBRDKAFKA_GOAL: Final = 0.6

Loop = Literal["asyncio", "uvloop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One workload."""

    record_bytes: int
    acks: str
    compression: str

    def __str__(self) -> str:
        return f"{self.record_bytes} B, acks={self.acks}, {self.compression}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Medians of one driver in one case."""

    case: Case
    driver: str
    records_per_s: float
    cpu_us_per_record: float


CASES: Final = [
    Case(record_bytes=size, acks=acks, compression=compression)
    for size, acks, compression in product(RECORD_COUNTS, ACKS, COMPRESSIONS)
]


def measure_cases(
    address: str, cases: Sequence[Case], *, rounds: int, partition_count: int, loop: Loop
) -> Iterator[Measured]:
    """Yield the median of each driver in each case."""
    for number, case in enumerate(cases):
        job = Job(
            driver="",
            address=address,
            topic=f"bench-{number}",
            partition_count=partition_count,
            record_bytes=case.record_bytes,
            record_count=RECORD_COUNTS[case.record_bytes],
            acks=case.acks,
            compression=case.compression,
            uses_uvloop=loop == "uvloop",
        )
        figures: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
        for turn in range(rounds):
            for driver, measured in _round(job, turn):
                figures[driver].append(measured)
        for driver, rows in figures.items():
            elapsed_s = statistics.median(row["elapsed_s"] for row in rows)
            cpu_s = statistics.median(row["cpu_s"] for row in rows)
            yield Measured(
                case=case,
                driver=driver,
                records_per_s=job.record_count / elapsed_s,
                cpu_us_per_record=cpu_s / job.record_count * 1e6,
            )


def _round(job: Job, turn: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Run each producer on its own topic, and each consumer on aiokafka's topic.

    The `turn` rotates both, as the first client of a round may find the broker less prepared.
    """
    written: dict[str, Job] = {}
    for driver in PRODUCERS:
        written[driver] = replace(job, driver=driver, topic=f"{job.topic}-{driver.split()[0]}")
    topics = [NewTopic(each.topic, job.partition_count, 1) for each in written.values()]
    asyncio.run(_create(job.address, topics))
    try:
        for driver in _rotated(PRODUCERS, turn):
            yield driver, _run(written[driver])
        source = written["aiokafka produce"].topic
        for driver in _rotated(CONSUMERS, turn):
            yield driver, _run(replace(job, driver=driver, topic=source))
    finally:
        asyncio.run(_delete(job.address, [topic.name for topic in topics]))


def _rotated(drivers: Sequence[str], turn: int) -> Sequence[str]:
    first = turn % len(drivers)
    return [*drivers[first:], *drivers[:first]]


def _run(job: Job) -> dict[str, float]:
    client = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.client_drivers", job.to_json()],
        stdout=subprocess.PIPE,
    )
    pin(client.pid, GENERATOR_CORE)
    output, _ = client.communicate(timeout=JOB_TIMEOUT_S)
    if client.returncode:
        raise RuntimeError(f"{job.driver} failed with {client.returncode}")
    return cast(dict[str, float], json.loads(output))


async def _create(address: str, topics: Sequence[NewTopic]) -> None:
    async with Admin(address) as admin:
        await admin.create_topics(topics)


async def _delete(address: str, names: Sequence[str]) -> None:
    async with Admin(address) as admin:
        await admin.delete_topics(names)


PAIRS: Final = {
    "produce": ("ottla produce", "aiokafka produce", "confluent produce"),
    "consume, async for": ("ottla iterate", "aiokafka iterate", None),
    "consume, batches": ("ottla batches", "aiokafka batches", "confluent batches"),
}


def figures_of(measured: Sequence[Measured]) -> Iterator[Figure]:
    """Yield our figure beside that of each other client, for each case and direction."""
    rates = {(each.case, each.driver): each for each in measured}
    for (way, (ours, theirs, reference)), case in product(PAIRS.items(), CASES):
        if (case, ours) not in rates:
            continue
        # In batches both are limited by the same decompressor, so a goal makes no sense.
        goal = None if way == "consume, batches" else GOAL
        others = [(theirs, "aiokafka", goal)]
        if reference is not None:
            others.append((reference, "librdkafka", LIBRDKAFKA_GOAL))
        for other, name, least in others:
            yield Figure(
                name=f"our client, {way}",
                unit="records/s",
                value=rates[case, ours].records_per_s,
                reference_name=name,
                reference=rates[case, other].records_per_s,
                better="higher",
                goal=least,
                note=str(case),
            )


def measure(directory: Path) -> Iterator[Figure]:
    """Yield all figures against our own broker, for `python -m benchmarks`."""
    with broker_process(directory) as broker:
        yield from figures_of(
            list(
                measure_cases(
                    broker.address, CASES, rounds=ROUNDS, partition_count=6, loop="asyncio"
                )
            )
        )


def table_of(measured: Sequence[Measured]) -> Table:
    """Return the rates and ratios, with the client's CPU per record."""
    rates = {(each.case, each.driver): each for each in measured}
    table = Table("Way", "Case", "Ours", "aiokafka", "Ratio", "CPU ratio", "confluent-kafka")
    for (way, (ours, theirs, reference)), case in product(PAIRS.items(), CASES):
        if (case, ours) not in rates:
            continue
        mine, other = rates[case, ours], rates[case, theirs]
        table.add_row(
            way,
            str(case),
            f"{mine.records_per_s:,.0f}/s ({mine.cpu_us_per_record:.2f} us)",
            f"{other.records_per_s:,.0f}/s ({other.cpu_us_per_record:.2f} us)",
            f"{mine.records_per_s / other.records_per_s:.2f}x",
            f"{other.cpu_us_per_record / mine.cpu_us_per_record:.2f}x",
            f"{rates[case, reference].records_per_s:,.0f}/s" if reference else "",
        )
    return table


@contextmanager
def _broker(address: str | None) -> Iterator[str]:
    if address is not None:
        yield address
        return
    with (
        tempfile.TemporaryDirectory(prefix="ottla-bench-") as directory,
        broker_process(Path(directory)) as broker,
    ):
        yield broker.address


def main(arguments: list[str]) -> int:
    """Measure, print the table, write the JSON; return 0 if every ratio meets the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", help="a broker; ours is started unless given")
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--case", type=int, action="append", help="only the case of this number")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    cases = CASES if options.case is None else [CASES[number] for number in options.case]
    console = Console()
    scanner = "compiled" if IS_COMPILED else "plain Python"
    console.print(f"{options.partitions} partitions, {options.loop}, record loops: {scanner}")
    pin(0, GENERATOR_CORE)
    with _broker(options.bootstrap) as address, console.status("measuring"):
        measured = list(
            measure_cases(
                address,
                cases,
                rounds=options.rounds,
                partition_count=options.partitions,
                loop=options.loop,
            )
        )
    console.print(table_of(measured))
    figures = list(figures_of(measured))
    if options.json is not None:
        rows = [
            {"name": each.name, "case": each.note, "ours": each.value, "aiokafka": each.reference}
            | {"ratio": each.ratio}
            for each in figures
        ]
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0 if all(figure.is_met is not False for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
