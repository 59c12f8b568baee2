"""Cleaning of a log that has lost the transaction index of a segment."""

import pytest

from kafkawire.ids import Offset
from kafkawire.records import ControlType
from storage.errors import CorruptLogError
from storage.log.log import Log
from tests.unit.storage.compacting import (
    COMPACTED,
    append_batch,
    clean,
    headers_of,
    job_of,
    keyed_batch,
    put,
    records_of,
    run,
    settings,
)
from tests.unit.storage.logs import NOW_MS, open_log
from tests.unit.storage.produced_batches import marker, write


def put_in_transaction(log: Log, key: bytes, value: bytes, sequence: int = 0) -> None:
    producer = (7, 0, sequence)
    append_batch(log, keyed_batch([(key, value)], producer=producer, is_transactional=True))


def end_transaction(log: Log, control_type: ControlType) -> None:
    write(log, marker(7, 0, control_type))


def reopened_without(log: Log, name: str) -> Log:
    """Return the log after a clean stop, the loss of a file, and a start."""
    log.upkeep.close()
    (log.directory / name).unlink()
    return open_log(log.directory, COMPACTED)


def values_of(log: Log) -> list[tuple[int, bytes | None]]:
    return [(each.offset, each.value) for each in records_of(log)]


def with_abort_in_one_segment(log: Log) -> Log:
    put(log, (b"a", b"committed"))
    put_in_transaction(log, b"a", b"aborted")
    end_transaction(log, ControlType.ABORT)
    log.upkeep.roll(NOW_MS)
    return reopened_without(log, "00000000000000000000.txnindex")


def test_records_of_unknown_outcome_stop_the_cleaning_before_it_changes_a_file(log: Log) -> None:
    log = with_abort_in_one_segment(log)
    before = {path.name: path.read_bytes() for path in log.directory.iterdir()}
    expected = (
        r"00\.txnindex .*: no entry for the records of producer 7 that the marker at 2 aborts"
    )
    with pytest.raises(CorruptLogError, match=expected):
        run(job_of(log))
    assert {path.name: path.read_bytes() for path in log.directory.iterdir()} == before


def test_a_start_without_the_offset_index_rebuilds_the_transaction_index(log: Log) -> None:
    log = reopened_without(with_abort_in_one_segment(log), "00000000000000000000.index")
    assert clean(log) == 3
    assert values_of(log) == [(0, b"committed")]


@pytest.mark.parametrize("slot_count", [1_000, 1], ids=["map to the bound", "map full before"])
def test_a_transaction_that_is_open_at_the_end_of_the_map_is_followed_to_its_marker(
    log: Log, slot_count: int
) -> None:
    put(log, (b"a", b"committed"))
    put_in_transaction(log, b"a", b"aborted")
    if slot_count > 1:
        log.upkeep.roll(NOW_MS)
    put(log, (b"b", b"1"))
    log.upkeep.roll(NOW_MS)
    put(log, (b"c", b"1"))
    end_transaction(log, ControlType.ABORT)
    # Another transaction of the same producer, in the same segment.
    put_in_transaction(log, b"c", b"2", sequence=1)
    end_transaction(log, ControlType.COMMIT)
    last = log.segments[-1].base_offset
    log = reopened_without(log, f"{last:020}.txnindex")
    with pytest.raises(CorruptLogError, match=rf"{last}\.txnindex .* aborts"):
        run(job_of(log, chosen=settings(slot_count=slot_count)))


def test_a_committed_transaction_that_is_open_at_the_end_of_the_map_is_cleaned(log: Log) -> None:
    put(log, (b"a", b"1"))
    put_in_transaction(log, b"a", b"2")
    log.upkeep.roll(NOW_MS)
    end_transaction(log, ControlType.COMMIT)
    put_in_transaction(log, b"b", b"aborted", sequence=1)
    end_transaction(log, ControlType.ABORT)
    log = reopened_without(log, "00000000000000000002.txnindex")
    assert clean(log) == 2
    assert values_of(log)[0] == (1, b"2")


def test_no_record_behind_the_last_needed_marker_is_read(log: Log) -> None:
    put_in_transaction(log, b"a", b"1")
    log.upkeep.roll(NOW_MS)
    end_transaction(log, ControlType.COMMIT)
    put(log, (b"b", b"1"))
    job = job_of(log)
    path = log.segments[-1].file.path
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert run(job)[1].end_offset == 1


def test_a_lost_index_of_clean_segments_is_found_while_they_are_copied(log: Log) -> None:
    log = with_abort_in_one_segment(log)
    put(log, (b"b", b"1"))
    log.upkeep.roll(NOW_MS)
    with pytest.raises(CorruptLogError, match="aborts"):
        run(job_of(log, dirty_from=3))


def test_aborted_records_below_the_dirty_part_of_their_segment_are_known(log: Log) -> None:
    put_in_transaction(log, b"a", b"aborted")
    end_transaction(log, ControlType.ABORT)
    put(log, (b"a", b"committed"))
    log.upkeep.roll(NOW_MS)
    assert clean(log, dirty_from=2) == 3
    assert values_of(log) == [(2, b"committed")]


