"""Cost of idempotence per append (edge).

`chrt -r 10 python -m benchmarks.micro.test_producers` prints microseconds per batch of 16 records
of a kilobyte, with writes that do nothing: without a producer id, with one, with a thousand
producers in turn, and for a duplicate batch. As a test each case runs once, with a check of its
result.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest
import structlog

from benchmarks.micro.test_log_append import NOW_MS, ROUNDS, batch_of, fastest, no_write, open_log
from kafkawire.ids import LeaderEpoch
from kafkawire.records import BatchHeader, read_header
from storage.log.log import Log

RECORD_COUNT: Final = 16
BATCHES: Final = 20_000
CASES: Final = {"no producer": 0, "one producer": 1, "1000 producers in turn": 1000}
EPOCH: Final = LeaderEpoch(0)


def headers_for(header: BatchHeader, producer_count: int, count: int) -> list[BatchHeader]:
    """Return the headers of `count` batches that `producer_count` producers send in turn."""
    if producer_count == 0:
        return [header] * count
    return [
        header._replace(
            producer_id=number % producer_count,
            producer_epoch=0,
            base_sequence=number // producer_count * RECORD_COUNT,
        )
        for number in range(count)
    ]


def append_all(log: Log, batch: bytearray, headers: list[BatchHeader]) -> None:
    """Append a batch under each header."""
    view = memoryview(batch)
    append = log.append_as_leader
    for header in headers:
        append(view, header, EPOCH, NOW_MS)


def measure(root: Path, producer_count: int) -> float:
    """Return the microseconds per batch."""
    batch = batch_of(RECORD_COUNT)
    headers = headers_for(read_header(batch), producer_count, BATCHES)
    with no_write():
        logs = [open_log(root / str(number)) for number in range(ROUNDS)]
        for log in logs:
            log.leader_epochs.assign(EPOCH, log.log_end_offset)
        return fastest(lambda number: append_all(logs[number], batch, headers), BATCHES)


def measure_repeated(root: Path) -> float:
    """Return the microseconds for the detection of a duplicate batch."""
    batch = batch_of(RECORD_COUNT)
    headers = headers_for(read_header(batch), 1, 5)
    log = open_log(root / "repeated")
    append_all(log, batch, headers)
    return fastest(lambda _: append_all(log, batch, headers * 1_000), 5_000)


def main() -> None:
    """Measure all, and print a line for each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with tempfile.TemporaryDirectory() as directory:
        for name, producer_count in CASES.items():
            microseconds = measure(Path(directory) / str(producer_count), producer_count)
            sys.stdout.write(f"{name:>24}: {microseconds:.2f} us\n")
        sys.stdout.write(f"{'repeated':>24}: {measure_repeated(Path(directory)):.2f} us\n")


@pytest.mark.parametrize("producer_count", CASES.values())
def test_append(tmp_path: Path, producer_count: int) -> None:
    log = open_log(tmp_path / "load-0")
    batch = batch_of(RECORD_COUNT)
    append_all(log, batch, headers_for(read_header(batch), producer_count, 10))
    assert log.log_end_offset == 10 * RECORD_COUNT
    assert len(log.producers) == min(producer_count, 10)


def test_repeated(tmp_path: Path) -> None:
    assert measure_repeated(tmp_path) > 0


if __name__ == "__main__":
    main()
