"""Cost of the compaction loops per record; `python -m benchmarks.micro.test_compaction`."""

import random
import sys
import time
from types import ModuleType

import pytest

from kafkawire import compaction_loops
from kafkawire.native import compiled
from kafkawire.records_loops import RecordBuffer

TWINS: list[ModuleType] = [compaction_loops, *filter(None, [compiled("_compaction")])]

BATCH_RECORDS = 145
SEED = b"sixteen bytes..."
BASE_MS = 1_700_000_000_000


def sections(batch_count: int, key_count: int, value_bytes: int = 100) -> list[bytes]:
    """Return record sections of batches with repeated keys."""
    dice = random.Random(1)
    found = []
    for _ in range(batch_count):
        buffer = RecordBuffer()
        for number in range(BATCH_RECORDS):
            key = b"%012d" % dice.randrange(key_count)
            buffer.append(BASE_MS + number, key, b"v" * value_bytes)
        found.append(buffer.records())
    return found


def measure(twin: ModuleType, batch_count: int, key_count: int) -> dict[str, float]:
    """Return the nanoseconds per record of each loop, which uses the previous loop's result."""
    data = sections(batch_count, key_count)
    offsets = twin.OffsetMap(2 * key_count, SEED)
    total = batch_count * BATCH_RECORDS
    times: dict[str, float] = {}

    def note(name: str, began_ns: int) -> None:
        times[name] = (time.perf_counter_ns() - began_ns) / total

    began = time.perf_counter_ns()
    for number, section in enumerate(data):
        base = number * BATCH_RECORDS
        assert twin.index_keys(section, BATCH_RECORDS, base, 0, offsets, 2 * key_count)
    note("index_keys", began)
    assert 0 < offsets.size <= key_count
    began = time.perf_counter_ns()
    choices = [
        twin.choose_records(
            section, BATCH_RECORDS, number * BATCH_RECORDS, BASE_MS, None, offsets, False
        )
        for number, section in enumerate(data)
    ]
    note("choose_records", began)
    assert sum(choice.kept_count for choice in choices) == offsets.size
    began = time.perf_counter_ns()
    for section, choice in zip(data, choices, strict=True):
        twin.rewrite_records(section, choice.kept, BASE_MS, None, BASE_MS)
    note("rewrite_records, same base", began)
    began = time.perf_counter_ns()
    for section, choice in zip(data, choices, strict=True):
        twin.rewrite_records(section, choice.kept, BASE_MS, None, BASE_MS + 5)
    note("rewrite_records, other base", began)
    return times


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.__name__)
def test_every_loop_is_measured(twin: ModuleType) -> None:
    assert len(measure(twin, batch_count=3, key_count=100)) == 4


if __name__ == "__main__":
    for keys in (1_000, 1_000_000):
        for twin in TWINS:
            batch_count = 600 if twin is compaction_loops else 14_000
            for name, ns in measure(twin, batch_count, keys).items():
                line = f"{twin.__name__:28} {keys:>9,} keys  {name:28} {ns:8.1f} ns/record"
                sys.stdout.write(line + "\n")
