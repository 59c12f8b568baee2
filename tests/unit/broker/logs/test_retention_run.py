"""A run of retention over all logs: `broker.logs.retention_run`."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.logs.retention_run import SEGMENTS_PER_TURN, delete_expired_logs
from kafkawire.ids import Offset, TopicPartition
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.log.log import Log
from tests.unit.storage.logs import NOW_MS, append, fill, open_logs

OLD = LogConfig(segment_bytes=100, retention_ms=1_000)
COMPACTED = LogConfig(
    segment_bytes=100, retention_ms=1_000, cleanup_policy=frozenset({"compact", "delete"})
)
LATER_MS = NOW_MS + 5_000


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return open_logs(tmp_path / "one", tmp_path / "two", config=OLD)


def create(logs: Logs, number: int, config: LogConfig = OLD) -> Log:
    log = logs.create(TopicPartition("orders", number), config, None, now_ms=NOW_MS)
    fill(log, 3 * SEGMENTS_PER_TURN)
    return log


def committed(logs: Logs, partition: TopicPartition) -> Offset | None:
    log = logs.get(partition)
    return None if log is None else log.log_end_offset


async def run(logs: Logs) -> None:
    await delete_expired_logs(logs, lambda partition: committed(logs, partition), lambda: LATER_MS)


async def test_every_log_is_checked_however_many_segments_expire(logs: Logs) -> None:
    made = [create(logs, number) for number in range(3)]
    assert all(len(log.segments) > 2 * SEGMENTS_PER_TURN for log in made)
    await run(logs)
    assert [log.log_start_offset for log in made] == [log.log_end_offset for log in made]
    assert [len(log.segments) for log in made] == [1, 1, 1]


async def test_compacted_topics_are_left_to_the_cleaner(logs: Logs) -> None:
    log = create(logs, 0, COMPACTED)
    await run(logs)
    assert log.log_start_offset == 0


async def test_partition_that_is_not_served_is_skipped(logs: Logs) -> None:
    log = create(logs, 0)
    await delete_expired_logs(logs, lambda _partition: None, lambda: LATER_MS)
    assert log.log_start_offset == 0


async def test_failing_disk_stops_only_its_own_logs(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = create(logs, 0), create(logs, 1)
    assert bad.directory.parent != good.directory.parent
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        if path.parent == bad.directory:
            raise OSError(5, "broken")
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with capture_logs() as captured:
        await run(logs)
    assert [each["partition"] for each in captured if each["event"] == "retention.failed"] == [
        "orders-0"
    ]
    assert good.log_start_offset == good.log_end_offset
    assert append(good).base_offset == good.log_start_offset
    await run(logs)
    assert logs.table.offline_paths == (bad.directory.parent,)
