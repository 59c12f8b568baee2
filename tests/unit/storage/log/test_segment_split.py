"""A segment with an offset range of more than 31 bits is split when its log is loaded."""

import os
import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import Offset
from storage.disk.layout import LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX, segment_file
from storage.log.log import Log
from storage.segment.transaction_index import AbortedTransaction, read_aborted, write_aborted
from tests.unit.storage.faults import dies_within
from tests.unit.storage.logs import SMALL, check_files, open_log, read, read_all, replicated, split

FAR = 2**31
# Three segments' worth of offsets, and a batch that only just belongs to the first.
OFFSETS = (100, 110, 100 + FAR - 1, 100 + FAR, 107 + FAR, 300 + 3 * FAR)
BASES = [100, 100 + FAR, 300 + 3 * FAR, 5 * FAR]
JOINED = b"".join(replicated(offset) for offset in OFFSETS)
LAST = bytes(replicated(5 * FAR) + replicated(5 * FAR + 1))
MODIFIED_NS = 1_600_000_000 * 10**9
MARKERS = (110, 107 + FAR, 300 + 3 * FAR)
ABORTED = [AbortedTransaction(7, Offset(100), Offset(each), Offset(each + 1)) for each in MARKERS]


def make(directory: Path, joined: bytes = JOINED, last: bytes = LAST) -> Path:
    """Create a log as left by a cleaner of Kafka 1.0: a merged segment, and the one behind it."""
    directory.mkdir(parents=True)
    segment_file(directory, 100, LOG_SUFFIX).write_bytes(joined)
    segment_file(directory, 5 * FAR, LOG_SUFFIX).write_bytes(last)
    return directory


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.parametrize("was_clean", [True, False])
def test_split_segments_hold_all_batches(tmp_path: Path, was_clean: bool) -> None:
    directory = make(tmp_path / "orders-0")
    with capture_logs() as events:
        log = open_log(directory, was_clean=was_clean)
    assert bases(log) == BASES
    assert read_all(log) == JOINED + LAST
    assert {each["event"] for each in events} >= {"segment.split"}
    for offset in OFFSETS:
        assert split(read(log, offset))[0].base_offset == offset
    log.upkeep.close()
    check_files(directory)
    assert not list(directory.glob("*.deleted"))


def test_split_segments_keep_the_modification_time(tmp_path: Path) -> None:
    directory = make(tmp_path / "orders-0")
    os.utime(segment_file(directory, 100, LOG_SUFFIX), ns=(MODIFIED_NS, MODIFIED_NS))
    open_log(directory)
    for base_offset in BASES[:-1]:
        path = segment_file(directory, base_offset, LOG_SUFFIX)
        assert path.stat().st_mtime_ns == MODIFIED_NS


def test_split_segments_keep_their_aborted_transactions(tmp_path: Path) -> None:
    directory = make(tmp_path / "orders-0")
    segment_file(directory, 100, TRANSACTION_INDEX_SUFFIX).write_bytes(write_aborted(ABORTED))
    open_log(directory)
    for base_offset, expected in zip(BASES[:-1], ABORTED, strict=True):
        path = segment_file(directory, base_offset, TRANSACTION_INDEX_SUFFIX)
        assert read_aborted(path.read_bytes()) == [expected]


def test_a_crash_at_each_change_of_the_split(tmp_path: Path) -> None:
    template, directory = make(tmp_path / "template"), tmp_path / "orders-0"
    count = 0
    while True:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(template, directory)
        if not dies_within(count, lambda: open_log(directory, was_clean=False)):
            break
        log = open_log(directory, was_clean=False)
        assert bases(log) == BASES
        assert read_all(log) == JOINED + LAST
        log.upkeep.close()
        check_files(directory)
        assert not [path for path in directory.iterdir() if path.suffix in (".swap", ".cleaned")]
        count += 1
    assert count > 20


def test_gap_between_segments_causes_no_split(tmp_path: Path) -> None:
    joined = b"".join(replicated(offset) for offset in OFFSETS[:3])
    directory = make(tmp_path / "orders-0", joined)
    with capture_logs() as events:
        log = open_log(directory, was_clean=False)
    assert bases(log) == [100, 5 * FAR]
    assert read_all(log) == joined + LAST
    assert "segment.split" not in {each["event"] for each in events}


def test_offset_out_of_range_at_the_log_end_is_damage(tmp_path: Path) -> None:
    far = bytes(replicated(5 * FAR + 2) + replicated(9 * FAR))
    directory = make(tmp_path / "orders-0", last=far)
    log = open_log(directory, was_clean=False)
    assert bases(log) == BASES
    assert read_all(log) == JOINED + bytes(replicated(5 * FAR + 2))


def test_split_copies_damaged_records_unchanged(tmp_path: Path) -> None:
    damaged = bytearray(JOINED)
    damaged[70] ^= 0x40
    log = open_log(make(tmp_path / "orders-0", bytes(damaged)))
    assert bases(log) == BASES
    assert b"".join(path.read_bytes() for path in sorted(log.directory.glob("*.log"))) == (
        damaged + LAST
    )


@pytest.mark.parametrize("was_clean", [True, False])
def test_segment_with_damaged_headers_is_not_split(tmp_path: Path, was_clean: bool) -> None:
    damaged = bytearray(JOINED)
    damaged[len(replicated(0)) + 8] ^= 0x40
    directory = make(tmp_path / "orders-0", bytes(damaged))
    with capture_logs() as events:
        log = open_log(directory, was_clean=was_clean, recovery_point=6 * FAR)
    assert segment_file(directory, 100, LOG_SUFFIX).read_bytes() == damaged
    assert {each["event"] for each in events} >= {"segment.not_split", "log.damaged"}
    assert not list(directory.glob("*.cleaned"))
    assert read(log, 100).startswith(replicated(100))
    assert read(log, 5 * FAR) == LAST


def test_transaction_index_of_another_version_prevents_the_split(tmp_path: Path) -> None:
    directory = make(tmp_path / "orders-0")
    path = segment_file(directory, 100, TRANSACTION_INDEX_SUFFIX)
    path.write_bytes(b"\1" + write_aborted(ABORTED)[1:])
    with capture_logs() as events:
        log = open_log(directory)
    assert {each["event"] for each in events} >= {"segment.not_split", "log.damaged"}
    assert read(log, 100) == JOINED


def test_offsets_out_of_order_are_damage(tmp_path: Path) -> None:
    joined = bytes(replicated(100) + replicated(100 + FAR) + replicated(50 + FAR))
    directory = make(tmp_path / "orders-0", joined)
    with capture_logs() as events:
        open_log(directory)
    assert segment_file(directory, 100, LOG_SUFFIX).read_bytes() == joined
    assert {each["event"] for each in events} >= {"segment.not_split"}


def test_split_segments_use_the_current_index_config(tmp_path: Path) -> None:
    joined = b"".join(replicated(200 + number) for number in range(40)) + bytes(replicated(FAR * 4))
    directory = make(tmp_path / "orders-0", joined)
    log = open_log(directory, SMALL)
    assert bases(log) == [100, 4 * FAR, 5 * FAR]
    assert len(log.segments[0].index.offsets) > 5
