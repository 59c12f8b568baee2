"""Audits of 10, 20 and 40 million records, beside a plain read and the check in one process.

Composition. Logs of 2.5 million records per segment file are written once with our builder: four
partitions, uncompacted and compacted, and then two of them in gzip, lz4 and zstd.
`OTTLA_BENCH_RECORDS` lowers the size of a partition (10 million), for machines with less space.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.audit_logs import recompress, write_pair
from benchmarks.audit_transactions import write_transactions
from benchmarks.loads.result import Figure
from kafkawire.compression import Codec

RECORDS: Final = int(os.environ.get("OTTLA_BENCH_RECORDS", "10_000_000"))
PARTITIONS: Final = (1, 2, 4)
CODECS: Final = (Codec.GZIP, Codec.LZ4, Codec.ZSTD)
COMPRESSED_PARTITIONS: Final = 2
TRANSACTIONS: Final = 1_000_000
GOAL_RECORDS_PER_S: Final = 8_000_000
GOAL_SQL_PER_S: Final = 800_000
GOAL_START_S: Final = 7.0
GOAL_TRANSACTIONS_S: Final = 30.0
# Four times the records may increase the driver's memory by at most a fifth.
GOAL_MEMORY_RATIO: Final = 1.2
_MIB: Final = 1 << 20


def measure(directory: Path) -> Iterator[Figure]:
    """Write the logs, then audit one, two and four partitions of them, and compressed ones."""
    raw, clean = directory / "raw", directory / "clean"
    write_pair(raw, clean, RECORDS)
    for partition in range(1, max(PARTITIONS)):
        _copy_partition(raw, partition)
        _copy_partition(clean, partition)
    # Otherwise the kernel writes the logs to disk while the audits run.
    os.sync()
    yield from _start(clean)
    driver_mib = []
    for count in PARTITIONS:
        chosen = directory / f"first-{count}"
        _choose(raw, chosen / "raw", count)
        _choose(clean, chosen / "clean", count)
        measured = _run("audit_run", chosen / "clean", chosen / "raw")
        driver_mib.append(measured["python_mib"] + measured["jvm_mib"])
        yield _audit(chosen, count, measured["seconds"])
    yield _memory(driver_mib)
    yield _sql(directory / "first-2", 2)
    yield _transactions(directory / "transactions")
    for codec in CODECS:
        chosen = directory / codec.name.lower()
        for name in ("raw", "clean"):
            recompress(directory / name, chosen / "whole" / name, codec)
            for partition in range(1, COMPRESSED_PARTITIONS):
                _copy_partition(chosen / "whole" / name, partition)
            _choose(chosen / "whole" / name, chosen / name, COMPRESSED_PARTITIONS)
        os.sync()
        measured = _run("audit_run", chosen / "clean", chosen / "raw")
        yield _audit(chosen, COMPRESSED_PARTITIONS, measured["seconds"], codec)


def _start(clean: Path) -> Iterator[Figure]:
    """Yield the time of the complete command on a log of a thousand records."""
    tiny = clean.parent / "tiny"
    write_pair(tiny / "raw", tiny / "clean", 1000)
    command = [
        sys.executable,
        "-m",
        "ottla.cli.__main__",
        "audit",
        "integrity",
        str(tiny / "clean"),
    ]

    def run() -> None:
        # The benchmarks pin their own process to one core; an audit uses all cores.
        subprocess.run(
            command,
            capture_output=True,
            check=True,
            preexec_fn=lambda: os.sched_setaffinity(0, range(os.cpu_count() or 1)),
        )

    run()
    seconds = min(_timed(run) for _ in range(3))
    yield Figure(
        name="audit: start to verdict of a tiny log, whole process",
        unit="s",
        value=seconds,
        better="lower",
        goal=GOAL_START_S,
    )


def _audit(chosen: Path, count: int, seconds: float, codec: Codec = Codec.NONE) -> Figure:
    from ottla.cli.logs.partition_verification import VerifyOptions
    from ottla.cli.logs.verify import verify_directories

    records = RECORDS * count
    plain_s = _timed(lambda: _read_all(chosen))
    # One process on one core has the same rate for each partition, so one is enough.
    one = chosen / "raw" / "orders-0"
    verify_s = _timed(lambda: verify_directories([one], VerifyOptions(with_records=True)))
    kind = "" if codec is Codec.NONE else f", {codec.name.lower()}"
    return Figure(
        name=f"audit compaction, {records / 1e6:g} M records in {count} partitions{kind}",
        unit="M records/s",
        value=records / seconds / 1e6,
        better="higher",
        goal=GOAL_RECORDS_PER_S / 1e6 if count == max(PARTITIONS) else None,
        note=(
            f"plain read of the same bytes {records / plain_s / 1e6:.1f}, "
            f"ottla logs verify {RECORDS / verify_s / 1e6:.2f}"
        ),
    )


def _memory(driver_mib: Sequence[float]) -> Figure:
    return Figure(
        name=f"driver of an audit, Python and JVM, {RECORDS * max(PARTITIONS) / 1e6:g} M records",
        unit="MiB",
        value=driver_mib[-1],
        reference_name=f"{RECORDS * min(PARTITIONS) / 1e6:g} M records",
        reference=driver_mib[0],
        better="lower",
        goal=GOAL_MEMORY_RATIO,
    )


def _sql(chosen: Path, count: int) -> Figure:
    until = str(next(_cleaner_points(chosen / "clean")))
    measured = _run("audit_sql", chosen / "clean", chosen / "raw", until)
    return Figure(
        name=f"audit by SQL, {RECORDS * count / 1e6:g} M records, 2 GiB",
        unit="M records/s",
        value=RECORDS * count / measured["seconds"] / 1e6,
        better="higher",
        goal=GOAL_SQL_PER_S / 1e6,
        note=f"{measured['spilled_bytes']} bytes spilled",
    )


def _transactions(root: Path) -> Figure:
    log, reference = root / "log", root / "reference"
    write_transactions(log, TRANSACTIONS)
    shutil.copytree(log, reference)
    os.sync()
    return Figure(
        name=f"audit compaction, {TRANSACTIONS / 1e6:g} M transactions in 1 partition, and a copy",
        unit="s",
        value=_run("audit_run", log, reference)["seconds"],
        better="lower",
        goal=GOAL_TRANSACTIONS_S,
    )


def _run(module: str, *arguments: Path | str) -> dict[str, Any]:
    """Run a measurement in its own process, and return its result."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _cleaner_points(root: Path) -> Iterator[int]:
    for line in (root / "cleaner-offset-checkpoint").read_text().splitlines()[2:]:
        yield int(line.split()[-1])


def _copy_partition(root: Path, partition: int) -> None:
    shutil.copytree(root / "orders-0", root / f"orders-{partition}")


def _choose(root: Path, target: Path, count: int) -> None:
    """Link the first `count` partitions into `target`, with checkpoints that name them."""
    target.mkdir(parents=True)
    for partition in range(count):
        name = f"orders-{partition}"
        shutil.copytree(root / name, target / name, copy_function=os.link)
    for file in root.glob("*-checkpoint"):
        offset = file.read_text().split()[-1]
        lines = "".join(f"orders {partition} {offset}\n" for partition in range(count))
        (target / file.name).write_text(f"0\n{count}\n{lines}")


def _read_all(root: Path) -> None:
    buffer = bytearray(_MIB)
    for path in [*root.glob("raw/*/*.log"), *root.glob("clean/*/*.log")]:
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
