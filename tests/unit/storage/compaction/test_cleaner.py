"""The result of a cleaning in the files of a log."""

import errno
import io
import os
from dataclasses import replace

import pytest

from kafkawire.compression import Codec
from kafkawire.ids import Offset
from kafkawire.records import TimestampType, read_header
from kafkawire.records_loops import encode_varint
from storage.compaction import worker
from storage.compaction.cleaner import Cleaner
from storage.compaction.job import CleaningDone, CleaningFailed, GroupCleaned, read_report
from storage.disk.layout import DirectoryState
from storage.disk.space_reserve import free_bytes
from storage.errors import CorruptLogError, StorageError
from storage.log.log import Log
from storage.segment.cleaned_segment import remove_all_cleaned
from tests.unit.kafkawire.batches import with_section
from tests.unit.storage.compacting import (
    COMPACTED,
    SEED,
    append_at,
    append_batch,
    clean,
    headers_of,
    job_of,
    keyed_batch,
    latest_values,
    put,
    records_of,
    run,
    settings,
)
from tests.unit.storage.faults import failing
from tests.unit.storage.logs import NOW_MS, check_files, open_log


def record_with_delta(delta_ms: int, number: int, key: bytes, value: bytes | None) -> bytes:
    """Return a record at any distance from the base timestamp."""
    body = b"\0" + encode_varint(delta_ms) + encode_varint(number)
    body += encode_varint(len(key)) + key
    body += encode_varint(-1) if value is None else encode_varint(len(value)) + value
    body += encode_varint(0)
    return encode_varint(len(body)) + body


