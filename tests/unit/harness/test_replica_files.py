"""Comparison of replicas below the high watermark: `tests.harness.replica_files`."""

import struct
from pathlib import Path

from kafkawire.ids import TopicPartition
from tests.harness.replica_files import differences

HERE = TopicPartition("t", 0)


def batch(base_offset: int, count: int, fill: bytes = b"x") -> bytes:
    body = bytearray(fill * 49)
    body[11:15] = struct.pack(">i", count - 1)
    return struct.pack(">qi", base_offset, len(body)) + bytes(body)


def replica(directory: Path, *segments: bytes) -> Path:
    partition = directory / "t-0"
    partition.mkdir(parents=True)
    for segment in segments:
        (partition / f"{segment[:8].hex()}.log").write_bytes(segment)
    return directory


def test_segments_may_begin_at_other_offsets_and_end_in_zeroes(tmp_path: Path) -> None:
    one = replica(tmp_path / "1", batch(0, 2) + batch(2, 1) + bytes(64))
    two = replica(tmp_path / "2", batch(0, 2), batch(2, 1))
    assert differences({1: one, 2: two}, HERE, 3) == []


def test_difference_above_the_high_watermark_is_ignored(tmp_path: Path) -> None:
    one = replica(tmp_path / "1", batch(0, 2) + batch(2, 2, b"a"))
    two = replica(tmp_path / "2", batch(0, 2) + batch(2, 2, b"b"))
    assert differences({1: one, 2: two}, HERE, 3) == []
    assert differences({1: one, 2: two}, HERE, 4) == [
        "t-0 on broker 2 differs from broker 1 at [2]"
    ]


def test_missing_batch_is_a_difference(tmp_path: Path) -> None:
    one = replica(tmp_path / "1", batch(0, 1) + batch(1, 1))
    two = replica(tmp_path / "2", batch(0, 1))
    assert differences({1: one, 2: two}, HERE, 2) == [
        "t-0 on broker 2 differs from broker 1 at [1]"
    ]
