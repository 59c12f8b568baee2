"""The files and checkpoints of a replica, found among the entries of its directories."""

from dataclasses import replace

import pytest

from kafkawire.ids import TopicPartition
from logcheck.file_name import (
    CLEAN_STOP,
    CLEANER_POINT,
    EPOCH_CHECKPOINT,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
)
from logcheck.finding import Damage, Finding, Severity
from logcheck.history import history_of
from logcheck.replica_files import (
    Entry,
    ReplicaFiles,
    check_checkpoints,
    missing_partitions,
    read_checkpoints,
    replica_files,
    report_orphans,
)

ORDERS = TopicPartition("orders", 0)
LOG = f"{7:020d}.log"
INDEX = f"{7:020d}.index"
SNAPSHOT = f"{9:020d}.snapshot"


def entries(*names: str) -> list[Entry]:
    return [Entry(name, f"root/{name}", is_directory=False, size_bytes=5) for name in names]


def test_unreadable_checkpoint_is_reported_and_hides_no_other() -> None:
    def read_bytes(file: str) -> bytes:
        if file.endswith(LOG_START):
            raise PermissionError(13, "Permission denied")
        return b"0\n1\norders 0 17\n"

    found: list[Finding] = []
    read = read_checkpoints(entries(HIGH_WATERMARK, LOG_START, "notes"), read_bytes, found.append)
    assert read == {HIGH_WATERMARK: {ORDERS: 17}}
    assert [each.damage for each in found] == [Damage.UNREADABLE_FILE]


def test_marker_of_a_clean_stop_is_found() -> None:
    for names, was_stopped in (((CLEAN_STOP,), True), ((), False)):
        read = read_checkpoints(entries(*names), lambda _: b"", lambda _: None)
        files = replica_files(ORDERS, "root", "root/orders-0", entries(LOG), read)
        assert (files.was_stopped, files.has_checkpoints) == (was_stopped, False)


@pytest.mark.parametrize(
    ("name", "was_cut"),
    [
        ("00000000000000000003.log.deleted", True),
        ("00000000000000000003.index.deleted", False),
        ("00000000000000000007.log.deleted", False),
    ],
)
def test_segment_before_the_log_that_waits_for_its_deletion_is_noticed(
    name: str, was_cut: bool
) -> None:
    names = f"{7:020}.log", name
    files = replica_files(ORDERS, "root", "root/orders-0", entries(*names), {})
    assert files.was_cut == was_cut


def orphans_of(
    *names: str, checkpoints: tuple[str, ...] = (), gone: str = "", new: str = ""
) -> list[tuple[str, int | None, Severity]]:
    """Return the reported indexes without a segment; files may come and go since the listing."""
    read = read_checkpoints(entries(*checkpoints), lambda _: b"", lambda _: None)
    files = replica_files(ORDERS, "root", "root/orders-0", entries(*names), read)
    present = {f"root/{name}" for name in (*names, new)} - {f"root/{gone}"}
    found: list[Finding] = []
    report_orphans(files, present.__contains__, found.append)
    assert {each.damage for each in found} <= {Damage.SEGMENT_MISSING}
    return [(each.file, each.offset, each.severity) for each in found]


def test_index_without_its_segment_is_reported_once() -> None:
    names = LOG, f"{3:020}.index", f"{3:020}.timeindex", f"{3:020}.snapshot"
    assert orphans_of(*names) == [(f"root/{3:020}.index", 3, Severity.WARNING)]
    ((_, _, severity),) = orphans_of(*names, checkpoints=(CLEAN_STOP,))
    assert severity is Severity.ERROR, "a broker that started has removed the leftovers"
    assert orphans_of(f"{3:020}.txnindex") == [(f"root/{3:020}.txnindex", 3, Severity.WARNING)]


def test_segment_that_waits_for_its_deletion_explains_its_indexes() -> None:
    assert orphans_of(LOG, f"{3:020}.log.deleted", f"{3:020}.index") == []
    assert orphans_of(LOG, SNAPSHOT) == [], "a snapshot describes the log before it"


def test_segment_that_a_live_broker_creates_or_deletes_is_not_missing() -> None:
    index = f"{3:020}.index"
    assert orphans_of(LOG, index, new=f"{3:020}.log") == []
    assert orphans_of(LOG, index, gone=index) == []


