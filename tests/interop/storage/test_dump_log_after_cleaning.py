"""Kafka's dump tool finds nothing before a cleaning, and after it what it finds in Kafka's files.

It is not silent about what Kafka's own cleaner leaves: it remarks that offsets have holes, which is
the point of it, and that the time index names the timestamp of a batch that was kept empty for its
producer. So the judge of a cleaned log is the same log as Kafka cleans it: all that the tool prints
about both has to be the same, line for line.
"""

import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkawire.compression import Codec
from storage.log import Log
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
    """A log of everything that compaction has to tell apart, all of it decided and closed."""
    log = open_log(directory, COMPACTED)
    busy = BusyLog(log, random.Random(seed), codecs)
    busy.append_some(80)
    busy.finish()
    return log


def everything_said(directory: Path, place: Path) -> dict[str, str]:
    """What the tool prints in each of its modes, of a copy at `place`: paths are part of it."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(directory, place)
    found = [path for path in sorted(place.iterdir()) if path.suffix in DUMPED]
    # Kafka makes an empty transaction index at will.
    files = [path for path in found if path.stat().st_size or path.suffix != ".txnindex"]
    indexes = [path for path in files if path.suffix in INDEXES]
    return {
        "content": dump(files, "--deep-iteration"),
        "verified": dump(indexes, "--verify-index-only"),
        "sanity": dump(indexes, "--index-sanity-check"),
    }


def is_sane(said: str) -> bool:
    """Whether each index has passed the check that decides if Kafka makes it again."""
    dumped = said.count("Dumping ")
    return dumped > 0 and said.count(" passed sanity check.") + said.count(" is empty.") == dumped


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_said_before_a_cleaning_and_the_same_of_ours_and_kafkas_after_it(
    tmp_path: Path, seed: int
) -> None:
    place = tmp_path / "dumped" / "orders-0"
    log = busy_log(tmp_path / "ours" / "orders-0", seed, [Codec.NONE])
    theirs = copy_of(log, tmp_path / "kafka" / "orders-0")
    before = everything_said(theirs, place)
    assert complaints("".join(before.values())) == []
    assert is_sane(before["sanity"])

    log = open_log(log.directory, COMPACTED)
    end = log.log_end_offset
    assert clean_by_kafka(theirs, CLEANED_MS, 0, end, 1_000) == end
    assert clean(log, now_ms=CLEANED_MS) == end
    log.close()
    ours, kafkas = everything_said(log.directory, place), everything_said(theirs, place)
    assert ours == kafkas
    assert ours["content"] != before["content"]
    assert is_sane(ours["sanity"])
    remarks = complaints(ours["content"] + ours["verified"])
    assert set() < {line.split(" in ")[0] for line in remarks} <= REMARKS


def test_the_same_is_said_of_compressed_logs(tmp_path: Path) -> None:
    place = tmp_path / "dumped" / "orders-0"
    log = busy_log(tmp_path / "ours" / "orders-0", 9, list(Codec))
    theirs = copy_of(log, tmp_path / "kafka" / "orders-0")
    log = open_log(log.directory, COMPACTED)
    clean_by_kafka(theirs, CLEANED_MS, 0, log.log_end_offset, 1_000)
    clean(log, now_ms=CLEANED_MS)
    log.close()
    ours, kafkas = everything_said(log.directory, place), everything_said(theirs, place)
    assert COMPRESSED.sub("n", ours["content"]) == COMPRESSED.sub("n", kafkas["content"])
    assert is_sane(ours["sanity"])
    assert is_sane(kafkas["sanity"])