def test_the_last_record_of_each_key_stays_where_it_was(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(log, (b"c", b"1"), (b"b", b"2"))
    log.upkeep.roll(NOW_MS)
    put(log, (b"c", b"active"))
    assert clean(log) == 5
    assert [(each.offset, each.key, each.value) for each in records_of(log)] == [
        (2, b"a", b"2"),
        (3, b"c", b"1"),
        (4, b"b", b"2"),
        (5, b"c", b"active"),
    ]
    log.upkeep.close()
    check_files(log.directory, COMPACTED.index_interval_bytes)


def test_records_below_the_log_start_are_cleaned_too(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    put(log, (b"b", b"1"))
    log.upkeep.roll(NOW_MS)
    log.advance_log_start(Offset(2))
    assert clean(log) == 3
    # A crash may bring back the older log start offset.
    log = open_log(log.directory, COMPACTED, was_clean=False)
    assert log.log_start_offset == 0
    assert [each.offset for each in records_of(log)] == [1, 2]


@pytest.mark.parametrize("codec", list(Codec))
def test_kept_records_keep_codec_timestamps_and_offset_range_of_their_batch(
    log: Log, codec: Codec
) -> None:
    times = [NOW_MS + 50, NOW_MS + 7, NOW_MS - 3, NOW_MS + 20]
    values = [(b"a", b"1"), (b"b", b"1" * 300), (b"c", b"1" * 300), (b"d", b"1")]
    append_batch(log, keyed_batch(values, times_ms=times, codec=codec), epoch=3)
    put(log, (b"a", b"2"), (b"d", b"2"))
    log.upkeep.roll(NOW_MS)
    clean(log)
    assert [each.timestamp_ms for each in records_of(log)][:2] == times[1:3]
    first = headers_of(log)[0]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 3, 2)
    assert (first.leader_epoch, first.codec) == (3, codec)
    assert (first.base_timestamp_ms, first.max_timestamp_ms) == (NOW_MS + 7, NOW_MS + 7)


def test_records_with_the_brokers_time_keep_it(log: Log) -> None:
    append_time = TimestampType.LOG_APPEND_TIME
    values = [(b"a", b"1"), (b"b", b"1"), (b"c", None)]
    batch = keyed_batch(values, times_ms=[9, 5, 7], timestamp_type=append_time)
    append_batch(log, batch)
    put(log, (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    clean(log)
    assert [each.timestamp_ms for each in records_of(log)][:2] == [9, 9]
    assert headers_of(log)[0].timestamp_type is append_time


def test_cleaning_stops_before_the_first_undecided_segment(log: Log) -> None:
    for number in range(6):
        put(log, (b"a", b"%d" % number))
        log.upkeep.roll(NOW_MS)
    before = {path.name: path.read_bytes() for path in log.directory.glob("*.log")}
    # The high watermark lies in the segment of offset 3, which is kept completely.
    assert clean(log, undecided=3) == 3
    assert [each.offset for each in records_of(log)] == [2, 3, 4, 5]
    for name in sorted(before)[3:]:
        assert (log.directory / name).read_bytes() == before[name]


def test_cleaning_drops_records_without_a_key(log: Log) -> None:
    put(log, (None, b"written before the topic was compacted"), (b"a", b"1"))
    log.upkeep.roll(NOW_MS)
    clean(log)
    assert [each.offset for each in records_of(log)] == [1]


def test_cleaning_merges_small_segments(log: Log) -> None:
    for number in range(10):
        put(log, (b"%d" % number, b"v"))
        log.upkeep.roll(NOW_MS)
    clean(log)
    assert [each.base_offset for each in log.segments] == [0, 10]
    assert [each.offset for each in records_of(log)] == list(range(10))


def test_a_map_that_is_too_small_takes_several_rounds(log: Log) -> None:
    for number in range(60):
        put(log, (b"%d" % (number % 25), b"%d" % number), (b"x", b"%d" % number))
    log.upkeep.roll(NOW_MS)
    expected = latest_values(records_of(log))
    ends, end = [], 0
    while end < log.log_end_offset:
        end = clean(log, dirty_from=end, chosen=settings(slot_count=7))
        ends.append(end)
        assert latest_values(records_of(log)) == expected
    assert len(ends) > 4
    assert ends == sorted(set(ends))
    keys = [each.key for each in records_of(log)]
    assert len(keys) == len(set(keys)) == 26


def test_a_map_without_room_for_a_key_is_refused(log: Log) -> None:
    with pytest.raises(StorageError, match=r"log\.cleaner\.dedupe\.buffer\.size"):
        run(job_of(log, chosen=settings(slot_count=0)))


def test_batch_larger_than_the_buffer_is_cleaned(log: Log) -> None:
    for number in range(3):
        append_at(log, keyed_batch([(b"a", b"x" * 9_000), (b"b", b"%d" % number)]), number * 2)
    log.upkeep.roll(NOW_MS)
    clean(log, chosen=settings(io_buffer_bytes=100))
    assert [each.offset for each in records_of(log)] == [4, 5]


def test_a_flipped_bit_stops_the_cleaning_and_changes_nothing(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.upkeep.roll(NOW_MS)
    log.upkeep.close()
    path = log.segments[0].files.directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(data)
    with pytest.raises(CorruptLogError, match="checksum"):
        run(job_of(log))
    assert path.read_bytes() == data


def test_round_over_gaps_only_ends_at_its_bound(log: Log) -> None:
    put(log, (b"a", b"1"))
    append_at(log, keyed_batch([(b"a", b"2")]), 5_000)
    log.upkeep.roll(NOW_MS)
    append_at(log, keyed_batch([(b"a", b"3")]), 9_000)
    log.upkeep.roll(NOW_MS)
    assert clean(log) == 9_001
    assert [each.offset for each in records_of(log)] == [9_000]
    assert clean(log, dirty_from=9_001) in (0, 9_001)


def test_last_batch_of_a_round_is_kept_even_without_records(log: Log) -> None:
    """Otherwise a follower that copies the log would never reach its end (KAFKA-17076)."""
    put(log, (b"a", b"1"))
    put(log, (None, b"no key"))
    log.upkeep.roll(NOW_MS)
    clean(log)
    assert [(each.last_offset, each.record_count) for each in headers_of(log)] == [(0, 1), (1, 0)]
    put(log, (b"b", b"1"))
    log.upkeep.roll(NOW_MS)
    clean(log, dirty_from=2)
    assert [each.last_offset for each in headers_of(log)] == [0, 2]


def test_last_batch_of_a_producer_is_kept_without_records(log: Log) -> None:
    append_batch(log, keyed_batch([(b"a", b"1"), (b"b", b"1")], producer=(7, 2, 40)))
    append_batch(log, keyed_batch([(b"a", b"2"), (b"b", b"2")], producer=(8, 0, 0)))
    append_batch(log, keyed_batch([(b"a", b"3"), (b"b", b"3")], producer=(8, 0, 2)))
    log.upkeep.roll(NOW_MS)
    clean(log)
    found = [(each.producer_id, each.base_sequence, each.record_count) for each in headers_of(log)]
    assert found == [(7, 40, 0), (8, 2, 2)]
    empty = headers_of(log)[0]
    assert (empty.producer_epoch, empty.last_sequence, empty.last_offset) == (2, 41, 1)


def test_producer_in_the_active_segment_needs_no_older_batch(log: Log) -> None:
    append_batch(log, keyed_batch([(b"a", b"1")], producer=(7, 0, 0)))
    append_batch(log, keyed_batch([(b"a", b"2")]))
    log.upkeep.roll(NOW_MS)
    append_batch(log, keyed_batch([(b"c", b"1")], producer=(7, 0, 1)))
    clean(log)
    assert [each.base_offset for each in headers_of(log)] == [1, 2]


def test_cleaning_drops_the_last_batch_of_an_expired_producer(log: Log) -> None:
    append_batch(log, keyed_batch([(b"a", b"1")], producer=(7, 0, 0)))
    put(log, (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    log.producers.expire(NOW_MS + 1_000, 1_000)
    clean(log)
    assert [each.base_offset for each in headers_of(log)] == [1]


def test_a_tombstone_stays_from_its_first_cleaning_until_its_horizon(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"c", b"1"))
    put(log, (b"z", b"1"))
    log.upkeep.roll(NOW_MS)
    end = clean(log, now_ms=NOW_MS + 100)
    horizon = NOW_MS + 100 + COMPACTED.delete_retention_ms
    header = headers_of(log)[1]
    assert header.delete_horizon_ms == header.base_timestamp_ms == horizon
    assert [each.timestamp_ms for each in records_of(log)][1:3] == [NOW_MS, NOW_MS + 1]
    # Another cleaning does not move the horizon, and keeps a tombstone before it.
    clean(log, dirty_from=end, now_ms=horizon - 1)
    assert records_of(log)[1].value is None
    assert headers_of(log)[1].delete_horizon_ms == horizon
    put(log, (b"y", b"1"))
    log.upkeep.roll(NOW_MS)
    clean(log, dirty_from=end, now_ms=horizon)
    assert [each.key for each in records_of(log)] == [b"b", b"c", b"z", b"y"]


def test_a_tombstone_whose_horizon_would_leave_64_bits_stays_for_good(log: Log) -> None:
    """A delete.retention.ms of 2^63-1 has no other meaning."""
    forever_ms = 2**63 - 1
    log.update_config(replace(COMPACTED, delete_retention_ms=forever_ms))
    put(log, (b"a", b"1"), (b"a", None))
    log.upkeep.roll(NOW_MS)
    end = clean(log)
    assert [header.delete_horizon_ms for header in headers_of(log)] == [forever_ms]
    clean(log, dirty_from=end, now_ms=forever_ms - 1)
    assert [(each.timestamp_ms, each.value) for each in records_of(log)] == [(NOW_MS + 1, None)]


def test_cleaned_segment_has_the_newest_modification_time_of_the_replaced_ones(
    log: Log,
) -> None:
    put(log, (b"a", b"1"))
    log.upkeep.roll(NOW_MS)
    path = log.directory / "00000000000000000000.log"
    modified_ns = path.stat().st_mtime_ns
    clean(log)
    assert path.stat().st_mtime_ns == modified_ns


def test_filtered_batch_is_a_valid_batch(log: Log) -> None:
    put(log, (b"a", b"1"), (b"b", None))
    put(log, (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    clean(log)
    region = log.read(
        log.log_start_offset, 10_000, end_offset=log.log_end_offset, min_one_batch=True
    )
    assert read_header(region.read()).record_count == 1


def test_invalid_header_stops_the_cleaning(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    job = job_of(log)
    path = log.directory / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    half = len(data) // 2
    path.write_bytes(data[:half] + bytes(half))
    with pytest.raises(CorruptLogError, match="impossible batch header"):
        run(job)
    path.write_bytes(data[:-5])
    with pytest.raises(CorruptLogError, match="cut short"):
        run(job)


def test_records_that_cannot_be_read_stop_the_cleaning(log: Log) -> None:
    batch = keyed_batch([(b"a", b"1")])
    damaged = with_section(batch, b"\xff" * 20, 1)
    append_at(log, damaged, 0)
    log.upkeep.roll(NOW_MS)
    put(log, (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    # Once while building the map, once while copying.
    for dirty_from in (0, 1):
        job = replace(job_of(log), first_dirty_offset=dirty_from)
        with pytest.raises(CorruptLogError, match="record"):
            run(job)


@pytest.mark.parametrize("value", [b"1", None], ids=["value", "tombstone"])
def test_timestamps_that_are_too_far_apart_do_not_stop_the_cleaning(
    log: Log, value: bytes | None
) -> None:
    # A producer may send them, relative to a base between them.
    far_ms = 2**63 - 1 - NOW_MS
    batch = keyed_batch([(b"a", b"1"), (b"b", b"1"), (b"c", value)], times_ms=[0, 1, 2])
    records = b"".join(
        record_with_delta(delta_ms, number, key, each)
        for number, (delta_ms, key, each) in enumerate(
            [(0, b"a", b"1"), (far_ms, b"b", b"1"), (-far_ms, b"c", value)]
        )
    )
    append_batch(log, with_section(batch, records, 3))
    put(log, (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    for now_ms in (NOW_MS, NOW_MS + 10 * COMPACTED.delete_retention_ms):
        assert clean(log, now_ms=now_ms) == 4
        assert [(each.offset, each.timestamp_ms, each.value) for each in records_of(log)] == [
            (1, far_ms, b"1"),
            (2, -far_ms, value),
            (3, NOW_MS, b"2"),
        ]


def test_a_damaged_transaction_index_stops_the_cleaning(log: Log) -> None:
    put(log, (b"a", b"1"))
    log.upkeep.roll(NOW_MS)
    (log.directory / "00000000000000000000.txnindex").write_bytes(b"\1" * 34)
    with pytest.raises(CorruptLogError, match="version"):
        run(job_of(log))


def test_a_missing_index_does_not_stop_the_cleaning(log: Log) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    job = job_of(log)
    for suffix in ("index", "timeindex"):
        (log.directory / f"00000000000000000000.{suffix}").unlink()
    groups, _ = run(job)
    assert groups == [GroupCleaned(replaced=(0,), size_bytes=groups[0].size_bytes)]


def test_cleaner_sleeps_to_keep_its_rate_limit(log: Log) -> None:
    for number in range(50):
        put(log, (b"%d" % number, b"v" * 100))
    log.upkeep.roll(NOW_MS)
    job = replace(job_of(log), max_bytes_per_second=1_000.0, io_buffer_bytes=200)
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    def clock() -> float:
        nonlocal now_s
        now_s += 0.1
        return now_s

    cleaner = Cleaner(job, seed=SEED, clock=clock, sleep=sleep)
    assert list(cleaner.clean())
    stats = cleaner.stats
    moved = stats.map_bytes_read + stats.bytes_read + stats.bytes_written
    assert moved / 1_000 * 0.9 < now_s < moved / 1_000 * 1.5


def test_worker_reports_each_group_and_the_end(log: Log) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    sink = io.StringIO()
    worker.main(io.StringIO(job_of(log).to_line()), sink)
    group, done = [read_report(line) for line in sink.getvalue().splitlines()]
    assert isinstance(group, GroupCleaned)
    assert isinstance(done, CleaningDone)
    assert done.end_offset == 2


def test_a_cleaning_leaves_the_space_that_appends_need(log: Log) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    job = replace(job_of(log), least_free_bytes=free_bytes(log.directory) * 2)
    sink = io.StringIO()
    worker.main(io.StringIO(job.to_line()), sink)
    failed = read_report(sink.getvalue())
    assert isinstance(failed, CleaningFailed)
    assert not failed.is_damage
    assert f"must leave {job.least_free_bytes} bytes free" in failed.error
    assert [path.stat().st_size for path in log.directory.glob("*.log.cleaned")] == [0]


@pytest.mark.parametrize("is_damage", [False, True])
def test_worker_distinguishes_damage_from_temporary_errors(log: Log, is_damage: bool) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    line = job_of(log).to_line()
    path = log.directory / "00000000000000000000.log"
    if is_damage:
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    else:
        # Retention has deleted the segment.
        path.unlink()
    sink = io.StringIO()
    worker.main(io.StringIO(line), sink)
    (report,) = [read_report(each) for each in sink.getvalue().splitlines()]
    assert isinstance(report, CleaningFailed)
    assert report.is_damage is is_damage


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_worker_without_descriptors_reports_no_damage(log: Log, code: int) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    sink = io.StringIO()
    with failing("open", code, at=lambda path: path.suffix == ".cleaned"):
        worker.main(io.StringIO(job_of(log).to_line()), sink)
    report = read_report(sink.getvalue())
    assert isinstance(report, CleaningFailed)
    assert not report.is_damage


@pytest.mark.parametrize("error", [OverflowError("too large"), MemoryError()])
def test_worker_reports_an_unexpected_error(
    log: Log, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.upkeep.roll(NOW_MS)

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("storage.compaction.cleaner.filter_batch", fail)
    sink = io.StringIO()
    worker.main(io.StringIO(job_of(log).to_line()), sink)
    assert read_report(sink.getvalue()) == CleaningFailed(error=repr(error), is_damage=False)


def test_worker_without_memory_reports_no_damage(log: Log) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    sink = io.StringIO()
    worker.main(io.StringIO(job_of(log, chosen=settings(slot_count=0)).to_line()), sink)
    report = read_report(sink.getvalue())
    assert isinstance(report, CleaningFailed)
    assert not report.is_damage


def test_a_worker_without_a_parent_writes_nothing(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    parents = iter([5, 5, 1])
    monkeypatch.setattr(os, "getppid", lambda: next(parents, 1))
    with pytest.raises(worker.OrphanError):
        worker.main(io.StringIO(job_of(log).to_line()), io.StringIO())
    assert not list(log.directory.glob("*.cleaned"))


def test_swap_of_changed_files_is_refused(log: Log) -> None:
    put(log, (b"a", b"1"), (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    (group,), _ = run(job_of(log))
    assert not log.upkeep.begin_swap(group.replaced, group.size_bytes + 1)
    assert not log.upkeep.begin_swap((0, 1), group.size_bytes)
    remove_all_cleaned(log.directory)
    assert not log.upkeep.begin_swap(group.replaced, group.size_bytes)
    assert not log.upkeep.finish_swap(NOW_MS)
    assert [each.offset for each in records_of(log)] == [0, 1]


def test_truncation_cancels_a_pending_swap(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    (group,), _ = run(job_of(log))
    assert log.upkeep.begin_swap(group.replaced, group.size_bytes)
    log.truncate_to(Offset(1))
    assert not log.upkeep.finish_swap(NOW_MS)
    assert [each.offset for each in records_of(log)] == [0]
    assert not list(log.directory.glob("*.swap"))


def test_a_log_with_a_pending_swap_is_deleted_without_a_descriptor(log: Log) -> None:
    put(log, (b"a", b"1"))
    put(log, (b"a", b"2"))
    log.upkeep.roll(NOW_MS)
    (group,), _ = run(job_of(log))
    assert log.upkeep.begin_swap(group.replaced, group.size_bytes)
    with failing("open", errno.EMFILE):
        directory = log.upkeep.set_aside(DirectoryState.DELETED)
    assert directory.name.endswith("-delete")
    assert directory.exists()


def test_reader_of_a_replaced_segment_can_finish(log: Log) -> None:
    for number in range(8):
        put(log, (b"a", b"%d" % number))
    log.upkeep.roll(NOW_MS)
    end = log.log_end_offset
    region = log.read(Offset(0), 10_000, end_offset=end, min_one_batch=True)
    before = region.read()
    clean(log)
    log.upkeep.remove_deleted_files(NOW_MS)
    log.upkeep.remove_deleted_files(NOW_MS + COMPACTED.file_delete_delay_ms)
    assert region.read() == before
    after = log.read(Offset(0), 10_000, end_offset=end, min_one_batch=True).read()
    assert read_header(after).base_offset == 7
