"""Kafka reads the producer snapshots of our logs, and we read Kafka's."""

import re
import shutil
from pathlib import Path

import pytest

from storage.config.log_config import LogConfig
from storage.producers.producer_entry import ProducerEntry
from storage.producers.producer_snapshot import decode_snapshot
from tests.interop.kafka_jars import needs_jars, run_java
from tests.unit.storage.logs import NOW_MS, open_log
from tests.unit.storage.produced_batches import follow, marker, produced, write

pytestmark = [
    *needs_jars,
    pytest.mark.skipif(shutil.which("javac") is None, reason="there is no Java compiler"),
]

PROGRAM = str(Path(__file__).with_name("SnapshotFile.java"))
CONFIG = LogConfig(segment_bytes=2_000)
PRODUCERS = (1000, 1001, 2002)


@pytest.fixture
def snapshots(tmp_path: Path) -> list[Path]:
    """The snapshots of a log with three producers: one in a transaction, one without any."""
    log = open_log(tmp_path / "orders-0", CONFIG)
    for number in range(40):
        for producer_id in PRODUCERS:
            write(log, produced(producer_id, 3 * number, 3, epoch=2, timestamp_ms=NOW_MS + number))
    follow(log, produced(5, 0, epoch=1, is_transactional=True))
    follow(log, produced(6, 0, epoch=1, is_transactional=True))
    follow(log, marker(6, 0, epoch=1, coordinator_epoch=4))
    log.upkeep.close()
    found = sorted(log.directory.glob("*.snapshot"))
    assert len(found) > 5
    assert int(found[-1].stem) == log.log_end_offset
    return found


def row(entry: ProducerEntry) -> str:
    last = entry.last_batch
    batch = (last.last_sequence, last.last_offset, last.offset_delta) if last else (-1, -1, 0)
    return ",".join(
        map(
            str,
            (
                entry.producer_id,
                entry.epoch,
                *batch,
                entry.last_timestamp_ms,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            ),
        )
    )


def test_kafkas_code_reads_our_snapshots(snapshots: list[Path]) -> None:
    for path in (snapshots[0], snapshots[-1]):
        rows = [row(entry) for entry in decode_snapshot(path.read_bytes())]
        assert run_java(PROGRAM, "read", str(path)).split() == rows
        assert {int(each.split(",")[0]) for each in rows} >= set(PRODUCERS)


def test_we_read_snapshots_of_kafkas_code(snapshots: list[Path], tmp_path: Path) -> None:
    content = snapshots[-1].read_bytes()
    target = tmp_path / snapshots[-1].name
    run_java(PROGRAM, "write", str(target), *map(row, decode_snapshot(content)))
    assert target.read_bytes() == content


def test_kafkas_dump_tool_shows_our_snapshots(snapshots: list[Path]) -> None:
    text = run_java("kafka.tools.DumpLogSegments", "--files", str(snapshots[-1]))
    told = re.findall(r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+)", text)
    assert told == [
        *((str(each), "2", "-1") for each in PRODUCERS),
        ("5", "1", "-1"),
        ("6", "1", "4"),
    ]
    assert re.findall(r"currentTxnFirstOffset: OptionalLong\[(\d+)\]", text) == ["360"]
    assert re.findall(r"lastSequence: (\d+)", text)[:3] == ["119"] * len(PRODUCERS)
