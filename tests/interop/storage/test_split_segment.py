"""Kafka and Ottla split a segment whose offsets are too far apart into the same files."""

import shutil
from pathlib import Path

import pytest

from tests.interop.kafka_jars import needs_jars
from tests.interop.storage.test_dump_log import complaints, dump
from tests.interop.storage.test_kafka_cleaner import clean_by_kafka
from tests.unit.storage.compacting import COMPACTED
from tests.unit.storage.log.test_segment_split import BASES, make
from tests.unit.storage.logs import NOW_MS, open_log

pytestmark = [
    *needs_jars,
    pytest.mark.skipif(shutil.which("javac") is None, reason="there is no Java compiler"),
]

SUFFIXES = (".log", ".index", ".timeindex")


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix in SUFFIXES}


def test_kafka_splits_a_segment_into_the_same_files(tmp_path: Path) -> None:
    theirs = make(tmp_path / "kafka" / "orders-0")
    ours = Path(shutil.copytree(theirs, tmp_path / "ours" / "orders-0"))
    log = open_log(ours, COMPACTED, was_clean=False)
    assert clean_by_kafka(theirs, NOW_MS, 0, 0, slots=0) == log.log_end_offset
    log.upkeep.close()
    assert [int(path.stem) for path in sorted(ours.glob("*.log"))] == BASES
    assert files(ours) == files(theirs)
    said = dump(sorted(path for path in ours.iterdir() if path.suffix in SUFFIXES))
    assert complaints(said) == []
