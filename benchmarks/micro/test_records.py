"""The record loops, plain and compiled, beside aiokafka's C extension (edge).

`python -m benchmarks.micro.test_records` prints microseconds per record (and per batch, for
operations on batches). As a test each case runs once, with a check of its result.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple

import aiokafka.record.default_records as aiokafka
import pytest

from kafkawire import records_loops
from kafkawire.native import compiled
from kafkawire.records import (
    BATCH_HEADER_BYTES,
    BatchBuilder,
    BatchHeader,
    Headers,
    TimestampType,
    assign_offsets,
    crc_matches,
    read_header,
    validate_produced,
)

NOW_MS: Final = 1_700_000_000_000
RECORD_COUNT: Final = 1000
ROUNDS: Final = 15
KEY: Final = b"key-0123"
HEADERS: Final[Headers] = (("trace", b"0123456789"), ("kind", b"order"))
SHAPES: Final = [(100, ()), (1024, ()), (100, HEADERS)]

SCANNERS: Final[dict[str, ModuleType]] = {"plain": records_loops}
if (_records := compiled("_records")) is not None:
    SCANNERS["compiled"] = _records


class Row(NamedTuple):
    """The nine fields of a consumer's record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_type: int
    leader_epoch: int


class Case(NamedTuple):
    """One measured call, and its number of records."""

    name: str
    run: Callable[[], Any]
    record_count: int = RECORD_COUNT

    def microseconds(self) -> float:
        """Return the time per record of the fastest round: the others were disturbed."""
        calls = max(1, 300 // self.record_count)
        fastest = min(timeit.repeat(self.run, number=calls, repeat=ROUNDS))
        return fastest / calls / self.record_count * 1e6


def build_batch(value_bytes: int, headers: Headers, record_count: int = RECORD_COUNT) -> bytearray:
    """Return a batch as a producer sends it."""
    builder = BatchBuilder()
    value = bytes(value_bytes)
    for number in range(record_count):
        builder.append(NOW_MS + number // 7, KEY, value, headers)
    return builder.build()


def scanner_cases(value_bytes: int, headers: Headers) -> Iterator[Case]:
    """Yield reading, surveying and building, by each scanner."""
    batch = build_batch(value_bytes, headers)
    section = memoryview(batch)[BATCH_HEADER_BYTES:]
    value = bytes(value_bytes)

    def read(scanner: ModuleType) -> list[Row]:
        rows: list[Row] = scanner.read_rows(
            section, RECORD_COUNT, 0, NOW_MS, None, Row, ("topic", 0), (0, 1)
        )
        return rows

    def survey(scanner: ModuleType) -> tuple[int, ...]:
        answer: tuple[int, ...] = scanner.survey_records(section, RECORD_COUNT, NOW_MS)
        return answer

    def build(scanner: ModuleType) -> bytes:
        buffer = scanner.RecordBuffer()
        append = buffer.append
        for number in range(RECORD_COUNT):
            append(NOW_MS + number // 7, KEY, value, headers)
        built: bytes = buffer.records()
        return built

    for name, scanner in SCANNERS.items():
        yield Case(f"read into rows, {name}", partial(read, scanner))
        yield Case(f"validate, {name}", partial(survey, scanner))
        yield Case(f"build, {name}", partial(build, scanner))


def aiokafka_cases(value_bytes: int, headers: Headers) -> Iterator[Case]:
    """Yield the same by aiokafka's C extension; its fields are accessed to be comparable."""
    batch = bytes(build_batch(value_bytes, headers))
    value = bytes(value_bytes)
    header_list = list(headers)

    def iterate() -> int:
        return sum(1 for _ in aiokafka.DefaultRecordBatch(batch))

    def read() -> list[tuple[object, ...]]:
        return [
            (record.offset, record.timestamp, record.key, record.value, record.headers)
            for record in aiokafka.DefaultRecordBatch(batch)
        ]

    def build() -> bytes:
        builder = aiokafka.DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
        append = builder.append
        for number in range(RECORD_COUNT):
            append(number, NOW_MS + number // 7, KEY, value, header_list)
        return bytes(builder.build())

    yield Case("iterate only, aiokafka C", iterate)
    yield Case("read into tuples, aiokafka C", read)
    yield Case("build, aiokafka C", build)


def batch_cases(value_bytes: int, record_count: int) -> Iterator[Case]:
    """Yield the operations of a broker per batch, regardless of its records."""
    batch = memoryview(build_batch(value_bytes, (), record_count))
    header = read_header(batch)

    def validate() -> BatchHeader:
        return validate_produced(
            batch,
            compacted=False,
            max_batch_bytes=1 << 24,
            timestamp_type=TimestampType.CREATE_TIME,
            now_ms=NOW_MS,
            timestamp_before_max_ms=2**63 - 1,
            timestamp_after_max_ms=2**63 - 1,
        )

    yield Case("read header", lambda: read_header(batch), 1)
    yield Case("checksum", lambda: crc_matches(batch, header), 1)
    yield Case("validate", validate, 1)
    yield Case("assign offsets", lambda: assign_offsets(batch, 0, 7), 1)


@pytest.mark.parametrize(("value_bytes", "headers"), SHAPES)
def test_all_read_and_build_the_same(value_bytes: int, headers: Headers) -> None:
    batch = build_batch(value_bytes, headers)
    answers = {
        case.name: case.run()
        for cases in (scanner_cases, aiokafka_cases)
        for case in cases(value_bytes, headers)
    }
    fields = [(*record[:4], tuple(record[4])) for record in answers["read into tuples, aiokafka C"]]
    for name in SCANNERS:
        rows = answers[f"read into rows, {name}"]
        assert [row[2:7] for row in rows] == fields
        assert answers[f"validate, {name}"] == (NOW_MS, fields[-1][1], -1, -1)
        assert answers[f"build, {name}"] == batch[BATCH_HEADER_BYTES:]
    assert answers["build, aiokafka C"][BATCH_HEADER_BYTES:] == batch[BATCH_HEADER_BYTES:]
    assert answers["iterate only, aiokafka C"] == RECORD_COUNT


def test_operations_per_batch_accept_a_valid_batch() -> None:
    batch = build_batch(1024, (), 1)
    answers = {case.name: case.run() for case in batch_cases(1024, 1)}
    assert answers.pop("checksum") is True
    assert answers.pop("assign offsets") is None
    assert set(answers.values()) == {read_header(batch)}


def main() -> int:
    """Print every figure."""
    for value_bytes, headers in SHAPES:
        sys.stdout.write(f"\nus per record, values of {value_bytes} B, {len(headers)} headers\n")
        for case in (*scanner_cases(value_bytes, headers), *aiokafka_cases(value_bytes, headers)):
            sys.stdout.write(f"{case.microseconds():9.3f}  {case.name}\n")
    for value_bytes, record_count in ((1000, 1), (100, 145), (1000, 16)):
        sys.stdout.write(f"\nus per batch, {record_count} x {value_bytes} B\n")
        for case in batch_cases(value_bytes, record_count):
            sys.stdout.write(f"{case.microseconds():9.2f}  {case.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