def test_checkpoint_entry_without_a_directory_is_reported() -> None:
    checkpoints = {HIGH_WATERMARK: {ORDERS: 17, TopicPartition("gone", 1): 4}}
    (found,) = missing_partitions(checkpoints, ["orders-0"], str)
    assert (found.topic, found.partition, found.offset) == ("gone", 1, 4)
    assert found.file == HIGH_WATERMARK
    assert found.severity is Severity.NOTE, "the file is rewritten every few seconds"
    (other,) = missing_partitions({LOG_START: checkpoints[HIGH_WATERMARK]}, ["orders-0"], str)
    assert other.severity is Severity.ERROR


@pytest.mark.parametrize("suffix", ["delete", "stray"])
def test_broker_may_die_before_it_drops_the_entries_of_a_partition_that_it_deletes(
    suffix: str,
) -> None:
    starts = {LOG_START: {ORDERS: 17, TopicPartition("gone", 1): 4}}
    names = [f"gone-1.{'0' * 32}-{suffix}", f"gone-2.{'1' * 32}-{suffix}", "orders-0"]
    (found,) = missing_partitions(starts, names, str)
    assert found.severity is Severity.NOTE
    (certain,) = missing_partitions({CLEAN_STOP: {}, **starts}, names, str)
    assert certain.severity is Severity.ERROR
    (other,) = missing_partitions(starts, names[1:], str)
    assert other.severity is Severity.ERROR


def test_files_of_a_replica_are_grouped_by_offset() -> None:
    names = LOG, INDEX, SNAPSHOT, EPOCH_CHECKPOINT, "notes"
    found = replica_files(
        ORDERS, "root", "root/orders-0", entries(*names), {LOG_START: {ORDERS: 7}}
    )
    (segment,) = found.segments
    assert (segment.base_offset, segment.size_bytes, found.size_bytes) == (7, 5, 5)
    assert (segment.index, segment.timeindex) == (f"root/{INDEX}", None)
    assert found.snapshots == ((9, f"root/{SNAPSHOT}"),)
    assert found.epoch_checkpoint == f"root/{EPOCH_CHECKPOINT}"
    assert (found.log_start, found.high_watermark) == (7, None)
    assert found.foreign == ("notes",)


def test_replica_in_a_directory_of_another_name_has_no_checkpoint_offsets() -> None:
    found = replica_files(None, "root", "root/copy", entries(LOG), {LOG_START: {ORDERS: 7}})
    assert (found.topic, found.partition, found.log_start) == ("", -1, None)


def test_checkpoints_beyond_the_end_have_the_certainty_of_the_end() -> None:
    offsets = {name: {ORDERS: 20} for name in (RECOVERY_POINT, HIGH_WATERMARK)}
    files = replica_files(ORDERS, "root", "root/orders-0", entries(LOG), offsets)
    assert findings_of(files, 20) == []
    assert findings_of(files, 19) == [
        (RECOVERY_POINT, 20, Severity.WARNING),
        (HIGH_WATERMARK, 20, Severity.WARNING),
    ]


def test_recovery_point_may_be_beyond_the_end_of_a_log_that_is_being_truncated() -> None:
    offsets = {RECOVERY_POINT: {ORDERS: 20}, HIGH_WATERMARK: {ORDERS: 15}}
    files = replica_files(ORDERS, "root", "root/orders-0", entries(LOG), offsets)
    assert findings_of(files, 15) == [(RECOVERY_POINT, 20, Severity.NOTE)]


def test_high_watermark_may_be_older_than_the_log_start() -> None:
    offsets = {LOG_START: {ORDERS: 9}, HIGH_WATERMARK: {ORDERS: 8}}
    files = replica_files(ORDERS, "root", "root/orders-0", entries(LOG), offsets)
    assert findings_of(files, 20) == [(HIGH_WATERMARK, 8, Severity.NOTE)]


def test_cleaners_point_in_the_active_segment_may_be_the_log_start() -> None:
    """Kafka raises it to the log start, whose own checkpoint is written later."""
    offsets = {CLEANER_POINT: {ORDERS: 8}}
    files = replica_files(ORDERS, "root", "root/orders-0", entries(LOG), offsets)
    assert findings_of(files, 20) == [(CLEANER_POINT, 8, Severity.NOTE)]
    assert findings_of(files, 7) == [(CLEANER_POINT, 8, Severity.WARNING)]
    stopped = replace(files, was_stopped=True)
    assert findings_of(stopped, 20) == [(CLEANER_POINT, 8, Severity.WARNING)]
    assert findings_of(replace(stopped, log_start=8), 20) == []


def findings_of(files: ReplicaFiles, log_end: int) -> list[tuple[str, int | None, Severity]]:
    found: list[Finding] = []
    check_checkpoints(files, log_end, history_of(files).beyond(log_end), str, found.append)
    return [(each.file, each.offset, each.severity) for each in found]
