"""Audits of 10, 20 and 40 million records, beside a plain read and the check in one process.

Composition. Logs of 2.5 million records per segment file are written once with our own builder:
four partitions, uncompacted, and the same compacted. `OTTLA_BENCH_RECORDS` lowers the size of one
partition (10 million), for a machine with less room.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.audit_logs import write_pair
from benchmarks.loads.result import Figure

RECORDS: Final = int(os.environ.get("OTTLA_BENCH_RECORDS", "10_000_000"))
PARTITIONS: Final = (1, 2, 4)
GOAL_RECORDS_PER_S: Final = 8_000_000
GOAL_SQL_PER_S: Final = 800_000
GOAL_START_S: Final = 7.0
MASTER: Final = "local[2]"
_MIB: Final = 1 << 20


def measure(directory: Path) -> Iterator[Figure]:
    """Write the logs, then audit one, two and four partitions of them."""
    raw, clean = directory / "raw", directory / "clean"
    write_pair(raw, clean, RECORDS)
    for partition in range(1, max(PARTITIONS)):
        _copy_partition(raw, partition)
        _copy_partition(clean, partition)
    yield from _start(clean)
    for count in PARTITIONS:
        chosen = directory / f"first-{count}"
        _choose(raw, chosen / "raw", count)
        _choose(clean, chosen / "clean", count)
        yield _audit(chosen, count)
    yield _sql(directory / "first-2", 2)


def _start(clean: Path) -> Iterator[Figure]:
    """What starting costs: the whole command on a log of a thousand records."""
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
    subprocess.run(command, capture_output=True, check=True)
    seconds = min(
        _timed(lambda: subprocess.run(command, capture_output=True, check=True)) for _ in range(3)
    )
    yield Figure(
        name="audit: start to verdict of a tiny log, whole process",
        unit="s",
        value=seconds,
        better="lower",
        goal=GOAL_START_S,
    )


def _audit(chosen: Path, count: int) -> Figure:
    from analytics.plan import Audit
    from analytics.run import Request, run_audit
    from ottla.cli.logs.verify import verify_directory

    request = Request(
        audit=Audit.COMPACTION,
        directories=[str(chosen / "clean")],
        against=str(chosen / "raw"),
        master=MASTER,
    )
    run_audit(request)
    result = run_audit(request)
    assert result.verdict.is_clean, result.verdict.line()
    records = RECORDS * count
    plain_s = _timed(lambda: _read_all(chosen))
    verify_s = _timed(lambda: verify_directory(chosen / "raw", with_records=False))
    return Figure(
        name=f"audit compaction, {records / 1e6:g} M records in {count} partitions",
        unit="M records/s",
        value=records / result.verdict.duration_s / 1e6,
        better="higher",
        goal=GOAL_RECORDS_PER_S / 1e6 if count == max(PARTITIONS) else None,
        note=(
            f"plain read of the same bytes {records / plain_s / 1e6:.1f}, "
            f"ottla logs verify (structure only) {records / verify_s / 1e6:.2f}"
        ),
    )


def _sql(chosen: Path, count: int) -> Figure:
    until = str(next(_cleaner_points(chosen / "clean")))
    places = str(chosen / "clean"), str(chosen / "raw"), until
    command = [sys.executable, "-m", "benchmarks.audit_sql", *places]
    told = subprocess.run(command, capture_output=True, check=True, text=True)
    seconds = float(told.stdout.split()[-1])
    return Figure(
        name=f"audit by SQL, {RECORDS * count / 1e6:g} M records",
        unit="M records/s",
        value=RECORDS * count / seconds / 1e6,
        better="higher",
        goal=GOAL_SQL_PER_S / 1e6,
    )


def _cleaner_points(root: Path) -> Iterator[int]:
    for line in (root / "cleaner-offset-checkpoint").read_text().splitlines()[2:]:
        yield int(line.split()[-1])


def _copy_partition(root: Path, partition: int) -> None:
    shutil.copytree(root / "orders-0", root / f"orders-{partition}")


def _choose(root: Path, target: Path, count: int) -> None:
    """The first `count` partitions by hard links, with checkpoints that name them."""
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
    for path in root.rglob("*.log"):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
