"""Kafka's own cleaner and ours turn the same log into the same bytes."""

import random
import re
import shutil
from pathlib import Path

import pytest

from kafkawire.compression import Codec
from kafkawire.records import BatchHeader, read_records
from storage.compaction.job_maker import CleanerSettings
from storage.log.log import Log
from tests.interop.kafka_jars import needs_jars, run_java
from tests.interop.storage.test_dump_log import complaints, dump, files_of
from tests.unit.storage.busy_log import BusyLog
from tests.unit.storage.compacting import COMPACTED, batches_on_disk, clean, settings
from tests.unit.storage.logs import NOW_MS, open_log

pytestmark = [
    *needs_jars,
    pytest.mark.skipif(shutil.which("javac") is None, reason="there is no Java compiler"),
]

PROGRAM = str(Path(__file__).with_name("CleanLog.java"))
KAFKA_SLOT_BYTES = 24
TOPIC_CONFIG = [
    "cleanup.policy=compact",
    f"segment.bytes={COMPACTED.segment_bytes}",
    f"index.interval.bytes={COMPACTED.index_interval_bytes}",
    f"delete.retention.ms={COMPACTED.delete_retention_ms}",
]


def clean_by_kafka(directory: Path, now_ms: int, dirty_from: int, end: int, slots: int) -> int:
    numbers = (now_ms, dirty_from, end, slots * KAFKA_SLOT_BYTES)
    told = run_java(PROGRAM, str(directory), *map(str, numbers), *TOPIC_CONFIG)
    return int(told.split("end=")[1].split()[0])


def copy_of(log: Log, target: Path) -> Path:
    log.upkeep.close()
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(log.directory, target)
    return target


def files(directory: Path, suffix: str) -> dict[str, bytes]:
    found = {path.name: path.read_bytes() for path in directory.glob(f"*{suffix}")}
    # Kafka may or may not create an empty transaction index.
    return {name: data for name, data in found.items() if data or suffix == ".log"}


def content(directory: Path) -> list[tuple[object, ...]]:
    """Return everything except the compressed bytes, which differ between compressors."""
    return [
        (header._replace(batch_length=0, crc=0), [tuple(each) for each in read_records(batch)])
        for header, batch in batches_on_disk(directory)
    ]


def check_by_kafka(log: Log) -> None:
    """Check that Kafka's dump tool reports only problems that Kafka's own cleaned files have.

    Gaps between offsets are the purpose of cleaning. The tool also misses the records of a batch
    that was kept empty for its producer, since Kafka's index has its timestamp too.
    """
    log.upkeep.close()
    text = dump(files_of(log, ".log", ".index", ".timeindex"), "--deep-iteration")
    expected = ("Non-consecutive offsets in", "Found timestamp mismatch in")
    assert [line for line in complaints(text) if not line.startswith(expected)] == []
    assert set(re.findall(r"Index timestamp: \d+, log timestamp: (-?\d+)", text)) <= {"-1"}


@pytest.mark.parametrize("seed", range(3))
def test_every_round_leaves_the_same_bytes(tmp_path: Path, seed: int) -> None:
    log = open_log(tmp_path / "orders-0", COMPACTED)
    busy = BusyLog(log, random.Random(seed))
    dirty_from, now_ms = 0, NOW_MS + 1_000
    for _ in range(3):
        busy.append_some(60)
        busy.finish()
        theirs = copy_of(log, tmp_path / "kafka" / "orders-0")
        busy.log = log = open_log(tmp_path / "orders-0", COMPACTED)
        end = log.log_end_offset
        before = files(log.directory, ".log")
        assert clean_by_kafka(theirs, now_ms, dirty_from, end, 1_000) == end
        assert clean(log, dirty_from=dirty_from, now_ms=now_ms) == end
        log.upkeep.close()
        assert files(log.directory, ".log") == files(theirs, ".log") != before
        if not dirty_from:
            # In later rounds Kafka's recovery has rebuilt its index from partial transactions.
            assert files(log.directory, ".txnindex") == files(theirs, ".txnindex") != {}
        busy.log = log = open_log(tmp_path / "orders-0", COMPACTED)
        # In the next round some tombstones and markers are past their delete horizon.
        dirty_from, now_ms = end, now_ms + 600
    check_by_kafka(log)


@pytest.mark.parametrize("codec", [each for each in Codec if each is not Codec.NONE])
def test_compressed_batches_contain_the_same_records(tmp_path: Path, codec: Codec) -> None:
    log = open_log(tmp_path / "orders-0", COMPACTED)
    busy = BusyLog(log, random.Random(int(codec)), [codec, Codec.NONE])
    busy.append_some(100)
    busy.finish()
    theirs = copy_of(log, tmp_path / "kafka" / "orders-0")
    log = open_log(tmp_path / "orders-0", COMPACTED)
    clean_by_kafka(theirs, NOW_MS, 0, log.log_end_offset, 1_000)
    clean(log)
    log.upkeep.close()
    assert content(log.directory) == content(theirs)
    check_by_kafka(log)


def test_a_small_map_ends_both_rounds_at_the_same_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path / "orders-0", COMPACTED)
    busy = BusyLog(log, random.Random(5), key_count=200)
    busy.append_some(150)
    busy.finish()
    theirs = copy_of(log, tmp_path / "kafka" / "orders-0")
    log = open_log(tmp_path / "orders-0", COMPACTED)
    few: CleanerSettings = settings(slot_count=31)
    dirty_from, round_count = 0, 0
    while dirty_from < log.log_end_offset:
        end = clean(log, dirty_from=dirty_from, chosen=few)
        assert clean_by_kafka(theirs, NOW_MS, dirty_from, log.log_end_offset, 31) == end
        dirty_from, round_count = end, round_count + 1
    assert round_count > 3
    log.upkeep.close()
    assert kept(log.directory) == kept(theirs)


def kept(directory: Path) -> list[BatchHeader]:
    """Return the batches, without empty ones that ours and Kafka 4.0 keep at the end of a round."""
    return [
        header
        for header, _ in batches_on_disk(directory)
        if header.record_count or header.producer_id >= 0
    ]
