"""Kafka's own dump tool reads our logs and reports no problem."""

import random
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from kafkawire.compression import Codec
from kafkawire.ids import Offset
from storage.config.log_config import LogConfig
from storage.log.log import Log
from tests.interop.kafka_jars import needs_jars, run_java
from tests.unit.storage.logs import NOW_MS, append, open_log, replicated

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
COMPLAINTS = re.compile(
    r"Mismatches in|Found timestamp mismatch|Found out of order|could not be found|"
    r"Non-consecutive offsets|Exception|isvalid: false",
)

pytestmark = needs_jars


def dump(files: Iterable[Path], *options: str) -> str:
    """Run `kafka-dump-log`; return its output, stderr included."""
    names = ",".join(map(str, files))
    return run_java("kafka.tools.DumpLogSegments", *options, "--files", names)


def files_of(log: Log, *suffixes: str) -> list[Path]:
    return sorted(path for path in log.directory.iterdir() if path.suffix in suffixes)


def complaints(text: str) -> list[str]:
    return [line for line in text.splitlines() if COMPLAINTS.search(line)]


def write(directory: Path, codec: Codec, batch_count: int = 120) -> Log:
    """Write a log with several segments and epochs, unsorted times and batches of many sizes."""
    dice = random.Random(int(codec))
    log = open_log(directory, CONFIG)
    for number in range(batch_count):
        times = [NOW_MS + dice.randrange(10_000) + number * 50 for _ in range(dice.randint(1, 6))]
        size = dice.randrange(300)
        append(log, times, epoch=number // 40, value_bytes=size, codec=codec)
    return log


@pytest.mark.parametrize("codec", list(Codec))
def test_the_dump_tool_reads_logs_in_every_codec(tmp_path: Path, codec: Codec) -> None:
    log = write(tmp_path / "orders-0", codec)
    log.upkeep.close()
    text = dump(files_of(log, ".log"), "--deep-iteration")
    assert complaints(text) == []
    offsets = [int(each) for each in re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE)]
    assert sorted(offsets) == list(range(log.log_end_offset))
    assert set(re.findall(r"compresscodec: (\w+)", text)) == {codec.name.lower()}
    assert set(re.findall(r"partitionLeaderEpoch: (\d+)", text)) == {"0", "1", "2"}


@pytest.mark.parametrize("codec", list(Codec))
def test_indexes_are_verified_entry_by_entry(tmp_path: Path, codec: Codec) -> None:
    log = write(tmp_path / "orders-0", codec)
    log.upkeep.close()
    indexes = files_of(log, ".index", ".timeindex")
    entries = dump(indexes)
    assert complaints(entries) == []
    stored = sum(path.stat().st_size // (8 if path.suffix == ".index" else 12) for path in indexes)
    told = re.findall(r"^(?:offset|timestamp): ", entries, re.MULTILINE)
    assert len(told) == stored > 20
    assert complaints(dump(indexes, "--verify-index-only")) == []
    sanity = dump(indexes, "--index-sanity-check")
    assert sanity.count("passed sanity check") + sanity.count("is empty") == len(indexes)


def test_a_followers_indexes_have_an_entry_per_batch(tmp_path: Path) -> None:
    """Kafka's own followers up to 3.9 fail this check (KAFKA-806)."""
    log = open_log(tmp_path / "orders-0", CONFIG)
    for first in range(0, 600, 50):
        data = b"".join(replicated(first + number) for number in range(50))
        log.append_as_follower(memoryview(data), NOW_MS)
    log.upkeep.close()
    assert complaints(dump(files_of(log, ".index", ".timeindex"), "--verify-index-only")) == []


def test_recovered_and_truncated_logs_pass_too(tmp_path: Path) -> None:
    log = write(tmp_path / "orders-0", Codec.LZ4)
    log.truncate_to(Offset(log.log_end_offset - 77))
    for _ in range(20):
        append(log, [NOW_MS + 20_000], epoch=9)
    path = files_of(log, ".log")[-1]
    path.write_bytes(path.read_bytes() + b"torn")
    for index in files_of(log, ".index", ".timeindex"):
        index.unlink()
    log = open_log(log.directory, CONFIG, was_clean=False)
    log.upkeep.close()
    text = dump(files_of(log, ".log", ".index", ".timeindex"), "--deep-iteration")
    assert complaints(text) == []
    offsets = re.findall(r"^\| offset: (\d+) ", text, re.MULTILINE)
    assert len(offsets) == log.log_end_offset


def test_the_dump_tool_does_report_a_wrong_index(tmp_path: Path) -> None:
    log = write(tmp_path / "orders-0", Codec.NONE)
    log.upkeep.close()
    path = files_of(log, ".index")[0]
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.write_bytes(data)
    assert complaints(dump([path], "--verify-index-only"))
