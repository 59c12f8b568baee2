"""A start after an orderly stop costs little per segment, however many there are."""

import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from storage.config import LogConfig
from storage.directory import Logs
from storage.layout import segment_file
from tests.unit.storage.logs import NOW_MS, replicated

SEGMENT_COUNT = 10_000
LIMIT_S = 5.0
"""What is promised; measured: 0.3 s."""
CONFIG = LogConfig()


def write_segments(directory: Path, count: int) -> None:
    """Write closed segments of one batch each, as an orderly stop leaves them."""
    directory.mkdir(parents=True)
    for number in range(count):
        segment_file(directory, number, ".log").write_bytes(replicated(number))
        segment_file(directory, number, ".index").write_bytes(b"")
        last_time = NOW_MS.to_bytes(8, "big") + bytes(4)
        segment_file(directory, number, ".timeindex").write_bytes(last_time)


@pytest.mark.parametrize("partition_count", [1, 100])
def test_ten_thousand_segments_load_in_seconds(tmp_path: Path, partition_count: int) -> None:
    for number in range(partition_count):
        write_segments(tmp_path / f"orders-{number}", SEGMENT_COUNT // partition_count)
    (tmp_path / ".kafka_cleanshutdown").touch()
    # Of the processor: the files are in memory, and how busy the machine is proves nothing.
    began_s = time.process_time()
    with capture_logs() as captured:
        logs = Logs.open([tmp_path], config_of=lambda _topic: CONFIG, now_ms=NOW_MS)
    duration_s = time.process_time() - began_s
    assert sum(len(each.segments) for each in logs) == SEGMENT_COUNT
    assert {each.log_end_offset for each in logs} == {SEGMENT_COUNT // partition_count}
    assert "index.rebuilt" not in {each["event"] for each in captured}
    assert duration_s < LIMIT_S
    logs.close()
