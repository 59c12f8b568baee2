"""Verification of a partition that a live broker moves away meanwhile."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from logcheck.finding import Report
from logcheck.local_file import list_directory
from logcheck.replica_files import Checkpoints, Entry, ReadBytes, read_checkpoints
from ottla.cli.logs import verify
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import partition_directories, segment_bytes, verify_directories
from storage.disk.layout import COPIED_TO, MOVED_HERE
from tests.unit.storage.logs import create, fill, open_logs


def test_a_partition_that_moves_to_another_log_dir_has_no_findings(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    two.mkdir()
    logs = open_logs(one)
    log = create(logs)
    fill(log, 200)
    logs.close()
    assert len(log.segments) > 1

    def move(_size_bytes: int) -> None:
        if log.directory.exists():
            log.directory.rename(two / log.directory.name)

    [result] = verify_directories([one], VerifyOptions(on_progress=move))
    assert (two / log.directory.name).exists()
    assert (result.directory, result.findings) == (log.directory, [])
    [moved] = verify_directories([two])
    assert (moved.findings, moved.log_end_offset) == ([], 200)


def test_a_partition_that_moves_here_after_the_listing_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    two.mkdir()
    logs = open_logs(one)
    log = create(logs)
    fill(log, 200)
    logs.close()

    def move_and_read(entries: Sequence[Entry], read: ReadBytes, report: Report) -> Checkpoints:
        if not list(two.iterdir()):
            for path in list(one.iterdir()):
                path.rename(two / path.name)
            entries = list_directory(two)
        return read_checkpoints([each for each in entries if not each.is_directory], read, report)

    monkeypatch.setattr(verify, "read_checkpoints", move_and_read)
    assert [result.findings for result in verify_directories([two])] == []


def test_a_partition_that_vanishes_after_the_listing_has_no_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    fill(log, 20)
    logs.close()
    assert segment_bytes([tmp_path]) > 0

    def list_and_delete(directory: Path) -> list[Path]:
        found = partition_directories(directory)
        log.directory.rename(tmp_path / f"{log.directory.name}.{'0' * 32}-delete")
        return found

    monkeypatch.setattr(verify, "partition_directories", list_and_delete)
    assert segment_bytes([tmp_path]) == 0


@pytest.mark.parametrize("mark", [MOVED_HERE, COPIED_TO])
def test_the_mark_of_a_move_whose_broker_was_killed_is_no_foreign_file(
    tmp_path: Path, mark: str
) -> None:
    logs = open_logs(tmp_path / "one")
    log = create(logs)
    fill(log, 20)
    logs.close()
    (log.directory / mark).touch()
    [result] = verify_directories([tmp_path / "one"])
    assert result.findings == []
