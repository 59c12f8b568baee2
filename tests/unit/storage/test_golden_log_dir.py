"""A log dir of a Kafka 3.9.1 broker: our broker opens it, and leaves it as Kafka would.

Made by `python -m tests.interop.storage.golden_log_dir`.
"""

import base64
import json
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from kafkawire.ids import Offset, TopicPartition
from ottla.cli.logs.partition_verification import VerifyOptions
from ottla.cli.logs.verify import verify_directories
from storage.config.log_config import LogConfig
from storage.directory.logs import Logs
from storage.errors import InconsistentMetadataError
from tests.unit.storage.logs import NOW_MS, append, log_of, offsets_in, read, read_all, split

GOLDEN = json.loads(Path(__file__).with_name("golden_log_dir.json").read_text(encoding="utf-8"))
CONFIGS = {"orders": LogConfig(segment_bytes=4_000, index_interval_bytes=500)}
SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
# Start and end offsets of the logs; DeleteRecords has moved the start of the first one.
BOUNDS = {TopicPartition("orders", 0): (7, 84), TopicPartition("orders", 1): (0, 80)}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, data in GOLDEN.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(base64.b64decode(data))
    return tmp_path


def open_logs(directory: Path) -> Logs:
    return Logs.open(
        [directory], config_of=lambda topic: CONFIGS.get(topic, LogConfig()), now_ms=NOW_MS
    )


def stored(name: str) -> bytes:
    return b"".join(
        base64.b64decode(data)
        for path, data in GOLDEN.items()
        if path.startswith(f"{name}/") and path.endswith(".log")
    )


def segment_files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.suffix in SEGMENT_SUFFIXES
    }


@pytest.mark.parametrize("was_clean", [True, False])
def test_our_broker_opens_a_log_dir_of_kafka(directory: Path, was_clean: bool) -> None:
    if not was_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    before = segment_files(directory)
    with capture_logs() as captured:
        logs = open_logs(directory)
    events = {each["event"] for each in captured}
    assert not events & {"index.rebuilt", "log.cut", "log.damaged", "checkpoint.ignored"}
    logs.claim(1, logs.table.directories[0].meta.cluster_id or "")
    for partition, (start, end) in BOUNDS.items():
        log = log_of(logs, partition)
        assert (log.log_start_offset, log.log_end_offset) == (start, end)
        assert logs.checkpoints.high_watermark(partition) == end
        assert log.topic_id is not None
        first = split(read(log, start))[0]
        assert first.base_offset <= start <= first.last_offset
        expected = [batch for batch in split(stored(str(partition))) if batch.last_offset >= start]
        assert read_all(log) == b"".join(batch.data for batch in expected)
        for offset in range(start, end):
            assert split(read(log, offset))[0].last_offset >= offset
        assert len(log.producers) > 0
    logs.close()
    assert segment_files(directory) == before


def test_another_broker_or_cluster_does_not_open_it(directory: Path) -> None:
    logs = open_logs(directory)
    with pytest.raises(InconsistentMetadataError):
        logs.claim(2, logs.table.directories[0].meta.cluster_id or "")
    with pytest.raises(InconsistentMetadataError):
        logs.claim(1, "another")
    logs.close()


def test_the_offline_check_finds_nothing_wrong(directory: Path) -> None:
    results = verify_directories([directory], VerifyOptions(with_records=True))
    assert sum(result.record_count for result in results) > sum(
        end - start for start, end in BOUNDS.values()
    )
    assert [finding for result in results for finding in result.findings] == []


def test_our_appends_continue_the_log_of_kafka(directory: Path) -> None:
    logs = open_logs(directory)
    partition, (_, end) = next(iter(BOUNDS.items()))
    log = log_of(logs, partition)
    assert append(log, epoch=1).base_offset == end
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(0, 7), (1, end)]
    logs.close()
    logs = open_logs(directory)
    assert offsets_in(read(log_of(logs, partition), Offset(end))) == [end]
    logs.close()
    assert [
        finding
        for result in verify_directories([directory], VerifyOptions(with_records=True))
        for finding in result.findings
    ] == []
