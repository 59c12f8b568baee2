"""Kafka's dump tool reports nothing before a cleaning, and the same as for Kafka's files after it.

It does report on logs that Kafka's own cleaner has cleaned: that offsets have gaps, which is the
purpose of cleaning, and that the time index has the timestamp of a batch that was kept empty for
its producer. So a cleaned log is compared with the same log after Kafka's cleaner: the output of
the tool must be the same for both, line by line.
"""

import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkawire.compression import Codec
from storage.log.log import Log
from tests.interop.kafka_jars import needs_jars
from tests.interop.storage.test_dump_log import complaints, dump
from tests.interop.storage.test_kafka_cleaner import clean_by_kafka, copy_of
from tests.unit.storage.busy_log import BusyLog
from tests.unit.storage.compacting import COMPACTED, clean
from tests.unit.storage.logs import NOW_MS, open_log

pytestmark = [
    *needs_jars,
    pytest.mark.skipif(shutil.which("javac") is None, reason="there is no Java compiler"),
]

CLEANED_MS = NOW_MS + 1_000
DUMPED = (".log", ".index", ".timeindex", ".txnindex")
INDEXES = (".index", ".timeindex")
REMARKS = {"Non-consecutive offsets", "Found timestamp mismatch"}
# Two compressors do not write the same bytes.
COMPRESSED = re.compile(r"(?<=position: )\d+|(?<=size: )\d+|(?<=crc: )\d+")


def busy_log(directory: Path, seed: int, codecs: Sequence[Codec]) -> Log:
    """A log with every case that compaction distinguishes; all transactions are decided."""
    log = open_log(directory, COMPACTED)
    busy = BusyLog(log, random.Random(seed), codecs)
    busy.append_some(80)
    busy.finish()
    return log


def output_of(directory: Path, place: Path) -> dict[str, str]:
    """Return the tool's output in each mode for a copy at `place`: the output contains paths."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(directory, place)
    found = [path for path in sorted(place.iterdir()) if path.suffix in DUMPED]
    # Kafka may or may not create an empty transaction index.
    files = [path for path in found if path.stat().st_size or path.suffix != ".txnindex"]
    indexes = [path for path in files if path.suffix in INDEXES]
    return {
        "content": dump(files, "--deep-iteration"),
        "verified": dump(indexes, "--verify-index-only"),
        "sanity": dump(indexes, "--index-sanity-check"),
    }


def is_sane(said: str) -> bool:
    """Whether each index has passed the check by which Kafka decides to rebuild it."""
    dumped = said.count("Dumping ")
    return dumped > 0 and said.count(" passed sanity check.") + said.count(" is empty.") == dumped


@pytest.mark.parametrize("seed", range(2))
def test_the_tool_prints_the_same_for_our_cleaned_log_as_for_kafkas(
    tmp_path: Path, seed: int
) -> None:
    place = tmp_path / "dumped" / "orders-0"
    log = busy_log(tmp_path / "ours" / "orders-0", seed, [Codec.NONE])
    theirs = copy_of(log, tmp_path / "kafka" / "orders-0")
    before = output_of(theirs, place)
    assert complaints("".join(before.values())) == []
    assert is_sane(before["sanity"])

    log = open_log(log.directory, COMPACTED)
    end = log.log_end_offset
    assert clean_by_kafka(theirs, CLEANED_MS, 0, end, 1_000) == end
    assert clean(log, now_ms=CLEANED_MS) == end
    log.upkeep.close()
    ours, kafkas = output_of(log.directory, place), output_of(theirs, place)
    assert ours == kafkas
    assert ours["content"] != before["content"]
    assert is_sane(ours["sanity"])
    remarks = complaints(ours["content"] + ours["verified"])
    assert set() < {line.split(" in ")[0] for line in remarks} <= REMARKS


def test_the_tool_prints_the_same_for_compressed_logs(tmp_path: Path) -> None:
    place = tmp_path / "dumped" / "orders-0"
    log = busy_log(tmp_path / "ours" / "orders-0", 9, list(Codec))
    theirs = copy_of(log, tmp_path / "kafka" / "orders-0")
    log = open_log(log.directory, COMPACTED)
    clean_by_kafka(theirs, CLEANED_MS, 0, log.log_end_offset, 1_000)
    clean(log, now_ms=CLEANED_MS)
    log.upkeep.close()
    ours, kafkas = output_of(log.directory, place), output_of(theirs, place)
    assert COMPRESSED.sub("n", ours["content"]) == COMPRESSED.sub("n", kafkas["content"])
    assert is_sane(ours["sanity"])
    assert is_sane(kafkas["sanity"])