def test_a_marker_needs_no_entry_once_the_records_are_gone(log: Log) -> None:
    put_in_transaction(log, b"a", b"aborted")
    log.upkeep.roll(NOW_MS)
    end_transaction(log, ControlType.ABORT)
    log.upkeep.roll(NOW_MS)
    assert clean(log) == 2
    assert clean(log) == 2
    assert values_of(log) == []
    log.upkeep.close()
    assert open_log(log.directory, COMPACTED).log_end_offset == Offset(2)


def put_unique(log: Log, name: bytes, count: int = 20) -> None:
    for number in range(count):
        put(log, (name + b"%d" % number, b"1"))


@pytest.mark.parametrize(
    ("suffix", "content"), [("index", None), ("txnindex", b"damaged")], ids=["lost", "damaged"]
)
def test_a_rebuilt_index_reopens_no_transaction_whose_marker_was_cleaned_away(
    log: Log, suffix: str, content: bytes | None
) -> None:
    put_unique(log, b"a")
    put_in_transaction(log, b"x", b"1")
    log.upkeep.roll(NOW_MS)
    # The snapshot of the producers at the start of this segment has the open transaction.
    second = log.log_end_offset
    end_transaction(log, ControlType.COMMIT)
    put(log, (b"x", b"2"))
    put_unique(log, b"b")
    log.upkeep.roll(NOW_MS)
    put_unique(log, b"c")
    log.upkeep.roll(NOW_MS)
    log.producers.expire(NOW_MS + 1_000, 1_000)
    # The first round drops the record, the second finds a marker without data, the third drops it.
    for number in range(3):
        clean(log, dirty_from=0, now_ms=NOW_MS + number * COMPACTED.delete_retention_ms)
    assert second in [segment.base_offset for segment in log.segments]
    assert not any(header.is_control for header in headers_of(log))
    log.upkeep.close()
    path = log.directory / f"{second:020}.{suffix}"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    for _ in range(2):
        log = open_log(log.directory, COMPACTED)
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
        log.upkeep.close()


def test_a_crash_reopens_no_transaction_whose_marker_was_cleaned_away(log: Log) -> None:
    put_unique(log, b"a")
    put_in_transaction(log, b"x", b"1")
    log.upkeep.roll(NOW_MS)
    end_transaction(log, ControlType.COMMIT)
    put(log, (b"x", b"2"))
    put_unique(log, b"b")
    log.upkeep.roll(NOW_MS)
    put_unique(log, b"c")
    log.producers.expire(NOW_MS + 1_000, 1_000)
    for number in range(3):
        clean(log, dirty_from=0, now_ms=NOW_MS + number * COMPACTED.delete_retention_ms)
    assert not any(header.is_control for header in headers_of(log))
    log.upkeep.flush_closed()
    recovery_point = log.recovery_point
    assert recovery_point == log.segments[-1].base_offset
    log.upkeep.close()
    log = open_log(log.directory, COMPACTED, was_clean=False, recovery_point=recovery_point)
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset


def test_damage_below_the_recovery_point_costs_no_aborted_transaction(log: Log) -> None:
    put(log, (b"a", b"committed"))
    put_in_transaction(log, b"a", b"aborted")
    end_transaction(log, ControlType.ABORT)
    log.upkeep.roll(NOW_MS)
    put(log, (b"b", b"1"))
    log.upkeep.flush_closed()
    recovery_point = log.recovery_point
    log.upkeep.close()
    path = log.directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    # The magic byte of the first batch.
    data[16] ^= 64
    path.write_bytes(data)
    index = path.with_suffix(".txnindex")
    before = index.read_bytes()
    assert before
    open_log(log.directory, COMPACTED, was_clean=False, recovery_point=recovery_point)
    assert index.read_bytes() == before


def test_all_lost_indexes_are_rebuilt_at_a_start(log: Log) -> None:
    for sequence in range(4):
        put_in_transaction(log, b"a", b"aborted", sequence)
        if sequence == 1:
            # This transaction extends over two segments.
            log.upkeep.roll(NOW_MS)
        end_transaction(log, ControlType.ABORT)
        put_unique(log, b"b")
        log.upkeep.roll(NOW_MS)
    log.upkeep.close()
    indexes = sorted(log.directory.glob("*.txnindex"))
    before = {path: path.read_bytes() for path in indexes if path.stat().st_size}
    snapshots = {path: path.read_bytes() for path in log.directory.glob("*.snapshot")}
    assert len(before) == 4
    # The last one keeps its index.
    for path in indexes[:3]:
        path.unlink(missing_ok=True)
        path.with_suffix(".index").unlink()
    log = open_log(log.directory, COMPACTED)
    assert {path: path.read_bytes() for path in before} == before
    assert {path: path.read_bytes() for path in snapshots} == snapshots
