"""Verification of a partition that a live broker moves away meanwhile."""

from pathlib import Path

from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
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
