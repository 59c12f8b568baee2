"""The files and checkpoints of a replica, found among the entries of its directories."""

from kafkawire.ids import TopicPartition
from logcheck.file_name import EPOCH_CHECKPOINT, HIGH_WATERMARK, LOG_START
from logcheck.finding import Damage, Finding, Severity
from logcheck.replica_files import Entry, missing_partitions, read_checkpoints, replica_files

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


def test_checkpoint_entry_without_a_directory_is_reported() -> None:
    checkpoints = {HIGH_WATERMARK: {ORDERS: 17, TopicPartition("gone", 1): 4}}
    (found,) = missing_partitions(checkpoints, {ORDERS}, str)
    assert (found.topic, found.partition, found.offset) == ("gone", 1, 4)
    assert found.file == HIGH_WATERMARK
    assert found.severity is Severity.NOTE, "the file is rewritten every few seconds"
    (other,) = missing_partitions({LOG_START: checkpoints[HIGH_WATERMARK]}, {ORDERS}, str)
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
