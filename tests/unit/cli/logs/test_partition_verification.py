"""The verification of one partition whose files change meanwhile."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafkawire.ids import Offset
from logcheck.index_files import IndexBytes, IndexFiles
from logcheck.replica_files import SegmentFiles
from ottla.cli.logs.partition_verification import VerifyOptions, verify_partition
from tests.unit.storage.logs import NOW_MS, SMALL, append, fill, open_log


def test_log_that_a_follower_truncates_after_its_index_was_read_has_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "orders-0", replace(SMALL, segment_bytes=100_000))
    fill(log, 30)
    log.upkeep.flush()
    read, read_count = IndexFiles.read, 0

    def read_and_truncate(self: IndexFiles, files: SegmentFiles) -> IndexBytes:
        nonlocal read_count
        data = read(self, files)
        read_count += 1
        if read_count == 1:
            log.truncate_to(Offset(13))
            for _ in range(30):
                append(log, [NOW_MS] * 7)
            log.upkeep.flush()
        return data

    monkeypatch.setattr(IndexFiles, "read", read_and_truncate)
    result = verify_partition(log.directory, {}, VerifyOptions())
    assert result.findings == []
    assert read_count == 2


def test_damage_in_a_log_at_rest_is_found_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "orders-0")
    fill(log, 30)
    log.upkeep.close()
    index = next((tmp_path / "orders-0").glob("*.index"))
    data = bytearray(index.read_bytes())
    data[7] ^= 1
    index.write_bytes(data)
    read, read_count = IndexFiles.read, 0

    def count(self: IndexFiles, files: SegmentFiles) -> IndexBytes:
        nonlocal read_count
        read_count += 1
        return read(self, files)

    monkeypatch.setattr(IndexFiles, "read", count)
    result = verify_partition(tmp_path / "orders-0", {}, VerifyOptions())
    assert result.findings
    assert read_count == len(log.segments)
