"""Transaction markers in the log of a leader."""

from pathlib import Path

import pytest

from kafkawire.ids import LeaderEpoch, Offset
from kafkawire.records import ControlType, TimestampType, read_control_batch, read_header
from storage.config.log_config import LogConfig
from storage.errors import CoordinatorFencedError, InvalidProducerEpochError, LogDirFullError
from storage.log.log import Log
from storage.producers.producer_state import NewMarker
from tests.unit.storage.faults import failing
from tests.unit.storage.logs import NOW_MS, open_log, split
from tests.unit.storage.produced_batches import produced, write

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT
EPOCH = LeaderEpoch(3)


def marker(producer_id: int, kind: ControlType = COMMIT, *, epoch: int = 0) -> NewMarker:
    return NewMarker(producer_id, epoch, kind, 5)


def begin(log: Log, *producer_ids: int) -> None:
    for producer_id in producer_ids:
        write(log, produced(producer_id, 0, is_transactional=True))


def batches_of(log: Log) -> list[bytes]:
    return [
        bytes(batch.data)
        for segment in log.segments
        for batch in split(segment.file.read(0, segment.size_bytes))
    ]


def test_markers_of_one_call_are_written_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    begin(log, 7, 8)
    written: list[str] = []

    def note(path: Path) -> bool:
        written.append(path.suffix)
        return False

    with failing("pwrite", at=note):
        results = log.append_markers([marker(7), marker(8, ABORT), marker(9)], EPOCH, NOW_MS)
    assert results == [2, 3, 4]
    markers = batches_of(log)[2:]
    assert written.count(".log") == 1
    assert [len(each) for each in markers] == [78, 78, 78]
    headers = [read_header(each) for each in markers]
    assert [each.base_offset for each in headers] == [2, 3, 4]
    assert {each.leader_epoch for each in headers} == {EPOCH}
    assert {each.attributes for each in headers} == {0x30}
    ends = [read_control_batch(each) for each in markers]
    assert ends == [(COMMIT, 5), (ABORT, 5), (COMMIT, 5)]
    assert log.last_stable_offset(Offset(5)) == 5
    assert log.leader_epochs.latest == EPOCH


def test_refused_markers_are_not_written(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    begin(log, 7)
    log.append_markers([marker(7, epoch=1)], EPOCH, NOW_MS)
    old, new = marker(7), marker(7, epoch=2)
    fenced = NewMarker(7, 2, COMMIT, 4)
    first, second, third = log.append_markers([old, new, fenced], EPOCH, NOW_MS)
    assert isinstance(first, InvalidProducerEpochError)
    assert second == 2
    assert isinstance(third, CoordinatorFencedError)
    assert log.log_end_offset == 3
    [refused] = log.append_markers([old], EPOCH, NOW_MS)
    assert isinstance(refused, InvalidProducerEpochError)
    assert log.log_end_offset == 3


def test_markers_have_the_append_time_where_records_have_it(tmp_path: Path) -> None:
    config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    log = open_log(tmp_path / "orders-0", config)
    log.append_markers([marker(7)], EPOCH, NOW_MS)
    [batch] = batches_of(log)
    header = read_header(batch)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp_ms == NOW_MS


def test_markers_roll_to_new_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0", LogConfig(segment_bytes=200))
    begin(log, 7)
    results = log.append_markers([marker(7 + n, ABORT) for n in range(5)], EPOCH, NOW_MS)
    assert results == [1, 2, 3, 4, 5]
    assert len(log.segments) > 2
    region = log.read(Offset(0), 1000, end_offset=Offset(6), min_one_batch=True)
    [aborted] = log.aborted_in(region, Offset(0), Offset(6))
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 0, 1)


def test_full_disk_refuses_markers(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0")
    begin(log, 7)
    log.health.note_full("no space left")
    with pytest.raises(LogDirFullError):
        log.append_markers([marker(7)], EPOCH, NOW_MS)
    assert log.log_end_offset == 1
