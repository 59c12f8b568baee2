"""A step of an operation fails, and a batch follows instead of another attempt.

Each call of the operation fails once. Descriptors and space are back afterwards.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import BatchBuilder, ControlType, read_header
from storage.config.log_config import LogConfig
from storage.errors import StorageError
from storage.log.log import Log
from storage.segment.transaction_index import AbortedTransaction
from tests.faults import Fault, injected
from tests.unit.storage.logs import (
    EVERYTHING,
    NOW_MS,
    SMALL,
    fill,
    offsets_in,
    open_log,
    read_all,
    replicated,
)
from tests.unit.storage.produced_batches import marker, produced, write

PASSING = pytest.mark.parametrize(
    "fault", [Fault.NO_SPACE, Fault.NO_DESCRIPTOR], ids=lambda fault: fault.name.lower()
)


def failed(
    directory: Path,
    fault: Fault,
    prepare: Callable[[Log], object],
    act: Callable[[Log], object],
    config: LogConfig = SMALL,
) -> Iterator[Log]:
    """Yield a prepared log after each failure of `act` that there can be."""
    at = 0
    while True:
        log = open_log(directory / f"{at}" / "orders-0", config)
        prepare(log)
        with injected(fault, at, log.directory) as injection, suppress(StorageError, OSError):
            act(log)
        if injection.hit is None:
            assert at, "there was nothing to fail"
            return
        log.health.note_space()
        yield log
        at += 1


def add(log: Log, timestamp_ms: int, value_bytes: int = 20) -> None:
    builder = BatchBuilder()
    builder.append(timestamp_ms, b"key", b"v" * value_bytes)
    batch = builder.build()
    log.append_as_leader(memoryview(batch), read_header(batch), LeaderEpoch(0), NOW_MS)


def reopened(log: Log) -> Log:
    return open_log(log.directory, log.config, was_clean=False)


@PASSING
def test_a_log_that_was_not_emptied_keeps_its_records(tmp_path: Path, fault: Fault) -> None:
    def empty(log: Log) -> None:
        log.truncate_fully_and_start_at(Offset(7))

    for log in failed(tmp_path, fault, lambda log: fill(log, 70), empty):
        left = offsets_in(read_all(log))
        fill(log, 3)
        found = offsets_in(read_all(log))
        assert len(found) == len(left) + 3
        assert found[:-3] == left
        assert offsets_in(read_all(reopened(log))) == found


@PASSING
def test_a_smaller_batch_follows_one_for_which_no_segment_could_begin(
    tmp_path: Path, fault: Fault
) -> None:
    """Its index entry goes to files of which one may be closed already."""

    def begin(log: Log) -> None:
        for number in range(15):
            add(log, NOW_MS + number)
        assert len(log.segments) == 1

    config = replace(SMALL, index_interval_bytes=1)
    for log in failed(
        tmp_path, fault, begin, lambda log: add(log, NOW_MS + 15, value_bytes=1_000), config
    ):
        end = log.log_end_offset
        for number in range(3):
            add(log, NOW_MS + 16 + number)
        assert offsets_in(read_all(log)) == list(range(end + 3))
        log.upkeep.close()
        again = open_log(log.directory, config)
        assert offsets_in(read_all(again)) == list(range(end + 3))


@PASSING
def test_a_leader_goes_on_where_a_follower_could_not_write_behind_a_gap(
    tmp_path: Path, fault: Fault
) -> None:
    """The segment for the batch may exist, and no batch may begin below it."""
    config = replace(SMALL, segment_bytes=300)

    def follow(log: Log) -> None:
        log.append_as_follower(memoryview(replicated(20, epoch=1)), NOW_MS)

    for log in failed(tmp_path, fault, lambda log: fill(log, 3), follow, config):
        fill(log, 2, epoch=2)
        end = log.log_end_offset
        assert offsets_in(read_all(log))[-2:] == [end - 2, end - 1]
        assert read_all(reopened(log)) == read_all(log)


@PASSING
def test_a_log_that_was_not_truncated_keeps_its_aborted_transactions(
    tmp_path: Path, fault: Fault
) -> None:
    def abort(log: Log) -> None:
        fill(log, 5)
        write(log, produced(7, 0, is_transactional=True))
        write(log, marker(7, log.log_end_offset, ControlType.ABORT))

    for log in failed(tmp_path, fault, abort, lambda log: log.truncate_to(Offset(5))):
        end = log.log_end_offset
        region = log.read(Offset(5), EVERYTHING, end_offset=end, min_one_batch=True)
        found = log.aborted_in(region, Offset(5), end)
        expected = [AbortedTransaction(7, Offset(5), Offset(6), Offset(7))]
        assert found == (expected if end == 7 else []), log.log_end_offset


@PASSING
def test_an_index_that_could_not_be_rebuilt_is_rebuilt_by_the_next_use(
    tmp_path: Path, fault: Fault
) -> None:
    for log in failed(
        tmp_path, fault, lambda log: fill(log, 30), lambda log: log.segments[0].mend_index()
    ):
        assert offsets_in(read_all(log)) == list(range(30))
        found = log.offset_for_timestamp(NOW_MS, Offset(30))
        assert found is not None
        assert found.offset == 0
        assert [each.index.max_timestamp_ms for each in log.segments] == [NOW_MS, NOW_MS]
        fill(log, 1)
        assert offsets_in(read_all(reopened(log))) == list(range(31))
