"""Cost of finding a region: at the tail, in the middle, in a closed segment (edge).

`python -m benchmarks.micro.test_log_read` prints microseconds per `Log.read`; the bytes themselves
are not read, because a fetch sends them with sendfile. As a test each case runs once, with a check
of its result.
"""

from __future__ import annotations

import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import structlog

from benchmarks.micro.test_log_append import NOW_MS, append_all, batch_of, open_log
from kafkawire.ids import Offset
from kafkawire.records import iterate_batches, read_header
from storage.log.log import FileRegion, Log

MIB: Final = 1024 * 1024
ROUNDS: Final = 15
CALLS: Final = 500
LOG_BYTES: Final = 64 * MIB


class Case(NamedTuple):
    """One read, and the number of batches from its offset to the end of the log."""

    name: str
    batches_before_end: int
    max_bytes: int
    batches_before_limit: int = 0


CASES: Final = [
    Case("nothing new", 0, MIB),
    Case("the newest batch", 1, MIB),
    Case("16 batches to the end", 16, MIB),
    Case("1 MiB in the middle", 1 << 30, MIB),
    Case("16 batches, end offset before the end", 32, MIB, batches_before_limit=16),
]


def filled_log(directory: Path, record_count: int, size_bytes: int = LOG_BYTES) -> Log:
    """Return a log of `size_bytes`, in batches of `record_count` records of a kilobyte."""
    log = open_log(directory)
    batch = batch_of(record_count)
    append_all(log, batch, read_header(batch), size_bytes // len(batch))
    return log


def read_of(log: Log, case: Case, record_count: int) -> Callable[[], FileRegion]:
    """Return the read of a case in this log."""
    end = log.log_end_offset
    offset = end - case.batches_before_end * record_count
    offset = Offset(offset if offset >= 0 else end // 2 // record_count * record_count)
    limit = Offset(end - case.batches_before_limit * record_count)
    return lambda: log.read(offset, case.max_bytes, end_offset=limit, min_one_batch=True)


def microseconds(run: Callable[[], object]) -> float:
    """Return the time per call of the fastest round."""
    return min(timeit.repeat(run, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def main() -> None:
    """Measure all, and print a line for each."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    with tempfile.TemporaryDirectory() as directory:
        for record_count in (16, 1):
            log = filled_log(Path(directory) / str(record_count), record_count)
            size = log.size_bytes // (log.log_end_offset // record_count)
            for case in CASES:
                figure = microseconds(read_of(log, case, record_count))
                sys.stdout.write(f"{size:>6} bytes a batch, {case.name}: {figure:.2f} us\n")
            middle = read_of(log, CASES[3], record_count)
            log.upkeep.roll(NOW_MS)
            figure = microseconds(middle)
            sys.stdout.write(
                f"{size:>6} bytes a batch, 1 MiB of a closed segment: {figure:.2f} us\n"
            )


@pytest.mark.parametrize("record_count", [1, 16])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_read(tmp_path: Path, case: Case, record_count: int) -> None:
    log = filled_log(tmp_path / "load-0", record_count, 4 * MIB)
    region = read_of(log, case, record_count)()
    batches = [header for header, _ in iterate_batches(region.read())]
    end = log.log_end_offset - case.batches_before_limit * record_count
    if case.batches_before_end < 100:
        assert len(batches) == case.batches_before_end - case.batches_before_limit
        assert not batches or batches[-1].next_offset == end
    else:
        assert region.size_bytes <= case.max_bytes < region.size_bytes + batches[0].size_bytes


if __name__ == "__main__":
    main()
