"""The plain loops, even with compiled twins: fixed examples run each of their lines.

If compiled twins are built, other tests seldom reach the plain ones. The properties of
`tests/property` compare both with fresh examples, which do not count as coverage. Here the same
properties run on fixed bytes.
"""

import random
import struct
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from hypothesis import is_hypothesis_test

from kafkawire import columns_loops, records_loops
from kafkawire.errors import CorruptBatchError, EncodeError
from kafkawire.records import BatchBuilder

MODULES = (
    "test_columns_twins",
    "test_compaction_twins",
    "test_fetch_twins",
    "test_frames_twins",
    "test_produce_twins",
    "test_records",
    "test_records_twins",
)
EXAMPLES = 40
EXAMPLE_BYTES = 3_000


def properties() -> Iterator[Any]:
    for name in MODULES:
        module = import_module(f"tests.property.kafkawire.{name}")
        for attribute, function in vars(module).items():
            if is_hypothesis_test(function):
                yield pytest.param(function, id=f"{name}-{attribute}")


@pytest.mark.parametrize("agree", list(properties()))
def test_the_twins_agree_on_fixed_examples(agree: Any) -> None:
    feed: Callable[[bytes], bytes | None] = agree.hypothesis.fuzz_one_input
    fed = [feed(random.Random(seed).randbytes(EXAMPLE_BYTES)) for seed in range(EXAMPLES)]
    assert any(each is not None for each in fed), "no example was one"


NOW_MS = 1_000_000
LAST_OFFSET_DELTA, PRODUCER_ID = 23, 43
"""Positions of these fields in a batch."""


def plain_batch(count: int = 2) -> bytearray:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(NOW_MS + number, b"k", b"v")
    return bytearray(builder.build())


def is_plain(batch: bytearray, *, times_matter: bool = False, reach_ms: int = 10) -> bool:
    found = records_loops.read_plain_batch(
        memoryview(batch), 1_000, True, times_matter, NOW_MS, reach_ms, reach_ms
    )
    return found is not None


def test_batch_that_is_not_plain_is_left_to_the_full_check() -> None:
    assert is_plain(plain_batch(), times_matter=True)
    assert not is_plain(plain_batch(), times_matter=True, reach_ms=0)
    gap = plain_batch()
    struct.pack_into(">i", gap, LAST_OFFSET_DELTA, 5)
    assert not is_plain(gap)
    without_sequence = plain_batch()
    struct.pack_into(">q", without_sequence, PRODUCER_ID, 7)
    assert not is_plain(without_sequence)


def test_survey_reports_the_first_record_out_of_place() -> None:
    one, two = records_loops.RecordBuffer(), records_loops.RecordBuffer()
    one.append(NOW_MS, b"k", b"v")
    for number in range(2):
        two.append(NOW_MS + number, memoryview(b"k"), bytearray(b"v"))
    second = two.records()[len(one.records()) :]
    assert records_loops.survey_records(second, 1, NOW_MS)[3] == 0


def test_record_buffer_has_a_maximum_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_loops, "_MAX_INT32", 50)
    with pytest.raises(EncodeError, match="at most 50 bytes"):
        records_loops.RecordBuffer().append(NOW_MS, None, b"v" * 50)


def test_record_without_a_size_is_damage() -> None:
    with pytest.raises(CorruptBatchError, match="cannot have 0 bytes"):
        list(columns_loops.walk_fields(bytes(7), 1))
