"""Kafka's own segment code, given our batches one by one, writes the same files as ours."""

import random
import shutil
from pathlib import Path

import pytest

from kafkawire.compression import Codec
from storage.config.log_config import LogConfig
from storage.log.log import Log
from tests.interop.kafka_jars import needs_jars, run_java
from tests.unit.storage.logs import NOW_MS, append, open_log, replicated

pytestmark = [
    *needs_jars,
    pytest.mark.skipif(shutil.which("javac") is None, reason="there is no Java compiler"),
]

PROGRAM = Path(__file__).with_name("WriteSegment.java")
INTERVAL = 500
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=INTERVAL)


def append_some(log: Log, seed: int) -> None:
    """Append as leader and follower, with unsorted and missing times, restarts and truncations."""
    dice = random.Random(seed)
    for number in range(150):
        if dice.random() < 0.2:
            count = dice.randint(1, 12)
            sizes = [(offset, dice.randrange(400)) for offset in range(count)]
            first = log.log_end_offset
            data = b"".join(replicated(first + step, value_bytes=size) for step, size in sizes)
            log.append_as_follower(memoryview(bytearray(data)), NOW_MS)
        else:
            late = dice.choice([-1, NOW_MS - number * 9, NOW_MS + number * 30])
            codec = dice.choice(list(Codec))
            append(log, [late] * dice.randint(1, 9), value_bytes=dice.randrange(300), codec=codec)
        if dice.random() < 0.05:
            log.truncate_to(log.log_end_offset - dice.randrange(1, 30))  # type: ignore[arg-type]


def test_the_files_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "orders-0", tmp_path / "kafka"
    log = open_log(ours, CONFIG)
    for seed in range(4):
        append_some(log, seed)
        log.upkeep.close()
        log = open_log(ours, CONFIG, was_clean=seed != 2)
    log.upkeep.close()
    theirs.mkdir()
    logs = sorted(ours.glob("*.log"))
    run_java(str(PROGRAM), str(INTERVAL), str(theirs), *map(str, logs))
    assert len(logs) > 5
    for suffix in (".log", ".index", ".timeindex"):
        for path in ours.glob(f"*{suffix}"):
            assert path.read_bytes() == (theirs / path.name).read_bytes(), path.name
