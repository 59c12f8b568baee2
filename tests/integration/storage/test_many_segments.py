"""A start after a clean shutdown costs little per segment, for any number of segments."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import LeaderEpoch, Offset
from storage.config.log_config import LogConfig
from storage.directory import log_directory, opening
from storage.disk.layout import LEADER_EPOCH_CHECKPOINT, segment_file
from storage.log.epoch_checkpoint import write_epochs
from storage.log.leader_epochs import EpochEntry
from tests.executors import InTurn
from tests.unit.storage.logs import NOW_MS, open_logs, replicated

SEGMENT_COUNT = 2_000
BATCH_BYTES = len(replicated(0))
CONFIG = LogConfig()


def write_segments(directory: Path, count: int) -> None:
    """Write closed segments of one batch each, as a clean shutdown leaves them."""
    directory.mkdir(parents=True)
    for number in range(count):
        segment_file(directory, number, ".log").write_bytes(replicated(number))
        segment_file(directory, number, ".index").write_bytes(b"")
        last_time = NOW_MS.to_bytes(8, "big") + bytes(4)
        segment_file(directory, number, ".timeindex").write_bytes(last_time)
    write_epochs(directory / LEADER_EPOCH_CHECKPOINT, [EpochEntry(LeaderEpoch(0), Offset(0))])


def bytes_read() -> int:
    """Return the number of bytes that this thread has read so far. Source: proc(5)."""
    return int(Path("/proc/thread-self/io").read_text().split()[1])


@pytest.mark.parametrize("partition_count", [1, 100])
def test_start_reads_only_the_last_of_many_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_count: int
) -> None:
    # Reads of other threads do not count: one of them receives the commands of the test runner.
    for module in (opening, log_directory):
        monkeypatch.setattr(module, "ThreadPoolExecutor", InTurn)
    for number in range(partition_count):
        write_segments(tmp_path / f"orders-{number}", SEGMENT_COUNT // partition_count)
    (tmp_path / ".kafka_cleanshutdown").touch()
    before = bytes_read()
    with capture_logs() as captured:
        logs = open_logs(tmp_path, config=CONFIG)
    read = bytes_read() - before
    assert sum(len(each.segments) for each in logs) == SEGMENT_COUNT
    assert {each.log_end_offset for each in logs} == {SEGMENT_COUNT // partition_count}
    assert "index.rebuilt" not in {each["event"] for each in captured}
    # The last segment and small files; a benchmark measures the time.
    assert read < partition_count * 4 * BATCH_BYTES
    logs.close()
